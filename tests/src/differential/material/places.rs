//! Places on the earth, and the parts of streams.
//!
//! A member of a geo set has its own spot, which it leaves only a little, so that no two members
//! are equally far from a third: servers may order equals as they like.

use super::Material;
use crate::random::Random;

/// Words that come in groups or follow from one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Longitude, latitude and member.
    Point,
    /// A member.
    Member,
    /// Longitude and latitude.
    Position,
    /// A radius and its unit.
    Radius,
    /// Width, height and unit.
    Box,
    /// The id of a new entry, mostly above all before it.
    NewId,
    /// The id of an entry that may be there.
    Id,
    /// An id without its second half, or with it.
    BareId,
    /// A bound of a range of ids.
    IdBound,
    /// A consumer group.
    Group,
    /// A consumer.
    Consumer,
    /// Keys of two streams and an id for each.
    StreamsAndIds,
    /// Keys of two streams and for each what a group has not seen, or its history.
    StreamsForGroup,
}

impl Place {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "point" => Self::Point,
            "spot" => Self::Member,
            "position" => Self::Position,
            "radius" => Self::Radius,
            "box" => Self::Box,
            "new-id" => Self::NewId,
            "id" => Self::Id,
            "bare-id" => Self::BareId,
            "id-bound" => Self::IdBound,
            "group" => Self::Group,
            "consumer" => Self::Consumer,
            "streams-and-ids" => Self::StreamsAndIds,
            "streams-for-group" => Self::StreamsForGroup,
            _ => return None,
        })
    }
}

const UNITS: [&str; 5] = ["m", "km", "ft", "mi", "KM"];

/// Members of a geo set at low thresholds; a few more than the threshold.
const SPOTS: usize = 14;

impl Material {
    pub(super) fn place(&mut self, place: Place, random: &mut Random, out: &mut Vec<Vec<u8>>) {
        let words = match place {
            Place::Point => self.point(random),
            Place::Member => vec![format!("spot{}", self.spot(random))],
            Place::Position => position(random),
            Place::Radius => vec![radius(random), random.pick(&UNITS).to_string()],
            Place::Box => vec![radius(random), radius(random), random.pick(&UNITS).to_string()],
            Place::NewId => vec![self.new_id(random)],
            Place::Id => vec![self.id(random)],
            Place::BareId => vec![self.bare_id(random)],
            Place::IdBound => vec![match random.below(8) {
                0 | 1 => "-".to_owned(),
                2 | 3 => "+".to_owned(),
                4 => format!("({}", self.id(random)),
                _ => self.bare_id(random),
            }],
            Place::Group => vec![random.pick(&["g1", "g1", "g1", "g2", "g3", "gone"]).to_string()],
            Place::Consumer => vec![random.pick(&["c1", "c2", "c3", ""]).to_string()],
            Place::StreamsAndIds | Place::StreamsForGroup => {
                return self.streams(place, random, out);
            }
        };
        out.extend(words.into_iter().map(String::into_bytes));
    }

    fn spot(&self, random: &mut Random) -> usize {
        random.below(if self.members > 100 { 200 } else { SPOTS })
    }

    fn point(&self, random: &mut Random) -> Vec<String> {
        let spot = self.spot(random);
        let (x, y) = ((spot * 37 % 200) as f64, (spot * 73 % 200) as f64);
        let jitter = random.below(3) as f64 * 0.0137;
        let longitude = 10.0 + x * 0.0713 + y * 0.0009 + jitter;
        let latitude = 40.0 + y * 0.0411 + x * 0.0007 + jitter;
        match random.below(40) {
            0 => vec!["181".to_owned(), format!("{latitude}"), format!("spot{spot}")],
            1 => vec![format!("{longitude}"), "-85.06".to_owned(), format!("spot{spot}")],
            _ => vec![format!("{longitude:.6}"), format!("{latitude:.6}"), format!("spot{spot}")],
        }
    }

    fn new_id(&mut self, random: &mut Random) -> String {
        match random.below(20) {
            0 => self.id(random),
            1 => self.bare_id(random),
            2 => format!("{}-*", self.stream_ms),
            _ => {
                self.stream_ms += random.between(0, 2);
                format!("{}-{}", self.stream_ms, random.below(4))
            }
        }
    }

    fn id(&self, random: &mut Random) -> String {
        let back = random.below(if self.members > 100 { 120 } else { 24 }) as i64;
        format!("{}-{}", (self.stream_ms + 1 - back).max(0), random.below(4))
    }

    fn bare_id(&self, random: &mut Random) -> String {
        match random.below(3) {
            0 => (self.stream_ms + 1 - random.below(24) as i64).max(0).to_string(),
            _ => self.id(random),
        }
    }

    fn streams(&mut self, place: Place, random: &mut Random, out: &mut Vec<Vec<u8>>) {
        let count = 1 + random.below(2);
        for _ in 0..count {
            out.push(self.key(super::Kind::Stream, random));
        }
        for _ in 0..count {
            let id = match (place, random.below(5)) {
                (Place::StreamsForGroup, 0..=3) => ">".to_owned(),
                (Place::StreamsAndIds, 0 | 1) if self.waits => "$".to_owned(),
                (Place::StreamsAndIds, 0) => random.pick(&["$", "+", "0"]).to_string(),
                (Place::StreamsAndIds, 1) => "0".to_owned(),
                _ => self.bare_id(random),
            };
            out.push(id.into_bytes());
        }
    }
}

fn position(random: &mut Random) -> Vec<String> {
    let longitude = 10.0 + random.below(150_000) as f64 * 0.0001 + 0.000_037;
    let latitude = 40.0 + random.below(90_000) as f64 * 0.0001 + 0.000_053;
    match random.below(30) {
        0 => vec!["200".to_owned(), "10".to_owned()],
        _ => vec![format!("{longitude:.6}"), format!("{latitude:.6}")],
    }
}

fn radius(random: &mut Random) -> String {
    match random.below(12) {
        0 => "0".to_owned(),
        1 => "-1".to_owned(),
        2 => "20000".to_owned(),
        _ => format!("{}", random.between(1, 900)),
    }
}

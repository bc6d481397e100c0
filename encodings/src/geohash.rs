//! Places on earth as numbers of 52 bits, and the areas that a search has to look at.
//!
//! ```text
//! position   26 bits of latitude in the even places from bit 0, 26 of longitude in the odd ones:
//!            halves of the range, from the largest on
//! cell       the same with fewer bits, `step` for each of both: all positions that begin so
//! ```
//!
//! Longitudes run from -180 to 180 and latitudes from -85.05112878 to 85.05112878 (EPSG:900913).
//! Distances are those of the haversine formula on a sphere. All constants, and the choice of cells,
//! are Redis's, whose answers must be the same (`geohash.c` and `geohash_helper.c` there).

/// The number of bits of each coordinate in a position.
pub const STEP_MAX: u8 = 26;

const LONGITUDE_MAX: f64 = 180.0;
const LATITUDE_MAX: f64 = 85.051_128_78;
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
const MERCATOR_MAX_M: f64 = 20_037_726.37;

/// A point in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// East of Greenwich.
    pub longitude: f64,
    /// North of the equator.
    pub latitude: f64,
}

/// A range of degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    min: f64,
    max: f64,
}

const LONGITUDES: Range = Range { min: -LONGITUDE_MAX, max: LONGITUDE_MAX };
const LATITUDES: Range = Range { min: -LATITUDE_MAX, max: LATITUDE_MAX };

impl Range {
    /// Which one of `2^step` parts a number lies in.
    fn part(self, value: f64, step: u8) -> u32 {
        let offset = (value - self.min) / (self.max - self.min);
        (offset * (1u64 << step) as f64) as u32
    }

    fn of_part(self, part: u32, step: u8) -> Range {
        let (scale, parts) = (self.max - self.min, (1u64 << step) as f64);
        let edge = |part: u32| self.min + (f64::from(part) * 1.0 / parts) * scale;
        Range { min: edge(part), max: edge(part.wrapping_add(1)) }
    }

    fn middle(self) -> f64 {
        f64::midpoint(self.min, self.max)
    }
}

impl Point {
    /// A point, if there is such a one.
    pub fn new(longitude: f64, latitude: f64) -> Option<Point> {
        let known = longitude.abs() <= LONGITUDE_MAX && latitude.abs() <= LATITUDE_MAX;
        known.then_some(Point { longitude, latitude })
    }

    /// The position of a point, a number of 52 bits.
    pub fn encode(self) -> u64 {
        Cell::of(self, STEP_MAX).bits
    }

    /// The middle of the position that a score is, whatever else it may be.
    pub fn of_score(score: f64) -> Point {
        // As a conversion in C does on x86-64, where a number below 0 or too large wraps.
        const HALF: f64 = (1u64 << 63) as f64;
        let signed = |number: f64| if number.abs() < HALF { number as i64 } else { i64::MIN };
        let position =
            if score < HALF { signed(score) as u64 } else { signed(score - HALF) as u64 ^ 1 << 63 };
        Point::decode(position)
    }

    /// The middle of a position.
    pub fn decode(position: u64) -> Point {
        let area = Cell { bits: position, step: STEP_MAX }.area();
        Point {
            longitude: area.longitude.middle().clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: area.latitude.middle().clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The geohash of eleven letters that other programs know. It has latitudes from -90 to 90, and
    /// its last letter is always 0, as there are no bits for it.
    pub fn text(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let latitude = Range { min: -90.0, max: 90.0 }.part(self.latitude, STEP_MAX);
        let bits = interleave(latitude, LONGITUDES.part(self.longitude, STEP_MAX));
        std::array::from_fn(|index| match index {
            10 => LETTERS[0],
            _ => LETTERS[(bits >> (52 - (index + 1) * 5)) as usize & 0x1f],
        })
    }

    /// The distance of two points in meters.
    pub fn distance(self, other: Point) -> f64 {
        match haversine(self, radians(self.latitude).cos(), other) {
            Some(haversine) => arc(haversine),
            None => latitude_distance(self.latitude, other.latitude),
        }
    }
}

/// The haversine of the angle between two points, `None` on the same meridian.
fn haversine(a: Point, cos_latitude: f64, b: Point) -> Option<f64> {
    let v = ((radians(b.longitude) - radians(a.longitude)) / 2.0).sin();
    if v == 0.0 {
        return None;
    }
    let latitude = radians(b.latitude);
    let u = ((latitude - radians(a.latitude)) / 2.0).sin();
    Some(u * u + cos_latitude * latitude.cos() * v * v)
}

/// The distance in meters that belongs to a haversine.
fn arc(haversine: f64) -> f64 {
    2.0 * EARTH_RADIUS_M * haversine.sqrt().asin()
}

fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

fn latitude_distance(a: f64, b: f64) -> f64 {
    EARTH_RADIUS_M * (radians(b) - radians(a)).abs()
}

/// Puts a zero bit in front of each bit.
fn spread(bits: u32) -> u64 {
    let mut bits = u64::from(bits);
    bits = (bits | bits << 16) & 0x0000_ffff_0000_ffff;
    bits = (bits | bits << 8) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits << 2) & 0x3333_3333_3333_3333;
    (bits | bits << 1) & EVEN
}

/// Takes the bits in the even places together.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & EVEN;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
    (bits | bits >> 16) as u32
}

fn interleave(even: u32, odd: u32) -> u64 {
    spread(even) | spread(odd) << 1
}

const EVEN: u64 = 0x5555_5555_5555_5555;
const ODD: u64 = !EVEN;

/// All positions that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bits: u64,
    step: u8,
}

struct Area {
    longitude: Range,
    latitude: Range,
}

impl Cell {
    fn of(point: Point, step: u8) -> Cell {
        let latitude = LATITUDES.part(point.latitude, step);
        Cell { bits: interleave(latitude, LONGITUDES.part(point.longitude, step)), step }
    }

    fn area(self) -> Area {
        Area {
            longitude: LONGITUDES.of_part(gather(self.bits >> 1), self.step),
            latitude: LATITUDES.of_part(gather(self.bits), self.step),
        }
    }

    /// The cell so many cells to the east and to the north, around the edges.
    fn beside(self, east: i8, north: i8) -> Cell {
        let shift = 64 - u32::from(self.step) * 2;
        let moved = |bits: u64, ones: u64, others: u64, by: i8| {
            // The bits of the other coordinate carry over what is counted here.
            let ones = ones >> shift;
            match by {
                0 => bits,
                1.. => bits.wrapping_add((others >> shift).wrapping_add(1)) & ones,
                _ => {
                    (bits | others >> shift).wrapping_sub((others >> shift).wrapping_add(1)) & ones
                }
            }
        };
        let longitude = moved(self.bits & ODD, ODD, EVEN, east);
        let latitude = moved(self.bits & EVEN, EVEN, ODD, north);
        Cell { bits: longitude | latitude, ..self }
    }

    /// The positions of its points, from one up to before another.
    fn positions(self) -> std::ops::Range<u64> {
        let shift = 52 - u32::from(self.step) * 2;
        self.bits << shift..(self.bits + 1) << shift
    }
}

/// What a search is limited to, in meters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// All that is not farther from the center.
    Circle {
        /// The farthest distance.
        radius: f64,
    },
    /// All that is not farther to the east or west, and to the north or south.
    Box {
        /// From west to east.
        width: f64,
        /// From south to north.
        height: f64,
    },
}

/// A search around a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    center: Point,
    shape: Shape,
    cos_latitude: f64,
    sin_latitude: f64,
    /// What has a larger haversine is of no interest.
    haversine_max: f64,
}

impl Search {
    /// A search for what a shape around a point holds.
    pub fn new(center: Point, shape: Shape) -> Self {
        let latitude = radians(center.latitude);
        let (sin_latitude, cos_latitude) = (latitude.sin(), latitude.cos());
        let mut search =
            Search { center, shape, cos_latitude, sin_latitude, haversine_max: f64::INFINITY };
        if let Shape::Circle { radius } = shape {
            search.narrow(radius);
        }
        search
    }

    /// Leaves out what is farther from the center.
    pub fn narrow(&mut self, distance: f64) {
        let half_angle = distance / EARTH_RADIUS_M / 2.0;
        if half_angle < std::f64::consts::FRAC_PI_2 {
            // A little more than is exact, as this only spares the exact comparison.
            self.haversine_max = half_angle.sin().powi(2) * (1.0 + 1e-9) + 1e-18;
        }
    }

    /// No more than the haversine of the angle to a point, by the first terms of the series.
    fn haversine_min(&self, point: Point) -> f64 {
        let sin_min = |angle: f64| (angle - angle * angle * angle / 6.0).max(0.0);
        let up = radians(point.latitude) - radians(self.center.latitude);
        let aside = (radians(point.longitude) - radians(self.center.longitude)).abs();
        let turn = up.abs();
        let toward_pole = up * self.sin_latitude >= 0.0;
        let sine = if toward_pole { -turn } else { sin_min(turn) };
        let cos_min =
            self.cos_latitude * (1.0 - turn * turn / 2.0) + self.sin_latitude.abs() * sine;
        let (u, v) = (sin_min(turn / 2.0), sin_min(aside / 2.0));
        u * u + self.cos_latitude * cos_min.max(0.0) * v * v
    }

    /// The distance of a point from the center, if it is within the shape and of interest.
    pub fn distance_within(&self, point: Point) -> Option<f64> {
        if self.haversine_min(point) > self.haversine_max {
            return None;
        }
        let distance = || match haversine(self.center, self.cos_latitude, point) {
            Some(haversine) => arc(haversine),
            None => latitude_distance(self.center.latitude, point.latitude),
        };
        match self.shape {
            Shape::Circle { radius } => Some(distance()).filter(|distance| *distance <= radius),
            Shape::Box { width, height } => {
                if latitude_distance(point.latitude, self.center.latitude) > height / 2.0 {
                    return None;
                }
                let level = Point { latitude: point.latitude, ..self.center };
                (point.distance(level) <= width / 2.0).then(distance)
            }
        }
    }

    /// The longitudes and latitudes that the shape reaches.
    fn bounds(&self) -> Area {
        let (half_width, half_height) = match self.shape {
            Shape::Circle { radius } => (radius, radius),
            Shape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        let Point { longitude, latitude } = self.center;
        let up = degrees(half_height / EARTH_RADIUS_M);
        // Where the meridians lie closer together.
        let narrow = if latitude < 0.0 { latitude - up } else { latitude + up };
        let aside = degrees(half_width / EARTH_RADIUS_M / radians(narrow).cos());
        Area {
            longitude: Range { min: longitude - aside, max: longitude + aside },
            latitude: Range { min: latitude - up, max: latitude + up },
        }
    }

    /// A step whose cells are about as large as the shape.
    fn step(&self) -> u8 {
        let radius = match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        };
        if radius == 0.0 {
            return STEP_MAX;
        }
        let (mut step, mut reach) = (1i32, radius);
        while reach < MERCATOR_MAX_M {
            reach *= 2.0;
            step += 1;
        }
        step -= 2;
        let latitude = self.center.latitude.abs();
        step -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        step.clamp(1, i32::from(STEP_MAX)) as u8
    }

    /// The positions to look at, as up to nine ranges, in Redis's order: the cell of the center, then
    /// those around it that the shape reaches.
    pub fn ranges(&self) -> Vec<std::ops::Range<u64>> {
        let bounds = self.bounds();
        let mut step = self.step();
        let mut cell = Cell::of(self.center, step);
        let covers = |cell: Cell| {
            let area = |east, north| cell.beside(east, north).area();
            area(0, 1).latitude.max >= bounds.latitude.max
                && area(0, -1).latitude.min <= bounds.latitude.min
                && area(1, 0).longitude.max >= bounds.longitude.max
                && area(-1, 0).longitude.min <= bounds.longitude.min
        };
        if step > 1 && !covers(cell) {
            step -= 1;
            cell = Cell::of(self.center, step);
        }
        let area = cell.area();
        let exact = step >= 2;
        let within = |east: i8, north: i8| {
            let (longitude, latitude) = (area.longitude, area.latitude);
            let south = north < 0 && latitude.min < bounds.latitude.min;
            let up = north > 0 && latitude.max > bounds.latitude.max;
            let west = east < 0 && longitude.min < bounds.longitude.min;
            let aside = east > 0 && longitude.max > bounds.longitude.max;
            !exact || !(south || up || west || aside)
        };
        const ORDER: [(i8, i8); 9] =
            [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut ranges = Vec::with_capacity(9);
        let mut last = None;
        for (east, north) in ORDER {
            if !within(east, north) {
                continue;
            }
            let cell = cell.beside(east, north);
            // With few large cells neighbours may be one; so far the first cell is not looked at.
            if last == Some(cell) {
                continue;
            }
            if (east, north) != (0, 0) {
                last = Some(cell);
            }
            ranges.push(cell.positions());
        }
        ranges
    }
}

#[cfg(test)]
mod tests;

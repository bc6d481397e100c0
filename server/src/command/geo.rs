//! Geo commands: sorted sets whose scores are positions on earth, see [`encodings::geohash`].

use std::cmp::Ordering;

use encodings::double;
use encodings::geohash::{Point, Search, Shape};
use encodings::integer::parse_i64;
use engine::{Event, Member, Members, Scored};

use super::args::{Args, Cursor};
use super::dispatch::{CommandCtx, CommandResult};
use super::error::{CommandError, NOT_A_FLOAT, NOT_AN_INTEGER, SYNTAX};
use super::sorted_set::{AddOptions, answer_added};
use super::spec::{Command, Family, Group, KeySpec, Keyword, Reach, acl, flag, key_flag as key};
use super::string::answer_string;
use crate::resp::Reply;

const STORE: Keyword = Keyword { word: "STORE", options: &[], reach: Reach::Next };
const STOREDIST: Keyword = Keyword { word: "STOREDIST", ..STORE };
const SOURCE: KeySpec = KeySpec::one(1, key::RO | key::ACCESS);
const TARGETS: u16 = key::OW | key::UPDATE;

const READ: &[KeySpec] = &[SOURCE];
const UPDATE: &[KeySpec] = &[KeySpec::one(1, key::RW | key::UPDATE)];
const STORE_FOUND: &[KeySpec] = &[KeySpec::one(1, TARGETS), KeySpec::one(2, key::RO | key::ACCESS)];
const MAY_STORE: &[KeySpec] =
    &[SOURCE, KeySpec::behind(STORE, 6, TARGETS), KeySpec::behind(STOREDIST, 6, TARGETS)];
const MAY_STORE_BY_MEMBER: &[KeySpec] =
    &[SOURCE, KeySpec::behind(STORE, 5, TARGETS), KeySpec::behind(STOREDIST, 5, TARGETS)];

const GROWTH: u32 = flag::WRITE | flag::DENYOOM;

const LOG_EACH: &str = "O(log(N)) for each member named";
const FOUND: &str =
    "O(N+log(M)) with the members in the cells around the shape and those within the shape";

const GEO: Family = Family { group: Group::Geo, categories: acl::GEO };

/// The rows of this family.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    GEO.row("geoadd", -5, GROWTH, geoadd, UPDATE, "3.2.0", LOG_EACH,
        "Gives members of a geo set their positions; creates the set if needed."),
    GEO.row("geodist", -4, flag::READONLY, geodist, READ, "3.2.0", "O(1)",
        "Tells the distance between two members."),
    GEO.row("geohash", -2, flag::READONLY, geohash, READ, "3.2.0", "O(1) for each member named",
        "Tells the geohashes of members."),
    GEO.row("geopos", -2, flag::READONLY, geopos, READ, "3.2.0", "O(1) for each member named",
        "Tells the longitudes and latitudes of members."),
    GEO.row("georadius", -6, GROWTH | flag::MOVABLE_KEYS, georadius, MAY_STORE, "3.2.0", FOUND,
        "Answers or stores the members within a circle around a point."),
    GEO.row("georadius_ro", -6, flag::READONLY, georadius_ro, READ, "3.2.10", FOUND,
        "Answers the members within a circle around a point."),
    GEO.row("georadiusbymember", -5, GROWTH | flag::MOVABLE_KEYS, georadiusbymember,
        MAY_STORE_BY_MEMBER, "3.2.0", FOUND,
        "Answers or stores the members within a circle around a member."),
    GEO.row("georadiusbymember_ro", -5, flag::READONLY, georadiusbymember_ro, READ, "3.2.10", FOUND,
        "Answers the members within a circle around a member."),
    GEO.row("geosearch", -7, flag::READONLY, geosearch, READ, "6.2.0", FOUND,
        "Answers the members within a circle or a box around a point or a member."),
    GEO.row("geosearchstore", -8, GROWTH, geosearchstore, STORE_FOUND, "6.2.0", FOUND,
        "Stores the members within a circle or a box around a point or a member."),
];

/// Takes a longitude and a latitude.
fn point(cursor: &mut Cursor<'_>) -> Result<Point, CommandError> {
    let longitude = number(cursor, NOT_A_FLOAT)?;
    let latitude = number(cursor, NOT_A_FLOAT)?;
    Point::new(longitude, latitude).ok_or_else(|| {
        CommandError::text(format!(
            "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
        ))
    })
}

fn number(cursor: &mut Cursor<'_>, refusal: CommandError) -> Result<f64, CommandError> {
    double::parse(cursor.next().ok_or(SYNTAX)?).ok_or(refusal)
}

/// How many meters a unit has.
fn meters(name: &[u8]) -> Result<f64, CommandError> {
    const UNITS: [(&[u8], f64); 4] =
        [(b"m", 1.0), (b"km", 1000.0), (b"ft", 0.3048), (b"mi", 1609.34)];
    let unit = UNITS.iter().find(|(unit, _)| name.eq_ignore_ascii_case(unit));
    unit.map(|(_, meters)| *meters)
        .ok_or(CommandError::new("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// Takes a radius and its unit.
fn circle(cursor: &mut Cursor<'_>) -> Result<(Shape, f64), CommandError> {
    let radius = number(cursor, CommandError::new("ERR need numeric radius"))?;
    if radius < 0.0 {
        return Err(CommandError::new("ERR radius cannot be negative"));
    }
    let unit = meters(cursor.next().ok_or(SYNTAX)?)?;
    Ok((Shape::Circle { radius: radius * unit }, unit))
}

/// Takes a width, a height and their unit.
fn rectangle(cursor: &mut Cursor<'_>) -> Result<(Shape, f64), CommandError> {
    let width = number(cursor, CommandError::new("ERR need numeric width"))?;
    let height = number(cursor, CommandError::new("ERR need numeric height"))?;
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::new("ERR height or width cannot be negative"));
    }
    let unit = meters(cursor.next().ok_or(SYNTAX)?)?;
    Ok((Shape::Box { width: width * unit, height: height * unit }, unit))
}

fn position_of(set: &Members<'_>, name: &[u8]) -> Option<Point> {
    set.get(name).map(|member| Point::of_score(member.score))
}

/// Answers a distance with four digits behind the point.
fn answer_distance(reply: &mut Reply, distance: f64) {
    let scaled = (distance * 10_000.0).round_ties_even() as u64;
    reply.bulk(format!("{}.{:04}", scaled / 10_000, scaled % 10_000).as_bytes());
}

fn answer_point(reply: &mut Reply, point: Point) {
    reply.array(2);
    reply.double(point.longitude);
    reply.double(point.latitude);
}

fn geoadd(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let args = ctx.args;
    let mut options = AddOptions::default();
    let mut cursor = args.cursor(2);
    loop {
        match () {
            () if cursor.accept("nx") => options.nx = true,
            () if cursor.accept("xx") => options.xx = true,
            () if cursor.accept("ch") => options.ch = true,
            () => break,
        }
    }
    let (first, count) = (cursor.position(), cursor.remaining());
    if count == 0 || !count.is_multiple_of(3) || options.nx && options.xx {
        return Err(SYNTAX);
    }
    let mut scores: smallvec::SmallVec<[f64; 8]> = smallvec::SmallVec::new();
    while cursor.remaining() > 0 {
        scores.push(point(&mut cursor)?.encode() as f64);
        cursor.next();
    }
    let names = args.from(first + 2).step_by(3);
    answer_added(ctx, scores.iter().copied().zip(names), options)
}

fn geodist(ctx: &mut CommandCtx<'_>) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let unit = match args.len() {
        4 => 1.0,
        5 => meters(args.get(4))?,
        _ => return Err(SYNTAX),
    };
    let distance = ctx.keyspace.sorted_set(db, &key)?.and_then(|set| {
        let from = position_of(&set, args.get(2))?;
        Some(from.distance(position_of(&set, args.get(3))?))
    });
    match distance {
        Some(distance) => answer_distance(ctx.reply, distance / unit),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// Answers something about each member that is named.
fn answer_each(
    ctx: &mut CommandCtx<'_>,
    mut answer: impl FnMut(&mut Reply, Option<Point>),
) -> CommandResult {
    let (key, db, args) = (ctx.key(1), ctx.client.db, ctx.args);
    let set = ctx.keyspace.sorted_set(db, &key)?;
    ctx.reply.array(args.len() - 2);
    for name in args.from(2) {
        answer(ctx.reply, set.as_ref().and_then(|set| position_of(set, name)));
    }
    Ok(())
}

fn geohash(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_each(ctx, |reply, point| match point {
        Some(point) => reply.bulk(&point.text()),
        None => reply.null(),
    })
}

fn geopos(ctx: &mut CommandCtx<'_>) -> CommandResult {
    answer_each(ctx, |reply, point| match point {
        Some(point) => answer_point(reply, point),
        None => reply.null_array(),
    })
}

/// How a command says what to search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// GEORADIUS: a point and a radius in fixed places.
    Radius,
    /// GEORADIUSBYMEMBER: a member and a radius in fixed places.
    RadiusByMember,
    /// GEOSEARCH: all by options.
    Search,
}

/// What a search asks for.
#[derive(Default)]
struct SearchArgs {
    center: Option<Point>,
    shape: Option<Shape>,
    /// The meters of the unit that distances are answered in.
    unit: f64,
    with_distance: bool,
    with_position: bool,
    with_point: bool,
    order: Option<Order>,
    /// The most members to answer, 0 for all.
    count: usize,
    /// The first that are found are good enough.
    any: bool,
    /// The argument that names the key to store in.
    target: Option<usize>,
    stores_distances: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Nearest,
    Farthest,
}

impl SearchArgs {
    /// Reads the arguments; without a set members are not looked for.
    fn parse(
        args: Args<'_>,
        form: Form,
        may_store: bool,
        set: Option<&Members<'_>>,
    ) -> Result<Self, CommandError> {
        let mut parsed = Self::default();
        let is_search = form == Form::Search;
        let mut cursor = args.cursor(2);
        match form {
            Form::Radius => {
                parsed.center = Some(point(&mut cursor)?);
                parsed.set_shape(circle(&mut cursor)?);
            }
            Form::RadiusByMember if set.is_none() => cursor = args.cursor(5),
            Form::RadiusByMember => {
                parsed.center_at(set, cursor.next().ok_or(SYNTAX)?)?;
                parsed.set_shape(circle(&mut cursor)?);
            }
            Form::Search if may_store => {
                parsed.target = Some(1);
                cursor.next();
            }
            Form::Search => {}
        }
        let (mut from_member, mut from_point) = (false, false);
        let (mut by_radius, mut by_box) = (false, false);
        while cursor.remaining() > 0 {
            if cursor.accept("withdist") {
                parsed.with_distance = true;
            } else if cursor.accept("withhash") {
                parsed.with_position = true;
            } else if cursor.accept("withcoord") {
                parsed.with_point = true;
            } else if cursor.accept("any") {
                parsed.any = true;
            } else if cursor.accept("asc") {
                parsed.order = Some(Order::Nearest);
            } else if cursor.accept("desc") {
                parsed.order = Some(Order::Farthest);
            } else if let Some(text) = cursor.accept_with_value("count") {
                let count = parse_i64(text).ok_or(NOT_AN_INTEGER)?;
                parsed.count = usize::try_from(count)
                    .ok()
                    .filter(|count| *count > 0)
                    .ok_or(CommandError::new("ERR COUNT must be > 0"))?;
            } else if may_store && !is_search && cursor.accept_with_value("store").is_some() {
                parsed.target = Some(cursor.position() - 1);
                parsed.stores_distances = false;
            } else if may_store && !is_search && cursor.accept_with_value("storedist").is_some() {
                parsed.target = Some(cursor.position() - 1);
                parsed.stores_distances = true;
            } else if may_store && is_search && cursor.accept("storedist") {
                parsed.stores_distances = true;
            } else if !is_search {
                return Err(SYNTAX);
            } else if !from_point && let Some(name) = cursor.accept_with_value("frommember") {
                from_member = true;
                parsed.center_at(set, name)?;
            } else if !from_member && cursor.remaining() > 2 && cursor.accept("fromlonlat") {
                from_point = true;
                parsed.center = Some(point(&mut cursor)?);
            } else if !by_box && cursor.remaining() > 2 && cursor.accept("byradius") {
                by_radius = true;
                parsed.set_shape(circle(&mut cursor)?);
            } else if !by_radius && cursor.remaining() > 3 && cursor.accept("bybox") {
                by_box = true;
                parsed.set_shape(rectangle(&mut cursor)?);
            } else {
                return Err(SYNTAX);
            }
        }
        if parsed.target.is_some() && parsed.details() > 0 {
            let name = if is_search { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(CommandError::text(format!(
                "ERR {name} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        let lacks = |what| Err(CommandError::naming(what, args.get(0), ""));
        if is_search && !(from_member || from_point) {
            return lacks("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ");
        }
        if is_search && !(by_radius || by_box) {
            return lacks("ERR exactly one of BYRADIUS and BYBOX can be specified for ");
        }
        if parsed.any && parsed.count == 0 {
            return Err(CommandError::new("ERR the ANY argument requires COUNT argument"));
        }
        // The nearest ones, or a count would mean little.
        if parsed.count > 0 && parsed.order.is_none() && !parsed.any {
            parsed.order = Some(Order::Nearest);
        }
        Ok(parsed)
    }

    fn center_at(&mut self, set: Option<&Members<'_>>, name: &[u8]) -> Result<(), CommandError> {
        if let Some(set) = set {
            let point = position_of(set, name)
                .ok_or(CommandError::new("ERR could not decode requested zset member"))?;
            self.center = Some(point);
        }
        Ok(())
    }

    fn set_shape(&mut self, (shape, unit): (Shape, f64)) {
        (self.shape, self.unit) = (Some(shape), unit);
    }

    /// How many things are told about each member beside its name.
    fn details(&self) -> usize {
        [self.with_distance, self.with_position, self.with_point].map(usize::from).iter().sum()
    }

    /// The members that are asked for, in the order that is asked for.
    fn find<'a>(&self, set: &Members<'a>) -> Vec<Found<'a>> {
        let (Some(center), Some(shape)) = (self.center, self.shape) else { return Vec::new() };
        let mut search = Search::new(center, shape);
        let limit = if self.any { self.count } else { usize::MAX };
        let compare = |order: Order| {
            move |a: &Found<'_>, b: &Found<'_>| order.compare(a.distance, b.distance)
        };
        // Of the nearest ones, so many at a time that what is farther is left out soon.
        let is_nearest = self.order == Some(Order::Nearest) && self.count > 0 && !self.any;
        let full = if is_nearest { self.count.saturating_mul(2).max(32) } else { usize::MAX };
        let mut farthest = f64::INFINITY;
        // Members at one position come one after another.
        let mut last: Option<(f64, Option<(Point, f64)>)> = None;
        let mut found: Vec<Found<'_>> = Vec::new();
        for range in search.ranges() {
            if found.len() >= limit {
                break;
            }
            let (start, end) = (range.start as f64, range.end as f64);
            set.each_from(set.rank_where(|member| member.score < start), |member| {
                if member.score >= end {
                    return false;
                }
                let seen = match last {
                    Some((score, seen)) if score == member.score => seen,
                    _ => {
                        let point = Point::of_score(member.score);
                        search.distance_within(point).map(|distance| (point, distance))
                    }
                };
                last = Some((member.score, seen));
                if let Some((point, distance)) = seen.filter(|(_, distance)| *distance < farthest) {
                    found.push(Found { member, point, distance });
                    if found.len() == full {
                        found.select_nth_unstable_by(self.count - 1, compare(Order::Nearest));
                        found.truncate(self.count);
                        farthest = found[self.count - 1].distance;
                        search.narrow(farthest);
                    }
                }
                found.len() < limit
            });
        }
        let wanted = if self.count == 0 { found.len() } else { self.count.min(found.len()) };
        if let Some(order) = self.order {
            if wanted < found.len() {
                found.select_nth_unstable_by(wanted, compare(order));
                found.truncate(wanted);
            }
            found.sort_unstable_by(compare(order));
        }
        found.truncate(wanted);
        found
    }
}

impl Order {
    fn compare(self, a: f64, b: f64) -> Ordering {
        match self {
            Order::Nearest => a.total_cmp(&b),
            Order::Farthest => b.total_cmp(&a),
        }
    }
}

/// A member within the shape.
struct Found<'a> {
    member: Member<'a>,
    point: Point,
    /// From the center, in meters.
    distance: f64,
}

fn search(ctx: &mut CommandCtx<'_>, form: Form, may_store: bool) -> CommandResult {
    let (args, db) = (ctx.args, ctx.client.db);
    let source = ctx.key(if form == Form::Search && may_store { 2 } else { 1 });
    let set = ctx.keyspace.of(&source).sorted_set(db, &source)?;
    let parsed = SearchArgs::parse(args, form, may_store, set.as_ref())?;
    let found = set.map(|set| parsed.find(&set)).unwrap_or_default();
    if let Some(target) = parsed.target {
        let named: Vec<(f64, Vec<u8>)> = found
            .iter()
            .map(|Found { member, distance, .. }| {
                let score =
                    if parsed.stores_distances { distance / parsed.unit } else { member.score };
                (score, member.name.with_text(<[u8]>::to_vec))
            })
            .collect();
        let pairs: Vec<Scored<'_>> =
            named.iter().map(|(score, name)| (*score, &name[..])).collect();
        let event =
            if form == Form::Search { Event::Geosearchstore } else { Event::Georadiusstore };
        let target = ctx.key(target);
        ctx.keyspace.of(&target).sorted_set_store(db, &target, pairs, event)?;
        ctx.reply.count(named.len());
        return Ok(());
    }
    let details = parsed.details();
    ctx.reply.array(found.len());
    for Found { member, point, distance } in found {
        if details > 0 {
            ctx.reply.array(details + 1);
        }
        answer_string(ctx.reply, Some(member.name));
        if parsed.with_distance {
            answer_distance(ctx.reply, distance / parsed.unit);
        }
        if parsed.with_position {
            ctx.reply.integer(member.score as i64);
        }
        if parsed.with_point {
            answer_point(ctx.reply, point);
        }
    }
    Ok(())
}

fn georadius(ctx: &mut CommandCtx<'_>) -> CommandResult {
    search(ctx, Form::Radius, true)
}

fn georadius_ro(ctx: &mut CommandCtx<'_>) -> CommandResult {
    search(ctx, Form::Radius, false)
}

fn georadiusbymember(ctx: &mut CommandCtx<'_>) -> CommandResult {
    search(ctx, Form::RadiusByMember, true)
}

fn georadiusbymember_ro(ctx: &mut CommandCtx<'_>) -> CommandResult {
    search(ctx, Form::RadiusByMember, false)
}

fn geosearch(ctx: &mut CommandCtx<'_>) -> CommandResult {
    search(ctx, Form::Search, false)
}

fn geosearchstore(ctx: &mut CommandCtx<'_>) -> CommandResult {
    search(ctx, Form::Search, true)
}

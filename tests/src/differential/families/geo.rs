//! Places. Without an order of its own an answer is compared in any order; `COUNT` with `ANY` may
//! choose, so that only how many is compared.

use super::{Row, row};
use crate::differential::rule::Rule;

pub(super) const GEO: &[Row] = &[
    row("GEOADD <geo> {<point>}").weight(24),
    row("GEOADD <geo> [NX|XX] [CH] {<point>}").weight(6),
    row("GEOPOS <geo> {<spot>}"),
    row("GEODIST <geo> <spot> <spot> [m|km|ft|mi|KM|ml]").weight(6),
    row("GEOHASH <geo> {<spot>}"),
    row(
        "GEOSEARCH <geo> (FROMMEMBER <spot>|FROMLONLAT <position>) (BYRADIUS <radius>|BYBOX <box>) \
         [WITHCOORD] [WITHDIST] [WITHHASH]",
    )
    .by(Rule::Unordered)
    .weight(8),
    row(
        "GEOSEARCH <geo> (FROMMEMBER <spot>|FROMLONLAT <position>) (BYRADIUS <radius>|BYBOX <box>) \
         (ASC|DESC) [COUNT <count>] [WITHCOORD] [WITHDIST] [WITHHASH]",
    )
    .weight(8),
    row("GEOSEARCH <geo> FROMLONLAT <position> BYRADIUS <radius> COUNT <count>"),
    row("GEOSEARCH <geo> FROMLONLAT <position> BYRADIUS <radius> COUNT <count> ANY")
        .by(Rule::Length),
    row("GEOSEARCHSTORE <geo> <geo> (FROMMEMBER <spot>|FROMLONLAT <position>) \
         (BYRADIUS <radius>|BYBOX <box>) [ASC|DESC] [COUNT <count>] [STOREDIST]"),
    row("GEORADIUS <geo> <position> <radius> [WITHCOORD] [WITHDIST] [WITHHASH]")
        .by(Rule::Unordered),
    row(
        "GEORADIUS <geo> <position> <radius> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT <count>] (ASC|DESC)",
    ),
    row("GEORADIUS <geo> <position> <radius> [COUNT <count>] (STORE|STOREDIST) <geo>").weight(2),
    row("GEORADIUS_RO <geo> <position> <radius> [WITHDIST] (ASC|DESC)").weight(2),
    row("GEORADIUSBYMEMBER <geo> <spot> <radius> [WITHCOORD] [WITHDIST] [WITHHASH]")
        .by(Rule::Unordered),
    row("GEORADIUSBYMEMBER <geo> <spot> <radius> [WITHDIST] [COUNT <count>] (ASC|DESC)"),
    row("GEORADIUSBYMEMBER <geo> <spot> <radius> (STORE|STOREDIST) <geo>").weight(2),
    row("GEORADIUSBYMEMBER_RO <geo> <spot> <radius> [WITHHASH] (ASC|DESC)").weight(2),
    row("ZREM <geo> <spot>").weight(6),
    row("ZSCORE <geo> <spot>").weight(2),
    row("ZRANGE <geo> 0 -1 WITHSCORES").weight(2),
];

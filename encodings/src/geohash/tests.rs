//! Geohashes against public figures and against what a search must find.

use super::*;

/// Palermo and Catania, as the documentation of GEOADD has them.
const PALERMO: Point = Point { longitude: 13.361389, latitude: 38.115556 };
const CATANIA: Point = Point { longitude: 15.087269, latitude: 37.502669 };

#[test]
fn positions_are_those_of_redis() {
    assert_eq!(PALERMO.encode(), 3_479_099_956_230_698);
    assert_eq!(CATANIA.encode(), 3_479_447_370_796_909);
    assert_eq!(Point::decode(PALERMO.encode()).text(), *b"sqc8b49rny0");
    assert_eq!(Point::decode(CATANIA.encode()).text(), *b"sqdtr74hyu0");
}

#[test]
fn distances_are_those_of_redis() {
    let [a, b] = [PALERMO, CATANIA].map(|point| Point::decode(point.encode()));
    assert_eq!(format!("{:.4}", a.distance(b)), "166274.1516");
    assert_eq!(a.distance(a), 0.0);
}

#[test]
fn a_point_beyond_the_map_is_none() {
    assert!(Point::new(180.0, 85.05).is_some() && Point::new(-180.0, -85.05).is_some());
    assert!(Point::new(180.1, 0.0).is_none() && Point::new(0.0, 85.06).is_none());
    assert!(Point::new(f64::NAN, 0.0).is_none());
}

#[test]
fn a_position_decodes_to_itself() {
    let mut seed = 1u64;
    for _ in 0..10_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let position = seed >> 12;
        assert_eq!(Point::decode(position).encode(), position);
    }
}

#[test]
fn a_score_that_is_no_position_decodes_as_in_redis() {
    assert_eq!(Point::of_score(f64::INFINITY), Point::decode(0));
    assert_eq!(Point::of_score(-5.0), Point::decode(-5i64 as u64));
    assert_eq!(Point::of_score(1e30), Point::decode(0));
    assert_eq!(Point::of_score(-1e30), Point::decode(1 << 63));
    assert_eq!(Point::of_score(3.7), Point::decode(3));
}

#[test]
fn the_ranges_hold_all_that_is_within() {
    let mut seed = 7u64;
    let mut unit = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 11) as f64 / (1u64 << 53) as f64
    };
    for _ in 0..2_000 {
        let center = Point { longitude: unit() * 340.0 - 170.0, latitude: unit() * 140.0 - 70.0 };
        let radius = 10f64.powf(unit() * 4.0 + 1.0);
        let search = Search::new(center, Shape::Circle { radius });
        let ranges = search.ranges();
        for _ in 0..20 {
            // Within a few radii, so that some points are inside.
            let shift = degrees(radius / EARTH_RADIUS_M) * 2.0;
            let longitude = center.longitude + (unit() - 0.5) * shift;
            let latitude = center.latitude + (unit() - 0.5) * shift;
            let Some(point) = Point::new(longitude, latitude) else { continue };
            let position = point.encode();
            if search.distance_within(Point::decode(position)).is_some() {
                assert!(
                    ranges.iter().any(|range| range.contains(&position)),
                    "{search:?} {point:?}"
                );
            }
        }
    }
}

#[test]
fn what_is_left_out_early_is_too_far() {
    let mut seed = 3u64;
    let mut unit = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 11) as f64 / (1u64 << 53) as f64
    };
    for _ in 0..100_000 {
        let reach = 10f64.powf(unit() * 8.0 - 6.0);
        let [longitude, latitude] = [unit() * 360.0 - 180.0, unit() * 170.0 - 85.0];
        let center = Point { longitude, latitude };
        let longitude = (longitude + (unit() - 0.5) * reach).clamp(-180.0, 180.0);
        let latitude = (latitude + (unit() - 0.5) * reach).clamp(-85.0, 85.0);
        let point = Point { longitude, latitude };
        let distance = center.distance(point);
        let search = Search::new(center, Shape::Circle { radius: distance });
        assert_eq!(search.distance_within(point), Some(distance), "{center:?} {point:?}");
    }
}

//! Places on the earth, and the cells of a grid that is divided in steps.
//!
//! Each step halves the cells in both directions. A cell's number consists of the bits of its row
//! and of its column in turn. So the numbers of near cells are mostly near each other, and the
//! cells within a larger one are a range of numbers. The score of a place in a sorted set is the
//! number of its cell after 26 steps, which has 52 bits: such a cell is at most 0.6 m long in both
//! directions. The numbers and constants are those of Redis, because clients see them.

use std::f64::consts::PI;

/// The number of steps of the cells that scores stand for.
pub(super) const STEPS_MAX: u32 = 26;
/// The latitude at which the grid ends, as does the map of the web.
const LATITUDE_MAX: f64 = 85.051_128_78;
const LONGITUDE_MAX: f64 = 180.0;
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;

/// A place, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GeoPoint {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// A cell after some steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GeoCell {
    row: u32,
    column: u32,
    steps: u32,
}

/// The borders of an area or cell, in degrees.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) west: f64,
    pub(super) south: f64,
    pub(super) east: f64,
    pub(super) north: f64,
}

impl GeoPoint {
    /// Returns true if the grid contains the place.
    pub(super) fn is_on_grid(self) -> bool {
        (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&self.longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&self.latitude)
    }

    /// Returns the place of a score: the middle of its cell.
    pub(super) fn of_score(score: f64) -> GeoPoint {
        let extent = GeoCell::of_number(number_of(score), STEPS_MAX).extent();
        // As in Redis, because rounding must not lead outside of the grid.
        let middle = |one: f64, other: f64, limit: f64| ((one + other) / 2.0).clamp(-limit, limit);
        GeoPoint {
            longitude: middle(extent.west, extent.east, LONGITUDE_MAX),
            latitude: middle(extent.south, extent.north, LATITUDE_MAX),
        }
    }

    /// Returns the score of the place.
    pub(super) fn score(self) -> f64 {
        GeoCell::of(self, STEPS_MAX).number() as f64
    }

    /// Returns the place as a geohash of eleven characters, in the standard's grid. The last
    /// character is always `0`, because scores have two bits fewer than it needs.
    pub(super) fn geohash(self) -> [u8; 11] {
        const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        // The standard's grid reaches to the poles, Redis's own only to the end of the map.
        let number = GeoCell::within(self, STEPS_MAX, 90.0).number();
        let mut text = [b'0'; 11];
        for (at, byte) in text.iter_mut().take(10).enumerate() {
            let digit = number >> (52 - 5 * (at + 1)) & 31;
            *byte = ALPHABET[digit as usize];
        }
        text
    }

    /// Returns the distance to another place on a sphere, in metres.
    pub(super) fn distance(self, other: GeoPoint) -> f64 {
        let half = |one: f64, other: f64| ((radians(other) - radians(one)) / 2.0).sin();
        let across = half(self.longitude, other.longitude);
        // As in Redis, because the general formula rounds in another way.
        if across == 0.0 {
            return self.distance_north(other);
        }
        let up = half(self.latitude, other.latitude);
        let cosines = radians(self.latitude).cos() * radians(other.latitude).cos();
        let chord = up * up + cosines * across * across;
        2.0 * EARTH_RADIUS_M * chord.sqrt().asin()
    }

    /// Returns the distance to another place's latitude, in metres.
    pub(super) fn distance_north(self, other: GeoPoint) -> f64 {
        EARTH_RADIUS_M * (radians(other.latitude) - radians(self.latitude)).abs()
    }
}

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

/// Returns the degrees of an arc of `metres`.
pub(super) fn degrees_of(metres: f64) -> f64 {
    metres / EARTH_RADIUS_M / (PI / 180.0)
}

/// Returns the degrees of longitude of `metres` at a latitude.
pub(super) fn longitude_degrees_of(metres: f64, latitude: f64) -> f64 {
    metres / EARTH_RADIUS_M / radians(latitude).cos() / (PI / 180.0)
}

impl GeoCell {
    /// Returns the cell of a place.
    pub(super) fn of(place: GeoPoint, steps: u32) -> GeoCell {
        GeoCell::within(place, steps, LATITUDE_MAX)
    }

    /// Returns the cell of a place in a grid that reaches to another latitude. A place at the
    /// grid's end is in a cell after the last one, as in Redis.
    fn within(place: GeoPoint, steps: u32, latitude_max: f64) -> GeoCell {
        debug_assert!(place.is_on_grid(), "places are checked, or clamped");
        debug_assert!(steps <= STEPS_MAX, "a score has two bits for each step");
        let cells = f64::from(1_u32 << steps);
        let at = |degrees: f64, limit: f64| ((degrees + limit) / (2.0 * limit) * cells) as u32;
        GeoCell {
            row: at(place.latitude, latitude_max),
            column: at(place.longitude, LONGITUDE_MAX),
            steps,
        }
    }

    /// Returns the cell of a number.
    fn of_number(number: u64, steps: u32) -> GeoCell {
        GeoCell {
            row: every_second(number),
            column: every_second(number >> 1),
            steps,
        }
    }

    /// Returns its number: bits of the row and of the column in turn, the lowest of the row first.
    pub(super) fn number(self) -> u64 {
        spread(self.row) | spread(self.column) << 1
    }

    /// Returns the lowest score of its places, and the number after the highest.
    pub(super) fn scores(self) -> (f64, f64) {
        debug_assert!(
            self.steps <= STEPS_MAX,
            "a score has two bits for each step"
        );
        let beyond = 2 * (STEPS_MAX - self.steps);
        let first = self.number();
        ((first << beyond) as f64, ((first + 1) << beyond) as f64)
    }

    pub(super) fn extent(self) -> Extent {
        let cells = (1_u64 << self.steps) as f64;
        // The order of the operations is that of Redis, because clients see the last digits.
        let at = |cell: u64, limit: f64| -limit + cell as f64 / cells * (2.0 * limit);
        let (row, column) = (u64::from(self.row), u64::from(self.column));
        Extent {
            west: at(column, LONGITUDE_MAX),
            south: at(row, LATITUDE_MAX),
            east: at(column + 1, LONGITUDE_MAX),
            north: at(row + 1, LATITUDE_MAX),
        }
    }

    /// Returns the cell that is `east` columns to the east and `north` rows to the north. The grid
    /// wraps around.
    pub(super) fn beside(self, east: i32, north: i32) -> GeoCell {
        debug_assert!(self.steps > 0, "a grid of one cell has no neighbors");
        let mask = u32::MAX >> (32 - self.steps);
        GeoCell {
            row: self.row.wrapping_add_signed(north) & mask,
            column: self.column.wrapping_add_signed(east) & mask,
            ..self
        }
    }
}

/// Returns a number with a clear bit above each of its bits.
fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in SPREADS {
        bits = (bits | bits << shift) & mask;
    }
    debug_assert_eq!(every_second(bits), number);
    bits
}

/// Returns every second bit, beginning with the lowest.
fn every_second(bits: u64) -> u32 {
    // The steps of `spread`, in the opposite order.
    let mut bits = bits & SPREADS[4].1;
    for at in (0..SPREADS.len()).rev() {
        let mask = if at == 0 {
            u64::from(u32::MAX)
        } else {
            SPREADS[at - 1].1
        };
        bits = (bits | bits >> SPREADS[at].0) & mask;
    }
    bits as u32
}

/// The steps that spread bits: groups of 16, 8, 4, 2 and 1 bits, each shifted by its own size.
const SPREADS: [(u32, u64); 5] = [
    (16, 0x0000_ffff_0000_ffff),
    (8, 0x00ff_00ff_00ff_00ff),
    (4, 0x0f0f_0f0f_0f0f_0f0f),
    (2, 0x3333_3333_3333_3333),
    (1, 0x5555_5555_5555_5555),
];

/// Returns the number of the cell for any score, converted as on the processors that Redis runs on:
/// a negative score wraps around at 2^64, and one of at least 2^64 becomes 0.
fn number_of(score: f64) -> u64 {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    match score {
        _ if score < TWO_TO_63 => score as i64 as u64,
        _ if score < 2.0 * TWO_TO_63 => score as u64,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    const PALERMO: GeoPoint = GeoPoint {
        longitude: 13.361389,
        latitude: 38.115556,
    };
    const CATANIA: GeoPoint = GeoPoint {
        longitude: 15.087269,
        latitude: 37.502669,
    };

    #[test]
    fn scores_and_distances_are_those_of_the_documentation_of_redis() {
        assert_eq!(PALERMO.score(), 3_479_099_956_230_698.0);
        assert_eq!(CATANIA.score(), 3_479_447_370_796_909.0);
        let stored = [PALERMO, CATANIA].map(|place| GeoPoint::of_score(place.score()));
        let metres = stored[0].distance(stored[1]);
        assert_eq!(format!("{metres:.4}"), "166274.1516");
        assert_eq!(&stored[0].geohash(), b"sqc8b49rny0");
        assert_eq!(&stored[1].geohash(), b"sqdtr74hyu0");
    }

    #[test]
    fn a_place_lies_in_its_cells_and_each_cell_in_the_one_before() {
        let mut random = SmallRng::seed_from_u64(1);
        for _ in 0..10_000 {
            let place = GeoPoint {
                longitude: random.random_range(-180.0..180.0),
                latitude: random.random_range(-LATITUDE_MAX..LATITUDE_MAX),
            };
            let score = place.score();
            for steps in 1..=STEPS_MAX {
                let cell = GeoCell::of(place, steps);
                assert_eq!(GeoCell::of_number(cell.number(), steps), cell);
                let (first, end) = cell.scores();
                assert!(first <= score && score < end, "{place:?} {steps}");
                let Extent {
                    west,
                    south,
                    east,
                    north,
                } = cell.extent();
                assert!((west..=east).contains(&place.longitude));
                assert!((south..=north).contains(&place.latitude));
                assert_eq!(cell.beside(1, -1).beside(-1, 1), cell);
            }
            assert!(GeoPoint::of_score(score).distance(place) < 0.6);
        }
    }
}

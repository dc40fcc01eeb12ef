//! The areas that are searched, and the cells of the grid that cover them.

use super::cell::{Extent, GeoCell, GeoPoint, STEPS_MAX, degrees_of, longitude_degrees_of};

/// An area around a middle, with a form that bounds the distance from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct GeoArea {
    pub(super) middle: GeoPoint,
    pub(super) form: GeoAreaShape,
    /// The metres of the unit of lengths.
    pub(super) unit_m: f64,
}

/// The form of an area, in units.
#[derive(Clone, Copy, Debug)]
pub(super) enum GeoAreaShape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// Half of the equator's length on the Mercator map of the web.
const MERCATOR_MAX_M: f64 = 20_037_726.37;

/// The offsets of the cells around one, to the east and to the north, in the order of the search.
const AROUND: [(i32, i32); 9] = [
    (0, 0),
    (0, 1),
    (0, -1),
    (1, 0),
    (-1, 0),
    (1, 1),
    (-1, 1),
    (1, -1),
    (-1, -1),
];

impl GeoArea {
    /// Returns the metres from the middle to a place, or `None` if the place is not within the
    /// area.
    pub(super) fn distance_within(&self, place: GeoPoint) -> Option<f64> {
        match self.form {
            GeoAreaShape::Circle { radius } => {
                let distance = self.middle.distance(place);
                (distance <= radius * self.unit_m).then_some(distance)
            }
            GeoAreaShape::Box { width, height } => {
                let (width, height) = (width * self.unit_m, height * self.unit_m);
                if place.distance_north(self.middle) > height / 2.0 {
                    return None;
                }
                // As in Redis, the width is measured along the latitude of the place, not of the
                // middle.
                let beside = GeoPoint {
                    latitude: place.latitude,
                    ..self.middle
                };
                let is_within = place.distance(beside) <= width / 2.0;
                is_within.then(|| self.middle.distance(place))
            }
        }
    }

    /// Returns the cells that cover the area, each once, in the order in which they are searched.
    pub(super) fn cells(&self) -> Vec<GeoCell> {
        let extent = self.extent();
        let mut steps = self.steps();
        let mut cell = GeoCell::of(self.middle, steps);
        // Cells become lower towards the poles, so the neighbors may not reach far enough.
        let reaches = |cell: GeoCell| {
            cell.beside(0, 1).extent().north >= extent.north
                && cell.beside(0, -1).extent().south <= extent.south
                && cell.beside(1, 0).extent().east >= extent.east
                && cell.beside(-1, 0).extent().west <= extent.west
        };
        // Larger cells are searched instead of more of them. The area itself is checked later.
        if steps > 1 && !reaches(cell) {
            steps -= 1;
            cell = GeoCell::of(self.middle, steps);
        }
        let inner = cell.extent();
        // If there are only two cells in a direction, both neighbors are the same cell.
        let is_needed = |&(east, north): &(i32, i32)| {
            steps < 2
                || !(north < 0 && inner.south < extent.south
                    || north > 0 && inner.north > extent.north
                    || east < 0 && inner.west < extent.west
                    || east > 0 && inner.east > extent.east)
        };
        let around = AROUND.iter().filter(|it| is_needed(it));
        let mut cells: Vec<GeoCell> = around
            .map(|&(east, north)| cell.beside(east, north))
            .collect();
        // In a grid of few cells some neighbors are the same.
        debug_assert!(!cells.is_empty(), "the cell of the middle is always needed");
        let mut seen = Vec::with_capacity(cells.len());
        cells.retain(|cell| {
            !seen.contains(cell) && {
                seen.push(*cell);
                true
            }
        });
        cells
    }

    /// Returns half of the area's width and height, in metres.
    fn reach(&self) -> (f64, f64) {
        let (width, height) = match self.form {
            GeoAreaShape::Circle { radius } => (radius, radius),
            GeoAreaShape::Box { width, height } => (width / 2.0, height / 2.0),
        };
        (width * self.unit_m, height * self.unit_m)
    }

    /// Returns the extent of the area.
    fn extent(&self) -> Extent {
        let GeoPoint {
            longitude,
            latitude,
        } = self.middle;
        let (width, height) = self.reach();
        let up = degrees_of(height);
        // The area is widest in degrees where it is nearest to a pole.
        let nearest = if latitude < 0.0 {
            latitude - up
        } else {
            latitude + up
        };
        let across = longitude_degrees_of(width, nearest);
        Extent {
            west: longitude - across,
            south: latitude - up,
            east: longitude + across,
            north: latitude + up,
        }
    }

    /// Returns the number of steps at which nine cells are about as large as the area.
    fn steps(&self) -> u32 {
        let (width, height) = self.reach();
        let mut metres = match self.form {
            GeoAreaShape::Circle { .. } => width,
            GeoAreaShape::Box { .. } => (width * width + height * height).sqrt(),
        };
        if metres == 0.0 {
            return STEPS_MAX;
        }
        let mut steps = 1_i32;
        debug_assert!(metres >= 0.0, "lengths are not negative");
        while metres < MERCATOR_MAX_M {
            metres *= 2.0;
            steps += 1;
        }
        // As in Redis, so that the nine cells cover the area in most cases.
        steps -= 2;
        // Cells are narrower towards the poles.
        let latitude = self.middle.latitude.abs();
        steps -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        steps.clamp(1, STEPS_MAX as i32) as u32
    }
}

//! The capacities of the levels of a module's list of subranges. Source: RADAR, section V-A.

/// The remaining capacity of the levels of a module's list of subranges.
#[derive(Debug)]
pub struct LevelCapacities {
    levels: Vec<u64>,
}

impl LevelCapacities {
    /// Creates the capacities for this many subranges and classes. Level l has room for a quarter
    /// more towers than a skip list has there, that is, for 1.25 · 2^-(l+1) of all; the lowest
    /// level has room for all.
    pub fn new(subranges: u64, classes: usize) -> LevelCapacities {
        let level = |level: usize| match level {
            0 => u64::MAX,
            _ => (1.25 * subranges as f64 * 0.5_f64.powi(level as i32 + 1)).ceil() as u64,
        };
        LevelCapacities {
            levels: (0..classes.max(1)).map(level).collect(),
        }
    }

    /// Chooses a class by scores, one for each class, and takes a place in it. It is the class with
    /// the greatest score or, if that is full, with the second greatest. If both are full, it is
    /// the highest class below that has room.
    pub fn choose(&mut self, scores: &[f32]) -> usize {
        let classes = self.levels.len().min(scores.len());
        let best = |except: Option<usize>| {
            let others = (0..classes).filter(|&class| Some(class) != except);
            others.max_by(|&one, &other| scores[one].total_cmp(&scores[other]))
        };
        let first = best(None).unwrap_or(0);
        let chosen = if self.levels[first] > 0 {
            first
        } else {
            let second = best(Some(first)).unwrap_or(0);
            // A lower tower only slows the search for its own subrange. A higher one would lengthen
            // those for others.
            let free = (0..=second).rev().find(|&class| self.levels[class] > 0);
            free.unwrap_or(0)
        };
        debug_assert!(self.levels[chosen] > 0, "the lowest level has room for all");
        self.levels[chosen] -= 1;
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_filled_up_and_then_the_second_best_is_taken() {
        // Of 16 subranges: 5 in level 1, 3 in level 2, 2 in level 3.
        let mut room = LevelCapacities::new(16, 4);
        let scores = [0.1, 0.2, 0.4, 0.3];
        let chosen: Vec<usize> = (0..12).map(|_| room.choose(&scores)).collect();
        // Once both are full, level 1 and then level 0 are chosen.
        assert_eq!(chosen, [2, 2, 2, 3, 3, 1, 1, 1, 1, 1, 0, 0]);
    }

    #[test]
    fn a_second_best_that_is_full_gives_to_what_is_below_it() {
        let mut room = LevelCapacities::new(16, 4);
        let chosen: Vec<usize> = (0..9).map(|_| room.choose(&[0.0, 0.9, 0.0, 1.0])).collect();
        assert_eq!(chosen, [3, 3, 1, 1, 1, 1, 1, 0, 0]);
        assert_eq!(LevelCapacities::new(16, 4).choose(&[]), 0);
    }
}

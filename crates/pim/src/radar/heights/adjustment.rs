//! The order of changes of heights. Source: RADAR, section V-A: those that deviate most from the
//! prediction come first.

use crate::structures::skip_list;
use nearfield_core::VirtualTime;
use std::collections::HashMap;

/// Number of heights of a module that are changed in a batch if the idle time of modules is
/// unknown.
const AT_ONCE: u64 = 64;

/// The heights that were sent to modules, and those still to be sent.
///
/// The host assumes that modules have the heights that were sent. A module that had no room, or
/// failed, has not changed its list; that affects only the time of searches.
#[derive(Debug, Default)]
pub struct Adjustment {
    /// Heights of subranges that differ from the height of their first key.
    heights: HashMap<u64, usize>,
    /// Subranges of each module with their target heights, those that deviate least first.
    wanted: Vec<Vec<(u64, usize)>>,
}

impl Adjustment {
    /// Returns the height of a subrange's tower.
    pub fn height(&self, start: u64) -> usize {
        let told = self.heights.get(&start).copied();
        told.unwrap_or_else(|| skip_list::height(start))
    }

    /// Resets the height of a subrange that is rebuilt.
    pub fn forget(&mut self, start: u64) {
        self.heights.remove(&start);
    }

    /// Forgets subranges that no longer exist.
    pub fn retain(&mut self, is_there: impl Fn(u64) -> bool) {
        self.heights.retain(|&start, _| is_there(start));
    }

    /// Sets the target heights of subranges, and drops all earlier targets.
    pub fn want(&mut self, modules: usize, targets: impl IntoIterator<Item = (usize, u64, usize)>) {
        self.wanted = vec![Vec::new(); modules];
        for (module, start, height) in targets {
            if height != self.height(start)
                && let Some(own) = self.wanted.get_mut(module)
            {
                own.push((start, height));
            }
        }
        // The lists are taken out, because sorting needs the present heights of the same value.
        let mut wanted = std::mem::take(&mut self.wanted);
        for own in &mut wanted {
            own.sort_by_key(|&(start, height)| (height.abs_diff(self.height(start)), start));
        }
        debug_assert_eq!(wanted.len(), modules);
        self.wanted = wanted;
    }

    /// Takes the target heights that deviate most, at most `budget` of each module, as module,
    /// subrange and height. They count as sent.
    pub fn take(&mut self, budget: u64) -> Vec<(usize, u64, usize)> {
        let mut taken = Vec::new();
        for (module, own) in self.wanted.iter_mut().enumerate() {
            // The greatest deviations are at the end, so that taking them moves no others.
            let left = own.len().saturating_sub(budget as usize);
            for (start, height) in own.drain(left..).rev() {
                taken.push((module, start, height));
            }
        }
        for &(_, start, height) in &taken {
            // The map has only exceptions, so that it stays small where heights are those of the
            // keys.
            if height == skip_list::height(start) {
                self.heights.remove(&start);
            } else {
                self.heights.insert(start, height);
            }
        }
        taken
    }
}

/// Returns the time of a task in the last round: the time of modules divided by the number of tasks
/// of the fullest one.
pub fn per_task(worked: VirtualTime, most: u64) -> VirtualTime {
    VirtualTime::from_picoseconds(worked.as_picoseconds() / most.max(1))
}

/// Returns the number of heights of a module that are changed in a batch: as many as fit in the
/// idle time of modules, at the time of two tasks each. It is fixed for a device that does not
/// report times.
pub fn budget(idle: VirtualTime, per_task: VirtualTime) -> u64 {
    match per_task.as_picoseconds() {
        // Threads report no times. A fixed number keeps a batch from waiting for many changes.
        0 => AT_ONCE,
        each => (idle.as_picoseconds() / (2 * each)).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_deviates_most_is_changed_first() {
        let mut adjustment = Adjustment::default();
        let starts: Vec<u64> = (1..40)
            .filter(|&start| skip_list::height(start) == 1)
            .collect();
        let [a, b, c, d] = starts[..4] else { panic!() };
        adjustment.want(
            2,
            [
                (0, a, 3),
                (0, b, 5),
                (0, c, 1),
                (1, d, 2),
                (0, starts[4], 2),
            ],
        );
        assert_eq!(adjustment.take(1), [(0, b, 5), (1, d, 2)]);
        assert_eq!(adjustment.height(b), 5);
        assert_eq!(adjustment.height(a), 1);
        assert_eq!(adjustment.take(9), [(0, a, 3), (0, starts[4], 2)]);
        assert_eq!(adjustment.take(9), []);
        // A correct height needs no change, and a rebuilt subrange has the height of its key.
        adjustment.forget(b);
        adjustment.want(2, [(0, a, 3), (0, b, 5), (1, d, 1)]);
        assert_eq!(adjustment.take(9), [(0, b, 5), (1, d, 1)]);
        adjustment.retain(|start| start != b);
        assert_eq!(adjustment.height(b), 1);
    }

    #[test]
    fn as_many_are_changed_as_fit_where_modules_have_nothing_to_do() {
        let microseconds = |count: u64| VirtualTime::from_nanoseconds(count * 1000);
        let each = per_task(microseconds(1000), 100);
        assert_eq!(each, microseconds(10));
        assert_eq!(budget(microseconds(300), each), 15);
        assert_eq!(budget(VirtualTime::ZERO, each), 1);
        assert_eq!(budget(microseconds(300), VirtualTime::ZERO), AT_ONCE);
    }
}

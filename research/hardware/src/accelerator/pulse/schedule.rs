//! The schedule of appendix A, with which all pipelines are busy all the time.
//!
//! The paper's algorithm is lost; this one is equivalent by its claim. Let a fetch take `d`, the
//! logic after it `η·d` with `η` logic pipelines for each memory pipeline, and let there be as many
//! traversals as pipelines. Fetches begin `d / memory` apart, on the memory pipelines in turn. The
//! logic of each begins when the fetch ends, on the logic pipelines in turn. A pipeline becomes
//! free exactly when its next fetch or logic is due, and a traversal's next fetch is due exactly
//! when its logic ends.

use crate::VirtualTime;

/// A fetch and the logic after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PulseScheduleSlot {
    /// The traversal.
    pub traversal: usize,
    /// Its iteration.
    pub iteration: usize,
    /// The memory pipeline, and the time at which the fetch begins.
    pub memory: (usize, VirtualTime),
    /// The logic pipeline, and the time at which the logic begins.
    pub logic: (usize, VirtualTime),
}

/// Returns the first iterations of one traversal per pipeline, for fetches that each take `memory`
/// units of time. Their logic takes `logic` units.
pub fn staggered(
    logic: usize,
    memory: usize,
    iterations: usize,
    unit: VirtualTime,
) -> Vec<PulseScheduleSlot> {
    // With as many traversals as pipelines each pipeline has exactly one at any time.
    let traversals = logic + memory;
    let units = |count: usize| VirtualTime::from_picoseconds(unit.as_picoseconds() * count as u64);
    (0..traversals * iterations)
        .map(|number| PulseScheduleSlot {
            traversal: number % traversals,
            iteration: number / traversals,
            memory: (number % memory, units(number)),
            logic: (number % logic, units(number + memory)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pipelines_are_busy_all_the_time() {
        let unit = VirtualTime::from_nanoseconds(10);
        for logic in 1..=4 {
            for memory in 1..=6 {
                let slots = staggered(logic, memory, 5, unit);
                let times = |count: usize| VirtualTime::from_nanoseconds(10 * count as u64);
                for pipeline in 0..memory {
                    let on = slots.iter().filter(|slot| slot.memory.0 == pipeline);
                    let begins: Vec<VirtualTime> = on.map(|slot| slot.memory.1).collect();
                    // The next begins when this one has taken its `memory` units.
                    assert!(
                        begins
                            .windows(2)
                            .all(|pair| pair[1] - pair[0] == times(memory))
                    );
                }
                for pipeline in 0..logic {
                    let on = slots.iter().filter(|slot| slot.logic.0 == pipeline);
                    let begins: Vec<VirtualTime> = on.map(|slot| slot.logic.1).collect();
                    assert!(
                        begins
                            .windows(2)
                            .all(|pair| pair[1] - pair[0] == times(logic))
                    );
                }
                for traversal in 0..logic + memory {
                    let own = slots.iter().filter(|slot| slot.traversal == traversal);
                    let own: Vec<&PulseScheduleSlot> = own.collect();
                    for pair in own.windows(2) {
                        // Logic follows its fetch, and the next fetch the logic.
                        assert_eq!(pair[0].logic.1 - pair[0].memory.1, times(memory));
                        assert_eq!(pair[1].memory.1 - pair[0].logic.1, times(logic));
                    }
                }
            }
        }
    }
}

//! Traversals that native code runs on their nodes in place.

use super::{InterleavedTraversals, LANES};
use crate::executor::TraversalLane;
use crate::traversal::ProgramEngine;

impl<T> InterleavedTraversals<'_, T> {
    /// Makes one iteration of lanes of one program, and up to `repeats` more while a lane
    /// continues.
    #[inline]
    pub(super) fn run_natively(&mut self, start: usize, count: usize, repeats: usize) {
        debug_assert!(count <= LANES, "all of them may stop");
        let lanes = &mut self.lanes[start..start + count];
        let slot = &self.slots[lanes[0].slot as usize];
        let ProgramEngine::Native(native) = &slot.engine else {
            return;
        };
        let group = slot.engine.group_in_place();
        // The code counts iterations down before it compares with zero.
        debug_assert!(
            lanes
                .iter()
                .all(|lane| lane.group == group && lane.left > 0)
        );
        let mut stops = [std::ptr::null_mut(); LANES];
        // SAFETY: the lanes have the same group, which is that of this program, and are not
        // refused, so that `TraversalSlot::go_to` has sent them to nodes:
        // - `near` is the part of a range of memory that contains the program's load as a
        //   whole, and `LocalMemory` has ranges of its memory only, which is borrowed longer
        //   than `self`; `node` points into that part,
        // - `scratchpad` is that of the lane's slot, and has the length that the program
        //   declares while the slot has it. No two lanes have the same slot, and nothing else
        //   uses the scratchpad meanwhile, because `self` is borrowed exclusively.
        let stopped = unsafe { native.round(lanes, &mut stops, repeats) };
        let first = lanes.as_ptr().addr();
        for stop in &stops[..stopped.unwrap_or_default()] {
            let index = (stop.addr() - first) / size_of::<TraversalLane>();
            debug_assert!(index < count);
            self.go_on(start + index);
        }
    }
}

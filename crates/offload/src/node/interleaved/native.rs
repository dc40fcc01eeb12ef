//! Traversals whose nodes native code reads where they lie.

use super::{Interleaved, LANES};
use crate::executor::Lane;
use crate::traversal::Engine;

impl<T> Interleaved<'_, T> {
    /// Lanes of one program make one iteration, and `repeats` more as long as one goes on.
    #[inline]
    pub(super) fn run_natively(&mut self, start: usize, count: usize, repeats: usize) {
        let lanes = &mut self.lanes[start..start + count];
        let slot = &self.slots[lanes[0].slot as usize];
        let Engine::Native(native) = &slot.engine else {
            return;
        };
        let mut stops = [std::ptr::null_mut(); LANES];
        // SAFETY: the lanes have the same group, which is that of this program, and are not
        // refused, so that `Slot::go_to` has sent them to nodes:
        // - `near` is the part of a range of memory in which the program's load lies as a whole,
        //   and `LocalMemory` has ranges of its memory only, which is borrowed longer than `self`;
        //   `node` is a place in it,
        // - `scratchpad` is that of the lane's slot, whose length is the one that the program
        //   declares while the slot has it. No two lanes have the same slot, and nobody uses the
        //   scratchpad meanwhile, as `self` is borrowed exclusively.
        let stopped = unsafe { native.round(lanes, &mut stops, repeats) };
        let first = lanes.as_ptr().addr();
        for stop in &stops[..stopped.unwrap_or_default()] {
            let index = (stop.addr() - first) / size_of::<Lane>();
            self.go_on(start + index);
        }
    }
}

//! Chains of dependent lines, walked together.

use std::cell::Cell;

use super::buffer::{PointerChainBuffer, PointerChainLine};
use crate::workload::Permutation;

/// Numbers of chains that are measured. A core reaches its plateau at 32 to 64 lines in flight.
pub(super) const CHAIN_COUNTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Number of lines between two readings of the clock.
const WALK_LINES: usize = 1 << 16;
/// Number of lines written between two reports of progress: 64 MiB.
const REPORT_LINES: usize = 1 << 20;

/// A buffer with lines that form one random cycle, and the start of the next walk on it.
pub(super) struct Chains {
    buffer: PointerChainBuffer,
    permutation: Permutation,
    /// Number of steps along the cycle to the start of the first chain.
    start: Cell<u64>,
}

impl Chains {
    /// Links the lines of `buffer`: the line at position i of a permutation points to the one at i
    /// + 1.
    pub(super) fn new(mut buffer: PointerChainBuffer, progress: &mut dyn FnMut(u64, u64)) -> Self {
        let bytes = buffer.bytes();
        let lines = buffer.lines_mut();
        let count = lines.len() as u64;
        let permutation = Permutation::new(count, 0);
        let mut index = 0;
        // In the order of memory, which touches each page once.
        for part in lines.chunks_mut(REPORT_LINES) {
            for line in part {
                line.next = permutation.at((permutation.position_of(index) + 1) % count);
                index += 1;
            }
            progress(index * size_of::<PointerChainLine>() as u64, bytes);
        }
        debug_assert_eq!(index, count, "each line has a successor");
        Chains {
            buffer,
            permutation,
            start: Cell::new(0),
        }
    }

    pub(super) fn buffer(&self) -> &PointerChainBuffer {
        &self.buffer
    }

    /// Walks `chain_count` chains, one of `CHAIN_COUNTS`, together over at least 65,536 lines that
    /// were not walked recently. Returns the number of lines.
    pub(super) fn walk(&self, chain_count: usize) -> u64 {
        match chain_count {
            1 => self.walk_chains::<1>(),
            2 => self.walk_chains::<2>(),
            4 => self.walk_chains::<4>(),
            8 => self.walk_chains::<8>(),
            16 => self.walk_chains::<16>(),
            32 => self.walk_chains::<32>(),
            64 => self.walk_chains::<64>(),
            _ => unreachable!("{chain_count} is not one of {CHAIN_COUNTS:?}"),
        }
    }

    fn walk_chains<const CHAINS: usize>(&self) -> u64 {
        let steps = WALK_LINES / CHAINS;
        debug_assert_eq!(steps * CHAINS, WALK_LINES);
        let count = self.buffer.lines().len() as u64;
        let start = self.start.get();
        // The next walk begins behind this one, on lines that have left the caches.
        self.start.set((start + WALK_LINES as u64) % count);
        let mut places: [u64; CHAINS] = std::array::from_fn(|chain| {
            self.permutation
                .at((start + (chain * steps) as u64) % count)
        });
        step_all(self.buffer.lines(), &mut places, steps);
        std::hint::black_box(places);
        (steps * CHAINS) as u64
    }
}

/// Moves each of `places` along its chain by `steps` lines, in turns.
#[inline(never)]
fn step_all<const CHAINS: usize>(
    lines: &[PointerChainLine],
    places: &mut [u64; CHAINS],
    steps: usize,
) {
    for _ in 0..steps {
        for place in places.iter_mut() {
            *place = lines[*place as usize].next;
            prefetch(lines.as_ptr().wrapping_add(*place as usize));
        }
    }
}

/// Starts loading the line into all caches. Does nothing on processors other than x86-64, where
/// only the out-of-order window keeps lines in flight.
#[inline(always)]
fn prefetch(line: *const PointerChainLine) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and faults on no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chains() -> Chains {
        Chains::new(PointerChainBuffer::new(4 << 20).unwrap(), &mut |_, _| {})
    }

    #[test]
    fn the_lines_form_one_cycle() {
        let chains = chains();
        let lines = chains.buffer().lines();
        let mut place = 0;
        for step in 1..=lines.len() {
            place = lines[place].next as usize;
            assert_eq!(place == 0, step == lines.len(), "back after {step} steps");
        }
    }

    #[test]
    fn walks_of_any_width_go_along_the_cycle() {
        let chains = chains();
        let count = chains.buffer().lines().len() as u64;
        let mut places = [0, 1, 2, 3].map(|chain| chains.permutation.at(chain * 100));
        step_all(chains.buffer().lines(), &mut places, 7);
        assert_eq!(
            places,
            [7, 107, 207, 307].map(|step| chains.permutation.at(step))
        );
        for chain_count in CHAIN_COUNTS {
            let start = chains.start.get();
            assert_eq!(chains.walk(chain_count), WALK_LINES as u64);
            assert_eq!(chains.start.get(), (start + WALK_LINES as u64) % count);
        }
    }
}

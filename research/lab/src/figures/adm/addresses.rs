//! Addresses of objects in a memory: size classes, and the freed blocks of each. Blocks are
//! multiples of lines of 64 bytes.

use std::collections::HashMap;

/// The addresses of one memory.
#[derive(Clone, Debug, Default)]
pub(super) struct HybridAddressAllocator {
    end: u64,
    free: HashMap<u64, Vec<u64>>,
}

const LINE: u64 = 64;

/// Returns the size of the block for an object of this size.
fn class(bytes: u64) -> u64 {
    let lines = bytes.div_ceil(LINE).max(1);
    // Eight classes in each doubling waste an eighth of a block at most.
    let step = (lines.next_power_of_two() / 16).max(1);
    lines.next_multiple_of(step) * LINE
}

impl HybridAddressAllocator {
    pub(super) fn take(&mut self, bytes: u64) -> u64 {
        let class = class(bytes);
        let freed = self.free.get_mut(&class).and_then(Vec::pop);
        freed.unwrap_or_else(|| {
            self.end += class;
            self.end - class
        })
    }

    pub(super) fn give_back(&mut self, address: u64, bytes: u64) {
        self.free.entry(class(bytes)).or_default().push(address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_their_objects_and_do_not_overlap() {
        for bytes in 1..10_000 {
            let class = class(bytes);
            assert!(
                class >= bytes && class <= (bytes + LINE) * 9 / 8,
                "{bytes} {class}"
            );
        }
        let mut addresses = HybridAddressAllocator::default();
        let (one, other) = (addresses.take(1000), addresses.take(1000));
        assert!(one.abs_diff(other) >= 1000);
        addresses.give_back(one, 1000);
        assert_eq!(addresses.take(1000), one);
    }
}

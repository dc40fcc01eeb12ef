//! The resident memory of this process.

use nearfield_tiers::machine::kibibytes_after;
use std::fs;

/// Memory of this process that is in RAM, and the part of it in huge pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resident {
    pub(super) bytes: u64,
    pub(super) huge_bytes: u64,
}

impl Resident {
    /// Reads `/proc/self/smaps_rollup`; all zeros if the file is missing.
    pub(super) fn now() -> Self {
        let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let bytes = |name| kibibytes_after(&text, name).unwrap_or(0) * 1024;
        Resident {
            bytes: bytes("Rss:"),
            huge_bytes: bytes("AnonHugePages:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_with_memory_touched() {
        // Far more than other tests of this process free meanwhile.
        const BYTES: usize = 512 << 20;
        let before = Resident::now();
        let block = vec![1_u8; BYTES];
        let after = Resident::now();
        assert_eq!(block[block.len() / 2], 1);
        assert!(
            after.bytes > before.bytes + BYTES as u64 / 2,
            "{before:?} {after:?}"
        );
    }
}

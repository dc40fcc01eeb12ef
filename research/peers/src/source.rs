//! Keys of the lab.

use std::fmt::Debug;
use std::hash::Hash;

/// A key of the lab: `u64` or [`PeerTextKey`].
pub trait PeerKey: Copy + Send + Sync + 'static {
    /// The key for maps that are generic over their keys.
    type Native: Copy + Ord + Hash + Debug + Send + Sync + 'static;

    /// Converts the key.
    fn native(self) -> Self::Native;
}

impl PeerKey for u64 {
    type Native = u64;

    fn native(self) -> u64 {
        self
    }
}

impl PeerKey for PeerTextKey {
    type Native = &'static [u8];

    fn native(self) -> &'static [u8] {
        self.bytes()
    }
}

/// A byte string in memory that lives as long as the program, with a NUL byte after it.
///
/// Maps take it as a slice, so that none of them pays for copies of keys. The NUL byte makes the
/// keys of a set prefix-free for those that need it.
#[derive(Clone, Copy, Debug)]
pub struct PeerTextKey {
    terminated: &'static [u8],
}

impl PeerTextKey {
    /// Wraps a byte string that ends with its only NUL byte; returns `None` for other strings.
    pub fn from_terminated(terminated: &'static [u8]) -> Option<Self> {
        // An inner NUL byte would let one key be a prefix of another.
        let first = terminated.iter().position(|&byte| byte == 0);
        (first.is_some() && first == terminated.len().checked_sub(1))
            .then_some(PeerTextKey { terminated })
    }

    /// Returns the byte string without the NUL byte.
    #[inline]
    pub fn bytes(self) -> &'static [u8] {
        debug_assert_eq!(self.terminated.last(), Some(&0));
        &self.terminated[..self.terminated.len() - 1]
    }

    /// Returns the byte string with the NUL byte.
    #[inline]
    pub fn terminated(self) -> &'static [u8] {
        self.terminated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_terminated_strings_are_text() {
        assert_eq!(
            PeerTextKey::from_terminated(b"key\0").map(PeerTextKey::bytes),
            Some(&b"key"[..])
        );
        assert_eq!(
            PeerTextKey::from_terminated(b"\0").map(PeerTextKey::bytes),
            Some(&b""[..])
        );
        for bad in [&b""[..], b"key", b"k\0y\0", b"k\0y"] {
            assert!(PeerTextKey::from_terminated(bad).is_none());
        }
    }
}

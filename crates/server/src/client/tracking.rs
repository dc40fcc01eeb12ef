//! The options of a client for `CLIENT TRACKING`.

use super::ENTRY_BYTES;

/// The options that a client has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrackingOptions {
    /// The client that gets the invalidations in its place; 0: none.
    pub redirection: u64,
    /// True if it gets invalidations of prefixes.
    pub broadcast: bool,
    /// The prefixes; an empty list means all keys.
    pub prefixes: Vec<Vec<u8>>,
    /// True if only keys read after `CLIENT CACHING YES` are tracked.
    pub opt_in: bool,
    /// True if keys read after `CLIENT CACHING NO` are not tracked.
    pub opt_out: bool,
    /// True if it gets no invalidations of its own writes.
    pub no_loop: bool,
    /// The choice of `CLIENT CACHING` for its next command.
    pub caching: Option<bool>,
    /// True if the command that is being executed made that choice.
    pub caching_is_new: bool,
}

impl TrackingOptions {
    /// Returns the memory of the tracking, in bytes: each prefix counts twice.
    pub fn bytes(&self) -> usize {
        // The server's table of prefixes has each of them as well.
        let bytes = |prefix: &Vec<u8>| 2 * (prefix.len() + ENTRY_BYTES);
        self.prefixes.iter().map(bytes).sum()
    }

    /// Returns the prefixes of which it gets invalidations, if it has chosen broadcasting. The
    /// empty prefix stands for all keys.
    pub fn tracked_prefixes(&self) -> impl Iterator<Item = &[u8]> {
        debug_assert!(
            self.broadcast || self.prefixes.is_empty(),
            "only broadcasting has prefixes"
        );
        let is_all = self.broadcast && self.prefixes.is_empty();
        let chosen = self.prefixes.iter().map(|prefix| &prefix[..]);
        is_all.then_some(&[][..]).into_iter().chain(chosen)
    }
}

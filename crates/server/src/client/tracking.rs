//! The options of a client for `CLIENT TRACKING`.

use super::ENTRY_BYTES;

/// What a client has chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The client that is told in its place; 0: none.
    pub redirection: u64,
    /// Whether it is told of prefixes.
    pub broadcast: bool,
    /// The prefixes; none means all keys.
    pub prefixes: Vec<Vec<u8>>,
    /// Only what is read after `CLIENT CACHING YES` is tracked.
    pub opt_in: bool,
    /// What is read after `CLIENT CACHING NO` is not tracked.
    pub opt_out: bool,
    /// It is not told of what it writes itself.
    pub no_loop: bool,
    /// What it has said with `CLIENT CACHING` of its next command.
    pub caching: Option<bool>,
    /// Whether that was said by the command that is being executed.
    pub caching_is_new: bool,
}

impl Choice {
    /// Returns the memory of the tracking, in bytes: each prefix counts twice.
    pub fn bytes(&self) -> usize {
        let bytes = |prefix: &Vec<u8>| 2 * (prefix.len() + ENTRY_BYTES);
        self.prefixes.iter().map(bytes).sum()
    }

    /// The prefixes that it is told of, if it has chosen that. All keys have the one of no bytes.
    pub fn told_prefixes(&self) -> impl Iterator<Item = &[u8]> {
        let is_all = self.broadcast && self.prefixes.is_empty();
        let chosen = self.prefixes.iter().map(|prefix| &prefix[..]);
        is_all.then_some(&[][..]).into_iter().chain(chosen)
    }
}

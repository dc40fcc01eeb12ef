//! The ways of queries through the lower part.

/// The treatment of queries on the way. Default: as published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Push-pull: where two and more queries, neighbours in the order of their keys, are at one
    /// node, the host reads the node and decides for all of them, instead of sending each there.
    pub pulls: bool,
    /// A query goes down within a tower as far as it has to in one round, and to the right in the
    /// same. As published each of these steps takes a round of its own.
    pub descends: bool,
}

impl Options {
    /// The push-pull sibling.
    pub fn push_pull() -> Options {
        Options {
            pulls: true,
            ..Options::default()
        }
    }
}

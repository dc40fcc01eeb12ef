//! The options of queries in the lower part.

/// The treatment of queries in the lower part. By default it is as published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JumpPushOptions {
    /// True for push-pull: if two or more queries that are adjacent in the order of keys are at one
    /// node, the host reads the node and decides for all of them, instead of sending each to it.
    pub pulls: bool,
    /// True if a query goes down within a tower as far as necessary, and then to the right, in one
    /// round. As published each of these steps takes a separate round.
    pub descends: bool,
}

impl JumpPushOptions {
    /// Creates the options of the push-pull variant.
    pub fn push_pull() -> JumpPushOptions {
        JumpPushOptions {
            pulls: true,
            ..JumpPushOptions::default()
        }
    }
}

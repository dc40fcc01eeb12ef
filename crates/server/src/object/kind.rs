//! The types of keys.

/// The type of a key, as `TYPE` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A byte string.
    String,
    /// A list.
    List,
    /// A hash.
    Hash,
    /// A set.
    Set,
    /// A sorted set.
    SortedSet,
    /// A stream.
    Stream,
}

impl Kind {
    /// All types.
    pub const ALL: [Kind; 6] = [
        Kind::String,
        Kind::List,
        Kind::Hash,
        Kind::Set,
        Kind::SortedSet,
        Kind::Stream,
    ];

    /// Returns the type's name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Stream => "stream",
        }
    }
}

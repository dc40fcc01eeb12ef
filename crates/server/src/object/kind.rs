//! The types of keys.

/// The type of a key, as `TYPE` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisType {
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

impl RedisType {
    /// All types.
    pub const ALL: [RedisType; 6] = [
        RedisType::String,
        RedisType::List,
        RedisType::Hash,
        RedisType::Set,
        RedisType::SortedSet,
        RedisType::Stream,
    ];

    /// Returns the type's name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            RedisType::String => "string",
            RedisType::List => "list",
            RedisType::Hash => "hash",
            RedisType::Set => "set",
            RedisType::SortedSet => "zset",
            RedisType::Stream => "stream",
        }
    }
}

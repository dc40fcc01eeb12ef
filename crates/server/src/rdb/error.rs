//! The errors of reading and writing.

/// Why data were refused, or could not be written, and where: offsets count the bytes of the file
/// or payload from 0.
///
/// Within a packed value (a listpack, a ziplist, an intset or a zipmap) the offset is that of its
/// first byte, as the file may hold it compressed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source or the target failed.
    #[error("input or output failed at offset {offset}: {source}")]
    Io {
        /// What the source or the target said.
        source: std::io::Error,
        /// How far it had come.
        offset: u64,
    },
    /// The keys to be written cannot be read.
    #[error("the keys cannot be read: {0}")]
    Index(#[from] nearfield::Error),
    /// The data end before the file or payload does.
    #[error("data are cut off at offset {offset}")]
    Truncated {
        /// The number of bytes there are.
        offset: u64,
    },
    /// The first bytes are not those of a snapshot.
    #[error(
        "no snapshot: it begins with \"{found}\" and not with \"REDIS\" or \"VALKEY\" and a version"
    )]
    BadMagic {
        /// The first bytes.
        found: String,
        /// Where they lie.
        offset: u64,
    },
    /// The version is not one that can be read, or written.
    #[error("version {version} at offset {offset} is not within {oldest} to {newest}")]
    UnknownVersion {
        /// What is asked for.
        version: u32,
        /// The oldest version that is accepted.
        oldest: u32,
        /// The newest version that is accepted.
        newest: u32,
        /// Where it lies.
        offset: u64,
    },
    /// Data have changed since they were written.
    #[error("checksum {stored:016x} at offset {offset} is not that of the data, {computed:016x}")]
    ChecksumMismatch {
        /// The checksum that came with the data.
        stored: u64,
        /// The checksum of the data.
        computed: u64,
        /// Where the stored one lies.
        offset: u64,
    },
    /// A length or a number of elements contradicts the data.
    #[error("{what}: {length} at offset {offset} does not fit the data")]
    BadLength {
        /// What has this length.
        what: &'static str,
        /// The length.
        length: u64,
        /// Where it, or the packed value that holds it, lies.
        offset: u64,
    },
    /// A byte that selects a form selects none that is known.
    #[error("{what}: {found} at offset {offset} is not known")]
    BadEncoding {
        /// What the byte selects.
        what: &'static str,
        /// What was found.
        found: u64,
        /// Where it, or the packed value that holds it, lies.
        offset: u64,
    },
    /// A compressed string cannot be restored to the length that it is said to have.
    #[error("a string of {length} bytes at offset {offset} is not what LZF compression writes")]
    BadCompression {
        /// The length without compression.
        length: u64,
        /// Where the string lies.
        offset: u64,
    },
    /// The score of a member is not a number.
    #[error("score \"{score}\" at offset {offset} is not a number")]
    BadScore {
        /// The score as it stands there.
        score: String,
        /// Where it, or the packed value that holds it, lies.
        offset: u64,
    },
    /// A container in a payload has no elements. (In a snapshot, such a key is passed over.)
    #[error("the container at offset {offset} is empty")]
    EmptyContainer {
        /// Where it lies.
        offset: u64,
    },
    /// What the data hold is known and not supported.
    #[error("key \"{key}\" is a {kind} (type {type_byte} at offset {offset}), not supported")]
    Unsupported {
        /// The first bytes of the key; empty in a payload and for what belongs to no key.
        key: String,
        /// What it is.
        kind: &'static str,
        /// The byte that says so.
        type_byte: u8,
        /// Where that byte lies.
        offset: u64,
    },
    /// A writer was called in an order that would have made a file that nobody can read.
    #[error("{call} is out of place at offset {offset}: {remaining} elements or scores are due")]
    OutOfPlace {
        /// What was called.
        call: &'static str,
        /// How many elements and scores the container that was begun still has to get.
        remaining: u64,
        /// How far the file had come.
        offset: u64,
    },
}

impl Error {
    /// A value that is to be written cannot be read.
    pub fn unreadable(why: impl std::fmt::Display) -> Error {
        Error::Io {
            source: std::io::Error::other(why.to_string()),
            offset: 0,
        }
    }
}

//! The errors of reading and writing.

/// The result of reading or writing.
pub type RdbResult<T> = Result<T, RdbError>;

/// The error for data that were refused, or could not be written, with its position: offsets count
/// the bytes of the file or payload from 0.
///
/// Within a packed value (a listpack, a ziplist, an intset or a zipmap) the offset is that of its
/// first byte, because the file may hold it compressed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdbError {
    /// The source or the target failed.
    #[error("input or output failed at offset {offset}: {source}")]
    Io {
        /// The error of the source or the target.
        source: std::io::Error,
        /// The offset reached.
        offset: u64,
    },
    /// The keys could not be read for writing them.
    #[error("the keys cannot be read: {0}")]
    Index(#[from] nearfield::OperationError),
    /// The data end before the file or payload does.
    #[error("data are cut off at offset {offset}")]
    Truncated {
        /// The number of bytes that exist.
        offset: u64,
    },
    /// The first bytes are not those of a snapshot.
    #[error(
        "not a snapshot: it begins with \"{found}\" and not with \"REDIS\" or \"VALKEY\" and a \
         version"
    )]
    BadMagic {
        /// The first bytes.
        found: String,
        /// The offset of these bytes.
        offset: u64,
    },
    /// The version is not one that can be read, or written.
    #[error("version {version} at offset {offset} is not within {oldest} to {newest}")]
    UnknownVersion {
        /// The requested version.
        version: u32,
        /// The oldest version that is accepted.
        oldest: u32,
        /// The newest version that is accepted.
        newest: u32,
        /// The offset of the version.
        offset: u64,
    },
    /// The data have changed since they were written.
    #[error("checksum {stored:016x} at offset {offset} does not match the data, {computed:016x}")]
    ChecksumMismatch {
        /// The checksum that came with the data.
        stored: u64,
        /// The checksum of the data.
        computed: u64,
        /// The offset of the stored checksum.
        offset: u64,
    },
    /// A length or a number of elements contradicts the data.
    #[error("{what}: {length} at offset {offset} does not fit the data")]
    BadLength {
        /// The part that has this length.
        what: &'static str,
        /// The length.
        length: u64,
        /// The offset of the length, or of the packed value that holds it.
        offset: u64,
    },
    /// A byte that selects a form has an unknown value.
    #[error("{what}: {found} at offset {offset} is not known")]
    BadEncoding {
        /// The choice that the byte makes.
        what: &'static str,
        /// The value found.
        found: u64,
        /// The offset of the byte, or of the packed value that holds it.
        offset: u64,
    },
    /// A compressed string does not decompress to its stated length.
    #[error("a string of {length} bytes at offset {offset} is not valid LZF output")]
    BadCompression {
        /// The length without compression.
        length: u64,
        /// The offset of the string.
        offset: u64,
    },
    /// A compressed string says that it is longer than there is room for.
    #[error("there is no room for a string of {length} bytes, compressed at offset {offset}")]
    NoRoom {
        /// The length without compression.
        length: u64,
        /// The offset of the string.
        offset: u64,
    },
    /// The score of a member is not a number.
    #[error("score \"{score}\" at offset {offset} is not a number")]
    BadScore {
        /// The text of the score.
        score: String,
        /// The offset of the score, or of the packed value that holds it.
        offset: u64,
    },
    /// A container in a payload has no elements. (In a snapshot, such a key is skipped.)
    #[error("the container at offset {offset} is empty")]
    EmptyContainer {
        /// The offset of the container.
        offset: u64,
    },
    /// The data have a known part that is not supported.
    #[error("key \"{key}\" is a {kind} (type {type_byte} at offset {offset}), not supported")]
    Unsupported {
        /// The first bytes of the key; empty in a payload and for a part that belongs to no key.
        key: String,
        /// The kind of the part.
        kind: &'static str,
        /// The byte that marks the part.
        type_byte: u8,
        /// The offset of that byte.
        offset: u64,
    },
    /// A writer was called in an order that would have made an unreadable file.
    #[error(
        "{call} is out of place at offset {offset}: {remaining} elements or scores are missing"
    )]
    OutOfPlace {
        /// The method that was called.
        call: &'static str,
        /// Number of elements and scores that the current container still needs.
        remaining: u64,
        /// The offset reached in the file.
        offset: u64,
    },
}

impl RdbError {
    /// Creates the error for a value that cannot be read for writing it.
    pub fn unreadable(why: impl std::fmt::Display) -> RdbError {
        RdbError::Io {
            source: std::io::Error::other(why.to_string()),
            offset: 0,
        }
    }
}

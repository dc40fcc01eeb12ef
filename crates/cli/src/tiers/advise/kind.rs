//! Types of values, and the commands that read a sample of one.

use super::server::with_key;
use serde::Serialize;

/// Greatest memory of a value that is read as a whole.
pub const WHOLE_BYTES: u64 = 64 << 10;
/// Number of bytes that are read of a string. A dictionary is trained on no more of a value.
pub const STRING_BYTES: u64 = 8 << 10;
/// Greatest average size of elements for which a value is read.
const ELEMENT_BYTES_MAX: u64 = 1 << 20;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SurveyedValueKind {
    /// A string.
    String,
    /// A list.
    List,
    /// A hash.
    Hash,
    /// A set.
    Set,
    /// A sorted set.
    SortedSet,
    /// A stream, or the type of a module. These stay in memory.
    Other,
}

impl SurveyedValueKind {
    /// The list of all types.
    pub const ALL: [SurveyedValueKind; 6] = [
        SurveyedValueKind::String,
        SurveyedValueKind::List,
        SurveyedValueKind::Hash,
        SurveyedValueKind::Set,
        SurveyedValueKind::SortedSet,
        SurveyedValueKind::Other,
    ];

    /// Returns the type named by a reply of `TYPE`; `None` if there is no key.
    pub fn named(name: &[u8]) -> Option<SurveyedValueKind> {
        match name {
            b"none" => None,
            b"string" => Some(SurveyedValueKind::String),
            b"list" => Some(SurveyedValueKind::List),
            b"hash" => Some(SurveyedValueKind::Hash),
            b"set" => Some(SurveyedValueKind::Set),
            b"zset" => Some(SurveyedValueKind::SortedSet),
            _ => Some(SurveyedValueKind::Other),
        }
    }

    /// Returns the name for display.
    pub fn name(self) -> &'static str {
        match self {
            SurveyedValueKind::String => "strings",
            SurveyedValueKind::List => "lists",
            SurveyedValueKind::Hash => "hashes",
            SurveyedValueKind::Set => "sets",
            SurveyedValueKind::SortedSet => "sorted sets",
            SurveyedValueKind::Other => "other types",
        }
    }

    /// Returns the command that returns the number of elements.
    pub fn length_command(self) -> Option<&'static str> {
        match self {
            SurveyedValueKind::List => Some("LLEN"),
            SurveyedValueKind::Hash => Some("HLEN"),
            SurveyedValueKind::Set => Some("SCARD"),
            SurveyedValueKind::SortedSet => Some("ZCARD"),
            SurveyedValueKind::String | SurveyedValueKind::Other => None,
        }
    }

    /// Returns a request for a value, or for a part of it that takes about [`WHOLE_BYTES`].
    /// `length` is the number of elements of a large one. Returns `None` for values that are not
    /// read.
    pub fn value_command(
        self,
        key: &[u8],
        memory_bytes: u64,
        length: Option<u64>,
    ) -> Option<Vec<Vec<u8>>> {
        if self == SurveyedValueKind::String {
            let last = (STRING_BYTES - 1).to_string();
            return Some(with_key(&["GETRANGE"], key, &["0", &last]));
        }
        if memory_bytes <= WHOLE_BYTES {
            return match self {
                SurveyedValueKind::List => Some(with_key(&["LRANGE"], key, &["0", "-1"])),
                SurveyedValueKind::Hash => Some(with_key(&["HGETALL"], key, &[])),
                SurveyedValueKind::Set => Some(with_key(&["SMEMBERS"], key, &[])),
                SurveyedValueKind::SortedSet => {
                    Some(with_key(&["ZRANGE"], key, &["0", "-1", "WITHSCORES"]))
                }
                SurveyedValueKind::String | SurveyedValueKind::Other => None,
            };
        }
        // The value may have been removed since its memory was queried.
        let element_bytes = memory_bytes / length.filter(|length| *length > 0)?;
        // The shortest request returns one element, which would already be a long reply.
        if element_bytes > ELEMENT_BYTES_MAX {
            return None;
        }
        let count = (WHOLE_BYTES / element_bytes.max(1)).max(1);
        let (last, count) = ((count - 1).to_string(), count.to_string());
        match self {
            SurveyedValueKind::List => Some(with_key(&["LRANGE"], key, &["0", &last])),
            // Hashes and sets have no ranges, so the first page of a scan is read.
            SurveyedValueKind::Hash => Some(with_key(&["HSCAN"], key, &["0", "COUNT", &count])),
            SurveyedValueKind::Set => Some(with_key(&["SSCAN"], key, &["0", "COUNT", &count])),
            SurveyedValueKind::SortedSet => {
                Some(with_key(&["ZRANGE"], key, &["0", &last, "WITHSCORES"]))
            }
            SurveyedValueKind::String | SurveyedValueKind::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(kind: SurveyedValueKind, memory_bytes: u64, length: Option<u64>) -> Option<String> {
        let words = kind.value_command(b"k", memory_bytes, length)?;
        let words = words.iter().map(|word| String::from_utf8_lossy(word));
        Some(words.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn large_values_are_requested_in_part() {
        let of = |kind, bytes, length| command(kind, bytes, length).unwrap_or_default();
        assert_eq!(
            of(SurveyedValueKind::String, 1 << 30, None),
            "GETRANGE k 0 8191"
        );
        assert_eq!(of(SurveyedValueKind::Hash, 1000, None), "HGETALL k");
        assert_eq!(
            of(SurveyedValueKind::List, 100 << 20, Some(100 << 10)),
            "LRANGE k 0 63"
        );
        assert_eq!(
            of(SurveyedValueKind::Hash, 1 << 30, Some(1 << 20)),
            "HSCAN k 0 COUNT 64"
        );
        // A single element is larger than the greatest sample.
        assert_eq!(of(SurveyedValueKind::List, 1 << 30, Some(3)), "");
        assert_eq!(of(SurveyedValueKind::Set, 1 << 20, Some(0)), "");
        assert_eq!(of(SurveyedValueKind::Other, 1000, None), "");
    }
}

//! Up to which size objects keep their small forms.

/// Up to which size objects keep their small forms. The defaults are those of Redis 7.2.
///
/// Limits matter when an object grows: one that has its large form keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fields of a packed hash (`hash-max-listpack-entries`).
    pub hash_entries_max: usize,
    /// Bytes of a field or value of a packed hash (`hash-max-listpack-value`).
    pub hash_bytes_max: usize,
    /// Members of a set of integers (`set-max-intset-entries`).
    pub set_integers_max: usize,
    /// Members of a packed set (`set-max-listpack-entries`).
    pub set_entries_max: usize,
    /// Bytes of a member of a packed set (`set-max-listpack-value`).
    pub set_bytes_max: usize,
    /// Members of a packed sorted set (`zset-max-listpack-entries`).
    pub sorted_set_entries_max: usize,
    /// Bytes of a member of a packed sorted set (`zset-max-listpack-value`).
    pub sorted_set_bytes_max: usize,
    /// What a chunk of a list holds (`list-max-listpack-size`).
    pub list_chunk: ChunkLimit,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            hash_entries_max: 128,
            hash_bytes_max: 64,
            set_integers_max: 512,
            set_entries_max: 128,
            set_bytes_max: 64,
            sorted_set_entries_max: 128,
            sorted_set_bytes_max: 64,
            list_chunk: ChunkLimit::from_setting(-2),
        }
    }
}

/// What a chunk of a list holds at most. One element is always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLimit {
    /// Bytes of the packed elements.
    pub bytes_max: usize,
    /// Elements.
    pub entries_max: usize,
}

impl ChunkLimit {
    /// Reads a value of `list-max-listpack-size`: from -1 to -5 for 4, 8, 16, 32 or 64 KiB, lower
    /// ones as -5; else a number of elements, which together are at most 8 KiB. 0 counts as 1.
    pub fn from_setting(setting: i32) -> ChunkLimit {
        if setting < 0 {
            ChunkLimit {
                bytes_max: (2 << 10) << setting.unsigned_abs().min(5),
                entries_max: usize::MAX,
            }
        } else {
            ChunkLimit {
                bytes_max: 8 << 10,
                entries_max: setting.max(1) as usize,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_lists_are_read_as_documented() {
        let bytes = |setting| ChunkLimit::from_setting(setting).bytes_max;
        let kibibytes = [-1, -2, -3, -4, -5, i32::MIN].map(|setting| bytes(setting) >> 10);
        assert_eq!(kibibytes, [4, 8, 16, 32, 64, 64]);
        assert_eq!(ChunkLimit::from_setting(0).entries_max, 1);
        assert_eq!(ChunkLimit::from_setting(100).entries_max, 100);
    }
}

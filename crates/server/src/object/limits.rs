//! The sizes up to which objects keep their small forms.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The sizes up to which objects keep their small forms. The defaults are those of Redis 7.2.
///
/// Limits matter when an object grows: one that has its large form keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLimits {
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
    /// The limit of a chunk of a list (`list-max-listpack-size`).
    pub list_chunk: ChunkLimit,
    /// Bytes of a node of a stream (`stream-node-max-bytes`); 0: no limit.
    pub stream_node_bytes_max: usize,
    /// Entries of a node of a stream (`stream-node-max-entries`); 0: no limit.
    pub stream_node_entries_max: usize,
    /// Bytes of a sparse HyperLogLog, including its header (`hll-sparse-max-bytes`).
    pub hyperloglog_sparse_bytes_max: usize,
}

impl Default for ObjectLimits {
    fn default() -> Self {
        ObjectLimits {
            hash_entries_max: 512,
            hash_bytes_max: 64,
            set_integers_max: 512,
            set_entries_max: 128,
            set_bytes_max: 64,
            sorted_set_entries_max: 128,
            sorted_set_bytes_max: 64,
            list_chunk: ChunkLimit::from_setting(-2),
            stream_node_bytes_max: 4096,
            stream_node_entries_max: 100,
            hyperloglog_sparse_bytes_max: 3000,
        }
    }
}

/// Limits that all threads read whenever an object is changed, and that rarely change themselves:
/// reads neither wait nor write.
#[derive(Debug)]
pub struct SharedLimits {
    values: [AtomicUsize; 12],
    /// The lock that serializes changes.
    changing: Mutex<()>,
}

impl Default for SharedLimits {
    fn default() -> Self {
        SharedLimits {
            values: ObjectLimits::default().values().map(AtomicUsize::new),
            changing: Mutex::new(()),
        }
    }
}

impl SharedLimits {
    /// Returns the current limits. During a change some may be new already and others not.
    #[inline]
    pub fn load(&self) -> ObjectLimits {
        let value = |position: usize| self.values[position].load(Ordering::Relaxed);
        ObjectLimits {
            hash_entries_max: value(0),
            hash_bytes_max: value(1),
            set_integers_max: value(2),
            set_entries_max: value(3),
            set_bytes_max: value(4),
            sorted_set_entries_max: value(5),
            sorted_set_bytes_max: value(6),
            list_chunk: ChunkLimit {
                bytes_max: value(7),
                entries_max: value(8),
            },
            stream_node_bytes_max: value(9),
            stream_node_entries_max: value(10),
            hyperloglog_sparse_bytes_max: value(11),
        }
    }

    /// Changes the limits.
    pub fn change(&self, change: impl FnOnce(&mut ObjectLimits)) {
        // Two changes at a time could each overwrite the other's.
        let changing = self.changing.lock();
        let mut limits = self.load();
        change(&mut limits);
        for (shared, value) in self.values.iter().zip(limits.values()) {
            shared.store(value, Ordering::Relaxed);
        }
        drop(changing);
    }
}

impl ObjectLimits {
    fn values(&self) -> [usize; 12] {
        [
            self.hash_entries_max,
            self.hash_bytes_max,
            self.set_integers_max,
            self.set_entries_max,
            self.set_bytes_max,
            self.sorted_set_entries_max,
            self.sorted_set_bytes_max,
            self.list_chunk.bytes_max,
            self.list_chunk.entries_max,
            self.stream_node_bytes_max,
            self.stream_node_entries_max,
            self.hyperloglog_sparse_bytes_max,
        ]
    }
}

/// The maximum size of a chunk of a list. One element is always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLimit {
    /// Bytes of the packed elements.
    pub bytes_max: usize,
    /// Elements.
    pub entries_max: usize,
}

impl ChunkLimit {
    /// Reads a value of `list-max-listpack-size`: from -1 to -5 for 4, 8, 16, 32 or 64 KiB, lower
    /// ones as -5; otherwise a number of elements, which together have at most 8 KiB. 0 counts as
    /// 1.
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
    fn shared_limits_are_read_as_they_were_changed() {
        let shared = SharedLimits::default();
        assert_eq!(shared.load(), ObjectLimits::default());
        let mut expected = ObjectLimits::default();
        shared.change(|limits| {
            limits.set_bytes_max = 7;
            limits.list_chunk = ChunkLimit::from_setting(9);
            expected = *limits;
        });
        assert_eq!(shared.load(), expected);
        assert_eq!(expected.set_bytes_max, 7);
    }

    #[test]
    fn settings_of_lists_are_read_as_documented() {
        let bytes = |setting| ChunkLimit::from_setting(setting).bytes_max;
        let kibibytes = [-1, -2, -3, -4, -5, i32::MIN].map(|setting| bytes(setting) >> 10);
        assert_eq!(kibibytes, [4, 8, 16, 32, 64, 64]);
        assert_eq!(ChunkLimit::from_setting(0).entries_max, 1);
        assert_eq!(ChunkLimit::from_setting(100).entries_max, 100);
    }
}

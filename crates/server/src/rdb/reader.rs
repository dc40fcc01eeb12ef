//! The reader of snapshots, item by item.

use super::error::{RdbError, RdbResult};
use super::format::{
    CHECKSUM_SINCE, MAGIC, READ_VALKEY_VERSIONS, READ_VERSIONS, RdbValue, VALKEY_MAGIC,
    check_version, kind, opcode,
};
use super::source::RdbSource;
use super::writer::Attributes;
use super::{decode, skip};
use std::io::Read;

/// An item of a snapshot, in its order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RdbItem {
    /// A fact about the file or the server that wrote it, such as `redis-ver`.
    Aux(Vec<u8>, Vec<u8>),
    /// The code of a library of functions.
    Function(Vec<u8>),
    /// The database that the entries after it belong to.
    Select(u64),
    /// The sizes of the database selected last, as a hint to reserve room, not a guarantee.
    ResizeDb {
        /// The number of keys.
        keys: u64,
        /// Number of keys that expire.
        expires: u64,
    },
    /// A key and its value. Expired keys are passed on like any other.
    Entry {
        /// The key.
        key: Vec<u8>,
        /// Its value, never a container without elements.
        value: RdbValue,
        /// The time at which it expires, in ms since 1970.
        expires_at_ms: Option<u64>,
        /// Number of seconds for which it had not been used.
        idle_s: Option<u64>,
        /// The logarithmic counter of its uses.
        frequency: Option<u8>,
    },
    /// The end, after the checksum was verified.
    End,
}

/// The treatment of values of modules, and hashes in the forms of release candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RdbUnsupportedPolicy {
    /// An error that names the key ends reading.
    #[default]
    Refuse,
    /// Such values are skipped and counted. Values of modules from before 4.0 do not mark
    /// their end, and are refused nevertheless.
    Skip,
}

/// The reader of a snapshot of version 1 to 12, or of version 80, which is Valkey's.
///
/// It is an iterator that ends after [`RdbItem::End`] or the first error. The file is not known to
/// be intact before [`RdbItem::End`]: a caller that must not keep half a file, or a changed one,
/// keeps what it has read separately until then.
///
/// It buffers, and so may read more from `input` than the file: pass a [`take`](Read::take) of an
/// input that continues. Memory: the value being read and a buffer of 64 KiB; the length of a
/// string or container is trusted only as far as data have arrived, so that a reservation is at
/// most 1 MiB, or as much again as has been read of it.
///
/// ```
/// use nearfield_server::rdb::{
/// Attributes, RdbItem, RdbReader, RdbUnsupportedPolicy, RdbValue, RdbWriter,
/// };
///
/// let mut writer = RdbWriter::new(Vec::new())?;
/// writer.select(0)?;
/// writer.entry(b"greeting", &RdbValue::String(b"hello".to_vec()), Attributes::default())?;
/// let file = writer.finish()?;
///
/// for item in RdbReader::new(file.as_slice(), RdbUnsupportedPolicy::Refuse)? {
///     if let RdbItem::Entry { key, value, .. } = item? {
///         assert_eq!(key, b"greeting");
///         assert_eq!(value, RdbValue::String(b"hello".to_vec()));
///     }
/// }
/// # Ok::<(), nearfield_server::rdb::RdbError>(())
/// ```
pub struct RdbReader<R> {
    source: RdbSource<R>,
    version: u32,
    unsupported: RdbUnsupportedPolicy,
    /// The attributes of the next entry: they come before its type.
    attributes: Attributes,
    skipped: u64,
    empty: u64,
    ended: bool,
}

impl<R: Read> RdbReader<R> {
    /// Begins to read a snapshot.
    ///
    /// # Errors
    /// `BadMagic` for another kind of file, `UnknownVersion`, `Truncated`, `Io`.
    pub fn new(input: R, unsupported: RdbUnsupportedPolicy) -> RdbResult<Self> {
        let mut source = RdbSource::new(input);
        let header: [u8; 9] = source.array()?;
        let bad_magic = || RdbError::BadMagic {
            found: nearfield_core::OperationError::shorten(&header),
            offset: 0,
        };
        let (digits, accepted) = match header.strip_prefix(MAGIC) {
            Some(digits) => (digits, READ_VERSIONS),
            None => {
                let digits = header.strip_prefix(VALKEY_MAGIC);
                (digits.ok_or_else(bad_magic)?, READ_VALKEY_VERSIONS)
            }
        };
        // `parse` alone would accept a sign.
        let version = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(bad_magic)?;
        let offset = (header.len() - digits.len()) as u64;
        Ok(Self {
            version: check_version(version, accepted, offset)?,
            source,
            unsupported,
            attributes: Attributes::default(),
            skipped: 0,
            empty: 0,
            ended: false,
        })
    }

    /// Returns the version of the file.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the number of bytes of the file that have been read.
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Returns the number of keys, and other data of modules, that were skipped as unsupported.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns the number of keys that were skipped because they had containers without elements.
    /// Redis does the same: some of its releases wrote such keys by mistake.
    pub fn empty(&self) -> u64 {
        self.empty
    }

    fn item(&mut self) -> RdbResult<RdbItem> {
        loop {
            let offset = self.source.offset();
            match self.source.u8()? {
                opcode::EXPIRES_MS => {
                    let time_ms = i64::from_le_bytes(self.source.array()?);
                    self.attributes.expires_at_ms = expiry(time_ms);
                }
                opcode::EXPIRES_S => {
                    let time_s = i64::from(i32::from_le_bytes(self.source.array()?));
                    self.attributes.expires_at_ms = expiry(time_s.saturating_mul(1000));
                }
                opcode::IDLE => self.attributes.idle_s = Some(self.source.length()?),
                opcode::FREQUENCY => self.attributes.frequency = Some(self.source.u8()?),
                opcode::SELECT_DB => return Ok(RdbItem::Select(self.source.length()?)),
                opcode::RESIZE_DB => {
                    let keys = self.source.length()?;
                    let expires = self.source.length()?;
                    return Ok(RdbItem::ResizeDb { keys, expires });
                }
                opcode::AUX => {
                    return Ok(RdbItem::Aux(self.source.string()?, self.source.string()?));
                }
                opcode::FUNCTION => return Ok(RdbItem::Function(self.source.string()?)),
                // Only a server of the same cluster could use the sizes.
                opcode::SLOT => {
                    for _ in 0..3 {
                        self.source.length()?;
                    }
                }
                opcode::MODULE_AUX => self.module_aux(offset)?,
                opcode @ opcode::FUNCTION_OF_CANDIDATE => {
                    return Err(unsupported(b"", OF_CANDIDATE, opcode, offset));
                }
                opcode::EOF => {
                    self.end()?;
                    return Ok(RdbItem::End);
                }
                type_byte => {
                    if let Some(entry) = self.entry(type_byte, offset)? {
                        return Ok(entry);
                    }
                }
            }
        }
    }

    /// Reads a key and its value; `None` if it was skipped.
    fn entry(&mut self, type_byte: u8, offset: u64) -> RdbResult<Option<RdbItem>> {
        // Taken even if the key is skipped, so that they do not pass to the next one.
        let attributes = std::mem::take(&mut self.attributes);
        let key = self.source.string()?;
        if let Some(kind) = kind::unsupported(type_byte, self.version) {
            let refuse = self.unsupported == RdbUnsupportedPolicy::Refuse;
            if refuse || !skip::value(type_byte, &mut self.source)? {
                return Err(unsupported(&key, kind, type_byte, offset));
            }
            self.skipped += 1;
            return Ok(None);
        }
        let value = decode::read(type_byte, offset, &mut self.source)?;
        if value.is_empty_container() {
            self.empty += 1;
            return Ok(None);
        }
        Ok(Some(RdbItem::Entry {
            key,
            value,
            expires_at_ms: attributes.expires_at_ms,
            idle_s: attributes.idle_s,
            frequency: attributes.frequency,
        }))
    }

    fn module_aux(&mut self, offset: u64) -> RdbResult<()> {
        if self.unsupported == RdbUnsupportedPolicy::Refuse {
            return Err(unsupported(
                b"",
                "module's own data",
                opcode::MODULE_AUX,
                offset,
            ));
        }
        self.skipped += 1;
        // The first part is the position of the data, before or after the keys. It is skipped with
        // the rest.
        skip::module(&mut self.source)
    }

    fn end(&mut self) -> RdbResult<()> {
        if self.version < CHECKSUM_SINCE {
            return Ok(());
        }
        // Before the stored checksum is read, which is not a part of the sum.
        let computed = self.source.checksum();
        let offset = self.source.offset();
        let stored = u64::from_le_bytes(self.source.array()?);
        // A server that is configured to compute no checksum writes 0.
        if stored != 0 && stored != computed {
            return Err(RdbError::ChecksumMismatch {
                stored,
                computed,
                offset,
            });
        }
        Ok(())
    }
}

impl<R: Read> Iterator for RdbReader<R> {
    type Item = RdbResult<RdbItem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = self.item();
        self.ended = matches!(item, Ok(RdbItem::End) | Err(_));
        Some(item)
    }
}

/// Returns the time at which a key expires. Times before 1970 count as past, except the one that
/// means no time in Redis.
fn expiry(time_ms: i64) -> Option<u64> {
    (time_ms != -1).then(|| u64::try_from(time_ms).unwrap_or(0))
}

/// The kind of a library in a form that no release reads.
pub(super) const OF_CANDIDATE: &str = "library in a candidate's form";

pub(super) fn unsupported(key: &[u8], kind: &'static str, type_byte: u8, offset: u64) -> RdbError {
    RdbError::Unsupported {
        key: nearfield_core::OperationError::shorten(key),
        kind,
        type_byte,
        offset,
    }
}

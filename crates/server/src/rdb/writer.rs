//! The writer of snapshots.

use super::encode::{self, RdbHashTimes};
use super::error::{RdbError, RdbResult};
use super::format::{
    Dialect, MAGIC, RdbValue, TIME_MS_MAX, VALKEY_MAGIC, VALKEY_VERSION, WRITE_VERSIONS,
    check_version, kind, opcode,
};
use super::sink::RdbSink;
use super::stream;
use crate::object::stream::StreamParts;
use std::io::Write;

/// The attributes of a key in a snapshot, besides its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The time at which it expires, in ms since 1970.
    pub expires_at_ms: Option<u64>,
    /// Number of seconds for which it has not been used. Redis reads it if it evicts by recency.
    pub idle_s: Option<u64>,
    /// The logarithmic counter of its uses. Redis reads it if it evicts by frequency.
    pub frequency: Option<u8>,
}

/// The writer of a snapshot that every Redis 7 and Valkey reads. If there are [hashes with fields
/// that expire](Self::begin_timed_hash), Redis reads it from 7.4 on, or, if it is [for
/// Valkey](Self::with_dialect), Valkey from 9 on.
///
/// Large containers need not be in memory as a [`RdbValue`]: call a `begin_` method with their
/// number of elements, then write these one by one. All calls buffer; the file is complete when
/// [`finish`](Self::finish) has returned, and useless if any call has failed.
///
/// ```
/// use nearfield_server::rdb::{Attributes, RdbWriter};
///
/// let mut writer = RdbWriter::new(Vec::new())?;
/// writer.aux(b"redis-ver", b"7.0.15")?;
/// writer.select(0)?;
/// writer.resize(2, 1)?;
/// writer.begin_sorted_set(b"ranks", 2, Attributes::default())?;
/// for (member, score) in [(b"a", 1.0), (b"b", 2.5)] {
///     writer.element(member)?;
///     writer.score(score)?;
/// }
/// let expires = Attributes { expires_at_ms: Some(1_900_000_000_000), ..Attributes::default() };
/// writer.string(b"session", b"12", expires)?;
/// let file = writer.finish()?;
/// assert!(file.starts_with(b"REDIS0010"));
/// # Ok::<(), nearfield_server::rdb::RdbError>(())
/// ```
///
/// # Errors
/// For all calls: `Io` if the output fails, and `OutOfPlace` if the current container still lacks
/// elements, or has all of them already. For scores, `BadScore` for one that is not a number.
pub struct RdbWriter<W> {
    sink: RdbSink<W>,
    /// Number of elements and scores that the current container still needs.
    remaining: u64,
    /// True if every other one of them is a score.
    scored: bool,
    dialect: Dialect,
    /// The form of the times of fields, if there are any.
    times: Option<RdbHashTimes>,
}

impl<W: Write> RdbWriter<W> {
    /// Begins a snapshot of version 10, the newest that Redis 7.0 reads.
    ///
    /// # Errors
    /// `Io`.
    pub fn new(output: W) -> RdbResult<Self> {
        Self::with_version(output, *WRITE_VERSIONS.start())
    }

    /// Begins a snapshot for Redis, of version 10, or for Valkey, of version 80, which no Redis
    /// and no Valkey before 9 reads.
    ///
    /// # Errors
    /// `Io`.
    pub fn with_dialect(output: W, dialect: Dialect) -> RdbResult<Self> {
        match dialect {
            Dialect::Redis => Self::new(output),
            Dialect::Valkey => Self::begin(
                output,
                dialect,
                &[VALKEY_MAGIC, format!("{VALKEY_VERSION:03}").as_bytes()].concat(),
            ),
        }
    }

    /// Begins a snapshot of version 10, 11 or 12, which differ only in their number.
    ///
    /// # Errors
    /// `UnknownVersion` for any other, `Io`.
    pub fn with_version(output: W, version: u32) -> RdbResult<Self> {
        let version = check_version(version, WRITE_VERSIONS, MAGIC.len() as u64)?;
        let head = [MAGIC, format!("{version:04}").as_bytes()].concat();
        Self::begin(output, Dialect::Redis, &head)
    }

    fn begin(output: W, dialect: Dialect, head: &[u8]) -> RdbResult<Self> {
        let mut sink = RdbSink::new(output);
        sink.bytes(head)?;
        Ok(Self {
            sink,
            remaining: 0,
            scored: false,
            dialect,
            times: None,
        })
    }

    /// Writes a fact about the file, such as `redis-ver`, `ctime` or `used-mem`. Redis ignores
    /// unknown ones.
    pub fn aux(&mut self, key: &[u8], value: &[u8]) -> RdbResult<()> {
        self.begin_item("aux", opcode::AUX)?;
        self.sink.string(key)?;
        self.sink.string(value)
    }

    /// Writes the code of a library of functions.
    pub fn function(&mut self, code: &[u8]) -> RdbResult<()> {
        self.begin_item("function", opcode::FUNCTION)?;
        self.sink.string(code)
    }

    /// Selects the database of the entries that follow.
    pub fn select(&mut self, database: u64) -> RdbResult<()> {
        self.begin_item("select", opcode::SELECT_DB)?;
        self.sink.length(database)
    }

    /// Writes the number of keys of the database selected last, and the number of those that
    /// expire.
    pub fn resize(&mut self, keys: u64, expires: u64) -> RdbResult<()> {
        self.begin_item("resize", opcode::RESIZE_DB)?;
        self.sink.length(keys)?;
        self.sink.length(expires)
    }

    /// Writes a key and its value.
    ///
    /// A container without elements is written as it is, and skipped by readers.
    pub fn entry(&mut self, key: &[u8], value: &RdbValue, attributes: Attributes) -> RdbResult<()> {
        let type_byte = encode::type_byte(value, self.dialect);
        self.begin_entry("entry", type_byte, key, attributes)?;
        encode::write(value, self.dialect, &mut self.sink)
    }

    /// Writes a key whose value is a string.
    pub fn string(&mut self, key: &[u8], value: &[u8], attributes: Attributes) -> RdbResult<()> {
        self.begin_entry("string", kind::STRING, key, attributes)?;
        self.sink.string(value)
    }

    /// Begins a list of `count` elements, which follow from the head to the tail.
    pub fn begin_list(&mut self, key: &[u8], count: u64, attributes: Attributes) -> RdbResult<()> {
        self.begin_entry("begin_list", kind::LIST, key, attributes)?;
        self.begin_elements(count, count)
    }

    /// Begins a set of `count` members.
    pub fn begin_set(&mut self, key: &[u8], count: u64, attributes: Attributes) -> RdbResult<()> {
        self.begin_entry("begin_set", kind::SET, key, attributes)?;
        self.begin_elements(count, count)
    }

    /// Begins a hash of `count` fields: `2 * count` elements follow, each field before its value.
    pub fn begin_hash(&mut self, key: &[u8], count: u64, attributes: Attributes) -> RdbResult<()> {
        self.begin_entry("begin_hash", kind::HASH, key, attributes)?;
        self.begin_elements(count, count.saturating_mul(2))
    }

    /// Begins a hash of `count` fields, the first of which expires at `soonest_ms`: as many calls
    /// of [`timed_field`](Self::timed_field) follow. The [`Dialect`] decides which servers can read
    /// it.
    pub fn begin_timed_hash(
        &mut self,
        key: &[u8],
        count: u64,
        soonest_ms: u64,
        attributes: Attributes,
    ) -> RdbResult<()> {
        let type_byte = self.dialect.kind_of_timed_hash();
        self.begin_entry("begin_timed_hash", type_byte, key, attributes)?;
        // Fields are written as differences to this time, which comes before all of them.
        let times = RdbHashTimes {
            dialect: self.dialect,
            soonest_ms,
        };
        times.begin(count, &mut self.sink)?;
        self.remaining = count;
        self.scored = false;
        self.times = Some(times);
        Ok(())
    }

    /// Writes the next field, its value and the time at which it expires, in ms since 1970.
    pub fn timed_field(
        &mut self,
        field: &[u8],
        value: &[u8],
        time_ms: Option<u64>,
    ) -> RdbResult<()> {
        match self.times {
            Some(times) if self.remaining > 0 => {
                self.remaining -= 1;
                times.field((field, value, time_ms), &mut self.sink)
            }
            _ => Err(self.out_of_place("timed_field")),
        }
    }

    /// Begins a sorted set of `count` members, each of which is followed by its score. Redis reads
    /// it fastest if the scores fall.
    pub fn begin_sorted_set(
        &mut self,
        key: &[u8],
        count: u64,
        attributes: Attributes,
    ) -> RdbResult<()> {
        self.begin_entry("begin_sorted_set", kind::SORTED_SET, key, attributes)?;
        self.begin_elements(count, count.saturating_mul(2))?;
        self.scored = true;
        Ok(())
    }

    /// Writes the next element, member, field, or value of a field.
    pub fn element(&mut self, bytes: &[u8]) -> RdbResult<()> {
        // A field with a time is written as a whole.
        if self.remaining == 0 || self.is_score_due() || self.times.is_some() {
            return Err(self.out_of_place("element"));
        }
        self.remaining -= 1;
        self.sink.string(bytes)
    }

    /// Writes the score of the member before it.
    pub fn score(&mut self, score: f64) -> RdbResult<()> {
        if !self.is_score_due() {
            return Err(self.out_of_place("score"));
        }
        self.remaining -= 1;
        encode::score(score, &mut self.sink)
    }

    /// Writes a stream.
    pub fn stream(
        &mut self,
        key: &[u8],
        parts: &StreamParts<'_>,
        attributes: Attributes,
    ) -> RdbResult<()> {
        self.begin_entry("stream", kind::STREAM_2, key, attributes)?;
        stream::write(parts, &mut self.sink)
    }

    /// Writes the end and the checksum, and flushes the output.
    pub fn finish(mut self) -> RdbResult<W> {
        self.begin_item("finish", opcode::EOF)?;
        self.sink.finish()
    }

    fn is_score_due(&self) -> bool {
        debug_assert!(!self.scored || self.times.is_none());
        self.scored && self.remaining % 2 == 1
    }

    fn begin_item(&mut self, call: &'static str, opcode: u8) -> RdbResult<()> {
        if self.remaining > 0 {
            return Err(self.out_of_place(call));
        }
        self.sink.u8(opcode)
    }

    fn begin_entry(
        &mut self,
        call: &'static str,
        type_byte: u8,
        key: &[u8],
        attributes: Attributes,
    ) -> RdbResult<()> {
        if self.remaining > 0 {
            return Err(self.out_of_place(call));
        }
        if let Some(time_ms) = attributes.expires_at_ms {
            self.sink.u8(opcode::EXPIRES_MS)?;
            // Readers take it for a signed number.
            self.sink.bytes(&time_ms.min(TIME_MS_MAX).to_le_bytes())?;
        }
        if let Some(seconds) = attributes.idle_s {
            self.sink.u8(opcode::IDLE)?;
            self.sink.length(seconds)?;
        }
        if let Some(counter) = attributes.frequency {
            self.sink.bytes(&[opcode::FREQUENCY, counter])?;
        }
        self.sink.u8(type_byte)?;
        self.sink.string(key)
    }

    fn begin_elements(&mut self, count: u64, calls: u64) -> RdbResult<()> {
        self.remaining = calls;
        self.scored = false;
        self.times = None;
        self.sink.length(count)
    }

    fn out_of_place(&self, call: &'static str) -> RdbError {
        RdbError::OutOfPlace {
            call,
            remaining: self.remaining,
            offset: self.sink.offset(),
        }
    }
}

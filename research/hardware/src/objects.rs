//! Traces of accesses to objects, and the lines of memory that they access.
//!
//! A server writes such a trace (`nearfield serve --access-trace`). It names objects and not
//! addresses, so that the same trace can be laid out in memories of any kind: each tier has
//! addresses of its own, from 0.

use crate::cache::CacheHierarchy;
use crate::dram::lines::{TraceLines, decimal, hexadecimal};
use crate::dram::{DramAccess, DramError, DramRequest, LINE_BYTES};
use rustc_hash::FxHashMap;
use std::io::BufRead;

/// The maximum number of tiers of a trace.
pub const TIERS_MAX: usize = 8;
/// The maximum bytes of an object.
const OBJECT_BYTES_MAX: u64 = 1 << 40;
/// The position of the tier in the number of a line. Caches have fewer sets, so that it does not
/// change a line's set.
const TIER_SHIFT: u32 = 56;

/// An access to a part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectRangeAccess {
    /// The object.
    pub object: u64,
    /// The tier that it is in.
    pub tier: usize,
    /// The bytes of the object.
    pub bytes: u64,
    /// The first byte that is accessed.
    pub offset: u64,
    /// Number of bytes that are accessed.
    pub length: u64,
    /// The kind of access.
    pub access: DramAccess,
    /// The time, in picoseconds.
    pub picoseconds: u64,
}

/// Reader of the accesses of a trace: `OBJECT TIER BYTES OFFSET LENGTH READ|WRITE PICOSECONDS` on
/// each line, with the object in hexadecimal. Lines without a word are skipped. The reader ends
/// after the first error.
///
/// ```
/// use nearfield_hardware::objects::ObjectTrace;
///
/// let trace = "1f 1 300 64 100 READ 1250\n";
/// let access = ObjectTrace::new(trace.as_bytes()).next().unwrap()?;
/// assert_eq!((access.object, access.tier, access.bytes), (0x1f, 1, 300));
/// assert_eq!((access.offset, access.length), (64, 100));
/// # Ok::<(), nearfield_hardware::dram::DramError>(())
/// ```
#[derive(Debug)]
pub struct ObjectTrace<R> {
    lines: TraceLines<R>,
    failed: bool,
}

impl<R: BufRead> ObjectTrace<R> {
    /// Creates a reader of the accesses of `reader`.
    pub fn new(reader: R) -> ObjectTrace<R> {
        ObjectTrace {
            lines: TraceLines::new(reader),
            failed: false,
        }
    }

    fn read(&mut self) -> Option<Result<ObjectRangeAccess, DramError>> {
        let read = self.lines.read()?;
        Some(read.and_then(|()| self.parse()))
    }

    fn parse(&self) -> Result<ObjectRangeAccess, DramError> {
        let lines = &self.lines;
        let number = |field, word: &[u8]| {
            let parsed = decimal(word, "is not a whole number");
            parsed.map_err(|reason| lines.wrong(field, word, reason))
        };
        let mut words = lines.words();
        let mut next = || words.next().unwrap_or_default();
        let object = next();
        let object = hexadecimal(object).map_err(|reason| lines.wrong("object", object, reason))?;
        let (tier, bytes, offset, length) = (next(), next(), next(), next());
        let access = ObjectRangeAccess {
            object,
            tier: number("tier", tier)? as usize,
            bytes: number("bytes", bytes)?,
            offset: number("offset", offset)?,
            length: number("length", length)?,
            access: lines.access(next())?,
            picoseconds: lines.picoseconds(next())?,
        };
        // An eighth word is read only to refuse it.
        lines.ends(next())?;
        if access.tier >= TIERS_MAX {
            return Err(lines.wrong("tier", tier, "is larger than 7"));
        }
        if access.bytes > OBJECT_BYTES_MAX {
            return Err(lines.wrong("bytes", bytes, "is larger than 1 TiB"));
        }
        let end = access.offset.checked_add(access.length);
        if access.length == 0 || end.is_none_or(|end| end > access.bytes) {
            return Err(lines.wrong("length", length, "is not within the bytes of the object"));
        }
        Ok(access)
    }
}

impl<R: BufRead> Iterator for ObjectTrace<R> {
    type Item = Result<ObjectRangeAccess, DramError>;

    fn next(&mut self) -> Option<Result<ObjectRangeAccess, DramError>> {
        if self.failed {
            return None;
        }
        let access = self.read();
        self.failed = matches!(access, Some(Err(_)));
        access
    }
}

/// The part of a tier's memory that an object has: whole lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ObjectBlock {
    address: u64,
    bytes: u64,
}

/// The memory of one tier.
#[derive(Clone, Debug, Default)]
struct TierAddresses {
    blocks: FxHashMap<u64, ObjectBlock>,
    /// The addresses of freed blocks, by their bytes.
    free: FxHashMap<u64, Vec<u64>>,
    end: u64,
}

impl TierAddresses {
    fn take(&mut self, object: u64, bytes: u64) -> ObjectBlock {
        self.give_back(object);
        let freed = self.free.get_mut(&bytes).and_then(Vec::pop);
        let address = freed.unwrap_or_else(|| {
            self.end += bytes;
            self.end - bytes
        });
        let block = ObjectBlock { address, bytes };
        self.blocks.insert(object, block);
        block
    }

    fn give_back(&mut self, object: u64) {
        if let Some(block) = self.blocks.remove(&object) {
            self.free
                .entry(block.bytes)
                .or_default()
                .push(block.address);
        }
    }
}

/// The lines that accesses to objects access, through caches if there are any.
///
/// An object has a block of memory in its tier, which fits it up to an eighth. It gets another one
/// when a write gives it a size that needs one, or when it is written as a whole in another tier.
#[derive(Clone, Debug)]
pub struct ObjectLines {
    tiers: [TierAddresses; TIERS_MAX],
    caches: Option<CacheHierarchy>,
}

impl ObjectLines {
    /// Creates empty memories, behind caches if there are any.
    pub fn new(caches: Option<CacheHierarchy>) -> ObjectLines {
        ObjectLines {
            tiers: Default::default(),
            caches,
        }
    }

    /// Returns the caches.
    pub fn caches(&self) -> Option<&CacheHierarchy> {
        self.caches.as_ref()
    }

    /// Returns the requests that an access makes to memory, each with its tier.
    pub fn requests(&mut self, access: &ObjectRangeAccess) -> Vec<(usize, DramRequest)> {
        let ObjectRangeAccess {
            tier, picoseconds, ..
        } = *access;
        let block = self.block(access);
        // A read of a cold object knows its size only roughly.
        let begin = access.offset.min(block.bytes - 1);
        let end = (access.offset + access.length).min(block.bytes);
        let first = (block.address + begin) / LINE_BYTES;
        let last = (block.address + end.max(begin + 1) - 1) / LINE_BYTES;
        let mut lines = Vec::new();
        for line in first..=last {
            let line = line | (tier as u64) << TIER_SHIFT;
            match &mut self.caches {
                Some(caches) => caches.access(line, access.access, &mut lines),
                None => lines.push((line, access.access)),
            }
        }
        let request = |(line, access): (u64, DramAccess)| {
            let address = (line & ((1 << TIER_SHIFT) - 1)) * LINE_BYTES;
            let request = DramRequest {
                address,
                access,
                picoseconds,
            };
            ((line >> TIER_SHIFT) as usize, request)
        };
        lines.into_iter().map(request).collect()
    }

    /// Returns the block of an object in its tier.
    fn block(&mut self, access: &ObjectRangeAccess) -> ObjectBlock {
        let is_write = access.access == DramAccess::Write;
        if is_write && access.length == access.bytes {
            // An object is in one tier, so this one has left the others.
            for (tier, addresses) in self.tiers.iter_mut().enumerate() {
                if tier != access.tier {
                    addresses.give_back(access.object);
                }
            }
        }
        let addresses = &mut self.tiers[access.tier];
        let bytes = class(access.bytes);
        match addresses.blocks.get(&access.object).copied() {
            Some(block) if block.bytes == bytes || !is_write => block,
            _ => addresses.take(access.object, bytes),
        }
    }
}

/// Returns the bytes of the block for an object.
fn class(bytes: u64) -> u64 {
    let lines = bytes.div_ceil(LINE_BYTES).max(1);
    // Eight classes in each doubling waste an eighth of a block at most.
    let step = (lines.next_power_of_two() / 16).max(1);
    lines.next_multiple_of(step) * LINE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<ObjectRangeAccess, String>> {
        let trace = ObjectTrace::new(text.as_bytes());
        trace
            .map(|access| access.map_err(|error| error.to_string()))
            .collect()
    }

    /// Returns the tier, address and kind of each request of a trace.
    fn requests(text: &str, caches: Option<CacheHierarchy>) -> Vec<(usize, u64, DramAccess)> {
        let mut lines = ObjectLines::new(caches);
        let mut all = Vec::new();
        for access in read(text) {
            for (tier, request) in lines.requests(&access.unwrap()) {
                all.push((tier, request.address, request.access));
            }
        }
        all
    }

    #[test]
    fn a_wrong_line_is_named_with_its_field_and_ends_the_trace() {
        let wrong = |line: &str| {
            let read = read(&format!("1 0 10 0 10 READ 0\n{line}\n1 0 10 0 10 READ 0\n"));
            assert_eq!(read.len(), 2, "{line}");
            read[1].clone().unwrap_err()
        };
        assert!(wrong("x 0 10 0 10 READ 0").contains("line 2 of the trace: object \"x\""));
        assert!(wrong("1 8 10 0 10 READ 0").contains("tier \"8\" is larger than 7"));
        assert!(wrong("1 -1 10 0 10 READ 0").contains("tier \"-1\" is not a whole number"));
        assert!(wrong("1 0 10 1 10 READ 0").contains("length \"10\" is not within"));
        assert!(wrong("1 0 10 0 0 READ 0").contains("length \"0\" is not within"));
        let most = u64::MAX;
        assert!(wrong(&format!("1 0 10 {most} 2 READ 0")).contains("is not within"));
        assert!(wrong(&format!("1 0 {most} 0 2 READ 0")).contains("larger than 1 TiB"));
        assert!(wrong("1 0 10 0 10 read 0").contains("access \"read\""));
        assert!(wrong("1 0 10 0 10 READ").contains("time \"\""));
        assert!(wrong("1 0 10 0 10 READ 0 1").contains("text \"1\" follows"));
    }

    #[test]
    fn objects_have_lines_of_their_own_that_they_keep() {
        use DramAccess::{Read, Write};
        let trace = "a 0 100 0 100 WRITE 0\n\
                     b 0 64 0 64 WRITE 1\n\
                     a 0 100 70 10 READ 2\n\
                     b 0 64 0 64 READ 3\n\
                     c 1 64 0 1 READ 4\n";
        let expected: [(usize, u64, DramAccess); 6] = [
            (0, 0, Write),
            (0, 64, Write),
            (0, 128, Write),
            (0, 64, Read),
            (0, 128, Read),
            (1, 0, Read),
        ];
        assert_eq!(requests(trace, None), expected);
    }

    #[test]
    fn an_object_that_moves_or_grows_leaves_its_lines_to_others() {
        use DramAccess::{Read, Write};
        // The copy to tier 1, and then another object in tier 0.
        let trace = "a 0 64 0 64 WRITE 0\n\
                     a 0 64 0 64 READ 1\n\
                     a 1 64 0 64 WRITE 1\n\
                     b 0 64 0 64 WRITE 2\n\
                     b 0 128 0 64 WRITE 3\n\
                     c 0 64 0 64 WRITE 4\n";
        let expected: [(usize, u64, DramAccess); 6] = [
            (0, 0, Write),
            (0, 0, Read),
            (1, 0, Write),
            (0, 0, Write),
            (0, 64, Write),
            (0, 0, Write),
        ];
        assert_eq!(requests(trace, None), expected);
    }

    #[test]
    fn caches_hold_back_what_was_just_used_in_any_tier() {
        let trace = "a 0 640 0 640 READ 0\n\
                     b 1 640 0 640 READ 1\n\
                     a 0 640 0 640 READ 2\n\
                     b 1 640 0 640 READ 3\n";
        assert_eq!(requests(trace, None).len(), 40);
        let cached = requests(trace, Some(CacheHierarchy::new()));
        assert_eq!(cached.len(), 20);
        assert_eq!(cached.iter().filter(|(tier, ..)| *tier == 1).count(), 10);
        assert!(cached.iter().all(|(_, address, _)| *address < 640));
    }

    #[test]
    fn blocks_fit_their_objects_to_an_eighth() {
        for bytes in 1..10_000 {
            let class = class(bytes);
            assert!(
                class >= bytes && class <= (bytes + LINE_BYTES) * 9 / 8,
                "{bytes} {class}"
            );
        }
    }
}

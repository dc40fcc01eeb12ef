//! The protocol between the conductor and a contestant's process: lines of JSON, and after two of
//! the orders a block of bytes with the large data.

use crate::harness::{LatencySummary, MapCostCounts};
use crate::workload::KeySet;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};

/// An order of the conductor. The process replies to each with one [`ContestantReply`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case")]
pub(super) enum ContestantOrder {
    /// An order to become `contestant` and take the keys, in `bytes` bytes after this line.
    Keys {
        contestant: String,
        form: KeyForm,
        count: usize,
        bytes: usize,
    },
    /// An order to insert the first `loaded` keys into an empty map.
    Load {
        loaded: usize,
        threads: usize,
        batch: usize,
    },
    /// An order to take streams of operations, one a thread, 8 bytes an operation after this line.
    Streams { lengths: Vec<usize>, batch: usize },
    /// An order to run part `part` of `parts` of the streams.
    Slice {
        part: usize,
        parts: usize,
        version: u16,
    },
    /// An order to run a part and count its work.
    Count {
        part: usize,
        parts: usize,
        version: u16,
    },
}

/// Kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum KeyForm {
    /// Words of 8 bytes each, little-endian.
    Words,
    /// Byte strings with a NUL byte after each.
    Text,
}

/// The reply of a contestant's process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(super) enum ContestantReply {
    /// An acknowledgement without further data.
    Ready,
    /// A refusal: the map cannot do this, or has done it wrongly.
    Refused { reason: String },
    /// The result of a load.
    Loaded {
        slice: SliceSpeed,
        memory: LoadMemoryGrowth,
    },
    /// The result of a slice.
    Sliced { slice: SliceSpeed },
    /// The result of counting.
    Counted { counts: MapCostCounts },
}

/// The speed of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SliceSpeed {
    /// Millions of operations per second of CPU time, summed over the threads.
    pub(super) rate_mops: f64,
    /// Latencies since the streams arrived, the first slice (which warms up) left out.
    pub(super) latency: Option<LatencySummary>,
}

/// The memory that a load has added to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoadMemoryGrowth {
    /// Growth of resident memory by the load.
    pub(super) growth_bytes: u64,
    /// Growth of memory in huge pages by the load.
    pub(super) huge_growth_bytes: u64,
}

pub(super) fn write_line(target: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *target, message)?;
    target.write_all(b"\n")
}

/// Reads one message; returns `None` at the end of input.
pub(super) fn read_line<M: for<'de> Deserialize<'de>>(
    source: &mut impl BufRead,
) -> io::Result<Option<M>> {
    let mut line = String::new();
    if source.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

/// Creates the order that announces `keys`.
pub(super) fn keys_order(contestant: &str, keys: &KeySet) -> ContestantOrder {
    let (form, bytes) = match keys {
        KeySet::Words(words) => (KeyForm::Words, words.len() * size_of::<u64>()),
        KeySet::Bytes(strings) => (KeyForm::Text, strings.text_bytes() + strings.len()),
    };
    ContestantOrder::Keys {
        contestant: contestant.to_owned(),
        form,
        count: keys.len(),
        bytes,
    }
}

pub(super) fn write_keys(target: &mut impl Write, keys: &KeySet) -> io::Result<()> {
    match keys {
        KeySet::Words(words) => write_words(target, words.iter().copied()),
        KeySet::Bytes(strings) => strings.iter().try_for_each(|string| {
            debug_assert!(!string.contains(&0), "a NUL byte ends a key");
            target.write_all(string)?;
            target.write_all(b"\0")
        }),
    }
}

pub(super) fn write_words(
    target: &mut impl Write,
    words: impl Iterator<Item = u64>,
) -> io::Result<()> {
    for word in words {
        target.write_all(&word.to_le_bytes())?;
    }
    Ok(())
}

/// Reads `count` words into memory of exactly their size.
pub(super) fn read_words(source: &mut impl Read, count: usize) -> io::Result<Vec<u64>> {
    const CHUNK_WORDS: usize = 4096;
    let mut words = Vec::with_capacity(count);
    let mut chunk = [0; CHUNK_WORDS * size_of::<u64>()];
    // In chunks, so that the bytes of all words are never in memory next to the words.
    while words.len() < count {
        let bytes = &mut chunk[..(count - words.len()).min(CHUNK_WORDS) * size_of::<u64>()];
        source.read_exact(bytes)?;
        words.extend(
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|&word| u64::from_le_bytes(word)),
        );
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_a_pipe() {
        let mut pipe = Vec::new();
        let order = ContestantOrder::Slice {
            part: 1,
            parts: 6,
            version: 9,
        };
        write_line(&mut pipe, &order).unwrap();
        write_words(&mut pipe, [1, u64::MAX].into_iter()).unwrap();
        let mut source = &pipe[..];
        assert_eq!(
            read_line::<ContestantOrder>(&mut source).unwrap(),
            Some(order)
        );
        assert_eq!(read_words(&mut source, 2).unwrap(), [1, u64::MAX]);
        assert_eq!(read_line::<ContestantOrder>(&mut source).unwrap(), None);
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(read_line::<ContestantOrder>(&mut &b"{\"order\":\"dance\"}\n"[..]).is_err());
        assert!(read_words(&mut &b"1234567"[..], 1).is_err());
    }
}

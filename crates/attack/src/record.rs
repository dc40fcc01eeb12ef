//! The last streams of each connection, which are saved to files after a failure.

use crate::streams::ByteStream;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;

/// Number of streams kept for a connection. A hang may be found half a minute after its cause.
const KEPT: usize = 256;

/// The last streams of one slot, which successive connections have sent.
#[derive(Debug, Default)]
pub(crate) struct StreamRecord {
    streams: VecDeque<ByteStream>,
}

impl StreamRecord {
    /// Records a stream that is sent.
    pub(crate) fn note(&mut self, stream: &ByteStream) {
        if self.streams.len() == KEPT {
            self.streams.pop_front();
        }
        let last = self.streams.back().map(|last| last.number);
        debug_assert!(last < Some(stream.number), "numbers only grow");
        self.streams.push_back(stream.clone());
        debug_assert!(self.streams.len() <= KEPT);
    }

    /// Returns the numbers of the streams.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.streams.iter().map(|stream| stream.number)
    }

    /// Writes each stream into a file of a folder.
    pub(crate) fn save(&self, folder: &Path) -> io::Result<()> {
        for stream in &self.streams {
            let name = format!("{:09}-{}.bytes", stream.number, stream.kind);
            fs::write(folder.join(name), &stream.bytes)?;
        }
        Ok(())
    }
}

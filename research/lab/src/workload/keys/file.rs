//! Keys from a file of lines.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::super::ByteStringList;
use super::{KeySet, Progress};
use crate::error::{KeyFileFault, LabError};
use crate::memory::check_available;

/// The longest key that the engine takes, in bytes.
const KEY_BYTES_MAX: usize = 64 * 1024;
/// Number of lines between two reports of progress and checks of memory.
const CHECK_INTERVAL: u64 = 1 << 16;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Reads the distinct keys of the file at `path`, in ascending order.
///
/// A key is a line without its line end (`\n` or `\r\n`); empty lines are skipped. See
/// `KeySetSpec::File` for compression and integers. Progress counts the bytes of the file.
pub(super) fn read(path: &Path, progress: Progress<'_>) -> Result<KeySet, LabError> {
    let fault = |fault| LabError::KeyFile {
        path: path.to_owned(),
        fault,
    };
    let file = File::open(path).map_err(|error| fault(KeyFileFault::Unreadable(error)))?;
    let metadata = file
        .metadata()
        .map_err(|error| fault(KeyFileFault::Unreadable(error)))?;
    if metadata.is_dir() {
        return Err(fault(KeyFileFault::Directory));
    }
    let bytes_read = Cell::new(0);
    let mut lines = decompressed(CountingFileReader {
        file,
        bytes_read: &bytes_read,
    })
    .map(BoundedLineReader::new)
    .map_err(|error| fault(KeyFileFault::Unreadable(error)))?;
    let mut keys = KeyFileLines::new(has_columns(path));
    while let Some(line) = lines.next().map_err(fault)? {
        keys.push(line);
        if lines.number.is_multiple_of(CHECK_INTERVAL) {
            progress(bytes_read.get(), metadata.len().max(bytes_read.get()));
            // Growing takes twice the room, and so do the sorted copies.
            check_available(|| format!("key file {}", path.display()), 2 * keys.bytes())?;
        }
    }
    let set = keys.distinct();
    if set.is_empty() {
        Err(fault(KeyFileFault::Empty))
    } else {
        Ok(set)
    }
}

/// Calls `each` with every line of the file at `path`, without its end. See `KeySetSpec::File` for
/// compression.
///
/// # Errors
/// `KeyFile` for a file that cannot be read, or is not text.
pub(crate) fn each_line(path: &Path, mut each: impl FnMut(&[u8])) -> Result<(), LabError> {
    let mut read = || -> Result<(), KeyFileFault> {
        let source = opened(path).map_err(KeyFileFault::Unreadable)?;
        let mut lines = BoundedLineReader::new(source);
        while let Some(line) = lines.next()? {
            each(line);
        }
        Ok(())
    };
    read().map_err(|fault| LabError::KeyFile {
        path: path.to_owned(),
        fault,
    })
}

/// Opens the text of a file, decompressed if it is compressed by gzip.
pub(crate) fn opened(path: &Path) -> io::Result<Box<dyn BufRead>> {
    decompressed(File::open(path)?)
}

/// Returns true if the name stands for comma-separated columns.
fn has_columns(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    name.trim_end_matches(".gz").ends_with(".csv")
}

/// Returns the bytes of `file`, decompressed if they begin as gzip does.
fn decompressed<'a>(file: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut buffered = BufReader::with_capacity(1 << 18, file);
    let compressed = buffered.fill_buf()?.starts_with(&GZIP_MAGIC);
    Ok(if compressed {
        Box::new(BufReader::with_capacity(
            1 << 18,
            MultiGzDecoder::new(buffered),
        ))
    } else {
        Box::new(buffered)
    })
}

/// A reader that counts the bytes read from a file.
struct CountingFileReader<'a> {
    file: File,
    bytes_read: &'a Cell<u64>,
}

impl Read for CountingFileReader<'_> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(target)?;
        self.bytes_read.set(self.bytes_read.get() + count as u64);
        Ok(count)
    }
}

/// A reader of lines of bounded length, so that a binary file is noticed before it fills the
/// memory.
struct BoundedLineReader<'a> {
    source: Box<dyn BufRead + 'a>,
    line: Vec<u8>,
    /// The number of the line read last, counted from 1.
    number: u64,
}

impl<'a> BoundedLineReader<'a> {
    fn new(source: Box<dyn BufRead + 'a>) -> Self {
        BoundedLineReader {
            source,
            line: Vec::new(),
            number: 0,
        }
    }

    /// Returns the next line without its end; `None` after the last.
    fn next(&mut self) -> Result<Option<&[u8]>, KeyFileFault> {
        // Two bytes more, for the line end of the longest key.
        const WITH_END: u64 = KEY_BYTES_MAX as u64 + 2;
        self.line.clear();
        let count = (&mut self.source)
            .take(WITH_END)
            .read_until(b'\n', &mut self.line)
            .map_err(KeyFileFault::Unreadable)?;
        if count == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        }
        debug_assert!(self.line.len() as u64 <= WITH_END);
        // Checked before the length, because a binary file often lacks line ends, too.
        if self.line.contains(&0) {
            return Err(KeyFileFault::NulByte { line: self.number });
        }
        if self.line.len() > KEY_BYTES_MAX {
            return Err(KeyFileFault::LongLine {
                line: self.number,
                limit: KEY_BYTES_MAX,
            });
        }
        Ok(Some(&self.line))
    }
}

/// The keys in the lines so far.
struct KeyFileLines {
    lines: ByteStringList,
    /// The first columns, while all are integers.
    integers: Option<Vec<u64>>,
}

impl KeyFileLines {
    fn new(has_columns: bool) -> Self {
        KeyFileLines {
            lines: ByteStringList::default(),
            integers: has_columns.then(Vec::new),
        }
    }

    fn push(&mut self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        self.lines.push(line);
        if let Some(integers) = &mut self.integers {
            match first_integer(line) {
                Some(integer) => integers.push(integer),
                // One line without an integer makes all lines keys.
                None => self.integers = None,
            }
        }
    }

    fn bytes(&self) -> u64 {
        let each = size_of::<usize>() + size_of::<u64>();
        (self.lines.text_bytes() + self.lines.len() * each) as u64
    }

    fn distinct(self) -> KeySet {
        match self.integers {
            Some(mut integers) => {
                debug_assert_eq!(integers.len(), self.lines.len());
                integers.sort_unstable();
                integers.dedup();
                KeySet::Words(integers)
            }
            None => KeySet::Bytes(self.lines.sorted_distinct()),
        }
    }
}

/// Parses the first column of a line as an unsigned decimal integer.
fn first_integer(line: &[u8]) -> Option<u64> {
    let column = line.split(|&byte| byte == b',').next()?.trim_ascii();
    // The parser would also accept a sign.
    if !column.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(column).ok()?.parse().ok()
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;

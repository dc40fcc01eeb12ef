//! The lines of a trace: text, with words between blanks.

use super::{DramAccess, DramError};
use std::io::{BufRead, Read};

/// Reader of lines. Those without a word are skipped.
#[derive(Debug)]
pub(crate) struct TraceLines<R> {
    reader: R,
    buffer: Vec<u8>,
    line: u64,
}

/// The maximum length of a line in bytes; the words of a trace take at most 120.
const LINE_MAX: u64 = 256;

/// The number of characters of a wrong field that an error shows.
const SHOWN: usize = 40;

impl<R: BufRead> TraceLines<R> {
    pub(crate) fn new(reader: R) -> TraceLines<R> {
        TraceLines {
            reader,
            buffer: Vec::new(),
            line: 0,
        }
    }

    /// Returns the number of the line that was read last, from 1; 0 before the first.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next line that has a word. Returns `None` at the end.
    pub(crate) fn read(&mut self) -> Option<Result<(), DramError>> {
        loop {
            self.buffer.clear();
            self.line += 1;
            // A file without line ends must not fill the memory.
            let mut limited = self.reader.by_ref().take(LINE_MAX);
            match limited.read_until(b'\n', &mut self.buffer) {
                Ok(0) => return None,
                Ok(read) if read as u64 == LINE_MAX && !self.buffer.ends_with(b"\n") => {
                    let reason = "begins a line of more than 255 bytes";
                    return Some(Err(self.wrong("text", &self.buffer, reason)));
                }
                Ok(_) if self.buffer.trim_ascii().is_empty() => {}
                Ok(_) => return Some(Ok(())),
                Err(source) => {
                    let line = self.line;
                    return Some(Err(DramError::Unreadable { line, source }));
                }
            }
        }
    }

    /// Returns the words of the line.
    pub(crate) fn words(&self) -> impl Iterator<Item = &[u8]> {
        let words = self.buffer.split(u8::is_ascii_whitespace);
        words.filter(|word| !word.is_empty())
    }

    pub(crate) fn wrong(
        &self,
        field: &'static str,
        found: &[u8],
        reason: &'static str,
    ) -> DramError {
        let mut found = String::from_utf8_lossy(found).into_owned();
        if found.chars().count() > SHOWN {
            found = found.chars().take(SHOWN).chain(['…']).collect();
        }
        DramError::BadLine {
            line: self.line,
            field,
            found,
            reason,
        }
    }

    /// Parses a kind of access.
    ///
    /// # Errors
    /// The word is neither of the two.
    pub(crate) fn access(&self, word: &[u8]) -> Result<DramAccess, DramError> {
        match word {
            b"READ" => Ok(DramAccess::Read),
            b"WRITE" => Ok(DramAccess::Write),
            _ => Err(self.wrong("access", word, "is neither READ nor WRITE")),
        }
    }

    /// Parses a time.
    ///
    /// # Errors
    /// The word is no whole number of 64 bits.
    pub(crate) fn picoseconds(&self, word: &[u8]) -> Result<u64, DramError> {
        let reason = "is not a whole number of picoseconds";
        decimal(word, reason).map_err(|reason| self.wrong("time", word, reason))
    }

    /// Refuses a word behind the last one.
    ///
    /// # Errors
    /// There is a word.
    pub(crate) fn ends(&self, rest: &[u8]) -> Result<(), DramError> {
        match rest {
            [] => Ok(()),
            _ => Err(self.wrong("text", rest, "follows the time, where the line should end")),
        }
    }
}

/// Parses a hexadecimal number.
///
/// # Errors
/// The reason why it is invalid.
pub(crate) fn hexadecimal(word: &[u8]) -> Result<u64, &'static str> {
    let digits = word.strip_prefix(b"0x").or(word.strip_prefix(b"0X"));
    number(digits.unwrap_or(word), 16).map_err(|error| match error {
        TraceNumberError::Digits => "is not a hexadecimal number such as 0x7f00",
        TraceNumberError::Large => "is larger than 64 bits",
    })
}

/// Parses a decimal number.
///
/// # Errors
/// `reason` if it is invalid, or that it is too large.
pub(crate) fn decimal(word: &[u8], reason: &'static str) -> Result<u64, &'static str> {
    number(word, 10).map_err(|error| match error {
        TraceNumberError::Digits => reason,
        TraceNumberError::Large => "is larger than 64 bits",
    })
}

enum TraceNumberError {
    Digits,
    Large,
}

fn number(digits: &[u8], base: u32) -> Result<u64, TraceNumberError> {
    if digits.is_empty() {
        return Err(TraceNumberError::Digits);
    }
    digits.iter().try_fold(0_u64, |value, &digit| {
        let digit = char::from(digit)
            .to_digit(base)
            .ok_or(TraceNumberError::Digits)?;
        let value = value
            .checked_mul(u64::from(base))
            .ok_or(TraceNumberError::Large)?;
        value
            .checked_add(u64::from(digit))
            .ok_or(TraceNumberError::Large)
    })
}

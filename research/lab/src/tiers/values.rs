//! Values: records of JSON, or pieces of a text.

use crate::error::{KeyFileFault, LabError};
use crate::workload::{KeySet, KeySetSpec, Random, each_line, random};
use rand::RngExt;
use std::ops::RangeInclusive;
use std::path::Path;

/// Bytes of a record.
const RECORD_BYTES: usize = 256;
/// Bytes of a piece of a text.
const PIECE_BYTES: RangeInclusive<usize> = 200..=2000;
/// Number of words that records are made of.
const WORDS: u64 = 20_000;
const SEED: u64 = 1;

/// Values of one kind.
#[derive(Clone, Debug)]
pub struct ValueCorpus {
    /// Their name in reports.
    pub name: String,
    /// The values.
    pub list: Vec<Vec<u8>>,
}

impl ValueCorpus {
    /// Creates records of JSON, each of 256 bytes, from a template. The words are those of the file
    /// `words`, or generated.
    ///
    /// # Errors
    /// The file cannot be read, or has no words.
    pub fn records(count: usize, words: Option<&Path>) -> Result<ValueCorpus, LabError> {
        let words = match words {
            Some(path) => words_of(path)?,
            None => match KeySetSpec::Words.generate(Some(WORDS), SEED)? {
                KeySet::Bytes(strings) => strings.iter().map(<[u8]>::to_vec).collect(),
                KeySet::Words(_) => Vec::new(),
            },
        };
        let words: Vec<String> = words
            .iter()
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let mut random = random(SEED, 1);
        let record = |number| record(number, &words, &mut random);
        Ok(ValueCorpus {
            name: format!("records of JSON, {RECORD_BYTES} bytes"),
            list: (0..count).map(record).collect(),
        })
    }

    /// Cuts a text into pieces of 200 to 2,000 bytes.
    ///
    /// # Errors
    /// The file cannot be read, or is shorter than one piece.
    pub fn pieces(path: &Path) -> Result<ValueCorpus, LabError> {
        let mut text = Vec::new();
        each_line(path, |line| {
            text.extend_from_slice(line);
            text.push(b'\n');
        })?;
        let mut random = random(SEED, 2);
        let mut rest = text.as_slice();
        let mut list = Vec::new();
        while let Some((piece, behind)) = rest.split_at_checked(random.random_range(PIECE_BYTES)) {
            list.push(piece.to_vec());
            rest = behind;
        }
        if list.is_empty() {
            return Err(empty(path));
        }
        Ok(ValueCorpus {
            name: "pieces of text, 200 to 2,000 bytes".to_owned(),
            list,
        })
    }

    /// Returns the bytes of all values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.list.iter().map(|value| value.len() as u64).sum()
    }
}

fn empty(path: &Path) -> LabError {
    LabError::KeyFile {
        path: path.to_owned(),
        fault: KeyFileFault::Empty,
    }
}

/// Returns the words of a text: its sequences of letters.
fn words_of(path: &Path) -> Result<Vec<Vec<u8>>, LabError> {
    let mut words = Vec::new();
    each_line(path, |line| {
        let parts = line.split(|byte| !byte.is_ascii_alphabetic());
        words.extend(parts.filter(|part| part.len() > 2).map(<[u8]>::to_vec));
    })?;
    match words.is_empty() {
        true => Err(empty(path)),
        false => Ok(words),
    }
}

/// Creates a record as applications store it: the same names in each, and words, numbers and times.
fn record(number: usize, words: &[String], random: &mut Random) -> Vec<u8> {
    let mut word = || {
        let at = random.random_range(0..words.len());
        words.get(at).map_or("", String::as_str)
    };
    let mut text = format!(
        "{{\"id\":{number},\"name\":\"{} {}\",\"city\":\"{}\",\"status\":\"active\",\"comment\":\"",
        word(),
        word(),
        word()
    );
    let end = format!(
        "\",\"created\":{},\"amount\":{}.{:02}}}",
        1_700_000_000 + random.random_range(0..60_000_000),
        random.random_range(0..1000),
        random.random_range(0..100)
    );
    let room = RECORD_BYTES.saturating_sub(text.len() + end.len());
    let mut comment = String::new();
    while comment.len() < room {
        let at = random.random_range(0..words.len());
        comment.push_str(words.get(at).map_or("", String::as_str));
        comment.push(' ');
    }
    // Words consist of ASCII letters, so they may be cut at any byte.
    comment.truncate(room);
    text.push_str(&comment);
    text.push_str(&end);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_their_length_and_differ() {
        let values = ValueCorpus::records(500, None).unwrap();
        let whole = values
            .list
            .iter()
            .filter(|value| value.len() == RECORD_BYTES);
        assert!(whole.count() > 495);
        assert!(
            values
                .list
                .iter()
                .all(|value| value.starts_with(b"{\"id\":"))
        );
        assert_ne!(values.list[1], values.list[2]);
        let again = ValueCorpus::records(500, None).unwrap();
        assert_eq!(values.list, again.list);
    }

    #[test]
    fn a_text_is_cut_and_nothing_of_it_is_lost_but_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        let text: String = (0..3000).map(|n| format!("line {n} of a text\n")).collect();
        std::fs::write(&path, &text).unwrap();
        let values = ValueCorpus::pieces(&path).unwrap();
        assert!(
            values
                .list
                .iter()
                .all(|piece| PIECE_BYTES.contains(&piece.len()))
        );
        let joined = values.list.concat();
        assert!(text.as_bytes().starts_with(&joined));
        assert!(text.len() - joined.len() < 2000);
        std::fs::write(&path, "short").unwrap();
        assert!(ValueCorpus::pieces(&path).is_err());
    }
}

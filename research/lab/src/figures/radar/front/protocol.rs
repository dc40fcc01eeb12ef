//! Operations on words as commands, and the replies to them. Keys and values are 8 bytes, the most
//! significant first. An update is a `SET` that returns the previous value.

use nearfield_core::{
    Batch, BatchInput, BatchOutput, IndexOperation, OperationOutcome, ScanDirection, Words,
};
use nearfield_server::resp::RespReply;
use nearfield_server::resp::encode::request as write;
use std::ops::Bound;

/// The form of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RadarReplyForm {
    /// A value, or null.
    Value,
    /// An acknowledgement.
    Done,
    /// An entry, or null.
    Entry,
    /// Entries, key by key and value by value.
    Entries,
    /// The reply to a `PING`, which is no operation.
    Pong,
    /// An error, with its text.
    Error(String),
}

/// Appends the command of an operation.
///
/// # Errors
/// A text about an operation that no figure has, so that it has no command.
pub(super) fn request(
    input: &BatchInput<'_, Words>,
    operation: &IndexOperation<Words>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match *operation {
        IndexOperation::Get { key } => write(out, &[b"GET", &key.to_be_bytes()]),
        IndexOperation::Insert { key, value } | IndexOperation::Update { key, value, .. } => {
            let (key, value) = (key.to_be_bytes(), value.to_be_bytes());
            write(out, &[b"SET", &key, &value, b"GET"]);
        }
        IndexOperation::Remove { key } => write(out, &[b"GETDEL", &key.to_be_bytes()]),
        IndexOperation::Predecessor { key } => {
            write(
                out,
                &[b"KNEAREST", &key.to_be_bytes(), b"BEFORE", b"WITHVALUE"],
            );
        }
        IndexOperation::Scan {
            range,
            limit: u32::MAX,
            direction: ScanDirection::Ascending,
        } => {
            let (low, high) = input.range(range);
            let bound = |bound: Bound<u64>, open: &[u8]| match bound {
                Bound::Included(key) => [&b"["[..], &key.to_be_bytes()].concat(),
                Bound::Excluded(key) => [&b"("[..], &key.to_be_bytes()].concat(),
                Bound::Unbounded => open.to_vec(),
            };
            write(
                out,
                &[
                    b"KRANGE",
                    &bound(low, b"-"),
                    &bound(high, b"+"),
                    b"WITHVALUES",
                ],
            );
        }
        IndexOperation::RemoveIf { .. }
        | IndexOperation::Successor { .. }
        | IndexOperation::Scan { .. }
        | IndexOperation::Refused => {
            return Err(format!("there is no command for {operation:?}"));
        }
    }
    Ok(())
}

/// Adds the operation of a command to a batch, and returns the form of its reply.
pub(super) fn accept(words: &[&[u8]], batch: &mut Batch<Words>) -> RadarReplyForm {
    let Some((name, arguments)) = words.split_first() else {
        return RadarReplyForm::Error("ERR no command".to_owned());
    };
    let is = |word: &[u8], other: &str| word.eq_ignore_ascii_case(other.as_bytes());
    let accepted = match arguments {
        [] if is(name, "ping") => Some(RadarReplyForm::Pong),
        [key] if is(name, "get") => word(key).map(|key| {
            batch.get(key);
            RadarReplyForm::Value
        }),
        [key] if is(name, "getdel") => word(key).map(|key| {
            batch.remove(key);
            RadarReplyForm::Value
        }),
        [key, value, options @ ..] if is(name, "set") => {
            let form = match options {
                [] => Some(RadarReplyForm::Done),
                [option] if is(option, "get") => Some(RadarReplyForm::Value),
                _ => None,
            };
            let entry = word(key).zip(word(value));
            form.zip(entry).map(|(form, (key, value))| {
                batch.insert(key, value);
                form
            })
        }
        [key, direction, with]
            if is(name, "knearest") && is(direction, "before") && is(with, "withvalue") =>
        {
            word(key).map(|key| {
                batch.predecessor(key);
                RadarReplyForm::Entry
            })
        }
        [low, high, with] if is(name, "krange") && is(with, "withvalues") => {
            bound(low).zip(bound(high)).map(|(low, high)| {
                batch.scan(low, high, u32::MAX, ScanDirection::Ascending);
                RadarReplyForm::Entries
            })
        }
        _ => None,
    };
    accepted.unwrap_or_else(|| {
        let name = name.escape_ascii();
        RadarReplyForm::Error(format!(
            "ERR cannot do '{name}' with these arguments; there are PING, GET, SET [GET], GETDEL, \
             KNEAREST BEFORE WITHVALUE and KRANGE WITHVALUES, of keys and values with 8 bytes"
        ))
    })
}

fn word(bytes: &[u8]) -> Option<u64> {
    // The most significant byte is first, so that keys have the order of their numbers.
    bytes.try_into().ok().map(u64::from_be_bytes)
}

fn bound(bytes: &[u8]) -> Option<Bound<u64>> {
    match bytes {
        b"-" | b"+" => Some(Bound::Unbounded),
        [b'[', key @ ..] => word(key).map(Bound::Included),
        [b'(', key @ ..] => word(key).map(Bound::Excluded),
        _ => None,
    }
}

/// Writes the reply to the operation at a position of an executed batch.
pub(super) fn write_reply(
    form: &RadarReplyForm,
    batch: &Batch<Words>,
    position: usize,
    reply: &mut RespReply,
) {
    match form {
        RadarReplyForm::Pong => return reply.simple("PONG"),
        RadarReplyForm::Error(text) => return reply.error(text),
        // Writes the entries directly, without a list of them. The code below handles an empty
        // result and an error.
        RadarReplyForm::Entries if batch.entries(position).len() > 0 => {
            let entries = batch.entries(position);
            reply.array(2 * entries.len());
            for (key, value) in entries {
                reply.bulk(&key.to_be_bytes());
                reply.bulk(&value.to_be_bytes());
            }
            return;
        }
        RadarReplyForm::Value
        | RadarReplyForm::Done
        | RadarReplyForm::Entry
        | RadarReplyForm::Entries => {}
    }
    match batch.outcome(position) {
        OperationOutcome::Failed(error) => reply.error(&format!("ERR {error}")),
        OperationOutcome::Value(_) if *form == RadarReplyForm::Done => reply.ok(),
        OperationOutcome::Value(Some(value)) => reply.bulk(&value.to_be_bytes()),
        OperationOutcome::Value(None) => reply.null(),
        OperationOutcome::Entry(Some((key, value))) => {
            reply.array(2);
            reply.bulk(&key.to_be_bytes());
            reply.bulk(&value.to_be_bytes());
        }
        OperationOutcome::Entry(None) => reply.null_array(),
        OperationOutcome::Entries(_) => reply.array(0),
        OperationOutcome::Updated { .. } | OperationOutcome::Pending => {
            reply.error("ERR not executed")
        }
    }
}

/// A reader of successive replies.
pub(super) struct RadarReplyReader<'r> {
    bytes: &'r [u8],
}

impl<'r> RadarReplyReader<'r> {
    pub(super) fn new(bytes: &'r [u8]) -> RadarReplyReader<'r> {
        RadarReplyReader { bytes }
    }

    /// Reads the reply to an operation and writes its outcome.
    ///
    /// # Errors
    /// The first bytes of a reply that does not fit the operation.
    pub(super) fn read(
        &mut self,
        input: &BatchInput<'_, Words>,
        position: usize,
        operation: &IndexOperation<Words>,
        output: &mut BatchOutput<'_, Words>,
    ) -> Result<(), String> {
        let rest = self.bytes;
        let read = match *operation {
            IndexOperation::Get { key }
            | IndexOperation::Insert { key, .. }
            | IndexOperation::Remove { key } => {
                self.bulk().map(|value| output.value(position, key, value))
            }
            IndexOperation::Update { key, previous, .. } => self.bulk().map(|before| {
                // SET has no condition, so a wrong value before is noticed here.
                let applied = before == input.previous(previous);
                output.updated(position, key, applied, before);
            }),
            IndexOperation::Predecessor { .. } => self
                .entries()
                .map(|entries| output.entry(position, entries.first().copied())),
            _ => self
                .entries()
                .map(|entries| output.entries(position, entries)),
        };
        read.ok_or_else(|| {
            rest.iter()
                .take(40)
                .copied()
                .collect::<Vec<_>>()
                .escape_ascii()
                .to_string()
        })
    }

    /// Reads a line: a byte for the kind, then a number.
    fn line(&mut self, kind: u8) -> Option<i64> {
        let end = self.bytes.iter().position(|&byte| byte == b'\r')?;
        let (line, rest) = self.bytes.split_at(end);
        let number = line.strip_prefix(&[kind])?;
        self.bytes = rest.strip_prefix(b"\r\n")?;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// Reads a word, or null.
    fn bulk(&mut self) -> Option<Option<u64>> {
        match self.line(b'$')? {
            -1 => Some(None),
            8 => {
                let (word, rest) = self.bytes.split_first_chunk()?;
                self.bytes = rest.strip_prefix(b"\r\n")?;
                Some(Some(u64::from_be_bytes(*word)))
            }
            _ => None,
        }
    }

    /// Reads pairs of words; no pairs for null.
    fn entries(&mut self) -> Option<Vec<(u64, u64)>> {
        let count = self.line(b'*')?.max(0);
        let entry = |_| Some((self.bulk()??, self.bulk()??));
        (0..count / 2).map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_command_get_an_error() {
        let mut batch = Batch::new();
        let key = 7_u64.to_be_bytes();
        let refused: [&[&[u8]]; 8] = [
            &[],
            &[b"GET"],
            &[b"GET", b"short"],
            &[b"SET", &key],
            &[b"SET", &key, &key, b"NX"],
            &[b"KRANGE", b"[short", b"+", b"WITHVALUES"],
            &[b"KNEAREST", &key, b"AFTER", b"WITHVALUE"],
            &[b"FLUSHALL"],
        ];
        for words in refused {
            let form = accept(words, &mut batch);
            assert!(
                matches!(form, RadarReplyForm::Error(_)),
                "{words:?}: {form:?}"
            );
        }
        assert!(batch.is_empty());
        assert_eq!(accept(&[b"ping"], &mut batch), RadarReplyForm::Pong);
        assert_eq!(accept(&[b"get", &key], &mut batch), RadarReplyForm::Value);
        assert_eq!(batch.len(), 1);
    }

    #[test]
    fn replies_that_are_none_are_shown() {
        let mut batch = Batch::<Words>::new();
        batch.get(7);
        let (input, mut output) = batch.begin().unwrap();
        let operation = &input.operations()[0];
        for (bytes, shown) in [
            (&b"$3\r\nabc\r\n"[..], "$3\\r\\nabc\\r\\n"),
            (b":7\r\n", ":7\\r\\n"),
            (b"$8\r\nabc", "$8\\r\\nabc"),
            (b"", ""),
        ] {
            let read = RadarReplyReader::new(bytes).read(&input, 0, operation, &mut output);
            assert_eq!(read, Err(shown.to_owned()));
        }
    }
}

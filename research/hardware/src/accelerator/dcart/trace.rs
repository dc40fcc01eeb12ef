//! Traces of operations: one line of text each.

use super::DcartError;
use std::io::{BufRead, Read};

/// The effect of an operation of a trace on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DcartAction {
    /// A read of the value.
    Get,
    /// A write of the value. A key whose first operation this is did not exist before.
    Insert,
    /// A write of the value.
    Update,
    /// A removal of key and value.
    Remove,
}

impl DcartAction {
    /// All actions, in the order of the type.
    pub const ALL: [DcartAction; 4] = [
        DcartAction::Get,
        DcartAction::Insert,
        DcartAction::Update,
        DcartAction::Remove,
    ];

    /// Returns its name in a trace.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DcartAction::Get => "get",
            DcartAction::Insert => "insert",
            DcartAction::Update => "update",
            DcartAction::Remove => "remove",
        }
    }

    /// Returns true if it may change the tree.
    #[must_use]
    pub fn writes(self) -> bool {
        self != DcartAction::Get
    }
}

/// The maximum length of a key in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The maximum length of a line: a key whose bytes are all written as `\xNN`, and an operation
/// before it.
const LINE_BYTES_MAX: usize = 4 * KEY_BYTES_MAX + 64;
/// The maximum number of characters of a wrong field that an error shows.
const SHOWN: usize = 40;

/// Reader of the operations of a trace: `get|insert|update|remove KEY` on each line.
///
/// A key is the rest of its line, without blanks around it. A key that begins with a quotation mark
/// ends with another, and contains `\xNN` for any byte, and `\n`, `\r`, `\t`, `\a`, `\b`, `\"` and
/// `\\`, as in Redis's output of commands. Empty lines, and those that begin with `#`, are ignored.
/// The reader ends after the first error.
///
/// ```
/// use nearfield_hardware::accelerator::dcart::{DcartAction, DcartTrace};
///
/// let text = "# two operations\nget user 17\nremove \"\\x00\\xff\"\n";
/// let operations: Vec<_> = DcartTrace::new(text.as_bytes()).collect::<Result<_, _>>()?;
/// assert_eq!(operations[0], (DcartAction::Get, b"user 17".to_vec()));
/// assert_eq!(operations[1], (DcartAction::Remove, vec![0, 255]));
/// let error = DcartTrace::new("read user".as_bytes()).next().unwrap().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 1: operation is \"read\", but must be get, insert, update or remove"
/// );
/// # Ok::<(), nearfield_hardware::accelerator::dcart::DcartError>(())
/// ```
#[derive(Debug)]
pub struct DcartTrace<R> {
    reader: R,
    buffer: Vec<u8>,
    line: usize,
    failed: bool,
}

impl<R: BufRead> DcartTrace<R> {
    /// Creates a reader of the operations of `reader`.
    pub fn new(reader: R) -> DcartTrace<R> {
        DcartTrace {
            reader,
            buffer: Vec::new(),
            line: 0,
            failed: false,
        }
    }

    fn read(&mut self) -> Option<Result<(DcartAction, Vec<u8>), DcartError>> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let line = self.line;
            let at = move |error| DcartError::Line {
                line,
                error: Box::new(error),
            };
            // A file without line ends must not fill the memory.
            let mut limited = self.reader.by_ref().take(LINE_BYTES_MAX as u64 + 1);
            match limited.read_until(b'\n', &mut self.buffer) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(source) => return Some(Err(at(DcartError::Unreadable(source)))),
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                let error = wrong("a line", &self.buffer, "shorter than 256 KiB");
                return Some(Err(at(error)));
            }
            let text = self.buffer.trim_ascii();
            if !text.is_empty() && !text.starts_with(b"#") {
                return Some(parse(text).map_err(at));
            }
        }
    }
}

impl<R: BufRead> Iterator for DcartTrace<R> {
    type Item = Result<(DcartAction, Vec<u8>), DcartError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let operation = self.read();
        self.failed = matches!(operation, Some(Err(_)));
        operation
    }
}

fn wrong(name: &str, given: &[u8], allowed: &'static str) -> DcartError {
    DcartError::Value {
        name: name.to_owned(),
        given: String::from_utf8_lossy(given).chars().take(SHOWN).collect(),
        allowed,
    }
}

/// Parses an operation and its key, from a line without blanks around it.
fn parse(text: &[u8]) -> Result<(DcartAction, Vec<u8>), DcartError> {
    let end = text.iter().position(u8::is_ascii_whitespace);
    let (word, key) = text.split_at(end.unwrap_or(text.len()));
    let mut actions = DcartAction::ALL.into_iter();
    let action = actions.find(|action| action.name().as_bytes() == word);
    let names = "get, insert, update or remove";
    let action = action.ok_or_else(|| wrong("operation", word, names))?;
    // A key may contain blanks, so only the first run of them is a separator.
    let key = key.trim_ascii_start();
    let bytes = match key.strip_prefix(b"\"") {
        Some(quoted) => {
            let escaped = "text between quotation marks, with \\xNN for other bytes";
            unquoted(quoted).ok_or_else(|| wrong("key", key, escaped))?
        }
        None => key.to_vec(),
    };
    match bytes.len() {
        1..=KEY_BYTES_MAX => Ok((action, bytes)),
        _ => Err(wrong("key", key, "of 1 to 65536 bytes")),
    }
}

/// Returns the bytes that a text with escapes stands for, up to the quotation mark that must end
/// it.
fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut text) = (Vec::new(), text.iter().copied());
    let digit = |byte: u8| char::from(byte).to_digit(16);
    loop {
        let byte = match text.next()? {
            // Text after the closing mark would be lost, so it is an error.
            b'"' => return text.next().is_none().then_some(bytes),
            b'\\' => match text.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => (16 * digit(text.next()?)? + digit(text.next()?)?) as u8,
                same @ (b'"' | b'\\') => same,
                _ => return None,
            },
            byte => byte,
        };
        bytes.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &[u8]) -> Result<(DcartAction, Vec<u8>), String> {
        let operation = DcartTrace::new(text).next().unwrap();
        operation.map_err(|error| error.to_string())
    }

    #[test]
    fn a_wrong_line_is_named_with_its_field() {
        let wrong = |text: &str| first(text.as_bytes()).unwrap_err();
        let names = "but must be get, insert, update or remove";
        let expected = format!("line 3: operation is \"scan\", {names}");
        assert_eq!(wrong("# a comment\n\nscan a\nget b"), expected);
        assert!(wrong("Get a").starts_with("line 1: operation is \"Get\""));
        assert!(wrong("\0\0\0").starts_with("line 1: operation is "));
        for bad in [
            r#"""#,
            r#""a"#,
            r#""a" b"#,
            r#""\x0""#,
            r#""\xg0""#,
            r#""\q""#,
            r#""\"#,
        ] {
            let error = wrong(&format!("get {bad}"));
            assert!(error.contains("between quotation marks"), "{bad}: {error}");
        }
        for none in ["get", "get ", r#"get """#] {
            let expected = "but must be of 1 to 65536 bytes";
            assert!(wrong(none).ends_with(expected), "{none}");
        }
        let long = "a".repeat(KEY_BYTES_MAX + 1);
        assert!(wrong(&format!("get {long}")).ends_with("of 1 to 65536 bytes"));
        assert!(wrong(&"a".repeat(LINE_BYTES_MAX + 1)).contains("a line is"));
    }

    #[test]
    fn keys_have_any_bytes_and_blanks_within() {
        let get = |text: &[u8]| first(text).map(|(_, key)| key);
        assert_eq!(get(b"  get\t a b \r\n"), Ok(b"a b".to_vec()));
        assert_eq!(get(b"get a\"b\\"), Ok(b"a\"b\\".to_vec()));
        assert_eq!(get(b"get \xff"), Ok(vec![255]));
        let escaped = br#"get " \x0a\n\r\t\a\b\"\\ ""#;
        assert_eq!(get(escaped), Ok(b" \n\n\r\t\x07\x08\"\\ ".to_vec()));
        let longest: String = (0..KEY_BYTES_MAX).map(|_| "\\x00").collect();
        let longest = get(format!("get \"{longest}\"").as_bytes());
        assert_eq!(longest.map(|key| key.len()), Ok(KEY_BYTES_MAX));
    }

    #[test]
    fn a_trace_ends_after_an_error() {
        let mut trace = DcartTrace::new(&b"get a\nx\nget b\n"[..]);
        assert!(trace.next().unwrap().is_ok());
        assert!(trace.next().unwrap().is_err());
        assert!(trace.next().is_none());
    }
}

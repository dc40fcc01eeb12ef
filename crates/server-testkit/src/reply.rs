//! Replies as a client sees them, read from bytes and printed like redis-cli does.

use std::fmt::{self, Display, Write};

/// A reply of either version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RespReplyValue {
    /// `+`
    Simple(Vec<u8>),
    /// `-`
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// `$-1`
    NullBulk,
    /// `*-1`
    NullArray,
    /// `_`, of RESP3
    Null,
    /// `*`
    Array(Vec<RespReplyValue>),
    /// `%`
    Map(Vec<(RespReplyValue, RespReplyValue)>),
    /// `~`
    Set(Vec<RespReplyValue>),
    /// `>`
    Push(Vec<RespReplyValue>),
    /// The text of the number, so that the sent bytes are compared.
    Double(Vec<u8>),
    /// `#`
    Boolean(bool),
    /// `(`
    BigNumber(Vec<u8>),
    /// The text without its format of three letters.
    Verbatim(Vec<u8>),
}

/// Bytes that are not a reply.
#[derive(Debug)]
pub struct MalformedReply(pub String);

/// Nesting depth that no command's reply has.
const DEPTH_MAX: usize = 32;

impl RespReplyValue {
    /// Creates a simple text, such as `OK`.
    pub fn simple(text: &str) -> RespReplyValue {
        RespReplyValue::Simple(text.as_bytes().to_vec())
    }

    /// Returns the reply without the fields of these names, in maps and in lists of names and
    /// values.
    pub fn without(self, names: &[&str]) -> RespReplyValue {
        let is_named = |value: &RespReplyValue| match value {
            RespReplyValue::Bulk(name) => names.iter().any(|it| it.as_bytes() == name),
            _ => false,
        };
        match self {
            RespReplyValue::Array(elements) => {
                let (mut kept, mut elements) = (Vec::new(), elements.into_iter());
                while let Some(element) = elements.next() {
                    match is_named(&element) {
                        true => drop(elements.next()),
                        false => kept.push(element.without(names)),
                    }
                }
                RespReplyValue::Array(kept)
            }
            RespReplyValue::Map(pairs) => {
                let kept = pairs.into_iter().filter(|(name, _)| !is_named(name));
                RespReplyValue::Map(kept.map(|(name, it)| (name, it.without(names))).collect())
            }
            other => other,
        }
    }

    /// Reads a reply at the beginning of `bytes`. Returns it with its length, or `None` if it is
    /// incomplete.
    pub fn parse(bytes: &[u8]) -> Result<Option<(RespReplyValue, usize)>, MalformedReply> {
        let mut reader = RespReplyReader { bytes, position: 0 };
        let read = reader.value(0);
        debug_assert!(reader.position <= bytes.len());
        match read {
            Ok(value) => Ok(Some((value, reader.position))),
            Err(ReplyParseStop::Incomplete) => Ok(None),
            Err(ReplyParseStop::Malformed(why)) => {
                let shown = bytes.get(..bytes.len().min(200)).unwrap_or_default();
                Err(MalformedReply(format!("{why} in {}", shown.escape_ascii())))
            }
        }
    }

    fn write(&self, out: &mut String, prefix: &str) {
        match self {
            RespReplyValue::Simple(text) | RespReplyValue::Verbatim(text) => {
                // Line ends within a verbatim text are kept.
                *out += &String::from_utf8_lossy(text);
            }
            RespReplyValue::Error(text) => {
                let _ = write!(out, "(error) {}", String::from_utf8_lossy(text));
            }
            RespReplyValue::Integer(number) => {
                let _ = write!(out, "(integer) {number}");
            }
            RespReplyValue::Bulk(bytes) => quote(out, bytes),
            RespReplyValue::NullBulk | RespReplyValue::NullArray | RespReplyValue::Null => {
                *out += "(nil)"
            }
            RespReplyValue::Double(text) => {
                let _ = write!(out, "(double) {}", String::from_utf8_lossy(text));
            }
            RespReplyValue::Boolean(true) => *out += "(true)",
            RespReplyValue::Boolean(false) => *out += "(false)",
            RespReplyValue::BigNumber(text) => {
                let _ = write!(out, "(big number) {}", String::from_utf8_lossy(text));
            }
            RespReplyValue::Array(elements) => {
                write_elements(out, prefix, elements, ')', "(empty array)")
            }
            RespReplyValue::Set(elements) => {
                write_elements(out, prefix, elements, '~', "(empty set)")
            }
            RespReplyValue::Push(elements) => {
                write_elements(out, prefix, elements, '>', "(empty push)")
            }
            RespReplyValue::Map(pairs) => {
                let (width, inner) = indent(prefix, pairs.len());
                if pairs.is_empty() {
                    *out += "(empty hash)";
                }
                for (index, (key, value)) in pairs.iter().enumerate() {
                    let before = if index == 0 { "" } else { prefix };
                    let end = if index == 0 { "" } else { "\n" };
                    let _ = write!(out, "{end}{before}{:>width$}# ", index + 1);
                    key.write(out, &inner);
                    *out += " => ";
                    value.write(out, &inner);
                }
            }
        }
    }
}

fn indent(prefix: &str, count: usize) -> (usize, String) {
    let width = count.to_string().len();
    (width, format!("{prefix}{:1$}", "", width + 2))
}

fn write_elements(
    out: &mut String,
    prefix: &str,
    elements: &[RespReplyValue],
    mark: char,
    empty: &str,
) {
    if elements.is_empty() {
        *out += empty;
    }
    let (width, inner) = indent(prefix, elements.len());
    for (index, element) in elements.iter().enumerate() {
        let before = if index == 0 { "" } else { prefix };
        let end = if index == 0 { "" } else { "\n" };
        let _ = write!(out, "{end}{before}{:>width$}{mark} ", index + 1);
        element.write(out, &inner);
    }
}

fn quote(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => {
                out.push('\\');
                out.push(byte as char);
            }
            b'\n' => *out += "\\n",
            b'\r' => *out += "\\r",
            b'\t' => *out += "\\t",
            7 => *out += "\\a",
            8 => *out += "\\b",
            b' '..=b'~' => out.push(byte as char),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
}

/// Prints like `redis-cli --no-raw`, except that elements of pushed messages have `>` after their
/// numbers.
impl Display for RespReplyValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(&mut out, "");
        formatter.write_str(&out)
    }
}

enum ReplyParseStop {
    Incomplete,
    Malformed(&'static str),
}

struct RespReplyReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> RespReplyReader<'a> {
    fn line(&mut self) -> Result<&'a [u8], ReplyParseStop> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let end = rest.windows(2).position(|pair| pair == b"\r\n");
        let line = &rest[..end.ok_or(ReplyParseStop::Incomplete)?];
        if line.contains(&b'\n') || line.contains(&b'\r') {
            return Err(ReplyParseStop::Malformed("a line end within a line"));
        }
        self.position += line.len() + 2;
        Ok(line)
    }

    fn text(&mut self, length: i64) -> Result<Vec<u8>, ReplyParseStop> {
        let length =
            usize::try_from(length).map_err(|_| ReplyParseStop::Malformed("a negative length"))?;
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let text = rest.get(..length).ok_or(ReplyParseStop::Incomplete)?;
        match rest.get(length..length + 2) {
            None => Err(ReplyParseStop::Incomplete),
            Some(b"\r\n") => {
                self.position += length + 2;
                Ok(text.to_vec())
            }
            Some(_) => Err(ReplyParseStop::Malformed("no line end after a string")),
        }
    }

    fn values(&mut self, count: i64, depth: usize) -> Result<Vec<RespReplyValue>, ReplyParseStop> {
        let count =
            usize::try_from(count).map_err(|_| ReplyParseStop::Malformed("a negative count"))?;
        (0..count).map(|_| self.value(depth + 1)).collect()
    }

    fn value(&mut self, depth: usize) -> Result<RespReplyValue, ReplyParseStop> {
        if depth > DEPTH_MAX {
            return Err(ReplyParseStop::Malformed("too many levels"));
        }
        let line = self.line()?;
        let (&kind, rest) = line
            .split_first()
            .ok_or(ReplyParseStop::Malformed("an empty line"))?;
        let number = || {
            let text = std::str::from_utf8(rest).ok();
            let number = text.and_then(|text| text.parse::<i64>().ok());
            number.ok_or(ReplyParseStop::Malformed("no number"))
        };
        Ok(match kind {
            b'+' => RespReplyValue::Simple(rest.to_vec()),
            b'-' => RespReplyValue::Error(rest.to_vec()),
            b':' => RespReplyValue::Integer(number()?),
            b'$' if rest == b"-1" => RespReplyValue::NullBulk,
            b'*' if rest == b"-1" => RespReplyValue::NullArray,
            b'$' => RespReplyValue::Bulk(self.text(number()?)?),
            b'*' => RespReplyValue::Array(self.values(number()?, depth)?),
            b'~' => RespReplyValue::Set(self.values(number()?, depth)?),
            b'>' => RespReplyValue::Push(self.values(number()?, depth)?),
            b'%' => {
                let flat = self.values(number()?.saturating_mul(2), depth)?;
                let mut flat = flat.into_iter();
                let pairs = std::iter::from_fn(|| flat.next().zip(flat.next()));
                RespReplyValue::Map(pairs.collect())
            }
            b'_' if rest.is_empty() => RespReplyValue::Null,
            b',' => RespReplyValue::Double(rest.to_vec()),
            b'#' if rest == b"t" => RespReplyValue::Boolean(true),
            b'#' if rest == b"f" => RespReplyValue::Boolean(false),
            b'(' => RespReplyValue::BigNumber(rest.to_vec()),
            b'=' => {
                let text = self.text(number()?)?;
                match text.split_at_checked(4) {
                    Some((format, text)) if format[3] == b':' => {
                        RespReplyValue::Verbatim(text.to_vec())
                    }
                    _ => return Err(ReplyParseStop::Malformed("a verbatim text without format")),
                }
            }
            _ => return Err(ReplyParseStop::Malformed("an unknown type")),
        })
    }
}

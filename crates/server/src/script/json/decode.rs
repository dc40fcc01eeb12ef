//! The decoder from JSON to values of Lua.

use super::{CjsonSettings, DEPTH_MAX};
use crate::script::failure::{look, raise};
use crate::script::raw::BYTES_UNTIL_LOOK;
use mlua::{Lua, Result, Table, Value};

/// Decodes the value of a JSON text.
pub fn decode(lua: &Lua, text: &[u8], settings: &CjsonSettings) -> Result<Value> {
    // A text in UTF-16 or UTF-32 would begin like this.
    if matches!(text, [0, ..] | [_, 0, ..]) {
        return Err(raise(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = CjsonDecoder {
        lua,
        settings,
        text,
        at: 0,
    };
    let value = decoder.value()?;
    match decoder.next() {
        (_, Token::End) => Ok(value),
        found => Err(decoder.unexpected("the end", &found)),
    }
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(text) => text,
        }
    }
}

/// A table that is being read.
enum CjsonOpenTable {
    Array { table: Table, length: i64 },
    Object { table: Table, key: Vec<u8> },
}

/// A token and its position.
type Placed = (usize, Token);

struct CjsonDecoder<'d> {
    lua: &'d Lua,
    settings: &'d CjsonSettings,
    text: &'d [u8],
    at: usize,
}

impl CjsonDecoder<'_> {
    fn unexpected(&self, expected: &str, (at, token): &Placed) -> mlua::Error {
        let (found, position) = (token.name(), at + 1);
        raise(
            self.lua,
            format_args!("Expected {expected} but found {found} at character {position}"),
        )
    }

    fn next(&mut self) -> Placed {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.get(self.at) {
            self.at += 1;
        }
        let start = self.at;
        let rest = self.text.get(start..).unwrap_or_default();
        let words: &[(&[u8], Token)] = &[
            (b"true", Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ];
        let (length, token) = match rest.first() {
            None => (0, Token::End),
            Some(b'{') => (1, Token::ObjectBegin),
            Some(b'}') => (1, Token::ObjectEnd),
            Some(b'[') => (1, Token::ArrayBegin),
            Some(b']') => (1, Token::ArrayEnd),
            Some(b':') => (1, Token::Colon),
            Some(b',') => (1, Token::Comma),
            Some(b'"') => return self.string(),
            Some(b't' | b'f' | b'n') if words.iter().any(|(word, _)| rest.starts_with(word)) => {
                if rest.starts_with(b"true") {
                    (4, Token::Boolean(true))
                } else if rest.starts_with(b"false") {
                    (5, Token::Boolean(false))
                } else {
                    (4, Token::Null)
                }
            }
            Some(_) => self.number(rest),
        };
        self.at += length;
        debug_assert!(self.at <= self.text.len());
        (start, token)
    }

    /// Reads a number as C does: also hexadecimal, infinite, or not a number.
    fn number(&self, rest: &[u8]) -> (usize, Token) {
        let invalid = (0, Token::Error("invalid token"));
        let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
        let sign = rest.len() - unsigned.len();
        let lower = unsigned.get(..unsigned.len().min(8)).unwrap_or_default();
        let lower = lower.to_ascii_lowercase();
        let negated = |value: f64| if sign > 0 { -value } else { value };
        let special: &[(&[u8], f64)] = &[
            (b"infinity", f64::INFINITY),
            (b"inf", f64::INFINITY),
            (b"nan", f64::NAN),
        ];
        let is_special = special.iter().find(|(word, _)| lower.starts_with(word));
        let is_hexadecimal = lower.starts_with(b"0x");
        if (is_special.is_some() || is_hexadecimal) && !self.settings.decodes_invalid {
            return (0, Token::Error("invalid number"));
        }
        if let Some((word, value)) = is_special {
            return (sign + word.len(), Token::Number(negated(*value)));
        }
        if is_hexadecimal {
            let digits = unsigned.get(2..).unwrap_or_default();
            let count = digits.iter().take_while(|byte| byte.is_ascii_hexdigit());
            let count = count.count();
            let digit = |byte: &u8| f64::from(char::from(*byte).to_digit(16).unwrap_or(0));
            let digits = digits.get(..count).unwrap_or_default();
            let value = digits
                .iter()
                .fold(0.0, |value, byte| value * 16.0 + digit(byte));
            return (sign + 2 + count, Token::Number(negated(value)));
        }
        let length = decimal_length(unsigned);
        let digits = unsigned.get(..length).unwrap_or_default();
        let text = std::str::from_utf8(digits).unwrap_or_default();
        match text.parse() {
            Ok(value) if length > 0 => (sign + length, Token::Number(negated(value))),
            _ => invalid,
        }
    }

    fn string(&mut self) -> Placed {
        let start = self.at;
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            match rest {
                [] => return (self.at, Token::Error("unexpected end of string")),
                [b'"', ..] => {
                    self.at += 1;
                    return (start, Token::String(out));
                }
                [b'\\', ..] => {
                    let Some(length) = unescape(rest, &mut out) else {
                        let text = match rest.get(1) {
                            Some(b'u') => "invalid unicode escape code",
                            _ => "invalid escape code",
                        };
                        return (self.at, Token::Error(text));
                    };
                    self.at += length;
                }
                [byte, ..] => {
                    out.push(*byte);
                    self.at += 1;
                }
            }
        }
    }

    /// Reads a value and all within it. It does not recurse, because values may be nested deeply.
    fn value(&mut self) -> Result<Value> {
        let mut open: Vec<CjsonOpenTable> = Vec::new();
        let mut token = self.next();
        let mut looked_at = 0;
        loop {
            debug_assert!(open.len() <= DEPTH_MAX);
            if self.at - looked_at > BYTES_UNTIL_LOOK {
                looked_at = self.at;
                look()?;
            }
            let mut value = match token.1 {
                Token::String(text) => Value::String(self.lua.create_string(text)?),
                Token::Number(number) => Value::Number(number),
                Token::Boolean(value) => Value::Boolean(value),
                Token::Null => Value::NULL,
                Token::ArrayBegin | Token::ObjectBegin => {
                    let table = self.lua.create_table()?;
                    self.check_depth(open.len() + 1)?;
                    let is_array = matches!(token.1, Token::ArrayBegin);
                    let next = self.next();
                    match next.1 {
                        Token::ArrayEnd if is_array => Value::Table(table),
                        Token::ObjectEnd if !is_array => Value::Table(table),
                        _ if is_array => {
                            open.push(CjsonOpenTable::Array { table, length: 0 });
                            token = next;
                            continue;
                        }
                        _ => {
                            let key = self.key(next)?;
                            open.push(CjsonOpenTable::Object { table, key });
                            token = self.next();
                            continue;
                        }
                    }
                }
                _ => return Err(self.unexpected("value", &token)),
            };
            // The value is complete, and perhaps the containers that it is the last element of.
            token = loop {
                let Some(last) = open.last_mut() else {
                    return Ok(value);
                };
                let next = self.next();
                let table = match last {
                    CjsonOpenTable::Array { table, length } => {
                        *length += 1;
                        table.raw_set(*length, value)?;
                        match next.1 {
                            Token::Comma => break self.next(),
                            Token::ArrayEnd => table,
                            _ => return Err(self.unexpected("comma or array end", &next)),
                        }
                    }
                    CjsonOpenTable::Object { table, key } => {
                        table.raw_set(self.lua.create_string(&key)?, value)?;
                        match next.1 {
                            Token::Comma => {
                                let next = self.next();
                                *key = self.key(next)?;
                                break self.next();
                            }
                            Token::ObjectEnd => table,
                            _ => return Err(self.unexpected("comma or object end", &next)),
                        }
                    }
                };
                value = Value::Table(table.clone());
                open.pop();
            };
        }
    }

    fn check_depth(&self, depth: usize) -> Result<()> {
        if depth <= self.settings.decode_depth.min(DEPTH_MAX) {
            return Ok(());
        }
        let at = self.at;
        Err(raise(
            self.lua,
            format_args!("Found too many nested data structures ({depth}) at character {at}"),
        ))
    }

    /// Reads a key of an object, and the colon after it.
    fn key(&mut self, token: Placed) -> Result<Vec<u8>> {
        let (_, Token::String(key)) = token else {
            return Err(self.unexpected("object key string", &token));
        };
        let token = self.next();
        match token.1 {
            Token::Colon => Ok(key),
            _ => Err(self.unexpected("colon", &token)),
        }
    }
}

/// Returns the length of a decimal number at the beginning of `text`, without a sign.
fn decimal_length(text: &[u8]) -> usize {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut end = digits(0);
    if end == 0 {
        return 0;
    }
    if text.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if let Some(b'e' | b'E') = text.get(end) {
        let signed = matches!(text.get(end + 1), Some(b'+' | b'-'));
        let first = end + 1 + usize::from(signed);
        let count = digits(first);
        if count > 0 {
            end = first + count;
        }
    }
    end
}

/// Appends the character of an escape sequence at the beginning of `text`. Returns the length of
/// the sequence.
fn unescape(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let byte = match text.get(1)? {
        b'u' => return unescape_unicode(text, out),
        b'b' => 0x08,
        b't' => b'\t',
        b'n' => b'\n',
        b'f' => 0x0c,
        b'r' => b'\r',
        byte @ (b'"' | b'\\' | b'/') => *byte,
        _ => return None,
    };
    out.push(byte);
    Some(2)
}

fn unescape_unicode(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let unit = |from: usize| {
        let digits = text.get(from..from + 4)?;
        digits.iter().try_fold(0, |unit, byte| {
            Some(unit << 4 | char::from(*byte).to_digit(16)?)
        })
    };
    let first = unit(2)?;
    let (code, length) = match first {
        0xd800..0xdc00 => {
            if text.get(6..8)? != b"\\u" {
                return None;
            }
            let second = unit(8)?;
            if !(0xdc00..0xe000).contains(&second) {
                return None;
            }
            (0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12)
        }
        code => (code, 6),
    };
    let character = char::from_u32(code)?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(length)
}

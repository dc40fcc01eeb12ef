//! Values of Lua to JSON.

use super::{Invalid, Settings};
use crate::script::arguments::type_name;
use crate::script::failure::raise;
use crate::script::number::format_general;
use mlua::{Lua, Result, Table, Value};

/// A value as JSON.
pub fn encode(lua: &Lua, value: &Value, settings: &Settings) -> Result<Vec<u8>> {
    let mut encoder = Encoder {
        lua,
        settings,
        out: Vec::new(),
    };
    encoder.value(value)?;
    Ok(encoder.out)
}

/// A table that has been begun.
enum Open {
    Array {
        table: Table,
        position: i64,
        length: i64,
    },
    Object {
        pairs: std::vec::IntoIter<(Value, Value)>,
        first: bool,
    },
}

struct Encoder<'e> {
    lua: &'e Lua,
    settings: &'e Settings,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn refused(&self, value: &Value, why: &str) -> mlua::Error {
        let kind = type_name(value);
        raise(self.lua, format_args!("Cannot serialise {kind}: {why}"))
    }

    /// Goes through a value and all within it without recursion, as they may be nested deeply.
    fn value(&mut self, value: &Value) -> Result<()> {
        let mut open: Vec<Open> = Vec::new();
        let mut current = Some(value.clone());
        loop {
            if let Some(value) = current.take()
                && let Some(begun) = self.begin(&value, open.len() + 1)?
            {
                open.push(begun);
            }
            let Some(last) = open.last_mut() else {
                return Ok(());
            };
            match last {
                Open::Array {
                    table,
                    position,
                    length,
                } => {
                    if *position == *length {
                        self.out.push(b']');
                        open.pop();
                        continue;
                    }
                    if *position > 0 {
                        self.out.push(b',');
                    }
                    *position += 1;
                    current = Some(table.raw_get(*position)?);
                }
                Open::Object { pairs, first } => match pairs.next() {
                    Some((key, value)) => {
                        if !std::mem::take(first) {
                            self.out.push(b',');
                        }
                        self.key(&key)?;
                        self.out.push(b':');
                        current = Some(value);
                    }
                    None => {
                        self.out.push(b'}');
                        open.pop();
                    }
                },
            }
        }
    }

    /// Writes a value, or the beginning of a table, which is then open.
    fn begin(&mut self, value: &Value, depth: usize) -> Result<Option<Open>> {
        match value {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(number) => self.number(*number as f64, value)?,
            Value::Number(number) => self.number(*number, value)?,
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::Table(table) => return self.begin_table(table, depth).map(Some),
            value if *value == Value::NULL => self.out.extend_from_slice(b"null"),
            value => return Err(self.refused(value, "type not supported")),
        }
        Ok(None)
    }

    fn number(&mut self, number: f64, value: &Value) -> Result<()> {
        if number.is_finite() {
            let text = format_general(number, self.settings.precision);
            self.out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let text: &[u8] = match self.settings.encodes_invalid {
            Invalid::Refused => return Err(self.refused(value, "must not be NaN or Inf")),
            Invalid::Null => b"null",
            Invalid::Written if number.is_nan() => b"nan",
            Invalid::Written if number < 0.0 => b"-inf",
            Invalid::Written => b"inf",
        };
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            let escaped: &[u8] = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'/' => b"\\/",
                0x08 => b"\\b",
                b'\t' => b"\\t",
                b'\n' => b"\\n",
                0x0c => b"\\f",
                b'\r' => b"\\r",
                0..0x20 | 0x7f => {
                    let text = format!("\\u{byte:04x}");
                    self.out.extend_from_slice(text.as_bytes());
                    continue;
                }
                byte => {
                    self.out.push(byte);
                    continue;
                }
            };
            self.out.extend_from_slice(escaped);
        }
        self.out.push(b'"');
    }

    fn begin_table(&mut self, table: &Table, depth: usize) -> Result<Open> {
        if depth > self.settings.encode_depth {
            return Err(raise(
                self.lua,
                format_args!("Cannot serialise, excessive nesting ({depth})"),
            ));
        }
        if let Some(length) = self.length_of_array(table)? {
            self.out.push(b'[');
            let table = table.clone();
            return Ok(Open::Array {
                table,
                position: 0,
                length,
            });
        }
        self.out.push(b'{');
        let pairs: Result<Vec<_>> = table.pairs::<Value, Value>().collect();
        Ok(Open::Object {
            pairs: pairs?.into_iter(),
            first: true,
        })
    }

    fn key(&mut self, key: &Value) -> Result<()> {
        let number = match key {
            Value::String(text) => {
                self.string(&text.as_bytes());
                return Ok(());
            }
            Value::Integer(number) => *number as f64,
            Value::Number(number) => *number,
            key => return Err(self.refused(key, "table key must be a number or string")),
        };
        self.out.push(b'"');
        self.number(number, key)?;
        self.out.push(b'"');
        Ok(())
    }

    /// The greatest key of a table that is an array: one with no other keys than numbers from 1
    /// on, of which it has enough.
    fn length_of_array(&self, table: &Table) -> Result<Option<i64>> {
        let (mut count, mut greatest) = (0_usize, 0_i64);
        for pair in table.pairs::<Value, Value>() {
            match pair?.0 {
                Value::Integer(key) if key > 0 => {
                    count += 1;
                    greatest = greatest.max(key);
                }
                _ => return Ok(None),
            }
        }
        let settings = self.settings;
        let is_sparse = settings.sparse_ratio > 0
            && greatest as usize > count.saturating_mul(settings.sparse_ratio)
            && greatest as usize > settings.sparse_safe;
        if is_sparse && !settings.converts_sparse {
            return Err(raise(
                self.lua,
                "Cannot serialise table: excessively sparse array",
            ));
        }
        Ok((greatest > 0 && !is_sparse).then_some(greatest))
    }
}

//! The library `struct`: numbers and strings packed as in the memory of C.

use super::arguments::LuaArguments;
use super::failure::raise;
use super::text::GrowingText;
use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};

/// Largest number of bytes of an integer.
const INTEGER_BYTES_MAX: usize = 32;

/// The layout of the following elements.
struct StructFormatLayout {
    big_endian: bool,
    align: usize,
}

/// An element of a format: its letter, and its number of bytes (0: all that there are).
struct StructFormatElement {
    letter: u8,
    bytes: usize,
}

/// The reader of a format, element by element. Letters that set the layout change it.
struct StructFormatReader<'f, 'l> {
    text: &'f [u8],
    layout: StructFormatLayout,
    lua: &'l Lua,
    function: &'static str,
}

impl<'f, 'l> StructFormatReader<'f, 'l> {
    fn new(lua: &'l Lua, function: &'static str, text: &'f [u8]) -> StructFormatReader<'f, 'l> {
        let layout = StructFormatLayout {
            big_endian: cfg!(target_endian = "big"),
            align: 1,
        };
        StructFormatReader {
            text,
            layout,
            lua,
            function,
        }
    }

    fn bad(&self, text: &str) -> mlua::Error {
        super::failure::bad_argument(self.lua, 1, self.function, text)
    }

    fn take_number(&mut self, default: usize) -> Result<usize> {
        let digits = self.text.iter().take_while(|byte| byte.is_ascii_digit());
        let count = digits.count();
        if count == 0 {
            return Ok(default);
        }
        let (digits, rest) = self.text.split_at(count);
        self.text = rest;
        let number = crate::number::parse_integer(digits);
        let number = number.filter(|&number| number <= i64::from(i32::MAX));
        match number {
            Some(number) => Ok(number as usize),
            // A number with leading zeros is an integer in C, but not in the protocol.
            None => Err(raise(self.lua, "integral size overflow")),
        }
    }

    fn next(&mut self) -> Result<Option<StructFormatElement>> {
        while let Some((&letter, rest)) = self.text.split_first() {
            super::failure::look_after(rest.len())?;
            self.text = rest;
            let bytes = match letter {
                b'x' | b'b' | b'B' => 1,
                b'h' | b'H' => 2,
                b'f' => 4,
                b'd' | b'l' | b'L' | b'T' => 8,
                b'i' | b'I' => {
                    let bytes = self.take_number(4)?;
                    if bytes > INTEGER_BYTES_MAX {
                        return Err(raise(
                            self.lua,
                            format_args!(
                                "integral size {bytes} is larger than limit of {INTEGER_BYTES_MAX}"
                            ),
                        ));
                    }
                    bytes
                }
                b'c' => self.take_number(1)?,
                b's' => 0,
                b' ' => continue,
                b'<' => {
                    self.layout.big_endian = false;
                    continue;
                }
                b'>' => {
                    self.layout.big_endian = true;
                    continue;
                }
                b'!' => {
                    let align = self.take_number(8)?;
                    if !align.is_power_of_two() {
                        return Err(raise(
                            self.lua,
                            format_args!("alignment {align} is not a power of 2"),
                        ));
                    }
                    self.layout.align = align;
                    continue;
                }
                letter => {
                    let letter = char::from(letter);
                    return Err(self.bad(&format!("invalid format option '{letter}'")));
                }
            };
            return Ok(Some(StructFormatElement { letter, bytes }));
        }
        Ok(None)
    }

    /// Returns the number of padding bytes before an element that would begin at `offset`.
    fn padding(&self, offset: usize, element: &StructFormatElement) -> usize {
        if element.bytes == 0 || element.letter == b'c' {
            return 0;
        }
        debug_assert!(self.layout.align.is_power_of_two());
        let unit = element.bytes.min(self.layout.align);
        if unit.is_power_of_two() {
            offset.wrapping_neg() & (unit - 1)
        } else {
            0
        }
    }
}

/// Creates the library.
pub fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", lua.create_function(pack)?)?;
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    table.raw_set("size", lua.create_function(size)?)?;
    Ok(table)
}

fn pack(lua: &Lua, values: MultiValue) -> Result<LuaString> {
    let arguments = LuaArguments::new(lua, "pack", values);
    let source = arguments.string(1)?;
    let source = source.as_bytes();
    let mut format = StructFormatReader::new(lua, "pack", &source);
    let mut text = GrowingText::new(lua);
    let mut position = 1;
    while let Some(element) = format.next()? {
        let out = text.room(0)?;
        let padding = format.padding(out.len(), &element);
        out.resize(out.len() + padding, 0);
        let big_endian = format.layout.big_endian;
        match element.letter {
            b'x' => out.push(0),
            b'f' | b'd' => {
                position += 1;
                let number = arguments.number(position)?;
                let mut bytes = if element.letter == b'f' {
                    (number as f32).to_le_bytes().to_vec()
                } else {
                    number.to_le_bytes().to_vec()
                };
                if big_endian {
                    bytes.reverse();
                }
                out.extend_from_slice(&bytes);
            }
            b'c' | b's' => {
                position += 1;
                let string = arguments.string(position)?;
                let string = string.as_bytes();
                let bytes = match element.bytes {
                    0 => string.len(),
                    bytes => bytes,
                };
                let Some(part) = string.get(..bytes) else {
                    return Err(arguments.bad(position + 1, "string too short"));
                };
                let out = text.room(part.len())?;
                out.extend_from_slice(part);
                if element.letter == b's' {
                    out.push(0);
                }
            }
            _ => {
                position += 1;
                let number = arguments.number(position)?;
                // The direct conversion to `u64` would make 0 of a negative number.
                let value = if number < 0.0 {
                    number as i64 as u64
                } else {
                    number as u64
                };
                debug_assert!(element.bytes <= INTEGER_BYTES_MAX);
                let mut bytes = value.to_le_bytes().to_vec();
                // As in the original, bytes beyond the eighth are 0 for negative numbers, too.
                bytes.resize(element.bytes.max(8), 0);
                bytes.truncate(element.bytes);
                if big_endian {
                    bytes.reverse();
                }
                out.extend_from_slice(&bytes);
            }
        }
    }
    lua.create_string(text.finish())
}

fn read_integer(bytes: &[u8], big_endian: bool, signed: bool) -> f64 {
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    let value = if big_endian {
        bytes.iter().fold(0, fold)
    } else {
        bytes.iter().rev().fold(0, fold)
    };
    if !signed {
        return value as f64;
    }
    // An integer of no bytes would be shifted by all of its 64 bits, hence the checks.
    let spare = 64 - 8 * bytes.len().min(8) as u32;
    let extended = value.checked_shl(spare).unwrap_or(0) as i64;
    (extended.checked_shr(spare).unwrap_or(0)) as f64
}

fn unpack(lua: &Lua, values: MultiValue) -> Result<MultiValue> {
    let arguments = LuaArguments::new(lua, "unpack", values);
    let (text, data) = (arguments.string(1)?, arguments.string(2)?);
    let (text, data) = (text.as_bytes(), data.as_bytes());
    let mut at = match arguments.get(3) {
        None | Some(Value::Nil) => 0,
        Some(_) => {
            let offset = arguments.number(3)?;
            // A comparison with NaN is false, and its conversion 0, which has no predecessor.
            if offset.is_nan() || offset < 1.0 {
                return Err(raise(lua, "offset must be 1 or greater"));
            }
            offset as usize - 1
        }
    };
    let mut format = StructFormatReader::new(lua, "unpack", &text);
    let mut results: Vec<Value> = Vec::new();
    let short = || arguments.bad(2, "data string too short");
    while let Some(element) = format.next()? {
        at = at.saturating_add(format.padding(at, &element));
        let end = at.checked_add(element.bytes).ok_or_else(short)?;
        let bytes = data.get(at..end).ok_or_else(short)?;
        let big_endian = format.layout.big_endian;
        at = end;
        let value = match element.letter {
            b'x' => continue,
            b'f' | b'd' => {
                debug_assert!(matches!(bytes.len(), 4 | 8));
                let mut bytes = bytes.to_vec();
                if big_endian {
                    bytes.reverse();
                }
                let float = <[u8; 4]>::try_from(&bytes[..]).map(f32::from_le_bytes);
                let double = <[u8; 8]>::try_from(&bytes[..]).map(f64::from_le_bytes);
                Value::Number(float.map(f64::from).or(double).unwrap_or(0.0))
            }
            b'c' if element.bytes == 0 => {
                let count = match results.pop() {
                    Some(Value::Number(count)) if count >= 0.0 => count as usize,
                    _ => return Err(raise(lua, "format 'c0' needs a previous size")),
                };
                let end = at.checked_add(count).ok_or_else(short)?;
                let bytes = data.get(at..end).ok_or_else(short)?;
                at = end;
                Value::String(lua.create_string(bytes)?)
            }
            b'c' => Value::String(lua.create_string(bytes)?),
            b's' => {
                let rest = data.get(at..).unwrap_or_default();
                let Some(length) = memchr::memchr(0, rest) else {
                    return Err(raise(lua, "unfinished string in data"));
                };
                at += length + 1;
                Value::String(lua.create_string(rest.get(..length).unwrap_or_default())?)
            }
            letter => {
                let signed = letter.is_ascii_lowercase();
                Value::Number(read_integer(bytes, big_endian, signed))
            }
        };
        if results.len() >= super::RESULTS_MAX {
            return Err(raise(lua, "too many results to unpack"));
        }
        results.push(value);
    }
    results.push(Value::Number((at + 1) as f64));
    Ok(results.into_iter().collect())
}

fn size(lua: &Lua, values: MultiValue) -> Result<f64> {
    let arguments = LuaArguments::new(lua, "size", values);
    let text = arguments.string(1)?;
    let text = text.as_bytes();
    let mut format = StructFormatReader::new(lua, "size", &text);
    let mut offset: usize = 0;
    while let Some(element) = format.next()? {
        match element {
            StructFormatElement { letter: b's', .. } => {
                return Err(format.bad("variable-size format 's'"));
            }
            StructFormatElement {
                letter: b'c',
                bytes: 0,
            } => return Err(format.bad("variable-length format 'c0'")),
            _ => {}
        }
        offset = offset.saturating_add(format.padding(offset, &element));
        offset = offset.saturating_add(element.bytes);
    }
    Ok(offset as f64)
}

//! The encoder from values of Lua to JSON.
//!
//! It traverses the values on Lua's stack, because `mlua` can hold only some values of a large
//! table at once. The text grows in Lua's memory, so that it counts towards the limit.

use super::{CjsonSettings, DEPTH_MAX, Invalid};
use crate::script::convert::whole;
use crate::script::failure::raise;
use crate::script::guard;
use crate::script::number::format_general;
use crate::script::raw::{BYTES_UNTIL_LOOK, GrowingBlock};
use mlua::ffi::{self, lua_State};
use mlua::{Lua, LuaString, Result, Value};
use std::ffi::{CStr, c_int};

/// The reason why a value has no JSON.
#[derive(Clone, Copy)]
enum EncodeFault {
    /// A value of a type that is not written.
    Unsupported(&'static str),
    /// A key of this type.
    Key(&'static str),
    NotFinite,
    Depth(usize),
    Sparse,
    /// The end of the script, which is requested for this reason.
    Over(&'static str),
}

type Outcome<T> = std::result::Result<T, EncodeFault>;

/// Encodes a value as JSON.
pub fn encode(lua: &Lua, value: &Value, settings: &CjsonSettings) -> Result<LuaString> {
    let mut fault = None;
    // SAFETY: the closure runs protected, and an error skips nothing that must be dropped. It
    // leaves one string, or none and a fault.
    let text: Option<LuaString> = unsafe {
        lua.exec_raw(value, |state| {
            let block = GrowingBlock::push(state, 0);
            // Below the value, where it stays while the value's tables come and go.
            ffi::lua_insert(state, 1);
            let mut encoder = Encoder {
                state,
                settings,
                block: block.at(1),
                passed: 0,
            };
            match encoder.run() {
                Ok(()) => encoder.block.push_string(state),
                Err(it) => {
                    fault = Some(it);
                    ffi::lua_pushnil(state);
                }
            }
            ffi::lua_replace(state, 1);
            ffi::lua_settop(state, 1);
        })?
    };
    let text_of = match (text, fault) {
        (Some(text), None) => return Ok(text),
        (_, Some(EncodeFault::Over(reason))) => {
            return Err(super::super::failure::raise_reply(reason));
        }
        (_, Some(EncodeFault::Unsupported(kind))) => {
            format!("Cannot serialise {kind}: type not supported")
        }
        (_, Some(EncodeFault::Key(kind))) => {
            format!("Cannot serialise {kind}: table key must be a number or string")
        }
        (_, Some(EncodeFault::NotFinite)) => {
            "Cannot serialise number: must not be NaN or Inf".to_owned()
        }
        (_, Some(EncodeFault::Depth(depth))) => {
            format!("Cannot serialise, excessive nesting ({depth})")
        }
        (_, Some(EncodeFault::Sparse) | None) => {
            "Cannot serialise table: excessively sparse array".to_owned()
        }
    };
    Err(raise(lua, text_of))
}

/// Number of stack slots of an open table: the table, its last key or position, and its length if
/// it is an array.
const PLACES: c_int = 3;

/// The encoder of a value on the top of the stack. It has nothing that must be dropped.
struct Encoder<'e> {
    state: *mut lua_State,
    settings: &'e CjsonSettings,
    block: GrowingBlock,
    /// Work since the last check of the verdict.
    passed: usize,
}

impl Encoder<'_> {
    fn look(&mut self, passed: usize) -> Outcome<()> {
        self.passed += passed;
        if self.passed > BYTES_UNTIL_LOOK {
            self.passed = 0;
            if let Some(reason) = guard::verdict() {
                return Err(EncodeFault::Over(reason));
            }
        }
        Ok(())
    }

    /// # Safety
    /// The state is that of a function in C that runs.
    unsafe fn write(&mut self, bytes: &[u8]) {
        // SAFETY: the caller vouches for the state. The bytes are not in the block.
        unsafe { self.block.append(self.state, bytes) }
    }

    /// Writes the value on the top of the stack, and all within it, without recursion.
    ///
    /// # Safety
    /// The state is that of a function in C that runs, with the block's place below the value.
    unsafe fn run(&mut self) -> Outcome<()> {
        // SAFETY: the caller vouches for the state. Each open table is on the stack with its
        // places, for which there is room once it is begun, and for a few more.
        unsafe {
            let state = self.state;
            let bottom = ffi::lua_gettop(state) - 1;
            self.begin(1)?;
            loop {
                let top = ffi::lua_gettop(state);
                if top == bottom {
                    return Ok(());
                }
                debug_assert_eq!((top - bottom) % PLACES, 0, "only open tables are here");
                let depth = ((top - bottom) / PLACES) as usize;
                let (table, at, length) = (top - 2, top - 1, top);
                self.look(1)?;
                if ffi::lua_type(state, length) == ffi::LUA_TNUMBER {
                    let position = ffi::lua_tonumber(state, at) + 1.0;
                    if position > ffi::lua_tonumber(state, length) {
                        self.write(b"]");
                        ffi::lua_settop(state, table - 1);
                        continue;
                    }
                    if position > 1.0 {
                        self.write(b",");
                    }
                    ffi::lua_pushnumber(state, position);
                    ffi::lua_replace(state, at);
                    // `lua_rawgeti` takes no greater position.
                    if position <= f64::from(c_int::MAX) {
                        ffi::lua_rawgeti_(state, table, position as c_int);
                    } else {
                        ffi::lua_pushnil(state);
                    }
                } else {
                    let is_first = ffi::lua_type(state, at) == ffi::LUA_TNIL;
                    ffi::lua_pushvalue(state, at);
                    if ffi::lua_next(state, table) == 0 {
                        self.write(b"}");
                        ffi::lua_settop(state, table - 1);
                        continue;
                    }
                    if !is_first {
                        self.write(b",");
                    }
                    self.key()?;
                    ffi::lua_pushvalue(state, -2);
                    ffi::lua_replace(state, at);
                    ffi::lua_remove(state, -2);
                }
                self.begin(depth + 1)?;
            }
        }
    }

    /// Writes the value on the top of the stack and takes it off, or begins a table.
    ///
    /// # Safety
    /// As for [`run`](Encoder::run).
    unsafe fn begin(&mut self, depth: usize) -> Outcome<()> {
        // SAFETY: the caller vouches for the state.
        unsafe {
            let state = self.state;
            match ffi::lua_type(state, -1) {
                ffi::LUA_TSTRING => self.string(-1)?,
                ffi::LUA_TNUMBER => self.number(ffi::lua_tonumber(state, -1))?,
                ffi::LUA_TBOOLEAN if ffi::lua_toboolean(state, -1) != 0 => self.write(b"true"),
                ffi::LUA_TBOOLEAN => self.write(b"false"),
                ffi::LUA_TNIL => self.write(b"null"),
                // This is `cjson.null`.
                ffi::LUA_TLIGHTUSERDATA if ffi::lua_touserdata(state, -1).is_null() => {
                    self.write(b"null");
                }
                ffi::LUA_TTABLE => {
                    if depth > self.settings.encode_depth.min(DEPTH_MAX) {
                        return Err(EncodeFault::Depth(depth));
                    }
                    let room = c"cannot serialise, excessive nesting";
                    ffi::luaL_checkstack(state, 4 * PLACES, room.as_ptr());
                    let length = self.length_of_array()?;
                    match length {
                        Some(length) => {
                            self.write(b"[");
                            ffi::lua_pushnumber(state, 0.0);
                            ffi::lua_pushnumber(state, length);
                        }
                        None => {
                            self.write(b"{");
                            ffi::lua_pushnil(state);
                            ffi::lua_pushnil(state);
                        }
                    }
                    return Ok(());
                }
                kind => return Err(EncodeFault::Unsupported(type_name(state, kind))),
            }
            ffi::lua_pop(state, 1);
        }
        Ok(())
    }

    /// # Safety
    /// As for [`run`](Encoder::run).
    unsafe fn number(&mut self, number: f64) -> Outcome<()> {
        let text: &[u8] = if number.is_finite() {
            let (digits, length) = digits(number, self.settings.precision);
            // SAFETY: as for the caller.
            unsafe { self.write(digits.get(..length).unwrap_or_default()) };
            return Ok(());
        } else {
            match self.settings.encodes_invalid {
                Invalid::Refused => return Err(EncodeFault::NotFinite),
                Invalid::Null => b"null",
                Invalid::Written if number.is_nan() => b"nan",
                Invalid::Written if number < 0.0 => b"-inf",
                Invalid::Written => b"inf",
            }
        };
        // SAFETY: as for the caller.
        unsafe { self.write(text) };
        Ok(())
    }

    /// Writes the string at this place of the stack.
    ///
    /// # Safety
    /// As for [`run`](Encoder::run), and there is a string.
    unsafe fn string(&mut self, position: c_int) -> Outcome<()> {
        // SAFETY: the caller vouches for the string, which does not move.
        unsafe {
            let mut length = 0;
            let bytes = ffi::lua_tolstring(self.state, position, &raw mut length);
            debug_assert!(!bytes.is_null(), "it is a string");
            let mut rest = std::slice::from_raw_parts(bytes.cast::<u8>(), length);
            self.write(b"\"");
            while let Some(at) = rest.iter().position(|byte| is_escaped(*byte)) {
                let (plain, behind) = rest.split_at(at);
                self.write(plain);
                self.escape(behind.first().copied().unwrap_or(0));
                self.look(1)?;
                rest = behind.get(1..).unwrap_or_default();
            }
            self.write(rest);
            self.write(b"\"");
            self.look(length)
        }
    }

    /// # Safety
    /// As for [`run`](Encoder::run).
    unsafe fn escape(&mut self, byte: u8) {
        const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";
        let escaped: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'/' => b"\\/",
            0x08 => b"\\b",
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            0x0c => b"\\f",
            b'\r' => b"\\r",
            byte => {
                let digit = |four: u8| HEXADECIMAL.get(usize::from(four)).copied().unwrap_or(b'0');
                let text = [b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)];
                // SAFETY: as for the caller.
                return unsafe { self.write(&text) };
            }
        };
        // SAFETY: as for the caller.
        unsafe { self.write(escaped) }
    }

    /// Writes the key below the top of the stack, with its quotes and colon.
    ///
    /// # Safety
    /// As for [`run`](Encoder::run).
    unsafe fn key(&mut self) -> Outcome<()> {
        // SAFETY: the caller vouches for the state. A number key is not converted to a string on
        // the stack, because `lua_next` would not find the next key.
        unsafe {
            match ffi::lua_type(self.state, -2) {
                ffi::LUA_TSTRING => self.string(-2)?,
                ffi::LUA_TNUMBER => {
                    self.write(b"\"");
                    self.number(ffi::lua_tonumber(self.state, -2))?;
                    self.write(b"\"");
                }
                kind => return Err(EncodeFault::Key(type_name(self.state, kind))),
            }
            self.write(b":");
        }
        Ok(())
    }

    /// Returns the greatest key of the table on the top of the stack if the table is an array: it
    /// has only positive integers as keys, and is not too sparse.
    ///
    /// # Safety
    /// As for [`run`](Encoder::run).
    unsafe fn length_of_array(&mut self) -> Outcome<Option<f64>> {
        let (mut count, mut greatest) = (0_usize, 0.0_f64);
        // SAFETY: the caller vouches for the state, and for two places on the stack.
        unsafe {
            let state = self.state;
            ffi::lua_pushnil(state);
            while ffi::lua_next(state, -2) != 0 {
                ffi::lua_pop(state, 1);
                self.look(1)?;
                let key = match ffi::lua_type(state, -1) {
                    ffi::LUA_TNUMBER => whole(ffi::lua_tonumber(state, -1)),
                    _ => None,
                };
                let Some(key @ 1..) = key else {
                    ffi::lua_pop(state, 1);
                    return Ok(None);
                };
                count += 1;
                greatest = greatest.max(key as f64);
            }
        }
        let settings = self.settings;
        let is_sparse = settings.sparse_ratio > 0
            && greatest > count.saturating_mul(settings.sparse_ratio) as f64
            && greatest > settings.sparse_safe as f64;
        if is_sparse && !settings.converts_sparse {
            return Err(EncodeFault::Sparse);
        }
        Ok((greatest > 0.0 && !is_sparse).then_some(greatest))
    }
}

fn is_escaped(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | b'/' | 0..0x20 | 0x7f)
}

/// Returns a number as text, and its length.
fn digits(number: f64, precision: usize) -> ([u8; 48], usize) {
    let mut out = [0; 48];
    let mut copy = |text: &[u8]| {
        debug_assert!(text.len() <= out.len(), "a number would lose digits");
        let length = text.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..length), text.get(..length)) {
            to.copy_from_slice(from);
        }
        length
    };
    let length = match whole(number) {
        // A longer integer is written with an exponent, as `%.14g` does.
        Some(whole) if number.abs() < 10_f64.powi(precision as i32) => {
            copy(itoa::Buffer::new().format(whole).as_bytes())
        }
        _ => copy(format_general(number, precision).as_bytes()),
    };
    (out, length)
}

/// # Safety
/// The state is that of a function in C that runs.
unsafe fn type_name(state: *mut lua_State, kind: c_int) -> &'static str {
    // SAFETY: the caller vouches for the state, and names of types are constants of Lua.
    let name = unsafe { CStr::from_ptr(ffi::lua_typename(state, kind)) };
    name.to_str().unwrap_or("userdata")
}

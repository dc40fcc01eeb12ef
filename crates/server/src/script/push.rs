//! The conversion of replies of commands to values of Lua.

use mlua::ffi::{self, lua_State};
use std::ffi::{CStr, c_int};

/// Number of stack slots that one step needs.
const STACK_SLOTS: c_int = 4;

/// Pushes a string.
///
/// # Safety
/// As for [`answer`].
pub unsafe fn string(state: *mut lua_State, bytes: &[u8]) {
    // SAFETY: the caller vouches for the state, and Lua copies the bytes.
    unsafe { ffi::lua_pushlstring_(state, bytes.as_ptr().cast(), bytes.len()) }
}

/// Pushes a table with this string under a name.
///
/// # Safety
/// As for [`answer`].
pub unsafe fn field(state: *mut lua_State, name: &CStr, bytes: &[u8]) {
    // SAFETY: the caller vouches for the state and for three places on the stack. The table takes
    // the place of the name and the string once these are taken off.
    unsafe {
        ffi::lua_createtable(state, 0, 1);
        string(state, name.to_bytes());
        string(state, bytes);
        ffi::lua_rawset(state, -3);
    }
}

/// Takes a value off the stack and pushes a table with it under a name.
///
/// # Safety
/// As for [`answer`], and there is a value on the stack.
unsafe fn wrap(state: *mut lua_State, name: &CStr) {
    // SAFETY: the caller vouches for the state, for the value and for two places on the stack.
    unsafe {
        ffi::lua_createtable(state, 0, 1);
        ffi::lua_insert(state, -2);
        string(state, name.to_bytes());
        ffi::lua_insert(state, -2);
        ffi::lua_rawset(state, -3);
    }
}

/// Reads one value of the protocol, as commands write it, from the front of `bytes`, and pushes it.
///
/// # Safety
/// `state` is that of a function in C that Lua has called, or that is called protected. Without
/// memory this does not return, and skips the frames up to that function: no frame in between may
/// have anything to drop.
pub unsafe fn answer(state: *mut lua_State, bytes: &mut &[u8]) {
    let line = take_line(bytes);
    let (kind, rest) = line.split_first().unwrap_or((&b'_', b""));
    let length = || crate::number::parse_integer(rest).unwrap_or(-1);
    // SAFETY: the caller vouches for the state, and for frames without anything to drop; this frame
    // has none either. `luaL_checkstack` makes room for the pushed values before the next level of
    // a nested value makes its own.
    unsafe {
        ffi::luaL_checkstack(
            state,
            STACK_SLOTS,
            c"the reply is nested too deeply".as_ptr(),
        );
        match kind {
            b'+' => field(state, c"ok", rest),
            b'-' => field(state, c"err", rest),
            b':' => ffi::lua_pushnumber(state, length() as f64),
            b'$' | b'*' if length() < 0 => ffi::lua_pushboolean(state, 0),
            b'$' => string(state, take_bulk(bytes, length())),
            b'*' | b'>' => {
                let length = c_int::try_from(length()).unwrap_or(c_int::MAX);
                ffi::lua_createtable(state, length, 0);
                for position in 1..=length {
                    answer(state, bytes);
                    ffi::lua_rawseti_(state, -2, position);
                }
            }
            b'%' => {
                ffi::lua_createtable(state, 0, 0);
                for _ in 0..length() {
                    answer(state, bytes);
                    answer(state, bytes);
                    ffi::lua_rawset(state, -3);
                }
                wrap(state, c"map");
            }
            b'~' => {
                ffi::lua_createtable(state, 0, 0);
                for _ in 0..length() {
                    answer(state, bytes);
                    ffi::lua_pushboolean(state, 1);
                    ffi::lua_rawset(state, -3);
                }
                wrap(state, c"set");
            }
            b'#' => ffi::lua_pushboolean(state, (rest == b"t").into()),
            b',' => {
                let value = crate::number::parse_double(rest).unwrap_or(f64::NAN);
                ffi::lua_pushnumber(state, value);
                wrap(state, c"double");
            }
            b'(' => field(state, c"big_number", rest),
            b'=' => {
                let text = take_bulk(bytes, length());
                field(state, c"format", text.get(..3).unwrap_or_default());
                string(state, b"string");
                string(state, text.get(4..).unwrap_or_default());
                ffi::lua_rawset(state, -3);
                wrap(state, c"verbatim_string");
            }
            _ => {
                debug_assert_eq!(*kind, b'_', "no command writes other kinds");
                ffi::lua_pushnil(state);
            }
        }
    }
}

fn take_line<'b>(bytes: &mut &'b [u8]) -> &'b [u8] {
    let end = memchr::memchr(b'\r', bytes).unwrap_or(bytes.len());
    let line = bytes.get(..end).unwrap_or_default();
    *bytes = bytes.get(end + 2..).unwrap_or_default();
    line
}

fn take_bulk<'b>(bytes: &mut &'b [u8], length: i64) -> &'b [u8] {
    let length = length.max(0) as usize;
    debug_assert!(bytes.len() >= length + 2, "the reply is complete");
    let text = bytes.get(..length).unwrap_or_default();
    *bytes = bytes.get(length + 2..).unwrap_or_default();
    text
}

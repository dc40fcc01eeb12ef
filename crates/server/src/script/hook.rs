//! The hook that checks the verdict between the instructions of Lua.

use super::raw;
use mlua::ffi::{self, lua_Debug, lua_State};
use mlua::{Lua, Result};
use std::ffi::c_int;

/// Largest number of instructions between two checks.
const INSTRUCTIONS_MAX: usize = 256;

/// Mebibytes of memory in the Lua state above which there are fewer instructions between two
/// checks. The time that one instruction takes is bounded by nothing else: it may join two strings
/// that fill the memory.
const MEBIBYTES_MANY: usize = 16;

/// Installs the hook. Coroutines that scripts create inherit it.
pub fn set(lua: &Lua) -> Result<()> {
    let many = INSTRUCTIONS_MAX as c_int;
    let set = |state| {
        // SAFETY: the state is the one that runs this. `look` may be called between instructions.
        unsafe { ffi::lua_sethook(state, Some(look), ffi::LUA_MASKCOUNT, many) };
    };
    // SAFETY: the closure has nothing to drop, and leaves the stack as it was.
    unsafe { lua.exec_raw((), set) }
}

unsafe extern "C-unwind" fn look(state: *mut lua_State, _: *mut lua_Debug) {
    // SAFETY: Lua calls this with its state, in a frame with places on the stack as for a function
    // in C. No frame of it has anything to drop.
    unsafe {
        raw::look(state);
        let mebibytes = ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0) as usize >> 10;
        let many = INSTRUCTIONS_MAX * MEBIBYTES_MANY / mebibytes.max(MEBIBYTES_MANY);
        // With a count of 0, Lua would hardly ever call the hook.
        let many = many.max(1) as c_int;
        debug_assert!(many <= INSTRUCTIONS_MAX as c_int);
        if many != ffi::lua_gethookcount(state) {
            ffi::lua_sethook(state, Some(look), ffi::LUA_MASKCOUNT, many);
        }
    }
}

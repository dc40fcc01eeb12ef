//! Functions of the interpreter's libraries with a check of their arguments before the call, and of
//! the verdict after it: the interpreter itself checks the verdict only between its instructions.

use super::{raw, strings};
use mlua::ffi::{self, lua_State};
use mlua::{Lua, Result, Table};
use std::cell::Cell;
use std::ffi::c_int;

/// Largest number of bytes or values that are copied, moved or compared without a check of the
/// verdict.
const LENGTH_UNTIL_LOOK: usize = 1 << 16;

/// Largest distance that `table.insert` moves values below the first of a table.
const INSERT_BELOW_MAX: i64 = 1 << 16;

/// Functions that need only a check of the verdict afterwards.
const WEIGHED: [(&str, &str); 8] = [
    ("string", "lower"),
    ("string", "upper"),
    ("string", "reverse"),
    ("string", "format"),
    ("string", "dump"),
    ("table", "concat"),
    ("table", "maxn"),
    ("table", "remove"),
];

thread_local! {
    /// Number of comparisons since the last check.
    static COMPARED: Cell<usize> = const { Cell::new(0) };
}

/// Replaces functions of the libraries `string` and `table`, and returns `unpack`.
pub fn replace(lua: &Lua) -> Result<mlua::Function> {
    let table = |name: &str| lua.globals().raw_get::<Table>(name);
    for (name, function) in strings::FUNCTIONS {
        // SAFETY: Lua may call these functions with anything on its stack.
        table("string")?.raw_set(name, unsafe { lua.create_c_function(function) }?)?;
    }
    for (library, name) in WEIGHED {
        let library = table(library)?;
        library.raw_set(name, wrap(lua, library.raw_get(name)?, weighed)?)?;
    }
    let tables = table("table")?;
    for (name, function) in [("insert", insert as ffi::lua_CFunction), ("sort", sort)] {
        tables.raw_set(name, wrap(lua, tables.raw_get(name)?, function)?)?;
    }
    wrap(lua, lua.globals().raw_get("unpack")?, unpack)
}

/// Creates a function in C that finds the original function as its upvalue.
fn wrap(lua: &Lua, behind: mlua::Function, function: ffi::lua_CFunction) -> Result<mlua::Function> {
    // SAFETY: the closure runs protected and has nothing to drop. It turns the one value on the
    // stack into another.
    unsafe { lua.exec_raw(behind, |state| ffi::lua_pushcclosure(state, function, 1)) }
}

/// Calls the original function, in the frame of this one. It belongs to the interpreter's
/// libraries, which have no upvalues of their own.
///
/// # Safety
/// `state` is that of a function that [`wrap`] has made.
unsafe fn behind(state: *mut lua_State) -> c_int {
    // SAFETY: the caller vouches for the state, and `wrap` has left a function in C there, which
    // may be called with anything on the stack.
    unsafe {
        let function = ffi::lua_tocfunction(state, ffi::lua_upvalueindex(1));
        debug_assert!(function.is_some(), "`wrap` has got a function in C");
        match function {
            Some(function) => function(state),
            None => 0,
        }
    }
}

unsafe extern "C-unwind" fn weighed(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with its state, and no frame of it has anything to drop.
    unsafe {
        let is_long = is_long(state, 1) || is_long(state, 2);
        let count = behind(state);
        if is_long {
            raw::look(state);
        }
        count
    }
}

/// Returns true if an argument is a long string or table.
///
/// # Safety
/// `state` is that of a function that Lua has called.
unsafe fn is_long(state: *mut lua_State, position: c_int) -> bool {
    // SAFETY: the caller vouches for the state. Reading these types raises no error.
    unsafe {
        let kind = ffi::lua_type(state, position);
        matches!(kind, ffi::LUA_TSTRING | ffi::LUA_TTABLE)
            && ffi::lua_objlen(state, position) > LENGTH_UNTIL_LOOK
    }
}

unsafe extern "C-unwind" fn insert(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        if ffi::lua_gettop(state) != 3 || ffi::lua_type(state, 1) != ffi::LUA_TTABLE {
            return behind(state);
        }
        let is_long = is_long(state, 1);
        let position = raw::integer(state, 2, 0);
        if position < -INSERT_BELOW_MAX || position > i64::from(c_int::MAX) - 1 {
            ffi::luaL_argerror(state, 2, c"position out of bounds".as_ptr());
        }
        let count = behind(state);
        if is_long {
            raw::look(state);
        }
        count
    }
}

unsafe extern "C-unwind" fn sort(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        // A comparison function in Lua is checked between its instructions.
        if is_long(state, 1) && ffi::lua_isnoneornil(state, 2) != 0 {
            ffi::lua_settop(state, 1);
            ffi::lua_pushcclosure(state, is_less, 0);
        }
        behind(state)
    }
}

/// Compares as the operator does, and checks the verdict periodically.
unsafe extern "C-unwind" fn is_less(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        let compared = COMPARED.get() + 1;
        COMPARED.set(compared % LENGTH_UNTIL_LOOK);
        if compared == LENGTH_UNTIL_LOOK {
            raw::look(state);
        }
        let is_less = ffi::lua_lessthan(state, 1, 2);
        ffi::lua_pushboolean(state, is_less);
    }
    1
}

/// Implements `unpack`. The interpreter counts the values in integers that overflow.
unsafe extern "C-unwind" fn unpack(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        if ffi::lua_type(state, 1) == ffi::LUA_TTABLE {
            let length = ffi::lua_objlen(state, 1) as i64;
            let first = raw::integer(state, 2, 1);
            let last = raw::integer(state, 3, length);
            let fits = |place: i64| c_int::try_from(place).is_ok();
            let count = last.saturating_sub(first).saturating_add(1);
            if first <= last && (!fits(first) || !fits(last) || !fits(count)) {
                ffi::luaL_error(state, c"too many results to unpack".as_ptr());
            }
            if first > last {
                return 0;
            }
        }
        behind(state)
    }
}

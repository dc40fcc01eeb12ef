//! The call of scripts and functions, with their keys and arguments.
//!
//! A function in C makes the tables and calls the script. It is called protected and without
//! `mlua`, which would take a lock and many steps for each call. The functions and their arguments
//! are stored in Lua's registry, from where a number brings each onto the stack.

use super::convert::truncated;
use super::host::LuaHost;
use super::{lent, push};
use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, RegistryKey, Result, Table, Value};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// The caller of scripts and functions of a Lua state.
#[derive(Debug)]
pub struct LuaCaller {
    lua: Lua,
    /// The main thread of the Lua state.
    state: NonNull<lua_State>,
    /// The function [`enter`].
    enter: RegistryKey,
    /// The function that makes a table of an error.
    locate: RegistryKey,
    /// The place where a value is put for `mlua` to find. It is never nil, so that the place always
    /// exists.
    place: RegistryKey,
    /// Bytes of memory that the state took when the last call ended.
    bytes: Cell<usize>,
}

// SAFETY: `lua` may be sent, and keeps alive what `state` points to. Nothing else here belongs to a
// thread, and neither does the Lua state.
unsafe impl Send for LuaCaller {}

/// A callable script or function of the Lua state of a [`LuaCaller`].
#[derive(Debug)]
pub struct Callable {
    function: RegistryKey,
    /// The table of globals in which a script finds `KEYS` and `ARGV`; `None` for a function.
    globals: Option<RegistryKey>,
}

impl Callable {
    /// Creates a callable from a script, which finds `KEYS` and `ARGV` among these globals.
    pub fn script(lua: &Lua, function: Function, globals: &Table) -> Result<Callable> {
        Ok(Callable {
            function: lua.create_registry_value(function)?,
            globals: Some(lua.create_registry_value(globals)?),
        })
    }

    /// Creates a callable from a function, which gets its keys and arguments as parameters.
    pub fn function(lua: &Lua, function: Function) -> Result<Callable> {
        Ok(Callable {
            function: lua.create_registry_value(function)?,
            globals: None,
        })
    }
}

/// The outcome of a call.
#[derive(Debug)]
pub enum LuaCallOutcome {
    /// The result is written.
    Answered,
    /// The result, which the caller must write.
    Returned(Value),
    /// The error value of a failed call.
    Failed(Value),
}

/// The arguments that [`enter`] gets.
struct LuaCallArguments<'v> {
    keys: &'v [&'v [u8]],
    arguments: &'v [&'v [u8]],
}

impl LuaCaller {
    /// Creates the entry to a Lua state. Its function `locate` makes tables of errors.
    pub fn new(lua: &Lua, locate: Function) -> Result<LuaCaller> {
        let mut state = None;
        // SAFETY: the closure has nothing to drop, and calls nothing that raises an error.
        unsafe { lua.exec_raw::<()>((), |it| state = NonNull::new(it)) }?;
        let Some(state) = state else {
            unreachable!("a Lua state has an address")
        };
        // SAFETY: Lua may call `enter` with what `LuaCaller::call` passes, and no other code can
        // reach it.
        let enter = unsafe { lua.create_c_function(enter) }?;
        Ok(LuaCaller {
            lua: lua.clone(),
            state,
            enter: lua.create_registry_value(enter)?,
            locate: lua.create_registry_value(locate)?,
            place: lua.create_registry_value(true)?,
            bytes: Cell::new(0),
        })
    }

    /// Returns the bytes of memory that the state took when the last call ended.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Calls a script or function of this Lua state for `host`. No other may run in the state.
    pub fn call(
        &self,
        callable: &Callable,
        host: &mut dyn LuaHost,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<LuaCallOutcome> {
        const PLACES: c_int = 5;
        let state = self.state.as_ptr();
        let mut visit = LuaCallArguments { keys, arguments };
        // SAFETY: `lua` keeps the state alive. The caller has it exclusively: an engine is behind a
        // mutex, and no function that Lua calls has an engine. So nothing runs in the state, whose
        // stack has the places that are needed, as for any function in C. Nothing that is called
        // outside the protected call raises an error: values come from places of the registry that
        // exist, and numbers and strings are read as what they are. `visit` outlives the protected
        // call, after which no pointer to it remains.
        unsafe {
            let top = ffi::lua_gettop(state);
            if ffi::lua_checkstack(state, PLACES) == 0 {
                return Err(mlua::Error::StackError);
            }
            let push = |key: &RegistryKey| {
                ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, key.id());
            };
            // Below the function that is called, because the call takes all above it off.
            push(&self.locate);
            push(&self.enter);
            ffi::lua_pushlightuserdata(state, (&raw mut visit).cast::<c_void>());
            push(&callable.function);
            callable.globals.iter().for_each(push);
            let count = ffi::lua_gettop(state) - top - 2;
            let call = || ffi::lua_pcall(state, count, 1, top + 1);
            let status = lent::lend(host, call);
            debug_assert_eq!(ffi::lua_gettop(state), top + 2, "a result or an error");
            // `mlua` would take a lock to read this.
            let kibibytes = ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0) as usize;
            let bytes = ffi::lua_gc(state, ffi::LUA_GCCOUNTB, 0) as usize;
            self.bytes.set((kibibytes << 10) + bytes);
            if status != ffi::LUA_OK {
                return Ok(LuaCallOutcome::Failed(self.take(top)?));
            }
            // Strings and numbers, the most frequent results, take no detour over values of `mlua`.
            match ffi::lua_type(state, -1) {
                ffi::LUA_TSTRING => {
                    let mut length = 0;
                    let bytes = ffi::lua_tolstring(state, -1, &raw mut length);
                    debug_assert!(!bytes.is_null(), "it is a string");
                    let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), length);
                    host.reply().bulk(bytes);
                }
                ffi::LUA_TNUMBER => {
                    let number = ffi::lua_tonumber(state, -1);
                    host.reply().integer(truncated(number));
                }
                _ => return Ok(LuaCallOutcome::Returned(self.take(top)?)),
            }
            ffi::lua_settop(state, top);
        }
        Ok(LuaCallOutcome::Answered)
    }

    /// Takes the value off the stack, and all others down to `top`.
    ///
    /// # Safety
    /// Nothing runs in the state, and there is a value on its stack.
    unsafe fn take(&self, top: c_int) -> Result<Value> {
        let state = self.state.as_ptr();
        // SAFETY: the caller vouches for the state and the value. The place of the registry exists,
        // so that storing something in it needs no memory.
        unsafe {
            debug_assert!(ffi::lua_gettop(state) > top, "there is a value");
            let is_nil = ffi::lua_isnil(state, -1) != 0;
            if !is_nil {
                ffi::lua_rawseti_(state, ffi::LUA_REGISTRYINDEX, self.place.id());
            }
            ffi::lua_settop(state, top);
            if is_nil {
                return Ok(Value::Nil);
            }
        }
        let value = self.lua.registry_value(&self.place);
        // SAFETY: as above.
        unsafe {
            // The value must not stay reachable from here, and nil would remove the place.
            ffi::lua_pushboolean(state, 1);
            ffi::lua_rawseti_(state, ffi::LUA_REGISTRYINDEX, self.place.id());
        }
        value
    }
}

/// Calls a function with its keys and arguments, and returns what the function returns. The stack
/// has a [`LuaCallArguments`], the function, and the globals if it is a script.
unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
    // SAFETY: only `LuaCaller::call` has this function, and its visit outlives the call. Lua gives
    // a function in C twenty places on the stack, of which this takes seven. An error skips this
    // frame, which has nothing to drop.
    unsafe {
        debug_assert!(matches!(ffi::lua_gettop(state), 2 | 3));
        debug_assert_eq!(ffi::lua_type(state, 1), ffi::LUA_TLIGHTUSERDATA);
        debug_assert_eq!(ffi::lua_type(state, 2), ffi::LUA_TFUNCTION);
        let visit = &*ffi::lua_touserdata(state, 1).cast::<LuaCallArguments<'_>>();
        let is_script = ffi::lua_gettop(state) > 2;
        let mut count = 0;
        if is_script {
            for (name, words) in [(c"KEYS", visit.keys), (c"ARGV", visit.arguments)] {
                push::string(state, name.to_bytes());
                push_words(state, words);
                ffi::lua_rawset(state, 3);
            }
            ffi::lua_settop(state, 2);
        } else {
            push_words(state, visit.keys);
            push_words(state, visit.arguments);
            count = 2;
        }
        ffi::lua_call(state, count, 1);
    }
    1
}

/// Pushes a table of words.
///
/// # Safety
/// As for [`push::answer`].
unsafe fn push_words(state: *mut lua_State, words: &[&[u8]]) {
    let count = c_int::try_from(words.len()).unwrap_or(c_int::MAX);
    // SAFETY: the caller vouches for the state, and for two places on the stack.
    unsafe {
        ffi::lua_createtable(state, count, 0);
        for (position, word) in (1..=count).zip(words) {
            push::string(state, word);
            ffi::lua_rawseti_(state, -2, position);
        }
    }
}

//! Calling scripts and functions, with their keys and arguments.
//!
//! A function in C makes the tables and calls what is to run. It is called protected, without
//! `mlua`, which would take a lock and many steps for each call. What is called and what it is
//! called by lies in Lua's registry, from where a number brings it onto the stack.

use super::convert::truncated;
use super::host::Host;
use super::{lent, push};
use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua, RegistryKey, Result, Table, Value};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

/// What calls scripts and functions of a Lua state.
#[derive(Debug)]
pub struct Entry {
    lua: Lua,
    /// The main thread of the Lua state.
    state: NonNull<lua_State>,
    /// [`enter`].
    enter: RegistryKey,
    /// Makes a table of an error.
    locate: RegistryKey,
    /// Where a value is put that `mlua` is to find. It is never nil, so that its place is there.
    place: RegistryKey,
    /// What the state has taken when the last call ended.
    bytes: Cell<usize>,
}

// SAFETY: `lua` may be sent, and keeps alive what `state` points to. Nothing else here belongs to a
// thread, and the Lua state does not either.
unsafe impl Send for Entry {}

/// A script or function that can be called, of the Lua state that an [`Entry`] belongs to.
#[derive(Debug)]
pub struct Callable {
    function: RegistryKey,
    /// Of a script: the table of globals in which it finds `KEYS` and `ARGV`.
    globals: Option<RegistryKey>,
}

impl Callable {
    /// A script, which finds `KEYS` and `ARGV` among these globals.
    pub fn script(lua: &Lua, function: Function, globals: &Table) -> Result<Callable> {
        Ok(Callable {
            function: lua.create_registry_value(function)?,
            globals: Some(lua.create_registry_value(globals)?),
        })
    }

    /// A function, which is given its keys and arguments.
    pub fn function(lua: &Lua, function: Function) -> Result<Callable> {
        Ok(Callable {
            function: lua.create_registry_value(function)?,
            globals: None,
        })
    }
}

/// What became of it.
#[derive(Debug)]
pub enum Ended {
    /// What it has returned is written.
    Answered,
    /// What it has returned is to be written.
    Returned(Value),
    /// It has failed with this.
    Failed(Value),
}

/// What [`enter`] gets.
struct Visit<'v> {
    keys: &'v [&'v [u8]],
    arguments: &'v [&'v [u8]],
}

impl Entry {
    /// The entry to a Lua state, whose function `locate` makes tables of errors.
    pub fn new(lua: &Lua, locate: Function) -> Result<Entry> {
        let mut state = None;
        // SAFETY: the closure has nothing to drop, and calls nothing that raises an error.
        unsafe { lua.exec_raw::<()>((), |it| state = NonNull::new(it)) }?;
        let Some(state) = state else {
            unreachable!("a Lua state lies somewhere")
        };
        // SAFETY: `enter` is a function that Lua may call with what `Entry::call` gives it, and
        // nobody else gets to see it.
        let enter = unsafe { lua.create_c_function(enter) }?;
        Ok(Entry {
            lua: lua.clone(),
            state,
            enter: lua.create_registry_value(enter)?,
            locate: lua.create_registry_value(locate)?,
            place: lua.create_registry_value(true)?,
            bytes: Cell::new(0),
        })
    }

    /// The bytes of memory that the state had taken when the last call ended.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Calls a script or function of this Lua state for `host`. No other may run there.
    pub fn call(
        &self,
        callable: &Callable,
        host: &mut dyn Host,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<Ended> {
        const PLACES: c_int = 5;
        let state = self.state.as_ptr();
        let mut visit = Visit { keys, arguments };
        // SAFETY: `lua` keeps the state alive. What calls this has it for itself: an engine is
        // behind a mutex, and no function that Lua calls has one. So nothing runs in the state,
        // whose stack has the places that are needed, as for any function in C. Nothing that is
        // called outside the protected call raises an error: values come from places of the
        // registry that are there, and numbers and strings are looked at as what they are. `visit`
        // is there until the protected call ends, after which nobody has a pointer to it.
        unsafe {
            let top = ffi::lua_gettop(state);
            if ffi::lua_checkstack(state, PLACES) == 0 {
                return Err(mlua::Error::StackError);
            }
            let push = |key: &RegistryKey| {
                ffi::lua_rawgeti_(state, ffi::LUA_REGISTRYINDEX, key.id());
            };
            push(&self.locate);
            push(&self.enter);
            ffi::lua_pushlightuserdata(state, (&raw mut visit).cast::<c_void>());
            push(&callable.function);
            callable.globals.iter().for_each(push);
            let count = ffi::lua_gettop(state) - top - 2;
            let call = || ffi::lua_pcall(state, count, 1, top + 1);
            let status = lent::lend(host, call);
            let kibibytes = ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0) as usize;
            let bytes = ffi::lua_gc(state, ffi::LUA_GCCOUNTB, 0) as usize;
            self.bytes.set((kibibytes << 10) + bytes);
            if status != ffi::LUA_OK {
                return Ok(Ended::Failed(self.take(top)?));
            }
            match ffi::lua_type(state, -1) {
                ffi::LUA_TSTRING => {
                    let mut length = 0;
                    let bytes = ffi::lua_tolstring(state, -1, &raw mut length);
                    let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), length);
                    host.reply().bulk(bytes);
                }
                ffi::LUA_TNUMBER => {
                    let number = ffi::lua_tonumber(state, -1);
                    host.reply().integer(truncated(number));
                }
                _ => return Ok(Ended::Returned(self.take(top)?)),
            }
            ffi::lua_settop(state, top);
        }
        Ok(Ended::Answered)
    }

    /// Takes off the value on the stack, and all down to `top`.
    ///
    /// # Safety
    /// Nothing runs in the state, and there is a value on its stack.
    unsafe fn take(&self, top: c_int) -> Result<Value> {
        let state = self.state.as_ptr();
        // SAFETY: the caller answers for the state and the value. The place of the registry is
        // there, so that no memory is needed to put something in it.
        unsafe {
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
            ffi::lua_pushboolean(state, 1);
            ffi::lua_rawseti_(state, ffi::LUA_REGISTRYINDEX, self.place.id());
        }
        value
    }
}

/// Called with a [`Visit`], the function, and the globals of a script. Returns what the function
/// returns.
unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
    // SAFETY: nobody but `Entry::call` has this function, whose visit outlives the call. Lua gives
    // a function in C twenty places on the stack, of which this takes seven. An error skips this
    // frame, which has nothing to drop.
    unsafe {
        let visit = &*ffi::lua_touserdata(state, 1).cast::<Visit<'_>>();
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
    // SAFETY: the caller answers for the state, and for two places on the stack.
    unsafe {
        ffi::lua_createtable(state, count, 0);
        for (position, word) in (1..=count).zip(words) {
            push::string(state, word);
            ffi::lua_rawseti_(state, -2, position);
        }
    }
}

//! Calling scripts and functions, with their keys and arguments.
//!
//! A function in C makes the tables, calls what is to run, and writes what that returns unless it
//! is a table. Each of these steps would be a call of its own through `mlua`.

use super::convert::truncated;
use super::host::Host;
use super::{lent, push};
use mlua::ffi::{self, lua_State};
use mlua::{Function, LightUserData, Lua, Result, Table, Value};
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// What calls scripts and functions of a Lua state.
#[derive(Debug)]
pub struct Entry {
    enter: Function,
    /// What the state has taken when the last call ended.
    bytes: Cell<usize>,
}

/// What is called with what.
#[derive(Clone, Copy, Debug)]
pub enum Callee<'c> {
    /// A script, which finds `KEYS` and `ARGV` among these globals.
    Script(&'c Function, &'c Table),
    /// A function of a library.
    Function(&'c Function),
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

/// What [`enter`] gets and leaves.
struct Visit<'v> {
    host: &'v mut dyn Host,
    keys: &'v [&'v [u8]],
    arguments: &'v [&'v [u8]],
    state: State,
    /// What the Lua state takes in the end.
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begun,
    Answered,
    Returned,
    Failed,
}

impl Entry {
    /// The entry to a Lua state, whose function `locate` makes tables of errors.
    pub fn new(lua: &Lua, locate: Function) -> Result<Entry> {
        let close = |state| {
            // SAFETY: `locate` is on the stack, and becomes what is closed over.
            unsafe { ffi::lua_pushcclosure(state, enter, 1) };
        };
        // SAFETY: `close` has nothing to drop, which an error in it would skip.
        let enter = unsafe { lua.exec_raw(locate, close) }?;
        Ok(Entry {
            enter,
            bytes: Cell::new(0),
        })
    }

    /// The bytes of memory that the state had taken when the last call ended.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Calls a script or function for `host`.
    pub fn call(
        &self,
        callee: Callee<'_>,
        host: &mut dyn Host,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<Ended> {
        let mut visit = Visit {
            host,
            keys,
            arguments,
            state: State::Begun,
            bytes: self.bytes.get(),
        };
        let visit_at = LightUserData((&raw mut visit).cast::<c_void>());
        let value = match callee {
            Callee::Script(function, globals) => self.enter.call((visit_at, function, globals)),
            Callee::Function(function) => self.enter.call((visit_at, function)),
        };
        self.bytes.set(visit.bytes);
        let value = value?;
        Ok(match visit.state {
            State::Begun | State::Answered => Ended::Answered,
            State::Returned => Ended::Returned(value),
            State::Failed => Ended::Failed(value),
        })
    }
}

/// Called with a [`Visit`], the function, and the globals of a script. Returns a value unless what
/// was returned is written.
unsafe extern "C-unwind" fn enter(state: *mut lua_State) -> c_int {
    const HANDLER: c_int = 1;
    // SAFETY: nobody but `Entry::call` has this function. Its visit outlives the call, and nobody
    // else uses it meanwhile. Lua gives a function in C twenty places on the stack, of which this
    // takes ten. An error that is raised where memory is lacking skips this frame, which has
    // nothing to drop; none is raised after the protected call, which raises none itself.
    unsafe {
        let visit = ffi::lua_touserdata(state, 1).cast::<Visit<'_>>();
        let visit = &mut *visit;
        let is_script = ffi::lua_gettop(state) > 2;
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_replace(state, HANDLER);
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
        let host = &mut *visit.host;
        let status = lent::lend(host, || ffi::lua_pcall(state, count, 1, HANDLER));
        let kibibytes = ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0) as usize;
        visit.bytes = (kibibytes << 10) + ffi::lua_gc(state, ffi::LUA_GCCOUNTB, 0) as usize;
        if status != ffi::LUA_OK {
            visit.state = State::Failed;
            return 1;
        }
        let reply = visit.host.reply();
        visit.state = State::Answered;
        match ffi::lua_type(state, -1) {
            ffi::LUA_TSTRING => {
                let mut length = 0;
                let bytes = ffi::lua_tolstring(state, -1, &raw mut length);
                reply.bulk(std::slice::from_raw_parts(bytes.cast::<u8>(), length));
            }
            ffi::LUA_TNUMBER => reply.integer(truncated(ffi::lua_tonumber(state, -1))),
            _ => {
                visit.state = State::Returned;
                return 1;
            }
        }
        0
    }
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

//! The functions by which scripts run commands. They are functions in C, as those of `mlua` take
//! longer than most commands for what they are given and what they return.
//!
//! An error of Lua skips the frames up to the protected call. So nothing that is to be dropped may
//! lie in a frame that calls Lua for more than looking at the stack: each function has an inner one
//! that runs the command, calls nothing of that kind, and leaves the answer to this thread.

use super::convert::whole;
use super::engine::{MEMORY_BYTES_MAX, entered_limit};
use super::number::format_general;
use super::{lent, push, raw};
use crate::carried;
use crate::resp::{Protocol, Reply};
use mlua::ffi::{self, lua_State};
use mlua::{Lua, Result, Table};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The text of what only runs within the call of a script.
const NO_HOST: &str = "ERR redis.call/pcall can only be called inside a script invocation";

/// What a script is told whose command has panicked. The panic goes on when the script ends.
const PANICKED: &str = "ERR the command has failed";

/// How much memory is kept for the answer of the next command.
const KEPT_BYTES_MAX: usize = 1 << 16;

/// Longest reply of a command where Lua has all the memory that it may have.
const ANSWER_BYTES_MAX: usize = MEMORY_BYTES_MAX / 2;

/// Error for a reply beyond the limit.
const ANSWER_TOO_LONG: &str = "ERR the answer of the command does not fit into the memory of Lua";

const NO_ANSWER: Reply = Reply::bounded(Protocol::Resp2, ANSWER_BYTES_MAX);

thread_local! {
    /// The answer of the command that has run last.
    static ANSWER: RefCell<Reply> = const { RefCell::new(NO_ANSWER) };
    /// The panic of a command of the script that runs.
    static PANIC: Cell<Option<Box<dyn Any + Send>>> = const { Cell::new(None) };
}

/// Puts the functions by which scripts run commands into the table `redis`. They run on the host
/// that is [lent] at the time.
pub fn add_functions(lua: &Lua, redis: &Table) -> Result<()> {
    let functions: [(&str, ffi::lua_CFunction); 3] =
        [("call", call), ("pcall", pcall), ("acl_check_cmd", check)];
    for (name, function) in functions {
        // SAFETY: these are functions that Lua may call with anything on its stack.
        redis.raw_set(name, unsafe { lua.create_c_function(function) }?)?;
    }
    Ok(())
}

/// To be called when a script has ended: gives back a lot of memory, and goes on with the panic of
/// a command.
pub fn end_script() {
    ANSWER.with_borrow_mut(|answer| {
        if answer.capacity() > KEPT_BYTES_MAX {
            *answer = NO_ANSWER;
        }
    });
    if let Some(panic) = PANIC.take() {
        resume_unwind(panic);
    }
}

/// What became of a command.
#[derive(Clone, Copy)]
enum Ran {
    /// Its answer, in the protocol.
    Answered(*const [u8]),
    /// The text why it did not run.
    Refused(*const [u8]),
    /// It has panicked.
    Panicked,
}

/// `redis.call`: an error is raised.
unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with its state, and no frame of it has anything to drop.
    unsafe {
        raw::look(state);
        let ran = run(state);
        // The words leave their places to what is pushed.
        ffi::lua_settop(state, 0);
        if push_answer(state, ran) {
            ffi::lua_error(state);
        }
    }
    1
}

/// `redis.pcall`: an error is returned.
unsafe extern "C-unwind" fn pcall(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        raw::look(state);
        let ran = run(state);
        ffi::lua_settop(state, 0);
        push_answer(state, ran);
    }
    1
}

/// `redis.acl_check_cmd`: whether the script's user may run a command.
unsafe extern "C-unwind" fn check(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        let may_run = may_run(state);
        match may_run {
            Ok(may_run) => ffi::lua_pushboolean(state, may_run.into()),
            Err(text) => {
                push::field(state, c"err", text.as_bytes());
                ffi::lua_error(state);
            }
        }
    }
    1
}

/// Pushes an answer, or the table of an error, and says whether it is that.
///
/// # Safety
/// As for [`push::answer`].
unsafe fn push_answer(state: *mut lua_State, ran: Ran) -> bool {
    // SAFETY: the caller answers for the state. The bytes are in the thread's answer, which
    // changes when the next command runs: nothing that is called here runs one.
    unsafe {
        match ran {
            Ran::Answered(bytes) => {
                let mut bytes = &*bytes;
                let is_error = bytes.first() == Some(&b'-');
                let is_nothing = matches!(bytes.first(), None | Some(b'_'));
                if is_nothing && !lent::is_typed() {
                    // In RESP3 nothing is nil.
                    ffi::lua_pushboolean(state, 0);
                } else {
                    push::answer(state, &mut bytes);
                }
                is_error
            }
            Ran::Refused(text) => {
                push::field(state, c"err", &*text);
                true
            }
            Ran::Panicked => {
                push::field(state, c"err", PANICKED.as_bytes());
                true
            }
        }
    }
}

/// Runs the command whose words are on the stack.
///
/// # Safety
/// `state` is that of a function that Lua has called.
unsafe fn run(state: *mut lua_State) -> Ran {
    let run = |reply: &mut Reply| {
        reply.truncate(0);
        // The answer and what Lua makes of it are there at once.
        reply.set_bound(entered_limit() / 2);
        reply.set_protocol(match lent::is_typed() {
            true => Protocol::Resp3,
            false => Protocol::Resp2,
        });
        // SAFETY: the caller answers for the state.
        let ran = unsafe { with_words(state, |words| lent::with(|host| host.run(words, reply))) };
        let refused = match ran {
            Ok(Some(Ok(()))) if reply.is_cut() => {
                *reply = NO_ANSWER;
                Some(ANSWER_TOO_LONG.to_owned())
            }
            Ok(Some(Ok(()))) => None,
            Ok(Some(Err(text))) => Some(text),
            Ok(None) => Some(NO_HOST.to_owned()),
            Err(text) => Some(text.to_owned()),
        };
        if let Some(text) = &refused {
            reply.truncate(0);
            reply.raw(&carried::bytes(text));
        }
        let bytes: *const [u8] = reply.bytes();
        match refused {
            None => Ran::Answered(bytes),
            Some(_) => Ran::Refused(bytes),
        }
    };
    // A command of a script runs no other.
    let ran = catch_unwind(AssertUnwindSafe(|| ANSWER.with_borrow_mut(run)));
    ran.unwrap_or_else(|panic| {
        PANIC.set(Some(panic));
        Ran::Panicked
    })
}

/// Whether the script's user may run the command whose words are on the stack.
///
/// # Safety
/// `state` is that of a function that Lua has called.
unsafe fn may_run(state: *mut lua_State) -> std::result::Result<bool, &'static str> {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller answers for the state.
        let may_run = unsafe { with_words(state, |words| lent::with(|host| host.may_run(words))) };
        let known = may_run?.ok_or(NO_HOST)?;
        known.ok_or("ERR Invalid command passed to redis.acl_check_cmd()")
    }));
    asked.unwrap_or_else(|panic| {
        PANIC.set(Some(panic));
        Err(PANICKED)
    })
}

/// Runs `work` on the words on the stack.
///
/// # Safety
/// `state` is that of a function that Lua has called, and `work` leaves its stack alone.
unsafe fn with_words<R>(
    state: *mut lua_State,
    work: impl FnOnce(&[&[u8]]) -> R,
) -> std::result::Result<R, &'static str> {
    // SAFETY: the caller answers for the state. Looking at what is on the stack raises no error.
    let count = unsafe { ffi::lua_gettop(state) };
    if count == 0 {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    // The texts of numbers, one behind the other, and where each ends.
    let (mut digits, mut ends) = (SmallVec::<[u8; 64]>::new(), SmallVec::<[usize; 8]>::new());
    for at in 1..=count {
        // SAFETY: as above.
        match unsafe { ffi::lua_type(state, at) } {
            ffi::LUA_TSTRING => {}
            ffi::LUA_TNUMBER => {
                // SAFETY: as above.
                let number = unsafe { ffi::lua_tonumber(state, at) };
                match whole(number) {
                    Some(number) => {
                        digits.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
                    }
                    None => digits.extend_from_slice(format_general(number, 17).as_bytes()),
                }
                ends.push(digits.len());
            }
            _ => return Err("ERR Lua redis lib command arguments must be strings or integers"),
        }
    }
    let (mut words, mut begin) = (SmallVec::<[&[u8]; 8]>::new(), 0);
    let mut ends = ends.into_iter();
    for at in 1..=count {
        // SAFETY: as above. A string is not converted, so nothing is allocated, and it stays where
        // it is while it is on the stack.
        let string = unsafe {
            match ffi::lua_type(state, at) {
                ffi::LUA_TSTRING => {
                    let mut length = 0;
                    let bytes = ffi::lua_tolstring(state, at, &raw mut length);
                    Some(std::slice::from_raw_parts(bytes.cast::<u8>(), length))
                }
                _ => None,
            }
        };
        words.push(string.unwrap_or_else(|| {
            let end = ends.next().unwrap_or(begin);
            let number = digits.get(begin..end).unwrap_or_default();
            begin = end;
            number
        }));
    }
    Ok(work(&words))
}

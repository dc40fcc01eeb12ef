//! The functions by which scripts run commands. They are functions in C: for arguments and results,
//! those of `mlua` take longer than most commands.
//!
//! An error of Lua skips the frames up to the protected call. A frame that calls Lua for more than
//! reading the stack must therefore hold nothing that needs to be dropped. Each function has an
//! inner function that runs the command, makes no such call, and leaves the reply in a variable of
//! this thread.

use super::convert::whole;
use super::engine::{MEMORY_BYTES_MAX, entered_limit};
use super::number::format_general;
use super::{lent, push, raw};
use crate::carried;
use crate::resp::{Protocol, RespReply};
use mlua::ffi::{self, lua_State};
use mlua::{Lua, Result, Table};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Error for functions that work only within the call of a script.
const NO_HOST: &str = "ERR redis.call/pcall can only be called inside a script invocation";

/// Error for a script after one of its commands has panicked. The panic is resumed when the script
/// ends.
const PANICKED: &str = "ERR the command has failed";

/// Bytes of memory kept for the reply of the next command.
const KEPT_BYTES_MAX: usize = 1 << 16;

/// Longest reply of a command where Lua has all the memory that it may have.
const ANSWER_BYTES_MAX: usize = MEMORY_BYTES_MAX / 2;

/// Error for a reply beyond the limit.
const ANSWER_TOO_LONG: &str = "ERR the reply of the command does not fit into Lua's memory";

const NO_ANSWER: RespReply = RespReply::bounded(Protocol::Resp2, ANSWER_BYTES_MAX);

thread_local! {
    /// The reply of the last command.
    static ANSWER: RefCell<RespReply> = const { RefCell::new(NO_ANSWER) };
    /// The panic of a command of the script that runs.
    static PANIC: Cell<Option<Box<dyn Any + Send>>> = const { Cell::new(None) };
}

/// Puts the functions by which scripts run commands into the table `redis`. They use the host that
/// is [lent] at the time.
pub fn add_functions(lua: &Lua, redis: &Table) -> Result<()> {
    let functions: [(&str, ffi::lua_CFunction); 3] =
        [("call", call), ("pcall", pcall), ("acl_check_cmd", check)];
    for (name, function) in functions {
        // SAFETY: Lua may call these functions with anything on its stack.
        redis.raw_set(name, unsafe { lua.create_c_function(function) }?)?;
    }
    Ok(())
}

/// Gives back large memory, and resumes the panic of a command. Call it when a script has ended.
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

/// The outcome of a command.
#[derive(Clone, Copy)]
enum Ran {
    /// The reply, in the protocol.
    Answered(*const [u8]),
    /// The error text: the reason why it did not run.
    Refused(*const [u8]),
    /// A panic of the command.
    Panicked,
}

/// Runs a command (`redis.call`). An error is raised.
unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with its state, and no frame of it has anything to drop.
    unsafe {
        raw::look(state);
        let ran = run(state);
        // The words make room for the pushed values.
        ffi::lua_settop(state, 0);
        if push_answer(state, ran) {
            ffi::lua_error(state);
        }
    }
    1
}

/// Runs a command (`redis.pcall`). An error is returned.
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

/// Returns whether the script's user may run a command (`redis.acl_check_cmd`).
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

/// Pushes a reply or the table of an error. Returns true if it is an error.
///
/// # Safety
/// As for [`push::answer`].
unsafe fn push_answer(state: *mut lua_State, ran: Ran) -> bool {
    // SAFETY: the caller vouches for the state. The bytes are in the thread's reply, which changes
    // when the next command runs: nothing that is called here runs one.
    unsafe {
        match ran {
            Ran::Answered(bytes) => {
                let mut bytes = &*bytes;
                let is_error = bytes.first() == Some(&b'-');
                let is_nothing = matches!(bytes.first(), None | Some(b'_'));
                if is_nothing && !lent::is_typed() {
                    // In RESP3, null becomes nil, not false.
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

/// Runs the command with the words on the stack.
///
/// # Safety
/// `state` is that of a function that Lua has called.
unsafe fn run(state: *mut lua_State) -> Ran {
    let run = |reply: &mut RespReply| {
        debug_assert_eq!(reply.apart_bytes(), 0, "the script would not get them");
        reply.truncate(0);
        // The reply and the Lua value made of it exist at the same time.
        reply.set_bound(entered_limit() / 2);
        reply.set_protocol(match lent::is_typed() {
            true => Protocol::Resp3,
            false => Protocol::Resp2,
        });
        // SAFETY: the caller vouches for the state.
        let ran = unsafe { with_words(state, |words| lent::with(|host| host.run(words, reply))) };
        let refused = match ran {
            Ok(Some(Ok(()))) if reply.is_cut() => {
                // A reply that was cut takes no more bytes, not even after it is emptied.
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
    // A command of a script runs no other command.
    let ran = catch_unwind(AssertUnwindSafe(|| ANSWER.with_borrow_mut(run)));
    ran.unwrap_or_else(|panic| {
        PANIC.set(Some(panic));
        Ran::Panicked
    })
}

/// Returns whether the script's user may run the command with the words on the stack.
///
/// # Safety
/// `state` is that of a function that Lua has called.
unsafe fn may_run(state: *mut lua_State) -> std::result::Result<bool, &'static str> {
    let asked = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller vouches for the state.
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
    // SAFETY: the caller vouches for the state. Reading the types of values on the stack raises no
    // error.
    let count = unsafe { ffi::lua_gettop(state) };
    if count == 0 {
        return Err("ERR Please specify at least one argument for this redis lib call");
    }
    // The texts of numbers, one after the other, and the end of each.
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
    // In a second pass, because words refer to `digits`, which grows in the first one.
    let (mut words, mut begin) = (SmallVec::<[&[u8]; 8]>::new(), 0);
    let mut ends = ends.into_iter();
    for at in 1..=count {
        // SAFETY: as above. A string is not converted, so nothing is allocated. It does not move
        // while it is on the stack.
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
    debug_assert_eq!(words.len(), count as usize);
    debug_assert_eq!(begin, digits.len(), "each number has its own text");
    Ok(work(&words))
}

//! The functions of the library `string` that match patterns or make long strings. Those of the
//! interpreter recurse without a bound and cannot be interrupted.
//!
//! They are functions in C (see [`commands`](super::commands)). An error of Lua skips their frames,
//! so nothing in these may need to be dropped.

use super::pattern::{PatternCapture, PatternFault, PatternMatcher};
use super::raw::{self, BYTES_UNTIL_LOOK, GrowingBlock};
use super::{engine::MEMORY_BYTES_MAX, push};
use memchr::memmem;
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// Bytes that have a meaning in patterns.
const SPECIALS: &[u8] = b"^$*+?.([%-";

const ESCAPE: u8 = b'%';

/// Largest number of bytes of a repeated text that is made outside of Lua's memory.
const SHORT_BYTES: usize = 1024;

/// The functions by their names.
pub const FUNCTIONS: [(&str, ffi::lua_CFunction); 6] = [
    ("find", find),
    ("match", match_captures),
    ("gmatch", gmatch),
    ("gfind", gmatch),
    ("gsub", gsub),
    ("rep", rep),
];

/// Raises the error of a wrong pattern, or the verdict.
///
/// # Safety
/// As for [`push::answer`].
unsafe fn raise(state: *mut lua_State, fault: PatternFault) -> ! {
    // SAFETY: the caller vouches for the state. Neither call returns.
    unsafe {
        match fault {
            PatternFault::Over(reason) => raw::raise_end(state, reason),
            PatternFault::Wrong(text) => {
                ffi::luaL_error(state, c"%s".as_ptr(), text.as_ptr());
                unreachable!("an error does not return")
            }
        }
    }
}

/// Matches at one position, and returns the end.
///
/// # Safety
/// As for [`push::answer`].
unsafe fn run(state: *mut lua_State, matcher: &mut PatternMatcher<'_>, at: usize) -> Option<usize> {
    match matcher.run(at) {
        Ok(end) => end,
        // SAFETY: the caller vouches for the state.
        Err(fault) => unsafe { raise(state, fault) },
    }
}

/// Converts a position that counts from 1, or from the end if it is negative, to an offset from 0.
fn offset(place: i64, length: usize) -> usize {
    let place = match place {
        ..0 => place
            .saturating_add_unsigned(length as u64)
            .saturating_add(1),
        place => place,
    };
    usize::try_from(place.saturating_sub(1))
        .unwrap_or(0)
        .min(length)
}

unsafe extern "C-unwind" fn find(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with its state, and no frame of it has anything to drop.
    unsafe { search(state, true) }
}

unsafe extern "C-unwind" fn match_captures(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe { search(state, false) }
}

/// Implements `string.find` and `string.match`.
///
/// # Safety
/// As for [`push::answer`].
unsafe fn search(state: *mut lua_State, finds: bool) -> c_int {
    // SAFETY: the caller vouches for the state, and the strings do not move.
    unsafe {
        let (subject, pattern) = (raw::string(state, 1), raw::string(state, 2));
        let mut at = offset(raw::integer(state, 3, 1), subject.len());
        if finds && (ffi::lua_toboolean(state, 4) != 0 || is_plain(pattern)) {
            let rest = subject.get(at..).unwrap_or_default();
            let found = memmem::find(rest, pattern);
            if subject.len() > BYTES_UNTIL_LOOK {
                raw::look(state);
            }
            let Some(found) = found else {
                ffi::lua_pushnil(state);
                return 1;
            };
            push_number(state, at + found + 1);
            push_number(state, at + found + pattern.len());
            return 2;
        }
        let mut matcher = PatternMatcher::new(subject, pattern);
        let is_anchored = matcher.take_anchor();
        loop {
            if let Some(end) = run(state, &mut matcher, at) {
                if !finds {
                    return push_captures(state, &matcher, subject, Some((at, end)));
                }
                push_number(state, at + 1);
                push_number(state, end);
                return 2 + push_captures(state, &matcher, subject, None);
            }
            at += 1;
            if is_anchored || at > subject.len() {
                ffi::lua_pushnil(state);
                return 1;
            }
        }
    }
}

/// Returns true if a pattern is plain text, up to the end that it has as a C string.
fn is_plain(pattern: &[u8]) -> bool {
    let mut bytes = pattern.iter().take_while(|byte| **byte != 0);
    !bytes.any(|byte| SPECIALS.contains(byte))
}

/// # Safety
/// As for [`push::answer`].
unsafe fn push_number(state: *mut lua_State, number: usize) {
    // SAFETY: the caller vouches for the state and a place on the stack.
    unsafe { ffi::lua_pushnumber(state, number as f64) }
}

/// Pushes all captures, or the whole match if there are none and it is given. Returns their number.
///
/// # Safety
/// As for [`push::answer`].
unsafe fn push_captures(
    state: *mut lua_State,
    matcher: &PatternMatcher<'_>,
    subject: &[u8],
    whole: Option<(usize, usize)>,
) -> c_int {
    let captures = matcher.captures();
    let count = match captures {
        [] => c_int::from(whole.is_some()),
        captures => captures.len() as c_int,
    };
    // SAFETY: the caller vouches for the state.
    unsafe {
        ffi::luaL_checkstack(state, count, c"too many captures".as_ptr());
        if let ([], Some((start, end))) = (captures, whole) {
            push::string(state, subject.get(start..end).unwrap_or_default());
        }
        for capture in captures {
            push_capture(state, subject, *capture);
        }
    }
    count
}

/// # Safety
/// As for [`push::answer`].
unsafe fn push_capture(state: *mut lua_State, subject: &[u8], capture: PatternCapture) {
    // SAFETY: the caller vouches for the state and a place on the stack.
    unsafe {
        match capture {
            PatternCapture::Open(_) => raise(state, PatternFault::Wrong(c"unfinished capture")),
            PatternCapture::Place(at) => push_number(state, at + 1),
            PatternCapture::Span(start, end) => {
                debug_assert!(start <= end && end <= subject.len());
                push::string(state, subject.get(start..end).unwrap_or_default());
            }
        }
    }
}

unsafe extern "C-unwind" fn gmatch(state: *mut lua_State) -> c_int {
    // SAFETY: as above.
    unsafe {
        raw::string(state, 1);
        raw::string(state, 2);
        ffi::lua_settop(state, 2);
        ffi::lua_pushnumber(state, 0.0);
        ffi::lua_pushcclosure(state, gmatch_step, 3);
    }
    1
}

/// Runs one step of `string.gmatch`, with the subject, the pattern and the offset at which to
/// continue.
unsafe extern "C-unwind" fn gmatch_step(state: *mut lua_State) -> c_int {
    // SAFETY: as above. `gmatch` has left two strings and a number, which scripts cannot change.
    unsafe {
        debug_assert_eq!(
            ffi::lua_type(state, ffi::lua_upvalueindex(3)),
            ffi::LUA_TNUMBER,
            "the offset is kept with the function"
        );
        let subject = raw::string(state, ffi::lua_upvalueindex(1));
        let pattern = raw::string(state, ffi::lua_upvalueindex(2));
        let from = ffi::lua_tonumber(state, ffi::lua_upvalueindex(3)) as usize;
        let mut matcher = PatternMatcher::new(subject, pattern);
        for at in from..=subject.len() {
            if let Some(end) = run(state, &mut matcher, at) {
                // After an empty match it continues at the next position.
                push_number(state, end + usize::from(end == at));
                ffi::lua_replace(state, ffi::lua_upvalueindex(3));
                return push_captures(state, &matcher, subject, Some((at, end)));
            }
        }
        0
    }
}

unsafe extern "C-unwind" fn gsub(state: *mut lua_State) -> c_int {
    const REPLACEMENT: c_int = 3;
    // SAFETY: as above. The strings do not move.
    unsafe {
        let (subject, pattern) = (raw::string(state, 1), raw::string(state, 2));
        let kind = ffi::lua_type(state, REPLACEMENT);
        let count_max = raw::integer(state, 4, i64::MAX);
        if !matches!(
            kind,
            ffi::LUA_TNUMBER | ffi::LUA_TSTRING | ffi::LUA_TFUNCTION | ffi::LUA_TTABLE
        ) {
            let text = c"string/function/table expected";
            ffi::luaL_argerror(state, REPLACEMENT, text.as_ptr());
        }
        ffi::lua_settop(state, REPLACEMENT);
        let mut matcher = PatternMatcher::new(subject, pattern);
        let is_anchored = matcher.take_anchor();
        let mut block = GrowingBlock::push(state, subject.len().min(BYTES_UNTIL_LOOK));
        let (mut at, mut kept, mut count) = (0, 0, 0);
        while count < count_max {
            debug_assert!(kept <= at && at <= subject.len());
            let end = run(state, &mut matcher, at);
            if let Some(end) = end {
                count += 1;
                block.append(state, subject.get(kept..at).unwrap_or_default());
                kept = end;
                let matched = (at, end);
                match kind {
                    ffi::LUA_TFUNCTION | ffi::LUA_TTABLE => {
                        replace_by_value(state, &mut block, &matcher, subject, matched);
                    }
                    _ => replace_by_text(state, &mut block, &matcher, subject, matched),
                }
            }
            match end {
                Some(end) if end > at => at = end,
                _ if at < subject.len() => at += 1,
                _ => break,
            }
            if is_anchored {
                break;
            }
        }
        block.append(state, subject.get(kept..).unwrap_or_default());
        block.push_string(state);
        ffi::lua_pushnumber(state, count as f64);
    }
    2
}

/// Appends the replacement of a match: a text that may refer to captures.
///
/// # Safety
/// As for [`push::answer`].
unsafe fn replace_by_text(
    state: *mut lua_State,
    block: &mut GrowingBlock,
    matcher: &PatternMatcher<'_>,
    subject: &[u8],
    (start, end): (usize, usize),
) {
    // SAFETY: the caller vouches for the state. The text does not move.
    unsafe {
        let mut rest = raw::string(state, 3);
        while let Some(escape) = memchr::memchr(ESCAPE, rest) {
            block.append(state, rest.get(..escape).unwrap_or_default());
            // A C string has a 0 after its end.
            let digit = rest.get(escape + 1).copied().unwrap_or(0);
            rest = rest.get(escape + 2..).unwrap_or_default();
            let whole = subject.get(start..end).unwrap_or_default();
            match digit {
                b'0' => block.append(state, whole),
                b'1'..=b'9' => match matcher.captures().get(usize::from(digit - b'1')) {
                    Some(capture) => {
                        push_capture(state, subject, *capture);
                        block.append(state, raw::string(state, -1));
                        ffi::lua_pop(state, 1);
                    }
                    None if digit == b'1' => block.append(state, whole),
                    None => raise(state, PatternFault::Wrong(c"invalid capture index")),
                },
                byte => block.append(state, &[byte]),
            }
        }
        block.append(state, rest);
    }
}

/// Appends the replacement of a match, which a function returns or a table contains.
///
/// # Safety
/// As for [`push::answer`].
unsafe fn replace_by_value(
    state: *mut lua_State,
    block: &mut GrowingBlock,
    matcher: &PatternMatcher<'_>,
    subject: &[u8],
    (start, end): (usize, usize),
) {
    let whole = subject.get(start..end).unwrap_or_default();
    // SAFETY: the caller vouches for the state.
    unsafe {
        if ffi::lua_type(state, 3) == ffi::LUA_TFUNCTION {
            ffi::lua_pushvalue(state, 3);
            let count = push_captures(state, matcher, subject, Some((start, end)));
            ffi::lua_call(state, count, 1);
        } else {
            match matcher.captures().first() {
                Some(capture) => push_capture(state, subject, *capture),
                None => push::string(state, whole),
            }
            ffi::lua_gettable_(state, 3);
        }
        if ffi::lua_toboolean(state, -1) == 0 {
            block.append(state, whole);
        } else if ffi::lua_isstring(state, -1) != 0 {
            block.append(state, raw::string(state, -1));
        } else {
            let name = ffi::luaL_typename(state, -1);
            let text = c"invalid replacement value (a %s)";
            ffi::luaL_error(state, text.as_ptr(), name);
        }
        ffi::lua_pop(state, 1);
    }
}

unsafe extern "C-unwind" fn rep(state: *mut lua_State) -> c_int {
    // SAFETY: as above. The string does not move.
    unsafe {
        let text = raw::string(state, 1);
        ffi::luaL_checknumber(state, 2);
        let count = usize::try_from(raw::integer(state, 2, 0)).unwrap_or(0);
        let length = text.len().saturating_mul(count);
        if length > MEMORY_BYTES_MAX {
            let text = c"resulting string too large";
            raise(state, PatternFault::Wrong(text));
        }
        if length <= SHORT_BYTES {
            let mut short = [0; SHORT_BYTES];
            let filled = short.get_mut(..length).unwrap_or_default();
            if !text.is_empty() {
                filled
                    .chunks_mut(text.len())
                    .for_each(|it| it.copy_from_slice(text));
            }
            push::string(state, filled);
            return 1;
        }
        debug_assert!(!text.is_empty() && count > 0, "a short result was returned");
        let mut block = GrowingBlock::push(state, length);
        // A text of one byte would be copied byte by byte, so a longer unit is made first.
        let mut whole = GrowingBlock::push(state, BYTES_UNTIL_LOOK);
        for _ in 0..(BYTES_UNTIL_LOOK / text.len()).clamp(1, count) {
            whole.append(state, text);
        }
        whole.push_string(state);
        let unit = raw::string(state, -1);
        let mut left = length;
        while left > 0 {
            let part = unit.get(..left.min(unit.len())).unwrap_or_default();
            block.append(state, part);
            left -= part.len();
        }
        if length > BYTES_UNTIL_LOOK {
            raw::look(state);
        }
        block.push_string(state);
    }
    1
}

//! Steps shared by functions in C that get their arguments from Lua's stack.

use super::{guard, push};
use mlua::ffi::{self, lua_State};
use std::ffi::c_int;

/// Largest number of bytes that a function reads between two checks of the verdict.
pub const BYTES_UNTIL_LOOK: usize = 1 << 16;

/// Number of stack slots that the table of an error needs.
const PLACES: c_int = 4;

/// Raises an error if the script must end.
///
/// # Safety
/// As for [`push::answer`].
pub unsafe fn look(state: *mut lua_State) {
    if let Some(reason) = guard::verdict() {
        // SAFETY: the caller vouches for the state, and for frames without anything to drop.
        unsafe { raise_end(state, reason) }
    }
}

/// Raises the error of a script that must end for this reason.
///
/// # Safety
/// As for [`push::answer`].
pub unsafe fn raise_end(state: *mut lua_State, reason: &'static str) -> ! {
    // SAFETY: the caller vouches for the state, and for frames without anything to drop.
    unsafe {
        ffi::luaL_checkstack(state, PLACES, c"no place for an error".as_ptr());
        push::field(state, c"err", reason.as_bytes());
        ffi::lua_error(state)
    }
}

/// Returns the bytes of an argument, which is converted to a string if it is a number.
///
/// # Safety
/// As for [`push::answer`]. The bytes are valid while the argument is on the stack.
pub unsafe fn string<'s>(state: *mut lua_State, position: c_int) -> &'s [u8] {
    let mut length = 0;
    // SAFETY: the caller vouches for the state, and for how long the bytes are used.
    unsafe {
        let bytes = ffi::luaL_checklstring(state, position, &raw mut length);
        debug_assert!(!bytes.is_null(), "an error would have been raised");
        std::slice::from_raw_parts(bytes.cast::<u8>(), length)
    }
}

/// Returns an argument as an integer, or `default` if it is absent.
///
/// # Safety
/// As for [`push::answer`].
pub unsafe fn integer(state: *mut lua_State, position: c_int, default: i64) -> i64 {
    // SAFETY: the caller vouches for the state.
    unsafe {
        if ffi::lua_isnoneornil(state, position) != 0 {
            return default;
        }
        // Numbers beyond the range of integers become the nearest one.
        ffi::luaL_checknumber(state, position) as i64
    }
}

/// A buffer that grows in a block of Lua's memory. Its bytes thus count towards Lua's limit, and
/// nothing must be dropped when an error skips frames.
pub struct GrowingBlock {
    /// Stack index of the block.
    slot: c_int,
    bytes: *mut u8,
    length: usize,
    capacity: usize,
}

impl GrowingBlock {
    /// Pushes an empty block with room for `capacity` bytes.
    ///
    /// # Safety
    /// As for [`push::answer`]. The pushed value stays on the stack while this is used.
    pub unsafe fn push(state: *mut lua_State, capacity: usize) -> GrowingBlock {
        // SAFETY: the caller vouches for the state. Lua has checked the stack's place.
        unsafe {
            let bytes = ffi::lua_newuserdata(state, capacity).cast();
            GrowingBlock {
                slot: ffi::lua_gettop(state),
                bytes,
                length: 0,
                capacity,
            }
        }
    }

    /// Returns the same block, which was moved on the stack.
    pub fn at(self, slot: c_int) -> GrowingBlock {
        GrowingBlock { slot, ..self }
    }

    /// Appends bytes, which are not in the block.
    ///
    /// # Safety
    /// As for [`push::answer`], with the state of [`push`](GrowingBlock::push).
    pub unsafe fn append(&mut self, state: *mut lua_State, bytes: &[u8]) {
        // SAFETY: the caller vouches for the state and for the block's place on the stack. The
        // block has `capacity` bytes, of which `length` are written. A larger block is a new one,
        // so that neither copy overlaps.
        unsafe {
            debug_assert_eq!(
                ffi::lua_touserdata(state, self.slot).cast::<u8>(),
                self.bytes,
                "the block has left its place"
            );
            debug_assert!(!self.contains(bytes), "the copies would overlap");
            let length = self.length + bytes.len();
            if length > self.capacity {
                // Doubling bounds the bytes that are copied while the text grows.
                let capacity = length.max(2 * self.capacity);
                let larger = ffi::lua_newuserdata(state, capacity).cast::<u8>();
                std::ptr::copy_nonoverlapping(self.bytes, larger, self.length);
                ffi::lua_replace(state, self.slot);
                (self.bytes, self.capacity) = (larger, capacity);
            }
            let end = self.bytes.add(self.length);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), end, bytes.len());
            self.length = length;
        }
    }

    /// Returns true if `bytes` begin in the block.
    fn contains(&self, bytes: &[u8]) -> bool {
        let end = self.bytes.wrapping_add(self.capacity);
        (self.bytes..end).contains(&bytes.as_ptr().cast_mut())
    }

    /// Pushes the bytes as a string.
    ///
    /// # Safety
    /// As for [`append`](GrowingBlock::append).
    pub unsafe fn push_string(&self, state: *mut lua_State) {
        // SAFETY: `length` bytes of the block are written, and the block is on the stack.
        unsafe {
            debug_assert!(self.length <= self.capacity);
            push::string(state, std::slice::from_raw_parts(self.bytes, self.length));
        }
    }
}

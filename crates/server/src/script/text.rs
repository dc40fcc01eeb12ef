//! The bytes that native code makes for a script outside of Lua's memory.

use super::engine::entered_limit;
use super::failure::look;
use super::raw::BYTES_UNTIL_LOOK;
use mlua::{Error, Lua, Result};

/// A buffer that grows only as far as Lua's memory has room for it, and checks the verdict
/// meanwhile.
#[derive(Debug)]
pub struct GrowingText {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// Bytes requested since the last check.
    passed: usize,
}

impl GrowingText {
    /// Creates a buffer for a string of this Lua state. It may take half of the free memory,
    /// because in the end the buffer and the string exist at once.
    pub fn new(lua: &Lua) -> GrowingText {
        GrowingText {
            bytes: Vec::new(),
            bytes_max: entered_limit().saturating_sub(lua.used_memory()) / 2,
            passed: 0,
        }
    }

    /// Returns the buffer, to which `bytes` bytes and the few of a number may be appended.
    ///
    /// # Errors
    /// There is no memory, or the script must end.
    pub fn room(&mut self, bytes: usize) -> Result<&mut Vec<u8>> {
        self.passed += bytes + 1;
        if self.passed > BYTES_UNTIL_LOOK {
            self.passed = 0;
            look()?;
        }
        if self.bytes.len().saturating_add(bytes) > self.bytes_max {
            return Err(Error::MemoryError("not enough memory".to_owned()));
        }
        Ok(&mut self.bytes)
    }

    /// Returns the bytes.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

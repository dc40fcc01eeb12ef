//! Making values in Lua without looking at the limit of memory for each.

use mlua::Lua;

/// What all scripts together may hold in memory. Redis has no limit, so that a script may end the
/// server; here it ends itself.
pub const MEMORY_BYTES_MAX: usize = 1 << 30;

/// How many bytes a value may take in Lua for each of its bytes in the protocol, at most: three
/// make a table with a field, in a table that doubles as it grows.
const BYTES_EACH: usize = 128;

/// What is made besides.
const BYTES_BESIDES: usize = 1 << 16;

/// Sets the limit again, also while a panic unwinds.
struct Restore<'l>(&'l Lua, usize);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        // It fails for states with an allocator of their own, which had no limit to take away.
        let _ = self.0.set_memory_limit(self.1);
    }
}

/// How much the values of this number of bytes take, at most.
fn needed(bytes: usize) -> usize {
    let values = bytes.saturating_mul(BYTES_EACH);
    values.saturating_add(BYTES_BESIDES)
}

/// Runs `work`, which makes values of `bytes` bytes in Lua and calls nothing there. Below a
/// limit of memory each value is made in a protected call, which takes several times as long as the
/// value. Where all of them have room there is no limit meanwhile.
pub fn with_room<R>(lua: &Lua, bytes: usize, work: impl FnOnce() -> R) -> R {
    if lua.used_memory().saturating_add(needed(bytes)) > MEMORY_BYTES_MAX {
        return work();
    }
    let _restore = lua.set_memory_limit(0).map(|limit| Restore(lua, limit));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::convert;

    #[test]
    fn there_is_a_limit_where_there_is_no_room() {
        let lua = Lua::new();
        lua.set_memory_limit(MEMORY_BYTES_MAX).unwrap();
        let limit = || {
            let limit = lua.set_memory_limit(MEMORY_BYTES_MAX);
            limit.unwrap()
        };
        assert_eq!(with_room(&lua, 1 << 10, limit), 0);
        assert_eq!(limit(), MEMORY_BYTES_MAX);
        assert_eq!(with_room(&lua, 1 << 30, limit), MEMORY_BYTES_MAX);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            with_room(&lua, 0, || panic!("of the work"));
        }));
        assert!(caught.is_err());
        assert_eq!(limit(), MEMORY_BYTES_MAX);
    }

    #[test]
    fn values_take_no_more_than_is_thought() {
        let lua = Lua::new();
        lua.gc_stop();
        for element in [
            "+\r\n", "*0\r\n", ":1\r\n", "%0\r\n", "~0\r\n", ",1\r\n", "_\r\n",
        ] {
            for count in [1, 10, 1025] {
                let reply = format!("*{count}\r\n{}", element.repeat(count));
                let before = lua.used_memory();
                let value = convert::to_lua(&lua, &mut reply.as_bytes()).unwrap();
                let taken = lua.used_memory() - before;
                assert!(
                    taken > 0 && taken < needed(reply.len()),
                    "{element} {taken}"
                );
                drop(value);
            }
        }
    }
}

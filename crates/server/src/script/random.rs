//! The random numbers of scripts. They are the same after each start of the server, as in Redis.
//! The generator is `lrand48` of POSIX.

use super::arguments::LuaArguments;
use mlua::{Lua, MultiValue, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// A generator of random numbers.
#[derive(Debug)]
pub struct ScriptRandom(u64);

impl Default for ScriptRandom {
    fn default() -> Self {
        ScriptRandom(0x1234_abcd_330e)
    }
}

impl ScriptRandom {
    fn seeded(seed: i32) -> ScriptRandom {
        ScriptRandom(u64::from(seed as u32) << 16 | 0x330e)
    }

    /// Returns the next number, at least 0 and less than 1.
    fn next(&mut self) -> f64 {
        const MODULUS: f64 = i32::MAX as f64;
        let next = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb);
        self.0 = next & ((1 << 48) - 1);
        let bits = (self.0 >> 17) as u32 as i32;
        debug_assert!(bits >= 0, "31 of 48 bits are left");
        // Redis takes the remainder, too, so that scripts draw the same numbers.
        f64::from(bits % i32::MAX) / MODULUS
    }
}

/// Creates the functions `math.random` and `math.randomseed`.
pub fn functions(
    lua: &Lua,
    random: &Arc<Mutex<ScriptRandom>>,
) -> Result<(mlua::Function, mlua::Function)> {
    let shared = Arc::clone(random);
    let draw = lua.create_function(move |lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, "random", values);
        // Wrong arguments use up a number as well, as in Redis.
        let drawn = shared.lock().next();
        let (from, to) = match arguments.len() {
            0 => return Ok(drawn),
            1 => (1.0, arguments.number(1)?.trunc()),
            2 => (arguments.number(1)?.trunc(), arguments.number(2)?.trunc()),
            _ => return Err(super::failure::raise(lua, "wrong number of arguments")),
        };
        if from > to {
            return Err(arguments.bad(arguments.len(), "interval is empty"));
        }
        Ok((drawn * (to - from + 1.0)).floor() + from)
    })?;
    let shared = Arc::clone(random);
    let seed = lua.create_function(move |lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, "randomseed", values);
        let seed = arguments.number(1)? as i64 as i32;
        *shared.lock() = ScriptRandom::seeded(seed);
        Ok(())
    })?;
    Ok((draw, seed))
}

//! The library `bit`: arithmetic on the bits of integers of 32 bits.

use super::arguments::LuaArguments;
use mlua::{Lua, MultiValue, Result, Table};

/// Converts a number to an integer of 32 bits: rounds it and drops the higher bits.
fn truncated(number: f64) -> i32 {
    const RANGE: f64 = 4_294_967_296.0;
    // The remainder comes first: the conversion saturates beyond 64 bits.
    (number.round_ties_even() % RANGE) as i64 as i32
}

/// Creates the library.
pub fn library(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    unary(lua, &table, "tobit", |bits| bits)?;
    unary(lua, &table, "bnot", |bits| !bits)?;
    unary(lua, &table, "bswap", i32::swap_bytes)?;
    folded(lua, &table, "band", |a, b| a & b)?;
    folded(lua, &table, "bor", |a, b| a | b)?;
    folded(lua, &table, "bxor", |a, b| a ^ b)?;
    shift(lua, &table, "lshift", i32::wrapping_shl)?;
    shift(lua, &table, "rshift", |bits, by| {
        (bits as u32).wrapping_shr(by) as i32
    })?;
    shift(lua, &table, "arshift", i32::wrapping_shr)?;
    shift(lua, &table, "rol", i32::rotate_left)?;
    shift(lua, &table, "ror", i32::rotate_right)?;
    let tohex = lua.create_function(|lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, "tohex", values);
        let bits = truncated(arguments.number(1)?);
        let digits = match arguments.get(2) {
            Some(_) => truncated(arguments.number(2)?),
            None => 8,
        };
        let text = if digits < 0 {
            format!("{bits:08X}")
        } else {
            format!("{bits:08x}")
        };
        debug_assert_eq!(text.len(), 8, "negative numbers have as many digits");
        let count = (digits.unsigned_abs() as usize).min(8);
        Ok(text.get(8 - count..).unwrap_or_default().to_owned())
    })?;
    table.raw_set("tohex", tohex)?;
    Ok(table)
}

fn unary(lua: &Lua, table: &Table, name: &'static str, apply: fn(i32) -> i32) -> Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, name, values);
        Ok(apply(truncated(arguments.number(1)?)))
    })?;
    table.raw_set(name, function)
}

fn folded(lua: &Lua, table: &Table, name: &'static str, apply: fn(i32, i32) -> i32) -> Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, name, values);
        let mut bits = truncated(arguments.number(1)?);
        for position in 2..=arguments.len() {
            bits = apply(bits, truncated(arguments.number(position)?));
        }
        Ok(bits)
    })?;
    table.raw_set(name, function)
}

fn shift(lua: &Lua, table: &Table, name: &'static str, apply: fn(i32, u32) -> i32) -> Result<()> {
    let function = lua.create_function(move |lua, values: MultiValue| {
        let arguments = LuaArguments::new(lua, name, values);
        let bits = truncated(arguments.number(1)?);
        let by = truncated(arguments.number(2)?) as u32 & 31;
        Ok(apply(bits, by))
    })?;
    table.raw_set(name, function)
}

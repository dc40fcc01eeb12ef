//! `PFDEBUG`: the form of a HyperLogLog, for tests.

use super::registers::REGISTERS;
use super::value::{self, HyperLogLogForm};
use super::{Answer, CommandCall, is, sparse};
use crate::error::{CommandError, shown};
use crate::keyspace::KeyView;
use std::fmt::Write;

pub(super) fn pfdebug(call: &mut CommandCall<'_>) -> Answer {
    let (subcommand, key) = (call.args[1], call.args[2]);
    let value = call.keys.string(key)?;
    let value = value.ok_or(CommandError::text("ERR The specified key does not exist"))?;
    let form = value::form(&value)?;
    let run = match subcommand {
        word if is(word, "getreg") => registers,
        word if is(word, "decode") => runs,
        word if is(word, "encoding") => name_form,
        word if is(word, "todense") => make_dense,
        other => {
            let other = shown(other);
            let why = format!("ERR Unknown PFDEBUG subcommand '{other}'");
            return Err(CommandError::owned(why));
        }
    };
    run(call, value, form)
}

/// Replies with the registers, and converts the value to the dense form.
fn registers(call: &mut CommandCall<'_>, mut value: Vec<u8>, form: HyperLogLogForm) -> Answer {
    let mut registers = [0; REGISTERS];
    value::merge(&value, form, &mut registers)?;
    // As in Redis, even a look at the registers converts the value.
    if form == HyperLogLogForm::Sparse {
        store_dense(call, &mut value)?;
    }
    call.reply.array(registers.len());
    for rank in registers {
        call.reply.integer(i64::from(rank));
    }
    Ok(())
}

/// Replies with the runs of a sparse form: `z` and `Z` for empty registers, in one byte and in two,
/// and `v` for registers with a rank.
fn runs(call: &mut CommandCall<'_>, value: Vec<u8>, form: HyperLogLogForm) -> Answer {
    if form != HyperLogLogForm::Sparse {
        return Err(CommandError::text("ERR HLL encoding is not sparse"));
    }
    let mut text = String::new();
    // A HyperLogLog never has more runs than registers.
    for (run, bytes) in sparse::parse(value::body(&value)).take(REGISTERS) {
        let between = if text.is_empty() { "" } else { " " };
        // Writing to a string never fails.
        let _ = match (run.rank, bytes) {
            (0, 1) => write!(text, "{between}z:{}", run.length),
            (0, _) => write!(text, "{between}Z:{}", run.length),
            (rank, _) => write!(text, "{between}v:{rank},{}", run.length),
        };
    }
    call.reply.bulk(text.as_bytes());
    Ok(())
}

fn name_form(call: &mut CommandCall<'_>, _: Vec<u8>, form: HyperLogLogForm) -> Answer {
    call.reply.simple(match form {
        HyperLogLogForm::Dense => "dense",
        HyperLogLogForm::Sparse => "sparse",
    });
    Ok(())
}

fn make_dense(call: &mut CommandCall<'_>, mut value: Vec<u8>, form: HyperLogLogForm) -> Answer {
    if form == HyperLogLogForm::Sparse {
        store_dense(call, &mut value)?;
    }
    call.reply
        .integer(i64::from(form == HyperLogLogForm::Sparse));
    Ok(())
}

/// Stores the dense form. As in Redis, clients that watch the key are not notified.
fn store_dense(call: &mut CommandCall<'_>, value: &mut Vec<u8>) -> Answer {
    let key = call.args[2];
    value::make_dense(value)?;
    // A change of the form keeps the expiry, which setting a string would remove.
    let expires_at_ms = call.keys.read_string_and_expiry(key, |_, expiry| expiry)?;
    call.keys.set_string(key, value, expires_at_ms)?;
    call.keys.effects().changes += 1;
    Ok(())
}

//! Keys of any type.

use super::{Answer, Call, Command, Flags, Group};
use crate::keyspace::Class;

/// The family's rows of the command table.
pub const COMMANDS: &[Command] = &[
    Command::new("del", -2, del)
        .writes()
        .keys_at(1, -1, 1)
        .about(
            Group::Generic,
            "1.0.0",
            "O(N log M) for N keys of M",
            "Deletes one or more keys.",
        ),
    Command::new("dbsize", 1, dbsize).reads().fast().about(
        Group::Server,
        "1.0.0",
        "O(1)",
        "Returns the number of keys in the database.",
    ),
    Command::new("flushall", -1, flushall)
        .writes()
        .flag(Flags::EXCLUSIVE)
        .about(
            Group::Server,
            "1.0.0",
            "O(N) for N keys",
            "Removes all keys from all databases.",
        ),
];

fn del(call: &mut Call<'_>) -> Answer {
    let mut count = 0;
    for key in call.rest(1) {
        if call.keys.remove(key)? {
            call.keys.changed(key, Class::Generic, "del");
            count += 1;
        }
    }
    call.reply.integer(count);
    Ok(())
}

fn dbsize(call: &mut Call<'_>) -> Answer {
    call.reply.count(call.keys.database().len());
    Ok(())
}

fn flushall(call: &mut Call<'_>) -> Answer {
    *call.keys.databases_mut() = Default::default();
    call.reply.ok();
    Ok(())
}

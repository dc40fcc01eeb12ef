//! The accesses of a command to the objects of its keys, for the [trace](AccessTrace).
//!
//! A read accesses as many bytes as its reply has, and a write as many as its arguments have. The
//! position of a part of an object is not known: it is drawn from the first argument after the key,
//! so that the same part is at the same position.

use super::{CommandDefinition, CommandGroup, Flags};
use crate::access_trace::{AccessTrace, TracedAccess};
use crate::keyspace::{DatabaseKeys, RecordPayload};
use crate::object::StoredObject;
use crate::server::ServerCore;
use std::sync::atomic::Ordering;

/// The objects of a command's keys before it runs.
#[derive(Debug)]
pub struct TracedKeys {
    positions: Vec<usize>,
    before: Vec<Option<TracedObject>>,
}

/// The place and size of a value.
#[derive(Clone, Copy, Debug)]
struct TracedObject {
    tier: usize,
    /// Number of bytes; `None` in a cold tier, where only a read finds it out.
    bytes: Option<usize>,
}

/// Returns true if a command accesses the values of its keys.
fn accesses_values(command: &CommandDefinition) -> bool {
    let flags = command.flags;
    // A command on keys alone that may take memory replaces their values.
    let is_on_keys = flags.has(Flags::KEYS_ONLY) && !flags.has(Flags::DENYOOM);
    // The commands of a script are traced one by one.
    !is_on_keys && !flags.has(Flags::LOOKS_ONLY) && command.group != CommandGroup::Scripting
}

fn object_of(keys: &DatabaseKeys<'_>, key: &[u8]) -> Option<TracedObject> {
    let keyspace = keys.keyspace();
    let read = keys.database().read(key, |record| match record.payload {
        RecordPayload::Inline(value) => TracedObject {
            tier: 0,
            bytes: Some(value.len()),
        },
        RecordPayload::InTier(place) => TracedObject {
            tier: place.tier(),
            bytes: None,
        },
        RecordPayload::InSlot(slot) => {
            let object = keyspace.slots.open(slot);
            TracedObject {
                tier: 0,
                bytes: object.as_ref().map(StoredObject::heap_bytes),
            }
        }
    });
    // An index that cannot be read fails the command, too.
    read.ok().flatten()
}

impl TracedKeys {
    /// Looks at the objects of a command that is about to run.
    pub fn look(
        server: &ServerCore,
        keys: &DatabaseKeys<'_>,
        command: &CommandDefinition,
        args: &[&[u8]],
    ) -> TracedKeys {
        let is_traced = accesses_values(command)
            && keys.is_in_phase()
            && !keys.is_shared()
            // Data that are loaded are no accesses of clients.
            && server.serving.load(Ordering::Relaxed);
        let positions = match is_traced {
            true => command.keys.positions(args).to_vec(),
            false => Vec::new(),
        };
        let key = |&position: &usize| object_of(keys, args.get(position)?);
        TracedKeys {
            before: positions.iter().map(key).collect(),
            positions,
        }
    }

    /// Adds the accesses of the command, which has run and replied with `reply_bytes` bytes.
    pub fn add_to(
        self,
        trace: &AccessTrace,
        server: &ServerCore,
        keys: &DatabaseKeys<'_>,
        (command, args): (&CommandDefinition, &[&[u8]]),
        reply_bytes: usize,
    ) {
        let is_write = command.flags.has(Flags::WRITE);
        let read_bytes = reply_bytes / self.positions.len().max(1);
        let ends = self.positions.iter().skip(1).copied();
        let ends = ends.chain([args.len()]);
        for ((&position, before), end) in self.positions.iter().zip(&self.before).zip(ends) {
            let Some(&key) = args.get(position) else {
                continue;
            };
            // The arguments up to the next key.
            let words = args.get(position + 1..end).unwrap_or_default();
            let written_bytes: usize = words.iter().map(|word| word.len()).sum();
            let (object, length) = match is_write {
                true => (object_of(keys, key), written_bytes),
                false => (*before, read_bytes),
            };
            let Some(object) = object else {
                continue;
            };
            let length = length.max(1);
            let bytes = object.bytes.unwrap_or(length).max(1);
            let length = length.min(bytes);
            let database = keys.database_number();
            let drawn = words.first().map_or(0, |word| server.access.hash(0, word));
            trace.add(&TracedAccess {
                object: server.access.hash(database, key),
                tier: object.tier,
                bytes,
                offset: (drawn % (bytes - length + 1) as u64) as usize,
                length,
                is_write,
            });
        }
    }
}

//! Commands that wait until their keys were sent to another server, and then continue.

use crate::blocking::BlockedClient;
use crate::clock::now_ms;
use crate::command::{CommandAccount, CommandInvocation, invoke};
use crate::commands::TABLE;
use crate::connection::IoThreadMessage;
use crate::keyspace::{DatabaseAccess, DatabaseKeys, Databases, Effects, WriteObserver};
use crate::migration::Shipment;
use crate::resp::RespReply;
use crate::server::ServerCore;
use parking_lot::RwLockWriteGuard;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time between two attempts while a script holds the keyspace for long.
const BUSY_TICK: Duration = Duration::from_millis(10);

/// Sends the keys of `MIGRATE` commands and completes the commands, until the server stops.
pub(super) fn run(server: &ServerCore) {
    server
        .migrations
        .send(&server.stopping, |waiter, shipment| {
            go_on(server, &waiter, shipment);
        });
}

/// Executes a command again after its parcels were sent, even if its client has gone.
fn go_on(server: &ServerCore, waiter: &BlockedClient, shipment: Shipment) {
    let Some(mut databases) = exclude(server) else {
        return;
    };
    let args: Vec<&[u8]> = waiter.words.iter().map(Vec::as_slice).collect();
    let Ok(command) = TABLE.lookup(&args) else {
        return;
    };
    let mut client = waiter.resumed();
    client.shipment = Some(Box::new(shipment));
    let (mut effects, mut reply) = (Effects::default(), RespReply::new(waiter.protocol));
    effects.observed = server.keyspace.is_observed();
    effects.origin = waiter.client.id;
    let now_ms = now_ms();
    let keys = DatabaseKeys::new(
        &server.keyspace,
        DatabaseAccess::Exclusive(&mut databases),
        waiter.database,
        now_ms,
        &mut effects,
    );
    let wait = match server.admit_again(&mut client, command, &args) {
        Ok(()) => {
            let account = &mut CommandAccount::of(command, server).shown_before();
            let invocation = CommandInvocation {
                server,
                keys,
                client: &mut client,
                args: &args,
                reply: &mut reply,
                nested: false,
            };
            invoke(invocation, account)
        }
        Err(error) => {
            CommandAccount::refuse(server, TABLE.number_named(&args), &error);
            reply.error(&error.to_string());
            None
        }
    };
    let logged_up_to = server.log_effects(&mut effects);
    server.announce(&mut effects, &mut databases);
    // This is checked in the exclusive phase, because a command that begins to wait does so in that
    // phase.
    let is_answered = wait.is_none() && server.blocked.remove(waiter.client.id).is_some();
    if server.blocked.is_empty() {
        server.keyspace.set_observed(WriteObserver::Blocked, false);
    }
    drop(databases);
    if !is_answered {
        return;
    }
    let id = waiter.client.id;
    let message = match server.log.commit(logged_up_to) {
        Ok(()) => IoThreadMessage::Resume {
            client: id,
            answer: reply.take(),
            logged_up_to,
        },
        // Neither success nor an error would be true.
        Err(_) => IoThreadMessage::Close { client: id },
    };
    server.clients.send(&waiter.client, message);
}

/// Enters the exclusive phase, however long a script holds it. Returns `None` if the server stops.
fn exclude(server: &ServerCore) -> Option<RwLockWriteGuard<'_, Databases>> {
    while !server.stopping.load(Ordering::Acquire) {
        if let Some(databases) = server.exclude_unless_busy() {
            return Some(databases);
        }
        std::thread::sleep(BUSY_TICK);
    }
    None
}

//! The description of a client in one line, as all lists of clients have it.

use super::ClientShared;
use crate::carried;
use crate::catalog::CommandRegistry;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Returns a client in the form of `CLIENT LIST` and `ACL LOG`, without a line end. The text
/// [carries](carried) the name of its user.
pub fn describe(client: &ClientShared, registry: &CommandRegistry, steady_ms: u64) -> String {
    let listed = &client.listed;
    let count = |counter: &AtomicUsize| counter.load(Relaxed);
    let seconds = |since_ms: u64| steady_ms.saturating_sub(since_ms) / 1000;
    let command = (listed.last_command.load(Relaxed) as usize)
        .checked_sub(1)
        .and_then(|number| registry.entries().get(number))
        .map(|entry| entry.name.as_str())
        .unwrap_or("NULL");
    let library = listed.library.lock().clone();
    let user = client.user.lock().clone();
    let (query, output) = (count(&listed.query_bytes), count(&listed.output_bytes));
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} \
         ssub={} multi={} watch={} qbuf={query} qbuf-free=0 argv-mem=0 multi-mem=0 rbs={output} \
         rbp={output} obl={output} oll=0 omem=0 tot-mem={} events={} cmd={command} user={} \
         redir={} resp={} lib-name={} lib-ver={} tot-net-in={} tot-net-out={} tot-cmds={}",
        client.id,
        client.peer,
        client.local,
        // Redis shows the number of the socket. Readers of the list expect some number.
        client.id as i32,
        client.name.lock(),
        seconds(client.connected_at_ms),
        seconds(client.active_at_ms.load(Relaxed)),
        flags(client),
        client.database.load(Relaxed),
        count(&listed.channels),
        count(&listed.patterns),
        count(&listed.shard_channels),
        // As in Redis, -1 means that there is no transaction.
        count(&listed.queued) as i64 - 1,
        count(&listed.watched),
        count(&listed.held_bytes) + count(&listed.delivered_bytes),
        if output > 0 { "rw" } else { "r" },
        carried::text(&user),
        listed.redirection.load(Relaxed),
        if listed.resp3.load(Relaxed) { 3 } else { 2 },
        library.0,
        library.1,
        listed.received_bytes.load(Relaxed),
        listed.sent_bytes.load(Relaxed),
        listed.commands.load(Relaxed),
    )
}

/// Returns the letters of a client's state.
pub fn flags(client: &ClientShared) -> String {
    let listed = &client.listed;
    let flags = [
        ('O', listed.monitoring.load(Relaxed)),
        ('P', listed.is_subscriber()),
        ('x', listed.queued.load(Relaxed) > 0),
        ('b', listed.waiting.load(Relaxed)),
        ('t', listed.tracking.load(Relaxed)),
        ('R', listed.redirection_broken.load(Relaxed)),
        ('B', listed.tracking_prefixes.load(Relaxed)),
        ('d', client.watch_broken.load(Relaxed)),
        ('c', listed.closing.load(Relaxed)),
        ('e', listed.no_evict.load(Relaxed)),
        ('T', listed.no_touch.load(Relaxed)),
    ];
    let shown: String = flags.iter().filter(|it| it.1).map(|it| it.0).collect();
    if shown.is_empty() { "N".into() } else { shown }
}

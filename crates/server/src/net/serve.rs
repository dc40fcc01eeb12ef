//! The start and the end of a server's threads.

use super::listener::{ClientListener, listen};
use super::migrate;
use super::reads::rings;
use super::relief;
use super::state::IoThreadState;
use super::thread::{IoThread, WAKER};
use crate::acl::AclError;
use crate::allocator;
use crate::config::BIND_ADDRESSES_MAX;
use crate::connection::Mailbox;
use crate::connection::tls::TlsError;
use crate::execute::Executor;
use crate::log::NotDurable;
use crate::machine;
use crate::migration::SENDERS;
use crate::persistence::load::LoadError;
use crate::server::{ServerCore, descriptors};
use crate::{commands, persistence};
use mio::{Poll, Waker};
use parking_lot::Mutex;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// The reason why the server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// More addresses than can be listened on.
    #[error(
        "bind: there are {count} addresses, and at most {} are possible",
        BIND_ADDRESSES_MAX
    )]
    TooManyAddresses {
        /// The number of addresses.
        count: usize,
    },
    /// A configuration without port and socket.
    #[error("there is nothing to listen on: set port, tls-port or unixsocket")]
    Nowhere,
    /// The files on disk cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The log lacks some commands. Their clients therefore got no reply.
    #[error(transparent)]
    NotDurable(#[from] NotDurable),
    /// The users cannot be read, without which every client could do everything.
    #[error(
        "Error loading ACLs: {0}. Correct it there, or restore the file from a backup; without it \
         every client could do everything"
    )]
    Users(#[from] AclError),
    /// A socket in the file system cannot be listened on.
    #[error("cannot listen on {}: {source}", path.display())]
    Socket {
        /// The socket.
        path: std::path::PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system provides no poll for sockets, or no thread.
    #[error("the system refused {what}: {source}")]
    System {
        /// The object that was requested.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Listens, calls `ready` with the addresses, and serves until [`ServerCore::stop`] is called.
///
/// # Errors
/// The server could not start. Errors of single connections end only these.
pub fn serve(server: &ServerCore, ready: impl FnOnce(&[SocketAddr])) -> Result<(), ServeError> {
    let system = |what| move |source| ServeError::System { what, source };
    server.acl.load_at_start(&server.options.settings.users)?;
    server.config.note_inert();
    descriptors::fit(server);
    let listeners = listen(server)?;
    let addresses: Vec<_> = listeners
        .iter()
        .filter_map(ClientListener::address)
        .collect();
    if allocator::is_known() {
        let resident = machine::resident_bytes().unwrap_or(0);
        server
            .eviction
            .set_base(&server.keyspace, &server.access, resident);
    }
    persistence::start(server, commands::repeat)?;
    if let Err(error) = server.oom_score.adjust_by(&server.config) {
        tracing::warn!("cannot set oom-score-adj: {error}");
    }
    let (mut polls, mut mailboxes) = (Vec::new(), Vec::new());
    for _ in 0..server.options.threads.max(1) {
        let poll = Poll::new().map_err(system("a means to wait for sockets"))?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(system("a waker"))?;
        mailboxes.push(Mailbox::new(waker));
        polls.push(poll);
    }
    // Before the threads begin, because each sends messages to the others.
    server.clients.set_mailboxes(mailboxes);
    let mailboxes = server.clients.mailboxes();
    debug_assert_eq!(mailboxes.len(), polls.len(), "each thread has its mailbox");
    let reads = rings(server, polls.len());
    debug_assert!(reads.as_ref().is_none_or(|it| it.len() == polls.len()));
    let by_rings = reads.is_some();
    let mut reads = reads.into_iter().flatten();
    let mut listeners = Some(listeners);
    let state = |poll| {
        let listeners = listeners.take().unwrap_or_default();
        Mutex::new(IoThreadState::new(server, poll, reads.next(), listeners))
    };
    let states: Vec<Mutex<IoThreadState>> = polls.into_iter().map(state).collect();
    std::thread::scope(|scope| {
        let states = &states;
        let run = move |(number, mailbox): (usize, &'_ Mailbox)| {
            if let Some(state_lock) = states.get(number) {
                let _counts_alone = server.statistics.count_alone(number);
                let executor = Executor::new(server);
                let guard = state_lock.lock();
                IoThread::new(server, number, mailbox, state_lock, guard, executor).run();
            }
        };
        let start = || {
            persistence::spawn(server, scope, by_rings)?;
            let thread = |name: String| std::thread::Builder::new().name(name);
            thread("nearfield-relief".to_owned())
                .spawn_scoped(scope, move || relief::stand_in(server, states))?;
            for number in 0..SENDERS {
                let name = format!("nearfield-migrate-{number}");
                thread(name).spawn_scoped(scope, || migrate::run(server))?;
            }
            for numbered in mailboxes.iter().enumerate().skip(1) {
                let name = format!("nearfield-io-{}", numbered.0);
                thread(name).spawn_scoped(scope, move || run(numbered))?;
            }
            Ok(())
        };
        if let Err(source) = start() {
            // The scope waits for the threads that have started.
            server.stop();
            return Err(ServeError::System {
                what: "a thread",
                source,
            });
        }
        server.serving.store(true, Ordering::Release);
        server.note_missing_replicas();
        ready(&addresses);
        if let Some(mailbox) = mailboxes.first() {
            run((0, mailbox));
        }
        Ok(())
    })?;
    // If this fails, some commands are not in the log, and their clients got no reply.
    server.log.flush()?;
    Ok(())
}

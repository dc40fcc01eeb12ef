//! Our server within the process of a test.

use super::connection::{PATIENCE, TestkitConnection};
use super::folder::TestkitFolder;
use nearfield_server::commands::TABLE;
use nearfield_server::config::{ListenPort, ServerOptions};
use nearfield_server::net;
use nearfield_server::server::ServerCore;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// Gives options a directory of their own, unless they name one: the server must not write into the
/// directory of the test.
pub fn in_own_folder(mut options: ServerOptions) -> (ServerOptions, Option<TestkitFolder>) {
    options.persistence.complete(&options.settings);
    let kept = &mut options.persistence;
    if kept.directory.is_some() {
        return (options, None);
    }
    let folder = TestkitFolder::new();
    // The defaults depend on the directory, and what is kept must not change.
    kept.log = Some(kept.log());
    kept.save = Some(kept.save_points());
    kept.directory = Some(folder.0.clone());
    (options, Some(folder))
}

/// A server that serves no clients, with a folder of its own.
pub struct UnservedServer {
    server: ServerCore,
    _folder: Option<TestkitFolder>,
}

impl UnservedServer {
    /// Creates a server. It has read none of its files.
    pub fn new(options: ServerOptions) -> UnservedServer {
        let (options, folder) = in_own_folder(options);
        UnservedServer {
            server: ServerCore::new(TABLE.registry(), options),
            _folder: folder,
        }
    }
}

impl Deref for UnservedServer {
    type Target = ServerCore;

    fn deref(&self) -> &ServerCore {
        &self.server
    }
}

/// Our server, in threads of this process. It stops when it is dropped.
pub struct Nearfield {
    /// The address on which it listens.
    pub address: SocketAddr,
    /// The shared state of its threads.
    pub server: Arc<ServerCore>,
    thread: Option<JoinHandle<()>>,
    /// The folder, which is deleted when the server has ended.
    _folder: Option<TestkitFolder>,
}

impl Nearfield {
    /// Starts a server on a free port.
    ///
    /// `DEBUG`, which tests use for rare states, is allowed unless the options say otherwise.
    pub fn start(mut options: ServerOptions) -> Nearfield {
        const DEBUG: &str = "enable-debug-command";
        if options.settings.value(DEBUG).is_none() {
            let added = options.settings.add(DEBUG, "yes".to_owned());
            added.expect("a parameter");
        }
        let (options, folder) = in_own_folder(options);
        let port = ListenPort::Free;
        let server = Arc::new(ServerCore::new(
            TABLE.registry(),
            ServerOptions { port, ..options },
        ));
        let (sender, receiver) = mpsc::channel();
        let shared = Arc::clone(&server);
        let thread = thread::spawn(move || {
            net::serve(&shared, |addresses| {
                sender.send(addresses[0]).expect("the test waits");
            })
            .expect("a server on a free port");
        });
        Nearfield {
            address: receiver.recv_timeout(PATIENCE).expect("a server"),
            server,
            thread: Some(thread),
            _folder: folder,
        }
    }

    /// Starts a server with this number of threads, and with the defaults otherwise.
    pub fn with_threads(threads: usize) -> Nearfield {
        Nearfield::start(ServerOptions {
            threads,
            ..ServerOptions::default()
        })
    }

    /// Connects to it.
    pub fn connect(&self) -> TestkitConnection {
        TestkitConnection::open(self.address).expect("the server listens")
    }
}

impl Drop for Nearfield {
    fn drop(&mut self) {
        self.server.stop();
        let joined = self.thread.take().map(JoinHandle::join);
        // A second panic would end all tests, and hide the first one.
        if !thread::panicking() {
            assert!(
                matches!(joined, Some(Ok(()))),
                "a thread of the server panicked"
            );
        }
    }
}

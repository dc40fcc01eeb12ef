//! Our server within the process of a test.

use super::connection::PATIENCE;
use nearfield_server::{net, persistence};
use nearfield_server::server::{Options, Server};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// Our server, in threads of this process. It stops when it is dropped.
pub struct Nearfield {
    /// Where it listens.
    pub address: SocketAddr,
    /// What its threads share.
    pub server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
    folder: PathBuf,
}

impl Nearfield {
    /// Starts a server with so many threads on a free port.
    pub fn start(threads: usize) -> Nearfield {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nearfield-server-{}-{count}", process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a new folder");
        let server = Arc::new(Server::new(Options {
            port: 0,
            threads,
            persistence: persistence::Options {
                directory: Some(folder.clone()),
                log: Some(false),
                ..persistence::Options::default()
            },
            ..Options::default()
        }));
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
            folder,
        }
    }
}

impl Drop for Nearfield {
    fn drop(&mut self) {
        self.server.stop();
        let joined = self.thread.take().map(JoinHandle::join);
        // A folder that stays behind is no reason to fail a test.
        let _ = fs::remove_dir_all(&self.folder);
        if !thread::panicking() {
            assert!(matches!(joined, Some(Ok(()))), "a thread of the server panicked");
        }
    }
}

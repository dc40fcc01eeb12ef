//! Our server within the process of a test.

use super::connection::{Connection, PATIENCE};
use nearfield_server::config::{ListenPort, Options};
use nearfield_server::net;
use nearfield_server::server::Server;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// Our server, in threads of this process. It stops when it is dropped.
pub struct Nearfield {
    /// Where it listens.
    pub address: SocketAddr,
    /// The shared state of its threads.
    pub server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl Nearfield {
    /// Starts a server on a free port.
    ///
    /// `DEBUG`, which tests ask for what is hard to have, is open unless the options say otherwise.
    pub fn start(mut options: Options) -> Nearfield {
        const DEBUG: &str = "enable-debug-command";
        if options.settings.value(DEBUG).is_none() {
            let added = options.settings.add(DEBUG, "yes".to_owned());
            added.expect("a parameter");
        }
        let port = ListenPort::Free;
        let server = Arc::new(Server::new(Options { port, ..options }));
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
        }
    }

    /// Connects to it.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address).expect("the server listens")
    }
}

impl Drop for Nearfield {
    fn drop(&mut self) {
        self.server.stop();
        let joined = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            assert!(
                matches!(joined, Some(Ok(()))),
                "a thread of the server panicked"
            );
        }
    }
}

//! Messages between threads.

use crate::keyspace::cold::Held;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something for a thread to do.
#[derive(Debug)]
pub enum Message {
    /// Serve a connection that has been accepted.
    Serve(super::Transport),
    /// Listen at these in place of what TCP was listened at before.
    Listen(super::listen::Sockets),
    /// Serve a connection that another thread has served before.
    Adopt(Box<super::Connection>),
    /// Send bytes to a client.
    Deliver {
        /// The client's number.
        client: u64,
        /// Complete values of the protocol.
        bytes: Arc<[u8]>,
    },
    /// A client need wait no more: send it the answer, and go on with its commands.
    Resume {
        /// The client's number.
        client: u64,
        /// The answer to the command that it waited in.
        answer: Vec<u8>,
        /// The position in the log that has to be safe before it is told; 0 if its command has
        /// changed nothing.
        logged_up_to: u64,
    },
    /// A client that was answered after it has waited goes on with its commands.
    GoOn {
        /// The client's number.
        client: u64,
    },
    /// The values are there that a client's commands have waited for: go on with them.
    Fetched {
        /// The client's number.
        client: u64,
        /// Holds the values until the commands are executed.
        held: Vec<Held>,
    },
    /// Close a client's connection.
    Close {
        /// The client's number.
        client: u64,
    },
}

impl Message {
    /// The number of the client that it concerns, if that has been served before.
    pub fn client(&self) -> Option<u64> {
        match self {
            Message::Serve(_) | Message::Adopt(_) | Message::Listen(_) => None,
            Message::Deliver { client, .. }
            | Message::Resume { client, .. }
            | Message::GoOn { client }
            | Message::Fetched { client, .. }
            | Message::Close { client } => Some(*client),
        }
    }
}

/// Where a thread receives messages. Clones are the same mailbox.
#[derive(Clone, Debug)]
pub struct Mailbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    messages: Mutex<Vec<Message>>,
    /// Set from the first message until the thread empties the box, so that it is woken once.
    woken: AtomicBool,
    waker: mio::Waker,
}

impl Mailbox {
    /// An empty mailbox, whose owner is woken by `waker`.
    pub fn new(waker: mio::Waker) -> Mailbox {
        Mailbox {
            shared: Arc::new(Shared {
                messages: Mutex::default(),
                woken: AtomicBool::new(false),
                waker,
            }),
        }
    }

    /// Leaves a message and wakes the thread.
    pub fn send(&self, message: Message) {
        self.shared.messages.lock().push(message);
        self.wake();
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        if !self.shared.woken.swap(true, Ordering::AcqRel) {
            // It fails only where the system has no memory for a counter of events; then the
            // thread finds the message when it next wakes by itself, a tenth of a second later.
            let _ = self.shared.waker.wake();
        }
    }

    /// Takes what is to be sent to a client, and leaves the rest.
    pub fn take_delivered(&self, id: u64) -> Vec<Message> {
        let is = |message: &mut Message| match message {
            Message::Deliver { client, .. } => *client == id,
            _ => false,
        };
        self.shared.messages.lock().extract_if(.., is).collect()
    }

    /// Takes all messages.
    pub fn empty(&self) -> Vec<Message> {
        self.shared.woken.store(false, Ordering::Release);
        std::mem::take(&mut self.shared.messages.lock())
    }
}

//! Messages between threads.

use crate::keyspace::cold::ColdPlaceGuard;
use crate::steps;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A task for a thread.
#[derive(Debug)]
pub enum IoThreadMessage {
    /// The order to serve a connection that has been accepted.
    Serve(super::Transport),
    /// The order to listen on these sockets in place of the previous TCP listeners.
    Listen(super::listen::ListenerSockets),
    /// The order to serve a connection that another thread has served before.
    Adopt(Box<super::RespConnection>),
    /// The order to send bytes to a client.
    Deliver {
        /// The client's number.
        client: u64,
        /// Complete values of the protocol.
        bytes: Arc<[u8]>,
    },
    /// The end of a client's wait: its reply is sent, and its commands continue.
    Resume {
        /// The client's number.
        client: u64,
        /// The reply to the command that it waited in.
        answer: Vec<u8>,
        /// The log position that must be durable before the reply is sent; 0 if its command has
        /// changed nothing.
        logged_up_to: u64,
    },
    /// The order to continue with the commands of a client that got the reply to its wait.
    GoOn {
        /// The client's number.
        client: u64,
    },
    /// The arrival of the values that a client's commands have waited for, which then continue.
    Fetched {
        /// The client's number.
        client: u64,
        /// Handles that hold the values until the commands are executed.
        held: Vec<ColdPlaceGuard>,
    },
    /// The order to close a client's connection.
    Close {
        /// The client's number.
        client: u64,
    },
}

impl IoThreadMessage {
    /// Returns the number of the client that it concerns, if that client was served before.
    pub fn client(&self) -> Option<u64> {
        match self {
            // The thread does not know these clients yet.
            IoThreadMessage::Serve(_) | IoThreadMessage::Adopt(_) | IoThreadMessage::Listen(_) => {
                None
            }
            IoThreadMessage::Deliver { client, .. }
            | IoThreadMessage::Resume { client, .. }
            | IoThreadMessage::GoOn { client }
            | IoThreadMessage::Fetched { client, .. }
            | IoThreadMessage::Close { client } => Some(*client),
        }
    }
}

/// The queue in which a thread receives messages. Clones are the same mailbox.
#[derive(Clone, Debug)]
pub struct Mailbox {
    shared: Arc<SharedMailbox>,
}

#[derive(Debug)]
struct SharedMailbox {
    messages: Mutex<LeftMessages>,
    /// True from the first message until the thread empties the box, so that it is woken once.
    woken: AtomicBool,
    waker: mio::Waker,
}

/// Messages in their order.
#[derive(Debug, Default)]
struct LeftMessages {
    /// The messages; `None` where one was taken before the others.
    all: Vec<Option<IoThreadMessage>>,
    /// Indices of the messages with bytes for each client, among the first `looked_at` messages.
    /// They are found only when the messages of one client are requested.
    places: HashMap<u64, Vec<usize>>,
    looked_at: usize,
}

impl LeftMessages {
    /// Takes the messages with bytes for a client. Visits each message only once, however often it
    /// is called.
    fn take_delivered(&mut self, id: u64) -> Vec<IoThreadMessage> {
        debug_assert!(self.looked_at <= self.all.len());
        let new = self.all.iter().enumerate().skip(self.looked_at);
        steps::count(self.all.len() - self.looked_at);
        for (place, message) in new {
            if let Some(IoThreadMessage::Deliver { client, .. }) = message {
                self.places.entry(*client).or_default().push(place);
            }
        }
        self.looked_at = self.all.len();
        let places = self.places.remove(&id).unwrap_or_default();
        // A gap is left, because other messages would move otherwise.
        let take = |place| self.all.get_mut(place).and_then(Option::take);
        places.into_iter().filter_map(take).collect()
    }
}

impl Mailbox {
    /// Creates an empty mailbox. Its owner is woken by `waker`.
    pub fn new(waker: mio::Waker) -> Mailbox {
        Mailbox {
            shared: Arc::new(SharedMailbox {
                messages: Mutex::default(),
                woken: AtomicBool::new(false),
                waker,
            }),
        }
    }

    /// Leaves a message and wakes the thread.
    pub fn send(&self, message: IoThreadMessage) {
        self.shared.messages.lock().all.push(Some(message));
        self.wake();
    }

    /// Wakes the thread.
    pub fn wake(&self) {
        if !self.shared.woken.swap(true, Ordering::AcqRel) {
            // This fails only where the system has no memory for a counter of events. Then the
            // thread finds the message when it next wakes by itself, a tenth of a second later.
            let _ = self.shared.waker.wake();
        }
    }

    /// Takes the messages with bytes for a client, and leaves the rest.
    pub fn take_delivered(&self, id: u64) -> Vec<IoThreadMessage> {
        self.shared.messages.lock().take_delivered(id)
    }

    /// Takes all messages.
    pub fn empty(&self) -> Vec<IoThreadMessage> {
        // Before the messages are taken, so that a later one wakes the thread again.
        self.shared.woken.store(false, Ordering::Release);
        let left = std::mem::take(&mut *self.shared.messages.lock());
        left.all.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_looked_at_once() {
        let mut left = LeftMessages::default();
        let deliver = |client: u64, text: &str| {
            Some(IoThreadMessage::Deliver {
                client,
                bytes: text.as_bytes().into(),
            })
        };
        let taken = steps::taken_by(|| {
            for number in 0..1000 {
                left.all.push(deliver(1, "others"));
                left.all.push(Some(IoThreadMessage::Close { client: 2 }));
                left.all.push(deliver(2, &number.to_string()));
                let own = left.take_delivered(2);
                let own: Vec<String> = own.iter().map(|it| format!("{it:?}")).collect();
                let bytes: Arc<[u8]> = number.to_string().as_bytes().into();
                assert_eq!(own.len(), 1, "{own:?}");
                assert!(own[0].contains(&format!("{bytes:?}")), "{own:?}");
            }
        });
        assert!(taken.is_none_or(|taken| taken == 3000), "{taken:?}");
        assert_eq!(left.take_delivered(1).len(), 1000);
        assert!(left.take_delivered(1).is_empty());
        assert_eq!(left.all.iter().flatten().count(), 1000);
    }
}

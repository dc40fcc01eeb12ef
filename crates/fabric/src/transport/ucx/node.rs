//! The process of a memory node.

use super::batch;
use super::error::UcxError;
use super::message::{Introduction, UcxReply, UcxRequest};
use super::worker::{
    ConnectionId, Transfer, UcxConnection, UcxListener, UcxMessage, UcxNodeMemory, UcxWorker,
};
use crate::address::{NodeId, RESERVED_BYTES};
use crate::chunks::Chunks;
use parking_lot::FairMutex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Size of a page: the memory of a node is a whole number of pages.
const PAGE_BYTES: u64 = 4096;
/// The node's sleeps without events, each longer than the one before. The first is short, because
/// it may become possible to send a delayed message without an event.
const FIRST_SLEEP: Duration = Duration::from_micros(100);
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// Time for which the node polls for more events before it sleeps: longer than a client needs
/// between two verbs.
const SPIN: Duration = Duration::from_micros(50);

/// The variable that makes UCX execute verbs even if it must do so by messages of its own, for
/// tests of the requests for adapters.
const ONE_SIDED: &str = "NEARFIELD_UCX_ONE_SIDED";
/// The head of a key before its parts, one for each of UCX's memory domains: a bit for each domain,
/// and the kind of the memory.
const KEY_MAP_BYTES: usize = 8;
const KEY_HEAD_BYTES: usize = KEY_MAP_BYTES + 1;

/// Returns true if a key has a part with which an adapter accesses memory by itself. Parts of other
/// domains are empty, with a length of 0. (This holds for UCX 1.13 and 1.22, which have no function
/// for it. If another version has other keys, this returns true, and UCX executes the verbs by its
/// own means.)
fn adapters_have(key: &[u8]) -> bool {
    let Some((map, _)) = key.split_first_chunk::<KEY_MAP_BYTES>() else {
        return true;
    };
    let parts = u64::from_le_bytes(*map).count_ones() as usize;
    let lengths = key.get(KEY_HEAD_BYTES..KEY_HEAD_BYTES + parts);
    lengths.is_none_or(|lengths| lengths.iter().any(|length| *length != 0))
}

/// A memory node that clients reach over UCX. See the [module](super).
///
/// It stays with the thread that has created it. A drop ends it and frees its memory.
pub struct UcxNode {
    // The fields are dropped in this order: only an unreachable node can release its memory.
    _listener: UcxListener,
    clients: RefCell<UcxNodeClients>,
    memory: UcxNodeMemory,
    worker: Rc<UcxWorker>,
    key: Vec<u8>,
    by_messages: bool,
    address: SocketAddr,
    number: NodeId,
    bytes: u64,
}

struct UcxNodeClients {
    connected: HashMap<ConnectionId, UcxNodeClient>,
    /// The replies in flight, and the connections that are being closed.
    going: Vec<UcxPendingTransfer>,
    chunks: Chunks,
}

struct UcxNodeClient {
    connection: UcxConnection,
    /// The memory allocated by calls that the client has not confirmed: offset and length.
    given: HashMap<u64, (u64, u64)>,
    /// Bytes of replies in flight to it.
    owed: u64,
}

/// A transfer in flight: a reply to a client, or the end of a connection.
struct UcxPendingTransfer {
    transfer: Transfer,
    to: Option<ConnectionId>,
    bytes: u64,
}

/// Limit of the bytes in flight to a client. A client that does not receive its replies is dropped
/// beyond it. *Assumed*: more than a client reads at once, and little for a node.
const OWED_BYTES_MAX: u64 = batch::ANSWER_BYTES_MAX;
/// Cost of a reply besides its bytes.
const ANSWER_COST_BYTES: u64 = 256;

impl UcxNode {
    /// Listens at `HOST:PORT` (port 0: any free port) with memory of `bytes`, rounded up to whole
    /// pages of 4096, all zero, which the system provides at once: about a second for a few
    /// gigabytes.
    ///
    /// # Errors
    /// `Library`, `Old`, `Address`, `Size`, `Memory`, `Refused`.
    pub fn listen(address: &str, number: NodeId, bytes: u64) -> Result<UcxNode, UcxError> {
        let whole = bytes.checked_next_multiple_of(PAGE_BYTES);
        let fits = whole.filter(|whole| (RESERVED_BYTES + 1..=1 << 48).contains(whole));
        let Some(size) = fits else {
            let address = address.to_owned();
            return Err(UcxError::Size { address, bytes });
        };
        let at = resolve(address)?;
        let worker = UcxWorker::new()?;
        let memory =
            UcxNodeMemory::new(&worker, size as usize).map_err(|source| UcxError::Memory {
                address: address.to_owned(),
                bytes,
                source,
            })?;
        let key = memory.key()?;
        let listener = UcxListener::new(&worker, at)?;
        let clients = UcxNodeClients {
            connected: HashMap::new(),
            going: Vec::new(),
            chunks: Chunks::new(size, RESERVED_BYTES),
        };
        Ok(UcxNode {
            address: listener.address()?,
            _listener: listener,
            clients: RefCell::new(clients),
            memory,
            worker,
            by_messages: !adapters_have(&key) && std::env::var_os(ONE_SIDED).is_none(),
            key,
            number,
            bytes: size,
        })
    }

    /// Serves clients until `stop` is true; then it returns within 50 ms. Without an adapter, this
    /// reads and writes the node's memory for clients. Sleeps while there are no messages.
    pub fn serve(&self, stop: &AtomicBool) {
        self.serve_in_turn(stop, &FairMutex::new(()));
    }

    /// Serves clients like [`serve`](UcxNode::serve), but executes each post while it holds `turn`.
    /// Another thread that holds it finds the memory as it is between two posts, if this thread
    /// executes them ([`does_posts`](UcxNode::does_posts)).
    pub fn serve_in_turn(&self, stop: &AtomicBool, turn: &FairMutex<()>) {
        let mut last = Instant::now();
        let mut sleep = FIRST_SLEEP;
        while !stop.load(Ordering::Relaxed) {
            if self.progress(turn) {
                // After an event, the next one is likely to come soon.
                last = Instant::now();
                sleep = FIRST_SLEEP;
            } else if last.elapsed() > SPIN {
                self.worker.wait(sleep);
                sleep = (sleep * 2).min(LONGEST_SLEEP);
            }
        }
    }

    /// Handles all current events. Returns true if there was one.
    fn progress(&self, turn: &FairMutex<()>) -> bool {
        let progress = self.worker.progress();
        let clients = &mut *self.clients.borrow_mut();
        for arrival in self.worker.take_arrivals() {
            // A client that has already left can be ignored.
            if let Ok(connection) = UcxConnection::accept(&self.worker, arrival) {
                let client = UcxNodeClient {
                    connection,
                    given: HashMap::new(),
                    owed: 0,
                };
                clients.connected.insert(client.connection.id(), client);
            }
        }
        while let Some(message) = self.worker.take_message() {
            self.answer(clients, &message, turn);
        }
        clients.settle();
        clients.part_with_the_lost();
        progress
    }

    fn answer(&self, clients: &mut UcxNodeClients, message: &UcxMessage, turn: &FairMutex<()>) {
        let execute = |verbs| {
            let _turn = turn.lock();
            batch::execute(&self.memory, verbs)
        };
        let Some(id) = message.from else { return };
        let Some(client) = clients.connected.get_mut(&id) else {
            return;
        };
        // Otherwise a client that only sends would fill the memory of the node with replies.
        if client.owed >= OWED_BYTES_MAX {
            clients.part_with(id);
            return;
        }
        let (number, done, rest) = match UcxRequest::decode(&message.bytes) {
            // The reply shows the client that this is a node.
            None => (0, None, Vec::new()),
            Some((UcxRequest::Hello, number, _)) => {
                let introduction = Introduction {
                    size: self.bytes,
                    node: self.number.0,
                    by_messages: self.by_messages,
                    allocated: clients.chunks.allocated_bytes(),
                    key: self.key.clone(),
                };
                (number, Some(self.memory.base()), introduction.encode())
            }
            Some((UcxRequest::Do, number, verbs)) => match execute(verbs) {
                Some(answer) => (number, Some(0), answer),
                None => (number, None, Vec::new()),
            },
            Some((UcxRequest::Tell, _, verbs)) => {
                // Clients check their verbs before they post them, so there is no error to report.
                let _ = execute(verbs);
                return;
            }
            Some((UcxRequest::Allocate { bytes }, number, _)) => {
                let offset = clients.chunks.allocate(bytes);
                // Until the client confirms it, its death frees this memory.
                if let Some(offset) = offset {
                    client.given.insert(number, (offset, bytes));
                }
                (number, offset, Vec::new())
            }
            Some((UcxRequest::AllocateAt { offset, bytes }, number, _)) => {
                let is_given = clients.chunks.allocate_at(offset, bytes);
                if is_given {
                    client.given.insert(number, (offset, bytes));
                }
                (number, is_given.then_some(offset), Vec::new())
            }
            Some((
                UcxRequest::Find {
                    offset,
                    is_allocated,
                },
                number,
                _,
            )) => (
                number,
                clients.chunks.find(offset, is_allocated),
                Vec::new(),
            ),
            Some((UcxRequest::Free { offset, bytes }, number, _)) => {
                let freed = clients.chunks.free(offset, bytes);
                (number, freed.then_some(0), Vec::new())
            }
            Some((UcxRequest::Taken, number, _)) => {
                client.given.remove(&number);
                return;
            }
            Some((UcxRequest::Declined, number, _)) => {
                if let Some((offset, bytes)) = client.given.remove(&number) {
                    clients.chunks.free(offset, bytes);
                }
                return;
            }
        };
        // The requests of dead clients are executed without a reply.
        if client.connection.is_lost() {
            return;
        }
        let answer = UcxReply { number, done, rest }.encode();
        let bytes = answer.len() as u64 + ANSWER_COST_BYTES;
        let mut transfer = client.connection.send(answer);
        if transfer.poll().is_none() {
            client.owed += bytes;
            let to = Some(client.connection.id());
            clients.going.push(UcxPendingTransfer {
                transfer,
                to,
                bytes,
            });
        }
    }

    /// Returns the words of its memory, which clients access at the same time.
    pub fn words(&self) -> &[AtomicU64] {
        self.memory.words()
    }

    /// Returns true if the thread that serves executes the posts of clients, and no adapter does.
    pub fn does_posts(&self) -> bool {
        self.by_messages
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its number.
    pub fn number(&self) -> NodeId {
        self.number
    }

    /// Returns the size of its memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of allocated bytes, in whole lines.
    pub fn allocated_bytes(&self) -> u64 {
        self.clients.borrow().chunks.allocated_bytes()
    }
}

impl UcxNodeClients {
    /// Closes the connections of lost clients, and frees memory that they have not taken.
    fn part_with_the_lost(&mut self) {
        let lost = self
            .connected
            .extract_if(|_, client| client.connection.is_lost());
        let lost: Vec<UcxNodeClient> = lost.map(|(_, client)| client).collect();
        lost.into_iter().for_each(|client| self.close(client));
    }

    /// Closes the connection of a client, as if it were lost.
    fn part_with(&mut self, id: ConnectionId) {
        if let Some(client) = self.connected.remove(&id) {
            self.close(client);
        }
    }

    fn close(&mut self, client: UcxNodeClient) {
        for (offset, bytes) in client.given.into_values() {
            self.chunks.free(offset, bytes);
        }
        self.going.push(UcxPendingTransfer {
            // At once: the end of a lost connection would wait for a peer that is gone.
            transfer: client.connection.close(true),
            to: None,
            bytes: 0,
        });
    }

    /// Removes transfers that are done.
    fn settle(&mut self) {
        let connected = &mut self.connected;
        self.going.retain_mut(|going| {
            let is_going = going.transfer.poll().is_none();
            let client = going.to.and_then(|to| connected.get_mut(&to));
            if let Some(client) = client.filter(|_| !is_going) {
                // The connection may be a new one with the number of a former.
                client.owed = client.owed.saturating_sub(going.bytes);
            }
            is_going
        });
    }
}

impl Drop for UcxNode {
    fn drop(&mut self) {
        let clients = &mut *self.clients.borrow_mut();
        let connected = std::mem::take(&mut clients.connected);
        connected
            .into_values()
            .for_each(|client| clients.close(client));
        // Clients are notified meanwhile.
        let begin = Instant::now();
        while !clients.going.is_empty() && begin.elapsed() < LONGEST_SLEEP {
            self.worker.progress();
            clients.settle();
        }
    }
}

impl std::fmt::Debug for UcxNode {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("UcxNode")
            .field("address", &self.address)
            .field("number", &self.number)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Resolves a text of the form `HOST:PORT` to its first address.
pub fn resolve(text: &str) -> Result<SocketAddr, UcxError> {
    let none = || std::io::Error::other("it has no address");
    let found = text
        .to_socket_addrs()
        .and_then(|mut all| all.next().ok_or_else(none));
    found.map_err(|source| UcxError::Address {
        address: text.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::adapters_have;

    #[test]
    fn keys_say_whether_an_adapter_accesses_the_memory() {
        // Keys of UCX 1.13 and 1.22, over TCP and shared memory.
        let without: [&[u8]; 3] = [
            &[0x13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff],
        ];
        for key in without {
            assert!(!adapters_have(key), "{key:?}");
        }
        let with: [&[u8]; 4] = [
            &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4],
            &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0],
            &[],
        ];
        for key in with {
            assert!(adapters_have(key), "{key:?}");
        }
    }
}

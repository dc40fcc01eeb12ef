//! The verbs of one post, in flight.
//!
//! Each node has a *lane*: its verbs in their order. A node that executes verbs by messages gets
//! [one message](super::asked). For other nodes, the *flights* of a lane are its issued and
//! unfinished requests. The rules, which the [module](super) explains:
//!
//! - A verb that changes memory is issued when all earlier reads and masked swaps of its lane have
//!   ended; reads are issued at once. A fence stands between any two of a lane.
//! - A masked swap is a compare-and-swap of the last word seen there. If another word fits the
//!   mask, the swap is repeated, and the reads that were issued after it are too.
//! - If the last verbs are writes, the end of a flush shows that they have arrived.

use super::asked::UcxPostMessage;
use super::endpoint::{UcxAttachedNode, UcxClient};
use super::worker::{Transfer, UcxConnection};
use crate::error::FabricError;
use crate::verb::{FabricVerb, MaskedSwap};
use std::collections::VecDeque;
use std::task::Poll;
use std::time::Instant;

/// Size of a piece. Reads and writes are divided at multiples of it, in addresses of the node. If
/// the node's processor serves the messages of a transport, one message holds one such piece, which
/// is therefore atomic.
const PIECE_BYTES: u64 = 4096;

/// The verbs of a post in flight. If it is dropped, they finish without it.
pub struct Post<'p, 'b> {
    client: &'p UcxClient,
    number: u64,
    verbs: &'p mut [FabricVerb<'b>],
    lanes: Vec<UcxPostLane>,
    /// The messages to nodes that execute verbs by messages.
    asked: Vec<UcxPostMessage<'p>>,
}

struct UcxPostLane {
    /// The index of the node among the client's nodes.
    node: usize,
    /// The indices of its verbs among the post's verbs.
    verbs: Vec<usize>,
    /// Number of the verbs that were issued.
    issued: usize,
    flights: VecDeque<Flight>,
    /// True if a write was issued without a later request whose end would show its arrival.
    unflushed: bool,
    /// The time when the last flight was issued.
    asked: Instant,
}

struct Flight {
    what: What,
    /// The transfer, or the pieces of a read or write.
    transfers: Vec<Transfer>,
}

#[derive(Clone, Copy)]
enum What {
    /// A read, with its index among the post's verbs.
    Read(usize),
    Write,
    Add(usize),
    /// A swap: its index, the expected word, and the position among the lane's verbs.
    Swap(usize, u64, usize),
    Flush,
}

impl What {
    /// Returns true if no change may be issued after it before it has ended.
    fn is_in_the_way(self, verbs: &[FabricVerb<'_>]) -> bool {
        match self {
            What::Read(_) => true,
            What::Swap(verb, ..) => masked(&verbs[verb]).is_some_and(|swap| !is_whole(&swap)),
            What::Write | What::Add(_) | What::Flush => false,
        }
    }
}

fn masked(verb: &FabricVerb<'_>) -> Option<MaskedSwap> {
    match verb {
        FabricVerb::Swap { swap, .. } => Some(*swap),
        _ => None,
    }
}

/// Returns true if one compare-and-swap suffices for any word that it finds.
fn is_whole(swap: &MaskedSwap) -> bool {
    swap.compare_mask == u64::MAX
}

impl<'p, 'b> Post<'p, 'b> {
    /// Creates the post of verbs that were checked.
    ///
    /// # Errors
    /// `NoSuchNode`.
    pub fn new(
        client: &'p UcxClient,
        verbs: &'p mut [FabricVerb<'b>],
    ) -> Result<Post<'p, 'b>, FabricError> {
        let mut lanes: Vec<UcxPostLane> = Vec::new();
        let mut asked: Vec<UcxPostMessage<'_>> = Vec::new();
        for (index, verb) in verbs.iter().enumerate() {
            let node = client.node(verb.node())?;
            if client.nodes[node].by_messages {
                match asked.iter_mut().find(|asked| asked.node() == node) {
                    Some(lane) => lane.push(index),
                    None => asked.push(UcxPostMessage::new(node, index)),
                }
                continue;
            }
            let lane = match lanes.iter_mut().position(|lane| lane.node == node) {
                Some(lane) => &mut lanes[lane],
                None => {
                    lanes.push(UcxPostLane::new(node));
                    let last = lanes.len() - 1;
                    &mut lanes[last]
                }
            };
            lane.verbs.push(index);
        }
        Ok(Post {
            client,
            number: client.next_number(),
            verbs,
            lanes,
            asked,
        })
    }

    /// Issues all verbs that can be issued now, without waiting.
    ///
    /// # Errors
    /// `NodeLost`.
    pub fn begin(&mut self) -> Result<(), FabricError> {
        for lane in &mut self.lanes {
            lane.issue(self.client, self.number, self.verbs)?;
        }
        for asked in &self.asked {
            asked.tell(self.client, self.verbs);
        }
        Ok(())
    }

    /// Advances as far as is possible without waiting.
    ///
    /// # Errors
    /// `NodeLost`.
    pub fn advance(&mut self) -> Poll<Result<(), FabricError>> {
        let mut all_done = true;
        for lane in &mut self.lanes {
            match lane.advance(self.client, self.number, self.verbs) {
                Ok(done) => all_done &= done,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        for asked in &mut self.asked {
            match asked.advance(self.client, self.verbs) {
                Ok(done) => all_done &= done,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if all_done {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Post<'_, '_> {
    fn drop(&mut self) {
        for lane in &mut self.lanes {
            let flights = lane.flights.drain(..);
            self.client
                .adopt(flights.flat_map(|flight| flight.transfers));
        }
    }
}

impl UcxPostLane {
    fn new(node: usize) -> UcxPostLane {
        UcxPostLane {
            node,
            verbs: Vec::new(),
            issued: 0,
            flights: VecDeque::new(),
            unflushed: false,
            asked: Instant::now(),
        }
    }

    /// Advances the lane. Returns true if all is done.
    fn advance(
        &mut self,
        client: &UcxClient,
        post: u64,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        let node = &client.nodes[self.node];
        self.land(client, verbs)?;
        if node.connection.borrow().is_none() {
            return Err(client.lose(node));
        }
        self.issue(client, post, verbs)?;
        if self.issued == self.verbs.len() && self.unflushed {
            let connection = node.connection.borrow();
            let flush = connection.as_ref().map(UcxConnection::flush);
            drop(connection);
            self.unflushed = false;
            self.start(What::Flush, flush.into_iter().collect());
        }
        // Many requests are done at once.
        self.land(client, verbs)?;
        if self.issued == self.verbs.len() && self.flights.is_empty() && !self.unflushed {
            return Ok(true);
        }
        if !self.flights.is_empty() && client.is_silent(node, self.asked) {
            return Err(client.lose(node));
        }
        Ok(false)
    }

    /// Takes the results that have arrived, in the order of their requests.
    fn land(
        &mut self,
        client: &UcxClient,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<(), FabricError> {
        let node = &client.nodes[self.node];
        while let Some(flight) = self.flights.front_mut() {
            for transfer in &mut flight.transfers {
                match transfer.poll() {
                    // A later flight may be done already, but results are taken in order: a
                    // repeated swap discards those behind it.
                    None => return Ok(()),
                    Some(Ok(())) => {}
                    Some(Err(_)) => return Err(client.lose(node)),
                }
            }
            node.heard.set(Instant::now());
            let Some(flight) = self.flights.pop_front() else {
                break;
            };
            let word = flight.transfers.first().and_then(Transfer::word);
            match flight.what {
                What::Write | What::Flush => {}
                What::Read(verb) => {
                    if let FabricVerb::Read { into, .. } = &mut verbs[verb] {
                        let mut rest = &mut **into;
                        for transfer in &flight.transfers {
                            let bytes = transfer.bytes();
                            let (part, behind) = rest.split_at_mut(bytes.len());
                            part.copy_from_slice(bytes);
                            rest = behind;
                        }
                        debug_assert!(rest.is_empty(), "the pieces of a read are as long as it");
                    }
                }
                What::Add(verb) => {
                    if let (FabricVerb::Add { found, .. }, Some(word)) = (&mut verbs[verb], word) {
                        *found = word;
                    }
                }
                What::Swap(verb, expected, place) => {
                    if let (FabricVerb::Swap { at, swap, found }, Some(word)) =
                        (&mut verbs[verb], word)
                    {
                        *found = word;
                        if word != expected && swap.succeeds(word) {
                            client.guesses.see(*at, word);
                            // The word changed in bits that the mask ignores. The reads behind the
                            // swap may be older than it, so they are repeated as well.
                            let behind = self.flights.drain(..);
                            client.adopt(behind.flat_map(|flight| flight.transfers));
                            self.issued = place;
                            return Ok(());
                        }
                        if word == expected {
                            client.guesses.see(*at, word);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Issues verbs up to one that must wait.
    fn issue(
        &mut self,
        client: &UcxClient,
        post: u64,
        verbs: &[FabricVerb<'_>],
    ) -> Result<(), FabricError> {
        let node = &client.nodes[self.node];
        debug_assert!(self.issued <= self.verbs.len());
        while let Some(&index) = self.verbs.get(self.issued) {
            let verb = &verbs[index];
            let changes = !matches!(verb, FabricVerb::Read { .. });
            let mut flights = self.flights.iter();
            if changes && flights.any(|flight| flight.what.is_in_the_way(verbs)) {
                break;
            }
            let flight = {
                let connection = node.connection.borrow();
                let Some(connection) = &*connection else {
                    return Err(FabricError::NodeLost { node: node.number });
                };
                fence(client, node, changes, post).then(|| {
                    let place = self.issued;
                    fly(client, node, connection, verb, index, place)
                })
            };
            let Some((what, transfers)) = flight else {
                return Err(client.lose(node));
            };
            self.issued += 1;
            // The reply to any later request shows that the writes before it have arrived.
            self.unflushed = matches!(what, What::Write);
            self.start(what, transfers);
        }
        Ok(())
    }

    fn start(&mut self, what: What, transfers: Vec<Transfer>) {
        self.asked = Instant::now();
        self.flights.push_back(Flight { what, transfers });
    }
}

/// Orders earlier requests before later ones, if that is needed. Returns false if UCX refuses.
fn fence(client: &UcxClient, node: &UcxAttachedNode, changes: bool, post: u64) -> bool {
    let read_by = node.read_by.get();
    let needed = node.changed.get() || read_by.is_some_and(|reader| changes || reader == post);
    if needed {
        // The fence holds for all requests of the worker, to any node.
        for node in &client.nodes {
            node.changed.set(false);
            node.read_by.set(None);
        }
    }
    if changes {
        node.changed.set(true);
    } else {
        node.read_by.set(Some(post));
    }
    !needed || client.worker.fence().is_ok()
}

/// Issues a verb.
fn fly(
    client: &UcxClient,
    node: &UcxAttachedNode,
    connection: &UcxConnection,
    verb: &FabricVerb<'_>,
    index: usize,
    place: usize,
) -> (What, Vec<Transfer>) {
    let key = &node.key;
    let address = node.base + verb.address().offset();
    match verb {
        FabricVerb::Read { into, .. } => {
            let get = |(start, bytes)| connection.get(key, address + start, bytes as usize);
            let pieces = pieces(address, into.len() as u64).map(get);
            (What::Read(index), pieces.collect())
        }
        FabricVerb::Write { to, bytes } => {
            // The release of a lock is a write, so the next swap of it guesses right.
            client.guesses.note_written(*to, bytes);
            let put = |(start, length)| {
                let part = bytes[start as usize..][..length as usize].to_vec();
                connection.put(key, address + start, part)
            };
            let pieces = pieces(address, bytes.len() as u64).map(put);
            (What::Write, pieces.collect())
        }
        FabricVerb::Swap { at, swap, .. } => {
            let guess = client.guesses.guess(*at, swap);
            // A guess always fits the mask.
            debug_assert!(swap.succeeds(guess));
            let desired = swap.apply(guess).unwrap_or(guess);
            let swapped = connection.compare_swap(key, address, guess, desired);
            (What::Swap(index, guess, place), vec![swapped])
        }
        FabricVerb::Add { summand, .. } => {
            let added = connection.add(key, address, *summand);
            (What::Add(index), vec![added])
        }
    }
}

/// Divides bytes from an address on into pieces. Returns the offset of each from the first byte,
/// and its length.
fn pieces(address: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = bytes - start;
        let within = (address + start) % PIECE_BYTES;
        let length = rest.min(PIECE_BYTES - within);
        start += length;
        (length > 0).then_some((start - length, length))
    })
}

//! Datagrams without an end keep nobody from its work.

use super::world::{KEY, SWITCH, keys};
use crate::rack::{TENANT, rack, start, words};
use nearfield_offload::net::udp::{ClientError, Datagrams, OffloadClient, serve_node};
use nearfield_offload::net::{CallerSettings, OffloadCallError, OffloadNode, QueryCaller};
use nearfield_offload::structures::programs::list_find;
use nearfield_offload::traversal::{QueryRunner, TraversalQuery, TraversalStatus};
use nearfield_offload::wire::{OffloadMessage, OffloadMessageKind, ProcessAddress};
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The place of a caller.
const HERE: ProcessAddress = ProcessAddress(1);

fn caller() -> CallerSettings {
    CallerSettings::new(HERE, SWITCH, TENANT, KEY)
}

fn query(node: usize) -> TraversalQuery {
    TraversalQuery::new(&list_find(0, 8), start(node), &[7])
}

/// A socket at which a foreign datagram arrives whenever its owner looks for one.
struct FloodedSocket(Instant);

impl Datagrams for FloodedSocket {
    fn send_datagram(&self, _: ProcessAddress, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn receive_datagram(
        &self,
        into: &mut [u8],
        _: Option<Duration>,
    ) -> io::Result<Option<(usize, ProcessAddress)>> {
        // A caller that goes on for ever gets an error, so that the test ends.
        if self.0.elapsed() > Duration::from_secs(30) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let foreign = b"to whom it may concern";
        into[..foreign.len()].copy_from_slice(foreign);
        Ok(Some((foreign.len(), ProcessAddress(66))))
    }
}

#[test]
fn foreign_datagrams_stop_neither_repeats_nor_the_end_of_a_query() {
    let settings = CallerSettings {
        wait_min: Duration::from_millis(1),
        patience: Duration::from_secs(1),
        ..caller()
    };
    let mut client = OffloadClient::with_socket(FloodedSocket(Instant::now()), settings);
    let outcome = client.run(&query(0), 9);
    let no_answer = OffloadCallError::NoAnswer { last: None };
    assert!(
        matches!(outcome, Err(ClientError::Call(error)) if error == no_answer),
        "{outcome:?}"
    );
    let counters = client.counters();
    assert!(
        counters.repeated > 0 && counters.foreign > 0,
        "{counters:?}"
    );
}

/// Anybody can repeat the datagram of a temporary refusal, which has a valid tag.
#[test]
fn replayed_refusals_stop_neither_repeats_nor_the_end_of_a_query() {
    for status in [TraversalStatus::Busy, TraversalStatus::StaleMap] {
        let settings = caller();
        let mut caller = QueryCaller::new(settings);
        let mut out = Vec::new();
        caller.ask(Duration::ZERO, &query(0), 9, &mut out);
        let asked = out.pop().unwrap().datagram;
        let refusal = OffloadMessage {
            kind: OffloadMessageKind::Response,
            status,
            ..OffloadMessage::decode(&asked, |_| Some(KEY)).unwrap()
        };
        let refusal = refusal.encode(&KEY);
        let mut now = Duration::ZERO;
        let completed = loop {
            now += Duration::from_millis(1);
            assert!(now <= settings.patience, "{status:?} goes on for ever");
            let received = caller.receive(now, &refusal, &mut out);
            if let Some(completed) = received.or_else(|| caller.tick(now, &mut out)) {
                break completed;
            }
            assert!(caller.due().is_some_and(|due| due > now));
        };
        let last = Some(status);
        assert_eq!(completed.outcome, Err(OffloadCallError::NoAnswer { last }));
        let counters = caller.counters();
        assert!(counters.repeated > 5, "{counters:?}");
    }
}

/// Each visit of an honest node makes an iteration.
#[test]
fn visits_without_iterations_do_not_stop_the_end_of_a_query() {
    let settings = caller();
    let mut caller = QueryCaller::new(settings);
    let mut out = Vec::new();
    caller.ask(Duration::ZERO, &query(0), 9, &mut out);
    let mut now = Duration::ZERO;
    let completed = loop {
        now += Duration::from_millis(1);
        assert!(now <= settings.patience, "it goes on for ever");
        let mut completed = None;
        if let Some(asked) = out.pop() {
            let asked = OffloadMessage::decode(&asked.datagram, |_| Some(KEY)).unwrap();
            let reply = OffloadMessage {
                kind: OffloadMessageKind::Response,
                status: TraversalStatus::Elsewhere,
                visit: asked.visit + 1,
                ..asked
            };
            completed = caller.receive(now, &reply.encode(&KEY), &mut out);
        }
        if let Some(completed) = completed.or_else(|| caller.tick(now, &mut out)) {
            break completed;
        }
    };
    let last = Some(TraversalStatus::Elsewhere);
    assert_eq!(completed.outcome, Err(OffloadCallError::NoAnswer { last }));
}

/// A socket at which a request arrives first, and then requests that a node refuses, without an
/// end.
struct BusySocket<'s> {
    first: RefCell<Option<Vec<u8>>>,
    refused: Vec<u8>,
    left: Cell<u32>,
    is_answered: Cell<bool>,
    stop: &'s AtomicBool,
}

impl Datagrams for BusySocket<'_> {
    fn send_datagram(&self, _: ProcessAddress, datagram: &[u8]) -> io::Result<()> {
        let sent = OffloadMessage::decode(datagram, |_| Some(KEY)).unwrap();
        if sent.status != TraversalStatus::StaleMap {
            self.is_answered.set(true);
            self.stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn receive_datagram(
        &self,
        into: &mut [u8],
        _: Option<Duration>,
    ) -> io::Result<Option<(usize, ProcessAddress)>> {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.stop.store(true, Ordering::Relaxed);
        }
        let first = self.first.take();
        let datagram = first.as_ref().unwrap_or(&self.refused);
        into[..datagram.len()].copy_from_slice(datagram);
        Ok(Some((datagram.len(), HERE)))
    }
}

#[test]
fn refused_requests_stop_no_traversal() {
    let words = words(1);
    let rack = rack(&words);
    let request = |node: usize| {
        let mut out = Vec::new();
        QueryCaller::new(caller()).ask(Duration::ZERO, &query(node), 9, &mut out);
        let asked = out.pop().unwrap().datagram;
        let body = list_find(0, 8).encode();
        let asked = OffloadMessage::decode(&asked, |_| Some(KEY)).unwrap();
        OffloadMessage { body, ..asked }.encode(&KEY)
    };
    let stop = &AtomicBool::new(false);
    let socket = BusySocket {
        first: Some(request(0)).into(),
        // The node does not hold this address.
        refused: request(1),
        left: 1000.into(),
        is_answered: false.into(),
        stop,
    };
    let mut node = OffloadNode::new(&rack.nodes()[0], keys(), Default::default());
    serve_node(&mut node, &socket, None, stop).unwrap();
    assert!(socket.is_answered.get(), "{}", node.counters());
}

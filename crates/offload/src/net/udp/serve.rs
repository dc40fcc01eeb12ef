//! The loops of switches and memory nodes, which run until they are stopped.

use super::Datagrams;
use crate::net::{OffloadNode, OutgoingDatagram, Switch};
use crate::wire::{Announcement, AuthenticationKey, DATAGRAM_BYTES_MAX, ProcessAddress};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest sleep of a process before it checks if it must stop.
const LOOK: Duration = Duration::from_millis(50);
/// Largest number of datagrams between two turns of the traversals in flight.
const DATAGRAMS: usize = 32;
/// Interval of a memory node's announcements.
const ANNOUNCED_EVERY: Duration = Duration::from_secs(1);

/// The announcement of a memory node's addresses to a switch.
#[derive(Clone, Debug)]
pub struct Announcer {
    /// The switch.
    pub switch: ProcessAddress,
    /// The key that authenticates the node.
    pub key: AuthenticationKey,
    /// The announcement.
    pub announcement: Announcement,
}

/// Runs a memory node until `stop`.
///
/// # Errors
/// The socket is unusable.
pub fn serve_node(
    node: &mut OffloadNode<'_>,
    socket: &impl Datagrams,
    announcer: Option<&Announcer>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let began = Instant::now();
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX + 1];
    let mut out = Vec::new();
    let mut announced: Option<Duration> = None;
    while !stop.load(Ordering::Relaxed) {
        let now = began.elapsed();
        // A switch may have restarted without a map, so the node announces itself again and again.
        if let Some(announcer) = announcer
            && announced.is_none_or(|then| now.saturating_sub(then) >= ANNOUNCED_EVERY)
        {
            let datagram = announcer.announcement.encode(&announcer.key);
            socket.send_datagram(announcer.switch, &datagram)?;
            announced = Some(now);
        }
        for _ in 0..DATAGRAMS {
            // With work to do, the node only looks for datagrams.
            let wait = (!node.has_work()).then_some(LOOK);
            let Some((length, from)) = socket.receive_datagram(&mut buffer, wait)? else {
                break;
            };
            let datagram = buffer.get(..length).unwrap_or_default();
            node.receive(began.elapsed(), from, datagram, &mut out);
            // Replies are not delayed until more requests were read.
            if !out.is_empty() {
                break;
            }
        }
        send_all(socket, &mut out)?;
        // Replies do not take the place of a turn, or a flood of refused requests would stop the
        // traversals of others.
        node.turn(&mut out);
        send_all(socket, &mut out)?;
    }
    Ok(())
}

/// Sends datagrams in their order.
fn send_all(socket: &impl Datagrams, out: &mut Vec<OutgoingDatagram>) -> io::Result<()> {
    for sent in out.drain(..) {
        socket.send_datagram(sent.to, &sent.datagram)?;
    }
    Ok(())
}

/// Runs a switch until `stop`; calls `learned` when the map has changed.
///
/// # Errors
/// The socket is unusable.
pub fn serve_switch(
    switch: &mut Switch,
    socket: &impl Datagrams,
    stop: &AtomicBool,
    mut learned: impl FnMut(&Switch),
) -> io::Result<()> {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX + 1];
    let mut map = switch.map().clone();
    while !stop.load(Ordering::Relaxed) {
        let Some((length, from)) = socket.receive_datagram(&mut buffer, Some(LOOK))? else {
            continue;
        };
        let datagram = buffer.get_mut(..length).unwrap_or_default();
        let announced = switch.counters().announced;
        if let Some(to) = switch.receive(from, datagram) {
            socket.send_datagram(to, datagram)?;
        } else if switch.counters().announced > announced && *switch.map() != map {
            map = switch.map().clone();
            learned(switch);
        }
    }
    Ok(())
}

//! The loops of switches and memory nodes, which run until they are stopped.

use super::{DatagramBatch, Datagrams};
use crate::net::{
    NodeCounters, OffloadNode, OutgoingDatagram, ProgramTranslation, SpareTraversal, Switch,
    TranslatedProgram,
};
use crate::wire::{Announcement, AuthenticationKey, ProcessAddress};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Longest sleep of a process before it checks if it must stop.
const LOOK: Duration = Duration::from_millis(50);
/// Largest number of datagrams between two turns of the traversals in flight.
const DATAGRAMS: usize = 32;
/// Largest number of traversals that wait for workers.
const SPARE: usize = 64;
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

/// A thread that translates programs.
struct TranslatorThread {
    jobs: Sender<ProgramTranslation>,
    /// The programs that were translated, and the time that each has taken.
    done: Receiver<(TranslatedProgram, Duration)>,
    is_busy: bool,
}

impl TranslatorThread {
    /// Gives the node what was translated, and takes the next program. The thread has one at a
    /// time, so that it does not work for a tenant that has spent its budget meanwhile.
    fn exchange(&mut self, node: &mut OffloadNode<'_>, now: Duration) {
        while let Ok((done, time)) = self.done.try_recv() {
            node.take_translated(now, done, time);
            self.is_busy = false;
        }
        if !self.is_busy
            && let Some(job) = node.next_translation(now)
        {
            self.is_busy = self.jobs.send(job).is_ok();
        }
    }
}

/// Runs a memory node until `stop`. If the node has a budget for translations, a thread of its own
/// translates programs.
///
/// # Errors
/// The socket is unusable.
pub fn serve_node(
    node: &mut OffloadNode<'_>,
    socket: &impl Datagrams,
    announcer: Option<&Announcer>,
    stop: &AtomicBool,
) -> io::Result<()> {
    serve_with(node, socket, announcer, stop, None)
}

/// Traversals that a node has given away, for its workers.
#[derive(Default)]
struct SpareQueue {
    waiting: Mutex<VecDeque<SpareTraversal>>,
    arrived: Condvar,
}

impl SpareQueue {
    /// Takes the work that a node can spare until there is no room. The rest waits at the node,
    /// which refuses requests if it has too many.
    fn fill(&self, node: &mut OffloadNode<'_>) {
        // Without surplus the node's thread takes no lock.
        if node.has_room() {
            return;
        }
        let mut waiting = self.waiting.lock();
        while waiting.len() < SPARE
            && let Some(spare) = node.spare()
        {
            waiting.push_back(spare);
            self.arrived.notify_one();
        }
    }

    /// Moves traversals to a worker that has room. Waits for the first one if it has none.
    fn give(&self, worker: &mut OffloadNode<'_>) {
        let mut waiting = self.waiting.lock();
        if waiting.is_empty() && !worker.has_work() {
            // A worker that wakes up for nothing checks if it must stop.
            let _ = self.arrived.wait_for(&mut waiting, LOOK);
        }
        while worker.has_room()
            && let Some(spare) = waiting.pop_front()
        {
            worker.adopt(spare);
        }
    }
}

/// Runs a memory node until `stop`, like [`serve_node`], with workers: nodes that `worker` creates,
/// each on a thread of its own, on the same memory and with the same settings. They run traversals
/// that only read, when the node has more than it can have in flight. Returns the counters of the
/// workers.
///
/// A traversal of a worker may read while one of the node stores. It may see a part of the stores
/// of an iteration.
///
/// # Errors
/// The socket is unusable.
pub fn serve_node_with_workers<'m>(
    node: &mut OffloadNode<'_>,
    workers: usize,
    worker: impl Fn() -> OffloadNode<'m> + Sync,
    socket: &(impl Datagrams + Sync),
    announcer: Option<&Announcer>,
    stop: &AtomicBool,
) -> io::Result<NodeCounters> {
    let queue = SpareQueue::default();
    let (queue, worker) = (&queue, &worker);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers)
            .map(|_| scope.spawn(move || run_worker(&mut worker(), queue, socket, stop)))
            .collect();
        // Without workers nothing may be given away.
        let spare = (!workers.is_empty()).then_some(queue);
        let served = serve_with(node, socket, announcer, stop, spare);
        // After an error the workers must end, too.
        stop.store(true, Ordering::Relaxed);
        let mut counters = NodeCounters::default();
        for worker in workers {
            match worker.join() {
                Ok(worked) => counters.add(&worked?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        served.map(|()| counters)
    })
}

/// Runs a worker until `stop`.
fn run_worker(
    node: &mut OffloadNode<'_>,
    queue: &SpareQueue,
    socket: &impl Datagrams,
    stop: &AtomicBool,
) -> io::Result<NodeCounters> {
    let mut out = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        queue.give(node);
        node.turn(&mut out);
        if let Err(error) = send_all(socket, &mut out) {
            // The node ends, too, and with it all that wait for this worker.
            stop.store(true, Ordering::Relaxed);
            return Err(error);
        }
    }
    Ok(node.counters().clone())
}

/// Runs a memory node, and a thread for its translations if it has a budget for them.
fn serve_with(
    node: &mut OffloadNode<'_>,
    socket: &impl Datagrams,
    announcer: Option<&Announcer>,
    stop: &AtomicBool,
    spare: Option<&SpareQueue>,
) -> io::Result<()> {
    if !node.translates_apart() {
        return run_node(node, socket, announcer, stop, (None, spare));
    }
    std::thread::scope(|scope| {
        let (jobs, to_do) = mpsc::channel::<ProgramTranslation>();
        let (finished, done) = mpsc::channel();
        scope.spawn(move || {
            for job in to_do {
                let began = Instant::now();
                let translated = job.run();
                if finished.send((translated, began.elapsed())).is_err() {
                    break;
                }
            }
        });
        let translator = TranslatorThread {
            jobs,
            done,
            is_busy: false,
        };
        // The thread ends when the node has dropped its end of the channel.
        run_node(node, socket, announcer, stop, (Some(translator), spare))
    })
}

fn run_node(
    node: &mut OffloadNode<'_>,
    socket: &impl Datagrams,
    announcer: Option<&Announcer>,
    stop: &AtomicBool,
    (mut translator, spare): (Option<TranslatorThread>, Option<&SpareQueue>),
) -> io::Result<()> {
    let began = Instant::now();
    let mut batch = DatagramBatch::new(DATAGRAMS);
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
        // With work to do, the node only looks for datagrams.
        let wait = (!node.has_work()).then_some(LOOK);
        socket.receive_datagrams(&mut batch, wait)?;
        // Datagrams may have been waited for.
        let now = began.elapsed();
        for (datagram, from) in batch.iter() {
            node.receive(now, from, datagram, &mut out);
        }
        send_all(socket, &mut out)?;
        // Replies do not take the place of a turn, or a flood of refused requests would stop the
        // traversals of others.
        node.turn(&mut out);
        send_all(socket, &mut out)?;
        if let Some(spare) = spare {
            spare.fill(node);
        }
        if let Some(translator) = &mut translator {
            translator.exchange(node, now);
        }
    }
    Ok(())
}

/// Sends datagrams in their order.
pub(super) fn send_all(socket: &impl Datagrams, out: &mut Vec<OutgoingDatagram>) -> io::Result<()> {
    if let [sent] = &out[..] {
        // Most turns end one traversal, and most requests are one datagram, which needs no list.
        socket.send_datagram(sent.to, &sent.datagram)?;
    } else if !out.is_empty() {
        let datagrams = out.iter().map(|sent| (sent.to, sent.datagram.as_slice()));
        socket.send_datagrams(&datagrams.collect::<Vec<_>>())?;
    }
    out.clear();
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
    let mut batch = DatagramBatch::new(DATAGRAMS);
    let mut map = switch.map().clone();
    while !stop.load(Ordering::Relaxed) {
        socket.receive_datagrams(&mut batch, Some(LOOK))?;
        let announced = switch.counters().announced;
        let mut sent = Vec::with_capacity(batch.len());
        for (datagram, from) in batch.iter_mut() {
            if let Some(to) = switch.receive(from, datagram) {
                sent.push((to, &*datagram));
            }
        }
        socket.send_datagrams(&sent)?;
        if switch.counters().announced > announced && *switch.map() != map {
            map = switch.map().clone();
            learned(switch);
        }
    }
    Ok(())
}

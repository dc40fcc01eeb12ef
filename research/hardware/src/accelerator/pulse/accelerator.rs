//! The accelerator, from event to event.

use super::super::{
    Departure, DepartureReason, HardwareTraversal, Iteration, MemorySpan, RackNode,
    TranslationTable, Verdict,
};
use super::dram::PulseDram;
use super::{ParameterError, PulseDesign, PulseMemoryModel, PulseParameters, PulseUsage};
use crate::VirtualTime;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The accelerator of a memory node.
#[derive(Debug)]
pub struct PulseAccelerator<T> {
    parameters: PulseParameters,
    design: PulseDesign,
    table: TranslationTable,
    /// The future events with their times; simultaneous events are in the order in which they were
    /// caused.
    events: BinaryHeap<Reverse<(VirtualTime, u64, PulseEvent)>>,
    caused: u64,
    /// The traversals in the network stack on their way in, and those that wait for a workspace.
    arriving: VecDeque<T>,
    waiting: VecDeque<(VirtualTime, T)>,
    /// The traversals on their way out.
    leaving: VecDeque<(T, DepartureReason)>,
    inward_free: VirtualTime,
    outward_free: VirtualTime,
    scheduler_free: VirtualTime,
    workspaces: Vec<Option<Active<T>>>,
    /// The workspaces that wait for a memory pipeline, and for a burst, in order.
    to_translate: VecDeque<usize>,
    to_burst: Vec<usize>,
    memory_busy: Vec<bool>,
    /// The channels that carry a burst; unused with a model of DRAM, which has its own.
    channel_busy: Vec<bool>,
    dram: Option<PulseDram>,
    /// True while a burst passes the interconnect that all channels share.
    interconnect_busy: bool,
    logic: Vec<PulseLogicPipeline>,
    usage: PulseUsage,
}

/// A logic pipeline, and the workspaces that wait for it.
#[derive(Clone, Debug, Default)]
struct PulseLogicPipeline {
    busy: bool,
    waiting: VecDeque<usize>,
}

/// A traversal in a workspace.
#[derive(Debug)]
struct Active<T> {
    traversal: T,
    since: VirtualTime,
    /// The kind of transfer of the memory pipeline, and its progress.
    moving: PulseTransfer,
    span: MemorySpan,
    moved: u32,
    /// The memory pipeline, and the time at which it began to translate.
    pipeline: usize,
    began: VirtualTime,
    /// The result of the last logic, and the number of its stores that are done.
    iteration: Iteration,
    stored: usize,
    end: DepartureReason,
    /// The time that is accounted for; the rest until it leaves is waiting.
    seen: VirtualTime,
}

/// The transfer that a memory pipeline makes for a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PulseTransfer {
    Fetch,
    Store,
}

/// An event of the accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PulseEvent {
    /// The network stack has received the request that came first.
    Accepted,
    /// The scheduler has reached a workspace.
    Scheduled(usize, PulseSchedulerStep),
    /// An address has been translated.
    Translated(usize),
    /// DRAM has the first byte, or takes it.
    Accessed(usize),
    /// A burst has ended: its workspace, channel and bytes.
    Moved(usize, usize, u32),
    /// All bytes have arrived, at an edge of the clock.
    Arrived(usize),
    /// Logic has ended.
    Computed(usize),
    /// The first packet to leave leaves.
    Left,
}

/// The step that the scheduler starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PulseSchedulerStep {
    Memory,
    Logic,
    Reply,
}

impl<T: HardwareTraversal> PulseAccelerator<T> {
    /// Creates an idle accelerator.
    ///
    /// # Errors
    /// See [`PulseParameters::check`].
    pub fn new(
        parameters: PulseParameters,
        design: PulseDesign,
        table: TranslationTable,
    ) -> Result<PulseAccelerator<T>, ParameterError> {
        parameters.check(design)?;
        let dram = match parameters.memory {
            PulseMemoryModel::Channels => None,
            PulseMemoryModel::Dram => Some(PulseDram::new(parameters, design.workspaces())?),
        };
        Ok(PulseAccelerator {
            parameters,
            design,
            table,
            events: BinaryHeap::new(),
            caused: 0,
            arriving: VecDeque::new(),
            waiting: VecDeque::new(),
            leaving: VecDeque::new(),
            inward_free: VirtualTime::ZERO,
            outward_free: VirtualTime::ZERO,
            scheduler_free: VirtualTime::ZERO,
            workspaces: (0..design.workspaces()).map(|_| None).collect(),
            to_translate: VecDeque::new(),
            to_burst: Vec::new(),
            memory_busy: vec![false; design.memory()],
            channel_busy: vec![false; parameters.channels],
            dram,
            interconnect_busy: false,
            logic: vec![PulseLogicPipeline::default(); design.logic()],
            usage: PulseUsage::default(),
        })
    }

    /// Returns its usage so far.
    pub fn usage(&self) -> PulseUsage {
        self.usage
    }

    fn cause(&mut self, at: VirtualTime, event: PulseEvent) {
        self.caused += 1;
        self.events.push(Reverse((at, self.caused, event)));
    }

    /// Returns the logic pipeline of a workspace.
    fn logic_of(&self, workspace: usize) -> usize {
        workspace % self.logic.len()
    }

    /// Returns the memory pipeline of a workspace of the coupled design.
    fn core_of(&self, workspace: usize) -> usize {
        workspace % self.memory_busy.len()
    }

    fn is_coupled(&self) -> bool {
        matches!(self.design, PulseDesign::Coupled { .. })
    }

    fn active(&mut self, workspace: usize) -> Option<&mut Active<T>> {
        self.workspaces.get_mut(workspace)?.as_mut()
    }

    fn happen(&mut self, now: VirtualTime, event: PulseEvent, departures: &mut Vec<Departure<T>>) {
        match event {
            PulseEvent::Accepted => {
                if let Some(traversal) = self.arriving.pop_front() {
                    self.waiting.push_back((now, traversal));
                }
            }
            PulseEvent::Scheduled(workspace, PulseSchedulerStep::Memory) => {
                self.to_translate.push_back(workspace)
            }
            PulseEvent::Scheduled(workspace, PulseSchedulerStep::Logic) => {
                let logic = self.logic_of(workspace);
                self.logic[logic].waiting.push_back(workspace);
            }
            PulseEvent::Scheduled(workspace, PulseSchedulerStep::Reply) => {
                self.leave(now, workspace)
            }
            PulseEvent::Translated(workspace) => self.translated(now, workspace),
            PulseEvent::Accessed(workspace) => self.to_burst.push(workspace),
            PulseEvent::Moved(workspace, channel, bytes) => {
                self.moved(now, workspace, channel, bytes)
            }
            PulseEvent::Arrived(workspace) => self.arrived(now, workspace),
            PulseEvent::Computed(workspace) => {
                let logic = self.logic_of(workspace);
                debug_assert!(self.logic[logic].busy);
                // The pipeline is free before the stores of its iteration are made: memory
                // pipelines make those.
                self.logic[logic].busy = false;
                self.continue_after(now, workspace);
            }
            PulseEvent::Left => {
                if let Some((traversal, end)) = self.leaving.pop_front() {
                    self.usage.departures += 1;
                    departures.push(Departure {
                        at: now,
                        traversal,
                        end,
                    });
                }
            }
        }
    }

    /// Makes the scheduler start something for a workspace.
    fn schedule(&mut self, now: VirtualTime, workspace: usize, step: PulseSchedulerStep) {
        let now = self.parameters.edge(now);
        // A core of its own needs no scheduler to find its pipelines.
        if self.is_coupled() {
            self.cause(now, PulseEvent::Scheduled(workspace, step));
            return;
        }
        let begins = now.max(self.scheduler_free);
        // The scheduler is a pipeline: it takes the next event a cycle later, however long each
        // takes.
        self.scheduler_free = begins + self.parameters.cycle;
        let takes = self.parameters.cycles(self.parameters.schedule_cycles);
        self.usage.breakdown.schedule += takes;
        if let Some(active) = self.active(workspace) {
            active.seen += takes;
        }
        self.cause(begins + takes, PulseEvent::Scheduled(workspace, step));
    }

    /// Puts waiting traversals into free workspaces, at the logic pipelines with most of these.
    fn admit(&mut self, now: VirtualTime) {
        while !self.waiting.is_empty() {
            let mut free = vec![0_usize; self.logic.len()];
            for (workspace, active) in self.workspaces.iter().enumerate() {
                free[self.logic_of(workspace)] += usize::from(active.is_none());
            }
            let is_free = |&workspace: &usize| self.workspaces[workspace].is_none();
            let candidates = (0..self.workspaces.len()).filter(is_free);
            // Workspaces belong to logic pipelines, so traversals are spread over these.
            let best = candidates
                .max_by_key(|&workspace| (free[self.logic_of(workspace)], Reverse(workspace)));
            let Some(workspace) = best else {
                return;
            };
            let Some((since, traversal)) = self.waiting.pop_front() else {
                return;
            };
            // The first fetch is known from the request, so no logic precedes it.
            let span = traversal.fetch();
            self.usage.breakdown.waiting += now - since;
            self.workspaces[workspace] = Some(Active {
                traversal,
                since: now,
                moving: PulseTransfer::Fetch,
                span,
                moved: 0,
                pipeline: 0,
                began: now,
                iteration: Iteration {
                    instructions: 0,
                    stores: Vec::new(),
                    verdict: Verdict::Next,
                },
                stored: 0,
                end: DepartureReason::Returned,
                seen: VirtualTime::ZERO,
            });
            self.schedule(now, workspace, PulseSchedulerStep::Memory);
        }
    }

    /// Starts waiting work on free pipelines: bursts first, which free a pipeline soonest.
    fn start(&mut self, now: VirtualTime) {
        let mut index = 0;
        while let Some(&workspace) = self.to_burst.get(index) {
            if self.start_burst(now, workspace) {
                self.to_burst.remove(index);
            } else {
                index += 1;
            }
        }
        let mut index = 0;
        while let Some(&workspace) = self.to_translate.get(index) {
            // Requests that a busy pipeline holds up do not hold up others behind them.
            let pipeline = match self.is_coupled() {
                true => Some(self.core_of(workspace)).filter(|&core| !self.memory_busy[core]),
                false => self.memory_busy.iter().position(|busy| !busy),
            };
            let Some(pipeline) = pipeline else {
                index += 1;
                continue;
            };
            self.to_translate.remove(index);
            self.memory_busy[pipeline] = true;
            let takes = self.parameters.cycles(self.parameters.translate_cycles);
            self.usage.memory_busy += takes;
            let begins = self.parameters.edge(now);
            if let Some(active) = self.active(workspace) {
                active.pipeline = pipeline;
                active.began = begins;
            }
            self.cause(begins + takes, PulseEvent::Translated(workspace));
        }
        for logic in 0..self.logic.len() {
            self.start_logic(now, logic);
        }
    }

    /// Starts the next burst of a workspace, if its pipeline and its channel are free.
    fn start_burst(&mut self, now: VirtualTime, workspace: usize) -> bool {
        let parameters = self.parameters;
        let Some(active) = self.active(workspace) else {
            return true;
        };
        let pipeline = active.pipeline;
        debug_assert!(active.moved <= active.span.bytes);
        let at = active.span.address.saturating_add(active.moved.into());
        let left = active.span.bytes - active.moved;
        let Some((bytes, channel)) = parameters.bursts(at, left).next() else {
            // Without bytes, it is done at once.
            let edge = parameters.edge(now);
            self.cause(edge, PulseEvent::Arrived(workspace));
            return true;
        };
        let is_held = parameters.shares_interconnect && self.interconnect_busy;
        // DRAM has read the lines of the burst when it may begin.
        let is_carrying = self.dram.is_none() && self.channel_busy[channel];
        if self.memory_busy[pipeline] || is_carrying || is_held {
            return false;
        }
        self.memory_busy[pipeline] = true;
        self.channel_busy[channel] = true;
        self.interconnect_busy = true;
        let takes = parameters.burst(bytes);
        // A burst holds all parts: the channel carries the bytes into the pipeline.
        self.usage.memory_busy += takes;
        self.usage.channels_busy += takes;
        self.usage.bytes += parameters.carried(bytes);
        self.cause(now + takes, PulseEvent::Moved(workspace, channel, bytes));
        true
    }

    fn start_logic(&mut self, now: VirtualTime, logic: usize) {
        if self.logic[logic].busy {
            return;
        }
        let Some(workspace) = self.logic[logic].waiting.pop_front() else {
            return;
        };
        self.logic[logic].busy = true;
        let parameters = self.parameters;
        let Some(active) = self.active(workspace) else {
            return;
        };
        // The logic runs at its start and takes effect at its end: `continue_after` makes the
        // stores.
        active.iteration = active.traversal.execute();
        active.stored = 0;
        let instructions = active.iteration.instructions;
        let takes = parameters.logic(instructions);
        active.seen += takes;
        self.usage.iterations += 1;
        self.usage.instructions += u64::from(instructions);
        self.usage.logic_busy += takes;
        self.usage.breakdown.logic += takes;
        self.cause(
            parameters.edge(now) + takes,
            PulseEvent::Computed(workspace),
        );
    }

    fn translated(&mut self, now: VirtualTime, workspace: usize) {
        let Some(active) = self.active(workspace) else {
            return;
        };
        let (pipeline, span) = (active.pipeline, active.span);
        let stores = active.moving == PulseTransfer::Store;
        debug_assert!(self.memory_busy[pipeline]);
        // The pipeline does not wait for DRAM. It serves others until the first byte is there.
        self.memory_busy[pipeline] = false;
        match self.table.check(span, stores) {
            // Bytes to write need not wait for data: the channel takes them when it is free.
            Ok(()) if stores => self.cause(now, PulseEvent::Accessed(workspace)),
            Ok(()) => self.access(now, workspace, span),
            Err(refusal) => self.end(now, workspace, DepartureReason::Refused(refusal)),
        }
    }

    /// Asks DRAM for the bytes of a fetch.
    fn access(&mut self, now: VirtualTime, workspace: usize, span: MemorySpan) {
        // Without bytes there are no lines to wait for.
        if span.bytes > 0
            && let Some(dram) = &mut self.dram
        {
            dram.begin(now, workspace, span);
            return;
        }
        let at = now + self.parameters.access;
        self.cause(at, PulseEvent::Accessed(workspace));
    }

    /// Lets DRAM work up to the next event. No line is requested before that, nor before a request
    /// that arrives now has been translated.
    fn advance_dram(&mut self, now: VirtualTime) {
        let parameters = self.parameters;
        let translated = parameters.cycles(parameters.translate_cycles);
        let ahead = now + parameters.network() + translated;
        let mut complete = Vec::new();
        loop {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let until = event.map_or(ahead, |at| at.min(ahead));
            let Some(dram) = &mut self.dram else {
                return;
            };
            match dram.next() {
                Some(at) if at <= until => dram.advance(at, &mut complete),
                _ => return,
            }
            for workspace in complete.drain(..) {
                self.await_burst(now, workspace);
            }
        }
    }

    /// Begins the next burst of a fetch when DRAM has its lines, if that time is known.
    fn await_burst(&mut self, now: VirtualTime, workspace: usize) {
        let dram = self.dram.as_mut();
        if let Some(at) = dram.and_then(|dram| dram.ready(workspace)) {
            self.cause(at.max(now), PulseEvent::Accessed(workspace));
        }
    }

    fn moved(&mut self, now: VirtualTime, workspace: usize, channel: usize, bytes: u32) {
        debug_assert!(self.channel_busy[channel] || self.dram.is_some());
        self.channel_busy[channel] = false;
        self.interconnect_busy = false;
        let Some(active) = self.active(workspace) else {
            return;
        };
        let pipeline = active.pipeline;
        let address = active.span.address.saturating_add(active.moved.into());
        let moving = active.moving;
        active.moved += bytes;
        let is_done = active.moved >= active.span.bytes;
        debug_assert!(self.memory_busy[pipeline]);
        self.memory_busy[pipeline] = false;
        match (&mut self.dram, moving) {
            (Some(dram), PulseTransfer::Fetch) => dram.taken(now, workspace),
            (Some(dram), PulseTransfer::Store) => dram.write(now, channel, address, bytes),
            (None, _) => {}
        }
        let reads_on = self.dram.is_some() && moving == PulseTransfer::Fetch;
        match (is_done, reads_on) {
            (true, _) => self.cause(self.parameters.edge(now), PulseEvent::Arrived(workspace)),
            (false, true) => self.await_burst(now, workspace),
            // Between two bursts others may use the pipeline and the channel.
            (false, false) => self.to_burst.push(workspace),
        }
    }

    /// Handles the arrival of all bytes of a fetch or store.
    fn arrived(&mut self, now: VirtualTime, workspace: usize) {
        let Some(active) = self.active(workspace) else {
            return;
        };
        let took = now - active.began;
        active.seen += took;
        let moving = active.moving;
        match moving {
            // The bytes are taken here, so stores of others up to this moment are seen.
            PulseTransfer::Fetch => active.traversal.load(),
            PulseTransfer::Store => active.stored += 1,
        }
        self.usage.breakdown.memory += took;
        self.usage.breakdown.fetches += 1;
        match moving {
            PulseTransfer::Fetch => self.schedule(now, workspace, PulseSchedulerStep::Logic),
            PulseTransfer::Store => self.continue_after(now, workspace),
        }
    }

    /// Continues after logic or a store: with the next store, the next fetch or the reply.
    fn continue_after(&mut self, now: VirtualTime, workspace: usize) {
        let table = &self.table;
        let Some(Some(active)) = self.workspaces.get_mut(workspace) else {
            return;
        };
        // The next transfer of the workspace begins at its first byte.
        active.moved = 0;
        if active.stored == 0 {
            // All stores are permitted before the first is made.
            let mut stores = active.iteration.stores.iter();
            let refusal = stores.find_map(|&store| table.check(store, true).err());
            if let Some(refusal) = refusal {
                self.end(now, workspace, DepartureReason::Refused(refusal));
                return;
            }
            if !active.iteration.stores.is_empty() {
                active.traversal.store();
            }
        }
        // Stores are made one by one, each with a translation of its own.
        if let Some(&store) = active.iteration.stores.get(active.stored) {
            active.moving = PulseTransfer::Store;
            active.span = store;
            self.schedule(now, workspace, PulseSchedulerStep::Memory);
            return;
        }
        match active.iteration.verdict {
            Verdict::Next => {
                active.moving = PulseTransfer::Fetch;
                active.span = active.traversal.fetch();
                self.schedule(now, workspace, PulseSchedulerStep::Memory);
            }
            Verdict::Return => self.end(now, workspace, DepartureReason::Returned),
            Verdict::Limit => self.end(now, workspace, DepartureReason::Limit),
        }
    }

    fn end(&mut self, now: VirtualTime, workspace: usize, end: DepartureReason) {
        if let Some(active) = self.active(workspace) {
            active.end = end;
        }
        // Even a refused traversal leaves through the scheduler, which finds its workspace.
        self.schedule(now, workspace, PulseSchedulerStep::Reply);
    }

    /// Takes a traversal out of its workspace into the network stack.
    fn leave(&mut self, now: VirtualTime, workspace: usize) {
        let Some(active) = self.workspaces.get_mut(workspace).and_then(Option::take) else {
            return;
        };
        let held = now - active.since;
        debug_assert!(active.seen <= held, "the parts do not overlap");
        self.usage.workspaces_busy += held;
        // All time in the workspace that no part has accounted for is waiting.
        self.usage.breakdown.waiting += held - active.seen;
        let departure = Departure {
            at: now,
            traversal: active.traversal,
            end: active.end,
        };
        let packet = self.parameters.packet(departure.bytes());
        // Packets leave one after another. The latency of the stack is the same for all, so their
        // order stays.
        let begins = now.max(self.outward_free);
        self.outward_free = begins + packet;
        let takes = packet + self.parameters.network();
        self.usage.breakdown.network += takes;
        self.leaving.push_back((departure.traversal, departure.end));
        self.cause(begins + takes, PulseEvent::Left);
    }
}

impl<T: HardwareTraversal> RackNode for PulseAccelerator<T> {
    type Work = T;

    fn submit(&mut self, arrival: VirtualTime, work: T) {
        let packet = self.parameters.packet(work.request_bytes());
        // Packets enter one after another, as in the other direction.
        let begins = arrival.max(self.inward_free);
        self.inward_free = begins + packet;
        let takes = packet + self.parameters.network();
        self.usage.breakdown.network += takes;
        self.arriving.push_back(work);
        self.cause(begins + takes, PulseEvent::Accepted);
    }

    fn next_event(&self) -> Option<VirtualTime> {
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        let line = self.dram.as_ref().and_then(PulseDram::next);
        event.into_iter().chain(line).min()
    }

    fn step(&mut self, departures: &mut Vec<Departure<T>>) {
        let Some(now) = self.next_event() else {
            return;
        };
        // All events of a moment happen before new work starts, so that the order of simultaneous
        // events does not decide which pipelines are free.
        while let Some(&Reverse((at, _, event))) = self.events.peek()
            && at == now
        {
            self.events.pop();
            self.happen(now, event, departures);
        }
        self.admit(now);
        self.start(now);
        self.advance_dram(now);
    }
}

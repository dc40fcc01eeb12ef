//! The run of one placement under one load.

use super::addresses::HybridAddressAllocator;
use super::hybrid::{Hybrid, HybridCost, VARIANTS};
use super::load::{AdmRequest, AdmWorkload};
use super::placement::{ADM_INTERVAL, AdmPlacement, FixedPlacement, adm, ours, time};
use crate::figures::job::PointError;
use crate::harness::Interrupt;
use nearfield_hardware::dram::DramAccess;
use nearfield_tiers::policy::{ObjectUse, PolicySimulation, TieringPolicy};
use std::collections::VecDeque;

/// The outcome of a placement under a load.
#[derive(Clone, Debug, Default)]
pub(super) struct PlacementOutcome {
    /// Share of the requests of the second half that the fast memory served, when policies have
    /// found the hot objects. The next field has the share of each of the `PARTS` parts of the run.
    pub served: f64,
    pub parts: Vec<f64>,
    /// Bytes that moved. The next field is the bytes that requests read and wrote. Both are of the
    /// whole run.
    pub moved_bytes: u64,
    pub request_bytes: u64,
    /// Lines that the model of memory has executed: of the fast memory and the slow one, reads and
    /// writes, copies included.
    pub lines: [[u64; 2]; 2],
    /// The costs by variant.
    pub costs: Vec<HybridCost>,
}

/// Number of parts of a run for which a share is recorded.
pub(super) const PARTS: usize = 20;
/// Number of successive requests of a window; the model of memory executes their lines.
pub(super) const WINDOW: usize = 100;
const READ: usize = 0;
const WRITE: usize = 1;

/// Plays a load on a placement.
pub(super) fn play(
    load: &AdmWorkload,
    placement: AdmPlacement,
    interrupt: &Interrupt,
) -> Result<PlacementOutcome, PointError> {
    match placement {
        AdmPlacement::Adm => AdmRun::new(load, placement, adm(&load.scale))?.play(interrupt),
        AdmPlacement::Ours => AdmRun::new(load, placement, ours(load))?.play(interrupt),
        _ => AdmRun::new(load, placement, FixedPlacement::default())?.play(interrupt),
    }
}

/// Returns the position of a kind of access in counts of lines.
pub(super) fn direction(access: DramAccess) -> usize {
    match access {
        DramAccess::Read => READ,
        DramAccess::Write => WRITE,
    }
}

/// A copy of an object that a policy has decided, and the memory has not executed yet.
struct Copy {
    from: (usize, u64),
    to: (usize, u64),
    bytes: u64,
}

struct AdmRun<'l, P> {
    load: &'l AdmWorkload,
    placement: AdmPlacement,
    store: PolicySimulation<P>,
    /// The object of each key, and the key of each object.
    object: Vec<usize>,
    key: Vec<usize>,
    /// The size of each object's value; the next field is its memory and address.
    value: Vec<u64>,
    place: Vec<(usize, u64)>,
    addresses: [HybridAddressAllocator; 2],
    memories: Vec<Hybrid>,
    copies: VecDeque<Copy>,
    /// Copies that ADM's walk has decided, which are spread over the requests until the next walk.
    walked: VecDeque<Copy>,
    walked_each: f64,
    walked_due: f64,
    outcome: PlacementOutcome,
    served: [usize; PARTS],
}

impl<'l, P: TieringPolicy> AdmRun<'l, P> {
    fn new(load: &'l AdmWorkload, placement: AdmPlacement, policy: P) -> Result<Self, PointError> {
        let capacities = [placement.capacity(load), u64::MAX];
        let count = load.scale.objects;
        let values = load.values();
        let mut run = AdmRun {
            load,
            placement,
            store: PolicySimulation::new(policy, &capacities, count),
            object: vec![0; count],
            key: Vec::with_capacity(count),
            value: Vec::with_capacity(count),
            place: Vec::with_capacity(count),
            addresses: Default::default(),
            memories: Vec::new(),
            copies: VecDeque::new(),
            walked: VecDeque::new(),
            walked_each: 0.0,
            walked_due: 0.0,
            outcome: PlacementOutcome::default(),
            served: [0; PARTS],
        };
        for variant in VARIANTS {
            let hybrid = Hybrid::new(variant);
            let hybrid = hybrid.map_err(|error| PointError::Missing(error.to_string()))?;
            run.memories.push(hybrid);
        }
        // The order decides which objects the fast memory has room for.
        for key in placement.order(load) {
            let bytes = load.kind.bytes(values[key]);
            let object = run.store.insert(bytes, 0);
            debug_assert_eq!(object, run.key.len(), "objects are numbered as they come");
            let tier = run.store.tier(object);
            run.object[key] = object;
            run.key.push(key);
            run.value.push(values[key]);
            run.place.push((tier, run.addresses[tier].take(bytes)));
        }
        Ok(run)
    }

    fn play(mut self, interrupt: &Interrupt) -> Result<PlacementOutcome, PointError> {
        let load = self.load;
        let requests = load.scale.requests();
        // Chooses the number of windows that gives the wanted number of lines.
        let lines_each = load.kind.bytes(load.bench.bytes_max / 2).div_ceil(64) as usize;
        let windows = (load.scale.lines / (lines_each * WINDOW)).max(1);
        let period = (requests / windows).max(WINDOW);
        for (number, request) in load.requests().enumerate() {
            if number % 4096 == 0 && interrupt.is_raised() {
                return Err(PointError::Interrupted);
            }
            debug_assert!(number < requests);
            // Windows at equal distances see all phases of the run.
            let sampled = number % period < WINDOW;
            let tier = self.request(request, sampled);
            self.served[number * PARTS / requests] += usize::from(tier == 0);
            self.store.pass(time(&load.scale, number));
            self.walk(number);
            self.copy(sampled);
        }
        debug_assert!(self.served.iter().sum::<usize>() <= requests);
        let part = requests as f64 / PARTS as f64;
        self.outcome.parts = self.served.map(|served| served as f64 / part).to_vec();
        let warm = &self.outcome.parts[PARTS / 2..];
        self.outcome.served = warm.iter().sum::<f64>() / warm.len() as f64;
        let powered = self.placement.powered();
        let costs = self
            .memories
            .into_iter()
            .map(|memory| memory.finish(powered));
        self.outcome.costs = costs.collect();
        Ok(self.outcome)
    }

    /// Executes a request and returns the memory that served it.
    fn request(&mut self, request: AdmRequest, sampled: bool) -> usize {
        let (key, by) = match request {
            AdmRequest::Get(key) => (key, ObjectUse::Read),
            AdmRequest::Set(key, _) | AdmRequest::SetElement(key, _) => (key, ObjectUse::Write),
        };
        let object = self.object[key];
        let kind = self.load.kind;
        if let AdmRequest::Set(_, value) = request {
            self.store.resize(object, kind.bytes(value));
            self.resettle(object, value);
        }
        let (tier, address) = self.place[object];
        let bytes = self.store.bytes(object);
        let (begin, end) = match request {
            AdmRequest::SetElement(_, fraction) => {
                let value = self.value[object];
                let number = (fraction * kind.elements(value) as f64) as u64;
                kind.element(value, number)
            }
            _ => (0, bytes),
        };
        debug_assert!(
            begin < end && end <= bytes,
            "{begin} to {end} of {bytes} bytes"
        );
        self.outcome.request_bytes += end - begin;
        if sampled {
            let access = match by {
                ObjectUse::Read => DramAccess::Read,
                ObjectUse::Write => DramAccess::Write,
            };
            self.access(tier, address + begin, address + end, access);
        }
        // A policy moves an object after its use, which the memory before has served.
        if let Some(target) = self.store.request(object, by).moved_to {
            self.moved(object, target);
        }
        tier
    }

    /// Gives an object another value. It gets another block if its size needs one, or if it had to
    /// leave the fast memory.
    fn resettle(&mut self, object: usize, value: u64) {
        // The store has the new size and memory already; `value` and `place` still have the old.
        let before = self.load.kind.bytes(self.value[object]);
        let bytes = self.store.bytes(object);
        let (tier, address) = self.place[object];
        self.addresses[tier].give_back(address, before);
        let tier = self.store.tier(object);
        self.place[object] = (tier, self.addresses[tier].take(bytes));
        self.value[object] = value;
    }

    /// Records that an object has moved to another memory.
    fn moved(&mut self, object: usize, target: usize) {
        let bytes = self.store.bytes(object);
        let from = self.place[object];
        debug_assert_eq!(self.store.tier(object), target);
        self.addresses[from.0].give_back(from.1, bytes);
        let to = (target, self.addresses[target].take(bytes));
        self.place[object] = to;
        // Moves of the fixed placements cost nothing, so they are not copied.
        if matches!(self.placement, AdmPlacement::Adm | AdmPlacement::Ours) {
            self.outcome.moved_bytes += bytes;
            self.copies.push_back(Copy { from, to, bytes });
        }
    }

    fn walk(&mut self, number: usize) {
        let mut moved = Vec::new();
        let record = |object, _, _, target| moved.push((object, target));
        let interval = ADM_INTERVAL * self.load.scale.objects;
        match self.placement {
            AdmPlacement::Adm if (number + 1).is_multiple_of(interval) => {
                self.store.walk_tier(0, record)
            }
            // As the policy demands: it walks all objects within eight requests for each, sooner
            // while the fast memory lacks room.
            AdmPlacement::Ours
                if self.store.policy().deficit(0) > 0 || number.is_multiple_of(8) =>
            {
                self.store.walk(1, record);
            }
            _ => return,
        }
        for (object, target) in moved {
            self.moved(object, target);
        }
        if self.placement == AdmPlacement::Adm {
            self.walked.append(&mut self.copies);
            self.walked_each = self.walked.len() as f64 / interval as f64;
        }
    }

    /// Executes the copies that are due after a request.
    fn copy(&mut self, sampled: bool) {
        self.walked_due += self.walked_each;
        while self.walked_due >= 1.0 {
            self.walked_due -= 1.0;
            self.copies.extend(self.walked.pop_front());
        }
        // Outside of windows the model executes neither requests nor copies.
        while let Some(copy) = self.copies.pop_front() {
            if sampled {
                let (from, source) = copy.from;
                let (to, target) = copy.to;
                self.access(from, source, source + copy.bytes, DramAccess::Read);
                self.access(to, target, target + copy.bytes, DramAccess::Write);
            }
        }
    }

    fn access(&mut self, tier: usize, begin: u64, end: u64, access: DramAccess) {
        debug_assert!(begin <= end);
        let lines = (end.next_multiple_of(64) - begin / 64 * 64) / 64;
        self.outcome.lines[tier][direction(access)] += lines;
        for memory in &mut self.memories {
            memory.access(tier, begin, end, access);
        }
    }
}

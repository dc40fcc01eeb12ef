//! *Traverse*: many walks at once, one step at a time.
//!
//! Walks advance in groups, one step a pass. A step prefetches the lines of the walk's next step,
//! and the other groups have their passes while the lines arrive. A group whose walks have all
//! ended is handed over, and then begins the next visits.
//!
//! If visits are sorted and paths are shared, walks begin as [runs](VisitRun) of neighbouring
//! visits, which walk together until their symbols differ.

use super::combine::KeyVisit;
use crate::counters::RadixProbe;
use crate::leaf::LeafForm;
use crate::node::{
    END, NodeRefKind, RadixInnerNode, RadixNodeHeader, RadixSortedNode, Ref, Symbol,
};
use crate::prefetch::{prefetch, prefetch_close, prefetch_once};
use crate::tree::RadixTree;
use arrayvec::ArrayVec;
use crossbeam_epoch::Guard;
use std::collections::VecDeque;
use std::hint::select_unpredictable;

/// Number of walks in a group.
const GROUP: usize = 32;

/// Number of groups in flight.
const GROUPS: usize = 4;

/// Number of visits that begin together to share their paths.
const SHARING: usize = 32;

/// The walk of one visit: the node that it has reached, the number of the visit, the inner node
/// that led there, and that node's depth plus one. The highest bit of the last is set if the path
/// has skipped bytes.
// Two words, which are passed in registers. Fields that are written one by one and read together
// right after cost more than a step.
#[derive(Clone, Copy, Debug)]
pub struct VisitWalk {
    node_and_visit: u64,
    parent_and_depth: u64,
}

const SKIPPED: u32 = 1 << 31;

impl VisitWalk {
    #[inline]
    fn new(node: Ref, visit: u32, parent: Ref, depth: u32) -> VisitWalk {
        VisitWalk {
            node_and_visit: u64::from(node.bits()) << 32 | u64::from(visit),
            parent_and_depth: u64::from(parent.bits()) << 32 | u64::from(depth),
        }
    }

    /// Returns the node that the walk has reached.
    #[inline]
    pub fn node(&self) -> Ref {
        Ref::from_bits((self.node_and_visit >> 32) as u32)
    }

    /// Returns the number of the visit.
    #[inline]
    pub fn visit(&self) -> u32 {
        self.node_and_visit as u32
    }

    /// Returns the inner node that led to `node`.
    #[inline]
    pub fn parent(&self) -> Ref {
        Ref::from_bits((self.parent_and_depth >> 32) as u32)
    }

    /// Returns the depth of the parent plus one, which is the depth of `node` unless bytes were
    /// skipped.
    #[inline]
    pub fn depth(&self) -> usize {
        (self.parent_and_depth as u32 & !SKIPPED) as usize
    }

    /// Returns the end of this walk, whose key ends within bytes that the path skips.
    #[cold]
    fn outside(self) -> VisitWalk {
        VisitWalk::new(Ref::NULL, self.visit(), Ref::NULL, SKIPPED)
    }

    /// Returns true if the path has skipped bytes.
    #[inline]
    pub fn skipped(&self) -> bool {
        self.parent_and_depth as u32 & SKIPPED != 0
    }
}

/// A walk of several visits that are neighbours.
#[derive(Clone, Copy, Debug)]
pub struct VisitRun {
    /// The inner or dense node that the walk has reached.
    pub node: Ref,
    /// The depth of the parent plus one.
    depth: u32,
    /// True if the path has skipped bytes.
    pub skipped: bool,
    /// The first visit.
    pub first: u32,
    /// The number of visits.
    pub count: u32,
}

/// Receiver of the ended walks.
pub trait Arrivals<F: LeafForm> {
    /// The receiver of the counts.
    type Probe: RadixProbe;
    /// Returns the counters in use.
    fn probe(&mut self) -> &mut Self::Probe;
    /// Reports that a visit will be handed over soon, together with others: its lines may be
    /// prefetched.
    fn coming(&mut self, _walk: &VisitWalk, _key: F::Key<'_>) -> F::Prepared {
        F::Prepared::default()
    }
    /// Executes a visit that has reached a leaf, a dense node or nothing (`walk.node()`), below
    /// `walk.parent()`.
    fn single(&mut self, walk: &VisitWalk, key: F::Key<'_>, prepared: F::Prepared);
    /// Executes a run of visits that has reached the node `run.node`. Only those end there for
    /// which `ends`, indexed by visit, names the node; the others of the run continue elsewhere.
    fn run(&mut self, run: &VisitRun, ends: &[Ref]);
}

/// The visits of a traversal.
pub trait Visits<F: LeafForm>: Copy {
    /// Returns false if certainly no visit locks the node above its leaf.
    fn may_lock(self) -> bool;

    /// Returns the first visit to make.
    fn first(self) -> usize {
        0
    }
    /// Returns the number of visits, including those before the first.
    fn count(self) -> usize;
    /// Returns the key of a visit.
    fn key<'k>(self, visit: usize) -> F::Key<'k>
    where
        Self: 'k;
    /// Returns true if a visit is expected to lock the node above its leaf.
    fn locks_parent(self, visit: usize) -> bool;
}

/// The visits of operations that only read.
#[derive(Debug)]
pub struct ReadVisits<'a, 'k, F: LeafForm>(pub &'a [F::Key<'k>]);

/// Visits of a plan.
#[derive(Debug)]
pub struct PlannedVisits<'a, 'k, F: LeafForm> {
    pub keys: &'a [F::Key<'k>],
    pub visits: &'a [KeyVisit],
}

// A derived implementation would require a form that can be copied.
impl<F: LeafForm> Clone for ReadVisits<'_, '_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: LeafForm> Copy for ReadVisits<'_, '_, F> {}

impl<F: LeafForm> Clone for PlannedVisits<'_, '_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: LeafForm> Copy for PlannedVisits<'_, '_, F> {}

impl<F: LeafForm> Visits<F> for ReadVisits<'_, '_, F> {
    #[inline]
    fn may_lock(self) -> bool {
        false
    }
    #[inline]
    fn count(self) -> usize {
        self.0.len()
    }
    #[inline]
    fn key<'k>(self, visit: usize) -> F::Key<'k>
    where
        Self: 'k,
    {
        F::shorten_key(self.0[visit])
    }
    #[inline]
    fn locks_parent(self, _visit: usize) -> bool {
        false
    }
}

impl<F: LeafForm> Visits<F> for PlannedVisits<'_, '_, F> {
    #[inline]
    fn may_lock(self) -> bool {
        true
    }
    #[inline]
    fn count(self) -> usize {
        self.keys.len()
    }
    #[inline]
    fn key<'k>(self, visit: usize) -> F::Key<'k>
    where
        Self: 'k,
    {
        F::shorten_key(self.keys[visit])
    }
    #[inline]
    fn locks_parent(self, visit: usize) -> bool {
        self.visits[visit].writes
    }
}

/// The settings for walks.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// True if walks do not jump.
    pub from_root: bool,
    /// True if neighbouring visits are sorted, and walk together as long as they can.
    pub share_paths: bool,
    /// True if runs are triggered together.
    pub trigger_together: bool,
    /// True if lines of single walks are fetched for one use only.
    pub keep_hot_close: bool,
}

/// A group of walks that take their steps together.
#[derive(Debug)]
struct WalkGroup<'k, F: LeafForm> {
    count: usize,
    walks: [VisitWalk; GROUP],
    /// The keys of the visits.
    keys: [F::Key<'k>; GROUP],
    /// The places of the walks that have not ended.
    walking: [u8; GROUP],
    walking_count: usize,
}

impl<'k, F: LeafForm> WalkGroup<'k, F> {
    /// Creates a group without walks.
    fn new(any_key: F::Key<'k>) -> Self {
        WalkGroup {
            count: 0,
            walks: [VisitWalk::new(Ref::NULL, 0, Ref::NULL, 0); GROUP],
            keys: [any_key; GROUP],
            walking: [0; GROUP],
            walking_count: 0,
        }
    }

    /// Adds a walk, for which there must be room.
    #[inline]
    fn push(&mut self, walk: VisitWalk, key: F::Key<'k>) {
        debug_assert!(self.count < GROUP, "no room in the group");
        // The remainder changes nothing, and spares the check of the index.
        let place = self.count % GROUP;
        self.count += 1;
        self.walks[place] = walk;
        self.keys[place] = key;
        // The place is always written. If the walk has ended, the next one overwrites it.
        self.walking[self.walking_count % GROUP] = place as u8;
        self.walking_count += usize::from(walk.node().is_inner());
    }

    /// Hands over the walks, which have all ended; returns their number.
    fn hand_over(&mut self, arrivals: &mut impl Arrivals<F>) -> usize {
        debug_assert_eq!(self.walking_count, 0, "a walk has not ended");
        let count = std::mem::take(&mut self.count);
        // All are prepared before the first is executed, so that their lines arrive together.
        let mut prepared = [F::Prepared::default(); GROUP];
        let walks = self.walks[..count].iter().zip(&self.keys);
        for ((walk, key), prepared) in walks.clone().zip(&mut prepared) {
            *prepared = arrivals.coming(walk, *key);
        }
        for ((walk, key), prepared) in walks.zip(prepared) {
            arrivals.single(walk, *key, prepared);
        }
        count
    }
}

/// Creates the groups for a number of visits. A group takes two kibibytes, and so a small batch has
/// only one.
#[inline]
fn walk_groups<'k, F: LeafForm>(
    visits: usize,
    any_key: F::Key<'k>,
) -> ArrayVec<WalkGroup<'k, F>, GROUPS> {
    let count = visits.div_ceil(GROUP).clamp(1, GROUPS);
    (0..count).map(|_| WalkGroup::new(any_key)).collect()
}

/// Reusable memory for traversals.
#[derive(Debug, Default)]
pub struct TraversalScratch {
    /// Walks that have left their runs and wait for a group.
    singles: VecDeque<VisitWalk>,
    /// The runs that take the next steps, and the runs to trigger.
    runs: Vec<VisitRun>,
    next_runs: Vec<VisitRun>,
    arrived_runs: Vec<VisitRun>,
    next_arrived_runs: Vec<VisitRun>,
    /// The node at which a visit ends together with others of its run, indexed by visit.
    ends: Vec<Ref>,
}

impl TraversalScratch {
    /// Walks all visits to their ends.
    pub fn run<F: LeafForm>(
        &mut self,
        tree: &RadixTree<F>,
        guard: &Guard,
        visits: impl Visits<F>,
        manner: Manner,
        arrivals: &mut impl Arrivals<F>,
    ) {
        if visits.first() == visits.count() {
            return;
        }
        let stepper = Stepper {
            tree,
            guard,
            visits,
            manner,
        };
        if manner.share_paths {
            self.run_sharing(&stepper, arrivals);
        } else {
            run_apart(&stepper, arrivals);
        }
    }

    /// Walks neighbouring visits together as far as they can.
    fn run_sharing<F: LeafForm>(
        &mut self,
        stepper: &Stepper<'_, F, impl Visits<F>>,
        arrivals: &mut impl Arrivals<F>,
    ) {
        let visits = stepper.visits.count();
        let any_key = stepper.visits.key(0);
        let mut groups = walk_groups::<F>(visits, any_key);
        self.ends.clear();
        self.ends.resize(visits, Ref::NULL);
        let (mut admitted, mut finished) = (0, 0);
        while finished < visits {
            // Runs split into single walks. Too many of them would wait for groups, and their lines
            // leave the cache.
            if admitted < visits && self.singles.len() < GROUP * GROUPS {
                let count = SHARING.min(visits - admitted);
                self.next_runs.push(VisitRun {
                    node: stepper.tree.root,
                    depth: 0,
                    skipped: false,
                    first: admitted as u32,
                    count: count as u32,
                });
                admitted += count;
            }
            finished += self.round_of_runs(stepper, arrivals);
            for group in &mut groups {
                if stepper.pass(group, arrivals.probe()) {
                    continue;
                }
                finished += group.hand_over(arrivals);
                for walk in self.singles.drain(..GROUP.min(self.singles.len())) {
                    group.push(walk, stepper.visits.key(walk.visit() as usize));
                }
            }
        }
        debug_assert_eq!(finished, visits, "a visit was made twice");
        debug_assert!(
            self.singles.is_empty()
                && self.next_runs.is_empty()
                && self.next_arrived_runs.is_empty(),
            "a walk goes on"
        );
    }

    fn round_of_runs<F: LeafForm>(
        &mut self,
        stepper: &Stepper<'_, F, impl Visits<F>>,
        arrivals: &mut impl Arrivals<F>,
    ) -> usize {
        std::mem::swap(&mut self.runs, &mut self.next_runs);
        std::mem::swap(&mut self.arrived_runs, &mut self.next_arrived_runs);
        // A step pushes to the other lists while it reads this one.
        let runs = std::mem::take(&mut self.runs);
        for run in &runs {
            stepper.step_run(self, run, arrivals.probe());
        }
        self.runs = runs;
        self.runs.clear();
        let mut finished = 0;
        for run in &self.arrived_runs {
            let visits = &self.ends[run.first as usize..][..run.count as usize];
            finished += visits.iter().filter(|end| **end == run.node).count();
            arrivals.run(run, &self.ends);
        }
        self.arrived_runs.clear();
        finished
    }
}

/// Walks each visit from the root. They are handed over in order, so that visits of one key are
/// executed one after another.
fn run_apart<F: LeafForm>(
    stepper: &Stepper<'_, F, impl Visits<F>>,
    arrivals: &mut impl Arrivals<F>,
) {
    let any_key = stepper.visits.key(0);
    let (mut admitted, mut finished) = (stepper.visits.first(), stepper.visits.first());
    let mut groups = walk_groups::<F>(stepper.visits.count() - admitted, any_key);
    let last = groups.len() - 1;
    let mut oldest = 0;
    while finished < stepper.visits.count() {
        for (i, group) in groups.iter_mut().enumerate() {
            // Only the oldest group is handed over, which keeps visits in their order.
            if stepper.pass(group, arrivals.probe()) || i != oldest {
                continue;
            }
            oldest = if oldest == last { 0 } else { oldest + 1 };
            finished += group.hand_over(arrivals);
            let until = (admitted + GROUP).min(stepper.visits.count());
            // The lines of all jumps are requested before the first is read.
            for visit in admitted..until {
                stepper.coming(stepper.visits.key(visit));
            }
            for visit in admitted..until {
                let key = stepper.visits.key(visit);
                group.push(stepper.begin(visit as u32, key, arrivals.probe()), key);
            }
            admitted = until;
        }
    }
}

/// The common state of all steps of a traversal.
struct Stepper<'t, F: LeafForm, V> {
    tree: &'t RadixTree<F>,
    guard: &'t Guard,
    visits: V,
    manner: Manner,
}

impl<F: LeafForm, V: Visits<F>> Stepper<'_, F, V> {
    /// Advances all unfinished walks of a group by one step. Returns true if one is left.
    #[inline]
    fn pass(&self, group: &mut WalkGroup<'_, F>, probe: &mut impl RadixProbe) -> bool {
        let mut left = 0;
        for n in 0..group.walking_count {
            let i = usize::from(group.walking[n % GROUP]) % GROUP;
            let key = group.keys[i];
            let next = match F::MIXES_KINDS {
                true => self.step_mixed(group.walks[i], key, probe),
                false => self.step(group.walks[i], key, probe),
            };
            self.ask_for(next, key);
            group.walks[i] = next;
            // Always written, because a branch would be mispredicted.
            group.walking[left % GROUP] = i as u8;
            left += usize::from(next.node().is_inner());
        }
        group.walking_count = left;
        left > 0
    }

    /// Prefetches the lines by which a walk may jump.
    #[inline]
    fn coming(&self, key: F::Key<'_>) {
        if F::MIXES_KINDS && !self.manner.from_root {
            let jumps = &self.tree.jumps;
            let window = |from, count| F::window(key, from, count);
            jumps.for_each_prefix(window, |prefix| jumps.prefetch(prefix, self.guard));
        }
    }

    /// Begins the walk of a visit after its longest prefix that has a jump. Returns `None` if none
    /// has.
    #[inline]
    fn jump(&self, visit: u32, key: F::Key<'_>) -> Option<VisitWalk> {
        if !F::MIXES_KINDS || self.manner.from_root {
            return None;
        }
        let mut walk = VisitWalk::new(Ref::NULL, visit, Ref::NULL, 0);
        let jumps = &self.tree.jumps;
        let window = |from, count| F::window(key, from, count);
        jumps.for_each_prefix(window, |prefix| {
            let node = jumps.find(prefix, self.guard);
            let skipped = if prefix.is_behind_stem() { SKIPPED } else { 0 };
            // Without a branch, because it would be mispredicted.
            let longer = VisitWalk::new(node, visit, Ref::NULL, prefix.end as u32 | skipped);
            walk = select_unpredictable(node.is_null(), walk, longer);
        });
        (!walk.node().is_null()).then_some(walk)
    }

    /// Takes a visit through the uppermost nodes, which are few enough to stay in the cache: the
    /// root and a node256 below it or, if all keys share their first bytes, the only one.
    #[inline]
    fn begin(&self, visit: u32, key: F::Key<'_>, probe: &mut impl RadixProbe) -> VisitWalk {
        if let Some(walk) = self.jump(visit, key) {
            self.ask_for(walk, key);
            return walk;
        }
        let root = VisitWalk::new(self.tree.root, visit, Ref::NULL, 0);
        let mut walk = self.step(root, key, probe);
        if walk.node().is_256() {
            walk = self.step(walk, key, probe);
        }
        if walk.parent() == self.tree.root && walk.skipped() && walk.node().is_next_256() {
            // The step above only gave the depth.
            walk = self.step(walk, key, probe);
        }
        self.ask_for(walk, key);
        walk
    }

    #[inline]
    fn symbol(&self, visit: u32, depth: usize) -> Option<Symbol> {
        F::symbol(self.visits.key(visit as usize), depth)
    }

    /// Takes a walk one step further.
    // As a call, it takes twice the time.
    #[inline(always)]
    fn step(&self, walk: VisitWalk, key: F::Key<'_>, probe: &mut impl RadixProbe) -> VisitWalk {
        // By conditional branches, because a jump by a table of kinds is often mispredicted.
        if !walk.node().is_next_256() {
            return self.step_other(walk, key, probe);
        }
        self.step_256(walk, key, probe)
    }

    /// Takes a step like `step`, if nodes of several kinds alternate.
    #[inline(always)]
    fn step_mixed(
        &self,
        walk: VisitWalk,
        key: F::Key<'_>,
        probe: &mut impl RadixProbe,
    ) -> VisitWalk {
        if !walk.node().is_small() {
            return self.step_wide(walk, key, probe);
        }
        probe.partial_key_match(1);
        let node = self.tree.memory.small(walk.node());
        let header = node.header();
        self.step_below(header, walk, key, |symbol| match symbol {
            END => header.end(),
            byte => node.covering(byte as u8),
        })
    }

    /// Takes a step from a node256.
    #[inline(never)]
    fn step_wide(
        &self,
        walk: VisitWalk,
        key: F::Key<'_>,
        probe: &mut impl RadixProbe,
    ) -> VisitWalk {
        match walk.node().is_next_256() {
            true => self.step_256(walk, key, probe),
            false => self.step_skipping_256(walk),
        }
    }

    /// Takes a step from a node256 of known depth.
    #[inline(always)]
    fn step_256(&self, walk: VisitWalk, key: F::Key<'_>, probe: &mut impl RadixProbe) -> VisitWalk {
        probe.partial_key_match(1);
        let node = self.tree.memory.node256(walk.node());
        debug_assert_eq!(
            node.header().depth(),
            walk.depth(),
            "the kind tells the depth"
        );
        let child = match F::symbol(key, walk.depth()) {
            Some(symbol) if symbol < 256 => node.find(symbol as u8),
            Some(_) => node.header().end(),
            None => return walk.outside(),
        };
        // The mark of skipped bytes, in the highest bit, is passed on.
        let depth = walk.parent_and_depth as u32 + 1;
        VisitWalk::new(child, walk.visit(), walk.node(), depth)
    }

    /// Reads the depth of a node256: its slot is in another line than its header.
    #[inline]
    fn step_skipping_256(&self, walk: VisitWalk) -> VisitWalk {
        let depth = self.tree.memory.node256(walk.node()).header().depth();
        let node = Ref::new(NodeRefKind::Node256, walk.node().index_of_256());
        VisitWalk::new(node, walk.visit(), walk.parent(), depth as u32 | SKIPPED)
    }

    /// Takes a step like `step`, from any node but a node256 of known depth.
    #[inline(never)]
    fn step_other(
        &self,
        walk: VisitWalk,
        key: F::Key<'_>,
        probe: &mut impl RadixProbe,
    ) -> VisitWalk {
        let node = walk.node();
        let memory = &self.tree.memory;
        if node.is_256() {
            self.step_skipping_256(walk)
        } else if node.kind() == NodeRefKind::Node4 {
            self.step_small(memory.node4(node), walk, key, probe)
        } else if node.kind() == NodeRefKind::Node16 {
            self.step_small(memory.node16(node), walk, key, probe)
        } else {
            self.step_small(memory.node48(node), walk, key, probe)
        }
    }

    /// Takes a step through a small node.
    #[inline]
    fn step_small<N: RadixSortedNode>(
        &self,
        node: &N,
        walk: VisitWalk,
        key: F::Key<'_>,
        probe: &mut impl RadixProbe,
    ) -> VisitWalk {
        probe.partial_key_match(1);
        let header = node.header();
        self.step_below(header, walk, key, |symbol| F::child_of_small(node, symbol))
    }

    /// Takes a step through a small node to the child that `find` returns, which is validated.
    #[inline(always)]
    fn step_below(
        &self,
        header: &RadixNodeHeader,
        walk: VisitWalk,
        key: F::Key<'_>,
        find: impl Fn(Symbol) -> Ref,
    ) -> VisitWalk {
        let depth = header.depth();
        let skipped = match walk.skipped() | (depth > walk.depth()) {
            true => SKIPPED,
            false => 0,
        };
        let Some(symbol) = F::symbol(key, depth) else {
            return walk.outside();
        };
        let child = loop {
            let version = header.lock.read();
            let child = find(symbol);
            if header.lock.validate(version) {
                break child;
            }
        };
        let depth = (depth as u32 + 1) | skipped;
        VisitWalk::new(child, walk.visit(), walk.node(), depth)
    }

    /// Prefetches the lines of a walk's next step.
    #[inline(always)]
    fn ask_for(&self, walk: VisitWalk, key: F::Key<'_>) {
        let node = walk.node();
        let line = self.tree.memory.line(node);
        let ask = |address: *const u8| match self.manner.keep_hot_close {
            true => prefetch_once(address),
            false if F::MIXES_KINDS => prefetch_close(address),
            false => prefetch(address),
        };
        if node.is_next_256() {
            let symbol = F::symbol(key, walk.depth()).unwrap_or_default();
            return ask(line.wrapping_add(64 + 4 * usize::from(symbol)));
        }
        ask(line);
        if F::MIXES_KINDS {
            // By arithmetic, because the kind cannot be predicted. If there is no second line it is
            // the first again, which costs next to nothing.
            const TWO_LINES: usize =
                1 << NodeRefKind::Node16 as usize | 1 << NodeRefKind::Leaf as usize;
            ask(line.wrapping_add((TWO_LINES >> node.tag() & 1) * 64));
        } else {
            let second = if node.is_leaf() {
                F::LEAF_SECOND_LINE
            } else if node.kind() == NodeRefKind::Node16 {
                64
            } else if node.kind() == NodeRefKind::Dense {
                64 + 8 * F::last_byte(key)
            } else {
                0
            };
            if second > 0 {
                ask(line.wrapping_add(second));
            }
        }
        // A write will lock the parent, whose header is not in the line that led here if the parent
        // is a node256. The writing visits cannot be predicted: for visits that only read, this
        // prefetches the first line again.
        if self.visits.may_lock() && !node.is_inner() {
            let nodes = [node, walk.parent()];
            let locks = self.visits.locks_parent(walk.visit() as usize);
            ask(self.tree.memory.line(nodes[usize::from(locks)]));
        }
    }

    /// Continues a visit that has left its run as a single walk.
    fn push(&self, traversal: &mut TraversalScratch, walk: VisitWalk) {
        self.ask_for(walk, self.visits.key(walk.visit() as usize));
        traversal.singles.push_back(walk);
    }

    /// Takes a step of a run, which ends where the symbols differ.
    fn step_run(
        &self,
        traversal: &mut TraversalScratch,
        run: &VisitRun,
        probe: &mut impl RadixProbe,
    ) {
        let node = self.tree.memory.inner(run.node);
        let depth = node.header().depth();
        let run = VisitRun {
            skipped: run.skipped || depth > run.depth as usize,
            ..*run
        };
        let end = run.first + run.count;
        let (mut ending, mut writes) = (0, false);
        let mut first = run.first;
        while first < end {
            let symbol = self.symbol(first, depth);
            let mut behind = first + 1;
            // Visits are sorted, so those of one symbol are neighbours.
            while behind < end && self.symbol(behind, depth) == symbol {
                behind += 1;
            }
            let group = VisitRun {
                first,
                count: behind - first,
                ..run
            };
            first = behind;
            let Some(symbol) = symbol else {
                traversal.singles.extend(
                    (group.first..behind)
                        .map(|visit| VisitWalk::new(Ref::NULL, visit, Ref::NULL, SKIPPED)),
                );
                continue;
            };
            probe.partial_key_match(1);
            let child = self.tree.child(node, symbol);
            if self.group_ends(child) {
                traversal.ends[group.first as usize..][..group.count as usize].fill(run.node);
                prefetch(self.tree.memory.line(child));
                ending += group.count;
                let visits = group.first as usize..(group.first + group.count) as usize;
                writes |= visits
                    .into_iter()
                    .any(|visit| self.visits.locks_parent(visit));
            } else {
                self.push_group(traversal, &group, depth, child);
            }
        }
        // One lock for several writes pays. Reads take none, and go on alone.
        if ending > 1 && writes {
            traversal.next_arrived_runs.push(run);
        } else if ending > 0 {
            self.push_ending(traversal, &run, depth, node);
        }
    }

    /// Returns true if a group of visits ends below its node and may be triggered with others
    /// there.
    fn group_ends(&self, child: Ref) -> bool {
        self.manner.trigger_together
            && matches!(child.kind(), NodeRefKind::Leaf | NodeRefKind::Nothing)
    }

    /// Takes a group of visits to a child, together if there are several.
    fn push_group(
        &self,
        traversal: &mut TraversalScratch,
        group: &VisitRun,
        depth: usize,
        child: Ref,
    ) {
        let next = VisitRun {
            node: child,
            depth: depth as u32 + 1,
            ..*group
        };
        if group.count > 1 && child.is_inner() {
            prefetch(self.tree.memory.line(child));
            traversal.next_runs.push(next);
        } else if group.count > 1
            && child.kind() == NodeRefKind::Dense
            && self.manner.trigger_together
        {
            prefetch(self.tree.memory.line(child));
            traversal.ends[group.first as usize..][..group.count as usize].fill(child);
            traversal.next_arrived_runs.push(next);
        } else {
            let depth = next.depth | if group.skipped { SKIPPED } else { 0 };
            for visit in group.first..group.first + group.count {
                let walk = VisitWalk::new(child, visit, group.node, depth);
                self.push(traversal, walk);
            }
        }
    }

    /// Walks the visits that end below a node to their ends one by one: reads need no lock, and a
    /// single visit cannot be triggered with others.
    fn push_ending(
        &self,
        traversal: &mut TraversalScratch,
        run: &VisitRun,
        depth: usize,
        node: RadixInnerNode<'_>,
    ) {
        let below = (depth as u32 + 1) | if run.skipped { SKIPPED } else { 0 };
        for visit in run.first..run.first + run.count {
            if traversal.ends[visit as usize] == run.node {
                traversal.ends[visit as usize] = Ref::NULL;
                let symbol = self.symbol(visit, depth).unwrap_or_default();
                let child = self.tree.child(node, symbol);
                let walk = VisitWalk::new(child, visit, run.node, below);
                self.push(traversal, walk);
            }
        }
    }
}

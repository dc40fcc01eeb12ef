//! *Traverse*: many walks at once, each a step at a time.
//!
//! A walk that has decided on a child asks for the child's line and goes into the queue of the
//! child's kind; by the time the queue is worked off, the line has arrived. One queue a kind
//! makes each loop short and its branches predictable: which kind comes next is an index, not a
//! branch. Each round lets some new walks in, so that a steady number is in flight.
//!
//! When visits are sorted and paths are to be shared, walks begin as [runs](Run) of neighbouring
//! visits, which walk together until their symbols differ.

use super::combine::Visit;
use crate::counters::Probe;
use crate::leaf::LeafForm;
use crate::node::{Inner, KINDS, Kind, Ref, Sorted, Symbol};
use crate::prefetch::{prefetch, prefetch_once};
use crate::tree::Tree;

/// Visits that are let in a round.
const ADMITTED: usize = 32;

/// Walks in flight at most; a power of two.
const CAPACITY: usize = 1024;

/// The walk of one visit.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// What the walk has come to.
    pub node: Ref,
    /// The number of the visit.
    pub visit: u32,
    /// The inner node that led there.
    pub parent: Ref,
    /// The depth of `parent` plus one; the highest bit tells whether the path has skipped bytes.
    depth: u32,
}

const SKIPPED: u32 = 1 << 31;

impl Walk {
    /// The depth of the parent plus one, which is the depth of `node` unless bytes are skipped.
    #[inline]
    pub fn depth(&self) -> usize {
        (self.depth & !SKIPPED) as usize
    }

    /// True if the path has skipped bytes.
    #[inline]
    pub fn skipped(&self) -> bool {
        self.depth & SKIPPED != 0
    }
}

/// A walk of several visits that are neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The inner or dense node that the walk has come to.
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

/// Receives the walks that have come to an end.
pub trait Arrivals {
    /// Receives what is counted.
    type Probe: Probe;
    /// The counters in use.
    fn probe(&mut self) -> &mut Self::Probe;
    /// A visit has come to a leaf, a dense node or nothing (`walk.node`), below `walk.parent`.
    fn single(&mut self, walk: &Walk);
    /// A run of visits has come to the node `run.node`. Those end there for which `ends`, indexed
    /// by visit, names the node; the others of the run are on their way elsewhere.
    fn run(&mut self, run: &Run, ends: &[Ref]);
}

/// How walks are to be made.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Neighbouring visits are sorted, and walk together as long as they can.
    pub share_paths: bool,
    /// Runs are triggered together.
    pub trigger_together: bool,
    /// Lines of single walks are fetched to be used once.
    pub keep_hot_close: bool,
}

/// Walks that have come to nodes of one kind.
#[derive(Debug)]
struct Queue {
    length: usize,
    walks: Box<[Walk; CAPACITY]>,
}

impl Default for Queue {
    fn default() -> Self {
        let walk = Walk {
            node: Ref::NULL,
            visit: 0,
            parent: Ref::NULL,
            depth: 0,
        };
        Queue {
            length: 0,
            walks: Box::new([walk; CAPACITY]),
        }
    }
}

impl Queue {
    /// Adds a walk. There is room, as no more than `CAPACITY` walks are in flight.
    #[inline]
    fn push(&mut self, walk: Walk) {
        self.walks[self.length % CAPACITY] = walk;
        self.length += 1;
    }
}

type Queues = Box<[Queue; KINDS]>;

/// The queues, for use again and again.
#[derive(Debug, Default)]
pub struct Traversal {
    /// The queues of this round and, growing, of the next.
    now: Queues,
    next: Queues,
    /// Runs to be stepped, and runs to be triggered.
    runs: Vec<Run>,
    next_runs: Vec<Run>,
    arrived_runs: Vec<Run>,
    next_arrived_runs: Vec<Run>,
    /// The node at which a visit ends together with others of its run.
    ends: Vec<Ref>,
}

impl Traversal {
    /// Walks all visits to their ends.
    pub fn run<F: LeafForm>(
        &mut self,
        tree: &Tree<F>,
        keys: &[F::Key<'_>],
        visits: &[Visit],
        manner: Manner,
        arrivals: &mut impl Arrivals,
    ) {
        self.ends.clear();
        if manner.share_paths {
            self.ends.resize(keys.len(), Ref::NULL);
        }
        let stepper = Stepper {
            tree,
            keys,
            visits,
            manner,
        };
        let (mut admitted, mut finished) = (0, 0);
        while finished < keys.len() {
            let more = ADMITTED
                .min(keys.len() - admitted)
                .min(CAPACITY - (admitted - finished));
            stepper.admit(self, admitted as u32, more as u32, arrivals.probe());
            admitted += more;
            finished += self.round(&stepper, arrivals);
        }
    }

    /// Takes all walks one step further; answers how many visits have ended.
    fn round<F: LeafForm>(
        &mut self,
        stepper: &Stepper<'_, '_, F>,
        arrivals: &mut impl Arrivals,
    ) -> usize {
        let mut finished = 0;
        std::mem::swap(&mut self.now, &mut self.next);
        let next = &mut self.next;
        let probe = arrivals.probe();
        for walk in drain(&mut self.now[Kind::Node256 as usize]) {
            stepper.step_256(next, walk, probe);
        }
        for walk in drain(&mut self.now[Kind::Skipping256 as usize]) {
            stepper.step_skipping(next, walk);
        }
        for walk in drain(&mut self.now[Kind::Node4 as usize]) {
            stepper.step_sorted(next, stepper.tree.memory.node4(walk.node), walk, probe);
        }
        for walk in drain(&mut self.now[Kind::Node16 as usize]) {
            stepper.step_sorted(next, stepper.tree.memory.node16(walk.node), walk, probe);
        }
        for walk in drain(&mut self.now[Kind::Node48 as usize]) {
            stepper.step_sorted(next, stepper.tree.memory.node48(walk.node), walk, probe);
        }
        for kind in [Kind::Leaf, Kind::Dense, Kind::Nothing] {
            let walks = drain(&mut self.now[kind as usize]);
            finished += walks.len();
            for walk in walks {
                arrivals.single(walk);
            }
        }
        if stepper.manner.share_paths {
            finished += self.round_of_runs(stepper, arrivals);
        }
        finished
    }

    fn round_of_runs<F: LeafForm>(
        &mut self,
        stepper: &Stepper<'_, '_, F>,
        arrivals: &mut impl Arrivals,
    ) -> usize {
        std::mem::swap(&mut self.runs, &mut self.next_runs);
        std::mem::swap(&mut self.arrived_runs, &mut self.next_arrived_runs);
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

/// Empties a queue whose walks are about to be stepped.
#[inline]
fn drain(queue: &mut Queue) -> &[Walk] {
    let length = std::mem::take(&mut queue.length);
    &queue.walks[..length]
}

/// What all steps of a traversal have in common.
struct Stepper<'t, 'k, F: LeafForm> {
    tree: &'t Tree<F>,
    keys: &'t [F::Key<'k>],
    visits: &'t [Visit],
    manner: Manner,
}

impl<F: LeafForm> Stepper<'_, '_, F> {
    /// Lets visits in at the root, which is always in the cache.
    fn admit(&self, traversal: &mut Traversal, first: u32, count: u32, probe: &mut impl Probe) {
        if self.manner.share_paths && count > 1 {
            traversal.next_runs.push(Run {
                node: self.tree.root,
                depth: 0,
                skipped: false,
                first,
                count,
            });
            return;
        }
        for visit in first..first + count {
            self.admit_single(&mut traversal.next, visit, probe);
        }
    }

    /// Takes a walk through the uppermost nodes at once, as far as they are so few that they
    /// stay in the cache: the root and the node256s below it, or, if all keys share their first
    /// bytes, the node256 that is the root's only child and those below that.
    #[inline]
    fn admit_single(&self, next: &mut Queues, visit: u32, probe: &mut impl Probe) {
        let mut walk = Walk {
            node: self.tree.root,
            visit,
            parent: Ref::NULL,
            depth: 0,
        };
        if let Some(below) = self.step_through_top(&walk, Kind::Skipping256, probe) {
            let depth = self.tree.memory.node256(below.node).header().depth();
            walk = Walk {
                depth: depth as u32 | SKIPPED,
                ..below
            };
        }
        if let Some(below) = self.step_through_top(&walk, Kind::Node256, probe) {
            walk = below;
        }
        self.step_256(next, &walk, probe);
    }

    /// A step through a node256 at the top, if it leads to a child of a kind.
    #[inline]
    fn step_through_top(&self, walk: &Walk, kind: Kind, probe: &mut impl Probe) -> Option<Walk> {
        let symbol = self.symbol(walk.visit, walk.depth())?;
        if symbol >= 256 {
            return None;
        }
        let child = self.tree.memory.node256(walk.node).find(symbol as u8);
        (child.tag() == kind as usize).then(|| {
            probe.partial_key_match(1);
            Walk {
                node: child,
                parent: walk.node,
                depth: walk.depth + 1,
                ..*walk
            }
        })
    }

    #[inline]
    fn symbol(&self, visit: u32, depth: usize) -> Option<Symbol> {
        F::symbol(self.keys[visit as usize], depth)
    }

    /// A step through a node256 whose depth is known.
    #[inline]
    fn step_256(&self, next: &mut Queues, walk: &Walk, probe: &mut impl Probe) {
        probe.partial_key_match(1);
        let node = self.tree.memory.node256(walk.node);
        let child = match self.symbol(walk.visit, walk.depth()) {
            Some(symbol) if symbol < 256 => node.find(symbol as u8),
            Some(_) => node.header().end(),
            None => return Self::push_outside(next, walk.visit),
        };
        self.push(next, child, walk.visit, walk.node, walk.depth + 1);
    }

    /// Reads the depth of a node256 that is deeper than its parent told, and asks for the slot.
    #[inline]
    fn step_skipping(&self, next: &mut Queues, walk: &Walk) {
        let depth = self.tree.memory.node256(walk.node).header().depth();
        let node = Ref::new(Kind::Node256, walk.node.index());
        self.push(next, node, walk.visit, walk.parent, depth as u32 | SKIPPED);
    }

    /// A step through a small node.
    #[inline]
    fn step_sorted<N: Sorted>(
        &self,
        next: &mut Queues,
        node: &N,
        walk: &Walk,
        probe: &mut impl Probe,
    ) {
        probe.partial_key_match(1);
        let header = node.header();
        let depth = header.depth();
        let skipped = match walk.skipped() || depth > walk.depth() {
            true => SKIPPED,
            false => 0,
        };
        let Some(symbol) = self.symbol(walk.visit, depth) else {
            return Self::push_outside(next, walk.visit);
        };
        let child = loop {
            let version = header.lock.read();
            let child = F::child_of_small(node, symbol);
            if header.lock.validate(version) {
                break child;
            }
        };
        self.push(
            next,
            child,
            walk.visit,
            walk.node,
            (depth as u32 + 1) | skipped,
        );
    }

    /// Takes a single walk on to a child.
    #[inline]
    fn push(&self, next: &mut Queues, child: Ref, visit: u32, parent: Ref, depth: u32) {
        let tag = child.tag();
        let walk = Walk {
            node: child,
            visit,
            parent,
            depth,
        };
        self.prefetch(child, &walk);
        next[tag].push(walk);
    }

    /// Asks for what the next step of a single walk reads first.
    #[inline]
    fn prefetch(&self, child: Ref, walk: &Walk) {
        let line = self.tree.memory.line(child);
        let tag = child.tag();
        let is = |kind: Kind| usize::from(tag == kind as usize);
        // By arithmetic, as a branch on the kind would often be mispredicted. The second line is
        // mostly the first again, which costs next to nothing.
        let symbol = usize::from(self.symbol(walk.visit, walk.depth()).unwrap_or_default());
        let first = is(Kind::Node256) * (64 + 4 * symbol);
        let last = F::last_byte(self.keys[walk.visit as usize]);
        let second = first
            + is(Kind::Node16) * 64
            + is(Kind::Leaf) * F::LEAF_SECOND_LINE
            + is(Kind::Dense) * (64 + 8 * last);
        let second = line.wrapping_add(second);
        // A write will lock the parent, whose header is not in the line that led here if the
        // parent is a node256.
        let writes = self
            .visits
            .get(walk.visit as usize)
            .is_some_and(|visit| visit.writes);
        if writes && (tag == Kind::Leaf as usize || tag == Kind::Nothing as usize) {
            prefetch(self.tree.memory.line(walk.parent));
        }
        if self.manner.keep_hot_close {
            prefetch_once(line.wrapping_add(first));
            prefetch_once(second);
        } else {
            prefetch(line.wrapping_add(first));
            prefetch(second);
        }
    }

    /// Ends the walk of a key that ends in bytes that the path has skipped.
    #[cold]
    fn push_outside(next: &mut Queues, visit: u32) {
        next[Kind::Nothing as usize].push(Walk {
            node: Ref::NULL,
            visit,
            parent: Ref::NULL,
            depth: SKIPPED,
        });
    }

    /// A step of a run, which ends it where the symbols differ.
    fn step_run(&self, traversal: &mut Traversal, run: &Run, probe: &mut impl Probe) {
        let node = self.tree.memory.inner(run.node);
        let depth = node.header().depth();
        let run = Run {
            skipped: run.skipped || depth > run.depth as usize,
            ..*run
        };
        let end = run.first + run.count;
        let (mut ending, mut writes) = (0, false);
        let mut first = run.first;
        while first < end {
            let symbol = self.symbol(first, depth);
            let mut behind = first + 1;
            while behind < end && self.symbol(behind, depth) == symbol {
                behind += 1;
            }
            let group = Run {
                first,
                count: behind - first,
                ..run
            };
            first = behind;
            let Some(symbol) = symbol else {
                (group.first..behind)
                    .for_each(|visit| Self::push_outside(&mut traversal.next, visit));
                continue;
            };
            probe.partial_key_match(1);
            let child = self.tree.child(node, symbol);
            if self.group_ends(child) {
                traversal.ends[group.first as usize..][..group.count as usize].fill(run.node);
                prefetch(self.tree.memory.line(child));
                ending += group.count;
                writes |= self.visits[group.first as usize..][..group.count as usize]
                    .iter()
                    .any(|visit| visit.writes);
            } else {
                self.push_group(traversal, &group, depth, child);
            }
        }
        if ending > 1 && writes {
            traversal.next_arrived_runs.push(run);
        } else if ending > 0 {
            self.push_ending(traversal, &run, depth, node);
        }
    }

    /// True if a group of visits ends below its node and may be triggered with others there.
    fn group_ends(&self, child: Ref) -> bool {
        self.manner.trigger_together && matches!(child.kind(), Kind::Leaf | Kind::Nothing)
    }

    /// Takes a group of visits on to a child, together if they are several.
    fn push_group(&self, traversal: &mut Traversal, group: &Run, depth: usize, child: Ref) {
        let next = Run {
            node: child,
            depth: depth as u32 + 1,
            ..*group
        };
        if group.count > 1 && child.is_inner() {
            prefetch(self.tree.memory.line(child));
            traversal.next_runs.push(next);
        } else if group.count > 1 && child.kind() == Kind::Dense && self.manner.trigger_together {
            prefetch(self.tree.memory.line(child));
            traversal.ends[group.first as usize..][..group.count as usize].fill(child);
            traversal.next_arrived_runs.push(next);
        } else {
            let depth = next.depth | if group.skipped { SKIPPED } else { 0 };
            for visit in group.first..group.first + group.count {
                self.push(&mut traversal.next, child, visit, group.node, depth);
            }
        }
    }

    /// Takes the visits that end below a node to their ends one by one: reads need no lock, and
    /// a single visit no company.
    fn push_ending(&self, traversal: &mut Traversal, run: &Run, depth: usize, node: Inner<'_>) {
        let below = (depth as u32 + 1) | if run.skipped { SKIPPED } else { 0 };
        for visit in run.first..run.first + run.count {
            if traversal.ends[visit as usize] == run.node {
                traversal.ends[visit as usize] = Ref::NULL;
                let symbol = self.symbol(visit, depth).unwrap_or_default();
                let child = self.tree.child(node, symbol);
                self.push(&mut traversal.next, child, visit, run.node, below);
            }
        }
    }
}

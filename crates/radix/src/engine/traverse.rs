//! *Traverse*: many walks at once, each a step at a time.
//!
//! A walk that has decided on a child asks for the child's line and goes into the queue of the
//! child's kind; by the time the queue is worked off, the line has arrived. One queue a kind
//! makes each loop short and its branches predictable: which kind comes next is an index, not a
//! branch. Each round lets some new walks in, so that a steady number is in flight.
//!
//! When visits are sorted, a walk stands for a *run* of neighbouring visits until their symbols
//! differ, so that a shared path is walked once.

use super::combine::Visit;
use crate::counters::Probe;
use crate::leaf::LeafForm;
use crate::node::{Inner, KINDS, Kind, Ref, Symbol};
use crate::prefetch::{prefetch, prefetch_once};
use crate::tree::Tree;

/// Visits that are let in a round.
const ADMITTED: usize = 64;

/// A walk of one visit, or of a run of them.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// What the walk has come to.
    pub node: Ref,
    /// The inner node that led there.
    pub parent: Ref,
    /// The depth of `parent` plus one.
    pub depth: u32,
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
    /// A single visit has come to a leaf, a dense node or nothing (`walk.node`), below
    /// `walk.parent`.
    fn single(&mut self, walk: &Walk);
    /// A run of visits has come to the node `walk.node`. Those end there for which `ends`, indexed
    /// by visit, names the node; the others of the run are on their way elsewhere.
    fn run(&mut self, walk: &Walk, ends: &[Ref]);
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

/// The index of the queue of runs that have arrived.
const RUNS: usize = KINDS;

/// The queues, for use again and again.
#[derive(Debug, Default)]
pub struct Traversal {
    queues: [Vec<Walk>; KINDS + 1],
    next: [Vec<Walk>; KINDS + 1],
    /// The node at which a visit ends together with others of its run.
    ends: Vec<Ref>,
    /// Walks in the queues.
    in_flight: usize,
}

impl Traversal {
    /// Walks all visits to their ends.
    pub fn run<'k, F: LeafForm>(
        &mut self,
        tree: &Tree<F>,
        keys: &[F::Key<'k>],
        visits: &[Visit],
        manner: Manner,
        arrivals: &mut impl Arrivals,
    ) {
        self.ends.clear();
        self.ends.resize(if manner.share_paths { visits.len() } else { 0 }, Ref::NULL);
        let stepper = Stepper {
            tree,
            keys,
            visits,
            manner,
        };
        let mut admitted = 0;
        while admitted < visits.len() || self.in_flight > 0 {
            let more = ADMITTED.min(visits.len() - admitted);
            if more > 0 {
                stepper.admit(self, admitted as u32, more as u32);
                admitted += more;
            }
            self.round(&stepper, arrivals);
        }
    }

    fn round<F: LeafForm>(
        &mut self,
        stepper: &Stepper<'_, '_, F>,
        arrivals: &mut impl Arrivals,
    ) {
        std::mem::swap(&mut self.queues, &mut self.next);
        self.in_flight = 0;
        for kind in [Kind::Node256, Kind::Skipping256, Kind::Node4, Kind::Node16, Kind::Node48] {
            let queue = std::mem::take(&mut self.queues[kind as usize]);
            match kind {
                Kind::Node256 => {
                    for walk in &queue {
                        stepper.step_256(self, walk, arrivals.probe());
                    }
                }
                Kind::Skipping256 => {
                    for walk in &queue {
                        stepper.step_skipping(self, walk);
                    }
                }
                _ => {
                    for walk in &queue {
                        stepper.step_sorted(self, walk, arrivals.probe());
                    }
                }
            }
            self.give_back(kind as usize, queue);
        }
        for kind in [Kind::Leaf, Kind::Dense, Kind::Nothing] {
            let queue = std::mem::take(&mut self.queues[kind as usize]);
            for walk in &queue {
                arrivals.single(walk);
            }
            self.give_back(kind as usize, queue);
        }
        let queue = std::mem::take(&mut self.queues[RUNS]);
        for walk in &queue {
            arrivals.run(walk, &self.ends);
        }
        self.give_back(RUNS, queue);
    }

    /// Keeps the memory of a queue that has been worked off.
    fn give_back(&mut self, queue: usize, mut walks: Vec<Walk>) {
        walks.clear();
        self.queues[queue] = walks;
    }

    #[inline]
    fn push(&mut self, queue: usize, walk: Walk) {
        self.next[queue].push(walk);
        self.in_flight += 1;
    }
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
    fn admit(&self, queues: &mut Traversal, first: u32, count: u32) {
        let (runs, count) = match self.manner.share_paths {
            true => (1, count),
            false => (count, 1),
        };
        for run in 0..runs {
            queues.push(
                Kind::Node256 as usize,
                Walk {
                    node: self.tree.root,
                    parent: Ref::NULL,
                    depth: 0,
                    skipped: false,
                    first: first + run,
                    count,
                },
            );
        }
    }

    #[inline]
    fn symbol(&self, visit: u32, depth: usize) -> Option<Symbol> {
        F::symbol(self.keys[visit as usize], depth)
    }

    /// A step through a node256 whose depth is known.
    #[inline]
    fn step_256(&self, queues: &mut Traversal, walk: &Walk, probe: &mut impl Probe) {
        let node = self.tree.memory.node256(walk.node);
        if walk.count == 1 {
            probe.partial_key_match(1);
            let child = match self.symbol(walk.first, walk.depth as usize) {
                Some(symbol) if symbol < 256 => node.find(symbol as u8),
                Some(_) => node.header().end(),
                None => return self.push_outside(queues, walk),
            };
            self.push_child(queues, walk, walk.depth, child);
        } else {
            self.step_run(queues, walk, walk.depth as usize, Inner::Node256(node), probe);
        }
    }

    /// Reads the depth of a node256 that is deeper than its parent told, and asks for the slot.
    #[inline]
    fn step_skipping(&self, queues: &mut Traversal, walk: &Walk) {
        let depth = self.tree.memory.node256(walk.node).header().depth();
        let walk = Walk {
            depth: depth as u32,
            skipped: true,
            ..*walk
        };
        let line = self.line(walk.node, &walk);
        self.prefetch(line, walk.count);
        queues.push(Kind::Node256 as usize, walk);
    }

    /// A step through a small node.
    #[inline]
    fn step_sorted(&self, queues: &mut Traversal, walk: &Walk, probe: &mut impl Probe) {
        let node = self.tree.memory.inner(walk.node);
        let depth = node.header().depth();
        let walk = Walk {
            skipped: walk.skipped | (depth > walk.depth as usize),
            ..*walk
        };
        if walk.count == 1 {
            probe.partial_key_match(1);
            match self.symbol(walk.first, depth) {
                Some(symbol) => {
                    let child = self.tree.child(node, symbol);
                    self.push_child(queues, &walk, depth as u32, child);
                }
                None => self.push_outside(queues, &walk),
            }
        } else {
            self.step_run(queues, &walk, depth, node, probe);
        }
    }

    /// A step of a run, which ends it where the symbols differ.
    fn step_run(
        &self,
        queues: &mut Traversal,
        walk: &Walk,
        depth: usize,
        node: Inner<'_>,
        probe: &mut impl Probe,
    ) {
        let end = walk.first + walk.count;
        let mut ending = 0;
        let mut writes = false;
        let mut first = walk.first;
        while first < end {
            let symbol = self.symbol(first, depth);
            let mut behind = first + 1;
            while behind < end && self.symbol(behind, depth) == symbol {
                behind += 1;
            }
            let group = Walk {
                first,
                count: behind - first,
                ..*walk
            };
            first = behind;
            let Some(symbol) = symbol else {
                for visit in group.first..behind {
                    self.push_outside(queues, &Walk { first: visit, count: 1, ..group });
                }
                continue;
            };
            probe.partial_key_match(1);
            let child = self.tree.child(node, symbol);
            let kind = child.kind();
            if child.is_inner() {
                self.push_child(queues, &group, depth as u32, child);
            } else if kind == Kind::Dense && group.count > 1 && self.manner.trigger_together {
                self.end_at(queues, &group, child);
                self.prefetch(self.line(child, &group), 2);
                queues.push(RUNS, Walk { node: child, parent: walk.node, depth: depth as u32 + 1, ..group });
            } else if kind == Kind::Dense || !self.manner.trigger_together {
                self.push_singles(queues, &group, depth as u32, child);
            } else {
                self.end_at(queues, &group, walk.node);
                self.prefetch(self.line(child, &group), 1);
                ending += group.count;
                writes |= self.visits[group.first as usize..][..group.count as usize]
                    .iter()
                    .any(|visit| visit.writes);
            }
        }
        if ending == 0 {
            return;
        }
        if ending > 1 && writes {
            queues.push(RUNS, Walk { parent: walk.node, depth: depth as u32 + 1, ..*walk });
            return;
        }
        // Reads need no lock, and a single visit no company.
        for visit in walk.first..end {
            if queues.ends[visit as usize] == walk.node {
                let symbol = self.symbol(visit, depth).unwrap_or_default();
                let child = self.tree.child(node, symbol);
                self.push_child(queues, &Walk { first: visit, count: 1, ..*walk }, depth as u32, child);
            }
        }
    }

    fn end_at(&self, queues: &mut Traversal, group: &Walk, node: Ref) {
        queues.ends[group.first as usize..][..group.count as usize].fill(node);
    }

    fn push_singles(&self, queues: &mut Traversal, group: &Walk, depth: u32, child: Ref) {
        for first in group.first..group.first + group.count {
            self.push_child(queues, &Walk { first, count: 1, ..*group }, depth, child);
        }
    }

    /// Goes on to a child of the walk's node, whose depth is given.
    #[inline]
    fn push_child(&self, queues: &mut Traversal, walk: &Walk, depth: u32, child: Ref) {
        let next = Walk {
            node: child,
            parent: walk.node,
            depth: depth + 1,
            ..*walk
        };
        self.prefetch(self.line(child, &next), next.count);
        queues.push(child.tag(), next);
    }

    /// Ends the walk of a key that ends in bytes that the path has skipped.
    fn push_outside(&self, queues: &mut Traversal, walk: &Walk) {
        queues.push(
            Kind::Nothing as usize,
            Walk {
                node: Ref::NULL,
                parent: Ref::NULL,
                skipped: true,
                ..*walk
            },
        );
    }

    /// The line of a node that the next step reads first.
    #[inline]
    fn line(&self, node: Ref, walk: &Walk) -> *const u8 {
        let memory = &self.tree.memory;
        let key = self.keys[walk.first as usize];
        match node.kind() {
            Kind::Node256 => {
                let symbol = F::symbol(key, walk.depth as usize).unwrap_or_default();
                memory.node_address(node).wrapping_add(64 + 4 * symbol as usize)
            }
            Kind::Dense => {
                let line = memory.node_address(node);
                self.prefetch(line, 2);
                line.wrapping_add(64 + 8 * (F::word(key) & 0xff) as usize)
            }
            Kind::Node16 => {
                let line = memory.node_address(node);
                self.prefetch(line.wrapping_add(95), 1);
                line
            }
            Kind::Nothing => std::ptr::null(),
            _ => memory.node_address(node),
        }
    }

    #[inline]
    fn prefetch(&self, line: *const u8, count: u32) {
        if self.manner.keep_hot_close && count == 1 {
            prefetch_once(line);
        } else {
            prefetch(line);
        }
    }
}

//! Batches of nothing but gets, each walking on its own: the plainest case has the leanest path,
//! without a plan.
//!
//! Keys walk in groups, a step a round. A step asks for the lines that the next one reads, which
//! arrive while the other groups have their steps. The groups take turns key by key, and are not
//! at the same level, so that requests for lines come at a steady rate: a core has room for a few
//! only, and a burst of them would keep it from working on.

use crate::counters::Probe;
use crate::leaf::{LeafForm, Lookup};
use crate::node::{Kind, Ref};
use crate::prefetch::{prefetch, prefetch_once};
use crate::tree::Tree;
use crossbeam_epoch::Guard;
use nearfield_core::Output;

/// Keys of a group.
const GROUP: usize = 32;

/// Groups in flight.
const GROUPS: usize = 4;

/// Answers gets. Keys are in the order of the batch.
pub struct Reads<'t, 'b, 'o, F: LeafForm, P> {
    pub tree: &'t Tree<F>,
    pub keys: &'t [F::Key<'b>],
    pub output: &'t mut Output<'o, F>,
    pub guard: &'t Guard,
    pub probe: &'t mut P,
    /// Lines are fetched to be used once.
    pub keep_hot_close: bool,
}

/// Walks of neighbouring keys of the batch.
struct Group {
    first: usize,
    count: usize,
    /// True if walks have still not ended; else the group is to be answered.
    walking: bool,
    /// What each walk has come to.
    nodes: [Ref; GROUP],
    /// The depth of the node above plus one, which is the depth of a node256 that is not
    /// skipping.
    depths: [u16; GROUP],
    /// The position of the next key that takes the place of the first in this group.
    next: usize,
}

impl<F: LeafForm, P: Probe> Reads<'_, '_, '_, F, P> {
    /// Answers all gets.
    pub fn run(&mut self) {
        let mut groups: [Group; GROUPS] = std::array::from_fn(|_| Group {
            first: 0,
            count: 0,
            walking: false,
            nodes: [Ref::NULL; GROUP],
            depths: [0; GROUP],
            next: 0,
        });
        let mut admitted = 0;
        // Groups begin one after the other, to be at different levels.
        for round in 1.. {
            let begun = &mut groups[..GROUPS.min(round)];
            for group in begun.iter_mut().filter(|group| !group.walking) {
                group.next = admitted;
                admitted = self.keys.len().min(admitted + GROUP);
            }
            for i in 0..GROUP {
                for group in begun.iter_mut() {
                    if group.walking {
                        self.walk_on(group, i);
                    } else {
                        self.answer(group, i);
                        self.begin(group, i);
                    }
                }
            }
            let mut in_flight = admitted < self.keys.len();
            for group in begun.iter_mut() {
                if !group.walking {
                    group.first = group.next;
                    group.count = GROUP.min(self.keys.len() - group.first);
                    if group.first == admitted {
                        group.count = 0;
                    }
                }
                let walks = &group.nodes[..group.count];
                group.walking = walks.iter().any(|node| node.is_inner());
                in_flight |= group.count > 0;
            }
            if !in_flight {
                return;
            }
        }
    }

    /// Takes the key that is to have a place in a group through the uppermost nodes, which are so
    /// few that they stay in the cache: the root and a node256 below it.
    #[inline]
    fn begin(&mut self, group: &mut Group, i: usize) {
        let Some(&key) = self.keys.get(group.next + i) else {
            group.nodes[i] = Ref::NULL;
            return;
        };
        (group.nodes[i], group.depths[i]) = (self.tree.root, 0);
        let mut child = self.step(group, i, key);
        if child.is_256() {
            child = self.step(group, i, key);
        }
        self.ask_for(child, group.depths[i], key);
    }

    /// Takes a walk that has not ended a step further.
    #[inline]
    fn walk_on(&mut self, group: &mut Group, i: usize) {
        if group.nodes[i].is_inner() {
            let key = self.keys[group.first + i];
            let child = self.step(group, i, key);
            self.ask_for(child, group.depths[i], key);
        }
    }

    /// Takes one walk a step further.
    #[inline]
    fn step(&mut self, group: &mut Group, i: usize, key: F::Key<'_>) -> Ref {
        let node = group.nodes[i];
        let memory = &self.tree.memory;
        if !node.is_next_256() {
            let depth = memory.inner(node).header().depth();
            group.depths[i] = depth as u16;
            if node.kind() == Kind::Skipping256 {
                // The slot is in another line than the header.
                group.nodes[i] = Ref::new(Kind::Node256, node.index());
                return group.nodes[i];
            }
        }
        self.probe.partial_key_match(1);
        let depth = group.depths[i];
        let child = match F::symbol(key, depth as usize) {
            Some(symbol) if node.is_next_256() && symbol < 256 => {
                memory.node256(node).find(symbol as u8)
            }
            Some(symbol) => self.tree.child(memory.inner(node), symbol),
            None => Ref::NULL,
        };
        group.nodes[i] = child;
        group.depths[i] = depth + 1;
        child
    }

    /// Asks for the lines of a node that the next step reads.
    #[inline]
    fn ask_for(&self, node: Ref, depth: u16, key: F::Key<'_>) {
        let line = self.tree.memory.line(node);
        let ask = |distance: usize| match self.keep_hot_close {
            true => prefetch_once(line.wrapping_add(distance)),
            false => prefetch(line.wrapping_add(distance)),
        };
        if node.is_leaf() {
            ask(0);
            if F::LEAF_SECOND_LINE > 0 {
                ask(F::LEAF_SECOND_LINE);
            }
        } else if node.is_next_256() {
            let symbol = F::symbol(key, depth as usize).unwrap_or_default();
            ask(64 + 4 * usize::from(symbol));
        } else {
            ask(0);
            match node.kind() {
                Kind::Node16 => ask(64),
                Kind::Dense => ask(64 + 8 * F::last_byte(key)),
                _ => {}
            }
        }
    }

    /// Answers a get whose walk has ended.
    #[inline]
    fn answer(&mut self, group: &Group, i: usize) {
        if i >= group.count {
            return;
        }
        let position = group.first + i;
        let key = self.keys[position];
        let found = if group.nodes[i].is_null() {
            None
        } else {
            self.probe.leaf();
            match F::lookup(&self.tree.memory, group.nodes[i], key, self.guard) {
                Lookup::Found(value) => Some(value),
                Lookup::Absent => None,
                Lookup::Dead => return self.walk_alone(position),
            }
        };
        self.output.value(position, F::shorten_key(key), found);
    }

    /// Answers a get whose leaf has died meanwhile.
    #[cold]
    fn walk_alone(&mut self, position: usize) {
        let key = self.keys[position];
        let output = &mut *self.output;
        let found = self.tree.find(key, self.guard, self.probe, |value| {
            output.value(position, F::shorten_key(key), Some(value));
        });
        if found.is_none() {
            output.value(position, F::shorten_key(key), None);
        }
    }
}

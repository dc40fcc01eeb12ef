//! Changes of trees of byte strings, whose leaves are [records](crate::leaf::record) of one key
//! each, and whose nodes have a child for each symbol.
//!
//! A key that differs from all keys below a node in a byte that the path skips gets a node that
//! decides on that byte, and nothing else changes:
//!
//! ```text
//!   p ──▶ x          p ──▶ fork ──▶ x
//!                            └────▶ leaf
//! ```

use crate::counters::Probe;
use crate::leaf::record::{self, Match};
use crate::leaf::{LeafForm, Spot};
use crate::lock::Held;
use crate::memory::Memory;
use crate::node::{END, Inner, Kind, Ref, Symbol};
use crate::tree::{Attempt, Change, InNode, Place, Tree};
use crate::writer::Writer;
use nearfield_core::{Bytes, Error};

impl Tree<Bytes> {
    /// See [`LeafForm::visit_at`].
    pub fn visit_record_at<'v>(
        &self,
        place: &Place,
        key: &[u8],
        guard: &Writer<'_, Bytes>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<&[u8]>) -> Change<&'v [u8]>,
    ) -> Result<Attempt, Error> {
        let node = self.memory.inner(place.node);
        let Ok((held, waits)) = Held::lock(&node.header().lock) else {
            return Ok(Attempt::Restart);
        };
        probe.lock(waits);
        if node.find(place.symbol) != place.child {
            held.unlock_unchanged();
            return Ok(Attempt::Restart);
        }
        let spot = Spot {
            node,
            symbol: place.symbol,
            skipped: place.skipped,
        };
        match self.visit_record(spot, key, guard, decide) {
            Ok(Some(InNode::Shrunk)) => {
                let underfull = node.is_underfull();
                drop(held);
                if underfull {
                    self.tidy(key, guard, probe);
                }
                return Ok(Attempt::Done);
            }
            Ok(Some(InNode::Changed)) => return Ok(Attempt::Done),
            Ok(Some(_)) => {
                held.unlock_unchanged();
                return Ok(Attempt::Done);
            }
            Ok(None) => {}
            Err(error) => {
                held.unlock_unchanged();
                return Err(error);
            }
        }
        match self.visit_absent(place, node, key, guard, probe, decide) {
            Ok((attempt, Unlock::Unchanged)) => {
                held.unlock_unchanged();
                Ok(attempt)
            }
            Ok((attempt, Unlock::Changed)) => Ok(attempt),
            Ok((attempt, Unlock::Obsolete)) => {
                held.unlock_obsolete();
                guard.retire(place.node);
                Ok(attempt)
            }
            Err(error) => {
                held.unlock_unchanged();
                Err(error)
            }
        }
    }

    /// See [`LeafForm::visit_in_node`].
    pub fn visit_record_in_node<'v>(
        &self,
        spot: Spot<'_>,
        key: &[u8],
        guard: &Writer<'_, Bytes>,
        decide: &mut impl FnMut(Option<&[u8]>) -> Change<&'v [u8]>,
    ) -> InNode {
        match self.visit_record(spot, key, guard, decide) {
            Ok(Some(done)) => done,
            // Out of memory as well: a visit of its own will say so.
            _ => InNode::Postponed,
        }
    }

    /// Makes a visit under a node's lock, if the node has a leaf of the key, or room for one
    /// where no other can be.
    fn visit_record<'v>(
        &self,
        spot: Spot<'_>,
        key: &[u8],
        guard: &Writer<'_, Bytes>,
        decide: &mut impl FnMut(Option<&[u8]>) -> Change<&'v [u8]>,
    ) -> Result<Option<InNode>, Error> {
        let Spot {
            node,
            symbol,
            skipped,
        } = spot;
        let memory = &self.memory;
        let leaf = node.find(symbol);
        match leaf.kind() {
            Kind::Nothing if !(skipped || node.is_full() && symbol != END) => {
                let Change::Set(value) = decide(None) else {
                    return Ok(Some(InNode::Unchanged));
                };
                node.insert(symbol, record::create(memory, key, value)?);
                guard.count_entries(1);
                return Ok(Some(InNode::Changed));
            }
            Kind::Leaf if record::compare(memory, leaf, key, guard) == Match::Equal => {}
            _ => return Ok(None),
        }
        Ok(Some(
            match decide(Some(record::value_of(memory, leaf, guard))) {
                Change::Keep => InNode::Unchanged,
                Change::Set(value) => {
                    let new = record::create(memory, key, value)?;
                    record::mark_dead(memory, leaf, guard);
                    node.replace(symbol, new);
                    guard.retire(leaf);
                    InNode::Changed
                }
                Change::Remove => {
                    record::mark_dead(memory, leaf, guard);
                    node.remove(symbol);
                    guard.retire(leaf);
                    guard.count_entries(-1);
                    InNode::Shrunk
                }
            },
        ))
    }

    /// Inserts a key that the place shows to be absent, if `decide` says so.
    fn visit_absent<'v>(
        &self,
        place: &Place,
        node: Inner<'_>,
        key: &[u8],
        guard: &Writer<'_, Bytes>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<&[u8]>) -> Change<&'v [u8]>,
    ) -> Result<(Attempt, Unlock), Error> {
        let fork = match self.fork_depth(place, key, guard) {
            Fork::None => None,
            Fork::At(depth, symbol) => Some((depth, symbol)),
            Fork::Above(depth) => return Ok((Attempt::Leaves(depth), Unlock::Unchanged)),
            Fork::Unknown => return Ok((Attempt::Restart, Unlock::Unchanged)),
        };
        if fork.is_none() && place.symbol < 256 && node.is_full() {
            return self.grow(place, node, key, guard, probe, decide);
        }
        let Change::Set(value) = decide(None) else {
            return Ok((Attempt::Done, Unlock::Unchanged));
        };
        let leaf = record::create(&self.memory, key, value)?;
        match fork {
            None => node.insert(place.symbol, leaf),
            Some((depth, symbol)) => {
                let own = Bytes::symbol(key, depth).unwrap_or_default();
                let fork = match self.fork(depth, (symbol, place.child), (own, leaf)) {
                    Ok(fork) => fork,
                    Err(error) => {
                        // SAFETY: nobody else has seen the leaf.
                        unsafe { record::free(&self.memory, leaf) };
                        return Err(error);
                    }
                };
                node.replace(place.symbol, fork);
            }
        }
        guard.count_entries(1);
        Ok((Attempt::Done, Unlock::Changed))
    }

    /// Decides where an absent key leaves the tree, given a place under its lock.
    fn fork_depth(&self, place: &Place, key: &[u8], guard: &Writer<'_, Bytes>) -> Fork {
        let below = if place.child.is_null() {
            if !place.skipped {
                return Fork::None;
            }
            // Read without a version, which would wait for our own lock.
            self.any_key(self.memory.inner(place.node).first(), guard)
        } else {
            self.any_key(place.child, guard)
        };
        let Some(other) = below else {
            return Fork::Unknown;
        };
        let depth = Bytes::difference(key, other);
        match depth {
            Some(depth) if depth < place.depth => Fork::Above(depth),
            _ if place.child.is_null() => Fork::None,
            Some(depth) if depth < self.depth_of(place.child) => {
                Fork::At(depth, Bytes::symbol(other, depth).unwrap_or_default())
            }
            // The child covers the key by now, or its leaf has become the key's.
            _ => Fork::Unknown,
        }
    }

    /// The depth of a child: how many bytes all keys below agree in, at least.
    fn depth_of(&self, child: Ref) -> usize {
        match child.kind() {
            Kind::Leaf | Kind::Nothing => usize::MAX,
            _ => self.memory.inner(child).header().depth(),
        }
    }

    /// Makes a node of two children.
    fn fork(&self, depth: usize, a: (Symbol, Ref), b: (Symbol, Ref)) -> Result<Ref, Error> {
        let fork = self.memory.allocate_inner(Kind::Node4, depth)?;
        let node = self.memory.inner(fork);
        for (symbol, child) in [a, b] {
            node.insert(symbol, self.memory.edge(depth, child));
        }
        node.header().publish();
        Ok(fork)
    }

    /// Replaces a full node by a larger one that has the new leaf already.
    fn grow<'v>(
        &self,
        place: &Place,
        node: Inner<'_>,
        key: &[u8],
        guard: &Writer<'_, Bytes>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<&[u8]>) -> Change<&'v [u8]>,
    ) -> Result<(Attempt, Unlock), Error> {
        let restart = Ok((Attempt::Restart, Unlock::Unchanged));
        let Some((parent, parent_symbol)) = place.parent else {
            return restart;
        };
        let above = self.memory.inner(parent);
        let Some(held_above) = Held::try_lock(&above.header().lock) else {
            return restart;
        };
        probe.lock(0);
        if !above.find(parent_symbol).same(place.node) {
            held_above.unlock_unchanged();
            return restart;
        }
        let Change::Set(value) = decide(None) else {
            held_above.unlock_unchanged();
            return Ok((Attempt::Done, Unlock::Unchanged));
        };
        match self.enlarged(node, place, key, value) {
            Ok(larger) => {
                let edge = self.memory.edge(above.header().depth(), larger);
                above.replace(parent_symbol, edge);
                drop(held_above);
                guard.count_entries(1);
                Ok((Attempt::Done, Unlock::Obsolete))
            }
            Err(error) => {
                held_above.unlock_unchanged();
                Err(error)
            }
        }
    }

    /// A copy of a full node in the next larger kind, with one entry more.
    fn enlarged(
        &self,
        node: Inner<'_>,
        place: &Place,
        key: &[u8],
        value: &[u8],
    ) -> Result<Ref, Error> {
        let kind = match node {
            Inner::Node4(_) => Kind::Node16,
            Inner::Node16(_) => Kind::Node48,
            _ => Kind::Node256,
        };
        let leaf = record::create(&self.memory, key, value)?;
        let larger = match self.memory.allocate_inner(kind, place.depth) {
            Ok(larger) => larger,
            Err(error) => {
                // SAFETY: nobody else has seen the leaf.
                unsafe { record::free(&self.memory, leaf) };
                return Err(error);
            }
        };
        let copy = self.memory.inner(larger);
        node.for_each(|symbol, child| copy.insert(symbol, child));
        copy.insert(place.symbol, leaf);
        copy.header().publish();
        Ok(larger)
    }
}

/// See [`LeafForm::smaller`].
pub fn smaller(memory: &Memory, node: Ref) -> Result<Ref, Error> {
    let node = memory.inner(node);
    if node.children() <= 1 {
        return Ok(node.first());
    }
    let kind = kind_for(node.header().count());
    let smaller = memory.allocate_inner(kind, node.header().depth())?;
    let copy = memory.inner(smaller);
    node.for_each(|symbol, child| copy.insert(symbol, child));
    copy.header().publish();
    Ok(smaller)
}

/// The smallest kind that has room for a number of children.
pub fn kind_for(count: usize) -> Kind {
    match count {
        0..=4 => Kind::Node4,
        5..=16 => Kind::Node16,
        17..=48 => Kind::Node48,
        _ => Kind::Node256,
    }
}

/// How the caller has to unlock the place's node.
enum Unlock {
    Unchanged,
    Changed,
    Obsolete,
}

/// Where an absent key leaves the tree.
enum Fork {
    /// At the place itself: its slot is free.
    None,
    /// Between the place and its child, at a depth where the child's keys have a symbol.
    At(usize, Symbol),
    /// Above the place.
    Above(usize),
    /// Another thread is changing what the answer depends on.
    Unknown,
}

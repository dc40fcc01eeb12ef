//! Changing a key, present or not, by swaps of slots.

use super::SmartTree;
use super::node::{Node, Place, Size};
use super::slot::Slot;
use crate::change::Change;
use crate::counters::{Probe, Visit};
use crate::lock::pause;
use crate::rivals::leaf::{Leaf, NewLeaf, RivalForm};
use crate::rivals::scan::{Child, Restart, Symbol, symbol};
use crossbeam_epoch::Guard;
use std::sync::atomic::Ordering;

/// The slot that leads to a node, and the node that it is of.
#[derive(Clone, Copy, Debug)]
struct Parent<'g> {
    node: Node<'g>,
    place: Place<'g>,
}

/// A key's place in the node that covers it.
#[derive(Clone, Copy, Debug)]
struct Spot<'g> {
    node: Node<'g>,
    symbol: Symbol,
    place: Place<'g>,
    level: usize,
}

impl<F: RivalForm, const DELEGATES: bool> SmartTree<F, DELEGATES> {
    /// Changes a key as `decide` says.
    pub(super) fn change<'v>(
        &self,
        key: &[u8],
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>> + ?Sized),
    ) {
        let mut waits = 0;
        loop {
            match self.try_change(key, guard, probe, decide) {
                Ok(0) => return,
                Ok(change) => return self.entries.add(change),
                Err(Restart) => {
                    probe.restart();
                    pause(&mut waits);
                }
            }
        }
    }

    /// Answers by how much the number of entries has changed.
    fn try_change<'g, 'v>(
        &'g self,
        key: &[u8],
        guard: &'g Guard,
        probe: &mut impl Probe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>> + ?Sized),
    ) -> Result<i64, Restart> {
        let mut node: Node<'g> = self.root;
        let mut parent: Option<Parent<'g>> = None;
        let mut level = 0;
        loop {
            let mut compared = 0;
            let depth = level;
            if let Some(above) = parent.filter(|parent| parent.place.slot.has_prefix()) {
                let (parting, bytes) = node.parting(key, depth, true);
                compared = bytes;
                if let Some(at) = parting {
                    probe.node(node.visit(None, 0, true, compared));
                    let Change::Set(value) = decide(None) else {
                        return Ok(0);
                    };
                    let leaf = NewLeaf::new(key, value);
                    self.put_above(above, node, depth, at, leaf, probe)?;
                    return Ok(1);
                }
                level = node.level();
            }
            let symbol = symbol(key, level);
            let place = node.find(symbol);
            let offset = place.map_or(0, |place| place.offset);
            let visit: Visit = node.visit(symbol, offset, level != depth, compared);
            probe.node(visit);
            let Some(place) = place else {
                let Change::Set(_) = decide(None) else {
                    return Ok(0);
                };
                self.replace(parent, node, symbol, guard, probe);
                return Err(Restart);
            };
            let spot = Spot {
                node,
                symbol,
                place,
                level,
            };
            // SAFETY: the child was the node's at an instant since the guard; whoever unlinks it
            // afterwards does not free it during 'g.
            match unsafe { place.slot.child::<F>() } {
                Some(Child::Node(child)) => {
                    parent = Some(Parent { node, place });
                    node = child;
                    level += 1;
                    continue;
                }
                found => {
                    let leaf = match found {
                        Some(Child::Leaf(leaf)) => Some(leaf),
                        _ => None,
                    };
                    let changed = self.change_spot(spot, leaf, key, guard, probe, decide);
                    if changed.is_err() && Slot(place.at.load(Ordering::Relaxed)).is_frozen() {
                        self.replace(parent, node, symbol, guard, probe);
                    }
                    return changed;
                }
            }
        }
    }

    /// Changes what is at the place of a key: a leaf or nothing.
    fn change_spot<'v>(
        &self,
        spot: Spot<'_>,
        found: Option<Leaf<'_, F>>,
        key: &[u8],
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>> + ?Sized),
    ) -> Result<i64, Restart> {
        let Spot { node, symbol, .. } = spot;
        if let Some(leaf) = found {
            probe.node(leaf.visit());
        }
        let present = found.filter(|leaf| leaf.key() == key);
        let byte = symbol.unwrap_or(0);
        match (decide(present.map(Leaf::value)), present, found) {
            (Change::Keep, ..) | (Change::Remove, None, _) => Ok(0),
            (Change::Set(value), None, None) => {
                let leaf = NewLeaf::<F>::new(key, value);
                leaf.written(probe);
                self.swap_in(spot, leaf, probe)?;
                Ok(1)
            }
            (Change::Set(value), None, Some(other)) => {
                let leaf = NewLeaf::new(key, value);
                self.put_between(spot, other, leaf, probe)?;
                Ok(1)
            }
            (Change::Set(value), Some(leaf), _) => {
                if leaf.set(value) {
                    let bytes = F::value_bytes(value) as u32;
                    probe.write(leaf.address().as_ptr().addr(), bytes);
                    return Ok(0);
                }
                let new = NewLeaf::<F>::new(key, value);
                new.written(probe);
                self.swap_in(spot, new, probe)?;
                // SAFETY: the slot has another leaf now.
                unsafe { leaf.retire(guard) };
                Ok(0)
            }
            (Change::Remove, Some(leaf), _) => {
                let empty = match symbol {
                    Some(byte) => Slot::vacant(byte),
                    // No other symbol could take this place.
                    None => Slot::UNUSED,
                };
                debug_assert_eq!(empty.byte(), byte);
                if !spot.place.swap(empty, node.number(), probe) {
                    return Err(Restart);
                }
                // SAFETY: the slot has no leaf now.
                unsafe { leaf.retire(guard) };
                Ok(-1)
            }
        }
    }

    /// Swaps a new leaf into a place.
    fn swap_in(
        &self,
        spot: Spot<'_>,
        leaf: NewLeaf<F>,
        probe: &mut impl Probe,
    ) -> Result<(), Restart> {
        let slot = Slot::leaf(spot.symbol.unwrap_or(0), leaf.leaf());
        match spot.place.swap(slot, spot.node.number(), probe) {
            true => {
                leaf.into_address();
                Ok(())
            }
            false => Err(Restart),
        }
    }

    /// Puts a node in the place of a leaf, which leads to it and to that of another key.
    fn put_between(
        &self,
        spot: Spot<'_>,
        old: Leaf<'_, F>,
        new: NewLeaf<F>,
        probe: &mut impl Probe,
    ) -> Result<(), Restart> {
        let key = new.leaf().key();
        let depth = spot.level + 1;
        let rest = key[depth..].iter().zip(&old.key()[depth..]);
        let level = depth + rest.take_while(|(a, b)| a == b).count();
        let node = Node::new(Size::S4, level, &key[depth..level]);
        let old_symbol = symbol(old.key(), level);
        node.put(old_symbol, Slot::leaf(old_symbol.unwrap_or(0), old));
        self.publish(
            spot.place,
            spot.node,
            spot.symbol,
            (node, depth),
            new,
            probe,
        )
    }

    /// Puts a node above another one from whose prefix a key parts at a level.
    fn put_above(
        &self,
        parent: Parent<'_>,
        below: Node<'_>,
        depth: usize,
        level: usize,
        leaf: NewLeaf<F>,
        probe: &mut impl Probe,
    ) -> Result<(), Restart> {
        let prefix = below.prefix();
        let begin = below.level() - prefix.len();
        let node = Node::new(Size::S4, level, &prefix[depth - begin..level - begin]);
        let byte = prefix[level - begin];
        node.put(Some(byte), Slot::node(byte, below, level + 1));
        let byte = Some(parent.place.slot.byte());
        self.publish(parent.place, parent.node, byte, (node, depth), leaf, probe)
    }

    /// Adds a leaf to a new node, and swaps the node into a place that paths of `depth` bytes lead
    /// to.
    fn publish(
        &self,
        place: Place<'_>,
        of: Node<'_>,
        symbol_of_place: Symbol,
        (node, depth): (Node<'static>, usize),
        leaf: NewLeaf<F>,
        probe: &mut impl Probe,
    ) -> Result<(), Restart> {
        leaf.written(probe);
        let leaf_symbol = symbol(leaf.leaf().key(), node.level());
        node.put(
            leaf_symbol,
            Slot::leaf(leaf_symbol.unwrap_or(0), leaf.leaf()),
        );
        node.written(probe);
        let slot = Slot::node(symbol_of_place.unwrap_or(0), node, depth);
        if place.swap(slot, of.number(), probe) {
            leaf.into_address();
            return Ok(());
        }
        // SAFETY: it never became part of the tree.
        unsafe { node.free() };
        Err(Restart)
    }

    /// Freezes a node, and puts a copy in its place that has a slot for a symbol. If another thread
    /// is quicker, this does nothing.
    fn replace(
        &self,
        parent: Option<Parent<'_>>,
        node: Node<'_>,
        wanted: Symbol,
        guard: &Guard,
        probe: &mut impl Probe,
    ) {
        // The root has a slot for each byte.
        let Some(parent) = parent else { return };
        for word in node.words() {
            word.fetch_or(Slot::UNUSED.frozen().0, Ordering::AcqRel);
        }
        let slots = || {
            let words = node.words().enumerate();
            words.map(|(position, word)| {
                let slot = Slot(word.load(Ordering::Acquire));
                ((position > 0).then_some(slot.byte()), slot)
            })
        };
        let live = slots().filter(|(_, slot)| !slot.is_empty()).count();
        // Slots that lead to nothing are given up. If most do, there is room enough.
        let mut size = match live > node.size().slots() / 2 {
            true => node.size().doubled(),
            false => node.size(),
        };
        let copy = loop {
            let copy = node.resized(size);
            let put = |(symbol, slot): (Symbol, Slot)| {
                slot.is_empty() || copy.put(symbol, slot.under(symbol.unwrap_or(0)))
            };
            if slots().all(put) && copy.find(wanted).is_some() {
                break copy;
            }
            // SAFETY: nobody else knows it.
            unsafe { copy.free() };
            size = size.doubled();
        };
        let old = parent.place.slot;
        let slot = old.resized(copy);
        if parent.place.swap(slot, parent.node.number(), probe) {
            copy.written(probe);
            probe.replace(node.number(), copy.number(), copy.bytes());
            // SAFETY: the parent's slot has another node now.
            unsafe { node.retire(guard) };
        } else {
            // SAFETY: it never became part of the tree.
            unsafe { copy.free() };
        }
    }
}

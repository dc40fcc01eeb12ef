//! Changes of a key, present or not, by swaps of slots.

use super::SwapTree;
use super::node::{SwapNode, SwapNodeSize, SwapNodeSlots, SwapSlotPlace, WINDOW};
use super::slot::SwapSlot;
use crate::leaf::{NewRivalLeaf, RivalForm, RivalLeaf};
use crate::scan::{Restart, RivalChild, Symbol, symbol};
use crossbeam_epoch::Guard;
use nearfield_radix::lock::pause;
use nearfield_radix::{RadixKeyChange, RadixProbe};
use std::sync::atomic::Ordering;

/// A key's place in the node that covers it.
#[derive(Clone, Copy, Debug)]
struct SwapKeyPosition<'g> {
    symbol: Symbol,
    place: SwapSlotPlace<'g>,
    level: usize,
}

impl<F: RivalForm, const APART: bool, const IN_PLACE: bool> SwapTree<F, APART, IN_PLACE> {
    /// Applies the decision of `decide` to a key.
    pub fn change<'v>(
        &self,
        key: &[u8],
        guard: &Guard,
        probe: &mut impl RadixProbe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>> + ?Sized),
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

    /// Tries to change a key. Returns the change of the number of entries.
    fn try_change<'g, 'v>(
        &'g self,
        key: &[u8],
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>> + ?Sized),
    ) -> Result<i64, Restart> {
        let mut node: SwapNode<'g, APART> = self.root;
        let mut parent: Option<SwapSlotPlace<'g>> = None;
        let mut level = 0;
        loop {
            let (depth, mut compared) = (level, 0);
            if let Some(above) = parent.filter(|above| above.slot.has_prefix()) {
                // A writer compares the whole prefix: without an entry below, no leaf would show a
                // difference later.
                let (parting, bytes) = node.parting(key, depth, true);
                compared = bytes;
                if let Some(at) = parting {
                    node.report(None, None, true, compared, probe);
                    let RadixKeyChange::Set(value) = decide(None) else {
                        return Ok(0);
                    };
                    let leaf = NewRivalLeaf::new(key, value);
                    self.put_above(above, node, depth, at, leaf, probe)?;
                    return Ok(1);
                }
                level = node.level();
            }
            let symbol = symbol(key, level);
            let slots = node.slots();
            let place = match symbol {
                Some(byte) => slots.find(byte),
                None => node.find(None),
            };
            node.report(symbol, place, level != depth, compared, probe);
            let Some(place) = place else {
                let RadixKeyChange::Set(_) = decide(None) else {
                    return Ok(0);
                };
                self.replace(parent, node, slots, symbol, guard, probe);
                // The copy has a slot for the symbol, or another thread has made one.
                return Err(Restart);
            };
            // SAFETY: the child belonged to the node at an instant since the guard was pinned; a
            // thread that unlinks it afterwards does not free it during 'g.
            let leaf = match unsafe { place.slot.child::<F, APART>() } {
                Some(RivalChild::Node(child)) => {
                    parent = Some(place);
                    node = child;
                    level += 1;
                    continue;
                }
                Some(RivalChild::Leaf(leaf)) => Some(leaf),
                None => None,
            };
            let spot = SwapKeyPosition {
                symbol,
                place,
                level,
            };
            let changed = self.change_spot(spot, leaf, key, guard, probe, decide);
            // A frozen slot never changes again, so the node must be replaced before the next
            // attempt.
            let is_frozen = SwapSlot(place.at.load(Ordering::Relaxed)).is_frozen();
            if changed.is_err() && is_frozen || changed == Ok(-1) && shrinks::<APART>(slots) {
                self.replace(parent, node, slots, symbol, guard, probe);
            }
            return changed;
        }
    }

    /// Changes the leaf, or the absence of one, at the place of a key.
    fn change_spot<'v>(
        &self,
        spot: SwapKeyPosition<'_>,
        found: Option<RivalLeaf<'_, F>>,
        key: &[u8],
        guard: &Guard,
        probe: &mut impl RadixProbe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>> + ?Sized),
    ) -> Result<i64, Restart> {
        let symbol = spot.symbol;
        if let Some(leaf) = found {
            probe.node(leaf.visit());
        }
        let present = found.filter(|leaf| leaf.key() == key);
        match (decide(present.map(RivalLeaf::value)), present, found) {
            (RadixKeyChange::Keep, ..) | (RadixKeyChange::Remove, None, _) => Ok(0),
            (RadixKeyChange::Set(value), None, None) => {
                let leaf = NewRivalLeaf::<F>::new(key, value);
                leaf.written(probe);
                self.swap_in(spot, leaf, probe)?;
                Ok(1)
            }
            (RadixKeyChange::Set(value), None, Some(other)) => {
                let leaf = NewRivalLeaf::new(key, value);
                self.put_between(spot, other, leaf, probe)?;
                Ok(1)
            }
            (RadixKeyChange::Set(value), Some(leaf), _) => {
                // Setting a value in place requires that writers of a key exclude each other.
                if IN_PLACE && leaf.set(value) {
                    let bytes = F::value_bytes(value) as u32;
                    probe.write(leaf.address().as_ptr().addr(), bytes);
                    return Ok(0);
                }
                let new = NewRivalLeaf::<F>::new(key, value);
                new.written(probe);
                self.swap_in(spot, new, probe)?;
                // SAFETY: the slot now has another leaf.
                unsafe { leaf.retire(guard) };
                Ok(0)
            }
            (RadixKeyChange::Remove, Some(leaf), _) => {
                let empty = match symbol {
                    Some(byte) => SwapSlot::vacant(byte),
                    // No other symbol could use this place.
                    None => SwapSlot::UNUSED,
                };
                if !spot.place.swap(empty, probe) {
                    return Err(Restart);
                }
                // SAFETY: the slot no longer has a leaf.
                unsafe { leaf.retire(guard) };
                Ok(-1)
            }
        }
    }

    /// Swaps a new leaf into a place.
    fn swap_in(
        &self,
        spot: SwapKeyPosition<'_>,
        leaf: NewRivalLeaf<F>,
        probe: &mut impl RadixProbe,
    ) -> Result<(), Restart> {
        let slot = SwapSlot::leaf(spot.symbol.unwrap_or(0), leaf.leaf());
        match spot.place.swap(slot, probe) {
            true => {
                leaf.into_address();
                Ok(())
            }
            false => Err(Restart),
        }
    }

    /// Replaces a leaf with a node that leads to it and to the leaf of another key.
    fn put_between(
        &self,
        spot: SwapKeyPosition<'_>,
        old: RivalLeaf<'_, F>,
        new: NewRivalLeaf<F>,
        probe: &mut impl RadixProbe,
    ) -> Result<(), Restart> {
        let key = new.leaf().key();
        let depth = spot.level + 1;
        let rest = key[depth..].iter().zip(&old.key()[depth..]);
        let level = depth + rest.take_while(|(a, b)| a == b).count();
        let node = SwapNode::<APART>::new(SwapNodeSize::S4, level, &key[depth..level]);
        // The keys differ in this byte, or one of them ends before it.
        let old_symbol = symbol(old.key(), level);
        node.put(old_symbol, SwapSlot::leaf(old_symbol.unwrap_or(0), old));
        self.publish(spot.place, spot.symbol, (node, depth), new, probe)
    }

    /// Inserts a node above another one from whose prefix a key differs at a level.
    fn put_above(
        &self,
        above: SwapSlotPlace<'_>,
        below: SwapNode<'_, APART>,
        depth: usize,
        level: usize,
        leaf: NewRivalLeaf<F>,
        probe: &mut impl RadixProbe,
    ) -> Result<(), Restart> {
        let prefix = below.prefix();
        let begin = below.level() - prefix.len();
        let prefix_of_new = &prefix[depth - begin..level - begin];
        let node = SwapNode::<APART>::new(SwapNodeSize::S4, level, prefix_of_new);
        let byte = prefix[level - begin];
        node.put(Some(byte), SwapSlot::node(byte, below, level + 1));
        let byte = Some(above.slot.byte());
        self.publish(above, byte, (node, depth), leaf, probe)
    }

    /// Adds a leaf to a new node, and swaps the node into a place to which paths of `depth` bytes
    /// lead.
    fn publish(
        &self,
        place: SwapSlotPlace<'_>,
        symbol_of_place: Symbol,
        (node, depth): (SwapNode<'static, APART>, usize),
        leaf: NewRivalLeaf<F>,
        probe: &mut impl RadixProbe,
    ) -> Result<(), Restart> {
        leaf.written(probe);
        let leaf_symbol = symbol(leaf.leaf().key(), node.level());
        node.put(
            leaf_symbol,
            SwapSlot::leaf(leaf_symbol.unwrap_or(0), leaf.leaf()),
        );
        node.written(probe);
        let slot = SwapSlot::node(symbol_of_place.unwrap_or(0), node, depth);
        // The leaf belongs to the tree only after the swap. Until then, its destructor frees it.
        if place.swap(slot, probe) {
            leaf.into_address();
            return Ok(());
        }
        // SAFETY: it never became part of the tree.
        unsafe { node.free() };
        Err(Restart)
    }

    /// Freezes a node, and replaces its slots, or replaces the node with a copy, so that there is a
    /// slot for a symbol. If another thread is quicker, this has no effect.
    fn replace(
        &self,
        parent: Option<SwapSlotPlace<'_>>,
        node: SwapNode<'_, APART>,
        slots: SwapNodeSlots<'_>,
        wanted: Symbol,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) {
        // The root has a slot for each byte.
        let Some(parent) = parent else { return };
        let freeze = SwapSlot::UNUSED.frozen().0;
        let frozen = slots.words().iter().map(|word| {
            // Freezing returns the last content of the slot: no swap succeeds after it.
            let slot = SwapSlot(word.fetch_or(freeze, Ordering::AcqRel));
            slot.under(slot.byte())
        });
        // Slots that lead to nothing are dropped.
        let live: Vec<SwapSlot> = frozen.filter(|slot| !slot.is_empty()).collect();
        if APART {
            let new = filled(slots.size(), &live, wanted);
            new.written(probe);
            let (from, to) = (slots.words().as_ptr().addr(), new.words().as_ptr().addr());
            let bytes = 8 * new.words().len() as u32;
            if node.exchange(slots, new, guard) {
                probe.write(node.number(), 8);
                probe.replace(from, to, bytes);
            }
            return;
        }
        let end = SwapSlot(node.end().fetch_or(freeze, Ordering::AcqRel));
        let end = end.under(end.byte());
        // Within its window, a byte may find no place even in a node that is not full. So sizes are
        // tried.
        let mut size = size_for(slots.size(), live.len());
        let copy = loop {
            let copy = SwapNode::<APART>::new(size, node.level(), node.prefix());
            let mut all = live.iter().map(|&slot| (Some(slot.byte()), slot));
            let ends = end.is_empty() || copy.put(None, end);
            if ends
                && all.all(|(symbol, slot)| copy.put(symbol, slot))
                && copy.find(wanted).is_some()
            {
                break copy;
            }
            // SAFETY: no other thread can reach it.
            unsafe { copy.free() };
            size = size.doubled();
        };
        copy.written(probe);
        if parent.swap(parent.slot.leading_to(copy), probe) {
            probe.replace(node.number(), copy.number(), copy.bytes());
            // SAFETY: the parent's slot now has another node.
            unsafe { node.retire(guard) };
        } else {
            // SAFETY: it never became part of the tree.
            unsafe { copy.free() };
        }
    }
}

/// Returns true if enough slots lead to nothing for a smaller number to suffice. Nodes whose slots
/// follow them do not shrink.
fn shrinks<const APART: bool>(slots: SwapNodeSlots<'_>) -> bool {
    let words = slots.words();
    let live = || {
        words
            .iter()
            .filter(|word| !SwapSlot(word.load(Ordering::Relaxed)).is_empty())
    };
    APART && words.len() > WINDOW && live().count() < words.len() / 4
}

/// Returns the size for `live` children that have left slots of size `left`.
fn size_for(left: SwapNodeSize, live: usize) -> SwapNodeSize {
    match live {
        // Fuller nodes have little room in windows, and would be copied again soon.
        _ if live > left.slots() / 2 => left.doubled(),
        _ if live < left.slots() / 4 => left.halved(),
        _ => left,
    }
}

/// Creates slots that are stored apart for children, and for a symbol.
fn filled<'g>(left: SwapNodeSize, live: &[SwapSlot], wanted: Symbol) -> SwapNodeSlots<'g> {
    let mut size = size_for(left, live.len());
    loop {
        let slots = SwapNodeSlots::new(size);
        let put = |slot: &SwapSlot| match slots.find(slot.byte()) {
            Some(place) if place.slot.is_unused() => {
                place.at.store(slot.0, Ordering::Relaxed);
                true
            }
            _ => false,
        };
        if live.iter().all(put) && wanted.is_none_or(|byte| slots.find(byte).is_some()) {
            return slots;
        }
        // SAFETY: they were created above.
        unsafe { slots.free() };
        size = size.doubled();
    }
}

//! Changing the value of a key, present or not.

use super::Olc;
use super::node::{check, copy, enter, find, insert, is_full, new_node4, upgrade};
use crate::change::Change;
use crate::counters::Probe;
use crate::lock::{Version, pause};
use crate::rivals::art::node::{Found, Node, Prefix, Tagged};
use crate::rivals::leaf::{Leaf, NewLeaf, RivalForm};
use crate::rivals::scan::{Child, Restart, Symbol, symbol};
use crossbeam_epoch::Guard;

/// Where a node hangs: in which slot of which node, at which version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parent<'g> {
    pub node: Node<'g>,
    pub version: Version,
    pub slot: u32,
}

/// Where the walk of a writer ends: at a node that covers the key, at a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'g> {
    pub parent: Option<Parent<'g>>,
    pub node: Node<'g>,
    pub version: Version,
    /// The symbol of the key at the node's level.
    pub symbol: Symbol,
    pub found: Found,
}

impl<F: RivalForm, const VALIDATES: bool> Olc<F, VALIDATES> {
    /// Changes a key as `decide` says.
    pub(super) fn change<'v>(
        &self,
        key: &[u8],
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) {
        let mut waits = 0;
        loop {
            match self.try_change(key, guard, probe, decide) {
                Ok(0) => return,
                Ok(change) => return self.root.entries.add(change),
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
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Result<i64, Restart> {
        let mut parent = None;
        let mut node = self.root.node();
        let mut version = enter(node, probe)?;
        let mut depth = 0;
        loop {
            let prefix = node.prefix();
            if prefix.length() != 0 {
                if let Some(agree) = disagrees::<F>(node, prefix, key, depth)? {
                    probe.node(node.visit_prefix(prefix));
                    check::<VALIDATES>(node, version)?;
                    let Change::Set(value) = decide(None) else {
                        return Ok(0);
                    };
                    let parent = parent.ok_or(Restart)?;
                    let leaf = NewLeaf::<F>::new(key, value);
                    self.split_prefix(parent, node, version, depth, agree, leaf, probe)?;
                    return Ok(1);
                }
                depth += prefix.length();
            }
            let symbol = symbol(key, depth);
            let found = find(node, symbol);
            probe.node(node.visit(symbol, found.slot, prefix));
            check::<VALIDATES>(node, version)?;
            let place = Place {
                parent,
                node,
                version,
                symbol,
                found,
            };
            // SAFETY: the version was validated, so that the child was the node's at an instant
            // since the guard; whoever unlinks it afterwards does not free it during 'g.
            match unsafe { found.child.child::<F>() } {
                None => {
                    let Change::Set(value) = decide(None) else {
                        return Ok(0);
                    };
                    self.add(place, NewLeaf::new(key, value), guard, probe)?;
                    return Ok(1);
                }
                Some(Child::Leaf(leaf)) => {
                    probe.node(leaf.visit());
                    if leaf.key() == key {
                        return self.change_leaf(place, leaf, guard, probe, decide);
                    }
                    let Change::Set(value) = decide(None) else {
                        return Ok(0);
                    };
                    let new = NewLeaf::new(key, value);
                    self.split_leaf(place, leaf, depth + 1, new, probe)?;
                    return Ok(1);
                }
                Some(Child::Node(child)) => {
                    let child_version = enter(child, probe)?;
                    check::<VALIDATES>(node, version)?;
                    parent = Some(Parent {
                        node,
                        version,
                        slot: found.slot,
                    });
                    (node, version) = (child, child_version);
                    depth += 1;
                }
            }
        }
    }

    /// Changes the value of a key that is present, or removes it.
    fn change_leaf<'v>(
        &self,
        place: Place<'_>,
        leaf: Leaf<'_, F>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Result<i64, Restart> {
        let node = place.node;
        upgrade(node, place.version, probe)?;
        match decide(Some(leaf.value())) {
            Change::Keep => {
                node.lock().unlock_unchanged();
                Ok(0)
            }
            Change::Set(value) => {
                if leaf.set(value) {
                    let bytes = F::value_bytes(value) as u32;
                    probe.write(leaf.address().as_ptr().addr(), bytes);
                    // The slot is the same.
                    node.lock().unlock_unchanged();
                    return Ok(0);
                }
                let new = NewLeaf::<F>::new(leaf.key(), value);
                new.written(probe);
                node.put(place.found.slot, Tagged::new_leaf(new), probe);
                node.lock().unlock_changed();
                // SAFETY: the slot has another leaf now.
                unsafe { leaf.retire(guard) };
                Ok(0)
            }
            Change::Remove => {
                // Unlocks the node in any case.
                self.take(place, guard, probe)?;
                // SAFETY: the leaf was taken out of its node.
                unsafe { leaf.retire(guard) };
                Ok(-1)
            }
        }
    }

    /// Adds a leaf to a node, or to a larger one in its place.
    fn add(
        &self,
        place: Place<'_>,
        leaf: NewLeaf<F>,
        guard: &Guard,
        probe: &mut impl Probe,
    ) -> Result<(), Restart> {
        let Place {
            node,
            version,
            symbol,
            ..
        } = place;
        let byte = symbol.filter(|_| is_full(node));
        let (Some(byte), Some(parent)) = (byte, place.parent) else {
            upgrade(node, version, probe)?;
            leaf.written(probe);
            insert(node, symbol, Tagged::new_leaf(leaf), probe);
            node.lock().unlock_changed();
            return Ok(());
        };
        lock_both(parent, node, version, probe)?;
        leaf.written(probe);
        let with = Some((byte, Tagged::new_leaf(leaf)));
        let larger = copy(node, node.kind().larger(), None, with);
        replace(parent, node, larger, guard, probe);
        Ok(())
    }

    /// Puts a new node4 between a node and a leaf that begins with the same byte of another key.
    fn split_leaf(
        &self,
        place: Place<'_>,
        old: Leaf<'_, F>,
        depth: usize,
        new: NewLeaf<F>,
        probe: &mut impl Probe,
    ) -> Result<(), Restart> {
        let node = place.node;
        upgrade(node, place.version, probe)?;
        new.written(probe);
        let key = new.leaf().key();
        let rest = key[depth..].iter().zip(&old.key()[depth..]);
        let level = depth + rest.take_while(|(a, b)| a == b).count();
        let node4 = new_node4(key, depth, level);
        let (new_symbol, old_symbol) = (symbol(key, level), symbol(old.key(), level));
        let mut nothing = crate::counters::Off;
        insert(
            node4,
            old_symbol,
            Tagged::of_leaf(old.address()),
            &mut nothing,
        );
        insert(node4, new_symbol, Tagged::new_leaf(new), &mut nothing);
        node4.written(probe);
        node.put(place.found.slot, Tagged::of_node(node4), probe);
        node.lock().unlock_changed();
        Ok(())
    }

    /// Puts a new node4 above a node, whose prefix agrees with the key of a leaf in `agree` bytes.
    #[expect(clippy::too_many_arguments, reason = "the place of a split")]
    fn split_prefix(
        &self,
        parent: Parent<'_>,
        node: Node<'_>,
        version: Version,
        depth: usize,
        agree: usize,
        leaf: NewLeaf<F>,
        probe: &mut impl Probe,
    ) -> Result<(), Restart> {
        let path = node.any_key::<F>().ok_or(Restart)?;
        lock_both(parent, node, version, probe)?;
        leaf.written(probe);
        let level = depth + agree;
        let node4 = new_node4(path, depth, level);
        let key_symbol = symbol(leaf.leaf().key(), level);
        let mut nothing = crate::counters::Off;
        insert(
            node4,
            symbol(path, level),
            Tagged::of_node(node),
            &mut nothing,
        );
        insert(node4, key_symbol, Tagged::new_leaf(leaf), &mut nothing);
        node4.written(probe);
        parent.node.put(parent.slot, Tagged::of_node(node4), probe);
        parent.node.lock().unlock_changed();
        let rest = path[level + 1..node.level()].iter().copied();
        node.set_prefix(Prefix::new(rest.len(), rest), probe);
        node.lock().unlock_changed();
        Ok(())
    }
}

/// How many bytes of a prefix agree with a key, if not all do.
fn disagrees<F: RivalForm>(
    node: Node<'_>,
    prefix: Prefix,
    key: &[u8],
    depth: usize,
) -> Result<Option<usize>, Restart> {
    if let Some((agree, _)) = prefix.difference(key, depth) {
        return Ok(Some(agree));
    }
    if prefix.is_whole() {
        return Ok(None);
    }
    let path = node.any_key::<F>().ok_or(Restart)?;
    let end = depth + prefix.length();
    // A walk whose depth is not that of the node any more ends when it validates.
    let path = path.get(depth..end).ok_or(Restart)?;
    let rest = key.get(depth..).unwrap_or_default();
    let agree = path.iter().zip(rest).take_while(|(a, b)| a == b).count();
    Ok((agree < path.len()).then_some(agree))
}

/// Locks a parent and its child at the versions that were read, or none of them.
pub(super) fn lock_both(
    parent: Parent<'_>,
    node: Node<'_>,
    version: Version,
    probe: &mut impl Probe,
) -> Result<(), Restart> {
    upgrade(parent.node, parent.version, probe)?;
    upgrade(node, version, probe).inspect_err(|_| parent.node.lock().unlock_unchanged())
}

/// Puts a copy in the place of a node, of which both are locked, and unlocks.
pub(super) fn replace(
    parent: Parent<'_>,
    node: Node<'_>,
    copy: Node<'_>,
    guard: &Guard,
    probe: &mut impl Probe,
) {
    copy.written(probe);
    parent.node.put(parent.slot, Tagged::of_node(copy), probe);
    probe.replace(node.place(), copy.place(), copy.kind().bytes());
    parent.node.lock().unlock_changed();
    node.lock().unlock_obsolete();
    // SAFETY: the parent's slot has another node now.
    unsafe { node.retire(guard) };
}

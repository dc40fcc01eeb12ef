//! Changes of the value of a key, present or not.

use super::locking::replace;
use super::{ArtTree, Parent, enter, upgrade};
use crate::art::node::{ArtNode, ArtNodeKind, ArtPrefix, ArtSearchResult, ArtTaggedPointer};
use crate::art::synchronization::Synchronization;
use crate::leaf::{NewRivalLeaf, RivalForm, RivalLeaf};
use crate::scan::{Restart, RivalChild, Symbol, symbol};
use crossbeam_epoch::Guard;
use nearfield_radix::lock::{Version, pause};
use nearfield_radix::{Off, RadixKeyChange, RadixProbe};

/// The end of a writer's walk: a node that covers the key, at a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArtWalkEnd<'g> {
    pub parent: Option<Parent<'g>>,
    pub node: ArtNode<'g>,
    pub version: Version,
    /// The symbol of the key at the node's level.
    pub symbol: Symbol,
    pub found: ArtSearchResult,
}

impl<F: RivalForm, S: Synchronization> ArtTree<F, S> {
    /// Applies the decision of `decide` to a key.
    pub(super) fn change<'v>(
        &self,
        key: &[u8],
        guard: &Guard,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
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

    /// Tries to change a key. Returns the change of the number of entries.
    fn try_change<'g, 'v>(
        &'g self,
        key: &[u8],
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<i64, Restart> {
        let mut parent = None;
        let mut node = self.root.node();
        let mut version = enter(node, probe)?;
        let mut depth = 0;
        loop {
            let prefix = node.prefix();
            if prefix.length() != 0 || depth != node.level() {
                if let Some(at) = parting::<F>(node, prefix, key, depth)? {
                    probe.node(node.visit_prefix(prefix));
                    S::check(node, version)?;
                    let RadixKeyChange::Set(value) = decide(None) else {
                        return Ok(0);
                    };
                    let parent = parent.ok_or(Restart)?;
                    let leaf = NewRivalLeaf::<F>::new(key, value);
                    let level = at;
                    self.split_prefix(parent, node, version, level, leaf, probe)?;
                    return Ok(1);
                }
                depth = node.level();
            }
            let symbol = symbol(key, depth);
            let found = S::find(node, symbol);
            probe.node(node.visit(symbol, found.slot, prefix));
            S::check(node, version)?;
            let place = ArtWalkEnd {
                parent,
                node,
                version,
                symbol,
                found,
            };
            // SAFETY: the version was validated, so the child belonged to the node at an instant
            // since the guard was pinned; a thread that unlinks it afterwards does not free it
            // during 'g.
            match unsafe { found.child.child::<F>() } {
                None => {
                    let RadixKeyChange::Set(value) = decide(None) else {
                        return Ok(0);
                    };
                    self.add(place, NewRivalLeaf::new(key, value), guard, probe)?;
                    return Ok(1);
                }
                Some(RivalChild::Leaf(leaf)) => {
                    probe.node(leaf.visit());
                    if leaf.key() == key {
                        return self.change_leaf(place, leaf, guard, probe, decide);
                    }
                    let RadixKeyChange::Set(value) = decide(None) else {
                        return Ok(0);
                    };
                    let new = NewRivalLeaf::new(key, value);
                    self.split_leaf(place, leaf, depth + 1, new, probe)?;
                    return Ok(1);
                }
                Some(RivalChild::Node(child)) => {
                    // The child is validated after its version was taken, so that it still belonged
                    // to the node then.
                    let child_version = enter(child, probe)?;
                    S::check(node, version)?;
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
        place: ArtWalkEnd<'_>,
        leaf: RivalLeaf<'_, F>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>>,
    ) -> Result<i64, Restart> {
        let node = place.node;
        upgrade(node, place.version, probe)?;
        match decide(Some(leaf.value())) {
            RadixKeyChange::Keep => {
                node.lock().unlock_unchanged();
                Ok(0)
            }
            RadixKeyChange::Set(value) => {
                if leaf.set(value) {
                    let bytes = F::value_bytes(value) as u32;
                    probe.write(leaf.address().as_ptr().addr(), bytes);
                    // The slot has not changed.
                    node.lock().unlock_unchanged();
                    return Ok(0);
                }
                let new = NewRivalLeaf::<F>::new(leaf.key(), value);
                new.written(probe);
                node.put(place.found.slot, ArtTaggedPointer::new_leaf(new), probe);
                node.lock().unlock_changed();
                // SAFETY: the slot now has another leaf.
                unsafe { leaf.retire(guard) };
                Ok(0)
            }
            RadixKeyChange::Remove => {
                // This unlocks the node in any case.
                self.take(place, guard, probe)?;
                // SAFETY: the leaf was removed from its node.
                unsafe { leaf.retire(guard) };
                Ok(-1)
            }
        }
    }

    /// Adds a leaf to a node, or to a larger one that replaces it.
    fn add(
        &self,
        place: ArtWalkEnd<'_>,
        leaf: NewRivalLeaf<F>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) -> Result<(), Restart> {
        let ArtWalkEnd {
            node,
            version,
            symbol,
            ..
        } = place;
        // The key that ends has a slot of its own in nodes of every kind.
        let outgrown = symbol.and_then(|byte| Some((byte, S::outgrown(node)?)));
        let (Some((byte, kind)), Some(parent)) = (outgrown, place.parent) else {
            upgrade(node, version, probe)?;
            leaf.written(probe);
            S::insert(node, symbol, ArtTaggedPointer::new_leaf(leaf), probe);
            node.lock().unlock_changed();
            return Ok(());
        };
        lock_both::<S>(parent, node, version, probe)?;
        leaf.written(probe);
        let larger = copy::<S>(node, kind, None);
        S::insert(
            larger,
            Some(byte),
            ArtTaggedPointer::new_leaf(leaf),
            &mut Off,
        );
        replace(parent, node, larger, guard, probe);
        Ok(())
    }

    /// Inserts a new node4 between a node and a leaf of another key that begins with the same byte.
    fn split_leaf(
        &self,
        place: ArtWalkEnd<'_>,
        old: RivalLeaf<'_, F>,
        depth: usize,
        new: NewRivalLeaf<F>,
        probe: &mut impl RadixProbe,
    ) -> Result<(), Restart> {
        let node = place.node;
        upgrade(node, place.version, probe)?;
        new.written(probe);
        let key = new.leaf().key();
        let rest = key[depth..].iter().zip(&old.key()[depth..]);
        let level = depth + rest.take_while(|(a, b)| a == b).count();
        let node4 = new_node4(key, depth, level);
        let (new_symbol, old_symbol) = (symbol(key, level), symbol(old.key(), level));
        S::insert(
            node4,
            old_symbol,
            ArtTaggedPointer::of_leaf(old.address()),
            &mut Off,
        );
        S::insert(node4, new_symbol, ArtTaggedPointer::new_leaf(new), &mut Off);
        node4.written(probe);
        node.put(place.found.slot, ArtTaggedPointer::of_node(node4), probe);
        node.lock().unlock_changed();
        Ok(())
    }

    /// Inserts a new node4 above a node from whose prefix the key of a leaf differs at a level.
    fn split_prefix(
        &self,
        parent: Parent<'_>,
        node: ArtNode<'_>,
        version: Version,
        level: usize,
        leaf: NewRivalLeaf<F>,
        probe: &mut impl RadixProbe,
    ) -> Result<(), Restart> {
        // The node stores only the first bytes of its prefix. Any leaf below has them all.
        let path = node.any_key::<F>().ok_or(Restart)?;
        lock_both::<S>(parent, node, version, probe)?;
        leaf.written(probe);
        let node4 = new_node4(path, parent.node.level() + 1, level);
        let key_symbol = symbol(leaf.leaf().key(), level);
        S::insert(
            node4,
            symbol(path, level),
            ArtTaggedPointer::of_node(node),
            &mut Off,
        );
        S::insert(
            node4,
            key_symbol,
            ArtTaggedPointer::new_leaf(leaf),
            &mut Off,
        );
        node4.written(probe);
        // Readers that come by the new node before the prefix is shorter skip its first bytes.
        // Readers that come by the parent's former slot afterwards find that the prefix is too
        // short.
        parent
            .node
            .put(parent.slot, ArtTaggedPointer::of_node(node4), probe);
        parent.node.lock().unlock_changed();
        let rest = path[level + 1..node.level()].iter().copied();
        node.set_prefix(ArtPrefix::new(rest.len(), rest), probe);
        node.lock().unlock_changed();
        Ok(())
    }
}

/// Returns the level at which a key differs from the prefix of a node, to which a path of `depth`
/// bytes leads, if it does.
fn parting<F: RivalForm>(
    node: ArtNode<'_>,
    prefix: ArtPrefix,
    key: &[u8],
    depth: usize,
) -> Result<Option<usize>, Restart> {
    let level = node.level();
    // Another thread has inserted a node between, or removed one, so the path is out of date.
    if depth + prefix.length() != level {
        return Err(Restart);
    }
    if let Some((agree, _)) = prefix.difference(key, depth) {
        return Ok(Some(depth + agree));
    }
    if prefix.is_whole() {
        return Ok(None);
    }
    let path = node.any_key::<F>().ok_or(Restart)?;
    let path = path.get(depth..level).ok_or(Restart)?;
    let rest = key.get(depth..).unwrap_or_default();
    let agree = path.iter().zip(rest).take_while(|(a, b)| a == b).count();
    Ok((agree < path.len()).then_some(depth + agree))
}

/// Locks a node at the version that was read, and its parent, or neither of them.
fn lock_both<S: Synchronization>(
    parent: Parent<'_>,
    node: ArtNode<'_>,
    version: Version,
    probe: &mut impl RadixProbe,
) -> Result<(), Restart> {
    // The lock of the node comes first: with ROWEX, this thread may then wait for the parent.
    upgrade(node, version, probe)?;
    S::lock_parent(parent, probe).inspect_err(|_| node.lock().unlock_unchanged())
}

/// Creates a node of a kind with the same children, except one.
pub(super) fn copy<S: Synchronization>(
    node: ArtNode<'_>,
    kind: ArtNodeKind,
    without: Option<u8>,
) -> ArtNode<'static> {
    let copy = ArtNode::new(kind, node.level(), node.prefix());
    copy.end().store(node.end().load());
    node.for_each(|byte, child| {
        if Some(byte) != without {
            S::insert(copy, Some(byte), child, &mut Off);
        }
    });
    copy
}

/// Creates a node4 with the bytes of a key from `depth` to `level` as its prefix.
fn new_node4(key: &[u8], depth: usize, level: usize) -> ArtNode<'static> {
    let prefix = key[depth..level].iter().copied();
    ArtNode::new(
        ArtNodeKind::Node4,
        level,
        ArtPrefix::new(level - depth, prefix),
    )
}

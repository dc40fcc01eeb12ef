//! ROWEX, read-optimized write exclusion.
//!
//! *Readers* read no version and never restart. Every state of a node between two steps of a writer
//! is valid: a child is published after its byte, and a reader checks the byte again when it has
//! the child. Node4s, node16s and node48s only append: a used position is never reused; a node
//! without unused positions is copied instead. An obsolete node shows the tree's state at the
//! instant when it became obsolete, which is within the reader's walk.
//!
//! Prefixes become longer and shorter while readers walk. The level of a node never changes. If a
//! reader's path and the prefix together are shorter than the level, the reader has missed a node
//! that was inserted between, and continues at the level; the leaf is compared in any case. If its
//! path is longer than the parent's, it skips the first bytes of the prefix.
//!
//! *Writers* lock a node at the version that they have read, then its parent, for which they wait.

mod node;

use super::node::{ArtNode, ArtNodeKind, ArtPrefix, ArtSearchResult, ArtTaggedPointer};
use super::synchronization::Synchronization;
use super::tree::Parent;
use crate::leaf::{RivalForm, RivalLeaf};
use crate::scan::{Restart, RivalChild, Symbol, symbol};
use crossbeam_epoch::Guard;
use nearfield_radix::RadixProbe;
use nearfield_radix::lock::Version;

/// The synchronization; see the [module](self). Only a test that must fail works without levels.
#[derive(Clone, Copy, Debug)]
pub enum Rowex<const HAS_LEVELS: bool = true> {}

/// Returns the depth after the prefix of a node, to which a path of `depth` bytes leads; `None` if
/// the key differs from it.
#[inline]
fn pass<const HAS_LEVELS: bool>(
    node: ArtNode<'_>,
    prefix: ArtPrefix,
    key: &[u8],
    depth: usize,
) -> Option<usize> {
    let level = match HAS_LEVELS {
        true => node.level(),
        false => depth + prefix.length(),
    };
    let end = depth + prefix.length();
    if end < level || prefix.length() == 0 {
        return Some(level);
    }
    let passed = end - level;
    // The bytes that are not stored are skipped, and so are those of a node that was missed.
    let mut stored = prefix.stored().skip(passed).enumerate();
    match stored.any(|(i, byte)| key.get(depth + i) != Some(&byte)) {
        true => None,
        false => Some(level),
    }
}

impl<const HAS_LEVELS: bool> Synchronization for Rowex<HAS_LEVELS> {
    const ASCENDING: bool = false;

    #[inline]
    fn leaf<'g, F: RivalForm>(
        root: ArtNode<'g>,
        key: &[u8],
        _guard: &'g Guard,
        probe: &mut impl RadixProbe,
    ) -> Option<RivalLeaf<'g, F>> {
        let mut node = root;
        let mut depth = 0;
        loop {
            let prefix = node.prefix();
            let Some(level) = pass::<HAS_LEVELS>(node, prefix, key, depth) else {
                probe.node(node.visit_prefix(prefix));
                return None;
            };
            let byte = symbol(key, level);
            let found = node::find(node, byte);
            probe.node(node.visit(byte, found.slot, prefix));
            // SAFETY: the child belonged to the node at an instant since the guard was pinned; a
            // thread that unlinks it afterwards does not free it during 'g.
            match unsafe { found.child.child::<F>() }? {
                RivalChild::Leaf(leaf) => {
                    probe.node(leaf.visit());
                    return (leaf.key() == key).then_some(leaf);
                }
                RivalChild::Node(child) => {
                    node = child;
                    depth = level + 1;
                }
            }
        }
    }

    fn children<'g>(
        node: ArtNode<'g>,
        _probe: &mut impl RadixProbe,
        children: &mut Vec<(Symbol, ArtTaggedPointer)>,
    ) -> Result<(), Restart> {
        children.push((None, node.end().load()));
        node.for_each(|byte, child| children.push((Some(byte), child)));
        Ok(())
    }

    #[inline]
    fn find(node: ArtNode<'_>, symbol: Symbol) -> ArtSearchResult {
        node::find(node, symbol)
    }

    #[inline]
    fn check(_node: ArtNode<'_>, _version: Version) -> Result<(), Restart> {
        Ok(())
    }

    fn lock_parent(parent: Parent<'_>, probe: &mut impl RadixProbe) -> Result<(), Restart> {
        match parent.node.lock().lock() {
            Ok(waits) => {
                probe.lock(waits);
                Ok(())
            }
            Err(_) => Err(Restart),
        }
    }

    fn count(node: ArtNode<'_>) -> usize {
        node::live(node)
    }

    fn outgrown(node: ArtNode<'_>) -> Option<ArtNodeKind> {
        node::outgrown(node)
    }

    fn insert(
        node: ArtNode<'_>,
        symbol: Symbol,
        child: ArtTaggedPointer,
        probe: &mut impl RadixProbe,
    ) {
        node::insert(node, symbol, child, probe);
    }

    fn remove(node: ArtNode<'_>, symbol: Symbol, slot: u32, probe: &mut impl RadixProbe) {
        node::remove(node, symbol, slot, probe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rival;
    use crate::art::tree::ArtTree;
    use nearfield_core::ByteStrings;
    use nearfield_testkit::concurrent::{self, ConcurrentTestConfig};

    /// Without levels, readers search for the wrong byte if a prefix has become shorter.
    #[test]
    fn canary_readers_that_do_not_know_levels_are_caught() {
        let caught = (0..400).any(|seed| {
            let index = Rival::<ByteStrings, ArtTree<ByteStrings, Rowex<false>>>::new();
            concurrent::run(&index, seed, &ConcurrentTestConfig::default()).is_err()
        });
        assert!(caught, "no violation in 400 runs");
    }
}

//! The loader that builds a tree from sorted entries in one pass, and the code that frees a whole
//! tree.
//!
//! The nodes on the path of the last key are *open*: their children are still being gathered. The
//! next key leaves that path at the first byte in which it differs from the last one. Open nodes
//! below that byte are then complete, and become nodes of the kind that fits, from the bottom up:
//!
//! ```text
//!     root         root          depth 0, always open
//!      │            │
//!      ○ d=2   ─▶   ○ d=2        open: may get more children
//!      │           ╱ ╲
//!      ○ d=5      ■   leaf       closed when a key came that differs from the last at byte 2
//! ```
//!
//! Entries stay pending, and become full leaves once it is known which of them share a node. Leaves
//! are allocated in the order of their keys, so that a scan reads memory in order.

use crate::build::{ChildEntries, fill_node, free_outside, kind_for, pack};
use crate::leaf::LeafForm;
use crate::memory::RadixMemory;
use crate::node::{END, RadixInnerNode, Ref, Symbol};
use crate::radix::{RadixForm, RadixIndex};
use crate::tree::RadixTree;
use nearfield_core::{EntryForm, OperationError};
use std::sync::Arc;

/// Builds a [`RadixIndex`] from entries that come in strictly ascending order of their keys.
///
/// Takes time proportional to the bytes of the entries, and writes each node once, in the kind that
/// fits it. The leaves of the resulting index are stored in the order of their keys, and are as
/// full as the nodes above them allow.
///
/// ```
/// use nearfield_core::{ByteStrings, OrderedIndex};
/// use nearfield_radix::RadixLoader;
///
/// let mut loader = RadixLoader::<ByteStrings>::new(usize::MAX)?;
/// loader.push(b"ann", b"1")?;
/// loader.push(b"anna", b"2")?;
/// let index = loader.finish()?;
/// assert_eq!(index.len(), 2);
/// # Ok::<(), nearfield_core::OperationError>(())
/// ```
#[derive(Debug)]
pub struct RadixLoader<F: RadixForm> {
    tree: RadixTree<F>,
    spine: Spine<F>,
    /// The storage of the last key.
    arena: F::Arena,
    last: Option<F::StoredKey>,
    count: usize,
}

/// The part of the tree that is built but not linked yet.
#[derive(Debug)]
struct Spine<F: LeafForm> {
    memory: Arc<RadixMemory>,
    /// The subtree of the last key: its own leaf, which has no parent yet.
    last: Option<Subtree>,
    /// The open nodes, each deeper than the one before. The root is the first.
    open: Vec<OpenRadixNode>,
    /// The children of the open nodes, node by node.
    children: Vec<(Symbol, Subtree)>,
    /// The entries of the subtrees with [few](Subtree::Few) entries, in order.
    pending: Vec<Owned<F>>,
}

/// A node whose children are being gathered.
#[derive(Clone, Copy, Debug)]
struct OpenRadixNode {
    depth: usize,
    /// The index of its first child.
    start: usize,
}

/// The subtree below a symbol of an open node.
#[derive(Clone, Copy, Debug)]
pub enum Subtree {
    /// A node or leaf.
    Built(Ref),
    /// Number of pending entries, which may still share a leaf with their neighbours.
    Few(usize),
}

/// An entry that is pending.
type Owned<F> = (<F as EntryForm>::OwnedKey, <F as EntryForm>::OwnedValue);

impl<F: RadixForm> RadixIndex<F> {
    /// Builds an index from entries in strictly ascending order of keys, in one pass; see
    /// [`RadixLoader`], which takes them one by one and can be given a limit of memory.
    ///
    /// # Errors
    /// `NotSorted` with the position of the first key that is not greater than the one before;
    /// `KeyTooLong`, `ValueTooLong`, `OutOfMemory`.
    ///
    /// ```
    /// use nearfield_core::{OrderedIndex, Words};
    /// use nearfield_radix::RadixIndex;
    ///
    /// let index = RadixIndex::<Words>::from_sorted((0..1000).map(|n| (n, n * n)))?;
    /// assert_eq!(index.get(30), Ok(Some(900)));
    /// # Ok::<(), nearfield_core::OperationError>(())
    /// ```
    pub fn from_sorted<'e>(
        entries: impl IntoIterator<Item = (F::Key<'e>, F::Value<'e>)>,
    ) -> Result<Self, OperationError> {
        let mut loader = RadixLoader::new(usize::MAX)?;
        for (key, value) in entries {
            loader.push(key, value)?;
        }
        loader.finish()
    }
}

impl<F: RadixForm> RadixLoader<F> {
    /// Creates a loader of an index that takes no more than `limit_bytes` of memory.
    ///
    /// # Errors
    /// `OutOfMemory`, as [`RadixIndex::with_memory_limit`].
    pub fn new(limit_bytes: usize) -> Result<Self, OperationError> {
        let tree = RadixTree::new(limit_bytes)?;
        let spine = Spine {
            memory: Arc::clone(&tree.memory),
            last: None,
            open: vec![OpenRadixNode { depth: 0, start: 0 }],
            children: Vec::new(),
            pending: Vec::new(),
        };
        Ok(RadixLoader {
            tree,
            spine,
            arena: F::Arena::default(),
            last: None,
            count: 0,
        })
    }

    /// Adds an entry, whose key must be greater than all earlier keys.
    ///
    /// # Errors
    /// `NotSorted`, whose position is the number of earlier entries, `KeyTooLong` and
    /// `ValueTooLong`: the entry is refused, and others may follow. `OutOfMemory`: the loader can
    /// only be dropped.
    pub fn push(&mut self, key: F::Key<'_>, value: F::Value<'_>) -> Result<(), OperationError> {
        F::check(key, Some(value))?;
        if let Some(last) = self.last {
            let last = F::load_key(&self.arena, last);
            let difference = F::difference(F::shorten_key(last), F::shorten_key(key));
            match difference {
                Some(depth) if F::shorten_key(last) < F::shorten_key(key) => {
                    self.spine.branch(last, depth)?;
                }
                // Equal keys have no difference, and are refused, too.
                _ => {
                    return Err(OperationError::NotSorted {
                        position: self.count,
                        key: F::show(key),
                    });
                }
            }
        }
        let spine = &mut self.spine;
        spine.pending.push((F::own_key(key), F::own_value(value)));
        spine.last = Some(Subtree::Few(1));
        // Only the last key is compared with, so the arena never has two.
        F::clear(&mut self.arena);
        self.last = Some(F::store_key(&mut self.arena, key)?);
        self.count += 1;
        Ok(())
    }

    /// Ends the input and returns the index.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn finish(mut self) -> Result<RadixIndex<F>, OperationError> {
        if let Some(last) = self.last {
            let last = F::load_key(&self.arena, last);
            // The root decides on byte 0, so that this closes all nodes below it.
            self.spine.branch(last, 0)?;
            self.spine
                .close_root(self.tree.memory.inner(self.tree.root))?;
        }
        self.tree.count_entries(self.count as i64);
        // Jumps are found last, because each names a node that is linked.
        self.tree.find_jumps();
        Ok(RadixIndex::from_tree(self.tree))
    }
}

impl<F: LeafForm> Spine<F> {
    /// Links the leaf of the last key at the depth where the next key leaves its path. It closes
    /// the deeper nodes and puts the result below the node of that depth, which it opens if
    /// necessary.
    fn branch(&mut self, last: F::Key<'_>, depth: usize) -> Result<(), OperationError> {
        let Some(mut subtree) = self.last.take() else {
            return Ok(());
        };
        // No later key can reach a node that is deeper than the byte in which this one differs.
        while let Some(&node) = self.open.last()
            && node.depth > depth
        {
            self.attach(last, node.depth, subtree);
            self.open.pop();
            subtree = self.close(node)?;
        }
        if self.open.last().is_none_or(|node| node.depth < depth) {
            let start = self.children.len();
            self.open.push(OpenRadixNode { depth, start });
        }
        self.attach(last, depth, subtree);
        Ok(())
    }

    /// Adds a child to the deepest open node.
    fn attach(&mut self, last: F::Key<'_>, depth: usize, subtree: Subtree) {
        debug_assert!(
            F::symbol(last, depth).is_some(),
            "the key ends above the node"
        );
        let symbol = F::symbol(last, depth).unwrap_or_default();
        self.children.push((symbol, subtree));
    }

    /// Builds a node from gathered children, or the subtree that replaces it. They stay in the list
    /// if that fails.
    fn close(&mut self, node: OpenRadixNode) -> Result<Subtree, OperationError> {
        let children = &self.children[node.start..];
        let all_few = children.iter().all(|child| child.1.few().is_some());
        let count: usize = children.iter().filter_map(|child| child.1.few()).sum();
        let start = self.pending.len() - count;
        // All entries below fit one leaf, so the node is not needed. The leaf may still be shared
        // with neighbours.
        let closed = if all_few && self.fit(start) {
            Subtree::Few(count)
        } else {
            let dense = match all_few {
                true => F::build_dense(&self.memory, node.depth, &self.pending[start..])?,
                false => None,
            };
            let built = match dense {
                Some(dense) => dense,
                None => self.build_node(node, start)?,
            };
            self.pending.truncate(start);
            Subtree::Built(built)
        };
        // Not earlier: until here, an error leaves the children to the destructor.
        self.children.truncate(node.start);
        Ok(closed)
    }

    /// Returns true if a leaf has room for the pending entries from `start` on.
    fn fit(&self, start: usize) -> bool {
        let pending = &self.pending[start..];
        pending.len() <= F::LEAF_ENTRIES_MAX && F::fits(&borrowed::<F>(pending))
    }

    fn build_node(&self, node: OpenRadixNode, start: usize) -> Result<Ref, OperationError> {
        let memory = &self.memory;
        let children = self.gather(node, start)?;
        let ranges = children.iter().filter(|child| child.0 != END).count();
        let built = memory
            .allocate_inner(kind_for::<F>(ranges), node.depth)
            .inspect_err(|_| self.discard(&children))?;
        let inner = memory.inner(built);
        fill_node(inner, &children);
        inner.header().publish();
        Ok(built)
    }

    /// Returns the children of an open node, with the pending ones in leaves.
    fn gather(
        &self,
        node: OpenRadixNode,
        start: usize,
    ) -> Result<Vec<(Symbol, Ref)>, OperationError> {
        let memory = &self.memory;
        let entries = borrowed::<F>(&self.pending[start..]);
        let mut rest = entries.as_slice();
        let mut children = &self.children[node.start..];
        let mut end = None;
        if let Some((&(END, Subtree::Few(count)), others)) = children.split_first() {
            let (first, behind) = rest.split_at(count);
            end = Some(F::create(memory, first)?);
            (rest, children) = (behind, others);
        }
        let groups = children.iter().map(|&(symbol, subtree)| {
            let group = match subtree {
                Subtree::Built(node) => ChildEntries::Node(node),
                Subtree::Few(count) => {
                    let (entries, behind) = rest.split_at(count);
                    rest = behind;
                    ChildEntries::Entries(entries)
                }
            };
            Ok((symbol as u8, group))
        });
        let mut pieces = Vec::new();
        let packed = pack::<F>(
            memory,
            node.depth,
            0..256,
            groups,
            F::LEAF_ENTRIES_MAX,
            &mut pieces,
        );
        let pieces = pieces
            .iter()
            .map(|&(byte, child)| (Symbol::from(byte), child));
        // On an error, too: the leaves among them must be freed.
        let children: Vec<_> = end
            .into_iter()
            .map(|leaf| (END, leaf))
            .chain(pieces)
            .collect();
        match packed {
            Ok(()) => Ok(children),
            Err(error) => {
                self.discard(&children);
                Err(error)
            }
        }
    }

    /// Frees leaves that were made of pending entries; the entries themselves are still listed.
    fn discard(&self, children: &[(Symbol, Ref)]) {
        for (_, child) in children.iter().filter(|child| child.1.is_leaf()) {
            F::discard_leaf(&self.memory, *child);
        }
    }

    /// Sets the children of the root.
    fn close_root(&mut self, root: RadixInnerNode<'_>) -> Result<(), OperationError> {
        debug_assert_eq!(self.open.len(), 1, "a node below the root is open");
        let children = self.gather(OpenRadixNode { depth: 0, start: 0 }, 0)?;
        fill_node(root, &children);
        self.children.clear();
        self.pending.clear();
        Ok(())
    }
}

impl Subtree {
    fn few(self) -> Option<usize> {
        match self {
            Subtree::Built(_) => None,
            Subtree::Few(count) => Some(count),
        }
    }
}

fn borrowed<F: LeafForm>(entries: &[Owned<F>]) -> Vec<(F::Key<'_>, F::Value<'_>)> {
    entries
        .iter()
        .map(|(key, value)| (F::key(key), F::value(value)))
        .collect()
}

impl<F: LeafForm> Drop for Spine<F> {
    fn drop(&mut self) {
        let subtrees = self.children.iter().map(|child| child.1).chain(self.last);
        let built = subtrees.filter_map(|subtree| match subtree {
            Subtree::Built(node) => Some(node),
            Subtree::Few(_) => None,
        });
        // SAFETY: the nodes in the list and the node of the last key have not been linked to the
        // tree, and nothing else refers to them.
        unsafe { free_outside::<F>(&self.memory, built.collect()) };
    }
}

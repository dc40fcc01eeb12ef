//! Building a tree from sorted entries in one pass, and freeing a tree as a whole.
//!
//! The nodes on the path of the last key are *open*: their children are still being gathered.
//! The next key leaves that path at the first byte in which it differs from the last one. Open
//! nodes below are complete then, and become nodes of the kind that fits, from the bottom up:
//!
//! ```text
//!     root         root          depth 0, always open
//!      │            │
//!      ○ d=2   ─▶   ○ d=2        open: may get more children
//!      │           ╱ ╲
//!      ○ d=5      ■   leaf       closed when a key came that differs from the last at byte 2
//! ```
//!
//! Leaves are allocated in the order of their keys, so that a scan reads memory in order.

use crate::leaf::LeafForm;
use crate::memory::Memory;
use crate::node::{END, Kind, Ref, Symbol};
use crate::radix::{Radix, RadixForm};
use crate::shrink::kind_for;
use crate::tree::Tree;
use nearfield_core::Error;
use std::marker::PhantomData;
use std::sync::Arc;

/// A node at the last byte of a word that has more children becomes a dense node.
const SORTED_MAX: usize = 48;

/// Builds a [`Radix`] from entries that come in strictly ascending order of their keys.
///
/// Takes time proportional to the bytes of the entries, and writes each node once, in the kind
/// that fits it. The index that results has the nodes that inserts would have made, and leaves in
/// the order of their keys.
///
/// ```
/// use nearfield_core::{Bytes, OrderedIndex};
/// use nearfield_radix::Loader;
///
/// let mut loader = Loader::<Bytes>::new(usize::MAX)?;
/// loader.push(b"ann", b"1")?;
/// loader.push(b"anna", b"2")?;
/// let index = loader.finish()?;
/// assert_eq!(index.len(), 2);
/// # Ok::<(), nearfield_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Loader<F: RadixForm> {
    tree: Tree<F>,
    spine: Spine<F>,
    /// Where the last key is stored.
    arena: F::Arena,
    last: Option<F::StoredKey>,
    count: usize,
}

/// What has been built and is not linked to the tree yet.
#[derive(Debug)]
struct Spine<F: LeafForm> {
    memory: Arc<Memory>,
    /// What stands for the last key: its own leaf, as yet without a parent.
    last: Option<Subtree>,
    /// The open nodes below the root, each deeper than the one before.
    open: Vec<Open>,
    /// The children of the open nodes, one node's after the other's.
    children: Vec<(Symbol, Subtree)>,
    form: PhantomData<F>,
}

/// A node whose children are being gathered.
#[derive(Clone, Copy, Debug)]
struct Open {
    depth: usize,
    /// Where its children start.
    start: usize,
}

#[derive(Clone, Copy, Debug)]
enum Subtree {
    Built(Ref),
    /// The payload of a word that has no leaf yet, because a dense node may take it.
    Payload(u64),
}

impl<F: RadixForm> Radix<F> {
    /// Builds an index from entries in strictly ascending order of keys, in one pass; see
    /// [`Loader`], which takes them one by one and can be given a limit of memory.
    ///
    /// # Errors
    /// `NotSorted` with the position of the first key that is not greater than the one before;
    /// `KeyTooLong`, `ValueTooLong`, `OutOfMemory`.
    ///
    /// ```
    /// use nearfield_core::{OrderedIndex, Words};
    /// use nearfield_radix::Radix;
    ///
    /// let index = Radix::<Words>::from_sorted((0..1000).map(|n| (n, n * n)))?;
    /// assert_eq!(index.get(30), Ok(Some(900)));
    /// # Ok::<(), nearfield_core::Error>(())
    /// ```
    pub fn from_sorted<'e>(
        entries: impl IntoIterator<Item = (F::Key<'e>, F::Value<'e>)>,
    ) -> Result<Self, Error> {
        let mut loader = Loader::new(usize::MAX)?;
        for (key, value) in entries {
            loader.push(key, value)?;
        }
        loader.finish()
    }
}

impl<F: RadixForm> Loader<F> {
    /// Begins an index that takes no more than `limit_bytes` of memory.
    ///
    /// # Errors
    /// `OutOfMemory`, as [`Radix::with_memory_limit`].
    pub fn new(limit_bytes: usize) -> Result<Self, Error> {
        let tree = Tree::new(limit_bytes)?;
        let spine = Spine {
            memory: Arc::clone(&tree.memory),
            last: None,
            open: Vec::new(),
            children: Vec::new(),
            form: PhantomData,
        };
        Ok(Loader {
            tree,
            spine,
            arena: F::Arena::default(),
            last: None,
            count: 0,
        })
    }

    /// Adds an entry, whose key must be greater than all before.
    ///
    /// # Errors
    /// `NotSorted`, with the number of entries before as the position, `KeyTooLong` and
    /// `ValueTooLong`: the entry is refused, and others may follow. `OutOfMemory`: the loader is
    /// only good to be dropped.
    pub fn push(&mut self, key: F::Key<'_>, value: F::Value<'_>) -> Result<(), Error> {
        F::check(key, Some(value))?;
        if let Some(last) = self.last {
            let last = F::load_key(&self.arena, last);
            let difference = F::difference(F::shorten_key(last), F::shorten_key(key));
            match difference {
                Some(depth) if F::shorten_key(last) < F::shorten_key(key) => {
                    self.spine.branch(self.tree.root, last, depth)?;
                }
                _ => {
                    return Err(Error::NotSorted {
                        position: self.count,
                        key: show_key::<F>(key),
                    });
                }
            }
        }
        self.spine.last = Some(match F::DENSE {
            true => Subtree::Payload(F::payload(value)),
            false => Subtree::Built(F::create(&self.spine.memory, key, value)?),
        });
        F::clear(&mut self.arena);
        self.last = Some(F::store_key(&mut self.arena, key)?);
        self.count += 1;
        Ok(())
    }

    /// Ends the input and answers the index.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn finish(mut self) -> Result<Radix<F>, Error> {
        if let Some(last) = self.last {
            let last = F::load_key(&self.arena, last);
            self.spine.branch(self.tree.root, last, 0)?;
        }
        self.tree.count_entries(self.count as i64);
        Ok(Radix::from_tree(self.tree))
    }
}

impl<F: LeafForm> Spine<F> {
    /// Links the leaf of the last key where the next key leaves its path: closes the nodes that
    /// are deeper, and hangs what they have become at the node of that depth, opened if need be.
    fn branch(&mut self, root: Ref, last: F::Key<'_>, depth: usize) -> Result<(), Error> {
        let Some(mut subtree) = self.last.take() else {
            return Ok(());
        };
        while let Some(&node) = self.open.last()
            && node.depth > depth
        {
            self.attach(last, node.depth, subtree)?;
            self.open.pop();
            subtree = Subtree::Built(self.close(last, node)?);
        }
        if depth == 0 {
            let child = self.memory.edge(0, self.built(last, subtree)?);
            let root = self.memory.inner(root);
            root.insert(F::symbol(last, 0).unwrap_or_default(), child);
            return Ok(());
        }
        if self.open.last().is_none_or(|node| node.depth < depth) {
            let start = self.children.len();
            self.open.push(Open { depth, start });
        }
        self.attach(last, depth, subtree)
    }

    /// Adds a child to the deepest open node.
    fn attach(&mut self, last: F::Key<'_>, depth: usize, subtree: Subtree) -> Result<(), Error> {
        let subtree = match depth {
            7 => subtree,
            _ => Subtree::Built(self.built(last, subtree)?),
        };
        let symbol = F::symbol(last, depth).unwrap_or_default();
        self.children.push((symbol, subtree));
        Ok(())
    }

    fn built(&self, key: F::Key<'_>, subtree: Subtree) -> Result<Ref, Error> {
        match subtree {
            Subtree::Built(node) => Ok(node),
            Subtree::Payload(payload) => {
                let (key, value) = F::from_words(F::word(key), payload);
                F::create(&self.memory, key, value)
            }
        }
    }

    /// Makes a node of gathered children, one of which is that of the key `last`. They stay in
    /// the list if that fails.
    fn close(&mut self, last: F::Key<'_>, node: Open) -> Result<Ref, Error> {
        let count = self.children.len() - node.start;
        let closed = if F::DENSE && node.depth == 7 && count > SORTED_MAX {
            self.close_dense(F::word(last) >> 8, node)?
        } else {
            self.close_inner(last, node)?
        };
        self.children.truncate(node.start);
        Ok(closed)
    }

    fn close_dense(&self, base: u64, node: Open) -> Result<Ref, Error> {
        let closed = self.memory.allocate_dense(base)?;
        let dense = self.memory.dense(closed);
        for &(symbol, subtree) in &self.children[node.start..] {
            let Subtree::Payload(payload) = subtree else {
                unreachable!("a child at the last byte of a word is a payload");
            };
            dense.set_payload(symbol as u8, payload);
            dense.set_used(symbol as u8, true);
        }
        Ok(closed)
    }

    fn close_inner(&mut self, last: F::Key<'_>, node: Open) -> Result<Ref, Error> {
        for position in node.start..self.children.len() {
            let (symbol, subtree) = self.children[position];
            if let Subtree::Payload(payload) = subtree {
                let word = F::word(last) >> 8 << 8 | u64::from(symbol);
                let (key, value) = F::from_words(word, payload);
                let leaf = F::create(&self.memory, key, value)?;
                self.children[position].1 = Subtree::Built(leaf);
            }
        }
        let children = &self.children[node.start..];
        let bytes = children.iter().filter(|child| child.0 != END).count();
        let closed = self.memory.allocate_inner(kind_for(bytes), node.depth)?;
        let inner = self.memory.inner(closed);
        for &(symbol, subtree) in children {
            if let Subtree::Built(child) = subtree {
                inner.insert(symbol, self.memory.edge(node.depth, child));
            }
        }
        Ok(closed)
    }
}

impl<F: LeafForm> Drop for Spine<F> {
    fn drop(&mut self) {
        let subtrees = self.children.iter().map(|child| child.1).chain(self.last);
        let built = subtrees.filter_map(|subtree| match subtree {
            Subtree::Built(node) => Some(node),
            Subtree::Payload(_) => None,
        });
        // SAFETY: what is in the list, or stands for the last key, has not been linked to the
        // tree, and nothing else refers to it.
        unsafe { free_outside::<F>(&self.memory, built.collect()) };
    }
}

/// Frees what leaves below some nodes keep outside the leaf region.
///
/// # Safety
/// No thread may reach the nodes, then or later, and no leaf is below two of them.
pub unsafe fn free_outside<F: LeafForm>(memory: &Memory, mut nodes: Vec<Ref>) {
    if !memory.has_outside() {
        return;
    }
    while let Some(node) = nodes.pop() {
        match node.kind() {
            // SAFETY: promised by the caller.
            Kind::Leaf => unsafe { F::free(memory, node) },
            Kind::Dense | Kind::Nothing => {}
            _ => memory.inner(node).for_each(|_, child| nodes.push(child)),
        }
    }
}

/// The first bytes of a key, for people.
fn show_key<F: LeafForm>(key: F::Key<'_>) -> String {
    if F::DENSE {
        return F::word(key).to_string();
    }
    let byte = |depth| F::symbol(key, depth).filter(|&symbol| symbol != END);
    let bytes = (0..).map_while(|depth| Some(byte(depth)? as u8));
    // One byte more than is shown tells that there are more.
    Error::shorten(&bytes.take(33).collect::<Vec<_>>())
}

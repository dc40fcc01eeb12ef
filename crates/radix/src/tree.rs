//! The tree, and the walks from its root to the place of a key. [`write`](crate::write) contains
//! the changes at that place.
//!
//! The root is a node256, which is never replaced. Below it, a node's
//! [depth](crate::node::RadixNodeHeader::depth) is the number of the byte that it decides on; bytes
//! between a node and its child are skipped, and compared at the leaf. Therefore no node holds a
//! prefix, and none changes when a path above it splits:
//!
//! ```text
//!   p ──▶ x          p ──▶ fork ──▶ x          the fork decides on the byte in which the new
//!                            └────▶ leaf       key differs from all keys below x
//! ```
//!
//! # Locks
//!
//! A change inside a node takes the node's lock. Replacing a node takes its parent's lock too. A
//! thread that has the child's first only *tries* the parent's and otherwise restarts, while a
//! thread that walks downwards waits, so there is no cycle. Leaves are guarded by their parent's
//! lock, payloads of a dense node by its own. A change within one block may be made under
//! its latch alone, see [`latching`](crate::latching); a thread that holds a latch never waits.

use crate::build::free_outside;
use crate::counters::RadixProbe;
use crate::jump::{FIRST, Jumps, Prefixes, Stem, TABLES};
use crate::latching::LatchPolicy;
use crate::leaf::LeafForm;
use crate::lock::{VersionLockGuard, pause};
use crate::memory::RadixMemory;
use crate::memory::rounds::Rounds;
use crate::node::{NodeRefKind, RadixInnerNode, Ref, Symbol};
use crate::shortcut::{ShortcutTables, Shortcuts};
use crossbeam_epoch::Guard;
use crossbeam_utils::CachePadded;
use nearfield_core::OperationError;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// The maximum number of times that a search for a key below a node waits for other threads.
const KEY_WAITS: u32 = 64;

/// The maximum number of nodes that a new stem searches for nodes after its prefixes: this takes
/// some milliseconds, in which other threads may wait.
const STEM_NODES_MAX: usize = 1 << 14;

/// The knowledge about the keys below a link that is changed.
#[derive(Clone, Copy, Debug)]
pub enum Hint<K> {
    /// Nothing is known.
    None,
    /// One of the keys below.
    Below(K),
    /// A key whose path has led to the link. It may by now differ in bytes that the path skips.
    Path(K),
}

/// The effect of a changed link on the stem of the keys below.
#[derive(Clone, Copy, Debug)]
enum StemChange {
    /// The link is not that of a stem's first node.
    Unaffected,
    /// The stem is valid for the new node, too.
    Keep(Stem),
    /// The stem was dropped, if there was one. The new node may become the first node of another.
    Rebuild,
}

/// An adaptive radix tree.
#[derive(Debug)]
pub struct RadixTree<F: LeafForm> {
    pub memory: Arc<RadixMemory>,
    pub shortcuts: Arc<ShortcutTables>,
    pub latching: Arc<LatchPolicy>,
    pub jumps: Jumps,
    pub root: Ref,
    entries: CachePadded<AtomicI64>,
    /// Number of nodes and leaves retired since the last [`collect`](RadixTree::collect).
    retired: CachePadded<AtomicUsize>,
    /// Number of collections that have found something.
    collected: AtomicUsize,
    /// The rounds of [compaction](crate::compaction).
    pub rounds: Rounds,
    form: PhantomData<F>,
}

/// The place at which a walk for a key has ended.
#[derive(Clone, Copy, Debug)]
pub struct RadixWalkEnd {
    /// The last inner node.
    pub node: Ref,
    /// Its depth.
    pub depth: usize,
    /// The key's symbol there.
    pub symbol: Symbol,
    /// The child for the symbol: nothing, a leaf, a dense node, or an inner node below which the
    /// key cannot be.
    pub child: Ref,
    /// The node above, and the symbol that led from it to `node`, if known.
    pub parent: Option<(Ref, Symbol)>,
    /// True if the path has skipped bytes, which only a leaf can show.
    pub skipped: bool,
}

impl<F: LeafForm> RadixTree<F> {
    pub fn new(limit_bytes: usize) -> Result<Self, OperationError> {
        let memory = RadixMemory::new(limit_bytes, F::LEAF_UNIT_BYTES, F::LEAF_UNITS_MAX)?;
        let root = memory.allocate_inner(NodeRefKind::Node256, 0)?;
        Ok(RadixTree {
            memory: Arc::new(memory),
            shortcuts: Arc::default(),
            latching: Arc::default(),
            jumps: Jumps::default(),
            root,
            entries: CachePadded::new(AtomicI64::new(0)),
            retired: CachePadded::new(AtomicUsize::new(0)),
            collected: AtomicUsize::new(0),
            rounds: Rounds::default(),
            form: PhantomData,
        })
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        // Threads add their counts when they are unpinned, so a removal may be counted before the
        // insert of its key.
        self.entries.load(Ordering::Relaxed).max(0) as usize
    }

    pub fn count_entries(&self, change: i64) {
        self.entries.fetch_add(change, Ordering::Relaxed);
    }

    /// Returns the first symbol of a key, on which the root decides.
    #[inline]
    pub fn first_symbol(key: F::Key<'_>) -> Symbol {
        F::symbol(key, 0).unwrap_or_default()
    }

    /// Returns the number of bytes that all keys of the tree share, as far as single nodes show it:
    /// the depth of the first node with more than one child.
    pub fn shared_depth(&self) -> usize {
        let mut node = self.root;
        loop {
            let inner = self.memory.inner(node);
            let only = inner.first();
            // The keys of a leaf may differ in any later byte.
            if inner.children() != 1 || !only.is_inner() {
                return inner.header().depth();
            }
            node = only;
        }
    }

    /// Reads the child for a symbol.
    #[inline]
    pub fn child(&self, node: RadixInnerNode<'_>, symbol: Symbol) -> Ref {
        // One load is consistent by itself, and needs no version.
        if let RadixInnerNode::Node256(node) = node
            && symbol < 256
        {
            return node.find(symbol as u8);
        }
        let lock = &node.header().lock;
        loop {
            let version = lock.read();
            let child = F::child(node, symbol);
            if lock.validate(version) {
                return child;
            }
        }
    }

    /// Finds the value of a key and passes it to `read`.
    #[inline]
    pub fn find<R>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        let found = self.find_value(key, guard, probe)?;
        Some(read(F::found(&found)))
    }

    /// Finds the value of a key.
    #[inline]
    pub fn find_value<'g>(
        &'g self,
        key: F::Key<'_>,
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
    ) -> Option<F::Found<'g>> {
        let terminal = self.terminal(key, probe);
        if terminal.is_null() {
            return None;
        }
        self.report_leaf(terminal, key, guard, probe);
        F::lookup(&self.memory, terminal, key, F::Prepared::default(), guard)
    }

    /// Reports that a walk decides at a node.
    #[inline]
    fn report(&self, node: Ref, symbol: Symbol, probe: &mut impl RadixProbe) {
        if probe.listens() {
            probe.node(self.memory.visit(node, symbol));
        }
    }

    /// Reports that a walk searches for a key at its end, if it has ended at a leaf or a dense
    /// node.
    #[inline]
    pub fn report_leaf(
        &self,
        terminal: Ref,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) {
        if probe.listens() && matches!(terminal.kind(), NodeRefKind::Leaf | NodeRefKind::Dense) {
            F::report(&self.memory, terminal, key, guard, probe);
        }
    }

    /// Walks to the only leaf or dense node that can have the key.
    #[inline]
    fn terminal(&self, key: F::Key<'_>, probe: &mut impl RadixProbe) -> Ref {
        let mut node = self.memory.node256(self.root);
        let (mut depth, mut place) = (0, self.root);
        loop {
            debug_assert_eq!(node.header().depth(), depth, "the kind tells the depth");
            let (symbol, child) = match F::symbol(key, depth) {
                Some(symbol) if symbol < 256 => (symbol, node.find(symbol as u8)),
                Some(symbol) => (symbol, node.header().end()),
                None => return Ref::NULL,
            };
            self.report(place, symbol, probe);
            // Most of a large tree's paths are node256s that skip nothing, and then a leaf.
            // Conditional branches distinguish them, because a jump by a table of kinds is often
            // mispredicted, and then the next lookup cannot begin before this one's line has
            // arrived.
            if child.is_leaf() {
                return child;
            }
            if !child.is_next_256() {
                return self.terminal_below(child, key, probe);
            }
            node = self.memory.node256(child);
            (depth, place) = (depth + 1, child);
        }
    }

    /// Walks like `terminal`, starting at a node of any kind.
    #[inline(never)]
    fn terminal_below(&self, node: Ref, key: F::Key<'_>, probe: &mut impl RadixProbe) -> Ref {
        let mut child = node;
        while child.is_inner() {
            let node = self.memory.inner(child);
            let Some(symbol) = F::symbol(key, node.header().depth()) else {
                return Ref::NULL;
            };
            self.report(child, symbol, probe);
            child = self.child(node, symbol);
        }
        child
    }

    /// Walks towards the place of a key, but not beyond nodes of depth `until`.
    pub fn descend(
        &self,
        key: F::Key<'_>,
        until: usize,
        probe: &mut impl RadixProbe,
    ) -> RadixWalkEnd {
        let mut place = RadixWalkEnd {
            node: self.root,
            depth: 0,
            symbol: Self::first_symbol(key),
            child: Ref::NULL,
            parent: None,
            skipped: false,
        };
        loop {
            place.child = self.child(self.memory.inner(place.node), place.symbol);
            self.report(place.node, place.symbol, probe);
            if !place.child.is_inner() {
                return place;
            }
            let depth = self.memory.inner(place.child).header().depth();
            debug_assert!(depth > place.depth, "depths ascend on a path");
            match F::symbol(key, depth) {
                Some(symbol) if depth <= until => {
                    place = RadixWalkEnd {
                        node: place.child,
                        depth,
                        symbol,
                        child: Ref::NULL,
                        parent: Some((place.node, place.symbol)),
                        skipped: place.skipped || depth > place.depth + 1,
                    };
                }
                // Below this node the key ends within bytes that the path skips, or the caller
                // wants to stop before.
                _ => return place,
            }
        }
    }

    /// Returns some key below a node; `None` if the search encountered a change, or found no key.
    pub fn any_key<'g>(&'g self, mut node: Ref, guard: &'g Guard) -> Option<F::Key<'g>> {
        loop {
            match node.kind() {
                NodeRefKind::Nothing => return None,
                NodeRefKind::Leaf | NodeRefKind::Dense => {
                    return F::any_key(&self.memory, node, guard);
                }
                _ => {
                    let inner = self.memory.inner(node);
                    let version = inner.header().lock.read();
                    let child = inner.first();
                    if !inner.header().lock.validate(version) {
                        return None;
                    }
                    node = child;
                }
            }
        }
    }

    /// Replaces the link from a node to a child, `old`, with one to `new`, and updates the jumps:
    /// see [`jump`](crate::jump). The caller holds the lock of the node, and perhaps that of the
    /// old child.
    pub fn relink(
        &self,
        above: RadixInnerNode<'_>,
        [old, new]: [Ref; 2],
        hint: Hint<F::Key<'_>>,
        guard: &Guard,
        link: impl FnOnce(),
    ) {
        let depth = above.header().depth();
        if !F::MIXES_KINDS || depth >= self.jumps.reach() {
            return link();
        }
        // A prefix that ends below a new inner node keeps its slot: the old child remains its node.
        let first_below = if new.is_inner() { new } else { old };
        let first_depth = self.depth_of(first_below);
        let is_stale = |end: usize| depth < end && end <= first_depth;
        let may_follow_stem = self.jumps.may_end_behind_stem([depth, first_depth]);
        if !FIRST.into_iter().any(is_stale) && !may_follow_stem {
            return link();
        }
        // All keys below have the stale prefixes, so any of them shows these. The leaves of a
        // replaced node may be obsolete, so the search begins at the new node if it is one.
        let key = match hint {
            Hint::Below(key) => Some(F::shorten_key(key)),
            Hint::None | Hint::Path(_) => self.key_below(first_below, guard).map(F::shorten_key),
        };
        let prefixes = match (key, hint) {
            (Some(key), _) => self.prefixes_that_end(key, is_stale),
            // The keys below are gone. The key of the path had their prefixes unless the tree has
            // changed since, and the table detects that.
            (None, Hint::Path(key)) => {
                let mut prefixes = self.prefixes_that_end(key, is_stale);
                prefixes.retain(|prefix| self.jumps.find(*prefix, guard).same(old));
                prefixes
            }
            (None, _) => Prefixes::new(),
        };
        // Slots and stem are cleared before the link changes, so that no walk begins later at a
        // node that the link has left.
        for &prefix in &prefixes {
            self.jumps.clear(prefix, guard);
        }
        if key.is_none() && old.is_inner() {
            // No key shows the prefixes of the old node, so the tables are searched for the node
            // itself.
            for table in 0..TABLES {
                let is_cleared = prefixes.iter().any(|prefix| prefix.table == table);
                let may_name_old = match FIRST.get(table) {
                    Some(&end) => is_stale(end),
                    None => may_follow_stem,
                };
                if may_name_old && !is_cleared {
                    self.jumps.clear_node(table, old, guard);
                }
            }
        }
        let new_depth = self.depth_of(new);
        let stem_change = match is_stale(FIRST[0]) {
            true => self.drop_stem(old, new_depth, key, guard),
            false => StemChange::Unaffected,
        };
        link();
        if !new.is_inner() {
            return;
        }
        for &prefix in &prefixes {
            let node = self.memory.edge(prefix.end - 1, new);
            self.jumps.set(prefix, node, guard);
        }
        match stem_change {
            StemChange::Keep(stem) => self.jumps.keep_stem(stem, new),
            StemChange::Rebuild => self.add_stem(new, new_depth, &prefixes, guard),
            StemChange::Unaffected => {}
        }
    }

    /// Returns the prefixes of a key for whose end `is_chosen` returns true.
    fn prefixes_that_end(&self, key: F::Key<'_>, is_chosen: impl Fn(usize) -> bool) -> Prefixes {
        let mut prefixes = self
            .jumps
            .prefixes(|from, count| F::window(key, from, count));
        prefixes.retain(|prefix| is_chosen(prefix.end));
        prefixes
    }

    /// Returns the depth of an inner node, and 0 for others.
    fn depth_of(&self, node: Ref) -> usize {
        match node.is_inner() {
            true => self.memory.inner(node).header().depth(),
            false => 0,
        }
    }

    /// Forgets the stem of `old`, if it is the first node of one, before a node of depth
    /// `new_depth` replaces it. A stem of that depth is kept.
    fn drop_stem(
        &self,
        old: Ref,
        new_depth: usize,
        key: Option<F::Key<'_>>,
        guard: &Guard,
    ) -> StemChange {
        let stem = key.and_then(|key| self.jumps.stem(|from, count| F::window(key, from, count)));
        match stem {
            Some(stem) if stem.depth == new_depth => StemChange::Keep(stem),
            _ => {
                self.jumps
                    .drop_stems(guard, |other, first| Some(other) == stem || first.same(old));
                StemChange::Rebuild
            }
        }
    }

    /// Makes a stem of the keys below the first node after their shortest prefix, whose link is
    /// locked, and searches for nodes after its prefixes.
    fn add_stem(&self, first: Ref, depth: usize, prefixes: &Prefixes, guard: &Guard) {
        let shortest = prefixes.iter().find(|prefix| prefix.table == 0);
        let stem = shortest.and_then(|&prefix| self.jumps.add_stem(prefix, first, depth));
        let Some(stem) = stem else {
            return;
        };
        let mut nodes = vec![first];
        for _ in 0..STEM_NODES_MAX {
            let Some(node) = nodes.pop() else {
                return;
            };
            let above = self.memory.inner(node);
            // If another node has replaced it, the nodes below are not found.
            let Ok((held, _)) = VersionLockGuard::lock(&above.header().lock) else {
                continue;
            };
            let depth = above.header().depth();
            above.for_each(|_, child| {
                let behind = self.depth_of(child);
                if behind == 0 {
                    return;
                }
                if let Some(key) = self.key_below(child, guard) {
                    let window = |from, count| F::window(key, from, count);
                    for prefix in Jumps::prefixes_behind(stem, window) {
                        if depth < prefix.end && prefix.end <= behind {
                            let node = self.memory.edge(prefix.end - 1, child);
                            self.jumps.set(prefix, node, guard);
                        }
                    }
                }
                if behind < self.jumps.reach() {
                    nodes.push(child);
                }
            });
            // Only the tables have changed.
            held.unlock_unchanged();
        }
    }

    /// Records the jumps of a tree that has been built as a whole.
    pub fn find_jumps(&self) {
        if !F::MIXES_KINDS {
            return;
        }
        let guard = crossbeam_epoch::pin();
        let mut before = vec![self.root];
        while let Some(node) = before.pop() {
            let above = self.memory.inner(node);
            above.for_each(|_, child| {
                if !child.is_inner() {
                    return;
                }
                self.relink(above, [Ref::NULL, child], Hint::None, &guard, || {});
                if self.depth_of(child) < self.jumps.reach() {
                    before.push(child);
                }
            });
        }
    }

    /// Returns some key below a node, whose lock may be held. `None` if none is found: a batch may
    /// have removed them all, and other threads may be changing the nodes below for a long time.
    fn key_below<'g>(&'g self, node: Ref, guard: &'g Guard) -> Option<F::Key<'g>> {
        let mut waits = 0;
        loop {
            let first = self.memory.inner(node).first();
            let key = self.any_key(first, guard);
            if key.is_some() || first.is_null() || waits >= KEY_WAITS {
                return key;
            }
            // Another thread may be changing nodes below. It can finish without a lock that this
            // thread holds.
            pause(&mut waits);
        }
    }

    /// Counts nodes and leaves that have been retired.
    pub fn count_retired(&self, count: usize) {
        self.retired.fetch_add(count, Ordering::Relaxed);
    }

    /// Frees retired memory of all threads that can no longer be reached. Call it after a batch,
    /// without a pin: between two pins, a batch retires more than the epochs free by themselves at
    /// a pin.
    pub fn collect(&self) {
        if self.memory.may_give_back() {
            self.give_back();
        }
        if self.retired.load(Ordering::Relaxed) < COLLECTED_AT_ONCE {
            return;
        }
        // Other threads may count in between. Their nodes are freed by a later call.
        self.retired.store(0, Ordering::Relaxed);
        crossbeam_epoch::pin().flush();
        if !self.shortcuts.is_empty() {
            // Leaves are retired a second time.
            crossbeam_epoch::pin().flush();
        }
        let times = self.collected.fetch_add(1, Ordering::Relaxed);
        if times % GIVEN_BACK_EVERY == GIVEN_BACK_EVERY - 1 {
            self.give_back();
        }
    }

    /// Gives memory that the tree has outgrown back to the system. This is expensive compared with
    /// a batch.
    fn give_back(&self) {
        if self.shortcuts.is_empty() {
            // SAFETY: nodes are freed after all guards under which they could be read are gone.
            // Only shortcuts could still refer to them, and there is no table; a table created now
            // has entries only for nodes that are in the tree.
            unsafe { self.memory.give_back() };
        }
    }

    /// Installs a shortcut table of another size; 0 for none.
    pub fn resize_shortcuts(&self, bytes: usize) {
        let table = (bytes > 0).then(|| Shortcuts::with_bytes(bytes));
        if let Some(replaced) = self.shortcuts.replace(table) {
            let tables = Arc::clone(&self.shortcuts);
            let guard = crossbeam_epoch::pin();
            guard.defer(move || tables.drop_replaced(&replaced));
            guard.flush();
        }
    }
}

impl<F: LeafForm> Drop for RadixTree<F> {
    fn drop(&mut self) {
        // SAFETY: this thread owns the tree exclusively, and has one reference to each leaf.
        unsafe { free_outside::<F>(&self.memory, vec![self.root]) };
    }
}

/// Number of collections between two searches for memory that the tree has outgrown.
const GIVEN_BACK_EVERY: usize = 128;

/// The minimum number of retired nodes and leaves for which a search for freeable memory pays.
const COLLECTED_AT_ONCE: usize = 64;

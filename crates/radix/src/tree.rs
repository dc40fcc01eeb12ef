//! The tree: walks from the root to the place of a key, and changes at that place.
//!
//! The root is a node256 that stays. Below it, a node's [depth](crate::node::Header::depth) says
//! which byte it decides on; bytes between a node and its child are skipped, and compared at the
//! leaf. So no node holds a prefix, and none changes when a path above it splits:
//!
//! ```text
//!   p ──▶ x          p ──▶ fork ──▶ x          the fork decides on the byte in which the new
//!                            └────▶ leaf       key differs from all keys below x
//! ```
//!
//! # Locks
//!
//! A change inside a node takes the node's lock. Replacing a node takes its parent's lock too;
//! whoever has the child's first only *tries* the parent's and otherwise begins anew, whoever
//! walks downwards waits: no cycle. Leaves hang at their parent's lock, payloads of a dense node
//! at its own.

use crate::bulk::free_outside;
use crate::counters::Probe;
use crate::leaf::{LeafForm, Match};
use crate::lock::{Held, pause};
use crate::memory::Memory;
use crate::node::{Inner, Kind, Ref, Symbol};
use crate::shortcut::{Shortcuts, Tables};
use crate::shrink::DENSE_MIN;
use crossbeam_epoch::Guard;
use crossbeam_utils::CachePadded;
use nearfield_core::Error;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// An adaptive radix tree.
#[derive(Debug)]
pub struct Tree<F: LeafForm> {
    pub memory: Arc<Memory>,
    pub shortcuts: Arc<Tables>,
    pub root: Ref,
    entries: CachePadded<AtomicI64>,
    /// Nodes and leaves retired since the last [`collect`](Tree::collect).
    retired: CachePadded<AtomicUsize>,
    form: PhantomData<F>,
}

/// What a visit does to the key it has found, or not found.
#[derive(Clone, Copy, Debug)]
pub enum Change<V> {
    /// Leaves everything as it is.
    Keep,
    /// Sets the value, inserting the key if it is absent.
    Set(V),
    /// Removes the key.
    Remove,
}

/// Where a walk for a key has ended.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The last inner node.
    pub node: Ref,
    /// Its depth.
    pub depth: usize,
    /// The key's symbol there.
    pub symbol: Symbol,
    /// The child for the symbol: nothing, a leaf, a dense node, or an inner node that the key
    /// cannot belong to.
    pub child: Ref,
    /// The node above, and the symbol that led from it to `node`, if known.
    pub parent: Option<(Ref, Symbol)>,
    /// True if the path has skipped bytes that only a leaf can tell.
    pub skipped: bool,
}

/// How an attempt to change a place has ended.
enum Attempt {
    Done,
    /// The key leaves the path at this depth already, in bytes that the path skips.
    Leaves(usize),
    /// Another thread was faster.
    Restart,
}

impl<F: LeafForm> Tree<F> {
    pub fn new(limit_bytes: usize) -> Result<Self, Error> {
        let memory = Memory::new(limit_bytes)?;
        let root = memory.allocate_inner(Kind::Node256, 0)?;
        Ok(Tree {
            memory: Arc::new(memory),
            shortcuts: Arc::default(),
            root,
            entries: CachePadded::new(AtomicI64::new(0)),
            retired: CachePadded::new(AtomicUsize::new(0)),
            form: PhantomData,
        })
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.load(Ordering::Relaxed).max(0) as usize
    }

    pub fn count_entries(&self, change: i64) {
        self.entries.fetch_add(change, Ordering::Relaxed);
    }

    /// The first symbol of a key, which the root decides on.
    #[inline]
    pub fn first_symbol(key: F::Key<'_>) -> Symbol {
        F::symbol(key, 0).unwrap_or_default()
    }

    /// How many bytes all keys of the tree share, at least as far as single nodes tell: the depth
    /// of the first node with more than one child.
    pub fn shared_depth(&self) -> usize {
        let mut node = self.root;
        loop {
            let inner = self.memory.inner(node);
            let only = inner.first();
            if inner.children() != 1 || !only.is_inner() {
                return inner.header().depth();
            }
            node = only;
        }
    }

    /// Reads the child for a symbol.
    #[inline]
    pub fn child(&self, node: Inner<'_>, symbol: Symbol) -> Ref {
        if let Inner::Node256(node) = node
            && symbol < 256
        {
            return node.find(symbol as u8);
        }
        let lock = &node.header().lock;
        loop {
            let version = lock.read();
            let child = node.find(symbol);
            if lock.validate(version) {
                return child;
            }
        }
    }

    /// Finds the value of a key and gives it to `read`.
    #[inline]
    pub fn find<R>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        read: impl FnOnce(F::Value<'_>) -> R,
    ) -> Option<R> {
        let mut waits = 0;
        'walk: loop {
            let mut symbol = Self::first_symbol(key);
            let mut node = self.memory.inner(self.root);
            let mut depth = 0;
            loop {
                let child = self.child(node, symbol);
                probe.partial_key_match(1);
                match child.kind() {
                    Kind::Nothing => return None,
                    Kind::Leaf => {
                        probe.leaf();
                        match F::compare(&self.memory, child, key, guard) {
                            Match::Equal => {
                                return Some(read(F::value_of(&self.memory, child, guard)));
                            }
                            Match::Different => return None,
                            Match::Dead => {
                                probe.restart();
                                pause(&mut waits);
                                continue 'walk;
                            }
                        }
                    }
                    Kind::Dense => {
                        probe.partial_key_match(2);
                        return self
                            .find_dense(child, key)
                            .map(|payload| read(F::from_words(F::word(key), payload).1));
                    }
                    Kind::Node256 => {
                        node = Inner::Node256(self.memory.node256(child));
                        depth += 1;
                    }
                    _ => {
                        node = self.memory.inner(child);
                        depth = node.header().depth();
                    }
                }
                match F::symbol(key, depth) {
                    Some(next) => symbol = next,
                    None => return None,
                }
            }
        }
    }

    /// Finds the payload of a key in a dense node.
    #[inline]
    pub fn find_dense(&self, node: Ref, key: F::Key<'_>) -> Option<u64> {
        let dense = self.memory.dense(node);
        let word = F::word(key);
        let lock = &dense.header().lock;
        loop {
            let version = lock.read();
            let payload = (dense.base() == word >> 8)
                .then(|| dense.find(word as u8))
                .flatten();
            if lock.validate(version) {
                return payload;
            }
        }
    }

    /// Walks towards the place of a key, not beyond nodes of depth `until`.
    pub fn descend(&self, key: F::Key<'_>, until: usize, probe: &mut impl Probe) -> Place {
        let mut place = Place {
            node: self.root,
            depth: 0,
            symbol: Self::first_symbol(key),
            child: Ref::NULL,
            parent: None,
            skipped: false,
        };
        loop {
            place.child = self.child(self.memory.inner(place.node), place.symbol);
            probe.partial_key_match(1);
            if !place.child.is_inner() {
                return place;
            }
            let depth = self.memory.inner(place.child).header().depth();
            match F::symbol(key, depth) {
                Some(symbol) if depth <= until => {
                    place = Place {
                        node: place.child,
                        depth,
                        symbol,
                        child: Ref::NULL,
                        parent: Some((place.node, place.symbol)),
                        skipped: place.skipped || depth > place.depth + 1,
                    };
                }
                _ => return place,
            }
        }
    }

    /// Some key below a node; `None` if the search met a change, or nothing.
    pub fn any_key<'g>(
        &'g self,
        mut node: Ref,
        first: Symbol,
        guard: &'g Guard,
    ) -> Option<F::Key<'g>> {
        loop {
            match node.kind() {
                Kind::Nothing => return None,
                Kind::Leaf => return F::key_of(&self.memory, node, first, guard),
                Kind::Dense => {
                    let dense = self.memory.dense(node);
                    let mut last = None;
                    crate::node::bitmap::for_each_from(dense.bitmap().load(), 0, |byte| {
                        last = Some(byte);
                        false
                    });
                    let word = dense.base() << 8 | u64::from(last?);
                    return Some(F::from_words(word, 0).0);
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

    /// Finds a key and does to it what `decide` says, given its value now. The value read and
    /// the change are one atomic step. `decide` may be called several times; the last call
    /// counts.
    ///
    /// # Errors
    /// `OutOfMemory`; nothing has been changed then.
    pub fn visit<'v>(
        &self,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Result<(), Error> {
        let place = self.descend(key, usize::MAX, probe);
        self.visit_from(place, key, guard, probe, decide)
    }

    /// As [`visit`](Tree::visit), for a key whose place has been found already.
    pub fn visit_from<'v>(
        &self,
        mut place: Place,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Result<(), Error> {
        let mut waits = 0;
        loop {
            let until = match self.visit_at(&place, key, guard, probe, decide)? {
                Attempt::Done => return Ok(()),
                Attempt::Leaves(depth) => depth,
                Attempt::Restart => {
                    probe.restart();
                    if waits > 0 || place.parent.is_some() {
                        pause(&mut waits);
                    }
                    usize::MAX
                }
            };
            place = self.descend(key, until, probe);
        }
    }

    fn visit_at<'v>(
        &self,
        place: &Place,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Result<Attempt, Error> {
        if place.child.kind() == Kind::Dense
            && self.memory.dense(place.child).base() == F::word(key) >> 8
        {
            return Ok(self.visit_dense(place.child, key, guard, probe, decide));
        }
        let node = self.memory.inner(place.node);
        let Ok((held, waits)) = Held::lock(&node.header().lock) else {
            return Ok(Attempt::Restart);
        };
        probe.lock(waits);
        if node.find(place.symbol) != place.child {
            held.unlock_unchanged();
            return Ok(Attempt::Restart);
        }
        if place.child.kind() == Kind::Leaf
            && F::compare(&self.memory, place.child, key, guard) == Match::Equal
        {
            probe.leaf();
            return self.visit_leaf(place, node, held, key, guard, probe, decide);
        }
        let attempt = self.visit_absent(place, node, key, guard, probe, decide);
        match attempt {
            Ok((attempt, Unlock::Unchanged)) => {
                held.unlock_unchanged();
                Ok(attempt)
            }
            Ok((attempt, Unlock::Changed)) => Ok(attempt),
            Ok((attempt, Unlock::Obsolete)) => {
                held.unlock_obsolete();
                self.retire_node(place.node, guard);
                Ok(attempt)
            }
            Err(error) => {
                held.unlock_unchanged();
                Err(error)
            }
        }
    }

    /// Changes a key that has a leaf, under the lock of the leaf's parent.
    #[expect(clippy::too_many_arguments, reason = "one place, seen from all sides")]
    fn visit_leaf<'v>(
        &self,
        place: &Place,
        node: Inner<'_>,
        held: Held<'_>,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Result<Attempt, Error> {
        let leaf = place.child;
        match decide(Some(F::value_of(&self.memory, leaf, guard))) {
            Change::Keep => held.unlock_unchanged(),
            Change::Set(value) => match F::change(&self.memory, leaf, key, value, guard) {
                Ok(None) => held.unlock_unchanged(),
                Ok(Some(new)) => {
                    F::mark_dead(&self.memory, leaf, guard);
                    node.replace(place.symbol, new);
                    drop(held);
                    self.retire_leaf(leaf, guard);
                }
                Err(error) => {
                    held.unlock_unchanged();
                    return Err(error);
                }
            },
            Change::Remove => {
                F::mark_dead(&self.memory, leaf, guard);
                node.remove(place.symbol);
                let underfull = node.is_underfull();
                drop(held);
                self.retire_leaf(leaf, guard);
                self.count_entries(-1);
                if underfull {
                    self.tidy(key, guard, probe);
                }
            }
        }
        Ok(Attempt::Done)
    }

    /// Inserts a key that the place shows to be absent, if `decide` says so.
    fn visit_absent<'v>(
        &self,
        place: &Place,
        node: Inner<'_>,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Result<(Attempt, Unlock), Error> {
        let fork = match self.fork_depth(place, key, guard) {
            Fork::None => None,
            Fork::At(depth, symbol) => Some((depth, symbol)),
            Fork::Above(depth) => return Ok((Attempt::Leaves(depth), Unlock::Unchanged)),
            Fork::Unknown => return Ok((Attempt::Restart, Unlock::Unchanged)),
        };
        if fork.is_none() && place.symbol < 256 && node.is_full() {
            return self.grow(place, node, key, probe, decide, guard);
        }
        let Change::Set(value) = decide(None) else {
            return Ok((Attempt::Done, Unlock::Unchanged));
        };
        let leaf = F::create(&self.memory, key, value)?;
        match fork {
            None => node.insert(place.symbol, leaf),
            Some((depth, symbol)) => {
                let own = F::symbol(key, depth).unwrap_or_default();
                let fork = match self.fork(depth, (symbol, place.child), (own, leaf)) {
                    Ok(fork) => fork,
                    Err(error) => {
                        // SAFETY: nobody else has seen the leaf.
                        unsafe { F::free(&self.memory, leaf) };
                        return Err(error);
                    }
                };
                node.replace(place.symbol, fork);
            }
        }
        self.count_entries(1);
        Ok((Attempt::Done, Unlock::Changed))
    }

    /// Decides where an absent key leaves the tree, given a place under its lock.
    fn fork_depth(&self, place: &Place, key: F::Key<'_>, guard: &Guard) -> Fork {
        let first = Self::first_symbol(key);
        let below = if place.child.is_null() {
            if !place.skipped {
                return Fork::None;
            }
            // Read without a version, which would wait for our own lock.
            self.any_key(self.memory.inner(place.node).first(), first, guard)
        } else {
            self.any_key(place.child, first, guard)
        };
        let Some(other) = below else {
            return Fork::Unknown;
        };
        let depth = F::difference(key, other);
        match depth {
            Some(depth) if depth < place.depth => Fork::Above(depth),
            _ if place.child.is_null() => Fork::None,
            Some(depth) if depth < self.depth_of(place.child) => {
                Fork::At(depth, F::symbol(other, depth).unwrap_or_default())
            }
            // The child covers the key by now, or its leaf has become the key's.
            _ => Fork::Unknown,
        }
    }

    /// The depth of a child: how many bytes all keys below agree in, at least.
    fn depth_of(&self, child: Ref) -> usize {
        match child.kind() {
            Kind::Leaf | Kind::Nothing => usize::MAX,
            Kind::Dense => 7,
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
        key: F::Key<'_>,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
        guard: &Guard,
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
        match self.enlarged(node, place, key, value, guard) {
            Ok(larger) => {
                let edge = self.memory.edge(above.header().depth(), larger);
                above.replace(parent_symbol, edge);
                drop(held_above);
                self.count_entries(1);
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
        key: F::Key<'_>,
        value: F::Value<'_>,
        guard: &Guard,
    ) -> Result<Ref, Error> {
        let kind = match node {
            Inner::Node4(_) => Kind::Node16,
            Inner::Node16(_) => Kind::Node48,
            _ if F::DENSE && place.depth == 7 => {
                return self.densified(node, F::word(key), F::payload(value), guard);
            }
            _ => Kind::Node256,
        };
        let leaf = F::create(&self.memory, key, value)?;
        let larger = match self.memory.allocate_inner(kind, place.depth) {
            Ok(larger) => larger,
            Err(error) => {
                // SAFETY: nobody else has seen the leaf.
                unsafe { F::free(&self.memory, leaf) };
                return Err(error);
            }
        };
        let copy = self.memory.inner(larger);
        node.for_each(|symbol, child| copy.insert(symbol, child));
        copy.insert(place.symbol, leaf);
        copy.header().publish();
        Ok(larger)
    }

    /// A dense node with the entries of a full node48 at the last byte, and one entry more. The
    /// leaves are dead afterwards.
    fn densified(
        &self,
        node: Inner<'_>,
        word: u64,
        payload: u64,
        guard: &Guard,
    ) -> Result<Ref, Error> {
        let dense_ref = self.memory.allocate_dense(word >> 8)?;
        let dense = self.memory.dense(dense_ref);
        let set = |byte: u8, payload| {
            dense.set_payload(byte, payload);
            dense.set_used(byte, true);
        };
        node.for_each(|symbol, leaf| {
            let payload = F::payload(F::value_of(&self.memory, leaf, guard));
            set(symbol as u8, payload);
        });
        set(word as u8, payload);
        node.for_each(|_, leaf| {
            F::mark_dead(&self.memory, leaf, guard);
            self.retire_leaf(leaf, guard);
        });
        dense.header().publish();
        Ok(dense_ref)
    }

    /// Changes a key in a dense node that covers it.
    pub fn visit_dense_held<'v>(
        &self,
        node: Ref,
        key: F::Key<'_>,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> bool {
        let dense = self.memory.dense(node);
        let word = F::word(key);
        let current = dense.find(word as u8);
        match decide(current.map(|payload| F::from_words(word, payload).1)) {
            Change::Set(value) => {
                dense.set_payload(word as u8, F::payload(value));
                if current.is_none() {
                    dense.set_used(word as u8, true);
                    self.count_entries(1);
                }
                current.is_none()
            }
            Change::Remove if current.is_some() => {
                dense.set_used(word as u8, false);
                self.count_entries(-1);
                true
            }
            _ => false,
        }
    }

    fn visit_dense<'v>(
        &self,
        node: Ref,
        key: F::Key<'_>,
        guard: &Guard,
        probe: &mut impl Probe,
        decide: &mut impl FnMut(Option<F::Value<'_>>) -> Change<F::Value<'v>>,
    ) -> Attempt {
        let dense = self.memory.dense(node);
        let Ok((held, waits)) = Held::lock(&dense.header().lock) else {
            return Attempt::Restart;
        };
        probe.lock(waits);
        if !self.visit_dense_held(node, key, decide) {
            held.unlock_unchanged();
            return Attempt::Done;
        }
        let underfull = dense.header().count() <= DENSE_MIN;
        drop(held);
        if underfull {
            self.tidy(key, guard, probe);
        }
        Attempt::Done
    }

    /// Frees what has been retired by this thread or others and can be reached no more. To be
    /// called after a batch, without a pin: a batch retires more between two pins than the epochs
    /// free by themselves at a pin.
    pub fn collect(&self) {
        let retired = self.retired.load(Ordering::Relaxed);
        if retired < COLLECTED_AT_ONCE {
            return;
        }
        self.retired.store(0, Ordering::Relaxed);
        // Two rounds more, as what is retired now is free two epochs later.
        let mut rounds = retired / COLLECTED_AT_ONCE + 2;
        if !self.shortcuts.is_empty() {
            // Leaves are retired a second time.
            rounds *= 2;
        }
        for _ in 0..rounds {
            crossbeam_epoch::pin().flush();
        }
    }

    /// Frees an unlinked node when nobody can read it any more.
    pub fn retire_node(&self, node: Ref, guard: &Guard) {
        self.retired.fetch_add(1, Ordering::Relaxed);
        let memory = Arc::clone(&self.memory);
        // SAFETY: the closure owns what it uses, and may run on any thread.
        unsafe { guard.defer_unchecked(move || memory.free_node(node)) };
    }

    /// Frees an unlinked leaf when nobody can read it any more.
    pub fn retire_leaf(&self, leaf: Ref, guard: &Guard) {
        self.retired.fetch_add(1, Ordering::Relaxed);
        let memory = Arc::clone(&self.memory);
        let shortcuts = Arc::clone(&self.shortcuts);
        // SAFETY: the closure owns what it uses, and may run on any thread. It runs after all
        // guards are gone under which the leaf could be reached through the tree, and once,
        // because only the thread that has unlinked the leaf retires it.
        unsafe { guard.defer_unchecked(move || free_leaf::<F>(memory, &shortcuts, leaf)) };
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

impl<F: LeafForm> Drop for Tree<F> {
    fn drop(&mut self) {
        // SAFETY: the tree is exclusively ours, and has one reference to each leaf.
        unsafe { free_outside::<F>(&self.memory, vec![self.root]) };
    }
}

/// Frees a leaf that nobody can reach through the tree, now or, if shortcuts may lead there,
/// after another grace period.
///
/// # Safety
/// The leaf died a grace period ago, and is freed only once.
unsafe fn free_leaf<F: LeafForm>(memory: Arc<Memory>, shortcuts: &Tables, leaf: Ref) {
    let guard = crossbeam_epoch::pin();
    if shortcuts.purge(leaf, || F::hash_of_dead(&memory, leaf, &guard)) {
        // SAFETY: the closure owns what it uses, and may run on any thread. It runs after all
        // guards are gone under which the leaf could be found in a shortcut table.
        unsafe { guard.defer_unchecked(move || F::free(&memory, leaf)) };
    } else {
        // SAFETY: as promised by the caller, and there is no table that could lead to the leaf.
        unsafe { F::free(&memory, leaf) };
    }
}

/// Retired objects that the epochs free at a flush: eight bags of 64.
const COLLECTED_AT_ONCE: usize = 512;

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

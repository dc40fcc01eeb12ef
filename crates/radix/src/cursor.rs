//! Ordered reads: the entries between two bounds, in chunks.
//!
//! A chunk is gathered level by level instead of depth first. The walk to the bound leaves a
//! list of subtrees in order, those to the right of its path (or to the left, downwards). Each
//! pass replaces the inner nodes of the list by their children and cuts it to the chunk's size,
//! which loses nothing as each subtree holds at least one entry. All nodes of a pass are
//! prefetched together, so that a chunk of 64 entries waits for memory about as often as a
//! single look-up does.
//!
//! Other threads may change the tree meanwhile. A list element that has become obsolete still
//! shows its state of an instant after the chunk began, so that no entry that stays is missed; a
//! leaf that has died since makes the chunk begin anew, as its entry may have moved.

use crate::leaf::LeafForm;
use crate::lock::pause;
use crate::node::{Kind, Ref, Symbol, bitmap};
use crate::prefetch::prefetch;
use crate::shrink::DENSE_MIN;
use crate::tree::Tree;
use crossbeam_epoch::Guard;
use nearfield_core::Direction;
use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

/// A subtree, and the first symbol of its keys, by which a dead leaf can be told.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    node: Ref,
    first: Symbol,
}

/// Memory for gathering chunks, for use again and again.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The list of subtrees, and how many of the first are leaves or dense nodes.
    items: Vec<Item>,
    expanded: usize,
    /// How many entries the list holds at least, how many are wanted, and whether nothing has
    /// been cut off.
    entries: usize,
    target: usize,
    complete: bool,
    /// The list after the next pass.
    next: Vec<Item>,
    path: Vec<(Ref, Symbol)>,
}

/// How a chunk has ended.
pub enum Chunk<K> {
    /// There are no more entries.
    Exhausted,
    /// More may follow behind this key.
    After(K),
    /// The visitor has had enough.
    Stopped,
    /// Another thread was in the way; the visitor has seen the entries up to this key.
    Disturbed(Option<K>),
}

/// Entries of the first chunk of a scan whose limit does not say how many there will be.
const CHUNK_MIN: usize = 16;
/// Entries of a chunk at most.
pub const CHUNK_MAX: usize = 512;

impl<F: LeafForm> Tree<F> {
    /// Calls `visit` for the entries from a bound on, in `direction`, until it breaks or no
    /// entry is left. `expected` is how many entries the caller is going to take, if it knows.
    pub fn scan<'g>(
        &'g self,
        from: Bound<F::Key<'g>>,
        direction: Direction,
        expected: usize,
        scratch: &mut Scratch,
        guard: &'g Guard,
        mut visit: impl FnMut(F::Key<'g>, F::Value<'g>) -> ControlFlow<()>,
    ) {
        let chunk = expected.clamp(1, CHUNK_MAX);
        let first = self.scan_chunk(from, direction, chunk, scratch, guard, &mut visit);
        self.scan_on(first, from, direction, chunk, scratch, guard, visit);
    }

    /// Goes on with a scan whose first chunk, from a bound on, has ended.
    #[expect(clippy::too_many_arguments, reason = "the state of a scan")]
    pub fn scan_on<'g>(
        &'g self,
        ended: Chunk<F::Key<'g>>,
        from: Bound<F::Key<'g>>,
        direction: Direction,
        chunk: usize,
        scratch: &mut Scratch,
        guard: &'g Guard,
        mut visit: impl FnMut(F::Key<'g>, F::Value<'g>) -> ControlFlow<()>,
    ) {
        let (mut ended, mut from, mut chunk) = (ended, from, chunk);
        let mut waits = 0;
        loop {
            match ended {
                Chunk::Exhausted | Chunk::Stopped => return,
                Chunk::After(key) => {
                    from = Bound::Excluded(key);
                    chunk = (chunk * 2).clamp(CHUNK_MIN, CHUNK_MAX);
                }
                Chunk::Disturbed(key) => {
                    if let Some(key) = key {
                        from = Bound::Excluded(key);
                    }
                    pause(&mut waits);
                }
            }
            ended = self.scan_chunk(from, direction, chunk, scratch, guard, &mut visit);
        }
    }

    fn scan_chunk<'g>(
        &'g self,
        from: Bound<F::Key<'g>>,
        direction: Direction,
        chunk: usize,
        scratch: &mut Scratch,
        guard: &'g Guard,
        visit: &mut impl FnMut(F::Key<'g>, F::Value<'g>) -> ControlFlow<()>,
    ) -> Chunk<F::Key<'g>> {
        if !self.begin_chunk(from, direction, chunk, scratch, guard) {
            return Chunk::Disturbed(None);
        }
        while self.expand(direction, scratch) {}
        self.finish_chunk(from, direction, scratch, guard, visit)
    }

    /// Gathers the subtrees that hold the first `chunk` entries from a bound on. Answers false
    /// if another thread was in the way.
    pub fn begin_chunk<'g>(
        &'g self,
        from: Bound<F::Key<'g>>,
        direction: Direction,
        chunk: usize,
        scratch: &mut Scratch,
        guard: &'g Guard,
    ) -> bool {
        scratch.items.clear();
        scratch.path.clear();
        (scratch.expanded, scratch.entries) = (0, 0);
        // One more than asked for: the first may turn out to lie before the bound altogether.
        let target = chunk + 1;
        scratch.target = target;
        let complete = match from {
            Bound::Unbounded => {
                Some(self.gather_siblings(self.root, None, None, direction, target, scratch))
            }
            Bound::Included(key) | Bound::Excluded(key) => {
                self.gather_from(key, direction, target, scratch, guard)
            }
        };
        scratch.complete = complete == Some(true);
        complete.is_some()
    }

    /// Walks to a key and gathers the subtrees from it on, up to `target` of them. Answers
    /// whether these are all; `None` if another thread was in the way.
    fn gather_from<'g>(
        &'g self,
        key: F::Key<'g>,
        direction: Direction,
        target: usize,
        scratch: &mut Scratch,
        guard: &'g Guard,
    ) -> Option<bool> {
        let first = Self::first_symbol(key);
        let (mut node, mut symbol, mut skipped) = (self.root, first, false);
        let mut depth = 0;
        let last = loop {
            scratch.path.push((node, symbol));
            let child = self.child(self.memory.inner(node), symbol);
            if !child.is_inner() {
                break child;
            }
            let below = self.memory.inner(child).header().depth();
            skipped |= below > depth + 1;
            match F::symbol(key, below) {
                Some(next) => (node, symbol, depth) = (child, next, below),
                None => break child,
            }
        };
        // The first subtree: the one that the walk has ended at, or, if the key differs from all
        // keys below a node of the path in bytes that were skipped, that node.
        let mut include = None;
        let other = match last.kind() {
            Kind::Nothing if !skipped => None,
            Kind::Nothing => Some(self.any_key(node, first, guard)?),
            _ => Some(self.any_key(last, first, guard)?),
        };
        if let Some(other) = other {
            let difference = F::difference(key, other).unwrap_or(usize::MAX);
            let mut candidate = last;
            while let Some(&(node, _)) = scratch.path.last()
                && self.memory.inner(node).header().depth() > difference
            {
                candidate = node;
                scratch.path.pop();
            }
            let before = match direction {
                Direction::Ascending => Ordering::Less,
                Direction::Descending => Ordering::Greater,
            };
            // A subtree that contains the key's own place is kept and sifted at the end.
            let covers = difference >= self.depth_below(candidate);
            if !candidate.is_null() && (covers || other.cmp(&key) != before) {
                include = Some(candidate);
            }
        }
        if let Some(node) = include {
            self.push(scratch, Item { node, first });
            // Of the subtree at the bound itself, there may be no more than one beyond it.
            scratch.entries = 1;
        }
        while let Some((node, symbol)) = scratch.path.pop() {
            let first = (!scratch.path.is_empty()).then_some(first);
            if !self.gather_siblings(node, first, Some(symbol), direction, target, scratch) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// How many bytes all keys below a subtree agree in, at least, so that a key which agrees in
    /// as many has its place there.
    fn depth_below(&self, node: Ref) -> usize {
        match node.kind() {
            Kind::Leaf | Kind::Nothing => usize::MAX,
            Kind::Dense => 7,
            _ => self.memory.inner(node).header().depth(),
        }
    }

    /// Adds the children of a node behind a symbol to the list, up to `target`. `first` is the
    /// first symbol of their keys; `None` if the node is the root. Answers whether these are all.
    fn gather_siblings(
        &self,
        node: Ref,
        first: Option<Symbol>,
        behind: Option<Symbol>,
        direction: Direction,
        target: usize,
        scratch: &mut Scratch,
    ) -> bool {
        let inner = self.memory.inner(node);
        let lock = &inner.header().lock;
        let (start, entries) = (scratch.items.len(), scratch.entries);
        loop {
            let version = lock.read();
            let complete = match first {
                Some(first) => {
                    let mut complete = true;
                    inner.walk(behind, direction, |node| {
                        complete = scratch.entries < target;
                        if complete {
                            self.push(scratch, Item { node, first });
                        }
                        complete
                    });
                    complete
                }
                None => self.gather_root(behind, direction, target, scratch),
            };
            if lock.validate(version) {
                return complete;
            }
            scratch.items.truncate(start);
            scratch.entries = entries;
        }
    }

    /// As `gather_siblings` for the root, whose children tell their first symbol.
    fn gather_root(
        &self,
        behind: Option<Symbol>,
        direction: Direction,
        target: usize,
        scratch: &mut Scratch,
    ) -> bool {
        let mut children = Vec::new();
        self.memory.inner(self.root).for_each(|symbol, node| {
            children.push(Item {
                node,
                first: symbol,
            })
        });
        // END sorts before every byte.
        let rank = |symbol: Symbol| (symbol + 1) % 257;
        let mut add = |item: Item| {
            let past = behind.is_none_or(|behind| match direction {
                Direction::Ascending => rank(item.first) > rank(behind),
                Direction::Descending => rank(item.first) < rank(behind),
            });
            if past && scratch.entries >= target {
                return false;
            }
            if past {
                self.push(scratch, item);
            }
            true
        };
        match direction {
            Direction::Ascending => children.into_iter().all(&mut add),
            Direction::Descending => children.into_iter().rev().all(&mut add),
        }
    }

    #[inline]
    fn push(&self, scratch: &mut Scratch, item: Item) {
        self.prefetch_item(item.node);
        scratch.entries += entries_at_least(item.node);
        scratch.items.push(item);
    }

    /// One pass: replaces inner nodes by their children and cuts the list when it holds enough
    /// entries. Answers whether inner nodes are left.
    pub fn expand(&self, direction: Direction, scratch: &mut Scratch) -> bool {
        let Scratch {
            items,
            next,
            expanded,
            target,
            complete,
            ..
        } = scratch;
        let is_final = |item: &&Item| !item.node.is_inner();
        *expanded += items[*expanded..].iter().take_while(is_final).count();
        let first_final = usize::from(*expanded > 0);
        let mut entries: usize = first_final
            + items[first_final..*expanded]
                .iter()
                .map(|item| entries_at_least(item.node))
                .sum::<usize>();
        next.clear();
        let mut inner_left = false;
        for &item in &items[*expanded..] {
            if entries >= *target {
                *complete = false;
                break;
            }
            if !item.node.is_inner() {
                entries += entries_at_least(item.node);
                next.push(item);
                continue;
            }
            let node = self.memory.inner(item.node);
            let lock = &node.header().lock;
            let (start, before) = (next.len(), entries);
            loop {
                let version = lock.read();
                let (mut fits, mut inner_here) = (true, false);
                node.walk(None, direction, |child| {
                    fits = entries < *target;
                    if fits {
                        self.prefetch_item(child);
                        entries += entries_at_least(child);
                        inner_here |= child.is_inner();
                        next.push(Item {
                            node: child,
                            ..item
                        });
                    }
                    fits
                });
                if lock.validate(version) {
                    *complete &= fits;
                    inner_left |= inner_here;
                    break;
                }
                next.truncate(start);
                entries = before;
            }
        }
        items.truncate(*expanded);
        items.append(next);
        inner_left
    }

    /// Brings the lines of a subtree's top that the next pass reads into the cache.
    #[inline]
    fn prefetch_item(&self, node: Ref) {
        // By arithmetic, as a branch on the kind would often be mispredicted; for leaves and
        // node4s the second line is the first again.
        let line = self.memory.line(node);
        prefetch(line);
        prefetch(line.wrapping_add(64 * usize::from(node.is_wider_than_a_line())));
    }

    /// Visits the entries of a list that has been expanded to leaves and dense nodes.
    pub fn finish_chunk<'g>(
        &'g self,
        from: Bound<F::Key<'g>>,
        direction: Direction,
        scratch: &Scratch,
        guard: &'g Guard,
        visit: &mut impl FnMut(F::Key<'g>, F::Value<'g>) -> ControlFlow<()>,
    ) -> Chunk<F::Key<'g>> {
        let is_past = |key: F::Key<'g>| match (from, direction) {
            (Bound::Unbounded, _) => true,
            (Bound::Included(from), Direction::Ascending) => key >= from,
            (Bound::Excluded(from), Direction::Ascending) => key > from,
            (Bound::Included(from), Direction::Descending) => key <= from,
            (Bound::Excluded(from), Direction::Descending) => key < from,
        };
        let mut last = None;
        for item in &scratch.items {
            if item.node.kind() == Kind::Dense {
                for (key, payload) in self.dense_entries(item.node, from, direction) {
                    let (key, value) = F::from_words(key, payload);
                    if !is_past(key) {
                        continue;
                    }
                    if visit(key, value).is_break() {
                        return Chunk::Stopped;
                    }
                    last = Some(key);
                }
                continue;
            }
            let Some(key) = F::key_of(&self.memory, item.node, item.first, guard) else {
                return Chunk::Disturbed(last);
            };
            let value = F::value_of(&self.memory, item.node, guard);
            if !is_past(key) {
                continue;
            }
            if visit(key, value).is_break() {
                return Chunk::Stopped;
            }
            last = Some(key);
        }
        match last {
            _ if scratch.complete => Chunk::Exhausted,
            Some(key) => Chunk::After(key),
            // All that was gathered has been removed meanwhile.
            None => Chunk::Disturbed(None),
        }
    }

    /// The entries of a dense node at one instant, those before a bound left out.
    fn dense_entries(
        &self,
        node: Ref,
        from: Bound<F::Key<'_>>,
        direction: Direction,
    ) -> impl Iterator<Item = (u64, u64)> + use<F> {
        let dense = self.memory.dense(node);
        let lock = &dense.header().lock;
        let mut payloads = [0; 256];
        let (base, bits) = loop {
            let version = lock.read();
            let base = dense.base();
            let mut bits = dense.bitmap().load();
            if let Bound::Included(key) | Bound::Excluded(key) = from
                && F::word(key) >> 8 == base
            {
                bitmap::keep(&mut bits, F::word(key) as u8, direction);
            }
            bitmap::for_each_from(bits, 0, |byte| {
                payloads[byte as usize] = dense.payload(byte);
                true
            });
            if lock.validate(version) {
                break (base, bits);
            }
        };
        bitmap::Bits::new(bits, direction)
            .map(move |byte| (base << 8 | u64::from(byte), payloads[byte as usize]))
    }
}

/// How many entries a subtree holds, unless other threads are just removing them.
#[inline]
fn entries_at_least(node: Ref) -> usize {
    match node.tag() == Kind::Dense as usize {
        true => DENSE_MIN + 1,
        false => 1,
    }
}

//! Nodes that removals have left with too few children become smaller ones, or give way to their
//! only child.

use crate::counters::Probe;
use crate::leaf::LeafForm;
use crate::lock::{Held, pause};
use crate::node::{Inner, Kind, Ref, Symbol, bitmap};
use crate::tree::Tree;
use crossbeam_epoch::Guard;
use nearfield_core::Error;

/// A dense node with no more entries becomes a node48 or less.
pub const DENSE_MIN: usize = 37;

impl<F: LeafForm> Tree<F> {
    /// Replaces nodes on the path of a key that have too few children left by smaller ones, or
    /// by their only child. Where memory for that is lacking, they stay.
    pub fn tidy(&self, key: F::Key<'_>, guard: &Guard, probe: &mut impl Probe) {
        let mut waits = 0;
        loop {
            match self.tidy_once(key, guard, probe) {
                Tidy::Clean => return,
                Tidy::Changed => {}
                Tidy::Raced => pause(&mut waits),
            }
        }
    }

    fn tidy_once(&self, key: F::Key<'_>, guard: &Guard, probe: &mut impl Probe) -> Tidy {
        let mut parent = self.root;
        let mut symbol = Self::first_symbol(key);
        loop {
            let child = self.child(self.memory.inner(parent), symbol);
            let underfull = match child.kind() {
                Kind::Nothing | Kind::Leaf => return Tidy::Clean,
                Kind::Dense => self.memory.dense(child).header().count() <= DENSE_MIN,
                _ => self.memory.inner(child).is_underfull(),
            };
            if underfull {
                return self.shrink(parent, symbol, child, guard, probe);
            }
            if child.kind() == Kind::Dense {
                return Tidy::Clean;
            }
            match F::symbol(key, self.memory.inner(child).header().depth()) {
                Some(next) => (parent, symbol) = (child, next),
                None => return Tidy::Clean,
            }
        }
    }

    fn shrink(
        &self,
        parent: Ref,
        symbol: Symbol,
        child: Ref,
        guard: &Guard,
        probe: &mut impl Probe,
    ) -> Tidy {
        let above = self.memory.inner(parent);
        let Ok((held_above, waits)) = Held::lock(&above.header().lock) else {
            return Tidy::Raced;
        };
        probe.lock(waits);
        if above.find(symbol) != child {
            held_above.unlock_unchanged();
            return Tidy::Raced;
        }
        let lock = match child.kind() {
            Kind::Dense => &self.memory.dense(child).header().lock,
            _ => &self.memory.inner(child).header().lock,
        };
        let Ok((held, waits)) = Held::lock(lock) else {
            held_above.unlock_unchanged();
            return Tidy::Raced;
        };
        probe.lock(waits);
        let smaller = match child.kind() {
            Kind::Dense => self.smaller_dense(child),
            _ => self.smaller(self.memory.inner(child)),
        };
        match smaller {
            Ok(Some(smaller)) => {
                if smaller.is_null() {
                    above.remove(symbol);
                } else {
                    above.replace(symbol, self.memory.edge(above.header().depth(), smaller));
                }
                held.unlock_obsolete();
                drop(held_above);
                self.retire_node(child, guard);
                Tidy::Changed
            }
            Ok(None) => {
                held.unlock_unchanged();
                held_above.unlock_unchanged();
                Tidy::Raced
            }
            Err(_) => {
                held.unlock_unchanged();
                held_above.unlock_unchanged();
                Tidy::Clean
            }
        }
    }

    /// What is to stand in place of an underfull node; `None` if it is not underfull any more.
    fn smaller(&self, node: Inner<'_>) -> Result<Option<Ref>, Error> {
        if !node.is_underfull() {
            return Ok(None);
        }
        if node.children() <= 1 {
            return Ok(Some(node.first()));
        }
        let kind = kind_for(node.header().count());
        let smaller = self.memory.allocate_inner(kind, node.header().depth())?;
        let copy = self.memory.inner(smaller);
        node.for_each(|symbol, child| copy.insert(symbol, child));
        copy.header().publish();
        Ok(Some(smaller))
    }

    /// As [`smaller`](Tree::smaller) for a dense node, whose payloads become leaves again.
    fn smaller_dense(&self, node: Ref) -> Result<Option<Ref>, Error> {
        let dense = self.memory.dense(node);
        let count = dense.header().count();
        if count > DENSE_MIN {
            return Ok(None);
        }
        let mut leaves = Vec::with_capacity(count);
        let mut failure = None;
        bitmap::for_each_from(dense.bitmap().load(), 0, |byte| {
            let (key, value) =
                F::from_words(dense.base() << 8 | u64::from(byte), dense.payload(byte));
            match F::create(&self.memory, key, value) {
                Ok(leaf) => leaves.push((Symbol::from(byte), leaf)),
                Err(error) => failure = Some(error),
            }
            failure.is_none()
        });
        let node = match failure {
            Some(error) => Err(error),
            None if count <= 1 => {
                return Ok(Some(leaves.first().map_or(Ref::NULL, |&(_, leaf)| leaf)));
            }
            None => self.memory.allocate_inner(kind_for(count), 7),
        };
        match node {
            Ok(smaller) => {
                let node = self.memory.inner(smaller);
                for (symbol, leaf) in leaves {
                    node.insert(symbol, leaf);
                }
                node.header().publish();
                Ok(Some(smaller))
            }
            Err(error) => {
                for (_, leaf) in leaves {
                    // SAFETY: nobody else has seen the leaf.
                    unsafe { F::free(&self.memory, leaf) };
                }
                Err(error)
            }
        }
    }
}

/// The smallest kind that has room for a number of children.
pub fn kind_for(count: usize) -> Kind {
    match count {
        0..=4 => Kind::Node4,
        5..=16 => Kind::Node16,
        17..=48 => Kind::Node48,
        _ => Kind::Node256,
    }
}

/// How an attempt to tidy a path has ended.
enum Tidy {
    Clean,
    Changed,
    Raced,
}

//! The large form of a sorted set: a table of the members, and a tree of their scores and ids.

use super::edge::Edge;
use super::{decode, encode, is_before, thawed_score};
use crate::object::frozen::{FrozenReader, put_number};
use crate::object::packed::PackedStrings;
use crate::object::ranked_tree::{RankedSearchKey, RankedTree, RankedTreePosition};
use crate::object::table::ByteStringTable;
use allocator_api2::alloc::Allocator;
use std::ops::Range;

/// A table in which each member's value is its score, and a tree that orders ids of one score by
/// member.
pub(super) struct Large<A: Allocator> {
    pub(super) members: ByteStringTable<A>,
    pub(super) tree: RankedTree<A>,
}

/// Returns the function that the tree calls for an id whose score is that of the edge.
#[inline]
fn is_behind<A: Allocator + Clone>(
    members: &ByteStringTable<A>,
    edge: Edge<'_>,
) -> impl Fn(u32) -> bool {
    move |id| edge.is_behind(|| members.key(id))
}

/// Returns the entry of a member with this id, for a search in the tree.
fn known<'a, A: Allocator + Clone>(
    members: &'a ByteStringTable<A>,
    member: &'a [u8],
    id: u32,
) -> RankedSearchKey<impl Fn(u32) -> bool> {
    let score = decode(members.value(id));
    let is_not_behind = is_behind(members, Edge::behind(score, member));
    RankedSearchKey {
        score,
        id,
        is_not_behind,
    }
}

/// The number of members that are looked up at once.
const AHEAD: usize = 10;

/// The iterator over entries of a large set. Members are looked up several at a time, so that the
/// cache misses of all of them overlap.
pub(super) struct LargeEntries<'a, A: Allocator> {
    large: &'a Large<A>,
    next: Option<RankedTreePosition>,
    ahead: [(&'a [u8], f64); AHEAD],
    /// The entries of `ahead` that have not been returned yet.
    ready: Range<usize>,
}

impl<'a, A: Allocator + Clone> LargeEntries<'a, A> {
    /// Returns the next entry; the caller wants `left` more.
    #[inline]
    pub(super) fn next(&mut self, left: usize, reverse: bool) -> Option<(&'a [u8], f64)> {
        if self.ready.is_empty() {
            self.look_up(left.min(AHEAD), reverse);
        }
        self.ready.next().map(|index| self.ahead[index])
    }

    fn look_up(&mut self, wanted: usize, reverse: bool) {
        let (mut ids, mut count) = ([0; AHEAD], 0);
        while let Some(spot) = self.next
            && count < wanted
        {
            let (score, id) = self.large.tree.entry(spot);
            ids[count] = id;
            self.ahead[count].1 = score;
            count += 1;
            self.next = if reverse {
                self.large.tree.previous(spot)
            } else {
                self.large.tree.next(spot)
            };
        }
        let keys = self.large.members.keys(&ids, count);
        for (ahead, key) in self.ahead.iter_mut().zip(keys) {
            ahead.0 = key;
        }
        self.ready = 0..count;
    }
}

impl<A: Allocator + Clone> Large<A> {
    pub(super) fn from_packed(packed: &PackedStrings<A>) -> Self {
        let heap = packed.heap().clone();
        let mut members = ByteStringTable::new_in(heap.clone());
        let entries = packed.pairs().map(|(_, member, score)| {
            let (id, _) = members.insert(member, score);
            (decode(score), id)
        });
        let tree = RankedTree::from_sorted_in(heap, packed.len() / 2, entries);
        Large { members, tree }
    }

    pub(super) fn rebuild_in<B: Allocator + Clone>(&self, heap: B) -> Large<B> {
        // The copy of the table numbers its elements without gaps, in the order of their ids.
        let mut new_ids = vec![0; self.members.id_end()];
        for (new, old) in self.members.iter().enumerate() {
            new_ids[old as usize] = new as u32;
        }
        let entries = self.tree.iter();
        let entries = entries.map(|(score, id)| (score, new_ids[id as usize]));
        Large {
            members: self.members.rebuild_in(heap.clone()),
            tree: RankedTree::from_sorted_in(heap, self.tree.len(), entries),
        }
    }

    /// Appends the members with their scores, and their ids in the order of the set.
    pub(super) fn freeze(&self, out: &mut Vec<u8>) {
        self.members.freeze(out);
        self.tree
            .iter()
            .for_each(|(_, id)| put_number(out, id as usize));
    }

    pub(super) fn thaw(source: &mut FrozenReader<'_>, heap: A) -> Option<Self> {
        let members = ByteStringTable::thaw(source, heap.clone())?;
        let lives = |id: u32| members.is_element(id);
        let mut entries: Vec<(f64, u32)> = Vec::with_capacity(members.len());
        for _ in 0..members.len() {
            let id = u32::try_from(source.number()?)
                .ok()
                .filter(|&id| lives(id))?;
            let score = thawed_score(members.value(id))?;
            let entry = (score, members.key(id));
            let before = entries.last().map(|&(score, id)| (score, members.key(id)));
            // Because the entries ascend, none occurs twice.
            if before.is_some_and(|before| !is_before(before, entry)) {
                return None;
            }
            entries.push((score, id));
        }
        let tree = RankedTree::from_sorted_in(heap, entries.len(), entries.into_iter());
        Some(Large { members, tree })
    }

    pub(super) fn rank(&self, edge: Edge<'_>) -> usize {
        let first = self.tree.seek(0).map(|spot| self.tree.entry(spot));
        let common = first.map_or(0.0, |(score, _)| score);
        let is_behind = is_behind(&self.members, edge);
        self.tree.rank(edge.score(common), is_behind)
    }

    pub(super) fn rank_of(&self, member: &[u8]) -> Option<usize> {
        let id = self.members.find(member)?;
        self.tree.rank_of(known(&self.members, member, id))
    }

    /// Returns the entries from a rank on, or none if it is beyond the last.
    pub(super) fn entries_from(&self, rank: usize) -> LargeEntries<'_, A> {
        LargeEntries {
            large: self,
            next: self.tree.seek(rank),
            ahead: [(&[], 0.0); AHEAD],
            ready: 0..0,
        }
    }

    pub(super) fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let Large { members, tree } = self;
        let before = Edge::before(score, member);
        let Some(id) = members.find(member) else {
            // The table first, because the tree looks up members by their ids.
            let (id, _) = members.insert(member, &encode(score));
            tree.insert(score, is_behind(members, before), id);
            debug_assert_eq!(members.len(), tree.len());
            return None;
        };
        let old = decode(members.value(id));
        // A zero of the other sign is equal, but is shown differently.
        if old.to_bits() == score.to_bits() {
            return Some(old);
        }
        let entry = known(members, member, id);
        tree.replace(entry, score, is_behind(members, before));
        members.set_value(id, &encode(score));
        Some(old)
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let id = self.members.find(member)?;
        let entry = known(&self.members, member, id);
        let score = entry.score;
        // The tree first, because it looks up members by their ids.
        let was_there = self.tree.remove(entry);
        debug_assert!(was_there, "a member is missing in the tree");
        self.members.remove_id(id);
        self.compact();
        Some(score)
    }

    pub(super) fn remove_ranks(
        &mut self,
        start: usize,
        count: usize,
        mut visit: impl FnMut(&[u8], f64),
    ) {
        for _ in 0..count {
            let (score, id) = self.tree.remove_rank(start);
            visit(self.members.key(id), score);
            self.members.remove_id(id);
        }
        self.compact();
    }

    /// Closes the gaps between ids when most are free. The tree, which needs the new ids, is
    /// rebuilt, and so gives back the nodes that it no longer needs.
    fn compact(&mut self) {
        debug_assert_eq!(self.members.len(), self.tree.len());
        if !self.members.is_sparse() {
            return;
        }
        let mut new_ids = vec![0; self.members.id_end()];
        self.members.compact(|old, new| new_ids[old as usize] = new);
        let entries = self.tree.iter();
        let entries = entries.map(|(score, id)| (score, new_ids[id as usize]));
        let heap = self.members.heap().clone();
        self.tree = RankedTree::from_sorted_in(heap, self.tree.len(), entries);
    }

    pub(super) fn check_invariants(&self) {
        self.members.check_invariants();
        assert_eq!(self.members.len(), self.tree.len());
        let key = |id| self.members.key(id);
        self.tree
            .check_invariants(|(score, id), (other, other_id)| {
                score < other || score == other && key(id) < key(other_id)
            });
        for (score, id) in self.tree.iter() {
            let stored = decode(self.members.value(id));
            assert_eq!(score.to_bits(), stored.to_bits());
        }
    }
}

//! A list whose chunks are in several tiers.

use super::super::node::{
    Away, ColdNodeError, Met, ObjectNodeCopy, ObjectNodeUse, ObjectPart, TieredObject,
    WHOLE_BYTES_MAX,
};
use super::super::packed::packed_bytes;
use super::super::{ChunkLimit, FrozenObjectError, ObjectLimits, RedisType};
use super::ListObject;
use super::chunk::ListChunk;
use allocator_api2::alloc::Allocator;
use nearfield_tiers::ColdPlace;
use nearfield_tiers::cold::ColdTiers;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// Ranges of the indexes of chunks.
type Numbers = SmallVec<[Range<usize>; 2]>;

impl<A: Allocator + Clone> ListObject<A> {
    /// Returns true if it has several chunks, so that they may be in several tiers, or if its only
    /// remaining chunk is in a cold one.
    #[inline]
    pub fn has_nodes(&self) -> bool {
        self.chunks.len() > 1 || self.chunks.get(0).is_some_and(ListChunk::is_cold)
    }

    /// Returns the chunk of an element by its index, negative from the end; the first or last one
    /// if there is no such element.
    fn chunk_of(&self, index: i64) -> usize {
        let len = self.len() as i64;
        let index = if index < 0 { index + len } else { index };
        self.find_chunk(index.clamp(0, len - 1) as usize).0
    }

    /// Returns the chunks of a part that the numbers of elements alone determine.
    fn touched(&self, part: &ObjectPart<'_>) -> Numbers {
        let mut numbers = Numbers::new();
        // Without an element, there is no chunk of any.
        if self.is_empty() {
            return numbers;
        }
        let all = 0..self.chunks.len();
        match *part {
            ObjectPart::All | ObjectPart::First(_) | ObjectPart::Each(..) => numbers.push(all),
            ObjectPart::Ends { front, back } => {
                let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
                if front > 0 {
                    numbers.push(0..self.chunk_of(count(front) - 1) + 1);
                }
                if back > 0 {
                    let first = self.len().saturating_sub(back);
                    numbers.push(self.chunk_of(count(first))..all.end);
                }
            }
            ObjectPart::Range(start, stop) => {
                let (start, stop) = (self.chunk_of(start), self.chunk_of(stop));
                // Indexes that cross touch nothing.
                numbers.push(start..(stop + 1).max(start));
            }
            ObjectPart::Cuts(start, stop) => {
                for index in [start, stop] {
                    let number = self.chunk_of(index);
                    numbers.push(number..number + 1);
                }
            }
            ObjectPart::Around(index) => numbers.push(beside(self.chunk_of(index), &all)),
            ObjectPart::Counts
            | ObjectPart::Fields(_)
            | ObjectPart::Replaced(_)
            | ObjectPart::Step { .. } => {}
        }
        numbers
    }

    /// Returns the first chunk that has an element, and its neighbours.
    fn first_with(&self, element: &[u8]) -> Result<Numbers, ColdNodeError> {
        for (number, chunk) in self.chunks.iter().enumerate() {
            if self.count_in(chunk, element)? > 0 {
                return Ok([beside(number, &(0..self.chunks.len()))]
                    .into_iter()
                    .collect());
            }
        }
        Ok(Numbers::new())
    }

    /// Returns the chunks that [`remove`](ListObject::remove) takes elements from, and those that
    /// it then merges, exactly as if all were in memory.
    fn each_with(
        &self,
        count: i64,
        element: &[u8],
        limit: ChunkLimit,
    ) -> Result<Numbers, ColdNodeError> {
        let mut found = self
            .chunks
            .iter()
            .map(|chunk| self.count_in(chunk, element))
            .collect::<Result<Vec<usize>, ColdNodeError>>()?;
        let mut left = match count {
            0 => usize::MAX,
            _ => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
        };
        let mut take = |count: &mut usize| {
            *count = left.min(*count);
            left -= *count;
        };
        match count < 0 {
            true => found.iter_mut().rev().for_each(&mut take),
            false => found.iter_mut().for_each(&mut take),
        }
        let mut numbers = Numbers::new();
        if found.iter().all(|&count| count == 0) {
            return Ok(numbers);
        }
        // The size of the last chunk after the merges so far, and the first of the chunks merged
        // into it.
        let mut last: Option<(usize, usize, usize)> = None;
        for ((number, chunk), removed) in self.chunks.iter().enumerate().zip(found) {
            let len = chunk.len() - removed;
            let bytes = chunk.byte_len() - removed * packed_bytes(element.len());
            if removed > 0 {
                numbers.push(number..number + 1);
            }
            if len == 0 {
                continue;
            }
            last = Some(match last {
                Some((first, other, other_bytes))
                    if other + len <= limit.entries_max
                        && other_bytes + bytes <= limit.bytes_max =>
                {
                    numbers.extend([first..first + 1, number..number + 1]);
                    (first, other + len, other_bytes + bytes)
                }
                _ => (number, len, bytes),
            });
        }
        Ok(numbers)
    }

    /// Returns the number of elements of a chunk that equal another. Moves nothing.
    fn count_in(&self, chunk: &ListChunk<A>, element: &[u8]) -> Result<usize, ColdNodeError> {
        let read = match chunk.away() {
            // A chunk that is lent need not be read again.
            Some(away) if chunk.here().is_none() => {
                Some(ListChunk::read(away, self.chunks.heap())?)
            }
            _ => None,
        };
        let elements = read.as_ref().or(chunk.here());
        let all = elements.into_iter().flat_map(|it| it.iter());
        Ok(all.filter(|other| *other == element).count())
    }

    /// Visits all elements in order. One chunk of a cold tier is in memory at a time.
    ///
    /// # Errors
    /// The error of `visit`, or a chunk cannot be read.
    pub fn visit<E>(
        &self,
        unread: impl Fn(ColdNodeError) -> E,
        mut visit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for chunk in self.chunks.iter() {
            match (chunk.here(), chunk.away()) {
                (Some(elements), _) => elements.iter().try_for_each(&mut visit)?,
                (None, Some(away)) => {
                    let elements = ListChunk::read(away, self.chunks.heap()).map_err(&unread)?;
                    elements.iter().try_for_each(&mut visit)?;
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Returns the index of a chunk, searched from `hint` on.
    fn find_node(&self, number: u64, hint: usize) -> Option<usize> {
        let is_it = |index: &usize| {
            let chunk = self.chunks.get(*index);
            chunk.is_some_and(|chunk| chunk.number() == number)
        };
        // Chunks before it may have come or gone meanwhile, so that all are searched in the end.
        let hint = hint.min(self.chunks.len());
        (hint..self.chunks.len()).chain(0..hint).find(is_it)
    }
}

impl<A: Allocator + Clone> TieredObject for ListObject<A> {
    fn is_attended(&self) -> bool {
        // Chunks count their uses from the beginning.
        true
    }

    fn moves_by_nodes(&self) -> bool {
        self.has_nodes() && (self.memory_bytes() > WHOLE_BYTES_MAX || self.is_parted())
    }

    fn is_parted(&self) -> bool {
        self.chunks.iter().any(ListChunk::is_cold)
    }

    fn places(&self, part: &ObjectPart<'_>, visit: &mut dyn FnMut(ColdPlace)) {
        for number in self.touched(part).into_iter().flatten() {
            let away = self.chunks.get(number).and_then(ListChunk::away);
            away.into_iter().for_each(|away| visit(away.place()));
        }
    }

    fn lend(
        &mut self,
        part: &ObjectPart<'_>,
        is_use: bool,
        met: &mut Met,
    ) -> Result<bool, ColdNodeError> {
        let heap = self.chunks.heap().clone();
        let mut is_lent = false;
        for number in self.touched(part).into_iter().flatten() {
            let chunk = self.chunk_mut(number);
            if is_use {
                chunk.touch();
            }
            if let Some(away) = chunk.away() {
                if is_use {
                    met.push((chunk.number(), away.place()));
                }
                is_lent = true;
                chunk.lend(&heap)?;
            }
        }
        Ok(is_lent)
    }

    fn end_loan(&mut self) {
        // Nothing records which chunks were lent.
        for number in 0..self.chunks.len() {
            self.chunk_mut(number).end_loan();
        }
    }

    fn warm(
        &mut self,
        part: &ObjectPart<'_>,
        limits: &ObjectLimits,
        warmed: &mut dyn FnMut(ColdPlace, usize),
    ) -> Result<(), ColdNodeError> {
        let limit = limits.list_chunk;
        let numbers = match part {
            ObjectPart::First(element) => self.first_with(element)?,
            ObjectPart::Each(count, element) => self.each_with(*count, element, limit)?,
            part => self.touched(part),
        };
        let heap = self.chunks.heap().clone();
        for number in numbers.into_iter().flatten() {
            let chunk = self.chunk_mut(number);
            chunk.touch();
            if let Some(place) = chunk.away().map(Away::place) {
                warmed(place, chunk.warm(&heap)?);
            }
        }
        Ok(())
    }

    fn see(
        &mut self,
        from: usize,
        count: usize,
        visit: &mut dyn FnMut(ObjectNodeUse),
    ) -> Option<usize> {
        let end = from.saturating_add(count).min(self.chunks.len());
        for number in from..end {
            visit(self.chunk_mut(number).see());
        }
        (end < self.chunks.len()).then_some(end)
    }

    fn nodes(&self) -> Vec<(u64, Option<ColdPlace>)> {
        let place = |chunk: &ListChunk<A>| chunk.away().map(Away::place);
        let chunks = self.chunks.iter();
        chunks.map(|chunk| (chunk.number(), place(chunk))).collect()
    }

    fn cold_bytes(&self) -> usize {
        self.chunks.iter().map(ListChunk::cold_bytes).sum()
    }

    fn cold_tiers(&self, visit: &mut dyn FnMut(usize)) {
        let places = self.chunks.iter().filter_map(ListChunk::away);
        places.for_each(|away| visit(away.place().tier()));
    }

    fn copy_node(&self, number: u64, hint: usize, out: &mut Vec<u8>) -> Option<ObjectNodeCopy> {
        let index = self.find_node(number, hint)?;
        let chunk = self.chunks.get(index)?;
        // The caller reads a cold chunk from its place after it has left the lock.
        if !chunk.is_cold() {
            chunk.elements().freeze(out);
        }
        Some(chunk.copied(index))
    }

    fn move_node(
        &mut self,
        copied: &ObjectNodeCopy,
        to: Option<ColdPlace>,
        cold: &Arc<ColdTiers>,
        frozen: &[u8],
    ) -> Result<bool, FrozenObjectError> {
        let heap = self.chunks.heap().clone();
        let index = self.find_node(copied.number, copied.index);
        let chunk = index.and_then(|index| self.chunks.get_mut(index));
        let Some(chunk) = chunk.filter(|chunk| chunk.is_same(copied)) else {
            return Ok(false);
        };
        match to {
            Some(place) => chunk.put_away(Away::new(cold, place), frozen, &heap),
            None if !chunk.put_here(frozen, &heap) => {
                return Err(FrozenObjectError(RedisType::List));
            }
            None => {}
        }
        Ok(true)
    }
}

/// Returns a chunk and its neighbours, as far as they exist.
fn beside(number: usize, all: &Range<usize>) -> Range<usize> {
    number.saturating_sub(1)..(number + 2).min(all.end)
}

//! The chunks of a list, which are its nodes: each is in memory or in a cold tier.

use super::super::frozen::FrozenReader;
use super::super::node::{Away, ColdNodeError, ObjectNodeCopy, ObjectNodeUse, next_number};
use super::super::packed::PackedStrings;
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use nearfield_tiers::ReadError;

/// Packed elements, at least one.
pub(super) struct ListChunk<A: Allocator> {
    number: u64,
    /// Number of changes of the elements and moves.
    version: u32,
    /// Number of commands that have touched it since the mover's last visit.
    uses: u8,
    body: Body<A>,
}

enum Body<A: Allocator> {
    Here(PackedStrings<A>),
    Cold(Box<ColdListChunk<A>, A>),
}

/// A chunk in a cold tier, and the facts that must be known of it without reading it.
struct ColdListChunk<A: Allocator> {
    away: Away,
    len: u32,
    byte_len: u32,
    /// The bytes given to the tier.
    bytes: u32,
    /// A copy for the running command.
    lent: Option<PackedStrings<A>>,
}

impl<A: Allocator + Clone> ListChunk<A> {
    pub(super) fn new(elements: PackedStrings<A>) -> Self {
        ListChunk {
            number: next_number(),
            version: 0,
            uses: 0,
            body: Body::Here(elements),
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.body {
            Body::Here(elements) => elements.len(),
            Body::Cold(cold) => cold.len as usize,
        }
    }

    /// Returns the bytes that the elements take in memory, without the room.
    pub(super) fn byte_len(&self) -> usize {
        match &self.body {
            Body::Here(elements) => elements.byte_len(),
            Body::Cold(cold) => cold.byte_len as usize,
        }
    }

    /// Returns the bytes taken from the heap.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.body {
            Body::Here(elements) => elements.memory_bytes(),
            Body::Cold(cold) => {
                let lent = cold.lent.as_ref().map_or(0, PackedStrings::memory_bytes);
                size_of::<ColdListChunk<A>>() + lent
            }
        }
    }

    /// Returns the bytes given to a cold tier.
    pub(super) fn cold_bytes(&self) -> usize {
        match &self.body {
            Body::Here(_) => 0,
            Body::Cold(cold) => cold.bytes as usize,
        }
    }

    pub(super) fn is_cold(&self) -> bool {
        matches!(self.body, Body::Cold(_))
    }

    /// Returns the handle of the chunk's place, if it is in a cold tier.
    pub(super) fn away(&self) -> Option<&Away> {
        match &self.body {
            Body::Here(_) => None,
            Body::Cold(cold) => Some(&cold.away),
        }
    }

    /// Returns the elements, if they are in memory or lent.
    pub(super) fn here(&self) -> Option<&PackedStrings<A>> {
        match &self.body {
            Body::Here(elements) => Some(elements),
            Body::Cold(cold) => cold.lent.as_ref(),
        }
    }

    /// Returns the elements of a chunk in the part that the command touches.
    #[inline]
    pub(super) fn elements(&self) -> &PackedStrings<A> {
        match self.here() {
            Some(elements) => elements,
            None => unreachable!("a command reads only the part that it declared"),
        }
    }

    /// Returns the elements, to be changed.
    #[inline]
    pub(super) fn change(&mut self) -> &mut PackedStrings<A> {
        // A move misses a change only if there are exactly 2^32 of them meanwhile.
        self.version = self.version.wrapping_add(1);
        match &mut self.body {
            Body::Here(elements) => elements,
            Body::Cold(_) => unreachable!("a command changes only the part that it declared"),
        }
    }

    /// Reads a copy of a chunk from a cold tier.
    pub(super) fn read(away: &Away, heap: &A) -> Result<PackedStrings<A>, ColdNodeError> {
        let mut frozen = Vec::new();
        away.read(&mut frozen)?;
        thaw(&frozen, heap).ok_or_else(|| away.unread(ReadError::Damaged))
    }

    /// Brings the chunk into memory and returns the bytes that it takes there; 0 if it was in
    /// memory.
    pub(super) fn warm(&mut self, heap: &A) -> Result<usize, ColdNodeError> {
        let Body::Cold(cold) = &self.body else {
            return Ok(0);
        };
        let elements = Self::read(&cold.away, heap)?;
        let bytes = elements.memory_bytes();
        // A move that has begun must end without effect.
        self.version = self.version.wrapping_add(1);
        self.body = Body::Here(elements);
        Ok(bytes)
    }

    /// Lends the chunk to the running command, if it is not in memory.
    pub(super) fn lend(&mut self, heap: &A) -> Result<(), ColdNodeError> {
        // Parts of a command may overlap.
        if let Body::Cold(cold) = &mut self.body
            && cold.lent.is_none()
        {
            cold.lent = Some(Self::read(&cold.away, heap)?);
        }
        Ok(())
    }

    /// Takes back what was lent.
    pub(super) fn end_loan(&mut self) {
        if let Body::Cold(cold) = &mut self.body {
            cold.lent = None;
        }
    }

    /// Counts a use.
    #[inline]
    pub(super) fn touch(&mut self) {
        self.uses = self.uses.saturating_add(1);
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the facts for the mover, and resets the number of uses.
    pub(super) fn see(&mut self) -> ObjectNodeUse {
        ObjectNodeUse {
            number: self.number,
            place: self.away().map(Away::place),
            bytes: match &self.body {
                Body::Here(elements) => elements.memory_bytes(),
                Body::Cold(_) => self.cold_bytes(),
            },
            uses: std::mem::take(&mut self.uses),
        }
    }

    /// Returns the current state of the chunk, found at `index`.
    pub(super) fn copied(&self, index: usize) -> ObjectNodeCopy {
        ObjectNodeCopy {
            number: self.number,
            version: self.version,
            index,
            place: self.away().map(Away::place),
        }
    }

    /// Returns true if the chunk is as it was when it was copied.
    pub(super) fn is_same(&self, copied: &ObjectNodeCopy) -> bool {
        // The version counts moves, too, so that the place need not be compared.
        (self.number, self.version) == (copied.number, copied.version)
    }

    /// Moves the chunk, of which `frozen` is a copy, to a cold tier.
    pub(super) fn put_away(&mut self, away: Away, frozen: &[u8], heap: &A) {
        let cold = ColdListChunk {
            away,
            len: self.len() as u32,
            byte_len: self.byte_len() as u32,
            bytes: frozen.len() as u32,
            lent: None,
        };
        self.version = self.version.wrapping_add(1);
        self.body = Body::Cold(Box::new_in(cold, heap.clone()));
    }

    /// Moves the chunk, of which `frozen` is a copy, to memory. Returns false if `frozen` is
    /// damaged.
    pub(super) fn put_here(&mut self, frozen: &[u8], heap: &A) -> bool {
        let thawed = thaw(frozen, heap);
        let is_copy = thawed.is_some();
        if let Some(elements) = thawed {
            self.version = self.version.wrapping_add(1);
            self.body = Body::Here(elements);
        }
        is_copy
    }
}

fn thaw<A: Allocator + Clone>(frozen: &[u8], heap: &A) -> Option<PackedStrings<A>> {
    let mut source = FrozenReader::new(frozen);
    let elements = PackedStrings::thaw(&mut source, heap.clone())?;
    // No chunk of a list is empty.
    (source.left() == 0 && !elements.is_empty()).then_some(elements)
}

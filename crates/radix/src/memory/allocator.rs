//! The memory of one kind: a region, and its free parts.

use super::items::Items;
use super::pieces::PieceAllocator;
use super::region::ReservedRegion;
use nearfield_core::OperationError;

/// The allocator of runs of units from one region.
#[derive(Debug)]
pub struct Allocator {
    region: ReservedRegion,
    free: Free,
}

#[derive(Debug)]
enum Free {
    /// The free units if each run has one unit.
    Items(Items),
    Pieces(PieceAllocator),
}

impl Allocator {
    /// Creates an allocator of runs of up to `units_max` units of `stride` bytes, whose memory
    /// consists of huge pages above `small_bytes`.
    pub fn new(
        stride: usize,
        capacity: u64,
        units_max: usize,
        small_bytes: usize,
    ) -> Result<Allocator, OperationError> {
        let region = ReservedRegion::reserve(stride, capacity, small_bytes)?;
        let free = match units_max {
            1 => Free::Items(Items::new(stride)),
            _ => Free::Pieces(PieceAllocator::new(&region, small_bytes)?),
        };
        Ok(Allocator { region, free })
    }

    /// Returns the address of a unit.
    #[inline]
    pub fn address(&self, index: u32) -> *mut u8 {
        self.region.address(index)
    }

    /// Allocates a number of units. Their content is that of the last user, or zeros. `grow`
    /// decides if the given number of bytes may be taken from the system.
    pub fn allocate(
        &self,
        units: usize,
        grow: impl Fn(usize) -> Result<(), OperationError>,
    ) -> Result<u32, OperationError> {
        match &self.free {
            Free::Items(items) => items.allocate(&self.region, grow),
            Free::Pieces(pieces) => pieces.allocate(&self.region, units, grow),
        }
    }

    /// Allocates two units, which need not be neighbours, or none.
    pub fn allocate_two(
        &self,
        grow: impl Fn(usize) -> Result<(), OperationError>,
    ) -> Result<[u32; 2], OperationError> {
        if let Free::Items(items) = &self.free {
            return items.allocate_two(&self.region, grow);
        }
        let first = self.allocate(1, &grow)?;
        let second = self
            .allocate(1, &grow)
            .inspect_err(|_| self.free(first, 1))?;
        Ok([first, second])
    }

    /// Frees units that were allocated together.
    pub fn free(&self, first: u32, units: usize) {
        match &self.free {
            Free::Items(items) => items.free_all([first]),
            Free::Pieces(pieces) => pieces.free(first, units),
        }
    }

    /// Frees units that were allocated one by one.
    pub fn free_all(&self, units: impl IntoIterator<Item = u32>) {
        match &self.free {
            Free::Items(items) => items.free_all(units),
            Free::Pieces(pieces) => units.into_iter().for_each(|unit| pieces.free(unit, 1)),
        }
    }

    /// Prefetches the lines that [`free`](Allocator::free) will change.
    #[inline]
    pub fn prefetch_to_free(&self, first: u32) {
        if let Free::Pieces(pieces) = &self.free {
            pieces.prefetch_to_free(first);
        }
    }

    /// Returns the bytes in use.
    pub fn live_bytes(&self) -> usize {
        let units = match &self.free {
            Free::Items(items) => items.live(),
            Free::Pieces(pieces) => pieces.live_units(&self.region),
        };
        units * self.stride()
    }

    /// Returns the size of a unit in bytes.
    pub fn stride(&self) -> usize {
        self.region.stride()
    }

    /// Returns the number of bytes taken from the system, in use or free, and not given back.
    pub fn bytes_taken(&self) -> usize {
        match &self.free {
            Free::Items(items) => items.bytes_taken(&self.region),
            Free::Pieces(pieces) => pieces.bytes_taken(&self.region),
        }
    }

    /// Returns the pieces, unless each run has one unit.
    pub fn pieces(&self) -> Option<(&PieceAllocator, &ReservedRegion)> {
        match &self.free {
            Free::Items(_) => None,
            Free::Pieces(pieces) => Some((pieces, &self.region)),
        }
    }

    /// Returns true if pieces have recently been freed that may be worth giving back.
    #[inline]
    pub fn may_give_back(&self) -> bool {
        match &self.free {
            Free::Items(_) => false,
            Free::Pieces(pieces) => pieces.may_give_back(&self.region),
        }
    }

    /// Gives free memory back to the system, if there is enough to be worth it. Returns the number
    /// of bytes.
    ///
    /// # Safety
    /// No thread may hold a reference to freed units.
    pub unsafe fn give_back(&self) -> usize {
        match &self.free {
            // SAFETY: promised by the caller.
            Free::Items(items) => unsafe { items.give_back(&self.region) },
            // SAFETY: promised by the caller.
            Free::Pieces(pieces) => unsafe { pieces.give_back(&self.region) },
        }
    }
}

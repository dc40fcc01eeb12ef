//! A traversal in flight, in the form that native code uses.

/// The state of a traversal whose nodes are read in place. Native code runs many that are adjacent
/// in memory, so they are as small as possible.
#[derive(Debug)]
#[repr(C)]
pub struct TraversalLane {
    /// The first byte of the present node's load.
    pub node: *const u8,
    pub scratchpad: *mut u8,
    /// Number of iterations that it may still make.
    pub left: u64,
    /// The part of memory with the present node, and often with the next one.
    pub near: Near,
    /// The next address of a traversal that native code has stopped: zero at its end, an address
    /// outside `near`, or one for which no iteration is left.
    pub next: u64,
    /// Number of the code that runs the traversal: lanes with the same number run together. Zero if
    /// native code does not run it.
    pub group: usize,
    /// Number of its slot.
    pub slot: u32,
    /// Number of bytes of a node that are loaded.
    pub bytes: u32,
}

/// A part of memory that is known for a tenant and for the load of a program.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Near {
    /// The first address whose load is in it.
    pub first: u64,
    /// Number of such addresses. Zero is never one of them.
    pub room: u64,
    /// The place where the load of the first one begins.
    pub origin: *const u8,
}

// SAFETY: the pointers of a lane point to memory of atomics, which any thread may access, and to a
// scratchpad that the lane's owner also owns.
unsafe impl Send for TraversalLane {}
// SAFETY: as above; a shared lane accesses nothing.
unsafe impl Sync for TraversalLane {}
// SAFETY: it points to memory of atomics, which any thread may access.
unsafe impl Send for Near {}
// SAFETY: as above.
unsafe impl Sync for Near {}

impl Near {
    /// The empty part.
    pub const NONE: Near = Near {
        first: 0,
        room: 0,
        origin: std::ptr::null(),
    };

    /// Returns the place where the load of an address begins, if it is in this part.
    #[inline]
    pub fn find(&self, address: u64) -> Option<*const u8> {
        // Below `first`, the distance wraps around to a large one: one comparison checks both ends.
        let distance = address.wrapping_sub(self.first);
        (distance < self.room).then(|| self.origin.wrapping_add(distance as usize))
    }
}

impl TraversalLane {
    /// Returns the present address.
    pub fn address(&self) -> u64 {
        // Native code only moves `node`. The address is needed when it stops, so it is computed
        // then.
        let distance = self.node.addr().wrapping_sub(self.near.origin.addr());
        self.near.first.wrapping_add(distance as u64)
    }
}

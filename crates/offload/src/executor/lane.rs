//! A traversal in flight, as native code sees it.

/// The state of a traversal whose nodes are read where they lie. Native code runs many that lie one
/// behind the other, so that they are as small as may be.
#[derive(Debug)]
#[repr(C)]
pub struct Lane {
    /// The first byte of the present node's load.
    pub node: *const u8,
    pub scratchpad: *mut u8,
    /// How many iterations it may still make.
    pub left: u64,
    /// Where the present node is, and the next one is often, too.
    pub near: Near,
    /// Where a traversal goes that native code has stopped: nowhere (zero), out of `near`, or
    /// somewhere with no iteration left.
    pub next: u64,
    /// Names what runs the traversal: lanes with the same number run together. Zero if native code
    /// does not run it.
    pub group: usize,
    /// The number of its slot.
    pub slot: u32,
    /// How many bytes of a node are loaded.
    pub bytes: u32,
}

/// A part of memory, for a tenant and the load of a program.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Near {
    /// The first address whose load lies in it.
    pub first: u64,
    /// How many such addresses there are. Zero is none of them.
    pub room: u64,
    /// Where the load of the first one begins.
    pub origin: *const u8,
}

// SAFETY: the pointers of a lane are to memory of atomics, which any thread may access, and to a
// scratchpad that the lane's owner also owns.
unsafe impl Send for Lane {}
// SAFETY: as above; a shared lane accesses nothing.
unsafe impl Sync for Lane {}
// SAFETY: it points at memory of atomics, which any thread may access.
unsafe impl Send for Near {}
// SAFETY: as above.
unsafe impl Sync for Near {}

impl Near {
    /// Nothing.
    pub const NONE: Near = Near {
        first: 0,
        room: 0,
        origin: std::ptr::null(),
    };

    /// Where the load of an address begins, if it lies here.
    #[inline]
    pub fn find(&self, address: u64) -> Option<*const u8> {
        let distance = address.wrapping_sub(self.first);
        (distance < self.room).then(|| self.origin.wrapping_add(distance as usize))
    }
}

impl Lane {
    /// The present address.
    pub fn address(&self) -> u64 {
        let distance = self.node.addr().wrapping_sub(self.near.origin.addr());
        self.near.first.wrapping_add(distance as u64)
    }
}

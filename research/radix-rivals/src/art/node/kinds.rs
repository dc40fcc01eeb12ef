//! The four kinds of nodes in memory.

use super::prefix::ArtPrefix;
use super::slot::ArtSlot;
use nearfield_radix::lock::VersionLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// A kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ArtNodeKind {
    /// A node with up to 4 children.
    Node4,
    /// A node with up to 16 children.
    Node16,
    /// A node with up to 48 children.
    Node48,
    /// A node with up to 256 children.
    Node256,
}

impl ArtNodeKind {
    /// Returns the number of slots.
    #[inline]
    pub const fn slots(self) -> u16 {
        [4, 16, 48, 256][self as usize]
    }

    /// Returns the size of a node in bytes.
    pub const fn bytes(self) -> u32 {
        self.slots_offset() + 8 * self.slots() as u32
    }

    /// Returns the offset of the slots.
    #[inline]
    pub const fn slots_offset(self) -> u32 {
        [32, 40, 280, 24][self as usize]
    }

    /// Returns the number of bytes from the beginning on that every search reads.
    #[inline]
    pub const fn head_bytes(self) -> u32 {
        [28, 40, 24, 24][self as usize]
    }

    /// Returns the next larger kind.
    pub const fn larger(self) -> ArtNodeKind {
        match self {
            ArtNodeKind::Node4 => ArtNodeKind::Node16,
            ArtNodeKind::Node16 => ArtNodeKind::Node48,
            ArtNodeKind::Node48 | ArtNodeKind::Node256 => ArtNodeKind::Node256,
        }
    }

    /// Returns the next smaller kind.
    pub const fn smaller(self) -> ArtNodeKind {
        match self {
            ArtNodeKind::Node256 => ArtNodeKind::Node48,
            ArtNodeKind::Node48 => ArtNodeKind::Node16,
            ArtNodeKind::Node16 | ArtNodeKind::Node4 => ArtNodeKind::Node4,
        }
    }

    /// Returns the number of children at which the removal of one makes a node of this kind shrink.
    /// Nodes that grow have many more, so a node does not alternate between growing and shrinking.
    pub const fn shrinks_from(self) -> usize {
        [0, 3, 12, 37][self as usize]
    }
}

/// The header with which all kinds begin.
#[derive(Debug)]
#[repr(C)]
pub struct ArtNodeHeader {
    pub lock: VersionLock,
    pub level: u16,
    pub kind: ArtNodeKind,
    /// Number of used slots; minus one in a node256, which has at least one.
    pub count: AtomicU8,
    pub prefix: AtomicU64,
    /// The leaf of the key that ends here.
    pub end: ArtSlot,
}

impl ArtNodeHeader {
    pub fn new(kind: ArtNodeKind, level: usize, prefix: ArtPrefix) -> ArtNodeHeader {
        ArtNodeHeader {
            lock: VersionLock::new(),
            level: level as u16,
            kind,
            count: AtomicU8::new(if kind == ArtNodeKind::Node256 {
                u8::MAX
            } else {
                0
            }),
            prefix: AtomicU64::new(prefix.word()),
            end: ArtSlot::default(),
        }
    }
}

#[derive(Debug)]
#[repr(C, align(64))]
pub struct ArtNode4 {
    pub header: ArtNodeHeader,
    pub keys: AtomicU32,
    pub unused: u32,
    pub slots: [ArtSlot; 4],
}

#[derive(Debug)]
#[repr(C, align(64))]
pub struct ArtNode16 {
    pub header: ArtNodeHeader,
    pub keys: [AtomicU64; 2],
    pub slots: [ArtSlot; 16],
}

/// A node48. Its index has, for each byte, a position plus one, or 0.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ArtNode48 {
    pub header: ArtNodeHeader,
    pub index: [AtomicU8; 256],
    pub slots: [ArtSlot; 48],
}

#[derive(Debug)]
#[repr(C, align(64))]
pub struct ArtNode256 {
    pub header: ArtNodeHeader,
    pub slots: [ArtSlot; 256],
}

/// The offset of the slot of the key that ends at a node.
pub const END: u32 = std::mem::offset_of!(ArtNodeHeader, end) as u32;

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<ArtNodeHeader>() == 24 && size_of::<ArtNode4>() == 64);
    assert!(offset_of!(ArtNode4, slots) == ArtNodeKind::Node4.slots_offset() as usize);
    assert!(offset_of!(ArtNode16, slots) == ArtNodeKind::Node16.slots_offset() as usize);
    assert!(offset_of!(ArtNode48, slots) == ArtNodeKind::Node48.slots_offset() as usize);
    assert!(offset_of!(ArtNode256, slots) == ArtNodeKind::Node256.slots_offset() as usize);
};

impl ArtNode4 {
    pub fn new(level: usize, prefix: ArtPrefix) -> Self {
        ArtNode4 {
            header: ArtNodeHeader::new(ArtNodeKind::Node4, level, prefix),
            keys: AtomicU32::new(0),
            unused: 0,
            slots: Default::default(),
        }
    }
}

impl ArtNode16 {
    pub fn new(level: usize, prefix: ArtPrefix) -> Self {
        ArtNode16 {
            header: ArtNodeHeader::new(ArtNodeKind::Node16, level, prefix),
            keys: Default::default(),
            slots: Default::default(),
        }
    }
}

impl ArtNode48 {
    pub fn new(level: usize, prefix: ArtPrefix) -> Self {
        ArtNode48 {
            header: ArtNodeHeader::new(ArtNodeKind::Node48, level, prefix),
            index: [const { AtomicU8::new(0) }; 256],
            slots: std::array::from_fn(|_| ArtSlot::default()),
        }
    }
}

impl ArtNode256 {
    pub fn new(level: usize, prefix: ArtPrefix) -> Self {
        ArtNode256 {
            header: ArtNodeHeader::new(ArtNodeKind::Node256, level, prefix),
            slots: std::array::from_fn(|_| ArtSlot::default()),
        }
    }
}

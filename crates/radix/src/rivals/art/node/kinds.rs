//! The four kinds of nodes in memory.

use super::prefix::Prefix;
use super::slot::Slot;
use crate::lock::VersionLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// A kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A node with up to 4 children.
    Node4,
    /// A node with up to 16 children.
    Node16,
    /// A node with up to 48 children.
    Node48,
    /// A node with up to 256 children.
    Node256,
}

impl Kind {
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
    pub const fn larger(self) -> Kind {
        match self {
            Kind::Node4 => Kind::Node16,
            Kind::Node16 => Kind::Node48,
            Kind::Node48 | Kind::Node256 => Kind::Node256,
        }
    }

    /// Returns the next smaller kind.
    pub const fn smaller(self) -> Kind {
        match self {
            Kind::Node256 => Kind::Node48,
            Kind::Node48 => Kind::Node16,
            Kind::Node16 | Kind::Node4 => Kind::Node4,
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
pub struct Header {
    pub lock: VersionLock,
    pub level: u16,
    pub kind: Kind,
    /// Number of used slots; minus one in a node256, which has at least one.
    pub count: AtomicU8,
    pub prefix: AtomicU64,
    /// The leaf of the key that ends here.
    pub end: Slot,
}

impl Header {
    pub fn new(kind: Kind, level: usize, prefix: Prefix) -> Header {
        Header {
            lock: VersionLock::new(),
            level: level as u16,
            kind,
            count: AtomicU8::new(if kind == Kind::Node256 { u8::MAX } else { 0 }),
            prefix: AtomicU64::new(prefix.word()),
            end: Slot::default(),
        }
    }
}

#[derive(Debug)]
#[repr(C, align(64))]
pub struct Node4 {
    pub header: Header,
    pub keys: AtomicU32,
    pub unused: u32,
    pub slots: [Slot; 4],
}

#[derive(Debug)]
#[repr(C, align(64))]
pub struct Node16 {
    pub header: Header,
    pub keys: [AtomicU64; 2],
    pub slots: [Slot; 16],
}

/// A node48. Its index has, for each byte, a position plus one, or 0.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Node48 {
    pub header: Header,
    pub index: [AtomicU8; 256],
    pub slots: [Slot; 48],
}

#[derive(Debug)]
#[repr(C, align(64))]
pub struct Node256 {
    pub header: Header,
    pub slots: [Slot; 256],
}

/// The offset of the slot of the key that ends at a node.
pub const END: u32 = std::mem::offset_of!(Header, end) as u32;

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Header>() == 24 && size_of::<Node4>() == 64);
    assert!(offset_of!(Node4, slots) == Kind::Node4.slots_offset() as usize);
    assert!(offset_of!(Node16, slots) == Kind::Node16.slots_offset() as usize);
    assert!(offset_of!(Node48, slots) == Kind::Node48.slots_offset() as usize);
    assert!(offset_of!(Node256, slots) == Kind::Node256.slots_offset() as usize);
};

impl Node4 {
    pub fn new(level: usize, prefix: Prefix) -> Self {
        Node4 {
            header: Header::new(Kind::Node4, level, prefix),
            keys: AtomicU32::new(0),
            unused: 0,
            slots: Default::default(),
        }
    }
}

impl Node16 {
    pub fn new(level: usize, prefix: Prefix) -> Self {
        Node16 {
            header: Header::new(Kind::Node16, level, prefix),
            keys: Default::default(),
            slots: Default::default(),
        }
    }
}

impl Node48 {
    pub fn new(level: usize, prefix: Prefix) -> Self {
        Node48 {
            header: Header::new(Kind::Node48, level, prefix),
            index: [const { AtomicU8::new(0) }; 256],
            slots: std::array::from_fn(|_| Slot::default()),
        }
    }
}

impl Node256 {
    pub fn new(level: usize, prefix: Prefix) -> Self {
        Node256 {
            header: Header::new(Kind::Node256, level, prefix),
            slots: std::array::from_fn(|_| Slot::default()),
        }
    }
}

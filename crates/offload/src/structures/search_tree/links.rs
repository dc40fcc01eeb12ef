//! The nodes of binary trees and the links between them. Null stands for no node.

use crate::structures::heap::{HeapError, NodeHeap};

/// The places of the fields that differ between kinds of trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLinkLayout {
    pub parent: u64,
    pub left: u64,
    pub right: u64,
    /// The colour or height.
    pub balance: u64,
}

impl TreeLinkLayout {
    /// The red-black tree of the C++ library.
    pub const STANDARD: TreeLinkLayout = TreeLinkLayout {
        balance: 0,
        parent: 8,
        left: 16,
        right: 24,
    };
    /// The hooks of Boost's intrusive trees.
    pub const INTRUSIVE: TreeLinkLayout = TreeLinkLayout {
        parent: 0,
        left: 8,
        right: 16,
        balance: 24,
    };
}

pub const KEY: u64 = 32;
pub const VALUE: u64 = 40;
pub const NODE_BYTES: u64 = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildSide {
    Left,
    Right,
}

impl ChildSide {
    pub fn other(self) -> ChildSide {
        match self {
            ChildSide::Left => ChildSide::Right,
            ChildSide::Right => ChildSide::Left,
        }
    }
}

/// The result of removing a node, from which the tree is rebalanced.
#[derive(Clone, Copy, Debug)]
pub struct NodeRemoval {
    /// The balance of the node that was removed from its place.
    pub balance: u64,
    /// The node that took the place, or null.
    pub child: u64,
    /// The parent of that place, or null.
    pub parent: u64,
}

/// A tree that is being changed.
pub struct Links<'t, H> {
    pub heap: &'t mut H,
    pub layout: TreeLinkLayout,
    pub root: &'t mut u64,
}

type Done = Result<(), HeapError>;

impl<H: NodeHeap> Links<'_, H> {
    pub fn parent(&self, node: u64) -> Result<u64, HeapError> {
        self.heap.read(node + self.layout.parent)
    }

    pub fn set_parent(&mut self, node: u64, parent: u64) -> Done {
        match node {
            0 => Ok(()),
            _ => self.heap.write(node + self.layout.parent, parent),
        }
    }

    pub fn child(&self, node: u64, side: ChildSide) -> Result<u64, HeapError> {
        self.heap.read(node + self.place(side))
    }

    pub fn set_child(&mut self, node: u64, side: ChildSide, child: u64) -> Done {
        self.heap.write(node + self.place(side), child)
    }

    /// Returns the balance of a node; zero for null.
    pub fn balance(&self, node: u64) -> Result<u64, HeapError> {
        match node {
            0 => Ok(0),
            _ => self.heap.read(node + self.layout.balance),
        }
    }

    pub fn set_balance(&mut self, node: u64, balance: u64) -> Done {
        self.heap.write(node + self.layout.balance, balance)
    }

    pub fn key(&self, node: u64) -> Result<u64, HeapError> {
        self.heap.read(node + KEY)
    }

    /// Returns the side on which a node is below its parent.
    pub fn side(&self, node: u64, parent: u64) -> Result<ChildSide, HeapError> {
        Ok(match self.child(parent, ChildSide::Left)? == node {
            true => ChildSide::Left,
            false => ChildSide::Right,
        })
    }

    /// Puts a node, or null, in the place of another.
    pub fn replace(&mut self, old: u64, new: u64) -> Done {
        let parent = self.parent(old)?;
        if parent == 0 {
            *self.root = new;
        } else {
            let side = self.side(old, parent)?;
            self.set_child(parent, side, new)?;
        }
        self.set_parent(new, parent)
    }

    /// Moves a node down to one side. Its child of the other side takes its place.
    pub fn rotate(&mut self, node: u64, down: ChildSide) -> Done {
        let up = self.child(node, down.other())?;
        let between = self.child(up, down)?;
        self.set_child(node, down.other(), between)?;
        self.set_parent(between, node)?;
        self.replace(node, up)?;
        self.set_child(up, down, node)?;
        self.set_parent(node, up)
    }

    /// Adds a node as a leaf.
    pub fn insert_leaf(&mut self, key: u64, value: u64) -> Result<u64, HeapError> {
        let node = self.heap.allocate(NODE_BYTES)?;
        self.heap.write(node + KEY, key)?;
        self.heap.write(node + VALUE, value)?;
        let (mut parent, mut at, mut side) = (0, *self.root, ChildSide::Left);
        while at != 0 {
            // An equal key goes to the right: entries of one key stay in the order of their
            // insertion.
            side = match key < self.key(at)? {
                true => ChildSide::Left,
                false => ChildSide::Right,
            };
            (parent, at) = (at, self.child(at, side)?);
        }
        self.set_parent(node, parent)?;
        match parent {
            0 => *self.root = node,
            _ => self.set_child(parent, side, node)?,
        }
        Ok(node)
    }

    /// Returns the first node at or above a key, or null.
    pub fn lower_bound(&self, key: u64) -> Result<u64, HeapError> {
        let (mut best, mut at) = (0, *self.root);
        while at != 0 {
            let side = match self.key(at)? < key {
                true => ChildSide::Right,
                false => {
                    best = at;
                    ChildSide::Left
                }
            };
            at = self.child(at, side)?;
        }
        Ok(best)
    }

    /// Removes a node from the tree.
    pub fn unlink(&mut self, node: u64) -> Result<NodeRemoval, HeapError> {
        let left = self.child(node, ChildSide::Left)?;
        let right = self.child(node, ChildSide::Right)?;
        if left == 0 || right == 0 {
            let gap = NodeRemoval {
                balance: self.balance(node)?,
                child: left.max(right),
                parent: self.parent(node)?,
            };
            self.replace(node, gap.child)?;
            return Ok(gap);
        }
        // A node with two children is replaced by its successor, which has no left child.
        let mut next = right;
        loop {
            match self.child(next, ChildSide::Left)? {
                0 => break,
                further => next = further,
            }
        }
        let mut gap = NodeRemoval {
            balance: self.balance(next)?,
            child: self.child(next, ChildSide::Right)?,
            parent: self.parent(next)?,
        };
        if gap.parent == node {
            // The removed node was the parent of the gap. Its successor takes its place.
            gap.parent = next;
        } else {
            self.replace(next, gap.child)?;
            self.set_child(next, ChildSide::Right, right)?;
            self.set_parent(right, next)?;
        }
        self.replace(node, next)?;
        self.set_child(next, ChildSide::Left, left)?;
        self.set_parent(left, next)?;
        let balance = self.balance(node)?;
        self.set_balance(next, balance)?;
        Ok(gap)
    }

    fn place(&self, side: ChildSide) -> u64 {
        match side {
            ChildSide::Left => self.layout.left,
            ChildSide::Right => self.layout.right,
        }
    }
}

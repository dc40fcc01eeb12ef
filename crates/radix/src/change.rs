//! The change of a key, and the result of trying it in a leaf.

/// The change of a key, present or absent.
#[derive(Clone, Copy, Debug)]
pub enum RadixKeyChange<V> {
    /// Leaves everything as it is.
    Keep,
    /// Sets the value, inserting the key if it is absent.
    Set(V),
    /// Removes the key.
    Remove,
}

/// The result of a change in a leaf without the lock of the node above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafChangeResult {
    /// Nothing changed: the change needs the lock of the node above.
    Not,
    /// The value was changed in place, or needed no change.
    InPlace,
    /// An entry was added.
    Inserted,
}

//! What is done to a key, and whether that was possible in its leaf.

/// What a visit does to the key it has found, or not found.
#[derive(Clone, Copy, Debug)]
pub enum Change<V> {
    /// Leaves everything as it is.
    Keep,
    /// Sets the value, inserting the key if it is absent.
    Set(V),
    /// Removes the key.
    Remove,
}

/// What has been done in a leaf without the lock of the node above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Altered {
    /// Nothing, it takes more.
    Not,
    /// What there was to do to a value, or nothing.
    InPlace,
    /// An entry was added.
    Inserted,
}

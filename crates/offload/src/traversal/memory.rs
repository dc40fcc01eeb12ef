//! The memory that traversals walk.

/// The reason why bytes cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// No memory has the address.
    #[error("no memory has the address")]
    Absent,
    /// The tenant has no permission.
    #[error("the tenant has no permission")]
    Denied,
    /// The bytes are in more than one range.
    #[error("the bytes are in more than one range")]
    Split,
}

/// Memory at the addresses that traversals use.
pub trait TraversalMemory {
    /// Copies bytes.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), AccessError>;

    /// Checks that bytes can be stored.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn check_store(&self, address: u64, bytes: usize) -> Result<(), AccessError>;

    /// Stores bytes.
    ///
    /// # Errors
    /// See [`AccessError`]; none after a successful check.
    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), AccessError>;
}

//! The memory that traversals walk.

/// The reason why bytes are out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Nothing lies at the address.
    #[error("nothing lies at the address")]
    Absent,
    /// The tenant has no permission.
    #[error("the tenant has no permission")]
    Denied,
    /// The bytes lie in more than one range.
    #[error("the bytes lie in more than one range")]
    Split,
}

/// Bytes at the addresses of a traversal.
pub trait NodeMemory {
    /// Copies bytes.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), AccessError>;

    /// Whether bytes can be stored.
    ///
    /// # Errors
    /// See [`AccessError`].
    fn check_store(&self, address: u64, bytes: usize) -> Result<(), AccessError>;

    /// Stores bytes.
    ///
    /// # Errors
    /// See [`AccessError`]; none behind a successful check.
    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), AccessError>;
}

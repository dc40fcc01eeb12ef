//! The interface of a map that can be compared.

use crate::PeerKey;

/// A map of another project, with the interface that the lab uses.
///
/// Maps that are not shared between threads lend one [`PeerSession`], which borrows them mutably;
/// shared ones lend one session for each thread.
pub trait PeerMap<S: PeerKey>: Sized {
    /// A key in the form that this map takes. Operations are converted before the clock starts.
    type Key: Copy + Send + Sync;
    /// One thread's access to the map.
    type Session<'p>: PeerSession<Key = Self::Key> + Send
    where
        Self: 'p;

    /// Creates an empty map in its best configuration.
    fn new() -> Self;

    /// Converts a key.
    ///
    /// # Errors
    /// The reason why this map cannot hold the key.
    fn key(source: S) -> Result<Self::Key, &'static str>;

    /// Lends `count` sessions.
    ///
    /// # Panics
    /// If `count` is not 1 and the map is for one thread.
    fn sessions(&mut self, count: usize) -> Vec<Self::Session<'_>>;
}

/// One thread's access to a map.
pub trait PeerSession {
    /// A key in the form that the map takes.
    type Key: Copy;
    /// A guard that keeps removed entries alive while it is held. It is taken again every few
    /// hundred operations, as a user would, so that neither pinning nor garbage dominates.
    type Guard;

    /// Takes a guard.
    fn pin(&self) -> Self::Guard;

    /// Reads the value of a key.
    fn get(&mut self, guard: &Self::Guard, key: Self::Key) -> Option<u64>;

    /// Sets the value of a key, present or not.
    fn insert(&mut self, guard: &Self::Guard, key: Self::Key, value: u64);

    /// Sets the value of a key that is present; returns whether it was.
    fn update(&mut self, guard: &Self::Guard, key: Self::Key, value: u64) -> bool;

    /// Removes a key; returns whether it was present.
    fn remove(&mut self, guard: &Self::Guard, key: Self::Key) -> bool;

    /// Calls `visit` with the values of the first `limit` keys at or above `start`, in order of
    /// keys; returns the number of values. Maps without order return 0.
    fn scan(
        &mut self,
        guard: &Self::Guard,
        start: Self::Key,
        limit: usize,
        visit: impl FnMut(u64),
    ) -> usize;
}

/// Feeds at most `limit` values of a scan to `visit` and counts them.
pub(crate) fn visit_values(
    values: impl Iterator<Item = u64>,
    limit: usize,
    mut visit: impl FnMut(u64),
) -> usize {
    let mut count = 0;
    // The values are visited one by one, so that a map cannot skip the work of reading them.
    for value in values.take(limit) {
        visit(value);
        count += 1;
    }
    count
}

/// Returns the only session of a map for one thread; panics if more were requested.
pub(crate) fn only_session<T>(session: T, count: usize) -> Vec<T> {
    // The session borrows the map mutably, so there cannot be two.
    assert_eq!(count, 1, "this map is for one thread");
    vec![session]
}

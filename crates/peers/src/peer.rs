//! What a map must offer to be compared.

use crate::Source;

/// A map of others, seen by the lab.
///
/// Maps that are not shared between threads lend one [`Session`], which borrows them mutably;
/// shared ones lend as many as there are threads.
pub trait Peer<S: Source>: Sized {
    /// A key as this map wants it. Operations are converted before the clock starts.
    type Key: Copy + Send + Sync;
    /// One thread's access to the map.
    type Session<'p>: Session<Key = Self::Key> + Send
    where
        Self: 'p;

    /// Creates an empty map in its best configuration.
    fn new() -> Self;

    /// Converts a key.
    ///
    /// # Errors
    /// Says why this map cannot hold the key.
    fn key(source: S) -> Result<Self::Key, &'static str>;

    /// Lends `count` sessions.
    ///
    /// # Panics
    /// If `count` is not 1 and the map is for one thread.
    fn sessions(&mut self, count: usize) -> Vec<Self::Session<'_>>;
}

/// One thread's access to a map.
pub trait Session {
    /// A key as the map wants it.
    type Key: Copy;
    /// What keeps removed entries alive while it is held. It is taken anew every few hundred
    /// operations, as a user would, so that neither pinning nor garbage dominates.
    type Guard;

    /// Takes a guard.
    fn pin(&self) -> Self::Guard;

    /// Reads the value of a key.
    fn get(&mut self, guard: &Self::Guard, key: Self::Key) -> Option<u64>;

    /// Sets the value of a key, present or not.
    fn insert(&mut self, guard: &Self::Guard, key: Self::Key, value: u64);

    /// Sets the value of a key that is present; answers whether it was.
    fn update(&mut self, guard: &Self::Guard, key: Self::Key, value: u64) -> bool;

    /// Removes a key; answers whether it was present.
    fn remove(&mut self, guard: &Self::Guard, key: Self::Key) -> bool;

    /// Calls `visit` with the values of the first `limit` keys at or above `start`, in order of
    /// keys; answers how many there were. Maps without order answer 0.
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
    for value in values.take(limit) {
        visit(value);
        count += 1;
    }
    count
}

/// Checks that a map for one thread is asked for one session.
pub(crate) fn only_session<T>(session: T, count: usize) -> Vec<T> {
    assert_eq!(count, 1, "this map is for one thread");
    vec![session]
}

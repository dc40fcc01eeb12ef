//! Results that jobs leave for later jobs.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// A cache of results that more than one job needs, by description. Evicts the least recently used
/// ones when they have too many bytes.
#[derive(Debug)]
pub(super) struct ResultCache {
    bytes_max: usize,
    /// The results; the most recently used is the last.
    results: Mutex<VecDeque<CachedResult>>,
}

#[derive(Debug)]
struct CachedResult {
    description: String,
    bytes: usize,
    value: Arc<dyn Any + Send + Sync>,
}

impl ResultCache {
    /// Creates an empty cache of at most this number of bytes.
    pub(super) fn new(bytes_max: usize) -> ResultCache {
        ResultCache {
            bytes_max,
            results: Mutex::default(),
        }
    }

    /// Finds the result of a description, if it is present and of this type.
    pub(super) fn find<T: Any + Send + Sync>(&self, description: &str) -> Option<Arc<T>> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let place = results
            .iter()
            .position(|result| result.description == description)?;
        let found = results.remove(place)?;
        let value = Arc::clone(&found.value);
        results.push_back(found);
        value.downcast().ok()
    }

    /// Returns the only result and its description.
    #[cfg(test)]
    pub(super) fn only<T: Any + Send + Sync>(&self) -> (String, Arc<T>) {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(results.len(), 1);
        let value = Arc::clone(&results[0].value);
        (results[0].description.clone(), value.downcast().unwrap())
    }

    /// Makes a result that takes this number of bytes, and stores it.
    pub(super) fn keep<T: Any + Send + Sync>(
        &self,
        description: String,
        bytes: usize,
        make: impl FnOnce() -> T,
    ) {
        if bytes > self.bytes_max {
            // It would evict all others and then itself, so it is not even made.
            return;
        }
        // Without the lock, because other jobs look for results meanwhile.
        let value = Arc::new(make());
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.retain(|result| result.description != description);
        results.push_back(CachedResult {
            description,
            bytes,
            value,
        });
        while results.iter().map(|result| result.bytes).sum::<usize>() > self.bytes_max {
            results.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ResultCache;

    #[test]
    fn the_least_recently_used_result_is_evicted() {
        let cache = ResultCache::new(10);
        cache.keep("one".to_owned(), 4, || 1);
        cache.keep("two".to_owned(), 4, || 2);
        assert_eq!(cache.find("one").as_deref(), Some(&1));
        cache.keep("three".to_owned(), 4, || 3);
        assert_eq!(cache.find::<i32>("two"), None);
        assert_eq!(cache.find("one").as_deref(), Some(&1));
        assert_eq!(cache.find("three").as_deref(), Some(&3));
        cache.keep("large".to_owned(), 11, || 4);
        assert_eq!(cache.find::<i32>("large"), None);
        assert_eq!(cache.find("three").as_deref(), Some(&3));
        assert_eq!(cache.find::<String>("three"), None);
    }

    #[test]
    fn a_result_stored_twice_is_held_once() {
        let cache = ResultCache::new(10);
        cache.keep("one".to_owned(), 6, || 1);
        cache.keep("one".to_owned(), 6, || 2);
        assert_eq!(cache.find("one").as_deref(), Some(&2));
    }
}

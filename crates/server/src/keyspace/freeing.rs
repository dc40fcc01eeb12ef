//! The release of objects that were given up. A separate thread frees the large ones.
//!
//! Memory that another thread frees returns to the thread that allocated it later than memory which
//! that thread frees itself. So objects that take little time are freed at once.

use crate::allocator;
use crate::object::StoredObject;
use crate::steps;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// The number of steps of freeing (see [`StoredObject::steps_to_free`]) that are taken at once:
/// about a millisecond.
const STEPS_AT_ONCE: usize = 16_384;

/// The minimum of freed bytes after which memory is given back to the system; less is soon reused.
const RETURNED_BYTES: usize = 16 << 20;

/// The release of objects. Its thread is started for the first large one.
#[derive(Debug, Default)]
pub struct ObjectFreeing {
    sender: Mutex<Option<Sender<GivenUp>>>,
    progress: Arc<FreeingProgress>,
}

/// Objects that wait for the thread, and the bytes that they take.
struct GivenUp {
    objects: Vec<StoredObject>,
    bytes: usize,
}

/// Counts of objects that were left to the thread.
#[derive(Debug, Default)]
struct FreeingProgress {
    waiting_objects: AtomicUsize,
    waiting_bytes: AtomicUsize,
    freed_objects: AtomicU64,
}

impl ObjectFreeing {
    /// Frees objects, now or later.
    pub fn free(&self, objects: Vec<StoredObject>) {
        // One budget for all of them: many small objects take as long as a large one.
        let mut left = STEPS_AT_ONCE;
        let mut large = Vec::new();
        for object in objects {
            let needed = object.steps_to_free();
            if needed > left {
                large.push(object);
            } else {
                left -= needed;
                drop(object);
            }
        }
        steps::count(STEPS_AT_ONCE - left);
        if !large.is_empty() {
            self.leave_to_thread(large);
        }
    }

    fn leave_to_thread(&self, objects: Vec<StoredObject>) {
        let bytes = objects.iter().map(StoredObject::heap_bytes).sum();
        let count = objects.len();
        let mut sender = self.sender.lock();
        if sender.is_none() {
            *sender = start(&self.progress);
        }
        // If no thread can be started, they are freed here.
        if let Some(sender) = &*sender {
            // Counted before they are sent, so that the thread never subtracts first.
            let progress = &self.progress;
            progress.waiting_objects.fetch_add(count, Ordering::Relaxed);
            progress.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
            if sender.send(GivenUp { objects, bytes }).is_err() {
                progress.count_freed(count, bytes);
            }
        }
    }

    /// Returns the number of objects that wait to be freed.
    pub fn waiting_objects(&self) -> usize {
        self.progress.waiting_objects.load(Ordering::Relaxed)
    }

    /// Returns the bytes of objects that wait to be freed, or were freed in part.
    pub fn waiting_bytes(&self) -> usize {
        self.progress.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of objects that the thread has freed since the start.
    pub fn freed_objects(&self) -> u64 {
        self.progress.freed_objects.load(Ordering::Relaxed)
    }
}

impl FreeingProgress {
    fn count_freed(&self, objects: usize, bytes: usize) {
        let waiting_objects = self.waiting_objects.fetch_sub(objects, Ordering::Relaxed);
        debug_assert!(waiting_objects >= objects);
        let waiting_bytes = self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(waiting_bytes >= bytes);
        self.freed_objects
            .fetch_add(objects as u64, Ordering::Relaxed);
    }
}

/// Starts the thread. It ends when the sender is gone and everything sent is freed.
fn start(progress: &Arc<FreeingProgress>) -> Option<Sender<GivenUp>> {
    let (sender, receiver) = channel::<GivenUp>();
    let progress = Arc::clone(progress);
    let run = move || {
        while let Ok(GivenUp { objects, bytes }) = receiver.recv() {
            let count = objects.len();
            drop(objects);
            progress.count_freed(count, bytes);
            if bytes >= RETURNED_BYTES {
                allocator::give_back();
                // Most of the memory is in pages of the threads that allocated it.
                allocator::ask();
            }
        }
    };
    let builder = std::thread::Builder::new().name("nearfield-drop".into());
    builder.spawn(run).ok().map(|_| sender)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{HeapBytes, ListObject, ObjectLimits, Set};
    use nearfield_tiers::AccountedHeap;
    use std::time::{Duration, Instant};

    fn set(heap: &AccountedHeap, members: u32) -> StoredObject {
        let mut set = Set::new_in(heap.clone());
        for member in 0..members {
            set.add(&ObjectLimits::default(), format!("m{member}").as_bytes());
        }
        StoredObject::Set(Box::new(set))
    }

    #[test]
    fn what_takes_long_is_left_to_the_thread() {
        let (freeing, heap) = (ObjectFreeing::default(), AccountedHeap::new());
        let mut list = ListObject::new_in(heap.clone());
        for _ in 0..20_000 {
            list.push_back(&ObjectLimits::default(), b"element");
        }
        let text = HeapBytes::new_in(&vec![b'x'; 100 << 20], heap.clone());
        let large = vec![
            StoredObject::List(Box::new(list)),
            set(&heap, 20_000),
            StoredObject::Text(Box::new(text)),
        ];
        let small: Vec<StoredObject> = (0..10).map(|_| set(&heap, 1000)).collect();
        let steps = steps::taken_by(|| freeing.free(large.into_iter().chain(small).collect()));
        let steps = steps.unwrap_or(10_000);
        assert!((10_000..20_000).contains(&steps), "{steps}");
        let begun = Instant::now();
        while freeing.waiting_objects() > 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the values are still not freed"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(freeing.freed_objects(), 3);
        assert_eq!((freeing.waiting_bytes(), heap.used_bytes()), (0, 0));
    }

    #[test]
    fn many_small_objects_are_one_large_one() {
        let (freeing, heap) = (ObjectFreeing::default(), AccountedHeap::new());
        let objects = (0..100).map(|_| set(&heap, 1000)).collect();
        let steps = steps::taken_by(|| freeing.free(objects)).unwrap_or(0);
        assert!(steps <= 16_384, "{steps}");
        let begun = Instant::now();
        while heap.used_bytes() > 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the values are still not freed"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(freeing.freed_objects() >= 80, "{freeing:?}");
    }
}

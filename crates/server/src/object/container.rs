//! The interface that all types of objects share.

use super::{Hash, HeapBytes, ListObject, RedisType, Set, SortedSet, StoredObject, StreamObject};
use nearfield_tiers::AccountedHeap;

/// A type of objects.
pub trait Container: Sized {
    /// The type of keys that hold such objects.
    const KIND: RedisType;
    /// Creates an empty object.
    fn create(heap: &AccountedHeap) -> Self;
    /// Returns the object as one of this type, or `None` if it has another type.
    fn of(object: &StoredObject) -> Option<&Self>;
    /// Returns the object as one of this type, to be changed, or `None` if it has another type.
    fn of_mut(object: &mut StoredObject) -> Option<&mut Self>;
    /// Wraps the value in a [`StoredObject`].
    fn wrap(self) -> StoredObject;
    /// Returns true if it has no elements, so that its key is deleted.
    fn is_empty(&self) -> bool;
}

macro_rules! container {
    ($type:ty, $variant:ident, $kind:ident, $create:expr, $empty:expr) => {
        impl Container for $type {
            const KIND: RedisType = RedisType::$kind;
            fn create(heap: &AccountedHeap) -> Self {
                $create(heap)
            }
            fn of(object: &StoredObject) -> Option<&Self> {
                match object {
                    StoredObject::$variant(container) => Some(container),
                    _ => None,
                }
            }
            fn of_mut(object: &mut StoredObject) -> Option<&mut Self> {
                match object {
                    StoredObject::$variant(container) => Some(container),
                    _ => None,
                }
            }
            fn wrap(self) -> StoredObject {
                StoredObject::$variant(Box::new(self))
            }
            fn is_empty(&self) -> bool {
                $empty(self)
            }
        }
    };
}

container!(
    HeapBytes,
    Text,
    String,
    |heap: &AccountedHeap| HeapBytes::new_in(b"", heap.clone()),
    // A string may be empty; its key stays.
    |_: &HeapBytes| false
);
container!(
    ListObject<AccountedHeap>,
    List,
    List,
    of_heap(ListObject::new_in),
    ListObject::is_empty
);
container!(
    Hash<AccountedHeap>,
    Hash,
    Hash,
    of_heap(Hash::new_in),
    Hash::is_empty
);
container!(
    Set<AccountedHeap>,
    Set,
    Set,
    of_heap(Set::new_in),
    Set::is_empty
);
container!(
    SortedSet<AccountedHeap>,
    SortedSet,
    SortedSet,
    of_heap(SortedSet::new_in),
    SortedSet::is_empty
);

container!(
    StreamObject,
    Stream,
    Stream,
    of_heap(StreamObject::new_in),
    // A stream without entries still has a last identifier and groups, so its key stays.
    |_: &StreamObject| false
);

/// Adapts a container's constructor to a shared heap.
fn of_heap<T>(create: impl Fn(AccountedHeap) -> T) -> impl Fn(&AccountedHeap) -> T {
    move |heap| create(heap.clone())
}

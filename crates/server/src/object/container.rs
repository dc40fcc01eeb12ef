//! The interface that all types of objects share.

use super::{Hash, Kind, List, Object, Set, SortedSet, Stream, Text};
use nearfield_tiers::Heap;

/// A type of objects.
pub trait Container: Sized {
    /// The type of keys that hold such objects.
    const KIND: Kind;
    /// Creates an empty object.
    fn create(heap: &Heap) -> Self;
    /// Returns the object as one of this type, or `None` if it has another type.
    fn of(object: &Object) -> Option<&Self>;
    /// Returns the object as one of this type, to be changed, or `None` if it has another type.
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    /// Wraps the value in an [`Object`].
    fn wrap(self) -> Object;
    /// Returns true if it has no elements, so that its key is deleted.
    fn is_empty(&self) -> bool;
}

macro_rules! container {
    ($type:ty, $variant:ident, $kind:ident, $create:expr, $empty:expr) => {
        impl Container for $type {
            const KIND: Kind = Kind::$kind;
            fn create(heap: &Heap) -> Self {
                $create(heap)
            }
            fn of(object: &Object) -> Option<&Self> {
                match object {
                    Object::$variant(container) => Some(container),
                    _ => None,
                }
            }
            fn of_mut(object: &mut Object) -> Option<&mut Self> {
                match object {
                    Object::$variant(container) => Some(container),
                    _ => None,
                }
            }
            fn wrap(self) -> Object {
                Object::$variant(Box::new(self))
            }
            fn is_empty(&self) -> bool {
                $empty(self)
            }
        }
    };
}

container!(
    Text,
    Text,
    String,
    |heap: &Heap| Text::new_in(b"", heap.clone()),
    // A string may be empty; its key stays.
    |_: &Text| false
);
container!(
    List<Heap>,
    List,
    List,
    of_heap(List::new_in),
    List::is_empty
);
container!(
    Hash<Heap>,
    Hash,
    Hash,
    of_heap(Hash::new_in),
    Hash::is_empty
);
container!(Set<Heap>, Set, Set, of_heap(Set::new_in), Set::is_empty);
container!(
    SortedSet<Heap>,
    SortedSet,
    SortedSet,
    of_heap(SortedSet::new_in),
    SortedSet::is_empty
);

container!(
    Stream,
    Stream,
    Stream,
    of_heap(Stream::new_in),
    // A stream without entries still has a last identifier and groups, so its key stays.
    |_: &Stream| false
);

/// Adapts a container's constructor to a shared heap.
fn of_heap<T>(create: impl Fn(Heap) -> T) -> impl Fn(&Heap) -> T {
    move |heap| create(heap.clone())
}

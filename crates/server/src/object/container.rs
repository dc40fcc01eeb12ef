//! What all types of objects have in common, as commands open them.

use super::{Object, Text};
use crate::keyspace::Kind;
use nearfield_tiers::Heap;

/// A type of objects.
pub trait Container: Sized {
    /// The type of keys that hold such objects.
    const KIND: Kind;
    /// An empty one.
    fn create(heap: &Heap) -> Self;
    /// An object as one of this type.
    fn of(object: &Object) -> Option<&Self>;
    /// An object as one of this type, to be changed.
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    /// One of this type as an object.
    fn wrap(self) -> Object;
    /// True if nothing is in it, so that its key goes.
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
                    #[allow(unreachable_patterns)]
                    _ => None,
                }
            }
            fn of_mut(object: &mut Object) -> Option<&mut Self> {
                match object {
                    Object::$variant(container) => Some(container),
                    #[allow(unreachable_patterns)]
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

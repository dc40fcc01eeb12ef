//! The containers behind typed keys: lists, hashes, sets and sorted sets.
mod container;
mod text;
use crate::keyspace::Kind;
pub use container::Container;
pub use text::Text;
/// An object.
#[derive(Debug)]
pub enum Object {
    /// A long string.
    Text(Box<Text>),
}
impl Object {
    /// Its type.
    pub fn kind(&self) -> Kind {
        Kind::String
    }
}
/// Thresholds.
#[derive(Clone, Debug, Default)]
pub struct Limits {}

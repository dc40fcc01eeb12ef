//! A traversal as hardware sees it.

/// Consecutive bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub address: u64,
    /// How many.
    pub bytes: u32,
}

/// Whether a traversal goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Another iteration follows.
    Next,
    /// It is done.
    Return,
    /// It has made as many iterations as a request may.
    Limit,
}

/// What the logic of an iteration has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// Instructions that were executed.
    pub instructions: u32,
    /// Bytes that it wants to change, in the order in which they become visible.
    pub stores: Vec<Span>,
    /// Whether it goes on.
    pub verdict: Verdict,
}

/// A traversal that a model of hardware carries out.
///
/// Each iteration is a call of [`fetch`](Traversal::fetch), then one of [`load`](Traversal::load)
/// when the bytes have arrived, one of [`execute`](Traversal::execute) and, where it stores
/// something, one of [`store`](Traversal::store). A refused fetch or store ends it there, without
/// the calls that would follow.
pub trait Traversal {
    /// The bytes that the next iteration loads.
    fn fetch(&self) -> Span;

    /// Takes the bytes of the fetch, as they are at this moment: others may store before the logic
    /// begins.
    fn load(&mut self);

    /// Runs the logic of the iteration on the loaded bytes. Nothing becomes visible yet.
    fn execute(&mut self) -> Iteration;

    /// Makes the stores of the iteration visible. All of them are permitted.
    fn store(&mut self);

    /// The bytes of a packet that asks a node to go on: its state and its code.
    fn request_bytes(&self) -> u32;

    /// The bytes of a packet with the answer.
    fn reply_bytes(&self) -> u32;
}

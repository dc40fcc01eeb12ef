//! A traversal from the hardware's side.

/// Consecutive bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySpan {
    /// The first byte.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u32,
}

/// The decision about a traversal's continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Another iteration follows.
    Next,
    /// The traversal is done.
    Return,
    /// The traversal has made the maximum number of iterations of a request.
    Limit,
}

/// The result of the logic of an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// Number of instructions that were executed.
    pub instructions: u32,
    /// The bytes to change, in the order in which they become visible.
    pub stores: Vec<MemorySpan>,
    /// The decision about the continuation.
    pub verdict: Verdict,
}

/// A traversal that a hardware model carries out.
///
/// Each iteration is a call of [`fetch`](HardwareTraversal::fetch), then one of
/// [`load`](HardwareTraversal::load) when the bytes have arrived, one of
/// [`execute`](HardwareTraversal::execute) and, if it stores something, one of
/// [`store`](HardwareTraversal::store). A refused fetch or store ends it there, without the calls
/// that would follow.
pub trait HardwareTraversal {
    /// Returns the bytes that the next iteration loads.
    fn fetch(&self) -> MemorySpan;

    /// Takes the bytes of the fetch, as they are at this moment: others may store before the logic
    /// begins.
    fn load(&mut self);

    /// Runs the logic of the iteration on the loaded bytes. Nothing becomes visible yet.
    fn execute(&mut self) -> Iteration;

    /// Makes the stores of the iteration visible. All of them have been permitted.
    fn store(&mut self);

    /// Returns the bytes of a packet that asks a node to continue: its state and its code.
    fn request_bytes(&self) -> u32;

    /// Returns the bytes of a packet with the reply.
    fn reply_bytes(&self) -> u32;
}

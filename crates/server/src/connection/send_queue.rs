//! Replies that wait until a client's socket takes them.

use std::collections::VecDeque;

/// The parts of the data to send, in order. No byte is moved once it is in the queue, however
/// slowly the client reads, and the memory of a part is given back with its last byte.
#[derive(Debug, Default)]
pub struct SendQueue {
    parts: VecDeque<Vec<u8>>,
    /// Number of bytes of the first part that have been sent.
    sent: usize,
    /// Number of bytes of all parts that have not been sent.
    bytes: usize,
    /// Bytes of memory of all parts.
    capacity: usize,
}

impl SendQueue {
    /// Adds a part, of which the first `sent` bytes have been sent. If there are any such bytes,
    /// the queue must be empty.
    pub fn push(&mut self, part: Vec<u8>, sent: usize) {
        debug_assert!(sent == 0 || self.parts.is_empty(), "the middle was sent");
        debug_assert!(sent < part.len(), "some of it is left to send");
        self.sent += sent;
        self.bytes += part.len() - sent;
        self.capacity += part.capacity();
        self.parts.push_back(part);
    }

    /// Returns the bytes to send next, or `None` if there are none.
    pub fn first(&self) -> Option<&[u8]> {
        self.parts.front()?.get(self.sent..)
    }

    /// Forgets `bytes` bytes of the [first](SendQueue::first), which have been sent.
    pub fn consume(&mut self, bytes: usize) {
        debug_assert!(self.first().is_some_and(|first| bytes <= first.len()));
        self.sent += bytes;
        self.bytes -= bytes;
        if self.first().is_some_and(<[u8]>::is_empty)
            && let Some(part) = self.parts.pop_front()
        {
            self.capacity -= part.capacity();
            self.sent = 0;
        }
        debug_assert!(!self.parts.is_empty() || (self.bytes, self.capacity) == (0, 0));
    }

    /// Returns the number of bytes that have not been sent.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns true if all has been sent.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the bytes of memory that the parts take.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_out_as_they_were_put_in_whatever_is_taken_at_once() {
        let all: Vec<u8> = (0..1000).map(|number| (number % 251) as u8).collect();
        for step in [1, 7, 99, 100, 101, 1000] {
            let mut queue = SendQueue::default();
            // Some bytes of the first part were sent before.
            let mut received = all[..3].to_vec();
            queue.push(all[..100].to_vec(), 3);
            for part in all[100..].chunks(90) {
                queue.push(part.to_vec(), 0);
            }
            while let Some(first) = queue.first() {
                let count = step.min(first.len());
                received.extend_from_slice(&first[..count]);
                queue.consume(count);
                assert_eq!(queue.len(), all.len() - received.len());
            }
            assert!(queue.is_empty() && queue.capacity() == 0);
            assert_eq!(received, all);
        }
    }
}

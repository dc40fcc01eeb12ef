//! Datagrams that are received together.

use crate::wire::{DATAGRAM_BYTES_MAX, ProcessAddress};

/// Datagrams that one call has received, in buffers that are used again.
#[derive(Debug)]
pub struct DatagramBatch {
    /// Each has room for one byte more than the longest datagram, so that longer ones are seen to
    /// be, instead of being cut to a message.
    buffers: Vec<Vec<u8>>,
    /// Length and sender of the datagram in each of the first buffers.
    received: Vec<(usize, ProcessAddress)>,
}

impl DatagramBatch {
    /// Creates room for a number of datagrams.
    pub fn new(datagrams: usize) -> DatagramBatch {
        DatagramBatch {
            buffers: vec![vec![0; DATAGRAM_BYTES_MAX + 1]; datagrams],
            received: Vec::with_capacity(datagrams),
        }
    }

    /// Returns the number of datagrams.
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Removes all datagrams.
    pub fn clear(&mut self) {
        self.received.clear();
    }

    /// Returns the buffer for the next datagram, if there is room.
    pub fn free(&mut self) -> Option<&mut [u8]> {
        let next = self.buffers.get_mut(self.received.len());
        next.map(Vec::as_mut_slice)
    }

    /// Adds the datagram of a length that is in the [free](DatagramBatch::free) buffer.
    pub fn push(&mut self, length: usize, from: ProcessAddress) {
        if self.received.len() < self.buffers.len() {
            self.received.push((length, from));
        }
    }

    /// Iterates over the datagrams and their senders.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], ProcessAddress)> {
        let received = self.buffers.iter().zip(&self.received);
        received.map(|(buffer, &(length, from))| (buffer.get(..length).unwrap_or(buffer), from))
    }

    /// Iterates over the datagrams, which may be changed, and their senders.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&mut [u8], ProcessAddress)> {
        let received = self.buffers.iter_mut().zip(&self.received);
        received.map(|(buffer, &(length, from))| {
            let length = length.min(buffer.len());
            (&mut buffer[..length], from)
        })
    }

    /// Returns all buffers.
    #[cfg(target_os = "linux")]
    pub(super) fn buffers(&mut self) -> &mut [Vec<u8>] {
        &mut self.buffers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_in_their_order_until_the_batch_is_full() {
        let mut batch = DatagramBatch::new(2);
        for number in 0..3 {
            if let Some(buffer) = batch.free() {
                buffer[..2].copy_from_slice(&[number, 7]);
            }
            batch.push(1 + usize::from(number), ProcessAddress(number.into()));
        }
        assert!(batch.free().is_none() && batch.len() == 2);
        for (datagram, _) in batch.iter_mut() {
            datagram[0] += 10;
        }
        let all: Vec<_> = batch.iter().collect();
        let expected = [
            (&[10_u8][..], ProcessAddress(0)),
            (&[11_u8, 7][..], ProcessAddress(1)),
        ];
        assert_eq!(all, expected);
        batch.clear();
        assert!(batch.is_empty() && batch.iter().next().is_none());
    }
}

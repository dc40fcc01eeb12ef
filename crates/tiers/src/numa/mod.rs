//! Memory of a given NUMA node: HBM, or memory behind CXL, which the system shows as a node without
//! processors.
//!
//! Values of a lower tier are stored there in segments, like those of [files](crate::files) on a
//! disk: each file there is a piece of memory here. So they are appended, checked and compacted in
//! the same manner, and a read is two copies.

mod nodes;

use crate::disk::{TierDisk, TierFile};
use crate::error::TierOpenError;
use crate::specification::{Specification, TierKind};
use memmap2::{Advice, MmapMut};
use parking_lot::RwLock;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The memory of one node.
#[derive(Clone, Copy, Debug)]
pub struct NumaNodeMemory {
    /// The node; `None` if this process may not choose, and gets ordinary memory.
    node: Option<u32>,
}

/// Note for the user on a tier that differs from its specification.
pub type Note = Option<String>;

impl NumaNodeMemory {
    /// Creates the memory that a lower tier specifies.
    ///
    /// # Errors
    /// The node does not exist, or has less memory.
    pub(crate) fn of(
        tier: &Specification,
        node: u32,
    ) -> Result<(NumaNodeMemory, Note), TierOpenError> {
        check(tier, node)?;
        // Tried on one page, because a container may forbid the call.
        let probe = || {
            let mut page = MmapMut::map_anon(1)?;
            nodes::bind(&mut page, node)
        };
        Ok(match probe() {
            Ok(()) => (NumaNodeMemory { node: Some(node) }, alone(tier)),
            Err(error) => (
                NumaNodeMemory { node: None },
                Some(ordinary(tier, "mbind", &error)),
            ),
        })
    }
}

/// Places the memory of this process on the node that the first tier specifies. Call it before
/// threads are started.
pub(crate) fn settle(tier: &Specification) -> Result<Note, TierOpenError> {
    let TierKind::Node(node) = tier.kind else {
        return Ok(None);
    };
    check(tier, node)?;
    Ok(match nodes::prefer(node) {
        Ok(()) => alone(tier),
        Err(error) => Some(ordinary(tier, "set_mempolicy", &error)),
    })
}

fn check(tier: &Specification, node: u32) -> Result<(), TierOpenError> {
    let tier_name = || tier.to_string();
    // A kernel without NUMA lists no nodes; it has one.
    let online = nodes::online().unwrap_or_else(|| vec![0]);
    if !online.contains(&node) {
        return Err(TierOpenError::NoNode {
            tier: tier_name(),
            node,
            nodes: online,
        });
    }
    match nodes::memory_bytes(node) {
        Some(bytes) if bytes < tier.capacity_bytes => Err(TierOpenError::NodeTooSmall {
            tier: tier_name(),
            node,
            bytes,
        }),
        _ => Ok(()),
    }
}

fn alone(tier: &Specification) -> Note {
    let online = nodes::online().unwrap_or_default();
    (online.len() < 2).then(|| {
        format!("tier {tier}: this machine has one NUMA node, so the tier is ordinary memory")
    })
}

fn ordinary(tier: &Specification, call: &str, error: &io::Error) -> String {
    format!("tier {tier}: {call} failed ({error}), so the tier is ordinary memory")
}

impl TierDisk for NumaNodeMemory {
    fn create(&self, _: &Path, bytes: u64) -> io::Result<Box<dyn TierFile>> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut memory = MmapMut::map_anon(length)?;
        // Before the first write, because a page stays on the node where it was first touched.
        if let Some(node) = self.node {
            nodes::bind(&mut memory, node)?;
        }
        // Segments are filled from their beginning, so large pages fit. Kernels without them return
        // an error.
        let _ = memory.advise(Advice::HugePage);
        Ok(Box::new(NumaMemoryFile(RwLock::new(memory))))
    }

    fn free_bytes(&self, _: &Path) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// A piece of memory that acts as a file.
#[derive(Debug)]
struct NumaMemoryFile(RwLock<MmapMut>);

impl TierFile for NumaMemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let memory = self.0.read();
        let part = memory.get(range(offset, buffer.len()));
        buffer.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let mut memory = self.0.write();
        let part = memory.get_mut(range(offset, buffer.len()));
        part.ok_or(io::ErrorKind::UnexpectedEof)?
            .copy_from_slice(buffer);
        Ok(())
    }
}

fn range(offset: u64, length: usize) -> Range<usize> {
    // Offsets beyond the address space lie outside of the memory, too, and are refused there.
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    start..start.saturating_add(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tiers;

    fn open(words: [&str; 2]) -> Result<Tiers, TierOpenError> {
        Tiers::open(&words.map(|word| word.parse().unwrap()))
    }

    #[test]
    fn values_in_the_memory_of_a_node_are_read_as_they_were_put() {
        let tiers = open(["memory=1mb", "memory@numa:0=16mb"]).unwrap();
        println!("{:?}", tiers.notes());
        let value = |number: usize| format!("value {number} ").repeat(number % 90).into_bytes();
        let places: Vec<_> = (0..5000)
            .map(|number| tiers.put(1, &[&value(number)]).unwrap()[0])
            .collect();
        for (number, &place) in places.iter().enumerate() {
            let mut read = Vec::new();
            // No read waits for a disk.
            assert!(tiers.pending(place).is_none());
            tiers.read(place, &mut read).unwrap();
            assert_eq!(read, value(number));
            tiers.release(place);
        }
        let usage = tiers.usage(1).unwrap();
        assert_eq!((usage.values, usage.value_bytes), (0, 0));
    }

    #[test]
    fn the_memory_of_the_process_may_be_that_of_a_node() {
        let tiers = open(["memory@numa:0=1mb", "compressed=1mb"]).unwrap();
        println!("{:?}", tiers.notes());
        assert_eq!(
            vec![1_u8; 1 << 20]
                .iter()
                .map(|&it| u64::from(it))
                .sum::<u64>(),
            1 << 20
        );
    }

    #[test]
    fn nodes_that_are_not_there_or_too_small_are_named() {
        for words in [
            ["memory@numa:999=1mb", "compressed=1mb"],
            ["memory=1mb", "memory@numa:999=1mb"],
        ] {
            let error = open(words).unwrap_err().to_string();
            assert!(error.contains("NUMA node 999 does not exist"), "{error}");
        }
        if nodes::memory_bytes(0).is_none() {
            println!("skipped: the system does not report the memory of nodes");
            return;
        }
        let tier = "memory@numa:0=9000tb".parse().unwrap();
        let error = NumaNodeMemory::of(&tier, 0).unwrap_err().to_string();
        assert!(error.contains("node 0 has only"), "{error}");
    }

    #[test]
    fn a_process_that_may_not_choose_is_told_so() {
        let tier: Specification = "memory@numa:0=1mb".parse().unwrap();
        let refused = io::Error::from_raw_os_error(libc::EPERM);
        let note = ordinary(&tier, "mbind", &refused);
        assert!(
            note.contains("memory@numa:0") && note.contains("mbind"),
            "{note}"
        );
    }
}

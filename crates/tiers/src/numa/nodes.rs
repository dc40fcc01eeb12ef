//! The NUMA nodes of this machine, and memory on one of them.

use crate::machine::kibibytes_after;
use std::io;

/// Number of bits of the mask that selects a node.
const NODES_MAX: u32 = 1024;
const WORD_BITS: u32 = usize::BITS;
const WORDS: usize = (NODES_MAX / WORD_BITS) as usize;

const _: () = assert!(
    WORDS as u32 * WORD_BITS == NODES_MAX,
    "the kernel reads as many bits as it is told"
);

/// Returns the nodes that exist, if the system reports them.
pub(super) fn online() -> Option<Vec<u32>> {
    parse_list(&std::fs::read_to_string("/sys/devices/system/node/online").ok()?)
}

/// Returns the bytes of a node's memory, if the system reports them.
pub(super) fn memory_bytes(node: u32) -> Option<u64> {
    let path = format!("/sys/devices/system/node/node{node}/meminfo");
    let text = std::fs::read_to_string(path).ok()?;
    // Each line begins with the node.
    let kibibytes = kibibytes_after(&text, &format!("Node {node} MemTotal:"))?;
    Some(kibibytes * 1024)
}

/// Parses numbers and ranges of numbers, such as `0-1,4`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let number = |text: &str| text.parse::<u32>().ok();
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(number(first)?..=number(last)?);
    }
    Some(numbers)
}

/// Returns the mask of one node.
fn mask(node: u32) -> io::Result<[usize; WORDS]> {
    let mut mask = [0; WORDS];
    match mask.get_mut((node / WORD_BITS) as usize) {
        Some(word) => *word = 1 << (node % WORD_BITS),
        None => return Err(io::ErrorKind::InvalidInput.into()),
    }
    Ok(mask)
}

fn answer(returned: libc::c_long) -> io::Result<()> {
    match returned {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Allocates the pages of some memory on a node, while that has room. Pages that exist already stay
/// where they are.
pub(super) fn bind(bytes: &mut [u8], node: u32) -> io::Result<()> {
    let mask = mask(node)?;
    let (start, length) = (bytes.as_mut_ptr(), bytes.len());
    // SAFETY: the call changes where new pages of an address range come from, but none of their
    // bytes. The mask has as many bits as are passed to the call, and outlives it.
    answer(unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start,
            length,
            libc::MPOL_PREFERRED,
            mask.as_ptr(),
            libc::c_ulong::from(NODES_MAX),
            0,
        )
    })
}

/// Allocates new memory of this thread, and of all threads that it starts from now on, on a node,
/// while that has room.
pub(super) fn prefer(node: u32) -> io::Result<()> {
    let mask = mask(node)?;
    // SAFETY: the call changes where new pages come from. The mask has as many bits as are passed
    // to the call, and outlives it.
    answer(unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            libc::MPOL_PREFERRED,
            mask.as_ptr(),
            libc::c_ulong::from(NODES_MAX),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_are_read() {
        assert_eq!(parse_list("0\n"), Some(vec![0]));
        assert_eq!(parse_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list("x"), None);
    }

    /// The flag that asks for the policy of an address.
    const MPOL_F_ADDR: libc::c_ulong = 2;

    #[test]
    fn memory_of_a_bound_range_lies_on_its_node() {
        let mut memory = memmap2::MmapMut::map_anon(1 << 20).unwrap();
        if let Err(error) = bind(&mut memory, 0) {
            println!("skipped: memory cannot be bound here: {error}");
            return;
        }
        memory.fill(1);
        let (mut policy, mut mask) = (-1_i32, [0_usize; WORDS]);
        // SAFETY: the call writes one number and as many bits as are passed to it, to memory that
        // outlives it, and reads no byte at the address.
        let asked = answer(unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut policy,
                mask.as_mut_ptr(),
                libc::c_ulong::from(NODES_MAX),
                memory.as_ptr(),
                MPOL_F_ADDR,
            )
        });
        asked.unwrap();
        assert_eq!((policy, mask[0]), (libc::MPOL_PREFERRED, 1));
        assert!(bind(&mut memory, 1000).is_err(), "there is no such node");
        assert!(bind(&mut memory, NODES_MAX).is_err());
    }
}

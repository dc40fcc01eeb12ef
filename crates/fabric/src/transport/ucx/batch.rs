//! The verbs of a post as one message, if the node's processor executes them, and the reply.
//!
//! ```text
//!   verb                                                                 part of the reply
//!   read     1 │ offset │ bytes                                          the bytes
//!   write    2 │ offset │ bytes │ the bytes                              nothing
//!   swap     3 │ offset │ expected │ compare │ desired │ swap mask       the old word
//!   add      4 │ offset │ summand                                        the old word
//! ```
//!
//! All are little-endian words of 8 bytes. Verbs follow each other, and so do the parts of the
//! reply.

use super::message::{join, split};
use crate::verb::{FabricVerb, MaskedSwap};

const READ: u64 = 1;
const WRITE: u64 = 2;
const SWAP: u64 = 3;
const ADD: u64 = 4;
/// Largest size of a reply: no post reads more at once.
pub const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// The memory in which one thread executes verbs.
pub trait UcxVerbMemory {
    /// Appends bytes from an offset on. Returns false if there are none.
    fn read(&self, offset: u64, bytes: u64, into: &mut Vec<u8>) -> bool;

    /// Writes bytes at an offset. Returns false if there is no such place.
    fn write(&self, offset: u64, bytes: &[u8]) -> bool;
}

/// Appends a verb to a message.
pub fn encode(verb: &FabricVerb<'_>, message: &mut Vec<u8>) {
    let offset = verb.address().offset();
    match verb {
        FabricVerb::Read { into, .. } => message.extend(join(&[READ, offset, into.len() as u64])),
        FabricVerb::Write { bytes, .. } => {
            message.extend(join(&[WRITE, offset, bytes.len() as u64]));
            message.extend(*bytes);
        }
        FabricVerb::Swap { swap, .. } => message.extend(join(&[
            SWAP,
            offset,
            swap.expected,
            swap.compare_mask,
            swap.desired,
            swap.swap_mask,
        ])),
        FabricVerb::Add { summand, .. } => message.extend(join(&[ADD, offset, *summand])),
    }
}

/// Moves a part of a reply into a verb, and returns the rest; `None` if the reply does not fit.
pub fn take<'a>(verb: &mut FabricVerb<'_>, answer: &'a [u8]) -> Option<&'a [u8]> {
    match verb {
        FabricVerb::Read { into, .. } => {
            let (bytes, rest) = answer.split_at_checked(into.len())?;
            into.copy_from_slice(bytes);
            Some(rest)
        }
        FabricVerb::Write { .. } => Some(answer),
        FabricVerb::Swap { found, .. } | FabricVerb::Add { found, .. } => {
            let ([word], rest) = split(answer)?;
            *found = word;
            Some(rest)
        }
    }
}

/// Executes all verbs of a message, each as a whole before the next. Returns the reply, or `None`
/// at the first verb that fails.
pub fn execute(memory: &impl UcxVerbMemory, mut message: &[u8]) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    while !message.is_empty() {
        let ([kind, offset], rest) = split(message)?;
        message = match kind {
            READ => {
                let ([bytes], rest) = split(rest)?;
                // Small requests could otherwise make the node allocate any amount.
                if (answer.len() as u64).checked_add(bytes)? > ANSWER_BYTES_MAX {
                    return None;
                }
                memory.read(offset, bytes, &mut answer).then_some(rest)?
            }
            WRITE => {
                let ([bytes], rest) = split(rest)?;
                let (bytes, rest) = rest.split_at_checked(usize::try_from(bytes).ok()?)?;
                memory.write(offset, bytes).then_some(rest)?
            }
            SWAP => {
                let ([expected, compare_mask, desired, swap_mask], rest) = split(rest)?;
                let swap = MaskedSwap {
                    expected,
                    compare_mask,
                    desired,
                    swap_mask,
                };
                change(memory, offset, &mut answer, |word| swap.apply(word))?;
                rest
            }
            ADD => {
                let ([summand], rest) = split(rest)?;
                change(memory, offset, &mut answer, |word| {
                    Some(word.wrapping_add(summand))
                })?;
                rest
            }
            _ => return None,
        };
    }
    Some(answer)
}

/// Appends the word at an offset to a reply, and changes it if `change` returns a word.
fn change(
    memory: &impl UcxVerbMemory,
    offset: u64,
    answer: &mut Vec<u8>,
    change: impl FnOnce(u64) -> Option<u64>,
) -> Option<()> {
    // The old word goes straight into the reply, behind those of earlier verbs.
    let start = answer.len();
    let is_there = offset.is_multiple_of(8) && memory.read(offset, 8, answer);
    let ([found], _) = split(answer.get(start..).filter(|_| is_there)?)?;
    match change(found) {
        Some(word) => memory.write(offset, &word.to_le_bytes()).then_some(()),
        None => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{GlobalAddress, NodeId};
    use proptest::prelude::*;
    use std::cell::RefCell;

    struct UcxVecMemory(RefCell<Vec<u8>>);

    impl UcxVerbMemory for UcxVecMemory {
        fn read(&self, offset: u64, bytes: u64, into: &mut Vec<u8>) -> bool {
            let own = self.0.borrow();
            let from = own.get(offset as usize..offset.saturating_add(bytes) as usize);
            from.map(|from| into.extend(from)).is_some()
        }

        fn write(&self, offset: u64, bytes: &[u8]) -> bool {
            let mut own = self.0.borrow_mut();
            let place = own.get_mut(offset as usize..(offset as usize).saturating_add(bytes.len()));
            place.map(|place| place.copy_from_slice(bytes)).is_some()
        }
    }

    fn memory() -> UcxVecMemory {
        UcxVecMemory(RefCell::new(vec![0; 1024]))
    }

    fn at(offset: u64) -> GlobalAddress {
        GlobalAddress::new(NodeId(3), offset)
    }

    fn read(from: GlobalAddress, into: &mut [u8]) -> FabricVerb<'_> {
        FabricVerb::Read { from, into }
    }

    #[test]
    fn verbs_are_done_in_order_and_answered() {
        let memory = memory();
        let (mut before, mut after, mut none) = ([9; 5], [9; 5], []);
        let swap = MaskedSwap {
            expected: 7,
            compare_mask: 0xff,
            desired: 0xab00,
            swap_mask: 0xff00,
        };
        let mut verbs = [
            read(at(101), &mut before),
            FabricVerb::Write {
                to: at(100),
                bytes: b"0hello!",
            },
            read(at(101), &mut after),
            read(at(1024), &mut none),
            FabricVerb::Add {
                at: at(8),
                summand: 7,
                found: 1,
            },
            FabricVerb::Swap {
                at: at(8),
                swap,
                found: 1,
            },
            FabricVerb::compare_swap(at(8), 5, 6),
            FabricVerb::Add {
                at: at(8),
                summand: u64::MAX,
                found: 1,
            },
        ];
        let mut message = Vec::new();
        verbs.iter().for_each(|verb| encode(verb, &mut message));
        let answer = execute(&memory, &message).expect("all can be done");
        let mut rest = &answer[..];
        for verb in &mut verbs {
            rest = take(verb, rest).expect("its reply");
        }
        assert!(rest.is_empty());
        let found: Vec<_> = verbs[4..].iter().map(FabricVerb::found).collect();
        assert_eq!(found, [Some(0), Some(7), Some(0xab07), Some(0xab07)]);
        assert_eq!((before, &after), ([0; 5], b"hello"));
        assert_eq!(memory.0.borrow()[8], 6);
        let mut word = FabricVerb::compare_swap(at(8), 0, 0);
        assert_eq!(take(&mut word, &[1; 7]), None);
        assert_eq!(take(&mut read(at(0), &mut [0; 8]), &[1; 7]), None);
    }

    proptest! {
        /// Words are mostly small, so that many of them are verbs.
        #[test]
        fn no_message_brings_a_node_down(
            words in prop::collection::vec(prop_oneof![0_u64..9, 0_u64..2000, any::<u64>()], 0..40),
            cut in 0_usize..9,
        ) {
            let mut message = join(&words);
            message.truncate(message.len().saturating_sub(cut));
            let answer = execute(&memory(), &message);
            prop_assert!(answer.is_none_or(|answer| answer.len() <= 40 * 2000));
        }
    }

    #[test]
    fn what_cannot_be_done_changes_nothing_more() {
        let memory = memory();
        let wrong = [
            &join(&[READ, 1020, 5])[..],
            &join(&[READ, u64::MAX, 2]),
            &join(&[READ, 0, u64::MAX]),
            &join(&[WRITE, 1020, 5, u64::MAX]),
            &join(&[WRITE, 0, u64::MAX, 1]),
            &join(&[SWAP, 4, 0, 0, 1, 1]),
            &join(&[SWAP, 1024, 0, 0, 1, 1]),
            &join(&[ADD, 4, 1]),
            &join(&[ADD, u64::MAX - 7, 1]),
            &join(&[0, 0, 0]),
            &join(&[5, 0, 0]),
        ];
        for wrong in wrong {
            let mut message = join(&[ADD, 0, 1]);
            message.extend(wrong);
            message.extend(join(&[ADD, 8, 1]));
            assert_eq!(execute(&memory, &message), None, "{wrong:?}");
        }
        let cut_off = [
            &join(&[READ, 0])[..],
            &join(&[WRITE, 0, 9, u64::MAX]),
            &join(&[SWAP, 0, 0, 0, 1]),
            &join(&[ADD, 0]),
            b"short",
        ];
        for message in cut_off {
            assert_eq!(execute(&memory, message), None, "{message:?}");
        }
        let own = memory.0.borrow();
        assert_eq!(usize::from(own[0]), wrong.len());
        assert!(own[1..].iter().all(|byte| *byte == 0));
    }
}

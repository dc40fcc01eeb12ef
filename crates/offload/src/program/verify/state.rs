//! The knowledge of the verifier before an instruction.

use super::value::AbstractValue;
use crate::isa::{Register, STACK_BYTES};
use crate::program::ProgramWindow;
use std::ops::Range;

const WORDS: usize = STACK_BYTES / 8;

/// The known contents of registers and stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbstractState {
    registers: [AbstractValue; 11],
    /// The words of the stack that were stored as a whole.
    words: [AbstractValue; WORDS],
    /// A bit for each byte of the stack that was written on all paths.
    written: [u64; WORDS / 8],
}

impl AbstractState {
    /// Creates the state at the beginning of an iteration.
    pub fn new(allocates: bool) -> AbstractState {
        let mut state = AbstractState {
            registers: [AbstractValue::Unknown; 11],
            words: [AbstractValue::Unknown; WORDS],
            written: [0; WORDS / 8],
        };
        state.set(Register::R1, AbstractValue::origin(ProgramWindow::Node));
        state.set(
            Register::R2,
            AbstractValue::origin(ProgramWindow::Scratchpad),
        );
        state.set(Register::R3, AbstractValue::NUMBER);
        // Without a list of free regions there is no allocation, and both registers stay unknown.
        if allocates {
            state.set(
                Register::R4,
                AbstractValue::origin(ProgramWindow::Allocation),
            );
            state.set(Register::R5, AbstractValue::NUMBER);
        }
        state.set(Register::R10, AbstractValue::origin(ProgramWindow::Stack));
        state
    }

    pub fn get(&self, register: Register) -> AbstractValue {
        self.registers[usize::from(register.number())]
    }

    pub fn set(&mut self, register: Register, value: AbstractValue) {
        self.registers[usize::from(register.number())] = value;
    }

    /// Keeps what is true on both of two paths that join.
    pub fn join(&mut self, other: &AbstractState) {
        for (value, other) in self.registers.iter_mut().zip(other.registers) {
            *value = value.join(other);
        }
        for (bits, other) in self.written.iter_mut().zip(other.written) {
            *bits &= other;
        }
        for word in 0..WORDS {
            let (mine, other) = (self.words[word], other.words[word]);
            let joined = mine.join(other);
            // On one path the word is a number, on the other an address. Its bytes must not be
            // loaded, because a program must not see addresses as numbers.
            if joined == AbstractValue::Unknown && (is_address(mine) || is_address(other)) {
                self.unwrite(word);
            }
            self.words[word] = joined;
        }
    }

    /// Notes a store into the stack at any of the places from `min` to `max`, counted from the
    /// stack's start. `value` is the content of the whole word afterwards.
    pub fn store(&mut self, min: usize, max: usize, bytes: usize, value: AbstractValue) {
        debug_assert!(
            min <= max && max + bytes <= STACK_BYTES,
            "bounds are checked before"
        );
        for word in min / 8..(max + bytes).div_ceil(8) {
            // The remaining part of an address is not a number that a program may see.
            if is_address(self.words[word]) {
                self.unwrite(word);
            }
            self.words[word] = AbstractValue::Unknown;
        }
        // If the place depends on data, no byte is certain to be written.
        if min == max {
            for byte in min..min + bytes {
                self.written[byte / 64] |= 1 << (byte % 64);
            }
            // Parts of words are not tracked: their bytes count as written, with unknown content.
            if bytes == 8 && min.is_multiple_of(8) {
                self.words[min / 8] = value;
            }
        }
    }

    /// Returns the word of a load of 8 bytes, if it was stored as a whole and has a single place.
    pub fn word(&self, min: usize, max: usize, bytes: usize) -> Option<AbstractValue> {
        // Other loads get a number: `unwritten` refuses them if they touch an address.
        let whole = min == max && bytes == 8 && min.is_multiple_of(8);
        let word = self.words.get(min / 8).filter(|_| whole)?;
        (*word != AbstractValue::Unknown).then_some(*word)
    }

    /// Returns the first byte of a range of the stack that is not written, or holds a part of an
    /// address.
    pub fn unwritten(&self, range: Range<usize>) -> Option<usize> {
        debug_assert!(range.end <= STACK_BYTES, "bounds are checked before");
        let is_written = |byte: usize| self.written[byte / 64] >> (byte % 64) & 1 == 1;
        range
            .into_iter()
            .find(|&byte| !is_written(byte) || is_address(self.words[byte / 8]))
    }

    fn unwrite(&mut self, word: usize) {
        self.written[word / 8] &= !(0xff << (8 * (word % 8)));
    }
}

fn is_address(value: AbstractValue) -> bool {
    matches!(value, AbstractValue::Address { .. })
}

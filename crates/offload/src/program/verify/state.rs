//! The knowledge of the verifier before an instruction.

use super::number::NumberBounds;
use super::value::{
    AbstractAddress, AbstractNumber, AbstractValue, LowOrigin, SymbolRelation, ValueSymbol,
};
use crate::isa::{AluOperation, OperandSize, Register, STACK_BYTES, Width};
use crate::program::ProgramWindow;
use std::ops::Range;

const WORDS: usize = STACK_BYTES / 64;

/// Largest number of numbers on the stack that are known. Others count as any number. It bounds the
/// memory that the verifier needs for code that fills the stack with bytes.
const SPILLS_MAX: usize = 64;

/// A value that was stored on the stack as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StackSpill {
    /// Place of its first byte, counted from the stack's start.
    start: usize,
    bytes: usize,
    value: AbstractValue,
}

impl StackSpill {
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }

    fn overlaps(&self, range: &Range<usize>) -> bool {
        self.start < range.end && range.start < self.start + self.bytes
    }
}

/// The known contents of registers and stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbstractState {
    registers: [AbstractValue; 11],
    /// The values on the stack. No two of them share a byte.
    spills: Vec<StackSpill>,
    /// A bit for each byte of the stack that was written on all paths.
    written: [u64; WORDS],
}

impl AbstractState {
    /// Creates the state at the beginning of an iteration.
    pub fn new(allocates: bool) -> AbstractState {
        let mut state = AbstractState {
            registers: [AbstractValue::Unknown; 11],
            spills: Vec::new(),
            written: [0; WORDS],
        };
        let number = |symbol| AbstractValue::number(NumberBounds::ALL).named(symbol);
        state.set(Register::R1, AbstractValue::origin(ProgramWindow::Node));
        state.set(
            Register::R2,
            AbstractValue::origin(ProgramWindow::Scratchpad),
        );
        state.set(Register::R3, number(ValueSymbol::ADDRESS));
        // Without a list of free regions there is no allocation, and both registers stay unknown.
        if allocates {
            state.set(
                Register::R4,
                AbstractValue::origin(ProgramWindow::Allocation),
            );
            state.set(Register::R5, number(ValueSymbol::REGION));
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

    /// Returns the value of a register with a name, so that copies of it have the same one. It gets
    /// the given name if it has none.
    pub fn named(&mut self, register: Register, symbol: ValueSymbol) -> AbstractValue {
        let mut value = self.get(register);
        if value.symbol().is_none() {
            value = value.named(symbol);
            self.set(register, value);
        }
        value
    }

    /// Keeps what is true on both of two paths that join.
    pub fn join(&mut self, other: &AbstractState) {
        for (value, other) in self.registers.iter_mut().zip(other.registers) {
            *value = value.join(other);
        }
        for (bits, other) in self.written.iter_mut().zip(other.written) {
            *bits &= other;
        }
        let mine = std::mem::take(&mut self.spills);
        for spill in &mine {
            let there = other.spill(spill.start, spill.bytes);
            let value = spill.value.join(there);
            if value != AbstractValue::Unknown {
                self.spills.push(StackSpill { value, ..*spill });
            } else if spill.value.is_address() {
                // On one path these bytes are an address, on the other they are not. They must not
                // be loaded, because a program must not see addresses as numbers.
                self.unwrite(spill.range());
            }
        }
        for spill in &other.spills {
            // The loop above has joined the values that both have at the same place.
            let kept = self.spill(spill.start, spill.bytes) != AbstractValue::Unknown;
            if !kept && spill.value.is_address() {
                self.unwrite(spill.range());
            }
        }
    }

    /// Notes a store into the stack at any of the places from `min` to `max`, counted from the
    /// stack's start.
    pub fn store(&mut self, min: usize, max: usize, size: OperandSize, value: AbstractValue) {
        let bytes = size.bytes() as usize;
        debug_assert!(
            min <= max && max + bytes <= STACK_BYTES,
            "bounds are checked before"
        );
        let range = min..max + bytes;
        let (lost, kept): (Vec<StackSpill>, Vec<StackSpill>) = std::mem::take(&mut self.spills)
            .into_iter()
            .partition(|spill| spill.overlaps(&range));
        self.spills = kept;
        for spill in lost {
            // The remaining part of an address is not a number that a program may see.
            if spill.value.is_address() {
                self.unwrite(spill.range());
            }
        }
        // If the place depends on data, no byte is certain to be written.
        if min != max {
            return;
        }
        for byte in range {
            self.written[byte / 64] |= 1 << (byte % 64);
        }
        let value = match value {
            // The bytes hold the lower part of the number.
            AbstractValue::Number(number) => {
                if self.spills.len() >= SPILLS_MAX {
                    return;
                }
                AbstractValue::Number(truncated(number, size))
            }
            value => value,
        };
        let start = min;
        self.spills.push(StackSpill {
            start,
            bytes,
            value,
        });
    }

    /// Returns the value that a load gets, if it was stored and has a single place.
    pub fn load(&self, min: usize, max: usize, size: OperandSize) -> Option<AbstractValue> {
        if min != max {
            return None;
        }
        let bytes = size.bytes() as usize;
        let spill = self.spills.iter().find(|spill| spill.start == min)?;
        match spill.value {
            value if spill.bytes == bytes => Some(value),
            // Memory is little-endian: the first bytes are the lower part of the number.
            AbstractValue::Number(number) if spill.bytes > bytes => {
                Some(AbstractValue::Number(truncated(number, size)))
            }
            _ => None,
        }
    }

    /// Returns the first byte of a range of the stack that is not written, or holds a part of an
    /// address.
    pub fn unwritten(&self, range: Range<usize>) -> Option<usize> {
        debug_assert!(range.end <= STACK_BYTES, "bounds are checked before");
        let is_written = |byte: usize| self.written[byte / 64] >> (byte % 64) & 1 == 1;
        let of_address = |byte: usize| {
            let mut spills = self.spills.iter();
            spills.any(|spill| spill.value.is_address() && spill.range().contains(&byte))
        };
        range
            .into_iter()
            .find(|&byte| !is_written(byte) || of_address(byte))
    }

    /// Notes that the number in a register is within bounds, and so are all that depend on it.
    pub fn learn(&mut self, register: Register, bounds: NumberBounds) {
        let AbstractValue::Number(number) = self.get(register) else {
            return;
        };
        // Both bounds hold on this path. If nothing is within both, no execution takes it, and any
        // bounds are right.
        let both = |known: NumberBounds| known.meet(bounds).unwrap_or(known);
        let bounds = both(number.bounds);
        self.set(
            register,
            AbstractValue::Number(AbstractNumber { bounds, ..number }),
        );
        if let Some(symbol) = number.symbol {
            self.change(symbol, |known| known.meet(bounds).unwrap_or(known));
        }
        // The sum less the constant is the other number, with or without wrapping around.
        let less = |plus| bounds.alu(Width::W64, AluOperation::Subtract, NumberBounds::one(plus));
        match number.relation {
            Some(SymbolRelation::LowHalf(LowOrigin { of, sum })) => {
                self.learn_low(of, bounds);
                if let Some((of, plus)) = sum {
                    self.learn_low(of, less(plus));
                }
            }
            Some(SymbolRelation::Sum {
                of,
                plus,
                width: Width::W64,
            }) => self.change(of, |known| known.meet(less(plus)).unwrap_or(known)),
            Some(SymbolRelation::Sum {
                of,
                plus,
                width: Width::W32,
            }) => self.learn_low(of, less(plus)),
            _ => {}
        }
    }

    /// Notes that the lower half of the numbers with a symbol is that of numbers within bounds.
    fn learn_low(&mut self, symbol: ValueSymbol, bounds: NumberBounds) {
        self.change(symbol, |known| known.meet_low(bounds.low).unwrap_or(known));
    }

    /// Changes the bounds of all numbers with a symbol.
    fn change(&mut self, symbol: ValueSymbol, change: impl Fn(NumberBounds) -> NumberBounds) {
        for value in self.values() {
            if let AbstractValue::Number(number) = value
                && number.symbol == Some(symbol)
            {
                number.bounds = change(number.bounds);
            }
        }
    }

    /// Notes the result of a comparison of an address with zero.
    pub fn learn_zero(&mut self, address: AbstractAddress, is_zero: bool) {
        // An address that cannot be zero tells nothing: no execution takes one of both paths.
        let Some(symbol) = address.symbol.filter(|_| address.or_zero) else {
            return;
        };
        for value in self.values() {
            if value.symbol() != Some(symbol) {
                continue;
            }
            if let AbstractValue::Address(address) = value {
                address.or_zero = false;
                if is_zero {
                    *value = AbstractValue::number(NumberBounds::one(0)).named(symbol);
                }
            }
        }
    }

    fn values(&mut self) -> impl Iterator<Item = &mut AbstractValue> {
        let spills = self.spills.iter_mut().map(|spill| &mut spill.value);
        self.registers.iter_mut().chain(spills)
    }

    /// Returns the value of the same bytes of the stack.
    fn spill(&self, start: usize, bytes: usize) -> AbstractValue {
        let mut spills = self.spills.iter();
        let found = spills.find(|spill| (spill.start, spill.bytes) == (start, bytes));
        found.map_or(AbstractValue::Unknown, |spill| spill.value)
    }

    fn unwrite(&mut self, range: Range<usize>) {
        for byte in range {
            self.written[byte / 64] &= !(1 << (byte % 64));
        }
    }
}

/// Returns the lower part of a number. It is the same number if that has no other part.
fn truncated(number: AbstractNumber, size: OperandSize) -> AbstractNumber {
    let bounds = number.bounds.truncated(size);
    match bounds == number.bounds {
        true => number,
        false => AbstractNumber::new(bounds),
    }
}

//! The knowledge of the verifier about a register or a part of the stack.

use super::number::NumberBounds;
use crate::isa::Width;
use crate::program::ProgramWindow;

/// The largest number that is added to an address, and the largest that is subtracted. Windows are
/// much shorter. The bound keeps sums of distances from wrapping around: code has at most 1,024
/// instructions, none of which is executed twice.
pub const DISTANCE_MAX: i64 = 1 << 20;

/// The name of a value: in one execution, everything with the same symbol is equal.
///
/// It is the number of the instruction that computed the value, or of the first one that used it
/// after paths had joined. Code has no loop, so an execution visits that instruction once, and the
/// name has one meaning on all paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSymbol(u32);

impl ValueSymbol {
    /// The current address in register 3.
    pub const ADDRESS: ValueSymbol = ValueSymbol(u32::MAX);
    /// The address of the new allocation in register 5.
    pub const REGION: ValueSymbol = ValueSymbol(u32::MAX - 1);

    /// Returns the name of the result of an instruction.
    pub fn of_result(index: usize) -> ValueSymbol {
        ValueSymbol(2 * index as u32)
    }

    /// Returns the name that an instruction gives to one of its operands.
    pub fn of_operand(index: usize) -> ValueSymbol {
        // Code has far fewer instructions than there are names.
        ValueSymbol(2 * index as u32 + 1)
    }
}

/// A number by which another one was divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownDivisor {
    symbol: Option<ValueSymbol>,
    min: u64,
    max: u64,
}

impl KnownDivisor {
    /// Returns the divisor, if it can be recognized later: by its symbol, or as a constant.
    pub fn of(number: AbstractNumber) -> Option<KnownDivisor> {
        let is_known = number.symbol.is_some() || number.bounds.single().is_some();
        is_known.then_some(KnownDivisor {
            symbol: number.symbol,
            min: number.bounds.whole.min,
            max: number.bounds.whole.max,
        })
    }

    /// Returns true if a number is certain to be this one.
    pub fn is(self, number: AbstractNumber) -> bool {
        let constant = (self.min == self.max).then_some(self.min);
        let same_symbol = self.symbol.is_some() && self.symbol == number.symbol;
        same_symbol || constant.is_some() && constant == number.bounds.single()
    }

    pub fn bounds(self) -> NumberBounds {
        NumberBounds::unsigned(self.min, self.max)
    }
}

/// The computation of a number from another one, as far as later instructions can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolRelation {
    /// The quotient of both, without sign.
    Quotient(KnownDivision),
    /// The quotient times the divisor. Subtracted from the dividend, it leaves the remainder.
    Multiple(KnownDivision),
    /// The other number, shifted left by 32 bits.
    Raised {
        of: LowOrigin,
        /// The other number has no upper half.
        is_low: bool,
        /// The other number extends the sign of its lower half.
        extends: bool,
    },
    /// The lower half is that of the other number.
    LowHalf(LowOrigin),
    /// The sum of the other number and a constant, in one width.
    Sum {
        of: ValueSymbol,
        plus: u64,
        width: Width,
    },
}

/// A division without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownDivision {
    pub of: ValueSymbol,
    /// A number whose lower half is the dividend, if the dividend was taken from one.
    pub low_of: Option<ValueSymbol>,
    pub by: KnownDivisor,
    /// The dividend has no upper half.
    pub is_low: bool,
}

/// The number that a lower half was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowOrigin {
    pub of: ValueSymbol,
    /// The lower half is also that of a sum of a number and a constant.
    pub sum: Option<(ValueSymbol, u64)>,
}

impl LowOrigin {
    /// Returns the origin of a lower half that is taken from a number with a name.
    pub fn of(number: AbstractNumber) -> Option<LowOrigin> {
        let sum = match number.relation {
            Some(SymbolRelation::Sum { of, plus, .. }) => Some((of, plus)),
            _ => None,
        };
        number.symbol.map(|of| LowOrigin { of, sum })
    }
}

/// A number that a register may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbstractNumber {
    pub bounds: NumberBounds,
    pub symbol: Option<ValueSymbol>,
    pub relation: Option<SymbolRelation>,
}

impl AbstractNumber {
    /// Creates a number of which only the bounds are known.
    pub const fn new(bounds: NumberBounds) -> AbstractNumber {
        AbstractNumber {
            bounds,
            symbol: None,
            relation: None,
        }
    }

    fn join(self, other: AbstractNumber) -> AbstractNumber {
        AbstractNumber {
            bounds: self.bounds.join(other.bounds),
            symbol: self.symbol.filter(|_| self.symbol == other.symbol),
            relation: self.relation.filter(|_| self.relation == other.relation),
        }
    }
}

/// An address within or near a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbstractAddress {
    pub window: ProgramWindow,
    /// The least number of bytes after the window's origin.
    pub min: i64,
    /// The greatest number of bytes after the window's origin.
    pub max: i64,
    /// True if it may be the number zero instead.
    pub or_zero: bool,
    pub symbol: Option<ValueSymbol>,
}

/// The content of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbstractValue {
    /// Nothing known: not written on some path, or not the same kind on all paths.
    Unknown,
    /// A number.
    Number(AbstractNumber),
    /// An address.
    Address(AbstractAddress),
}

impl AbstractValue {
    /// Creates a number of which only the bounds are known.
    pub const fn number(bounds: NumberBounds) -> AbstractValue {
        AbstractValue::Number(AbstractNumber::new(bounds))
    }

    /// Creates the address where a window begins.
    pub const fn origin(window: ProgramWindow) -> AbstractValue {
        AbstractValue::Address(AbstractAddress {
            window,
            min: 0,
            max: 0,
            or_zero: false,
            symbol: None,
        })
    }

    /// Returns the name of the value, if it has one.
    pub fn symbol(self) -> Option<ValueSymbol> {
        match self {
            AbstractValue::Unknown => None,
            AbstractValue::Number(number) => number.symbol,
            AbstractValue::Address(address) => address.symbol,
        }
    }

    /// Returns the value with another name.
    pub fn named(self, symbol: ValueSymbol) -> AbstractValue {
        let symbol = Some(symbol);
        match self {
            AbstractValue::Unknown => self,
            AbstractValue::Number(number) => {
                AbstractValue::Number(AbstractNumber { symbol, ..number })
            }
            AbstractValue::Address(address) => {
                AbstractValue::Address(AbstractAddress { symbol, ..address })
            }
        }
    }

    /// Returns true if it may be an address.
    pub fn is_address(self) -> bool {
        matches!(self, AbstractValue::Address(_))
    }

    /// Returns what is true of both values.
    pub fn join(self, other: AbstractValue) -> AbstractValue {
        match (self, other) {
            (AbstractValue::Number(a), AbstractValue::Number(b)) => {
                AbstractValue::Number(a.join(b))
            }
            (AbstractValue::Address(a), AbstractValue::Address(b)) if a.window == b.window => {
                AbstractValue::Address(AbstractAddress {
                    window: a.window,
                    min: a.min.min(b.min),
                    max: a.max.max(b.max),
                    or_zero: a.or_zero || b.or_zero,
                    symbol: a.symbol.filter(|_| a.symbol == b.symbol),
                })
            }
            // A null pointer of C: a comparison with zero tells which of both it is.
            (AbstractValue::Address(address), AbstractValue::Number(number))
            | (AbstractValue::Number(number), AbstractValue::Address(address))
                if number.bounds.single() == Some(0) =>
            {
                AbstractValue::Address(AbstractAddress {
                    or_zero: true,
                    symbol: None,
                    ..address
                })
            }
            _ => AbstractValue::Unknown,
        }
    }
}

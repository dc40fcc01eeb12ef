//! The assembler from text to code.

use super::names;
use crate::isa::{
    BpfBuildError, BpfBuilder, BpfCode, Instruction, Label, Operand, OperandSize, Register,
};
use std::collections::HashMap;

/// The reason why text does not assemble. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// No instruction has this name.
    #[error("line {line}: there is no instruction {name:?}")]
    UnknownName {
        /// The line.
        line: usize,
        /// The name.
        name: String,
    },
    /// An instruction has too few or too many operands.
    #[error("line {line}: {name} has {expected} operands, not {found}")]
    OperandCount {
        /// The line.
        line: usize,
        /// The instruction.
        name: String,
        /// Number of operands that the instruction has.
        expected: usize,
        /// Number of operands found.
        found: usize,
    },
    /// An operand does not parse.
    #[error("line {line}: {operand:?} is not {expected}")]
    Operand {
        /// The line.
        line: usize,
        /// The operand.
        operand: String,
        /// The expected kind of operand.
        expected: &'static str,
    },
    /// Two lines have the same label.
    #[error("line {line}: the label {label:?} is already placed")]
    RepeatedLabel {
        /// The line of the second.
        line: usize,
        /// The label.
        label: String,
    },
    /// A jump goes to a label that no line has.
    #[error("line {line}: there is no label {label:?}")]
    UnknownLabel {
        /// The line of the jump.
        line: usize,
        /// The label.
        label: String,
    },
    /// The instructions do not form valid code.
    #[error(transparent)]
    Build(#[from] BpfBuildError),
}

/// Assembles a text. The module [`text`](super) lists the names of instructions.
///
/// ```
/// use nearfield_offload::isa::assemble;
/// let error = assemble("mov r0, r11").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "line 1: \"r11\" is not a register or a number of 32 bits"
/// );
/// ```
///
/// # Errors
/// See [`AssembleError`].
pub fn assemble(text: &str) -> Result<BpfCode, AssembleError> {
    let mut assembler = Assembler::default();
    for (index, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        assembler.line(index + 1, code)?;
    }
    // The builder would find an unplaced label, too, but knows neither its name nor its line.
    for (label, used) in &assembler.labels {
        if let (false, line) = (used.placed, used.line) {
            let label = (*label).to_owned();
            return Err(AssembleError::UnknownLabel { line, label });
        }
    }
    Ok(assembler.builder.build()?)
}

#[derive(Default)]
struct Assembler<'t> {
    builder: BpfBuilder,
    labels: HashMap<&'t str, NamedLabel>,
}

struct NamedLabel {
    label: Label,
    placed: bool,
    /// The first line that names it.
    line: usize,
}

impl<'t> Assembler<'t> {
    fn line(&mut self, line: usize, mut text: &'t str) -> Result<(), AssembleError> {
        // Several labels may stand before an instruction.
        while let Some((label, rest)) = text.split_once(':') {
            self.place(line, label.trim())?;
            text = rest;
        }
        let text = text.trim();
        if text.is_empty() {
            return Ok(());
        }
        let (name, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let operands: Vec<&str> = match operands.trim() {
            "" => Vec::new(),
            operands => operands.split(',').map(str::trim).collect(),
        };
        let line = AssemblyLine {
            line,
            name,
            operands,
        };
        let (instruction, target) = line.instruction()?;
        // A distance such as `+2` is in the instruction already; anything else is a label.
        let distance = target.filter(|target| target.starts_with(['+', '-']));
        match (target, distance) {
            (Some(label), None) => {
                let label = self.named(line.line, label).label;
                self.builder.jump_by(instruction, label);
            }
            _ => self.builder.instruction(instruction),
        }
        Ok(())
    }

    fn named(&mut self, line: usize, name: &'t str) -> &mut NamedLabel {
        let builder = &mut self.builder;
        // Jumps go forward mostly, so a label is used before it is placed.
        self.labels.entry(name).or_insert_with(|| NamedLabel {
            label: builder.label(),
            placed: false,
            line,
        })
    }

    fn place(&mut self, line: usize, name: &'t str) -> Result<(), AssembleError> {
        let is_name = |name: &str| {
            let mut letters = name.chars();
            let begins = letters
                .next()
                .is_some_and(|first| first.is_alphabetic() || first == '_');
            begins && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
        };
        if !is_name(name) {
            return Err(AssembleError::Operand {
                line,
                operand: name.to_owned(),
                expected: "the name of a label",
            });
        }
        let named = self.named(line, name);
        if named.placed {
            let label = name.to_owned();
            return Err(AssembleError::RepeatedLabel { line, label });
        }
        named.placed = true;
        let label = named.label;
        self.builder.place(label);
        Ok(())
    }
}

struct AssemblyLine<'t> {
    line: usize,
    name: &'t str,
    operands: Vec<&'t str>,
}

type Targeted<'t> = (Instruction, Option<&'t str>);

impl<'t> AssemblyLine<'t> {
    /// Returns the instruction, and the target if it jumps. A distance is already in the
    /// instruction.
    fn instruction(&self) -> Result<Targeted<'t>, AssembleError> {
        if let Some(jump) = self.jump()? {
            return Ok(jump);
        }
        let instruction = match self.memory()? {
            Some(instruction) => instruction,
            None => self.arithmetic()?,
        };
        Ok((instruction, None))
    }

    fn jump(&self) -> Result<Option<Targeted<'t>>, AssembleError> {
        let (name, width) = names::width_of(self.name);
        // `ja32` keeps its suffix: it stands for the length of the distance, not for a width.
        let jump = match self.name {
            "exit" => {
                self.operands::<0>()?;
                (Instruction::Exit, None)
            }
            "ja" => {
                let [target] = self.operands()?;
                let distance = self.distance(target)?;
                (Instruction::Jump { distance }, Some(target))
            }
            "ja32" => {
                let [target] = self.operands()?;
                let distance = self.distance(target)?;
                (Instruction::LongJump { distance }, Some(target))
            }
            "call" => {
                let [target] = self.operands()?;
                let distance = self.distance(target)?;
                (Instruction::Call { distance }, Some(target))
            }
            _ => {
                let Some(condition) = names::named(&names::CONDITIONS, name) else {
                    return Ok(None);
                };
                let [left, right, target] = self.operands()?;
                let branch = Instruction::Branch {
                    width,
                    condition,
                    left: self.register(left)?,
                    right: self.operand(right)?,
                    distance: self.distance(target)?,
                };
                (branch, Some(target))
            }
        };
        Ok(Some(jump))
    }

    fn memory(&self) -> Result<Option<Instruction>, AssembleError> {
        if self.name == "lddw" {
            let [destination, value] = self.operands()?;
            let read =
                number(value).filter(|value| (i64::MIN.into()..=u64::MAX.into()).contains(value));
            return Ok(Some(Instruction::LoadImmediate {
                destination: self.register(destination)?,
                value: read.ok_or_else(|| self.error(value, "a number of 64 bits"))? as u64,
            }));
        }
        let size = |name| names::named(&names::SIZES, name);
        if let Some(name) = self.name.strip_prefix("ldx") {
            let signed = name.strip_prefix('s').and_then(size);
            // There is no `ldxsdw`: 8 bytes fill the register.
            let signed = signed.filter(|&size| size != OperandSize::Double);
            let Some(found) = signed.or_else(|| size(name)) else {
                return Ok(None);
            };
            let [destination, place] = self.operands()?;
            let (base, offset) = self.place(place)?;
            return Ok(Some(Instruction::Load {
                size: found,
                signed: signed.is_some(),
                destination: self.register(destination)?,
                base,
                offset,
            }));
        }
        let stored = self.name.strip_prefix("stx").and_then(size);
        // No size begins with `x`, so that `stxw` is not taken for a store of a constant.
        let constant = self.name.strip_prefix("st").and_then(size);
        let Some(found) = stored.or(constant) else {
            return Ok(None);
        };
        let [place, source] = self.operands()?;
        let (base, offset) = self.place(place)?;
        let source = match stored {
            Some(_) => self.register(source)?.into(),
            None => self.immediate(source)?.into(),
        };
        Ok(Some(Instruction::Store {
            size: found,
            base,
            offset,
            source,
        }))
    }

    fn arithmetic(&self) -> Result<Instruction, AssembleError> {
        let extension = names::named(&names::SIGN_EXTENSIONS, self.name);
        if let Some((from, width)) = extension {
            let [destination, source] = self.operands()?;
            return Ok(Instruction::SignExtend {
                width,
                from,
                destination: self.register(destination)?,
                source: self.register(source)?,
            });
        }
        for (order, prefix) in names::ORDERS {
            let size = match self.name.strip_prefix(prefix) {
                Some("16") => OperandSize::Half,
                Some("32") => OperandSize::Word,
                Some("64") => OperandSize::Double,
                _ => continue,
            };
            let [destination] = self.operands()?;
            return Ok(Instruction::Reorder {
                order,
                size,
                destination: self.register(destination)?,
            });
        }
        let (name, width) = names::width_of(self.name);
        if name == "neg" {
            let [destination] = self.operands()?;
            let destination = self.register(destination)?;
            return Ok(Instruction::Negate { width, destination });
        }
        let Some(operation) = names::named(&names::ALU, name) else {
            return Err(AssembleError::UnknownName {
                line: self.line,
                name: self.name.to_owned(),
            });
        };
        let [destination, source] = self.operands()?;
        Ok(Instruction::Alu {
            width,
            operation,
            destination: self.register(destination)?,
            source: self.operand(source)?,
        })
    }

    fn operands<const N: usize>(&self) -> Result<[&'t str; N], AssembleError> {
        let operands = self.operands.as_slice();
        operands
            .try_into()
            .map_err(|_| AssembleError::OperandCount {
                line: self.line,
                name: self.name.to_owned(),
                expected: N,
                found: operands.len(),
            })
    }

    fn register(&self, text: &str) -> Result<Register, AssembleError> {
        register(text).ok_or_else(|| self.error(text, "a register"))
    }

    fn immediate(&self, text: &str) -> Result<i32, AssembleError> {
        immediate(text).ok_or_else(|| self.error(text, "a number of 32 bits"))
    }

    fn operand(&self, text: &str) -> Result<Operand, AssembleError> {
        let operand = register(text).map(Operand::from);
        let operand = operand.or_else(|| immediate(text).map(Operand::from));
        operand.ok_or_else(|| self.error(text, "a register or a number of 32 bits"))
    }

    /// Parses the distance of `+7`. Returns zero if the target is a label.
    fn distance<T: TryFrom<i128> + Default>(&self, text: &str) -> Result<T, AssembleError> {
        if !text.starts_with(['+', '-']) {
            return Ok(T::default());
        }
        let distance = number(text).and_then(|distance| T::try_from(distance).ok());
        distance.ok_or_else(|| self.error(text, "a distance that fits"))
    }

    /// Parses the register and the offset of `[r1+8]`.
    fn place(&self, text: &str) -> Result<(Register, i16), AssembleError> {
        let inside = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        let read = inside.and_then(|inside| {
            let end = inside.find(['+', '-']).unwrap_or(inside.len());
            let (base, offset) = inside.split_at_checked(end)?;
            let offset = match offset {
                "" => 0,
                offset => i16::try_from(number(offset)?).ok()?,
            };
            Some((register(base.trim())?, offset))
        });
        read.ok_or_else(|| self.error(text, "a place such as [r1+8]"))
    }

    fn error(&self, operand: &str, expected: &'static str) -> AssembleError {
        AssembleError::Operand {
            line: self.line,
            operand: operand.to_owned(),
            expected,
        }
    }
}

fn register(text: &str) -> Option<Register> {
    let names = Register::ALL.into_iter();
    names
        .into_iter()
        .find(|register| register.to_string() == text)
}

/// Parses a number of 32 bits, with or without sign.
fn immediate(text: &str) -> Option<i32> {
    let value = number(text)?;
    // Numbers from 2³¹ on are the bits of negative ones, as in `0xffffffff`.
    let fits = (i32::MIN.into()..=u32::MAX.into()).contains(&value);
    fits.then_some(value as i32)
}

/// Parses `-5`, `+5`, `5`, `0x5` or `-0x5`.
fn number(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    // `parse` and `from_str_radix` accept a sign: `-+5` would be a number.
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let value = match digits.strip_prefix("0x") {
        Some(digits) if !digits.starts_with(['+', '-']) => i128::from_str_radix(digits, 16).ok()?,
        Some(_) => return None,
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

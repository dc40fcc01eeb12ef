//! The disassembler from code to text.

use super::names;
use crate::isa::{BpfCode, Instruction, Operand, Width};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Returns the text of code, with a label for each target of a jump. [`assemble`](super::assemble)
/// makes the same code of it.
///
/// ```
/// use nearfield_offload::isa::{assemble, disassemble};
/// let code = assemble("jeq r1, 0, +1\n mov32 r0, r1\n exit")?;
/// assert_eq!(disassemble(&code), "    jeq r1, 0, L2\n    mov32 r0, r1\nL2:\n    exit\n");
/// # Ok::<(), nearfield_offload::isa::AssembleError>(())
/// ```
pub fn disassemble(code: &BpfCode) -> String {
    let count = code.instructions().len();
    let targets: BTreeSet<usize> = (0..count).filter_map(|index| code.target(index)).collect();
    let mut text = String::new();
    for (index, instruction) in code.instructions().iter().enumerate() {
        if targets.contains(&index) {
            // Writing to a string does not fail.
            let _ = writeln!(text, "L{}:", code.slot(index));
        }
        let _ = writeln!(text, "    {}", line(code, index, instruction));
    }
    text
}

impl BpfCode {
    /// Returns the text of one instruction; empty if there is none at the index.
    pub fn instruction_text(&self, index: usize) -> String {
        let instruction = self.instructions().get(index);
        instruction.map_or_else(String::new, |instruction| line(self, index, instruction))
    }
}

fn line(code: &BpfCode, index: usize, instruction: &Instruction) -> String {
    // A label is the number of its slot, which is unique and which errors name, too.
    let label = code.target(index).map(|target| code.slot(target));
    let label = label.unwrap_or_default();
    match *instruction {
        Instruction::Alu {
            width,
            operation,
            destination,
            source,
        } => {
            let name = names::name_of(&names::ALU, operation);
            format!("{name}{} {destination}, {source}", suffix(width))
        }
        Instruction::Negate { width, destination } => {
            format!("neg{} {destination}", suffix(width))
        }
        Instruction::SignExtend {
            width,
            from,
            destination,
            source,
        } => {
            let name = names::name_of(&names::SIGN_EXTENSIONS, (from, width));
            format!("{name} {destination}, {source}")
        }
        Instruction::Reorder {
            order,
            size,
            destination,
        } => {
            let name = names::name_of(&names::ORDERS, order);
            format!("{name}{} {destination}", size.bits())
        }
        Instruction::LoadImmediate { destination, value } => {
            format!("lddw {destination}, {value:#x}")
        }
        Instruction::Load {
            size,
            signed,
            destination,
            base,
            offset,
        } => {
            let sign = if signed { "s" } else { "" };
            let name = names::name_of(&names::SIZES, size);
            format!("ldx{sign}{name} {destination}, [{base}{offset:+}]")
        }
        Instruction::Store {
            size,
            base,
            offset,
            source,
        } => {
            let kind = match source {
                Operand::Register(_) => "stx",
                Operand::Immediate(_) => "st",
            };
            let name = names::name_of(&names::SIZES, size);
            format!("{kind}{name} [{base}{offset:+}], {source}")
        }
        Instruction::Jump { .. } => format!("ja L{label}"),
        Instruction::LongJump { .. } => format!("ja32 L{label}"),
        Instruction::Branch {
            width,
            condition,
            left,
            right,
            ..
        } => {
            let name = names::name_of(&names::CONDITIONS, condition);
            format!("{name}{} {left}, {right}, L{label}", suffix(width))
        }
        Instruction::Call { .. } => format!("call L{label}"),
        Instruction::Exit => String::from("exit"),
    }
}

fn suffix(width: Width) -> &'static str {
    match width {
        Width::W32 => "32",
        Width::W64 => "",
    }
}

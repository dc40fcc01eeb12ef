//! The code of the program that reads leaves.
//!
//! An iteration reads one group of a leaf: a replica of the metadata and the entries behind it. The
//! offsets of entries follow from the address, because each line begins with a byte of versions: if
//! that byte falls into an entry, the parts before and behind it are joined.

use super::program::{Protection, ScanResultKind};
use super::scratchpad::{BEYOND, COUNT, HIGH, LEAF, LEAVES, LIST, LOW, MAX, MIN, MORE};
use super::scratchpad::{CHANGED, FULL, GONE, LIST_MAX, PRESENT};
use super::scratchpad::{FIRST, SEEN, SIBLING, STAGE, STOP, SUM_LOWER, SUM_UPPER};
use crate::layout::PoolLeafLayout;
use nearfield_fabric::recovery::lease::HELD_BIT;
use nearfield_fabric::{LINE_BYTES, WORD_BYTES};
use nearfield_offload::isa::Register::{self, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use nearfield_offload::isa::{
    AluOperation, BpfBuildError, BpfBuilder, BranchCondition, ByteOrder, Instruction, Label,
    Operand, OperandSize, Width,
};
use nearfield_offload::program::NODE_BYTES_MAX;

/// The offsets of the parts of leaves, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct LeafFieldOffsets {
    pub groups: usize,
    slots: usize,
    span: usize,
    replica: usize,
    entry: usize,
    key: usize,
    value: usize,
    /// Set if keys are words followed by a byte that is zero in an empty slot.
    has_suffix: bool,
    /// Offset on the wire behind the last entry.
    end: usize,
    /// Offset on the wire of the word that guards the leaf.
    guard: usize,
}

const WORD: usize = WORD_BYTES as usize;
const LINE: usize = LINE_BYTES as usize;
/// Offsets in a replica: of the byte that is set if the leaf is valid, and of the address of its
/// sibling.
const VALID: usize = 1;
const SIBLING_AT: usize = 2;
/// Position of a lock word's bit that is set while the lock is held.
const HELD_AT: i32 = HELD_BIT.trailing_zeros() as i32;

impl LeafFieldOffsets {
    /// Creates the offsets in leaves of a layout; returns `None` if entries are not words, or a
    /// group does not fit one load.
    pub fn new(layout: &PoolLeafLayout, protection: Protection) -> Option<LeafFieldOffsets> {
        let shape = layout.geometry().shape();
        let (groups, span) = (layout.groups(), layout.span());
        let slots = span.checked_div(groups)?;
        let places = LeafFieldOffsets {
            groups,
            slots,
            span,
            replica: layout.replica_bytes(),
            entry: layout.entry_bytes(),
            key: layout.key(0).start - layout.replica_bytes(),
            value: layout.value(0).start - layout.replica_bytes(),
            has_suffix: shape.key_bytes == WORD + 1,
            end: layout.group_place(groups),
            guard: match protection {
                Protection::Counter => layout.lock_offset() + WORD,
                Protection::Stamp => layout.lock_offset(),
            },
        };
        let are_words = matches!(shape.key_bytes, WORD | 9) && shape.value_bytes == WORD;
        let are_whole = slots * groups == span;
        // No part has bytes of versions at two offsets.
        let are_short = places.entry < LINE && places.replica < LINE;
        // Loads stay within the memory of the leaf.
        let load = places.load();
        let is_inside =
            (0..groups).all(|group| layout.group_place(group) + load <= layout.allocation_bytes());
        let fits = load <= NODE_BYTES_MAX.min(places.guard) && is_inside;
        (are_words && are_whole && are_short && fits).then_some(places)
    }

    /// Returns the bytes of a load: those of a group if each part of it had a byte of versions.
    fn load(&self) -> usize {
        self.replica + 1 + self.slots * (self.entry + 1)
    }

    /// Returns the offset of the guard in a load of the iteration that reads it.
    fn guard_in_load(&self) -> usize {
        debug_assert!(self.load() <= self.guard, "the load begins in the leaf");
        self.load() - WORD
    }

    /// Returns the offset in a leaf at which that load begins.
    pub fn guard_load(&self) -> usize {
        self.guard - self.guard_in_load()
    }
}

/// A program that is being generated.
///
/// | register | content in a group |
/// |---|---|
/// | 0, 4, 5 | temporary: the key, the value |
/// | 1 | the least key |
/// | 2 | the scratchpad |
/// | 6, 7 | the current entry, and its address as a number |
/// | 8 | the count of what was selected |
/// | 9, 3 | the sums of its lower and upper halves; in a list 9 is temporary |
pub struct LeafProgramBuilder {
    places: LeafFieldOffsets,
    protection: Protection,
    walk: ScanResultKind,
    builder: BpfBuilder,
}

/// Labels at the end of a program.
struct LeafProgramLabels {
    changed: Label,
    gone: Label,
    full: Label,
}

use AluOperation::{Add, And, ShiftLeft, ShiftRight, Subtract, Xor};
use BranchCondition::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};

impl LeafProgramBuilder {
    /// Generates the code of a walk over such leaves.
    pub fn write(
        places: LeafFieldOffsets,
        protection: Protection,
        walk: ScanResultKind,
    ) -> Result<nearfield_offload::isa::BpfCode, BpfBuildError> {
        let builder = BpfBuilder::new();
        let code = LeafProgramBuilder {
            places,
            protection,
            walk,
            builder,
        };
        code.all()
    }

    fn all(mut self) -> Result<nearfield_offload::isa::BpfCode, BpfBuildError> {
        let stops = LeafProgramLabels {
            changed: self.builder.label(),
            gone: self.builder.label(),
            full: self.builder.label(),
        };
        let (before, behind) = (self.builder.label(), self.builder.label());
        let last = self.places.groups as i32 + 1;
        self.get(R4, STAGE);
        self.builder.branch(Equal, R4, 0, before);
        self.builder.branch(Equal, R4, last, behind);
        self.begin_group(&stops);
        for _ in 0..self.places.slots {
            self.entry();
        }
        let is_last = self.builder.label();
        self.put(PRESENT, R8);
        if self.walk == ScanResultKind::Aggregates {
            self.put(PRESENT + SUM_LOWER - COUNT, R9);
            self.put(PRESENT + SUM_UPPER - COUNT, R3);
        }
        self.get(R4, STAGE);
        self.builder.set(R0, R7);
        self.builder.branch(Equal, R4, last, is_last);
        self.builder.exit();
        self.builder.place(is_last);
        let distance = self.places.guard_load() as i32 - self.places.end as i32;
        self.builder.alu(Add, R0, distance);
        self.builder.exit();
        self.before_leaf(before, &stops);
        self.builder.place(behind);
        self.get_guard(R5);
        self.get(R4, SEEN);
        if self.protection.is_checked() {
            self.builder.branch(NotEqual, R5, R4, stops.changed);
        }
        self.end_leaf();
        let ends = [
            (stops.changed, CHANGED, self.protection.is_checked()),
            (stops.gone, GONE, true),
            (stops.full, FULL, self.walk == ScanResultKind::Entries),
        ];
        for (label, stop, _) in ends.into_iter().filter(|(.., is_used)| *is_used) {
            self.builder.place(label);
            self.put_constant(STOP, stop);
            self.builder.set(R0, 0);
            self.builder.exit();
        }
        self.builder.build()
    }

    /// Reads the guard before the first group.
    fn before_leaf(&mut self, before: Label, stops: &LeafProgramLabels) {
        self.builder.place(before);
        self.builder.set(R0, R3);
        let distance = self.places.guard_load();
        self.builder.alu(Subtract, R0, distance as i32);
        self.put(LEAF, R0);
        self.check_room(stops);
        self.get_guard(R5);
        self.put(SEEN, R5);
        match self.protection {
            // It is odd: a writer is at work.
            Protection::Counter => self.builder.alu(And, R5, 1),
            // The lock is held.
            Protection::Stamp => self.builder.alu(ShiftRight, R5, HELD_AT),
        }
        if self.protection.is_checked() {
            self.builder.branch(NotEqual, R5, 0, stops.changed);
        }
        self.put_constant(STAGE, 1);
        self.builder.exit();
    }

    /// Ends if a list may have no room for a leaf.
    fn check_room(&mut self, stops: &LeafProgramLabels) {
        if self.walk == ScanResultKind::Entries {
            self.get(R4, COUNT);
            debug_assert!(
                self.places.span <= LIST_MAX,
                "an empty list has room for a leaf"
            );
            // Checked before a leaf is read, because one that does not fit is read again by the
            // next run.
            let most = LIST_MAX.saturating_sub(self.places.span);
            self.builder.branch(Greater, R4, most as i32, stops.full);
        }
    }

    /// Reads the replica of a group, and continues with its first entry.
    fn begin_group(&mut self, stops: &LeafProgramLabels) {
        let known = self.builder.label();
        self.builder.set(R6, R1);
        self.builder.set(R7, R3);
        self.builder.branch(NotEqual, R4, 1, known);
        // The first replica has no byte of versions in it.
        self.builder.load(OperandSize::Byte, R5, R1, VALID as i16);
        self.builder.branch(Equal, R5, 0, stops.gone);
        self.builder
            .load(OperandSize::Double, R5, R1, SIBLING_AT as i16);
        self.put(SIBLING, R5);
        self.builder.place(known);
        self.builder.alu(Add, R4, 1);
        self.put(STAGE, R4);
        let (replica, entries) = (self.places.replica as i32, self.builder.label());
        self.within_line();
        self.builder.alu(Add, R6, replica);
        self.builder.alu(Add, R7, replica);
        let room = LINE as i32 - 1 - replica;
        self.builder.branch(LessOrEqual, R5, room, entries);
        self.builder.alu(Add, R6, 1);
        self.builder.alu(Add, R7, 1);
        self.builder.place(entries);
        self.get(R1, LOW);
        self.get(R8, PRESENT);
        if self.walk == ScanResultKind::Aggregates {
            self.get(R9, PRESENT + SUM_LOWER - COUNT);
            self.get(R3, PRESENT + SUM_UPPER - COUNT);
        }
    }

    /// Computes the offset of the current entry in its line, in register 5.
    fn within_line(&mut self) {
        // Nodes begin at lines, so the lowest bits of an address are the offset in a line.
        self.builder.set(R5, R7);
        self.builder.alu(And, R5, LINE as i32 - 1);
    }

    /// Takes the current entry, and continues with the next.
    fn entry(&mut self) {
        let (divided, read) = (self.builder.label(), self.builder.label());
        let (next, beyond) = (self.builder.label(), self.builder.label());
        let LeafFieldOffsets {
            key, value, entry, ..
        } = self.places;
        self.within_line();
        let room = LINE - entry;
        self.builder
            .branch(GreaterOrEqual, R5, room as i32, divided);
        self.suffix(key);
        self.builder.load(OperandSize::Double, R0, R6, key as i16);
        self.builder.load(OperandSize::Double, R4, R6, value as i16);
        self.builder.alu(Add, R6, entry as i32);
        self.builder.alu(Add, R7, entry as i32);
        self.builder.jump(read);
        self.builder.place(divided);
        self.divided_entry();
        self.builder.place(read);
        let of_empty = if self.places.has_suffix { R5 } else { R0 };
        self.builder.branch(Equal, of_empty, 0, next);
        self.builder
            .reorder(ByteOrder::Big, OperandSize::Double, R0);
        self.builder.branch(Less, R0, R1, next);
        self.get(R5, HIGH);
        self.builder.branch(Greater, R0, R5, beyond);
        match self.walk {
            ScanResultKind::Aggregates => self.aggregate(next),
            ScanResultKind::Entries => self.list(next),
        }
        self.builder.jump(next);
        self.builder.place(beyond);
        self.put_constant(BEYOND, 1);
        self.builder.place(next);
    }

    /// Loads the byte behind the key, if there is one, into register 5.
    fn suffix(&mut self, key: usize) {
        if self.places.has_suffix {
            let at = key + WORD;
            self.builder.load(OperandSize::Byte, R5, R6, at as i16);
        }
    }

    /// Reads an entry with a byte of versions in it, or right behind it: the byte of number
    /// `64 - r5`, counted from the entry's start.
    fn divided_entry(&mut self) {
        let LeafFieldOffsets {
            key, value, entry, ..
        } = self.places;
        let line = LINE as i32;
        let (in_value, behind_key) = (self.builder.label(), self.builder.label());
        let (behind_value, read) = (self.builder.label(), self.builder.label());
        self.builder.store(OperandSize::Double, R10, -8, R7);
        // Eight times the byte's number, because shifts count bits, modulo 64.
        self.builder.set(R7, R5);
        self.builder.alu(ShiftLeft, R7, 3);
        self.builder.instruction(Instruction::Negate {
            width: Width::W64,
            destination: R7,
        });
        self.builder
            .branch(LessOrEqual, R5, line - value as i32, in_value);
        // The byte is before the value.
        self.builder.load(OperandSize::Double, R0, R6, key as i16);
        if self.places.has_suffix {
            let least = line - (key + WORD) as i32;
            self.builder.branch(LessOrEqual, R5, least, behind_key);
        }
        self.builder
            .load(OperandSize::Double, R4, R6, key as i16 + 1);
        if key > 1 {
            // The byte is before the key.
            let in_key = self.builder.label();
            self.builder
                .branch(LessOrEqual, R5, line - key as i32, in_key);
            self.builder.set(R0, R4);
            self.builder.jump(behind_key);
            self.builder.place(in_key);
        }
        self.join(R0, R4, key);
        self.builder.place(behind_key);
        self.builder
            .load(OperandSize::Double, R4, R6, value as i16 + 1);
        self.suffix(key + 1);
        self.builder.jump(read);
        self.builder.place(in_value);
        self.builder.load(OperandSize::Double, R4, R6, value as i16);
        self.builder
            .branch(Equal, R5, line - entry as i32, behind_value);
        self.builder
            .load(OperandSize::Double, R5, R6, value as i16 + 1);
        self.join(R4, R5, value);
        self.builder.place(behind_value);
        self.builder.load(OperandSize::Double, R0, R6, key as i16);
        self.suffix(key);
        self.builder.place(read);
        self.builder.load(OperandSize::Double, R7, R10, -8);
        self.builder.alu(Add, R6, entry as i32 + 1);
        self.builder.alu(Add, R7, entry as i32 + 1);
    }

    /// Joins the parts of a word before and behind a byte of versions, where `lower` was loaded
    /// from its offset and `upper` from one byte further.
    fn join(&mut self, lower: Register, upper: Register, place: usize) {
        self.builder.alu(Subtract, R7, 8 * place as i32);
        self.builder.alu(Xor, upper, lower);
        self.builder.alu(ShiftRight, upper, R7);
        self.builder.alu(ShiftLeft, upper, R7);
        self.builder.alu(Xor, lower, upper);
    }

    /// Jumps to `next` if the filter does not select the value in register 4.
    fn filter(&mut self, temporary: Register, next: Label) {
        self.builder.set(R5, R4);
        self.get(temporary, FIRST);
        self.builder.alu(Subtract, R5, temporary);
        self.get(temporary, MORE);
        self.builder.branch(Greater, R5, temporary, next);
    }

    /// Aggregates the value in register 4.
    fn aggregate(&mut self, next: Label) {
        let compared = self.builder.label();
        let (min, max) = (MIN - COUNT, MAX - COUNT);
        self.filter(R0, next);
        self.builder.alu(Add, R8, 1);
        self.builder.set(R0, R4);
        self.builder.alu(ShiftRight, R0, 32);
        self.builder.alu(Add, R3, R0);
        self.builder.set(R0, R4);
        self.builder
            .reorder(ByteOrder::Little, OperandSize::Word, R0);
        self.builder.alu(Add, R9, R0);
        self.get(R0, PRESENT + min);
        self.builder.branch(GreaterOrEqual, R4, R0, compared);
        self.put(PRESENT + min, R4);
        self.builder.place(compared);
        self.get(R0, PRESENT + max);
        self.builder.branch(LessOrEqual, R4, R0, next);
        self.put(PRESENT + max, R4);
    }

    /// Appends key and value to the list.
    fn list(&mut self, next: Label) {
        self.filter(R9, next);
        // There is room for a leaf, but the verifier does not know that.
        self.builder
            .branch(GreaterOrEqual, R8, LIST_MAX as i32, next);
        self.builder.set(R5, R8);
        self.builder.alu(ShiftLeft, R5, 4);
        self.builder.alu(Add, R5, R2);
        let at = 8 * LIST as i16;
        self.builder.store(OperandSize::Double, R5, at, R0);
        self.builder.store(OperandSize::Double, R5, at + 8, R4);
        self.builder.alu(Add, R8, 1);
    }

    /// Counts the values of the leaf, and continues with the next one, if there is more.
    fn end_leaf(&mut self) {
        // Only here the results of the leaf count: both reads of the guard have found the same.
        let words = match self.walk {
            ScanResultKind::Aggregates => PRESENT - COUNT,
            ScanResultKind::Entries => 1,
        };
        for word in 0..words {
            self.get(R4, PRESENT + word);
            self.put(COUNT + word, R4);
        }
        self.get(R4, LEAVES);
        self.builder.alu(Add, R4, 1);
        self.put(LEAVES, R4);
        let end = self.builder.label();
        self.get(R4, BEYOND);
        self.builder.set(R0, 0);
        self.builder.branch(NotEqual, R4, 0, end);
        self.get(R0, SIBLING);
        self.builder.branch(Equal, R0, 0, end);
        self.put_constant(STAGE, 0);
        self.builder.alu(Add, R0, self.places.guard_load() as i32);
        self.builder.place(end);
        self.builder.exit();
    }

    /// Loads the guard.
    fn get_guard(&mut self, into: Register) {
        let place = self.places.guard_in_load() as i16;
        self.builder.load(OperandSize::Double, into, R1, place);
    }

    /// Loads a word of the scratchpad.
    fn get(&mut self, into: Register, word: usize) {
        debug_assert!(word < LIST, "the list is no field");
        self.builder
            .load(OperandSize::Double, into, R2, 8 * word as i16);
    }

    /// Stores a word of the scratchpad.
    fn put(&mut self, word: usize, from: Register) {
        debug_assert!(word < LIST, "the list is no field");
        self.builder
            .store(OperandSize::Double, R2, 8 * word as i16, from);
    }

    fn put_constant(&mut self, word: usize, value: i32) {
        let value = Operand::Immediate(value);
        self.builder
            .store(OperandSize::Double, R2, 8 * word as i16, value);
    }
}

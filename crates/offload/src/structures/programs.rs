//! The programs of all structures. Structures that differ only in the places of fields share one.
//!
//! Scratchpads begin with the key. The result follows: [`FOUND`], then key, value and address of
//! the entry.

use crate::isa::assemble;
use crate::program::{Declaration, SCRATCHPAD_BYTES_MAX, TraversalProgram};
use std::fmt::Write;
use std::sync::Arc;

/// The word of a scratchpad that is 1 if an entry was found.
pub const FOUND: usize = 1;
/// The word with the entry's key.
pub const ENTRY_KEY: usize = 2;
/// The word with the entry's value.
pub const ENTRY_VALUE: usize = 3;
/// The word with the address of the entry's node.
pub const ENTRY_NODE: usize = 4;
/// The first word after these.
pub const PARAMETERS: usize = 5;
const LOOKUP_BYTES: u16 = 48;
const _: () = assert!(LOOKUP_BYTES as usize == 8 * (PARAMETERS + 1));

/// Largest number of entries of a node of a B-tree or B+ tree.
pub const ENTRIES_MAX: usize = 9;

/// Assembles and verifies a program of this module. Tests show that none of them fails.
fn program(text: &str, scratchpad: u16) -> Arc<TraversalProgram> {
    let code = assemble(text).unwrap_or_else(|error| unreachable!("{error}: {text}"));
    let program = TraversalProgram::verify(code, Declaration::scratchpad(scratchpad));
    Arc::new(program.unwrap_or_else(|error| unreachable!("{error}: {text}")))
}

/// Returns the code that ends with the entry whose key is in register 6.
fn found(value: usize) -> String {
    format!(
        "stdw [r2+8], 1
         stxdw [r2+16], r6
         ldxdw r6, [r1+{value}]
         stxdw [r2+24], r6
         stxdw [r2+32], r3
         mov r0, 0
         exit\n"
    )
}

/// Returns the program that finds a key in a list. `next` and `key` are the places of a node's link
/// and key. Word 5 of the scratchpad is the address at which the list ends.
pub fn list_find(next: usize, key: usize) -> Arc<TraversalProgram> {
    let found = found(key);
    let text = format!(
        "    ldxdw r6, [r1+{key}]
             ldxdw r7, [r2]
             jne r6, r7, on
             {found}
         on: ldxdw r0, [r1+{next}]
             ldxdw r7, [r2+40]
             jne r0, r7, end
             mov r0, 0
         end: exit"
    );
    program(&text, LOOKUP_BYTES)
}

/// Returns the program that finds a key in a chain of a hash table. The arguments are the places of
/// link, key, value, and of a word that is zero in a bucket without entries.
pub fn chain_find(next: usize, key: usize, value: usize, used: usize) -> Arc<TraversalProgram> {
    let found = found(value);
    let text = format!(
        "    ldxdw r8, [r1+{used}]
             jeq r8, 0, on
             ldxdw r6, [r1+{key}]
             ldxdw r7, [r2]
             jne r6, r7, on
             {found}
         on: ldxdw r0, [r1+{next}]
             exit"
    );
    program(&text, LOOKUP_BYTES)
}

/// Largest number of keys of one query of [`chain_find_all`].
pub const FIND_ALL_MAX: usize = 32;
/// The word of the scratchpad of [`chain_find_all`] with the size of all pairs in bytes. The word
/// before it has the size of the pairs that are done.
pub const FIND_ALL_BYTES: usize = 1;
/// The first word of the pairs. A pair is a bucket and a key; the program replaces them by the
/// value, and by 1 if the key was found.
pub const FIND_ALL_PAIRS: usize = 2;
// The program masks the place of a pair, so that the verifier knows it to be in the scratchpad.
const _: () = assert!(FIND_ALL_MAX.is_power_of_two());

/// Returns the program that finds several keys in chains of a hash table, one after the other. The
/// arguments are those of [`chain_find`].
pub fn chain_find_all(next: usize, key: usize, value: usize, used: usize) -> Arc<TraversalProgram> {
    // The offset is masked although the program keeps it in range, because the verifier sees only a
    // number from the scratchpad.
    let mask = 16 * (FIND_ALL_MAX - 1);
    let pair = 8 * FIND_ALL_PAIRS;
    let second = pair + 8;
    let text = format!(
        "    ldxdw r6, [r2]
             and r6, {mask}
             mov r7, r2
             add r7, r6
             ldxdw r8, [r1+{used}]
             jeq r8, 0, on
             ldxdw r8, [r1+{key}]
             ldxdw r9, [r7+{second}]
             jne r8, r9, on
             ldxdw r9, [r1+{value}]
             mov r8, 1
             ja answer
         on: ldxdw r0, [r1+{next}]
             jne r0, 0, end
             mov r9, 0
             mov r8, 0
         answer:
             stxdw [r7+{pair}], r9
             stxdw [r7+{second}], r8
             add r6, 16
             stxdw [r2], r6
             ldxdw r8, [r2+8]
             mov r0, 0
             jge r6, r8, end
             and r6, {mask}
             mov r7, r2
             add r7, r6
             ldxdw r0, [r7+{pair}]
         end: exit"
    );
    program(&text, (pair + 16 * FIND_ALL_MAX) as u16)
}

/// Returns the program that finds the first entry at or above a key in a binary tree. The arguments
/// are the places of links, key and value.
pub fn tree_lower_bound(
    left: usize,
    right: usize,
    key: usize,
    value: usize,
) -> Arc<TraversalProgram> {
    let text = format!(
        "    ldxdw r6, [r1+{key}]
             ldxdw r7, [r2]
             jlt r6, r7, right
             stdw [r2+8], 1
             stxdw [r2+16], r6
             ldxdw r6, [r1+{value}]
             stxdw [r2+24], r6
             stxdw [r2+32], r3
             ldxdw r0, [r1+{left}]
             exit
         right: ldxdw r0, [r1+{right}]
             exit"
    );
    program(&text, LOOKUP_BYTES)
}

/// Returns the program that finds the first entry at or above a key in a B-tree. The layout of a
/// node: at 0 a byte that is not zero in a leaf, at 3 a byte with the count of entries, from 16
/// entries of key and value, from 160 children.
pub fn b_tree_lower_bound() -> Arc<TraversalProgram> {
    // The text is unrolled: programs have no loops.
    let mut text = String::from(
        "    ldxb r8, [r1+3]
             ldxdw r7, [r2]\n",
    );
    for index in 0..ENTRIES_MAX {
        let key = 16 + 16 * index;
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "    mov r6, {index}
                 jle r8, {index}, at
                 ldxdw r5, [r1+{key}]
                 jge r5, r7, at\n"
        );
    }
    let _ = write!(
        text,
        "    mov r6, {ENTRIES_MAX}
         at: jge r6, r8, down
             mov r4, r6
             lsh r4, 4
             add r4, r1
             ldxdw r5, [r4+16]
             stdw [r2+8], 1
             stxdw [r2+16], r5
             ldxdw r9, [r4+24]
             stxdw [r2+24], r9
             stxdw [r2+32], r3
             jne r5, r7, down
             mov r0, 0
             exit
         down: ldxb r5, [r1]
             mov r0, 0
             jne r5, 0, end
             lsh r6, 3
             add r6, r1
             ldxdw r0, [r6+160]
         end: exit"
    );
    program(&text, LOOKUP_BYTES)
}

/// Returns the code that descends a B+ tree with nodes of 256 bytes. The layout of a node: at 0 a
/// word that is not zero in a leaf, at 8 the count of keys, from 16 entries, from 160 children, at
/// 240 the next leaf. A key that equals a separator is in the right child. In a leaf, control
/// continues after this text, with the key in register 7 and the count in register 8.
fn b_plus_descend() -> String {
    let mut text = String::from(
        "    ldxdw r8, [r1+8]
             ldxdw r7, [r2]
             ldxdw r5, [r1]
             jne r5, 0, leaf\n",
    );
    for index in 0..ENTRIES_MAX {
        let key = 16 + 16 * index;
        let _ = write!(
            text,
            "    mov r6, {index}
                 jle r8, {index}, at
                 ldxdw r5, [r1+{key}]
                 jgt r5, r7, at\n"
        );
    }
    let _ = write!(
        text,
        "    mov r6, {ENTRIES_MAX}
         at: lsh r6, 3
             add r6, r1
             ldxdw r0, [r6+160]
             exit
         leaf:\n"
    );
    text
}

/// Returns the program that finds the first entry at or above a key in a B+ tree. It reads the next
/// leaf if the key is after the last one of its leaf.
pub fn b_plus_lower_bound() -> Arc<TraversalProgram> {
    let mut text = b_plus_descend();
    for index in 0..ENTRIES_MAX {
        let key = 16 + 16 * index;
        let value = key + 8;
        let _ = write!(
            text,
            "    jle r8, {index}, next
                 ldxdw r6, [r1+{key}]
                 ldxdw r4, [r1+{value}]
                 jge r6, r7, found\n"
        );
    }
    text.push_str(
        "next: ldxdw r0, [r1+240]
              exit
         found: stdw [r2+8], 1
              stxdw [r2+16], r6
              stxdw [r2+24], r4
              stxdw [r2+32], r3
              mov r0, 0
              exit",
    );
    program(&text, LOOKUP_BYTES)
}

/// The words of the scratchpad of [`b_plus_put`]: 1 if the key has the value, 0 if the leaf has no
/// room.
pub const PUT_DONE: usize = 1;
/// The word that is 1 if the key is new.
pub const PUT_IS_NEW: usize = 2;
/// The word with the value.
pub const PUT_VALUE: usize = 5;

/// Returns the program that sets the value of a key of a B+ tree, unless the key is new and its
/// leaf has no room.
pub fn b_plus_put() -> Arc<TraversalProgram> {
    let mut text = b_plus_descend();
    text.push_str("    ldxdw r9, [r2+40]\n");
    for index in 0..ENTRIES_MAX {
        let key = 16 + 16 * index;
        let _ = write!(
            text,
            "    jle r8, {index}, room
                 ldxdw r5, [r1+{key}]
                 jeq r5, r7, same{index}\n"
        );
    }
    text.push_str(
        "    mov r0, 0
             exit\n",
    );
    for index in 0..ENTRIES_MAX {
        let value = 24 + 16 * index;
        let _ = write!(
            text,
            "same{index}: stxdw [r1+{value}], r9
                 ja end\n"
        );
    }
    text.push_str("room:\n");
    // Moves the entries above the key, from the last one on.
    for index in (0..ENTRIES_MAX - 1).rev() {
        let (key, value) = (16 + 16 * index, 24 + 16 * index);
        let (behind, its_key, its_value) = (index + 1, key + 16, value + 16);
        let _ = write!(
            text,
            "    jle r8, {index}, skip{index}
                 ldxdw r5, [r1+{key}]
                 jlt r5, r7, place{behind}
                 stxdw [r1+{its_key}], r5
                 ldxdw r5, [r1+{value}]
                 stxdw [r1+{its_value}], r5
                 skip{index}:\n"
        );
    }
    for index in 0..ENTRIES_MAX {
        let (key, value) = (16 + 16 * index, 24 + 16 * index);
        let _ = write!(
            text,
            "place{index}: stxdw [r1+{key}], r7
                 stxdw [r1+{value}], r9
                 ja count\n"
        );
    }
    text.push_str(
        "count: stdw [r2+16], 1
              add r8, 1
              stxdw [r1+8], r8
         end: stdw [r2+8], 1
              mov r0, 0
              exit",
    );
    program(&text, LOOKUP_BYTES)
}

/// The words of the scratchpad of [`b_plus_scan`]: the number of entries wanted, the number found,
/// and the first of their keys and values.
pub const SCAN_WANTED: usize = 1;
/// See [`SCAN_WANTED`].
pub const SCAN_COUNT: usize = 2;
/// See [`SCAN_WANTED`].
pub const SCAN_ENTRIES: usize = 4;
/// Largest number of entries of one scan. The program's scratchpad has room for as many.
pub const SCAN_MAX: usize = 128;
const _: () = assert!(8 * SCAN_ENTRIES + 16 * SCAN_MAX <= SCRATCHPAD_BYTES_MAX);

/// Returns the program that copies the first entries at or above a key of a B+ tree.
pub fn b_plus_scan() -> Arc<TraversalProgram> {
    let mut text = b_plus_descend();
    text.push_str(
        "    ldxdw r9, [r2+8]
             ldxdw r4, [r2+16]\n",
    );
    for index in 0..ENTRIES_MAX {
        let key = 16 + 16 * index;
        let value = key + 8;
        let _ = write!(
            text,
            "    jle r8, {index}, next
                 ldxdw r6, [r1+{key}]
                 jlt r6, r7, skip{index}
                 jge r4, r9, done
                 jge r4, {SCAN_MAX}, done
                 mov r5, r4
                 lsh r5, 4
                 add r5, r2
                 stxdw [r5+32], r6
                 ldxdw r6, [r1+{value}]
                 stxdw [r5+40], r6
                 add r4, 1
                 skip{index}:\n"
        );
    }
    text.push_str(
        "next: stxdw [r2+16], r4
              mov r0, 0
              jge r4, r9, end
              ldxdw r0, [r1+240]
              ja end
         done: stxdw [r2+16], r4
              mov r0, 0
         end: exit",
    );
    program(&text, (8 * SCAN_ENTRIES + 16 * SCAN_MAX) as u16)
}

/// The words of the scratchpad of [`b_plus_aggregate`]: the key that ends the range (exclusive),
/// then the aggregates. The caller sets the minimum to all bits.
pub const AGGREGATE_END: usize = 1;
/// See [`AGGREGATE_END`].
pub const AGGREGATE_COUNT: usize = 2;
/// See [`AGGREGATE_END`].
pub const AGGREGATE_SUM: usize = 3;
/// See [`AGGREGATE_END`].
pub const AGGREGATE_MIN: usize = 4;
/// See [`AGGREGATE_END`].
pub const AGGREGATE_MAX: usize = 5;
const _: () = assert!(8 * (AGGREGATE_MAX + 1) <= LOOKUP_BYTES as usize);

/// Returns the program that computes count, sum, minimum and maximum of the values of a range of
/// keys of a B+ tree.
pub fn b_plus_aggregate() -> Arc<TraversalProgram> {
    let mut text = b_plus_descend();
    // Aggregates are in registers while a leaf is read: count, sum, minimum, maximum.
    text.push_str(
        "    ldxdw r9, [r2+8]
             ldxdw r3, [r2+16]
             ldxdw r0, [r2+24]
             ldxdw r4, [r2+32]
             ldxdw r5, [r2+40]\n",
    );
    for index in 0..ENTRIES_MAX {
        let key = 16 + 16 * index;
        let value = key + 8;
        let _ = write!(
            text,
            "    jle r8, {index}, next
                 ldxdw r6, [r1+{key}]
                 jlt r6, r7, skip{index}
                 jge r6, r9, done
                 ldxdw r6, [r1+{value}]
                 add r3, 1
                 add r0, r6
                 jge r6, r4, max{index}
                 mov r4, r6
                 max{index}: jle r6, r5, skip{index}
                 mov r5, r6
                 skip{index}:\n"
        );
    }
    let keep = "stxdw [r2+16], r3
                stxdw [r2+24], r0
                stxdw [r2+32], r4
                stxdw [r2+40], r5\n";
    let _ = write!(
        text,
        "next: {keep}
              ldxdw r0, [r1+240]
              exit
         done: {keep}
              mov r0, 0
              exit"
    );
    program(&text, LOOKUP_BYTES)
}

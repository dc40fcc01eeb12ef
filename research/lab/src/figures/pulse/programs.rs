//! The programs of the applications (`end` and `next`), as text.

use super::data::KEYS_MAX;
use crate::error::LabError;
use nearfield_offload::isa::assemble;
use nearfield_offload::program::{Declaration, TraversalProgram};
use nearfield_offload::structures::layout::b_plus::{CHILDREN, ENTRIES, NEXT};
use std::sync::Arc;

/// Number of keys of a request of WebService.
pub(super) const KEYS: usize = 32;
/// Offset of the pairs in the scratchpad. A pair is an address of a chain and a key, and becomes a
/// value and a key.
pub(super) const PAIRS: usize = 24;
/// The most values of a scan. The next constant is their offset in the scratchpad.
pub(super) const SCAN_MAX: usize = 100;
pub(super) const VALUES: usize = 24;
// Masks of the programs keep offsets within the scratchpad.
const _: () = assert!(KEYS.is_power_of_two() && SCAN_MAX <= 128);
/// The value that stands for an absent key.
pub(super) const ABSENT: u64 = u64::MAX;

fn verified(text: &str, scratchpad: usize) -> Result<Arc<TraversalProgram>, LabError> {
    let wrong = |error: String| LabError::Program { error };
    let code = assemble(text).map_err(|error| wrong(error.to_string()))?;
    let declaration = Declaration::scratchpad(scratchpad as u16);
    let program =
        TraversalProgram::verify(code, declaration).map_err(|error| wrong(error.to_string()))?;
    Ok(Arc::new(program))
}

/// Creates the program that looks up one key after the other, and may change the last one's value.
/// Scratchpad: offset of the present pair, offset of the end, the new value or zero, pairs.
pub(super) fn look_up() -> Result<Arc<TraversalProgram>, LabError> {
    let (head, key) = (PAIRS, PAIRS + 8);
    // Also a mask, because the verifier needs a bound of each offset.
    let last = 16 * (KEYS - 1);
    let text = format!(
        "   ldxdw r6, [r2]
            and r6, {mask}
            mov r7, r2
            add r7, r6
            ldxdw r8, [r7+{key}]
            ldxdw r9, [r1]
            ldxdw r0, [r1+16]
            jeq r8, r9, found
            jne r0, 0, on
            mov r9, -1
            ja store
        found:
            ldxdw r9, [r1+8]
            ldxdw r4, [r2+16]
            jeq r4, 0, store
            jne r6, {last}, store
            stxdw [r1+8], r4
        store:
            stxdw [r7+{head}], r9
            add r6, 16
            stxdw [r2], r6
            ldxdw r4, [r2+8]
            mov r0, 0
            jge r6, r4, on
            and r6, {mask}
            mov r7, r2
            add r7, r6
            ldxdw r0, [r7+{head}]
        on:
            exit",
        mask = last,
    );
    verified(&text, PAIRS + 16 * KEYS)
}

/// Creates the program that finds a value in a list. Scratchpad: value, address of its node.
pub(super) fn find() -> Result<Arc<TraversalProgram>, LabError> {
    let text = "
            ldxdw r4, [r2]
            ldxdw r5, [r1+248]
            ldxdw r0, [r1]
            jne r4, r5, on
            stxdw [r2+8], r3
            mov r0, 0
        on:
            exit";
    verified(text, 16)
}

/// Returns the code that goes from an inner node to the child whose keys include the first word of
/// the scratchpad.
fn descend() -> String {
    let mut text = String::from(
        "   ldxdw r5, [r2]
            ldxdw r6, [r1+8]
            ldxdw r4, [r1]
            jne r4, 0, leaf\n",
    );
    for slot in 0..KEYS_MAX {
        let entry = ENTRIES + 16 * slot;
        text += &format!(
            "jle r6, {slot}, child{slot}
             ldxdw r7, [r1+{entry}]
             jle r5, r7, child{slot}\n"
        );
    }
    text += &format!("ja child{KEYS_MAX}\n");
    for slot in 0..=KEYS_MAX {
        let child = CHILDREN + 8 * slot;
        text += &format!("child{slot}:\n ldxdw r0, [r1+{child}]\n exit\n");
    }
    text + "leaf:\n"
}

/// Creates the program that copies the values of successive keys from a key on. Scratchpad: key,
/// values left, offset of the next one, values.
pub(super) fn scan() -> Result<Arc<TraversalProgram>, LabError> {
    let mut text = descend();
    text += "ldxdw r8, [r2+8]\n ldxdw r9, [r2+16]\n";
    for slot in 0..KEYS_MAX {
        let (key, value) = (ENTRIES + 16 * slot, ENTRIES + 16 * slot + 8);
        text += &format!(
            "   jle r6, {slot}, end
                jeq r8, 0, end
                ldxdw r7, [r1+{key}]
                jgt r5, r7, skip{slot}
                ldxdw r7, [r1+{value}]
                and r9, 1016
                mov r4, r2
                add r4, r9
                stxdw [r4+{VALUES}], r7
                add r9, 8
                sub r8, 1
            skip{slot}:\n"
        );
    }
    text += &format!(
        "end:
            stxdw [r2+8], r8
            stxdw [r2+16], r9
            mov r0, 0
            jeq r8, 0, out
            ldxdw r0, [r1+{NEXT}]
        out:
            exit"
    );
    verified(&text, VALUES + 1024)
}

/// Creates the program that computes sum, count, least and greatest of the values of a window.
/// Scratchpad: first key, the key after the last, sum, count, least, greatest.
pub(super) fn aggregate() -> Result<Arc<TraversalProgram>, LabError> {
    let mut text = descend();
    // Registers hold the aggregates while a leaf is read.
    text += "ldxdw r8, [r2+8]
             ldxdw r0, [r2+16]
             ldxdw r3, [r2+24]
             ldxdw r4, [r2+32]
             ldxdw r9, [r2+40]\n";
    for slot in 0..KEYS_MAX {
        let (key, value) = (ENTRIES + 16 * slot, ENTRIES + 16 * slot + 8);
        text += &format!(
            "   jle r6, {slot}, on
                ldxdw r7, [r1+{key}]
                jgt r5, r7, skip{slot}
                jge r7, r8, done
                ldxdw r7, [r1+{value}]
                add r0, r7
                add r3, 1
                jge r7, r4, least{slot}
                mov r4, r7
            least{slot}:
                jle r7, r9, skip{slot}
                mov r9, r7
            skip{slot}:\n"
        );
    }
    let keep = "stxdw [r2+16], r0
                stxdw [r2+24], r3
                stxdw [r2+32], r4
                stxdw [r2+40], r9\n";
    text += &format!(
        "on:
            {keep}
            ldxdw r0, [r1+{NEXT}]
            exit
        done:
            {keep}
            mov r0, 0
            exit"
    );
    verified(&text, 48)
}

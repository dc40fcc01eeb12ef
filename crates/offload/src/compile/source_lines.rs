//! The C source of instructions, from the line records of BPF's type format (BTF), which clang
//! writes with `-g`. Their layout is in the Linux kernel's Documentation/bpf/btf.rst.

use super::object::{ITERATION, ObjectError};
use crate::isa::BpfDecodeError;
use crate::program::VerifyError;
use object::{Object, ObjectSection};

/// The sections of strings and of line records.
const STRINGS: &str = ".BTF";
const RECORDS: &str = ".BTF.ext";
/// The first two bytes of both.
const MAGIC: u16 = 0xeb9f;
/// The place in both headers of an offset and a length: of the strings in one, of the line records
/// in the other.
const PART_AT: usize = 16;
/// The length of the fields of a line record that are read here. Later versions may append others.
const RECORD_BYTES_MIN: usize = 16;

/// The place in a source from which an instruction was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    /// The path of the file.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u32,
    /// The number of the column, from 1; 0 if it is unknown.
    pub column: u32,
    /// The text of the line.
    pub text: String,
}

/// The source of an object file's iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLines {
    /// The slots at which the code of a place begins, in ascending order. It extends to the next.
    places: Vec<(usize, SourcePlace)>,
}

impl SourceLines {
    /// Reads the places of an object file. There are none if it has no such information, or one
    /// that does not make sense.
    pub fn of_object(bytes: &[u8]) -> SourceLines {
        let mut places = places(bytes).unwrap_or_default();
        places.sort_by_key(|(slot, _)| *slot);
        SourceLines { places }
    }

    /// Returns the place of the instruction at a slot of 8 bytes.
    pub fn at(&self, slot: usize) -> Option<&SourcePlace> {
        let behind = self.places.partition_point(|(first, _)| *first <= slot);
        let (_, place) = self.places.get(behind.checked_sub(1)?)?;
        Some(place)
    }

    /// Returns the place of the instruction that is the cause of an error, if one is.
    pub fn of_error(&self, error: &ObjectError) -> Option<&SourcePlace> {
        let slot = match error {
            ObjectError::Verify(VerifyError::Instruction { slot, .. })
            | ObjectError::Decode(BpfDecodeError::Unsupported { slot, .. }) => *slot,
            ObjectError::Relocation { at, .. } => usize::try_from(*at / 8).ok()?,
            _ => return None,
        };
        self.at(slot)
    }
}

fn places(object: &[u8]) -> Option<Vec<(usize, SourcePlace)>> {
    let file = object::File::parse(object).ok()?;
    let strings = file.section_by_name(STRINGS)?.data().ok()?;
    let records = file.section_by_name(RECORDS)?.data().ok()?;
    read(strings, records)
}

/// Reads the records of the iteration from the two sections.
fn read(strings: &[u8], records: &[u8]) -> Option<Vec<(usize, SourcePlace)>> {
    let strings = part(strings)?;
    let records = part(records)?;
    let record_bytes = long(records, 0)?;
    if record_bytes < RECORD_BYTES_MIN {
        return None;
    }
    let mut places = Vec::new();
    let mut rest = records.get(4..)?;
    while !rest.is_empty() {
        let (section, count) = (long(rest, 0)?, long(rest, 4)?);
        let bytes = count.checked_mul(record_bytes)?;
        let (records, behind) = rest.get(8..)?.split_at_checked(bytes)?;
        rest = behind;
        if text(strings, section)? != ITERATION {
            continue;
        }
        for record in records.chunks_exact(record_bytes) {
            // The column has the lower 10 bits.
            let place = long(record, 12)?;
            let place = SourcePlace {
                file: text(strings, long(record, 4)?)?,
                line: (place >> 10) as u32,
                column: (place & 0x3ff) as u32,
                text: text(strings, long(record, 8)?)?,
            };
            // Object files count bytes, not slots.
            places.push((long(record, 0)? / 8, place));
        }
    }
    Some(places)
}

/// Returns the part of a section that its header locates.
fn part(section: &[u8]) -> Option<&[u8]> {
    if *section.first_chunk::<2>()? != MAGIC.to_le_bytes() {
        return None;
    }
    let header = long(section, 4)?;
    let start = header.checked_add(long(section, PART_AT)?)?;
    let end = start.checked_add(long(section, PART_AT + 4)?)?;
    section.get(start..end)
}

/// Returns a number of 32 bits.
fn long(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*word) as usize)
}

/// Returns the string that begins at a position, and ends before a zero.
fn text(strings: &[u8], at: usize) -> Option<String> {
    let text = strings.get(at..)?.split(|&byte| byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::assemble;
    use crate::program::{Declaration, TraversalProgram};

    /// Returns a section with a part behind a header of 24 bytes, and 4 bytes before the part.
    fn section(part: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, 0, 4, part.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([0xff; 4]);
        bytes.extend(part);
        bytes
    }

    fn sections() -> (Vec<u8>, Vec<u8>) {
        let strings = format!("\0{ITERATION}\0a.c\0x = 1;\0y = 2;\0other\0");
        let at = |text: &str| strings.find(text).expect("a string") as u32;
        let mut records = vec![20_u32];
        let sections = [
            ("other", vec![(0, "x = 1;", 9, 9)]),
            (
                ITERATION,
                vec![(16, "y = 2;", 70_000, 1), (0, "x = 1;", 3, 5)],
            ),
        ];
        for (name, lines) in sections {
            records.extend([at(name), lines.len() as u32]);
            for (byte, text, line, column) in lines {
                // The last field is one of a later version.
                records.extend([byte, at("a.c"), at(text), line << 10 | column, 99]);
            }
        }
        let records: Vec<u8> = records
            .iter()
            .flat_map(|word: &u32| word.to_le_bytes())
            .collect();
        (section(strings.as_bytes()), section(&records))
    }

    #[test]
    fn records_of_the_iteration_are_found_by_slot() {
        let (strings, records) = sections();
        let mut places = read(&strings, &records).expect("records");
        places.sort_by_key(|(slot, _)| *slot);
        let lines = SourceLines { places };
        let place = |text: &str, line, column| SourcePlace {
            file: "a.c".to_owned(),
            line,
            column,
            text: text.to_owned(),
        };
        let (first, second) = (place("x = 1;", 3, 5), place("y = 2;", 70_000, 1));
        assert_eq!((lines.at(0), lines.at(1)), (Some(&first), Some(&first)));
        assert_eq!((lines.at(2), lines.at(900)), (Some(&second), Some(&second)));
        let code = assemble("mov r0, 0\n ldxdw r0, [r2+8]\n exit").expect("code");
        let error = TraversalProgram::verify(code, Declaration::scratchpad(8));
        let error = ObjectError::from(error.expect_err("it is outside"));
        assert_eq!(lines.of_error(&error), Some(&first));
        let symbol = "table".to_owned();
        let relocation = ObjectError::Relocation { at: 16, symbol };
        assert_eq!(lines.of_error(&relocation), Some(&second));
        let declaration = ObjectError::Declaration { bytes: 3 };
        assert_eq!(lines.of_error(&declaration), None);
        assert_eq!(SourceLines::default().at(0), None);
    }

    #[test]
    fn sections_that_make_no_sense_have_no_places() {
        let (strings, records) = sections();
        for length in 0..records.len() {
            assert_eq!(read(&strings, &records[..length]), None, "{length}");
        }
        for at in 0..records.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut records = records.clone();
                records[at] = value;
                // The result is of no interest, but the end of the search is.
                let _ = read(&strings, &records);
                let _ = read(&records, &strings);
            }
        }
        let short = section(&15_u32.to_le_bytes());
        assert_eq!(read(&strings, &short), None);
        let empty = SourceLines::default();
        assert_eq!(SourceLines::of_object(b"not an object"), empty);
    }
}

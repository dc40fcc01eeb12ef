//! The paper's benches, and the layout of each type of objects in memory.

/// A load of the paper (Table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdmBench {
    /// The bench's number in the paper.
    pub number: u32,
    /// The longest value in bytes; the shortest has 1.
    pub bytes_max: u64,
    /// Number of sets among ten requests; they are the first of each ten.
    pub sets: usize,
}

const fn bench(number: u32, bytes_max: u64, sets: usize) -> AdmBench {
    AdmBench {
        number,
        bytes_max,
        sets,
    }
}

pub(super) const BENCHES: [AdmBench; 5] = [
    bench(1, 2000, 1),
    bench(2, 3000, 1),
    bench(3, 3000, 3),
    bench(4, 3000, 5),
    bench(5, 4000, 1),
];

/// A type of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    String,
    List,
    Zset,
    Hash,
}

/// The longest element of a list, set or hash, in bytes.
const ELEMENT: u64 = 64;
/// Bytes of an object besides its value: the header of Redis's objects.
const HEADER: u64 = 16;

impl Type {
    pub(super) const ALL: [Type; 4] = [Type::String, Type::List, Type::Zset, Type::Hash];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Type::String => "String",
            Type::List => "List",
            Type::Zset => "Zset",
            Type::Hash => "Hash",
        }
    }

    /// Returns the bytes of each element besides its content, packed in one block as Redis packs
    /// small ones: lengths; a score of 8 bytes; a name of 7. *Assumed.*
    fn element_bytes(self) -> u64 {
        match self {
            Type::String => 0,
            Type::List => 3,
            Type::Zset => 12,
            Type::Hash => 11,
        }
    }

    pub(super) fn elements(self, value: u64) -> u64 {
        value.div_ceil(ELEMENT)
    }

    /// Returns the bytes of an object with a value of this size.
    pub(super) fn bytes(self, value: u64) -> u64 {
        HEADER + value + self.elements(value) * self.element_bytes()
    }

    /// Returns the position of an element in its object: the first byte, and the one after the
    /// last.
    pub(super) fn element(self, value: u64, number: u64) -> (u64, u64) {
        let each = ELEMENT + self.element_bytes();
        let begin = HEADER + number * each;
        debug_assert!(
            begin < self.bytes(value),
            "element {number} of {value} bytes"
        );
        (begin, (begin + each).min(self.bytes(value)))
    }
}

/// Returns the part of a value that an element holds: the first byte, and the one after the last.
pub(super) fn content(value: u64, number: u64) -> (u64, u64) {
    let begin = number * ELEMENT;
    debug_assert!(begin < value, "element {number} of {value} bytes");
    (begin, (begin + ELEMENT).min(value))
}

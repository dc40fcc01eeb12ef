//! Byte strings packed in one text.

use super::Permutation;

/// A list of byte strings in one allocation, each found by its position.
///
/// Takes the bytes of the strings and 8 more for each; a vector of vectors would take 24 more and
/// an allocation for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteStringList {
    text: Vec<u8>,
    /// The end of each string; it starts at the end of the one before.
    ends: Vec<usize>,
}

impl ByteStringList {
    /// Creates an empty list, with room for `count` strings of `bytes` bytes together.
    #[must_use]
    pub fn with_capacity(count: usize, bytes: usize) -> Self {
        ByteStringList {
            text: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(count),
        }
    }

    /// Appends a string.
    pub fn push(&mut self, string: &[u8]) {
        self.text.extend_from_slice(string);
        self.ends.push(self.text.len());
    }

    /// Returns the number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is no string.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the string at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        debug_assert!(start <= self.ends[index] && self.ends[index] <= self.text.len());
        &self.text[start..self.ends[index]]
    }

    /// Returns the strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Returns the bytes of all strings together.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Keeps the first `count` strings; all if there are fewer.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Returns the same strings in ascending order of their bytes.
    pub(super) fn sorted(&self) -> Self {
        self.reordered(self.ascending().into_iter())
    }

    /// Returns the distinct strings, in ascending order of their bytes.
    pub(super) fn sorted_distinct(&self) -> Self {
        let mut order = self.ascending();
        order.dedup_by(|later, earlier| self.get(*later) == self.get(*earlier));
        self.reordered(order.into_iter())
    }

    fn ascending(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_unstable_by_key(|&index| self.get(index));
        order
    }

    /// Returns the same strings in a random order that `seed` determines.
    pub(super) fn shuffled(&self, seed: u64) -> Self {
        if self.is_empty() {
            return self.clone();
        }
        let order = Permutation::new(self.len() as u64, seed);
        self.reordered((0..self.len()).map(|position| order.at(position as u64) as usize))
    }

    /// Returns the strings at the positions `order`, in that order.
    fn reordered(&self, order: impl ExactSizeIterator<Item = usize>) -> Self {
        let mut target = ByteStringList::with_capacity(order.len(), self.text.len());
        for index in order {
            target.push(self.get(index));
        }
        target
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for ByteStringList {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut packed = ByteStringList::default();
        for string in strings {
            packed.push(string.as_ref());
        }
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_as_pushed() {
        let given: [&[u8]; 4] = [b"", b"near", b"\xff\x00", b"field"];
        let strings: ByteStringList = given.iter().collect();
        assert_eq!(strings.len(), 4);
        assert_eq!(strings.text_bytes(), 11);
        assert!(strings.iter().eq(given));
    }

    #[test]
    fn order_and_repetition() {
        let strings: ByteStringList = ["b", "ab", "b", "", "a", "ab"].iter().collect();
        assert!(
            strings
                .sorted()
                .iter()
                .eq([&b""[..], b"a", b"ab", b"ab", b"b", b"b"])
        );
        assert!(
            strings
                .sorted_distinct()
                .iter()
                .eq([&b""[..], b"a", b"ab", b"b"])
        );
        assert_eq!(strings.shuffled(1).sorted(), strings.sorted());
        assert_eq!(
            ByteStringList::default().shuffled(1),
            ByteStringList::default()
        );
    }
}

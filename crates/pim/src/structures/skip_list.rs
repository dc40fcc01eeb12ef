//! Skip lists in the bank of a module.
//!
//! A key and all its levels are one node, a *tower* (RADAR, section IV-A). So a search that finds a
//! key at a high level has its value, too:
//!
//! ```text
//! key 8 | value 8 | height 4, next at level 0 4 | next at levels 1 and 2, 4 each | ...
//! ```
//!
//! Heights follow from the keys. Each level has half as many towers as the one below. The same keys
//! make the same list, after any changes. A caller that knows better can set another height
//! ([`PimSkipList::set_height`]). The *room* of a tower is the number of levels for which it has
//! space, which may exceed its height. A list begins with a tower of full height that has no key,
//! and ends with null pointers.

use crate::device::{Module, ProgramFault, WorkMeter};
use crate::structures::hash::mix;
use crate::structures::list::{Entry, OrderedKeyList};
use std::cmp::Ordering;

/// Greatest height of a tower.
pub const HEIGHT_MAX: usize = 20;
/// Number of instructions for each key that a search reads: the address, the copy, a comparison of
/// 64 bits. *Assumed*.
pub const INSTRUCTIONS_PER_KEY: u64 = 24;
/// Number of words of the first copy of a tower: key, value, and height with the first pointer.
const HEAD_WORDS: usize = 3;
/// Index of the word with the height.
const SHAPE: u32 = 2;

/// Returns the number of words of a tower.
const fn words(height: usize) -> usize {
    HEAD_WORDS + height / 2
}

/// Returns the number of bytes of a key's tower.
pub fn bytes(key: u64) -> u64 {
    words(height(key)) as u64 * 8
}

/// Returns the height of a key's tower, unless another height was set.
pub fn height(key: u64) -> usize {
    let zeros = mix(key).trailing_zeros() as usize;
    (zeros + 1).min(HEIGHT_MAX)
}

/// Returns the word of a tower with its height and room, and no pointer yet.
const fn shape(height: usize, room: usize) -> u64 {
    height as u64 | (room as u64) << 16
}

/// The target of a search in a list. A word is a complete key. For longer keys, a tower stores one
/// word, and its value leads to the rest.
pub trait SkipListTarget: Copy {
    /// Returns the word that the key's tower stores.
    fn word(&self) -> u64;

    /// Returns the height of the key's tower.
    fn height(&self) -> usize;

    /// Compares the key of a tower with the searched key.
    fn order<M: WorkMeter>(&self, module: &mut Module<'_, M>, word: u64, value: u64) -> Ordering;
}

impl SkipListTarget for u64 {
    fn word(&self) -> u64 {
        *self
    }

    fn height(&self) -> usize {
        height(*self)
    }

    fn order<M: WorkMeter>(&self, _: &mut Module<'_, M>, word: u64, _: u64) -> Ordering {
        word.cmp(self)
    }
}

/// A skip list, by the address of its first tower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PimSkipList {
    head: u32,
}

/// The towers before a key, one for each level.
type Path = [u32; HEIGHT_MAX];

/// The result of a search for a key.
struct SkipListSearch {
    /// The tower of the key, if it is present.
    at: Option<u32>,
    path: Path,
}

impl PimSkipList {
    /// Creates an empty list.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room for its first tower.
    pub fn new<M: WorkMeter>(module: &mut Module<'_, M>) -> Result<PimSkipList, ProgramFault> {
        let head = module.allocate(words(HEIGHT_MAX))?;
        module.write(head + SHAPE, &[shape(HEIGHT_MAX, HEIGHT_MAX)]);
        Ok(PimSkipList { head })
    }

    /// Returns the list that begins with the tower at this address.
    pub const fn at(head: u32) -> PimSkipList {
        PimSkipList { head }
    }

    /// Returns the address of the first tower.
    pub const fn head(self) -> u32 {
        self.head
    }

    /// Returns the value of a key. Takes O(log n) copies.
    pub fn get<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: impl SkipListTarget,
    ) -> Option<u64> {
        let at = self.search(module, key, true).at?;
        Some(module.peek(at + 1, 1)[0])
    }

    /// Sets the value of a key, and returns the old one.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room. Nothing changes.
    pub fn insert<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: impl SkipListTarget,
        value: u64,
    ) -> Result<Option<u64>, ProgramFault> {
        self.insert_with_height(module, key, value, key.height())
    }

    /// Sets the value of a key, and returns the old one; a new key gets a tower of this many
    /// levels, at least 1 and at most [`HEIGHT_MAX`].
    ///
    /// # Errors
    /// As for [`insert`](PimSkipList::insert).
    pub fn insert_with_height<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: impl SkipListTarget,
        value: u64,
        height: usize,
    ) -> Result<Option<u64>, ProgramFault> {
        let (_, before) = self.place(module, key, value, height)?;
        Ok(before)
    }

    /// Sets the value of a key as [`insert_with_height`](PimSkipList::insert_with_height) does, and
    /// also returns the address of the key's tower.
    pub fn place<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: impl SkipListTarget,
        value: u64,
        height: usize,
    ) -> Result<(u32, Option<u64>), ProgramFault> {
        let SkipListSearch { at, path } = self.search(module, key, false);
        if let Some(at) = at {
            let before = module.peek(at + 1, 1)[0];
            module.write(at + 1, &[value]);
            return Ok((at, Some(before)));
        }
        // The path has one tower for each possible level.
        let height = height.clamp(1, HEIGHT_MAX);
        let at = module.allocate(words(height))?;
        // The tower is put together outside the bank, so that it is written by one copy.
        let mut tower = vec![0; words(height)];
        (tower[0], tower[1], tower[2]) = (key.word(), value, shape(height, height));
        for (level, &before) in path.iter().enumerate().take(height) {
            let next = next(module, before, level);
            pack(&mut tower, level, next);
            link(module, before, level, at);
        }
        module.write(at, &tower);
        Ok((at, None))
    }

    /// Sets the number of levels of a key's tower, at least 1 and at most [`HEIGHT_MAX`]. Returns
    /// false if the key is absent. Takes one search, and a link for each level that is added or
    /// removed. A tower without space for its levels is copied, and linked at all levels. Source:
    /// RADAR, section V-A.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room for the new tower. Nothing changes.
    pub fn set_height<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: impl SkipListTarget,
        height: usize,
    ) -> Result<bool, ProgramFault> {
        let height = height.clamp(1, HEIGHT_MAX);
        let SkipListSearch { at, path } = self.search(module, key, false);
        let Some(at) = at else {
            return Ok(false);
        };
        let (before, room) = height_and_room(module, at);
        if words(height) > words(room) {
            // The room is compared in words, because two levels share a word. A tower may have
            // space for one more level than its room says.
            let new = module.allocate(words(height))?;
            let mut tower = vec![0; words(height)];
            tower[..2].copy_from_slice(module.peek(at, 2));
            tower[2] = shape(height, height);
            for (level, &left) in path.iter().enumerate().take(height) {
                // Above the old height, the next tower is that after the tower before it.
                let from = if level < before { at } else { left };
                let behind = next(module, from, level);
                pack(&mut tower, level, behind);
                link(module, left, level, new);
            }
            // All pointers to the old tower lead to the new one by then, so the old one can be
            // freed.
            module.write(new, &tower);
            module.free(at, words(room));
            return Ok(true);
        }
        for (level, &left) in path.iter().enumerate().take(height).skip(before) {
            let behind = next(module, left, level);
            link(module, at, level, behind);
            link(module, left, level, at);
        }
        for (level, &left) in path.iter().enumerate().take(before).skip(height) {
            let behind = next(module, at, level);
            link(module, left, level, behind);
        }
        if height != before {
            // The word also holds the pointer of level 0, which must be kept.
            let first = u64::from(next(module, at, 0));
            module.write(at + SHAPE, &[shape(height, room) | first << 32]);
        }
        Ok(true)
    }

    /// Removes a key and returns its value.
    pub fn remove<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: impl SkipListTarget,
    ) -> Option<u64> {
        // The search must not end early: the path is needed at all levels of the tower.
        let SkipListSearch { at, path } = self.search(module, key, false);
        let at = at?;
        let value = module.peek(at + 1, 1)[0];
        let (height, room) = height_and_room(module, at);
        for (level, &before) in path.iter().enumerate().take(height) {
            let behind = next(module, at, level);
            link(module, before, level, behind);
        }
        module.free(at, words(room));
        Some(value)
    }

    /// Returns the greatest key at or below `key`.
    pub fn floor<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: impl SkipListTarget,
    ) -> Option<Entry> {
        let SkipListSearch { at, path } = self.search(module, key, true);
        let at = at.unwrap_or(path[0]);
        (at != self.head).then(|| entry(module, at))
    }

    /// Passes the entries from `from` on to `each`, in ascending order, as long as it returns true.
    pub fn walk<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        from: impl SkipListTarget,
        mut each: impl FnMut(&mut Module<'_, M>, u64, u64) -> bool,
    ) {
        let SkipListSearch { at, path } = self.search(module, from, false);
        let mut at = match at {
            Some(at) => at,
            None => next(module, path[0], 0),
        };
        while at != 0 {
            let tower = look_at(module, at);
            let (key, value) = (tower[0], tower[1]);
            if !each(module, key, value) {
                return;
            }
            module.hop();
            at = next(module, at, 0);
        }
    }

    /// Appends entries in ascending order to an empty list, without searching. Source: RADAR,
    /// section IV-B.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room. The earlier entries are in the list.
    pub fn build<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        entries: impl IntoIterator<Item = (impl SkipListTarget, u64)>,
    ) -> Result<(), ProgramFault> {
        // The last tower of each level so far takes the next one, so that nothing is searched.
        let mut tails = [self.head; HEIGHT_MAX];
        for (key, value) in entries {
            let height = key.height();
            debug_assert!((1..=HEIGHT_MAX).contains(&height));
            let at = module.allocate(words(height))?;
            let mut tower = vec![0; words(height)];
            (tower[0], tower[1], tower[2]) = (key.word(), value, shape(height, height));
            module.write(at, &tower);
            for (level, tail) in tails.iter_mut().enumerate().take(height) {
                link(module, *tail, level, at);
                *tail = at;
            }
        }
        Ok(())
    }

    /// Frees all memory, including that of the first tower, and returns the entries.
    pub fn take<M: WorkMeter>(self, module: &mut Module<'_, M>) -> Vec<Entry> {
        let mut entries = Vec::new();
        let mut at = next(module, self.head, 0);
        module.free(self.head, words(HEIGHT_MAX));
        while at != 0 {
            let tower = look_at(module, at);
            entries.push((tower[0], tower[1]));
            let (_, room) = height_and_room(module, at);
            // The pointer is read before the tower is freed, which overwrites its first word.
            let behind = next(module, at, 0);
            module.free(at, words(room));
            module.hop();
            at = behind;
        }
        entries
    }

    /// Searches from the highest level down for a key, or the last tower before it. With `early`,
    /// the search ends when the key is found, and the path is then incomplete.
    fn search<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: impl SkipListTarget,
        early: bool,
    ) -> SkipListSearch {
        let mut found = SkipListSearch {
            at: None,
            path: [self.head; HEIGHT_MAX],
        };
        // The processor keeps the first tower.
        let mut at = self.head;
        // The tower that ended the search one level higher, which need not be compared again.
        let mut greater = 0;
        for level in (0..HEIGHT_MAX).rev() {
            loop {
                let candidate = next(module, at, level);
                if candidate == 0 || candidate == greater {
                    break;
                }
                let tower = look_at(module, candidate);
                let (word, value) = (tower[0], tower[1]);
                let order = key.order(module, word, value);
                if order == Ordering::Equal {
                    found.at = Some(candidate);
                    // The value came with the key, so a read needs no lower level. A change needs
                    // the tower before the key at each.
                    if early {
                        module.hop();
                        return found;
                    }
                }
                if order != Ordering::Less {
                    greater = candidate;
                    break;
                }
                module.hop();
                // The pointers of a passed tower are copied. The lowest was copied with the key.
                let (height, _) = height_and_room(module, candidate);
                if height > 1 {
                    module.read(candidate + HEAD_WORDS as u32, words(height) - HEAD_WORDS);
                }
                at = candidate;
            }
            found.path[level] = at;
        }
        found
    }
}

impl OrderedKeyList for PimSkipList {
    fn new<M: WorkMeter>(module: &mut Module<'_, M>) -> Result<Self, ProgramFault> {
        PimSkipList::new(module)
    }

    fn at(head: u32) -> Self {
        PimSkipList::at(head)
    }

    fn head(self) -> u32 {
        self.head
    }

    fn get<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<u64> {
        PimSkipList::get(self, module, key)
    }

    fn insert<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, ProgramFault> {
        PimSkipList::insert(self, module, key, value)
    }

    fn remove<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<u64> {
        PimSkipList::remove(self, module, key)
    }

    fn floor<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<Entry> {
        PimSkipList::floor(self, module, key)
    }

    fn walk<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        from: u64,
        mut each: impl FnMut(u64, u64) -> bool,
    ) {
        PimSkipList::walk(self, module, from, |_, key, value| each(key, value));
    }

    fn build<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), ProgramFault> {
        PimSkipList::build(self, module, entries)
    }

    fn free<M: WorkMeter>(self, module: &mut Module<'_, M>) {
        PimSkipList::take(self, module);
    }
}

/// Returns the number of levels of a tower, and its room, from a tower whose head was copied.
fn height_and_room<M: WorkMeter>(module: &Module<'_, M>, at: u32) -> (usize, usize) {
    let word = module.peek(at + SHAPE, 1)[0];
    let (height, room) = (usize::from(word as u16), usize::from((word >> 16) as u16));
    debug_assert!(height >= 1 && room <= HEIGHT_MAX);
    // An odd height may exceed the room by the level that shares its last word.
    debug_assert!(words(height) <= words(room));
    (height, room)
}

/// Copies the beginning of a tower, to compare its key.
fn look_at<'m, M: WorkMeter>(module: &'m mut Module<'_, M>, at: u32) -> &'m [u64] {
    module.instructions(INSTRUCTIONS_PER_KEY);
    module.compare();
    module.read(at, HEAD_WORDS)
}

/// Returns the entry of a tower whose beginning was copied.
fn entry<M: WorkMeter>(module: &Module<'_, M>, at: u32) -> Entry {
    let words = module.peek(at, 2);
    (words[0], words[1])
}

/// Returns the next tower at a level, from a tower whose pointers were copied.
fn next<M: WorkMeter>(module: &Module<'_, M>, at: u32, level: usize) -> u32 {
    let (word, shift) = place(level);
    (module.peek(at + word as u32, 1)[0] >> shift) as u32
}

/// Sets the next tower at a level.
fn link<M: WorkMeter>(module: &mut Module<'_, M>, at: u32, level: usize, next: u32) {
    let (word, shift) = place(level);
    let at = at + word as u32;
    let other = module.peek(at, 1)[0] & !(u64::from(u32::MAX) << shift);
    module.write(at, &[other | u64::from(next) << shift]);
}

/// Sets the next tower at a level, of a tower that is not in the bank yet.
fn pack(tower: &mut [u64], level: usize, next: u32) {
    let (word, shift) = place(level);
    tower[word] |= u64::from(next) << shift;
}

/// Returns the word that contains a level's pointer, and the bit where the pointer begins.
const fn place(level: usize) -> (usize, u32) {
    (
        HEAD_WORDS - 1 + level.div_ceil(2),
        32 * ((level + 1) % 2) as u32,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Model, ModuleDevice, ModuleProgram};
    use nearfield_hardware::modules::ModulePreset;

    impl crate::testing::lists::LiftableKeyList for PimSkipList {
        fn lift<M: WorkMeter>(
            self,
            module: &mut Module<'_, M>,
            key: u64,
            height: usize,
        ) -> Option<bool> {
            let is_there = self.set_height(module, key, height).expect("room");
            if let Some(at) = self.search(module, key, false).at {
                assert_eq!(height_and_room(module, at).0, height);
            }
            Some(is_there)
        }
    }

    #[test]
    fn a_list_does_what_a_map_does() {
        crate::testing::lists::check_against_map::<PimSkipList>();
    }

    /// A program that builds a list of this many keys, searches each, and counts the average cost.
    struct Searches(u64);

    impl ModuleProgram for Searches {
        fn run<M: WorkMeter>(
            &self,
            module: &mut Module<'_, M>,
            input: &[u64],
            output: &mut Vec<u64>,
        ) -> Result<(), ProgramFault> {
            let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if input.is_empty() {
                let list = PimSkipList::new(module)?;
                module.set_root(list.head().into());
                let mut keys: Vec<u64> = (1..=self.0).map(key).collect();
                keys.sort_unstable();
                list.build(module, keys.into_iter().map(|key| (key, !key)))?;
                output.push(module.used_bytes());
                return Ok(());
            }
            let list = PimSkipList::at(module.root() as u32);
            for number in 1..=self.0 {
                module.begin(number as usize);
                let key = key(number);
                assert_eq!(list.get(module, key), Some(!key));
            }
            Ok(())
        }
    }

    #[test]
    fn searches_take_what_is_published_of_towers() {
        // Keys that are compared, and pointers that are followed (reference: derived for RADAR's
        // lists).
        for (count, looks, hops) in [(64, 8.7, 5.0), (2_048, 22.0, 11.0), (15_258, 30.0, 14.0)] {
            let mut model = Model::new(1, ModulePreset::UpmemMeasured.parameters());
            let used = model.round(Searches(count), vec![vec![]]).expect("built");
            let used = used[0].as_ref().expect("a size")[0];
            let each = used as f64 / count as f64;
            assert!(
                count < 2_000 || (28.0..32.5).contains(&each),
                "{each} bytes"
            );
            let built = model.counters().work;
            model
                .round(Searches(count), vec![vec![1]])
                .expect("searched");
            let work = model.counters().work;
            let mean = |all: u64, before: u64| (all - before) as f64 / count as f64;
            let looked = mean(work.compares, built.compares);
            let hopped = mean(work.hops, built.hops);
            // Keys found at high levels save two comparisons. A search that reaches the same tower
            // one level lower does not compare it again, which saves a third.
            assert!((looks * 0.6..looks).contains(&looked), "{count}: {looked}");
            assert!(
                (hops * 0.7..hops * 1.1).contains(&hopped),
                "{count}: {hopped}"
            );
        }
    }
}

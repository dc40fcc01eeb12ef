//! Hash tables in the bank of a module, from a key to the address of its node.
//!
//! They use open addressing with linear probing, as the rivals' published programs do. A slot is a
//! word:
//!
//! ```text
//! upper half of the key's hash 32 | where its node is 32        0: nothing
//! ```
//!
//! The first word of a node is its key, and the next its value. A node is copied only if the half
//! of the hash agrees. So a present key takes about two copies, and an absent one about one.

use nearfield_pim::device::{Module, ProgramFault, WorkMeter};
use nearfield_pim::structures::hash::mix;

/// Number of words of a table's header: the address of the slots, their number, and the number in
/// use. The processor keeps the header.
pub(crate) const HEADER_WORDS: usize = 3;
/// Least number of slots of a table.
const SLOTS_MIN: u64 = 8;
/// Number of instructions for each slot that a search reads. *Assumed*.
const INSTRUCTIONS_PER_SLOT: u64 = 12;

/// A hash table, by the address of its header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PimHashTable {
    at: u32,
}

/// Returns the half of a key's hash that its slot stores. It also determines the slot where the key
/// belongs.
fn tag(key: u64) -> u64 {
    mix(key) >> 32
}

impl PimHashTable {
    /// Returns the table with its header at this address. A header of zeros is an empty table.
    pub const fn at(at: u32) -> PimHashTable {
        PimHashTable { at }
    }

    fn header<M: WorkMeter>(self, module: &Module<'_, M>) -> (u32, u64, u64) {
        let header = module.peek(self.at, HEADER_WORDS);
        (header[0] as u32, header[1], header[2])
    }

    /// Returns the number of keys and the number of slots.
    pub fn size<M: WorkMeter>(self, module: &Module<'_, M>) -> (u64, u64) {
        let (_, slots, count) = self.header(module);
        (count, slots)
    }

    /// Returns the address of a key's node. Takes constant time on average.
    pub fn find<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<u32> {
        let (_, node) = self.search(module, key)?;
        Some(node)
    }

    /// Returns the slot of a key, and the address of its node.
    fn search<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<(u64, u32)> {
        let (slots, capacity, count) = self.header(module);
        if count == 0 {
            return None;
        }
        debug_assert!(capacity.is_power_of_two() && count < capacity);
        let mut slot = tag(key) & (capacity - 1);
        loop {
            module.instructions(INSTRUCTIONS_PER_SLOT);
            let word = module.read(slots + slot as u32, 1)[0];
            // No key is ever beyond a free slot, because removals move keys up.
            if word == 0 {
                return None;
            }
            // Half of the hash tells nearly all other keys apart, so their nodes are not copied.
            if word >> 32 == tag(key) {
                let node = word as u32;
                module.hop();
                module.compare();
                if module.read(node, 2)[0] == key {
                    return Some((slot, node));
                }
            }
            slot = (slot + 1) & (capacity - 1);
        }
    }

    /// Makes room for `more` keys, so that adding them cannot fail. A table that is three quarters
    /// full is copied into one of twice the size.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room. Nothing changes.
    pub fn reserve<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        more: u64,
    ) -> Result<(), ProgramFault> {
        let (slots, capacity, count) = self.header(module);
        let wanted = ((count + more) * 4).div_ceil(3) + 1;
        if wanted <= capacity {
            return Ok(());
        }
        let wanted = wanted.next_power_of_two().max(SLOTS_MIN);
        let moved = module.allocate(wanted as usize)?;
        // The header names the new slots first, because `place` writes to those that it names.
        module.write(self.at, &[moved.into(), wanted, count]);
        for slot in 0..capacity as u32 {
            let word = module.read(slots + slot, 1)[0];
            if word != 0 {
                self.place(module, word);
            }
        }
        if capacity > 0 {
            module.free(slots, capacity as usize);
        }
        Ok(())
    }

    /// Frees the slots.
    pub fn free<M: WorkMeter>(self, module: &mut Module<'_, M>) {
        let (slots, capacity, _) = self.header(module);
        if capacity > 0 {
            module.free(slots, capacity as usize);
        }
        module.write(self.at, &[0; HEADER_WORDS]);
    }

    /// Sets the address of a key's node, which must contain the key. A second call for a key
    /// replaces the address.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room, and none was [reserved](PimHashTable::reserve).
    pub fn put<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: u64,
        node: u32,
    ) -> Result<(), ProgramFault> {
        debug_assert_eq!(module.peek(node, 1)[0], key, "the node has the key");
        if let Some((slot, _)) = self.search(module, key) {
            // The key has a slot already, so the table need not grow.
            let (slots, ..) = self.header(module);
            module.write(slots + slot as u32, &[tag(key) << 32 | u64::from(node)]);
            return Ok(());
        }
        self.reserve(module, 1)?;
        self.place(module, tag(key) << 32 | u64::from(node));
        let (.., count) = self.header(module);
        module.write(self.at + 2, &[count + 1]);
        Ok(())
    }

    /// Writes a word into the first free slot from where it belongs.
    fn place<M: WorkMeter>(self, module: &mut Module<'_, M>, word: u64) {
        let (slots, capacity, _) = self.header(module);
        debug_assert!(capacity.is_power_of_two());
        let mut slot = word >> 32 & (capacity - 1);
        // Growing a table places words whose keys differ from all others, so none is compared.
        while module.read(slots + slot as u32, 1)[0] != 0 {
            module.instructions(INSTRUCTIONS_PER_SLOT);
            slot = (slot + 1) & (capacity - 1);
        }
        module.write(slots + slot as u32, &[word]);
    }

    /// Removes a key, and returns the address of its node. The slots after it move up, so that no
    /// slot is wasted.
    pub fn remove<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<u32> {
        let (mut hole, node) = self.search(module, key)?;
        let (slots, capacity, count) = self.header(module);
        // A mark of a removed key would lengthen all later searches. Filling the hole costs only
        // the rest of its run of slots.
        let mut slot = hole;
        loop {
            slot = (slot + 1) & (capacity - 1);
            module.instructions(INSTRUCTIONS_PER_SLOT);
            let word = module.read(slots + slot as u32, 1)[0];
            if word == 0 {
                break;
            }
            let home = word >> 32 & (capacity - 1);
            // A key may move to the hole unless that is before the slot where it belongs.
            let distance = |from: u64| slot.wrapping_sub(from) & (capacity - 1);
            if distance(home) >= distance(hole) {
                module.write(slots + hole as u32, &[word]);
                hole = slot;
            }
        }
        module.write(slots + hole as u32, &[0]);
        debug_assert!(count > 0);
        module.write(self.at + 2, &[count - 1]);
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfield_pim::device::{ModuleDevice, ModuleProgram, Workers};
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};
    use std::collections::HashMap;

    struct RandomTableProgram;

    impl ModuleProgram for RandomTableProgram {
        fn run<M: WorkMeter>(
            &self,
            module: &mut Module<'_, M>,
            input: &[u64],
            output: &mut Vec<u64>,
        ) -> Result<(), ProgramFault> {
            let table = PimHashTable::at(module.allocate(HEADER_WORDS)?);
            let random = &mut SmallRng::seed_from_u64(input[0]);
            let mut map = HashMap::new();
            for _ in 0..4000 {
                let key = random.random_range(0..input[1]);
                match random.random_range(0..3) {
                    0 => {
                        let before = map.get(&key).copied();
                        assert_eq!(table.remove(module, key), before);
                        if let Some(node) = map.remove(&key) {
                            module.free(node, 2);
                        }
                    }
                    1 => assert_eq!(table.find(module, key), map.get(&key).copied()),
                    _ if map.contains_key(&key) => {}
                    _ => {
                        let node = module.allocate(2)?;
                        module.write(node, &[key, 0]);
                        match table.put(module, key, node) {
                            Ok(()) => _ = map.insert(key, node),
                            Err(fault) => {
                                // The table has not changed.
                                module.free(node, 2);
                                assert!(matches!(fault, ProgramFault::Full(_)));
                                output.push(map.len() as u64);
                            }
                        }
                    }
                }
                assert_eq!(table.size(module).0, map.len() as u64);
            }
            for (&key, &node) in &map {
                assert_eq!(table.find(module, key), Some(node));
            }
            Ok(())
        }
    }

    #[test]
    fn a_table_does_what_a_map_does_also_when_the_bank_is_full() {
        for (bytes, keys) in [(1 << 20, 5), (1 << 20, 100), (1 << 20, 3000), (4096, 300)] {
            let mut device = Workers::new(20, bytes, 2);
            let inputs = (0..20).map(|seed| vec![seed, keys]).collect();
            for output in device.round(RandomTableProgram, inputs).expect("a round") {
                let full = output.expect("no fault");
                assert_eq!(!full.is_empty(), bytes == 4096);
            }
        }
    }
}

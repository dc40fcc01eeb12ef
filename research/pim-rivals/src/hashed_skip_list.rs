//! A skip list with a hash table of its towers, which finds single keys, as in the rivals'
//! published programs.
//!
//! ```text
//! first tower of the list 8 | header of the table 24
//! ```

use crate::hash_table::{self, PimHashTable};
use nearfield_pim::device::{Module, ProgramFault, WorkMeter};
use nearfield_pim::structures::list::{Entry, OrderedKeyList};
use nearfield_pim::structures::skip_list::{self, PimSkipList};

/// A list and its table, by the address of the words that point to both. The processor keeps these
/// words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashedSkipList {
    head: u32,
}

const WORDS: usize = 1 + hash_table::HEADER_WORDS;

impl HashedSkipList {
    fn list<M: WorkMeter>(self, module: &Module<'_, M>) -> PimSkipList {
        PimSkipList::at(module.peek(self.head, 1)[0] as u32)
    }

    fn table(self) -> PimHashTable {
        PimHashTable::at(self.head + 1)
    }
}

impl OrderedKeyList for HashedSkipList {
    fn new<M: WorkMeter>(module: &mut Module<'_, M>) -> Result<Self, ProgramFault> {
        let list = PimSkipList::new(module)?;
        let head = module.allocate(WORDS);
        let head = head.inspect_err(|_| list.free(module))?;
        module.write(head, &[list.head().into()]);
        Ok(HashedSkipList { head })
    }

    fn at(head: u32) -> Self {
        HashedSkipList { head }
    }

    fn head(self) -> u32 {
        self.head
    }

    fn get<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<u64> {
        let tower = self.table().find(module, key)?;
        // The value was copied with the key.
        Some(module.peek(tower + 1, 1)[0])
    }

    fn insert<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, ProgramFault> {
        // A key that is present needs no more room.
        if let Err(full) = self.table().reserve(module, 1)
            && self.table().find(module, key).is_none()
        {
            return Err(full);
        }
        // The table has room by then, so a key that enters the list also enters the table.
        let list = self.list(module);
        let (tower, before) = list.place(module, key, value, skip_list::height(key))?;
        if before.is_none() {
            self.table().put(module, key, tower)?;
        }
        Ok(before)
    }

    fn remove<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<u64> {
        self.table().remove(module, key);
        // The table is changed first, because it reads the key from the tower that the list frees.
        self.list(module).remove(module, key)
    }

    fn floor<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<Entry> {
        self.list(module).floor(module, key)
    }

    fn walk<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        from: u64,
        mut each: impl FnMut(u64, u64) -> bool,
    ) {
        let list = self.list(module);
        list.walk(module, from, |_, key, value| each(key, value));
    }

    fn build<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), ProgramFault> {
        for (key, value) in entries {
            // The list alone could be built without searching, but each key needs its slot in the
            // table.
            self.insert(module, key, value)?;
        }
        Ok(())
    }

    fn free<M: WorkMeter>(self, module: &mut Module<'_, M>) {
        self.list(module).free(module);
        self.table().free(module);
        module.free(self.head, WORDS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl nearfield_pim::testing::lists::LiftableKeyList for HashedSkipList {}

    #[test]
    fn a_list_with_a_table_does_what_a_map_does() {
        nearfield_pim::testing::lists::check_against_map::<HashedSkipList>();
    }
}

//! The structures that hold a module's keys.

use crate::device::{Module, ProgramFault, WorkMeter};

/// A key and its value.
pub type Entry = (u64, u64);

/// An ordered list of keys in the bank of a module, by its start address, which does not change
/// while the list exists.
pub trait OrderedKeyList: Copy {
    /// Creates an empty list.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room for it.
    fn new<M: WorkMeter>(module: &mut Module<'_, M>) -> Result<Self, ProgramFault>;

    /// Returns the list that begins at this address.
    fn at(head: u32) -> Self;

    /// Returns the start address.
    fn head(self) -> u32;

    /// Returns the list to which the module's root points. If there is none, creates an empty list
    /// and sets the root.
    ///
    /// # Errors
    /// As for [`new`](OrderedKeyList::new).
    fn of_root<M: WorkMeter>(module: &mut Module<'_, M>) -> Result<Self, ProgramFault> {
        let list = match module.root() {
            0 => Self::new(module)?,
            head => Self::at(head as u32),
        };
        module.set_root(list.head().into());
        Ok(list)
    }

    /// Prefetches the memory that searches for keys in lists will read, given pairs of a list's
    /// start and a key. All searches are prefetched together, so that the waits overlap. Neither
    /// the lists nor `module`'s counts change. Does nothing for lists where each key is a separate
    /// piece of memory.
    fn fetch<M: WorkMeter>(_: &Module<'_, M>, _wanted: &mut Vec<(u32, u64)>) {}

    /// Returns the value of a key.
    fn get<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<u64>;

    /// Sets the value of a key, and returns the old one.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room. Nothing changes.
    fn insert<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, ProgramFault>;

    /// Sets the value of a key if it holds `previous`, where `None` stands for an absent key; a
    /// `value` of `None` removes the key. Returns the old value.
    ///
    /// # Errors
    /// As for [`insert`](OrderedKeyList::insert).
    fn update<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        key: u64,
        previous: Option<u64>,
        value: Option<u64>,
    ) -> Result<Option<u64>, ProgramFault> {
        let before = self.get(module, key);
        if before == previous {
            match value {
                Some(value) => self.insert(module, key, value)?,
                None => self.remove(module, key),
            };
        }
        Ok(before)
    }

    /// Removes a key and returns its value.
    fn remove<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<u64>;

    /// Returns the greatest key at or below `key`.
    fn floor<M: WorkMeter>(self, module: &mut Module<'_, M>, key: u64) -> Option<Entry>;

    /// Passes the entries from `from` on to `each`, in ascending order, as long as it returns true.
    fn walk<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        from: u64,
        each: impl FnMut(u64, u64) -> bool,
    );

    /// Appends entries in ascending order to an empty list, without searching.
    ///
    /// # Errors
    /// `BankFull` if the bank has no room. The earlier entries are in the list.
    fn build<M: WorkMeter>(
        self,
        module: &mut Module<'_, M>,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), ProgramFault>;

    /// Frees all memory, including that of the start.
    fn free<M: WorkMeter>(self, module: &mut Module<'_, M>);
}

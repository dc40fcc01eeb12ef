//! The buffers of lines on the chip.

use rustc_hash::FxHashMap;

/// The choice of the line to evict when a buffer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineBufferPolicy {
    /// The least recently used line.
    Lru,
    /// A line of the least value, if the new line is worth more; otherwise the new line is not
    /// kept. The value of a line is the number of operations in the bucket that uses it (section
    /// III-E).
    Value,
}

const NONE: u32 = u32::MAX;

/// A set of lines. Lines of one *owner*, which is the bucket that uses them, form a list, the
/// oldest first. With [`LineBufferPolicy::Lru`] all lines form one list.
#[derive(Clone, Debug)]
pub(super) struct LineBuffer {
    policy: LineBufferPolicy,
    capacity: usize,
    places: FxHashMap<u64, u32>,
    entries: Vec<LineBufferEntry>,
    unused: Vec<u32>,
    lists: Vec<LineOwnerList>,
    /// The value of each owner's lines.
    values: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct LineBufferEntry {
    line: u64,
    dirty: bool,
    owner: u32,
    before: u32,
    after: u32,
}

#[derive(Clone, Copy, Debug)]
struct LineOwnerList {
    oldest: u32,
    newest: u32,
}

impl LineBuffer {
    /// Creates an empty buffer of `bytes` bytes with lines of `line` bytes, for `owners` owners.
    pub(super) fn new(
        policy: LineBufferPolicy,
        bytes: u64,
        line: u64,
        owners: usize,
    ) -> LineBuffer {
        let empty = LineOwnerList {
            oldest: NONE,
            newest: NONE,
        };
        LineBuffer {
            policy,
            capacity: (bytes / line) as usize,
            places: FxHashMap::default(),
            entries: Vec::new(),
            unused: Vec::new(),
            lists: vec![
                empty;
                if policy == LineBufferPolicy::Lru {
                    1
                } else {
                    owners
                }
            ],
            values: vec![0; owners],
        }
    }

    /// Sets the values of all owners' lines.
    pub(super) fn set_values(&mut self, values: impl Iterator<Item = u64>) {
        self.values.clear();
        self.values.extend(values);
    }

    /// Returns true if it has a line, which thereby counts as used.
    pub(super) fn has(&mut self, line: u64, owner: usize) -> bool {
        let Some(&place) = self.places.get(&line) else {
            return false;
        };
        let entry = self.entries[place as usize];
        let is_worth_more = || self.values[owner] > self.values[entry.owner as usize];
        match self.policy {
            LineBufferPolicy::Lru => {
                self.unlink(place);
                self.link(place, owner);
            }
            // Several buckets use a node above the prefix: the largest one has it.
            LineBufferPolicy::Value if is_worth_more() => {
                self.unlink(place);
                self.link(place, owner);
            }
            LineBufferPolicy::Value => {}
        }
        true
    }

    /// Marks a line that it has as changed; returns true if it has it.
    pub(super) fn dirty(&mut self, line: u64) -> bool {
        let place = self.places.get(&line);
        if let Some(&place) = place {
            self.entries[place as usize].dirty = true;
        }
        place.is_some()
    }

    /// Adds a line that has arrived, if the policy keeps it. Returns a changed line that was
    /// evicted.
    pub(super) fn keep(&mut self, line: u64, owner: usize) -> Option<u64> {
        // Another operation that waited for the same line has kept it.
        if self.places.contains_key(&line) {
            return None;
        }
        let mut written = None;
        if self.places.len() == self.capacity {
            // With no line of less value, the new one is dropped after its use.
            let victim = self.victim(owner)?;
            let entry = self.entries[victim as usize];
            written = entry.dirty.then_some(entry.line);
            self.remove(victim);
        }
        let entry = LineBufferEntry {
            line,
            dirty: false,
            owner: 0,
            before: NONE,
            after: NONE,
        };
        let place = self.unused.pop().unwrap_or_else(|| {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        });
        self.entries[place as usize] = entry;
        self.places.insert(line, place);
        self.link(place, owner);
        debug_assert!(self.places.len() <= self.capacity);
        debug_assert_eq!(self.places.len() + self.unused.len(), self.entries.len());
        written
    }

    /// Removes a line.
    pub(super) fn forget(&mut self, line: u64) {
        if let Some(&place) = self.places.get(&line) {
            self.remove(place);
        }
    }

    /// Returns the entry that would be evicted for a line of this owner, if any.
    fn victim(&self, owner: usize) -> Option<u32> {
        match self.policy {
            LineBufferPolicy::Lru => Some(self.lists[0].oldest),
            LineBufferPolicy::Value => {
                let owners = 0..self.lists.len();
                let least = owners
                    .filter(|owner| self.lists[*owner].oldest != NONE)
                    .min_by_key(|owner| self.values[*owner])?;
                // A tie keeps the old line, which saves the exchange.
                let goes = self.values[least] < self.values[owner];
                goes.then_some(self.lists[least].oldest)
            }
        }
    }

    fn list_of(&self, owner: u32) -> usize {
        match self.policy {
            LineBufferPolicy::Lru => 0,
            LineBufferPolicy::Value => owner as usize,
        }
    }

    fn remove(&mut self, place: u32) {
        self.unlink(place);
        self.places.remove(&self.entries[place as usize].line);
        self.unused.push(place);
    }

    fn link(&mut self, place: u32, owner: usize) {
        let list = self.list_of(owner as u32);
        let newest = self.lists[list].newest;
        let entry = &mut self.entries[place as usize];
        (entry.owner, entry.before, entry.after) = (owner as u32, newest, NONE);
        match newest {
            NONE => self.lists[list].oldest = place,
            newest => self.entries[newest as usize].after = place,
        }
        self.lists[list].newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let LineBufferEntry {
            owner,
            before,
            after,
            ..
        } = self.entries[place as usize];
        let list = self.list_of(owner);
        match before {
            NONE => self.lists[list].oldest = after,
            before => self.entries[before as usize].after = after,
        }
        match after {
            NONE => self.lists[list].newest = before,
            after => self.entries[after as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_was_used_least_recently_goes() {
        let mut buffer = LineBuffer::new(LineBufferPolicy::Lru, 128, 64, 1);
        assert_eq!(buffer.keep(0, 0), None);
        assert_eq!(buffer.keep(64, 0), None);
        assert!(buffer.has(0, 0));
        assert!(buffer.dirty(64));
        assert_eq!(buffer.keep(128, 0), Some(64), "the changed line is written");
        assert!(buffer.has(0, 0) && buffer.has(128, 0) && !buffer.has(64, 0));
    }

    #[test]
    fn a_line_of_equal_value_replaces_none() {
        let mut buffer = LineBuffer::new(LineBufferPolicy::Value, 64, 64, 2);
        buffer.set_values([5, 5].into_iter());
        buffer.keep(0, 0);
        buffer.keep(64, 1);
        assert!(buffer.has(0, 0) && !buffer.has(64, 1));
        buffer.set_values([5, 6].into_iter());
        buffer.keep(64, 1);
        assert!(!buffer.has(0, 0) && buffer.has(64, 1));
    }

    #[test]
    fn a_node_of_several_buckets_belongs_to_the_largest() {
        let mut buffer = LineBuffer::new(LineBufferPolicy::Value, 64, 64, 3);
        buffer.set_values([1, 9, 5].into_iter());
        buffer.keep(0, 0);
        assert!(buffer.has(0, 1));
        buffer.keep(64, 2);
        assert!(buffer.has(0, 0), "worth 9 now");
    }

    #[test]
    fn forgotten_lines_make_room() {
        let mut buffer = LineBuffer::new(LineBufferPolicy::Value, 64, 64, 1);
        buffer.keep(0, 0);
        buffer.forget(0);
        buffer.keep(64, 0);
        assert!(buffer.has(64, 0) && !buffer.has(0, 0));
    }
}

//! The model of streams with a group, and the effects of commands on them.

use nearfield_testkit::history::Interval;
use nearfield_testkit::linearizability::Operation;
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

pub const STREAMS: usize = 2;

/// The milliseconds, and the number within them.
pub type Id = (u64, u64);
/// The id of an entry, and the value of its only field.
pub type Entry = (Id, i64);

/// A stream, and the group that all clients share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stream {
    entries: Vec<Entry>,
    last: Id,
    delivered: Id,
    pending: BTreeSet<Id>,
}

/// The id that an entry should get.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// `*`
    Next,
    /// `ms-*`
    NextOf(u64),
    Id(Id),
}

/// The effects of commands that took effect together.
#[derive(Clone, Debug)]
pub struct Done {
    pub client: u32,
    pub interval: Interval,
    pub steps: Vec<(usize, Did)>,
}

/// The effect of a command on a stream, as far as its reply shows it.
#[derive(Clone, Debug)]
pub enum Did {
    /// An entry that was added, with a trim to `keep` entries; a refusal if there is no id.
    Added {
        asked: Asked,
        value: i64,
        keep: Option<usize>,
        id: Option<Id>,
    },
    /// The first entries after an id.
    Listed {
        after: Id,
        count: usize,
        found: Vec<Entry>,
    },
    /// The last entry.
    Newest(Option<Entry>),
    Measured(i64),
    /// The deletion of these ids, and the number of deleted entries.
    Deleted(Vec<Id>, i64),
    /// A trim to a number of entries, and the number of removed ones.
    Trimmed(usize, i64),
    /// The next entries, which the group got.
    Delivered {
        count: usize,
        found: Vec<Entry>,
    },
    /// The acknowledgement of these ids, and the number of those that were pending.
    Acknowledged(Vec<Id>, i64),
}

impl Asked {
    /// Returns true if an entry after `last` gets this id, or is refused if that is `None`.
    fn gets(self, id: Option<Id>, last: Id) -> bool {
        let following = (last.0, last.1 + 1);
        match self {
            Asked::Next => id.is_some_and(|id| id == following || (id.0 > last.0 && id.1 == 0)),
            Asked::NextOf(ms) if ms == last.0 => id == Some(following),
            Asked::NextOf(ms) => id == (ms > last.0).then_some((ms, 0)),
            Asked::Id(asked) => id == (asked > last).then_some(asked),
        }
    }
}

impl Stream {
    fn after(&self, id: Id, count: usize) -> impl Iterator<Item = &Entry> {
        let first = self.entries.partition_point(|entry| entry.0 <= id);
        self.entries[first..].iter().take(count)
    }

    /// Removes all but the last entries, and returns the number of removed ones.
    fn trim(&mut self, keep: usize) -> i64 {
        let excess = self.entries.len().saturating_sub(keep);
        self.entries.drain(..excess);
        excess as i64
    }

    /// Applies the effect of a command; returns false if this stream would give another reply.
    fn does(&mut self, did: &Did) -> bool {
        match did {
            Did::Added {
                asked,
                value,
                keep,
                id,
            } => {
                let gets = asked.gets(*id, self.last);
                if let Some(id) = id.filter(|_| gets) {
                    self.entries.push((id, *value));
                    self.last = id;
                    keep.map(|keep| self.trim(keep));
                }
                gets
            }
            Did::Listed {
                after,
                count,
                found,
            } => self.after(*after, *count).eq(found),
            Did::Newest(found) => self.entries.last() == found.as_ref(),
            Did::Measured(length) => self.entries.len() as i64 == *length,
            Did::Deleted(ids, count) => {
                let before = self.entries.len();
                self.entries.retain(|(id, _)| !ids.contains(id));
                (before - self.entries.len()) as i64 == *count
            }
            Did::Trimmed(keep, removed) => self.trim(*keep) == *removed,
            Did::Delivered { count, found } => {
                let fits = self.after(self.delivered, *count).eq(found);
                self.delivered = found.last().map_or(self.delivered, |entry| entry.0);
                self.pending.extend(found.iter().map(|entry| entry.0));
                fits
            }
            Did::Acknowledged(ids, count) => {
                let acknowledged = ids.iter().filter(|id| self.pending.remove(id)).count();
                acknowledged as i64 == *count
            }
        }
    }
}

impl Did {
    fn name(&self) -> &'static str {
        match self {
            Did::Added { id: None, .. } => "refused",
            Did::Added { .. } => "added",
            Did::Listed { .. } => "listed",
            Did::Newest(_) => "newest",
            Did::Measured(_) => "measured",
            Did::Deleted(..) => "deleted",
            Did::Trimmed(..) => "trimmed",
            Did::Delivered { .. } => "delivered",
            Did::Acknowledged(..) => "acknowledged",
        }
    }

    fn is_read(&self) -> bool {
        match self {
            Did::Added { id, .. } => id.is_none(),
            Did::Listed { .. } | Did::Newest(_) | Did::Measured(_) => true,
            Did::Deleted(_, count) | Did::Trimmed(_, count) | Did::Acknowledged(_, count) => {
                *count == 0
            }
            Did::Delivered { found, .. } => found.is_empty(),
        }
    }
}

impl Done {
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.steps.iter().map(|(_, did)| did.name())
    }
}

impl Operation for Done {
    type State = [Stream; STREAMS];

    fn session(&self) -> u32 {
        self.client
    }

    fn interval(&self) -> Interval {
        self.interval
    }

    fn after(&self, state: &Self::State) -> Option<Self::State> {
        let mut after = state.clone();
        let mut steps = self.steps.iter();
        steps
            .all(|(stream, did)| after[*stream].does(did))
            .then_some(after)
    }

    fn is_read(&self) -> bool {
        self.steps.iter().all(|(_, did)| did.is_read())
    }
}

impl Display for Done {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Interval { invoked, returned } = self.interval;
        write!(formatter, "[{invoked}, {returned}] client {}:", self.client)?;
        let mut steps = self.steps.iter();
        steps.try_for_each(|(stream, did)| write!(formatter, " s{stream} {did:?}"))
    }
}

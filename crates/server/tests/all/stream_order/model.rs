//! The model of streams with a group, and the effects of commands on them.

use nearfield_testkit::history::CallInterval;
use nearfield_testkit::linearizability::LinearizableOperation;
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

pub const STREAMS: usize = 2;

/// The milliseconds, and the number within them.
pub type Id = (u64, u64);
/// The id of an entry, and the value of its only field.
pub type Entry = (Id, i64);

/// A stream, and the group that all clients share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamModel {
    entries: Vec<Entry>,
    last: Id,
    delivered: Id,
    pending: BTreeSet<Id>,
}

/// The id that an entry should get.
#[derive(Clone, Copy, Debug)]
pub enum RequestedStreamId {
    /// `*`
    Next,
    /// `ms-*`
    NextOf(u64),
    Id(Id),
}

/// The effects of commands that took effect together.
#[derive(Clone, Debug)]
pub struct StreamHistoryOperation {
    pub client: u32,
    pub interval: CallInterval,
    pub steps: Vec<(usize, StreamHistoryEffect)>,
}

/// The effect of a command on a stream, as far as its reply shows it.
#[derive(Clone, Debug)]
pub enum StreamHistoryEffect {
    /// An entry that was added, with a trim to `keep` entries; a refusal if there is no id.
    Added {
        asked: RequestedStreamId,
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

impl RequestedStreamId {
    /// Returns true if an entry after `last` gets this id, or is refused if that is `None`.
    fn gets(self, id: Option<Id>, last: Id) -> bool {
        let following = (last.0, last.1 + 1);
        match self {
            RequestedStreamId::Next => {
                id.is_some_and(|id| id == following || (id.0 > last.0 && id.1 == 0))
            }
            RequestedStreamId::NextOf(ms) if ms == last.0 => id == Some(following),
            RequestedStreamId::NextOf(ms) => id == (ms > last.0).then_some((ms, 0)),
            RequestedStreamId::Id(asked) => id == (asked > last).then_some(asked),
        }
    }
}

impl StreamModel {
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
    fn does(&mut self, did: &StreamHistoryEffect) -> bool {
        match did {
            StreamHistoryEffect::Added {
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
            StreamHistoryEffect::Listed {
                after,
                count,
                found,
            } => self.after(*after, *count).eq(found),
            StreamHistoryEffect::Newest(found) => self.entries.last() == found.as_ref(),
            StreamHistoryEffect::Measured(length) => self.entries.len() as i64 == *length,
            StreamHistoryEffect::Deleted(ids, count) => {
                let before = self.entries.len();
                self.entries.retain(|(id, _)| !ids.contains(id));
                (before - self.entries.len()) as i64 == *count
            }
            StreamHistoryEffect::Trimmed(keep, removed) => self.trim(*keep) == *removed,
            StreamHistoryEffect::Delivered { count, found } => {
                let fits = self.after(self.delivered, *count).eq(found);
                self.delivered = found.last().map_or(self.delivered, |entry| entry.0);
                self.pending.extend(found.iter().map(|entry| entry.0));
                fits
            }
            StreamHistoryEffect::Acknowledged(ids, count) => {
                let acknowledged = ids.iter().filter(|id| self.pending.remove(id)).count();
                acknowledged as i64 == *count
            }
        }
    }
}

impl StreamHistoryEffect {
    fn name(&self) -> &'static str {
        match self {
            StreamHistoryEffect::Added { id: None, .. } => "refused",
            StreamHistoryEffect::Added { .. } => "added",
            StreamHistoryEffect::Listed { .. } => "listed",
            StreamHistoryEffect::Newest(_) => "newest",
            StreamHistoryEffect::Measured(_) => "measured",
            StreamHistoryEffect::Deleted(..) => "deleted",
            StreamHistoryEffect::Trimmed(..) => "trimmed",
            StreamHistoryEffect::Delivered { .. } => "delivered",
            StreamHistoryEffect::Acknowledged(..) => "acknowledged",
        }
    }

    fn is_read(&self) -> bool {
        match self {
            StreamHistoryEffect::Added { id, .. } => id.is_none(),
            StreamHistoryEffect::Listed { .. }
            | StreamHistoryEffect::Newest(_)
            | StreamHistoryEffect::Measured(_) => true,
            StreamHistoryEffect::Deleted(_, count)
            | StreamHistoryEffect::Trimmed(_, count)
            | StreamHistoryEffect::Acknowledged(_, count) => *count == 0,
            StreamHistoryEffect::Delivered { found, .. } => found.is_empty(),
        }
    }
}

impl StreamHistoryOperation {
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.steps.iter().map(|(_, did)| did.name())
    }
}

impl LinearizableOperation for StreamHistoryOperation {
    type State = [StreamModel; STREAMS];

    fn session(&self) -> u32 {
        self.client
    }

    fn interval(&self) -> CallInterval {
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

impl Display for StreamHistoryOperation {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let CallInterval { invoked, returned } = self.interval;
        write!(formatter, "[{invoked}, {returned}] client {}:", self.client)?;
        let mut steps = self.steps.iter();
        steps.try_for_each(|(stream, did)| write!(formatter, " s{stream} {did:?}"))
    }
}

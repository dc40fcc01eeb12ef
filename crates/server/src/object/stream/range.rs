//! Reads of ranges of entries.

use super::node::{StreamEntry, StreamNodeEntries};
use super::{StreamId, StreamObject};

/// Entries between two identifiers, in either direction.
pub struct StreamRange<'s> {
    stream: &'s StreamObject,
    start: StreamId,
    end: StreamId,
    /// The index of the next node; `None` if there are no more.
    node: Option<usize>,
    current: StreamRangeWalk<'s>,
}

enum StreamRangeWalk<'s> {
    Forward(Option<StreamNodeEntries<'s>>),
    /// The entries of a node, all of which are read first, because a listpack is read from its
    /// beginning.
    Backward(std::vec::IntoIter<StreamEntry<'s>>),
}

impl<'s> Iterator for StreamRange<'s> {
    type Item = StreamEntry<'s>;

    fn next(&mut self) -> Option<StreamEntry<'s>> {
        loop {
            let entry = match &mut self.current {
                StreamRangeWalk::Forward(entries) => entries.as_mut().and_then(Iterator::next),
                StreamRangeWalk::Backward(entries) => entries.next_back(),
            };
            match (entry, &self.current) {
                // Entries are in order, so that all that follow are outside of the range, too.
                (Some(entry), StreamRangeWalk::Forward(_)) if entry.id > self.end => return None,
                (Some(entry), StreamRangeWalk::Backward(_)) if entry.id < self.start => {
                    return None;
                }
                (Some(entry), _) if entry.is_deleted => {}
                // A walk backwards begins at the last entry of a node, which may be after the end.
                (Some(entry), _) if entry.id < self.start || entry.id > self.end => {}
                (Some(entry), _) => return Some(entry),
                (None, _) => {
                    let index = self.node?;
                    let node = self.stream.nodes.get(index)?;
                    match &mut self.current {
                        StreamRangeWalk::Forward(entries) => {
                            *entries = Some(node.entries().from(self.start));
                            self.node = Some(index + 1);
                        }
                        StreamRangeWalk::Backward(entries) => {
                            *entries = node.entries().collect::<Vec<_>>().into_iter();
                            self.node = index.checked_sub(1);
                        }
                    }
                }
            }
        }
    }
}

impl StreamObject {
    /// Returns the entries from `start` to `end`, both included; from the last one on if `reverse`.
    pub fn range(&self, start: StreamId, end: StreamId, reverse: bool) -> StreamRange<'_> {
        let node = match reverse {
            // If all nodes begin after the start, the first one is next.
            false => Some(self.node_of(start).unwrap_or(0)),
            true => self.node_of(end),
        };
        StreamRange {
            stream: self,
            start,
            end,
            node,
            current: match reverse {
                false => StreamRangeWalk::Forward(None),
                true => StreamRangeWalk::Backward(Vec::new().into_iter()),
            },
        }
    }

    /// Returns the first entry.
    pub fn first(&self) -> Option<StreamEntry<'_>> {
        self.range(StreamId::MIN, StreamId::MAX, false).next()
    }

    /// Returns the last entry.
    pub fn last(&self) -> Option<StreamEntry<'_>> {
        self.range(StreamId::MIN, StreamId::MAX, true).next()
    }

    /// Returns the entry of an identifier.
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        self.range(id, id, false).next()
    }
}

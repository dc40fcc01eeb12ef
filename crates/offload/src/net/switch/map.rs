//! The map from addresses to memory nodes.

use crate::wire::{Announcement, ProcessAddress};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

/// Largest number of nodes whose announcements a switch knows at the same time.
const NODES_MAX: usize = 1024;

/// A table of ranges that were given, or announced by memory nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchRangeTable {
    /// The entries in the order of their addresses; none overlap.
    entries: Vec<SwitchRangeEntry>,
    /// The epoch of the latest announcement of each node, up to [`NODES_MAX`].
    epochs: HashMap<ProcessAddress, u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SwitchRangeEntry {
    start: u64,
    /// The end of the addresses (exclusive).
    end: u64,
    node: ProcessAddress,
    /// The epoch of the announcement; without one, the entry was given, and no announcement
    /// replaces it.
    epoch: Option<u32>,
}

/// The reason why an entry is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The text is not an entry.
    #[error("{text} is not an entry such as 0x1000-0x2000=192.0.2.7:7000")]
    Text {
        /// The text.
        text: String,
    },
    /// A range is empty, contains null, or exceeds 64 bits.
    #[error(
        "the range at {start:#x} of {bytes} bytes is empty, contains address 0, or exceeds 64 bits"
    )]
    Extent {
        /// The start of the range.
        start: u64,
        /// Number of its addresses.
        bytes: u64,
    },
    /// Two nodes have an address, and neither is known to be the newer one.
    #[error("the range at {start:#x} of {node} overlaps one of {other}")]
    Overlap {
        /// The start of the new range.
        start: u64,
        /// Its node.
        node: ProcessAddress,
        /// The node that has it already.
        other: ProcessAddress,
    },
    /// A node has no room, because too many others have announced ranges.
    #[error("there is no room for {node}: {NODES_MAX} nodes have announced ranges")]
    Nodes {
        /// The node without room.
        node: ProcessAddress,
    },
}

impl SwitchRangeTable {
    /// Returns the node of an address.
    pub fn find(&self, address: u64) -> Option<ProcessAddress> {
        let behind = self.entries.partition_point(|entry| entry.start <= address);
        let entry = self.entries.get(behind.checked_sub(1)?)?;
        (address < entry.end).then_some(entry.node)
    }

    /// Returns true if a node of the map has this place.
    pub fn has_node(&self, place: ProcessAddress) -> bool {
        self.entries.iter().any(|entry| entry.node == place)
    }

    /// Adds a range that no announcement changes.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn give(&mut self, start: u64, bytes: u64, node: ProcessAddress) -> Result<(), MapError> {
        let entry = SwitchRangeEntry::new(start, bytes, node, None)?;
        if let Some(other) = self.entries.iter().find(|other| other.overlaps(&entry)) {
            let other = other.node;
            return Err(MapError::Overlap { start, node, other });
        }
        self.insert(entry);
        Ok(())
    }

    /// Replaces all earlier announcements of a node by this one. Removes ranges of nodes with a
    /// lower epoch that overlap it. Returns true if the map has changed; an announcement older than
    /// the last one changes nothing. Ranges within given ones of the node are in the map already.
    ///
    /// # Errors
    /// See [`MapError`]; the map is as before.
    pub fn take(&mut self, announcement: &Announcement) -> Result<bool, MapError> {
        let &Announcement { epoch, node, .. } = announcement;
        // Datagrams may be delayed, so an announcement may arrive after a later one.
        if self.epochs.get(&node).is_some_and(|&known| known > epoch) {
            return Ok(false);
        }
        let mut entries = Vec::new();
        for &(start, bytes) in &announcement.ranges {
            let entry = SwitchRangeEntry::new(start, bytes, node, Some(epoch))?;
            let has_it = |other: &SwitchRangeEntry| {
                other.epoch.is_none() && other.node == node && other.contains(&entry)
            };
            if self.entries.iter().any(has_it) {
                continue;
            }
            // The node's own given ranges stay, too.
            let stays = |other: &&SwitchRangeEntry| {
                let goes = |known| other.node == node || known < epoch;
                !other.epoch.is_some_and(goes)
            };
            // Ranges of one announcement must not overlap each other, either.
            let mut others = self.entries.iter().filter(stays).chain(&entries);
            if let Some(other) = others.find(|other| other.overlaps(&entry)) {
                let other = other.node;
                return Err(MapError::Overlap { start, node, other });
            }
            entries.push(entry);
        }
        let mut after = self.clone();
        after.epochs.insert(node, epoch);
        after.entries.retain(|other| {
            other.epoch.is_none()
                || other.node != node && entries.iter().all(|entry| !other.overlaps(entry))
        });
        for entry in entries {
            after.insert(entry);
        }
        if !after.forget_nodes() {
            return Err(MapError::Nodes { node });
        }
        // Nodes repeat their announcements. Callers want to know if one changed something.
        let has_changed = *self != after;
        *self = after;
        Ok(has_changed)
    }

    /// Forgets the nodes without ranges if too many are known. Returns false if the others are too
    /// many, too.
    fn forget_nodes(&mut self) -> bool {
        if self.epochs.len() > NODES_MAX {
            let nodes: HashSet<ProcessAddress> =
                self.entries.iter().map(|entry| entry.node).collect();
            self.epochs.retain(|node, _| nodes.contains(node));
        }
        self.epochs.len() <= NODES_MAX
    }

    fn insert(&mut self, entry: SwitchRangeEntry) {
        let at = self
            .entries
            .partition_point(|other| other.start < entry.start);
        self.entries.insert(at, entry);
        debug_assert!(
            self.entries.is_sorted_by(|one, next| one.end <= next.start),
            "two entries overlap"
        );
    }
}

impl SwitchRangeEntry {
    fn new(
        start: u64,
        bytes: u64,
        node: ProcessAddress,
        epoch: Option<u32>,
    ) -> Result<SwitchRangeEntry, MapError> {
        match start.checked_add(bytes) {
            Some(end) if start > 0 && bytes > 0 => Ok(SwitchRangeEntry {
                start,
                end,
                node,
                epoch,
            }),
            _ => Err(MapError::Extent { start, bytes }),
        }
    }

    fn contains(&self, other: &SwitchRangeEntry) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    fn overlaps(&self, other: &SwitchRangeEntry) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Writes lines of ranges and nodes.
impl fmt::Display for SwitchRangeTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            let SwitchRangeEntry {
                start, end, node, ..
            } = entry;
            writeln!(formatter, "{start:#x}-{end:#x}={node}")?;
        }
        Ok(())
    }
}

/// Parses entries `START-END=HOST:PORT` between commas or white space; addresses are hexadecimal
/// with `0x`, or decimal.
impl FromStr for SwitchRangeTable {
    type Err = MapError;

    fn from_str(text: &str) -> Result<SwitchRangeTable, MapError> {
        let mut map = SwitchRangeTable::default();
        let separates = |letter: char| letter == ',' || letter.is_whitespace();
        for text in text.split(separates).filter(|text| !text.is_empty()) {
            let wrong = || MapError::Text {
                text: text.to_owned(),
            };
            let (range, node) = text.split_once('=').ok_or_else(wrong)?;
            let (start, end) = range.split_once('-').ok_or_else(wrong)?;
            let start = number(start).ok_or_else(wrong)?;
            let bytes = number(end).ok_or_else(wrong)?.checked_sub(start);
            let node: std::net::SocketAddrV4 = node.parse().map_err(|_| wrong())?;
            map.give(start, bytes.ok_or_else(wrong)?, node.into())?;
        }
        Ok(map)
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ProcessAddress = ProcessAddress(1);
    const B: ProcessAddress = ProcessAddress(2);

    fn announcement(epoch: u32, node: ProcessAddress, ranges: &[(u64, u64)]) -> Announcement {
        let ranges = ranges.to_vec();
        Announcement {
            epoch,
            node,
            ranges,
        }
    }

    #[test]
    fn the_latest_announcement_of_a_node_holds() {
        let mut map = SwitchRangeTable::default();
        let first = announcement(5, A, &[(0x1000, 0x1000), (0x4000, 0x1000)]);
        assert_eq!(map.take(&first), Ok(true));
        assert_eq!(map.take(&first), Ok(false));
        assert_eq!((map.find(0xfff), map.find(0x1000)), (None, Some(A)));
        assert_eq!((map.find(0x1fff), map.find(0x2000)), (Some(A), None));
        assert_eq!(map.find(u64::MAX), None);
        let next = announcement(6, A, &[(0x2000, 0x1000)]);
        assert_eq!(map.take(&next), Ok(true));
        assert_eq!((map.find(0x1000), map.find(0x2000)), (None, Some(A)));
        // This announcement was in flight for a long time.
        assert_eq!(map.take(&first), Ok(false));
        assert_eq!(map.find(0x1000), None);
    }

    #[test]
    fn younger_nodes_take_over_and_others_do_not() {
        let mut map = SwitchRangeTable::default();
        assert_eq!(map.take(&announcement(5, A, &[(0x1000, 0x2000)])), Ok(true));
        for epoch in [4, 5] {
            let other = announcement(epoch, B, &[(0x2000, 0x1000)]);
            let overlap = MapError::Overlap {
                start: 0x2000,
                node: B,
                other: A,
            };
            assert_eq!(map.take(&other), Err(overlap));
        }
        assert_eq!(map.take(&announcement(6, B, &[(0x2000, 0x1000)])), Ok(true));
        assert_eq!((map.find(0x1000), map.find(0x2000)), (None, Some(B)));
        assert!(map.has_node(B) && !map.has_node(A));
        let twice = announcement(7, A, &[(0x9000, 0x1000), (0x9800, 0x1000)]);
        assert!(map.take(&twice).is_err());
    }

    #[test]
    fn given_entries_stay() {
        let mut map: SwitchRangeTable = "0x1000-0x2000=127.0.0.1:7000,12288-16384=127.0.0.1:7001"
            .parse()
            .expect("entries");
        let text = "0x1000-0x2000=127.0.0.1:7000\n0x3000-0x4000=127.0.0.1:7001\n";
        assert_eq!(map.to_string(), text);
        assert_eq!(text.parse(), Ok(map.clone()));
        let other = announcement(u32::MAX, A, &[(0x1000, 1)]);
        assert!(matches!(map.take(&other), Err(MapError::Overlap { .. })));
        for wrong in ["x", "1-2", "1-2=x", "2-1=127.0.0.1:1", "-=127.0.0.1:1"] {
            let wrong: Result<SwitchRangeTable, MapError> = wrong.parse();
            assert!(matches!(wrong, Err(MapError::Text { .. })), "{wrong:?}");
        }
        let null: Result<SwitchRangeTable, MapError> = "0-8=127.0.0.1:1".parse();
        assert_eq!(null, Err(MapError::Extent { start: 0, bytes: 8 }));
        let twice: Result<SwitchRangeTable, MapError> = "1-9=127.0.0.1:1 8-10=127.0.0.1:2".parse();
        assert!(matches!(twice, Err(MapError::Overlap { .. })));
    }

    #[test]
    fn a_node_may_announce_ranges_beside_its_given_ones_and_none_across() {
        let mut map = SwitchRangeTable::default();
        map.give(0x1000, 0x1000, A).expect("room");
        // The first of these is known, and so is a part of it.
        let both = announcement(5, A, &[(0x1000, 0x1000), (0x1800, 8), (0x3000, 0x1000)]);
        assert_eq!(map.take(&both), Ok(true));
        assert_eq!(map.take(&both), Ok(false));
        assert_eq!(map.to_string().lines().count(), 2);
        let around = announcement(6, A, &[(0x1000, 0x8000)]);
        let overlap = MapError::Overlap {
            start: 0x1000,
            node: A,
            other: A,
        };
        assert_eq!(map.take(&around), Err(overlap));
        let found = [0x1000, 0x1fff, 0x2000, 0x3000].map(|address| map.find(address));
        assert_eq!(found, [Some(A), Some(A), None, Some(A)]);
    }

    #[test]
    fn announcements_of_a_limited_number_of_nodes_are_known() {
        let mut map = SwitchRangeTable::default();
        let node = |number: u64| ProcessAddress(1000 + number);
        let of = |epoch, number| announcement(epoch, node(number), &[(0x1000 + number * 8, 8)]);
        // Nodes without ranges make room for others.
        for number in 0..3 * NODES_MAX as u64 {
            assert!(map.take(&announcement(1, node(number), &[])).is_ok());
        }
        assert!(map.epochs.len() <= NODES_MAX);
        for number in 0..NODES_MAX as u64 {
            assert_eq!(map.take(&of(1, number)), Ok(true), "{number}");
        }
        let before = map.clone();
        let further = of(2, NODES_MAX as u64);
        let node = further.node;
        assert_eq!(map.take(&further), Err(MapError::Nodes { node }));
        assert_eq!(map, before);
        // A node that has restarted at another place takes the place of its former self.
        let again = Announcement { node, ..of(2, 0) };
        assert_eq!(map.take(&again), Ok(true));
        assert_eq!(map.find(0x1000), Some(node));
        assert_eq!(map.epochs.len(), NODES_MAX);
    }
}

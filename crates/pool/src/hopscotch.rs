//! Finding, inserting and removing entries of a leaf that is a hopscotch hash table (Herlihy,
//! Shavit, Tzafrir, DISC 2008; CHIME §4).
//!
//! A key hashes to a slot, its *home*, and is stored in its *neighborhood*: the H slots from the
//! home on, wrapping around the end of the leaf. The hop bitmap of the home marks the slots of the
//! neighborhood that hold its keys. An insert that finds no empty slot in the neighborhood takes
//! the first empty one behind it and moves it closer: it moves an entry in between that may be
//! stored in the empty slot there, and the entry's former slot becomes empty.
//!
//! A client that changes a leaf holds its lock. All changes count the versions of the entries that
//! they write.

use crate::canary::Check;
use crate::layout::{LeafSlotRange, PoolLeaf, is_empty_key};
use nearfield_fabric::GlobalAddress;

/// The result of a search in a neighborhood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighborhoodLookup {
    /// The key is in this slot.
    Found(usize),
    /// The key is absent, and the home's hop bitmap is right.
    Absent,
    /// The home's hop bitmap does not match: keys were moved during the read of the neighborhood,
    /// which must be read again.
    Moved,
}

/// Searches for a key in its neighborhood, the only part of the leaf that must be known. Source:
/// CHIME, three-level optimistic synchronization, level 3.
///
/// A right bitmap does not prove that nothing was moved: the key may have moved from one slot to
/// another while a key of the same home took its place. A reader that has no other proof reads
/// again after `Absent` and compares the [versions](PoolLeaf::entry_versions) of the home, which
/// each move changes.
pub fn lookup(leaf: &PoolLeaf, key: &[u8]) -> NeighborhoodLookup {
    lookup_at(leaf, leaf.layout().home(key), key)
}

/// Searches like [`lookup`], for a key with a known home.
pub(crate) fn lookup_at(leaf: &PoolLeaf, home: usize, key: &[u8]) -> NeighborhoodLookup {
    let neighborhood = leaf.layout().neighborhood_slots(home);
    let found = neighborhood.iter().find(|&slot| leaf.holds(slot, key));
    match found {
        Some(slot) => NeighborhoodLookup::Found(slot),
        // Without bitmaps nothing is ever moved, or the leaf's counter detects it.
        None if !leaf.layout().has_bitmaps() || !Check::Moves.is_made() => {
            NeighborhoodLookup::Absent
        }
        None if rebuilt_bitmap(leaf, home) == leaf.hop_bitmap(home) => NeighborhoodLookup::Absent,
        None => NeighborhoodLookup::Moved,
    }
}

/// The changes of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopscotchInsertion {
    /// The slot of the key.
    pub slot: usize,
    /// Set if the key existed, and only its value was changed.
    pub replaced: bool,
    /// Set if other keys were moved.
    pub moved: bool,
    /// The slots to write back.
    pub written: LeafSlotRange,
}

/// The leaf has no known empty slot that can be moved into the neighborhood. If all slots are
/// known, the leaf must be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the leaf has no room for the key")]
pub struct NoRoom;

/// Inserts a key, or changes its value. `known` are the slots with known entries, from the key's
/// home on: the [hop range](crate::layout::LockWordLayout::hop_range), but at least the
/// neighborhood, in which the key may already be behind an empty slot. Entries with an unknown home
/// stay where they are.
///
/// # Errors
/// `NoRoom`; then nothing is changed. If all slots are known, no order of moves would have made
/// room.
///
/// # Panics
/// If key or value differ in length from the leaf's, if the key is all zeros, or if `known` does
/// not begin with the key's home or is shorter than the neighborhood.
pub fn insert(
    leaf: &mut PoolLeaf,
    known: LeafSlotRange,
    key: &[u8],
    value: &[u8],
) -> Result<HopscotchInsertion, NoRoom> {
    let home = leaf.layout().home(key);
    let neighborhood = leaf.layout().neighborhood_slots(home);
    assert!(!is_empty_key(key), "a key of zeros marks an empty entry");
    assert_eq!(
        known.first(),
        home,
        "the known slots begin with the home entry"
    );
    assert!(
        known.count() >= neighborhood.count(),
        "the neighborhood is known"
    );

    let present = neighborhood
        .iter()
        .find(|&slot| leaf.key(slot) == Some(key));
    if let Some(slot) = present {
        leaf.put(slot, key, value);
        return Ok(HopscotchInsertion {
            slot,
            replaced: true,
            moved: false,
            written: write_back(leaf, known, vec![slot]),
        });
    }
    let moves = plan(leaf, known, None).ok_or(NoRoom)?;
    // The home is written, too: its bitmap gets another bit.
    let mut changed = Vec::new();
    if leaf.layout().has_bitmaps() {
        changed.push(home);
    }
    for pair in moves.windows(2) {
        let (target, source) = (pair[0], pair[1]);
        let moved = leaf.key(source).expect("the moved entry exists");
        let moved_home = leaf.layout().home(moved);
        debug_assert!(
            leaf.layout()
                .neighborhood_slots(moved_home)
                .contains(target)
        );
        leaf.copy_entry(source, target);
        set_bit(leaf, moved_home, source, false);
        set_bit(leaf, moved_home, target, true);
        changed.extend([target, source, moved_home]);
    }
    let slot = moves[moves.len() - 1];
    debug_assert!(neighborhood.contains(slot), "readers look nowhere else");
    leaf.put(slot, key, value);
    set_bit(leaf, home, slot, true);
    changed.push(slot);
    Ok(HopscotchInsertion {
        slot,
        replaced: false,
        moved: moves.len() > 1,
        written: write_back(leaf, known, changed),
    })
}

/// Changes the value in an occupied slot, and returns the slots to write back. No other slot must
/// be known.
pub fn replace(leaf: &mut PoolLeaf, slot: usize, value: &[u8]) -> LeafSlotRange {
    leaf.set_value(slot, value);
    leaf.count_entry_write(slot);
    LeafSlotRange::new(slot, 1, leaf.layout().span())
}

/// Counts one write of each changed entry, and returns the slots to write back.
fn write_back(leaf: &mut PoolLeaf, known: LeafSlotRange, mut changed: Vec<usize>) -> LeafSlotRange {
    // Slots between changed ones are written back as they were read; the lock keeps others from
    // changing them.
    let written = known.around(&changed);
    changed.sort_unstable();
    changed.dedup();
    for entry in changed {
        leaf.count_entry_write(entry);
    }
    written
}

/// Returns the slots that become empty in sequence: the first empty one, then one from which an
/// entry can be moved there, and so on to one in the neighborhood of `known`'s first slot.
/// `vacated` counts as empty.
///
/// The first empty slot and the farthest entry are the best choices: if a key can be moved to a
/// slot, it can be moved to each slot between, so any sequence that begins at a farther slot can be
/// continued from the nearer one as well.
fn plan(leaf: &PoolLeaf, known: LeafSlotRange, vacated: Option<usize>) -> Option<Vec<usize>> {
    let layout = leaf.layout();
    let reach = layout.neighborhood_slots(known.first()).count();
    let is_empty = |slot: usize| Some(slot) == vacated || leaf.key(slot).is_none();
    let mut distance = (0..known.count()).find(|&distance| is_empty(known.at(distance)))?;
    if !layout.has_bitmaps() && distance < reach {
        // Any empty slot of the neighborhood is possible; the best one is written with one line.
        let near = (distance..reach).map(|distance| known.at(distance));
        let mut near = near.filter(|&slot| is_empty(slot));
        let best = near.find(|&slot| layout.is_in_a_line(slot));
        return Some(vec![best.unwrap_or(known.at(distance))]);
    }
    let mut moves = vec![known.at(distance)];
    while distance >= reach {
        let target = known.at(distance);
        distance = (distance + 1 - reach..distance).find(|&source| {
            let source = known.at(source);
            leaf.key(source).is_some_and(|key| {
                let home = layout.home(key);
                let near = layout.neighborhood_slots(home);
                known.contains(home) && near.contains(source) && near.contains(target)
            })
        })?;
        moves.push(known.at(distance));
    }
    Some(moves)
}

/// Empties an occupied slot, and returns the slots to write back, this one and its key's home. The
/// neighborhood of the key must be known. The caller updates the lock word's greatest key.
///
/// # Panics
/// If the slot is empty.
pub fn remove(leaf: &mut PoolLeaf, slot: usize) -> LeafSlotRange {
    let key = leaf.key(slot).expect("the slot is occupied");
    let home = leaf.layout().home(key);
    leaf.clear(slot);
    set_bit(leaf, home, slot, false);
    leaf.count_entry_write(slot);
    let neighborhood = leaf.layout().neighborhood_slots(home);
    // Without a bitmap the home does not change.
    if !leaf.layout().has_bitmaps() || home == slot {
        return neighborhood.around(&[slot]);
    }
    leaf.count_entry_write(home);
    neighborhood.around(&[home, slot])
}

/// Returns the key at which to divide a full leaf so that `key`, which did not fit, fits into its
/// half: keys from the returned one on belong into the right half. All slots must be known.
///
/// It is the median of the key and of those keys that, if removed, would make room for it. Each key
/// of the neighborhood is such a key, so there is one on either side of the median that leaves the
/// half of `key`; and if one removal makes room, more removals do. Neither half is empty once `key`
/// is in it.
///
/// # Panics
/// If there is room for the key.
pub fn split_key(leaf: &PoolLeaf, key: &[u8]) -> Box<[u8]> {
    let known = leaf.layout().all_slots(key);
    assert!(
        plan(leaf, known, None).is_none(),
        "the leaf is full for the key"
    );
    let makes_room = |slot: &usize| plan(leaf, known, Some(*slot)).is_some();
    let mut keys: Vec<&[u8]> = leaf
        .occupied()
        .filter(makes_room)
        .filter_map(|slot| leaf.key(slot))
        .collect();
    keys.push(key);
    keys.sort_unstable();
    keys[keys.len() / 2].into()
}

/// Moves the keys from `separator` on to a new leaf, which is returned, into the same slots. `leaf`
/// gets the new leaf's address, `right`, as its sibling, and counts one node write; the new leaf
/// has the former sibling. `separator` becomes a fence key of both. All slots must be known.
pub fn split(leaf: &mut PoolLeaf, separator: &[u8], right: GlobalAddress) -> PoolLeaf {
    let mut other = leaf.clone();
    let slots: Vec<usize> = leaf.occupied().collect();
    for slot in slots {
        let key = leaf.key(slot).expect("the slot is occupied");
        let home = leaf.layout().home(key);
        // Keys stay in their slots, so each half is a valid hash table without moves.
        let loser = if key < separator {
            &mut other
        } else {
            &mut *leaf
        };
        loser.clear(slot);
        set_bit(loser, home, slot, false);
    }
    if let Some((low, high)) = leaf.fences(0) {
        let (low, high) = (low.to_vec(), high.to_vec());
        leaf.set_fences(&low, separator);
        other.set_fences(separator, &high);
    }
    // The versions of the new leaf may be any, because no reader has seen others.
    leaf.set_sibling(right);
    leaf.count_node_write();
    other
}

/// Takes the entries of the leaf to the right, and its sibling. Counts one node write. All slots of
/// both must be known.
///
/// # Errors
/// `NoRoom`; then `leaf` is unusable.
pub fn merge(leaf: &mut PoolLeaf, right: &PoolLeaf) -> Result<(), NoRoom> {
    for slot in right.occupied() {
        let key = right.key(slot).expect("the slot is occupied");
        insert(leaf, right.layout().all_slots(key), key, right.value(slot))?;
    }
    if let (Some((low, _)), Some((_, high))) = (leaf.fences(0), right.fences(0)) {
        let (low, high) = (low.to_vec(), high.to_vec());
        leaf.set_fences(&low, &high);
    }
    leaf.set_sibling(right.sibling(0));
    leaf.count_node_write();
    Ok(())
}

/// Removes all entries of a leaf, which leads to the leaf `right` from here on: a division that
/// leaves nothing. Counts one node write.
pub fn pass_on(leaf: &mut PoolLeaf, right: GlobalAddress) {
    clear(leaf);
    if let Some((low, _)) = leaf.fences(0) {
        let low = low.to_vec();
        leaf.set_fences(&low, &low);
    }
    leaf.set_sibling(right);
    leaf.count_node_write();
}

/// Retires a leaf: removes all entries, and makes it invalid. Counts one node write.
pub fn retire(leaf: &mut PoolLeaf) {
    clear(leaf);
    leaf.set_valid(false);
    leaf.count_node_write();
}

/// Removes all entries of a leaf, without counting it.
fn clear(leaf: &mut PoolLeaf) {
    for slot in 0..leaf.layout().span() {
        leaf.clear(slot);
        if leaf.layout().has_bitmaps() {
            leaf.set_hop_bitmap(slot, 0);
        }
    }
}

/// Returns true if the hop bitmaps of a fully known leaf are right. If they are not, keys were
/// moved during its read.
pub fn is_settled(leaf: &PoolLeaf) -> bool {
    let homes = 0..leaf.layout().span();
    !leaf.layout().has_bitmaps()
        || homes
            .into_iter()
            .all(|home| rebuilt_bitmap(leaf, home) == leaf.hop_bitmap(home))
}

/// Returns the hop bitmap that a home should have, from the keys in its neighborhood.
fn rebuilt_bitmap(leaf: &PoolLeaf, home: usize) -> u16 {
    let layout = leaf.layout();
    let belongs = |slot: usize| leaf.key(slot).is_some_and(|key| layout.home(key) == home);
    let slots = layout.neighborhood_slots(home);
    slots
        .iter()
        .fold(0, |bitmap, slot| bitmap << 1 | u16::from(belongs(slot)))
}

/// Sets or clears the bit of `slot` in the hop bitmap of `home`: `set` is true if a key of this
/// home is there.
fn set_bit(leaf: &mut PoolLeaf, home: usize, slot: usize, set: bool) {
    if !leaf.layout().has_bitmaps() {
        return;
    }
    let slots = leaf.layout().neighborhood_slots(home);
    // A key that damage has put elsewhere has no bit: no reader finds it.
    if !slots.contains(slot) {
        return;
    }
    let bit = 1 << (slots.count() - 1 - slots.distance(slot));
    let bitmap = leaf.hop_bitmap(home) & !bit | if set { bit } else { 0 };
    leaf.set_hop_bitmap(home, bitmap);
}

/// Checks the invariants of a fully known leaf that no client is changing: each key is in its
/// neighborhood and only once, hop bitmaps are right, replicas agree. For tests.
///
/// # Panics
/// If an invariant does not hold.
pub fn check_invariants(leaf: &PoolLeaf) {
    let layout = leaf.layout();
    let mut keys = Vec::new();
    for slot in leaf.occupied() {
        let key = leaf.key(slot).expect("the slot is occupied");
        let home = layout.home(key);
        let near = layout.neighborhood_slots(home).contains(slot);
        assert!(near, "key {key:?} of home {home} is in slot {slot}");
        keys.push(key);
    }
    keys.sort_unstable();
    assert!(
        keys.is_sorted_by(|one, other| one < other),
        "a key appears twice"
    );
    let homes = if layout.has_bitmaps() {
        layout.span()
    } else {
        0
    };
    for home in 0..homes {
        let (stored, rebuilt) = (leaf.hop_bitmap(home), rebuilt_bitmap(leaf, home));
        assert_eq!(stored, rebuilt, "the hop bitmap of slot {home}");
    }
    for group in 1..layout.groups() {
        assert_eq!(leaf.is_valid(group), leaf.is_valid(0));
        assert_eq!(leaf.sibling(group), leaf.sibling(0));
        assert_eq!(leaf.fences(group), leaf.fences(0));
    }
}

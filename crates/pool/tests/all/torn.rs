//! Tests that a reader never takes lines of two versions of a node for one version.

use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_pool::hopscotch::{self, NeighborhoodLookup};
use nearfield_pool::layout::versions::{Objects, wire_offset};
use nearfield_pool::layout::{
    Arrangement, Geometry, InternalLayout, InternalNode, LeafMetadataPosition, LeafSlotRange,
    LockWord, LockWordLayout, NodeSegments, PoolIndexShape, PoolLeaf, PoolLeafLayout,
    TornNodeError, Validation,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Address of the right half of a leaf that is split.
const SIBLING: GlobalAddress = GlobalAddress::new(NodeId(1), 4096);
const LINE: usize = 64;
const ROUNDS: usize = 400;

fn shapes() -> Vec<PoolIndexShape> {
    let shape = PoolIndexShape::default();
    vec![
        shape,
        PoolIndexShape {
            value_bytes: 200,
            ..shape
        },
        PoolIndexShape {
            arrangement: Arrangement::Neighborhood,
            ..shape
        },
        PoolIndexShape {
            key_bytes: 40,
            leaf_span: 30,
            neighborhood: 7,
            validation: Validation::Fences,
            ..shape
        },
        PoolIndexShape {
            key_bytes: 1,
            value_bytes: 0,
            metadata: LeafMetadataPosition::Single,
            leaf_span: 48,
            ..shape
        },
    ]
}

/// Creates a leaf with as many random keys as fit.
fn filled(shape: PoolIndexShape, rng: &mut SmallRng) -> PoolLeaf {
    let geometry = Geometry::new(shape).expect("the shape is possible");
    let mut leaf = PoolLeaf::new(PoolLeafLayout::new(geometry));
    for _ in 0..shape.leaf_span {
        insert(&mut leaf, rng);
    }
    leaf
}

/// Inserts a random key, and returns the slots that were written if there was room.
fn insert(leaf: &mut PoolLeaf, rng: &mut SmallRng) -> Option<LeafSlotRange> {
    let shape = *leaf.layout().geometry().shape();
    let key: Vec<u8> = (0..shape.key_bytes)
        .map(|_| rng.random_range(1..=255))
        .collect();
    let value: Vec<u8> = (0..shape.value_bytes).map(|_| rng.random()).collect();
    let known = leaf.layout().all_slots(&key);
    let inserted = hopscotch::insert(leaf, known, &key, &value).ok()?;
    Some(inserted.written)
}

/// Returns a possible read during a write: each line is one of two.
fn mix(
    segments: &NodeSegments,
    old: &[Vec<u8>],
    new: &[Vec<u8>],
    rng: &mut SmallRng,
) -> Vec<Vec<u8>> {
    let share = rng.random_range(0.1..0.9);
    let mut mixed = old.to_vec();
    for (index, segment) in segments.iter().enumerate() {
        let wire = segment.wire();
        let first_line = wire.start / LINE;
        for line in first_line..=(wire.end - 1) / LINE {
            if rng.random_bool(share) {
                let start = (line * LINE).max(wire.start) - wire.start;
                let end = ((line + 1) * LINE).min(wire.end) - wire.start;
                mixed[index][start..end].copy_from_slice(&new[index][start..end]);
            }
        }
    }
    mixed
}

fn decode(
    leaf: &PoolLeaf,
    segments: &NodeSegments,
    wire: &[Vec<u8>],
) -> Result<PoolLeaf, TornNodeError> {
    let wire: Vec<&[u8]> = wire.iter().map(Vec::as_slice).collect();
    let mut decoded = PoolLeaf::new(*leaf.layout());
    decoded.decode(segments, &wire).map(|()| decoded)
}

/// Returns a random access that a reader may make.
fn access(leaf: &PoolLeaf, rng: &mut SmallRng) -> NodeSegments {
    let layout = leaf.layout();
    let slot = rng.random_range(0..layout.span());
    let count = rng.random_range(1..=layout.span());
    match rng.random_range(0..4) {
        0 => layout.whole(),
        1 => layout.neighborhood(slot),
        2 => layout.single_entry(slot),
        _ => layout.with_metadata(LeafSlotRange::new(slot, count, layout.span())),
    }
}

#[test]
fn a_write_of_the_node_is_noticed_in_whatever_is_read() {
    let mut rng = SmallRng::seed_from_u64(1);
    for shape in shapes() {
        let mut detected = 0;
        for _ in 0..ROUNDS {
            let old = filled(shape, &mut rng);
            let mut new = old.clone();
            let separator = old
                .key(old.occupied().nth(3).expect("a key"))
                .map(<[u8]>::to_vec);
            hopscotch::split(&mut new, &separator.expect("occupied"), SIBLING);
            // Versions distinguish up to 15 writes.
            (0..rng.random_range(0..15)).for_each(|_| new.count_node_write());
            let segments = access(&old, &mut rng);
            let (before, after) = (old.encode(&segments), new.encode(&segments));
            let mixed = mix(&segments, &before, &after, &mut rng);
            let decoded = decode(&old, &segments, &mixed);
            if mixed == before || mixed == after {
                assert!(decoded.is_ok());
            } else {
                assert_eq!(decoded, Err(TornNodeError::Node));
                detected += 1;
            }
        }
        assert!(detected > ROUNDS / 4, "{detected} were torn");
    }
}

#[test]
fn sixteen_writes_during_one_read_are_the_known_limit() {
    let mut rng = SmallRng::seed_from_u64(2);
    let old = filled(PoolIndexShape::default(), &mut rng);
    let mut new = old.clone();
    (0..16).for_each(|_| new.count_node_write());
    assert!(old == new);
}

#[test]
fn a_write_of_an_entry_is_noticed_by_whoever_reads_part_of_it() {
    let mut rng = SmallRng::seed_from_u64(3);
    for shape in shapes() {
        let mut detected = 0;
        for _ in 0..ROUNDS {
            let old = filled(shape, &mut rng);
            let mut new = old.clone();
            // One entry gets another value; its neighbors stay.
            let occupied: Vec<usize> = old.occupied().collect();
            let slot = occupied[rng.random_range(0..occupied.len())];
            let key = old.key(slot).expect("occupied").to_vec();
            let value = vec![rng.random(); shape.value_bytes];
            let known = new.layout().all_slots(&key);
            let inserted = hopscotch::insert(&mut new, known, &key, &value);
            assert!(inserted.is_ok_and(|inserted| inserted.replaced));
            let segments = if rng.random() {
                old.layout().single_entry(slot)
            } else {
                access(&old, &mut rng)
            };
            let (before, after) = (old.encode(&segments), new.encode(&segments));
            let mixed = mix(&segments, &before, &after, &mut rng);
            let decoded = decode(&old, &segments, &mixed);
            if mixed == before || mixed == after {
                assert!(decoded.is_ok());
            } else {
                assert_eq!(decoded, Err(TornNodeError::Entry));
                detected += 1;
            }
        }
        let crosses_lines = shape.key_bytes + shape.value_bytes > LINE;
        assert!(detected > 0 || !crosses_lines, "none was torn");
    }
}

#[test]
fn of_a_hop_each_entry_is_read_as_it_was_or_as_it_is() {
    let mut rng = SmallRng::seed_from_u64(4);
    for shape in shapes() {
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..ROUNDS {
            let mut old = filled(shape, &mut rng);
            let occupied: Vec<usize> = old.occupied().collect();
            let removed = occupied[rng.random_range(0..occupied.len())];
            hopscotch::remove(&mut old, removed);
            let mut new = old.clone();
            if insert(&mut new, &mut rng).is_none() {
                continue;
            }
            let segments = old.layout().whole();
            let (before, after) = (old.encode(&segments), new.encode(&segments));
            let mixed = mix(&segments, &before, &after, &mut rng);
            let Ok(decoded) = decode(&old, &segments, &mixed) else {
                refused += 1;
                continue;
            };
            accepted += 1;
            let entry = |leaf: &PoolLeaf, slot| {
                let slots = LeafSlotRange::new(slot, 1, shape.leaf_span);
                leaf.encode(&leaf.layout().entries(slots))
            };
            for slot in 0..shape.leaf_span {
                let read = entry(&decoded, slot);
                assert!(read == entry(&old, slot) || read == entry(&new, slot));
            }
        }
        assert!(accepted > 0);
        assert!(refused > 0 || shape.key_bytes == 1);
    }
}

#[test]
fn each_byte_of_versions_is_checked_against_the_others() {
    let mut rng = SmallRng::seed_from_u64(5);
    for shape in shapes() {
        let leaf = filled(shape, &mut rng);
        let segments = leaf.layout().whole();
        let wire = leaf.encode(&segments);
        let changed = |offset: usize, bits: u8| {
            let mut changed = wire.clone();
            changed[0][offset] ^= bits;
            decode(&leaf, &segments, &changed).err()
        };
        for line in (LINE..wire[0].len()).step_by(LINE) {
            assert_eq!(changed(line, 0x01), Some(TornNodeError::Node));
            assert_eq!(changed(line, 0x80), Some(TornNodeError::Entry));
            assert_eq!(changed(line, 0x81), Some(TornNodeError::Node));
        }
        for slot in 0..shape.leaf_span {
            let entry = leaf
                .layout()
                .entries(LeafSlotRange::new(slot, 1, shape.leaf_span));
            let range = entry.iter().next().expect("one segment").wire();
            // The byte is behind the versions of the line, if the entry begins with it.
            let starts_line = range.start > 0 && range.start.is_multiple_of(LINE);
            let versions = range.start + usize::from(starts_line);
            assert_eq!(changed(versions, 0x08), Some(TornNodeError::Node));
            let owns_line = starts_line || range.start / LINE != (range.end - 1) / LINE;
            assert_eq!(
                changed(versions, 0x10),
                owns_line.then_some(TornNodeError::Entry)
            );
        }
    }
}

#[test]
fn bytes_of_any_kind_are_read_without_a_panic() {
    let mut rng = SmallRng::seed_from_u64(6);
    for shape in shapes() {
        let geometry = Geometry::new(shape).expect("the shape is possible");
        let layout = PoolLeafLayout::new(geometry);
        let internal = InternalLayout::new(geometry);
        for _ in 0..ROUNDS {
            let mut leaf = PoolLeaf::new(layout);
            let segments = layout.whole();
            // The versions are right, so the content is accepted.
            let mut wire = leaf.encode(&segments);
            for slot in 0..shape.leaf_span {
                let entry = layout.entries(LeafSlotRange::new(slot, 1, shape.leaf_span));
                let range = entry.iter().next().expect("one segment").wire();
                let payload = range.start + 2..range.end;
                for offset in payload.filter(|offset| !offset.is_multiple_of(LINE)) {
                    wire[0][offset] = rng.random();
                }
            }
            leaf = decode(&leaf, &segments, &wire).expect("the versions are right");
            insert(&mut leaf, &mut rng);
            let occupied: Vec<usize> = leaf.occupied().collect();
            let slot = occupied[rng.random_range(0..occupied.len())];
            let key = leaf.key(slot).expect("occupied").to_vec();
            if let NeighborhoodLookup::Found(slot) = hopscotch::lookup(&leaf, &key) {
                hopscotch::remove(&mut leaf, slot);
            }
            let mut left = leaf.clone();
            let right = hopscotch::split(&mut left, &key, SIBLING);
            // A key that is in several slots takes less room than before.
            let _ = hopscotch::merge(&mut left, &right);
            let words = LockWordLayout::new(shape.leaf_span);
            words.of_leaf(&leaf);
            words.hop_range(LockWord::from_bits(rng.random()), slot);

            let mut wire = InternalNode::new(internal, 2, SIBLING).encode();
            let mut object = 0;
            while object < internal.decoded_bytes() {
                let end = internal.object_end(object);
                let payload = wire_offset(object) + 2..wire_offset(end);
                for offset in payload.filter(|offset| !offset.is_multiple_of(LINE)) {
                    wire[offset] = rng.random();
                }
                object = end;
            }
            let node = InternalNode::decode(internal, &wire).expect("the versions are right");
            node.route(&key);
        }
    }
}

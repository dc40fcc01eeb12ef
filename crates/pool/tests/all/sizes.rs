//! Tests that sizes of nodes and lengths of accesses are those that follow from CHIME's published
//! layout, to the byte.

use nearfield_pool::hopscotch;
use nearfield_pool::layout::versions::Objects;
use nearfield_pool::layout::{
    Arrangement, Geometry, InternalLayout, LeafMetadataPosition, LeafSlotRange, NodeSegments,
    PoolIndexShape, PoolLeaf, PoolLeafLayout, Validation, home,
};
use std::collections::BTreeMap;

fn leaf(change: impl Fn(&mut PoolIndexShape)) -> PoolLeafLayout {
    let mut shape = PoolIndexShape::default();
    change(&mut shape);
    PoolLeafLayout::new(Geometry::new(shape).expect("the shape is possible"))
}

/// Returns the number of slots for each length of accesses.
fn histogram(
    layout: &PoolLeafLayout,
    access: impl Fn(usize) -> NodeSegments,
) -> BTreeMap<usize, usize> {
    let mut lengths = BTreeMap::new();
    for slot in 0..layout.span() {
        *lengths.entry(access(slot).wire_bytes()).or_default() += 1;
    }
    lengths
}

fn mean(layout: &PoolLeafLayout, access: impl Fn(usize) -> NodeSegments) -> f64 {
    let sum: usize = (0..layout.span())
        .map(|slot| access(slot).wire_bytes())
        .sum();
    sum as f64 / layout.span() as f64
}

fn neighborhood_mean(layout: &PoolLeafLayout) -> f64 {
    mean(layout, |home| layout.neighborhood(home))
}

fn single_entry_mean(layout: &PoolLeafLayout) -> f64 {
    mean(layout, |slot| layout.single_entry(slot))
}

/// Returns true if a mean is as published, with as many decimals.
fn rounds_to(mean: f64, published: f64, decimals: i32) -> bool {
    (mean - published).abs() <= 0.5 * 10_f64.powi(-decimals) + 1e-9
}

#[test]
fn leaves_of_all_lengths_of_keys_and_values() {
    // Key, value, entry, wire, allocation, mean neighborhood.
    let table = [
        (8, 8, 19, 1316, 1332, 164.5),
        (8, 16, 27, 1836, 1852, 229.5),
        (16, 8, 27, 1836, 1852, 229.5),
        (8, 32, 43, 2876, 2892, 359.5),
        (8, 64, 75, 4957, 4973, 619.6),
        (8, 128, 139, 9118, 9134, 1139.8),
        (8, 256, 267, 17_440, 17_456, 2180.0),
        (8, 512, 523, 34_084, 34_100, 4260.5),
    ];
    for (key_bytes, value_bytes, entry, wire, allocation, neighborhood) in table {
        let layout = leaf(|shape| (shape.key_bytes, shape.value_bytes) = (key_bytes, value_bytes));
        assert_eq!(layout.entry_bytes(), entry);
        assert_eq!(layout.wire_bytes(), wire);
        assert_eq!(layout.allocation_bytes(), allocation);
        assert!(rounds_to(neighborhood_mean(&layout), neighborhood, 1));
    }
}

#[test]
fn leaves_of_all_spans_and_neighborhoods() {
    // Span, neighborhood, wire, allocation, mean neighborhood, mean single entry.
    let table = [
        (64, 8, 1316, 1332, 164.5, 20.6),
        (32, 8, 658, 674, 164.5, 20.6),
        (64, 4, 1397, 1413, 87.3, 21.8),
        (64, 16, 1275, 1291, 318.8, 19.9),
        (128, 8, 2633, 2649, 164.6, 20.6),
        (128, 16, 2551, 2567, 318.9, 19.9),
        (512, 8, 10_532, 10_548, 164.6, 20.6),
    ];
    for (span, reach, wire, allocation, neighborhood, single_entry) in table {
        let layout = leaf(|shape| (shape.leaf_span, shape.neighborhood) = (span, reach));
        assert_eq!(layout.wire_bytes(), wire);
        assert_eq!(layout.allocation_bytes(), allocation);
        assert!(rounds_to(neighborhood_mean(&layout), neighborhood, 1));
        assert!(rounds_to(single_entry_mean(&layout), single_entry, 1));
    }
}

#[test]
fn the_default_leaf_and_the_one_with_fence_keys() {
    let layout = leaf(|_| {});
    assert_eq!((layout.replica_bytes(), layout.groups()), (10, 8));
    assert_eq!((layout.decoded_bytes(), layout.lock_offset()), (1296, 1320));
    assert_eq!(layout.allocation_bytes().next_multiple_of(64), 1344);
    let layout = leaf(|shape| shape.validation = Validation::Fences);
    assert_eq!((layout.replica_bytes(), layout.wire_bytes()), (26, 1446));
    assert_eq!(
        (layout.lock_offset(), layout.allocation_bytes()),
        (1448, 1462)
    );
}

#[test]
fn the_leaf_of_sherman() {
    let layout = leaf(|shape| shape.arrangement = Arrangement::Unordered);
    assert_eq!((layout.replica_bytes(), layout.entry_bytes()), (27, 17));
    assert_eq!((layout.decoded_bytes(), layout.wire_bytes()), (1115, 1132));
    assert_eq!(layout.allocation_bytes(), 1148);
    // All of it is read for any key.
    let read = histogram(&layout, |_| layout.neighborhood(0));
    assert_eq!(read, BTreeMap::from([(1132, 64)]));
    // Entries are written with the line's versions if a line begins within them.
    let written = histogram(&layout, |slot| {
        layout.entries(LeafSlotRange::new(slot, 1, 64))
    });
    assert_eq!(written.keys().copied().collect::<Vec<_>>(), [17, 18]);
}

#[test]
fn the_leaf_without_hop_bitmaps() {
    let layout = leaf(|shape| shape.arrangement = Arrangement::Neighborhood);
    assert_eq!((layout.replica_bytes(), layout.entry_bytes()), (10, 17));
    assert_eq!((layout.decoded_bytes(), layout.wire_bytes()), (1168, 1186));
    let neighborhoods = histogram(&layout, |home| layout.neighborhood(home));
    assert_eq!(
        neighborhoods.into_keys().collect::<Vec<_>>(),
        [147, 148, 149]
    );
    // Three of four entries are in one line, and are written atomically.
    let in_a_line = (0..64).filter(|&slot| layout.is_in_a_line(slot)).count();
    assert_eq!(in_a_line, 50);
}

#[test]
fn the_internal_node() {
    let layout = InternalLayout::new(Geometry::default());
    assert_eq!((layout.header_bytes(), layout.entry_bytes()), (43, 17));
    assert_eq!((layout.decoded_bytes(), layout.wire_bytes()), (1131, 1148));
    assert_eq!(
        (layout.lock_offset(), layout.allocation_bytes()),
        (1152, 1164)
    );
}

#[test]
fn metadata_for_each_key() {
    // Key, bytes for each slot with sibling validation, and with fence keys.
    let table = [
        (8, 4.8, 6.8),
        (32, 5.2, 13.3),
        (64, 5.7, 22.0),
        (128, 6.7, 39.2),
        (256, 8.75, 73.8),
    ];
    for (key_bytes, sibling, fences) in table {
        for (validation, published) in
            [(Validation::Sibling, sibling), (Validation::Fences, fences)]
        {
            let layout = leaf(|shape| {
                (shape.key_bytes, shape.validation) = (key_bytes, validation);
            });
            let all = layout.allocation_bytes() - 64 * (key_bytes + 8);
            let metadata = all as f64 / 64.0;
            assert!(
                rounds_to(metadata, published, 1),
                "keys of {key_bytes} bytes: {metadata}, published {published}"
            );
        }
    }
}

#[test]
fn neighborhoods_and_single_entries_have_the_published_lengths() {
    let layout = leaf(|_| {});
    let neighborhoods = histogram(&layout, |home| layout.neighborhood(home));
    assert_eq!(neighborhoods, BTreeMap::from([(164, 32), (165, 32)]));
    let wrapped = (0..64).filter(|&home| layout.neighborhood(home).count() == 2);
    assert_eq!(wrapped.count(), 7);
    let entries = histogram(&layout, |slot| layout.single_entry(slot));
    let published = BTreeMap::from([(19, 40), (20, 16), (29, 4), (30, 4)]);
    assert_eq!(entries, published);
    assert!(rounds_to(single_entry_mean(&layout), 20.56, 2));
}

#[test]
fn metadata_that_are_not_replicated_are_read_beside() {
    let layout = leaf(|shape| {
        (shape.metadata, shape.validation) = (LeafMetadataPosition::Single, Validation::Fences);
    });
    assert_eq!(layout.groups(), 1);
    let header = layout.replica_bytes();
    for home in 0..64 {
        let segments = layout.neighborhood(home);
        assert_eq!(segments.count(), if home == 0 { 1 } else { 2 });
        let window = segments.wire_bytes() - header;
        assert!((154..=155).contains(&window), "home {home}: {window}");
    }
}

#[test]
fn every_read_for_slots_has_them_and_a_replica() {
    for (span, reach) in [(64, 8), (64, 6), (64, 16), (7, 3), (5, 5), (9, 1)] {
        for metadata in [
            LeafMetadataPosition::Replicated,
            LeafMetadataPosition::Single,
        ] {
            let layout = leaf(|shape| {
                (shape.leaf_span, shape.neighborhood) = (span, reach);
                shape.metadata = metadata;
            });
            for (first, count) in (0..span).flat_map(|first| (1..=span).map(move |n| (first, n))) {
                let slots = LeafSlotRange::new(first, count, span);
                let read = layout.with_metadata(slots);
                assert!(layout.replica_within(&read).is_some());
                let written = layout.entries(slots);
                for slot in slots.iter() {
                    let entry = layout.entries(LeafSlotRange::new(slot, 1, span));
                    let entry = entry.iter().next().expect("one segment").decoded();
                    for segments in [&read, &written] {
                        assert!(segments.iter().any(|segment| {
                            let decoded = segment.decoded();
                            decoded.start <= entry.start && entry.end <= decoded.end
                        }));
                    }
                }
            }
        }
    }
}

#[test]
fn objects_are_walked_from_end_to_end() {
    fn walk(objects: &impl Objects) -> usize {
        let (mut start, mut count) = (0, 0);
        while start < objects.decoded_bytes() {
            let end = objects.object_end(start);
            assert!((start..end).all(|byte| objects.object_start(byte) == start));
            (start, count) = (end, count + 1);
        }
        assert_eq!(start, objects.decoded_bytes());
        count
    }
    assert_eq!(walk(&leaf(|_| {})), 8 + 64);
    assert_eq!(walk(&leaf(|shape| shape.neighborhood = 6)), 11 + 64);
    assert_eq!(
        walk(&leaf(|shape| shape.metadata = LeafMetadataPosition::Single)),
        65
    );
    assert_eq!(walk(&InternalLayout::new(Geometry::default())), 65);
}

#[test]
fn homes_are_those_of_xxh3() {
    // The published value of XXH3 of the empty string, 64 bits, without a seed.
    assert_eq!(home(b"", 1 << 32), 0x38d3_94c2);
    let mut counts = [0_u32; 64];
    for number in 0..64_000_u64 {
        counts[home(&number.to_be_bytes(), 64)] += 1;
    }
    assert!(counts.iter().all(|count| (850..1150).contains(count)));
}

/// A client that writes a value alone leaves the versions of lines unchanged.
#[test]
fn values_in_a_line_are_found_on_the_wire() {
    for (arrangement, value_bytes) in [
        (Arrangement::Neighborhood, 8),
        (Arrangement::Hopscotch, 8),
        (Arrangement::Neighborhood, 1),
        (Arrangement::Neighborhood, 50),
    ] {
        let shape = PoolIndexShape {
            arrangement,
            value_bytes,
            ..PoolIndexShape::default()
        };
        let layout = PoolLeafLayout::new(Geometry::new(shape).expect("sizes"));
        let (span, mut alone) = (layout.span(), 0);
        for slot in 0..span {
            let key = [slot as u8 + 1; 8];
            let mut leaf = PoolLeaf::new(layout);
            let all = LeafSlotRange::new(layout.home(&key), span, span);
            hopscotch::insert(&mut leaf, all, &key, &vec![1; value_bytes]).expect("room");
            let slot = leaf.occupied().next().expect("a key");
            let Some(at) = layout.value_in_a_line(slot) else {
                continue;
            };
            alone += 1;
            assert_eq!(at / 64, (at + value_bytes - 1) / 64, "one line");
            let before = leaf.encode(&layout.whole()).concat();
            let mut wire = before.clone();
            wire[at..at + value_bytes].fill(2);
            let changed = (0..wire.len()).filter(|&byte| wire[byte] != before[byte]);
            assert_eq!(changed.count(), value_bytes, "only the value");
            let mut read = PoolLeaf::new(layout);
            read.decode(&layout.whole(), &[&wire]).expect("not torn");
            assert_eq!(read.value(slot), vec![2; value_bytes]);
        }
        assert!(alone > 0);
    }
}

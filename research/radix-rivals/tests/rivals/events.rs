//! The events that a rival reports to a probe: enough to know each byte that it has read and
//! written.

use nearfield_core::{Batch, ByteStrings, OrderedIndex, Words};
use nearfield_radix::{RadixCounters, RadixNodeVisit, RadixProbe, VisitedNodeKind};
use nearfield_radix_rivals::{Art, ArtRowex, Heart, Rival, RivalDesign, RivalForm, Smart};
use std::collections::HashMap;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeEvent {
    Node(RadixNodeVisit),
    Write(usize, u32),
    Replace(usize, usize, u32),
}

/// The events of each operation, in order.
#[derive(Default)]
struct ProbeEventRecorder(Vec<Vec<ProbeEvent>>);

impl ProbeEventRecorder {
    fn push(&mut self, event: ProbeEvent) {
        self.0.last_mut().expect("an operation began").push(event);
    }
}

impl RadixProbe for ProbeEventRecorder {
    fn operation(&mut self, position: usize) {
        assert_eq!(position, self.0.len(), "operations come in order");
        self.0.push(Vec::new());
    }
    fn node(&mut self, visit: RadixNodeVisit) {
        self.push(ProbeEvent::Node(visit));
    }
    fn write(&mut self, address: usize, bytes: u32) {
        self.push(ProbeEvent::Write(address, bytes));
    }
    fn replace(&mut self, old: usize, new: usize, bytes: u32) {
        self.push(ProbeEvent::Replace(old, new, bytes));
    }
}

fn record<F: RivalForm, D: RivalDesign<F>>(
    index: &Rival<F, D>,
    fill: impl FnOnce(&mut Batch<F>),
) -> Vec<Vec<ProbeEvent>> {
    let mut batch = Batch::new();
    fill(&mut batch);
    let mut recorder = ProbeEventRecorder::default();
    index
        .execute_probed(&mut batch, &mut recorder)
        .expect("a batch");
    assert_eq!(recorder.0.len(), batch.len());
    recorder.0
}

/// A get visits the nodes from the root to a leaf, and writes nothing; each visit is complete.
#[test]
fn a_get_reports_its_walk() {
    let index = Art::<Words>::new();
    // Below the root: a node4 of prefix 6 whose children are leaves.
    index.insert(0x0102, 1).expect("insert");
    index.insert(0x0103, 2).expect("insert");
    let events = record(&index, |batch| {
        batch.get(0x0103);
        batch.get(0x0203);
    });
    let [found, absent] = &events[..] else {
        panic!("{events:?}")
    };
    let [
        ProbeEvent::Node(root),
        ProbeEvent::Node(node),
        ProbeEvent::Node(leaf),
    ] = found[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!(root.kind, VisitedNodeKind::Inner { slots: 256 });
    assert_eq!((root.head_bytes, root.prefix_bytes, root.slot), (24, 0, 24));
    assert_eq!(root.lines(), 1);
    assert_eq!(node.kind, VisitedNodeKind::Inner { slots: 4 });
    assert_eq!((node.head_bytes, node.prefix_bytes, node.slot), (28, 6, 40));
    assert_eq!(node.lines(), 1);
    assert_eq!((leaf.kind, leaf.head_bytes), (VisitedNodeKind::Leaf, 16));
    // It differs in the prefix, at its last stored byte.
    assert!(
        matches!(absent[..], [ProbeEvent::Node(_), ProbeEvent::Node(node)]
        if node.slot == 0 && node.prefix_bytes == 6)
    );
}

/// An insertion that makes a node grow reports the new leaf, the new node, the slot of the parent
/// and the replacement of the node.
#[test]
fn an_insertion_reports_its_writes() {
    let index = Art::<Words>::new();
    for key in 0..4 {
        index.insert(key, key).expect("insert");
    }
    let events = record(&index, |batch| {
        batch.insert(4, 4);
        batch.insert(4, 5);
        batch.remove(4);
    });
    let mut writes = Vec::new();
    let mut replaced = Vec::new();
    for event in &events[0] {
        match *event {
            ProbeEvent::Write(address, bytes) => writes.push((address, bytes)),
            ProbeEvent::Replace(old, new, bytes) => replaced.push((old, new, bytes)),
            ProbeEvent::Node(_) => {}
        }
    }
    let [(old, new, 168)] = replaced[..] else {
        panic!("{replaced:?}")
    };
    assert!(
        events[0]
            .iter()
            .any(|event| matches!(event, ProbeEvent::Node(visit)
        if visit.address == old))
    );
    let [(_, leaf), node, (_, slot)] = writes[..] else {
        panic!("{writes:?}")
    };
    assert_eq!((leaf, node, slot), (16, (new, 168), 8));
    let updates = events[1]
        .iter()
        .filter(|event| matches!(event, ProbeEvent::Write(_, 8)));
    assert_eq!(updates.count(), 1, "the value in its leaf: {:?}", events[1]);
    assert!(
        events[2]
            .iter()
            .any(|event| matches!(event, ProbeEvent::Write(address, 16)
        if *address == new + 24)),
        "{:?}",
        events[2]
    );
}

/// Checks that a mirror that knows each node from its first write, and follows replacements, never
/// sees a visit of a node that it does not know.
fn nothing_is_read_that_was_not_written<F: RivalForm, D: RivalDesign<F>>(
    index: &Rival<F, D>,
    mut add: impl FnMut(&mut Batch<F>, u64),
) {
    let mut batch = Batch::new();
    let mut state = 1_u64;
    for _ in 0..4_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        add(&mut batch, state);
    }
    let mut recorder = ProbeEventRecorder::default();
    index
        .execute_probed(&mut batch, &mut recorder)
        .expect("a batch");
    let mut known: HashMap<usize, u32> = HashMap::new();
    let mut root = None;
    for event in recorder.0.into_iter().flatten() {
        match event {
            // Parts of nodes are written, too: those are known already.
            ProbeEvent::Write(address, bytes) => {
                known
                    .entry(address)
                    .and_modify(|most| *most = bytes.max(*most))
                    .or_insert(bytes);
            }
            ProbeEvent::Replace(_, _, 0) => {}
            ProbeEvent::Replace(_, new, bytes) => assert!(known[&new] >= bytes, "an unknown copy"),
            ProbeEvent::Node(visit) => {
                let root = *root.get_or_insert(visit.address);
                let written = known.get(&visit.address).copied().unwrap_or(0);
                assert!(
                    visit.address == root || written >= visit.head_bytes,
                    "{visit:?} of a node of {written} bytes"
                );
            }
        }
    }
    index.check_invariants();
}

fn words_are_written_before_they_are_read<D: RivalDesign<Words>>(index: &Rival<Words, D>) {
    nothing_is_read_that_was_not_written(index, |batch, random| {
        let key = random >> 52 << (8 * (random >> 40 & 3));
        let _ = match random >> 33 & 3 {
            0 => batch.remove(key),
            1 => batch.get(key),
            _ => batch.insert(key, random),
        };
    });
}

fn bytes_are_written_before_they_are_read<D: RivalDesign<ByteStrings>>(
    index: &Rival<ByteStrings, D>,
) {
    nothing_is_read_that_was_not_written(index, |batch, random| {
        let bytes = (random >> 48).to_be_bytes();
        let key = &bytes[6..][..(random >> 40) as usize % 3];
        let _ = match random >> 33 & 3 {
            0 => batch.remove(key),
            1 => batch.get(key),
            _ => batch.insert(key, &bytes),
        };
    });
}

#[test]
fn nodes_of_art_are_written_before_they_are_read() {
    words_are_written_before_they_are_read(&Art::new());
    bytes_are_written_before_they_are_read(&Art::new());
}

#[test]
fn nodes_of_art_with_rowex_are_written_before_they_are_read() {
    words_are_written_before_they_are_read(&ArtRowex::new());
    bytes_are_written_before_they_are_read(&ArtRowex::new());
}

#[test]
fn nodes_of_smart_are_written_before_they_are_read() {
    words_are_written_before_they_are_read(&Smart::new());
    bytes_are_written_before_they_are_read(&Smart::new());
}

#[test]
fn nodes_of_heart_are_written_before_they_are_read() {
    words_are_written_before_they_are_read(&Heart::new());
    bytes_are_written_before_they_are_read(&Heart::new());
}

/// Counting sees the same walks.
#[test]
fn counts_are_those_of_the_events() {
    let index = Art::<Words>::new();
    for key in 0..1_000_u64 {
        index.insert(key * key, key).expect("insert");
    }
    let fill = |batch: &mut Batch<Words>| {
        (0..2_000).for_each(|key| {
            batch.get(key * key);
        });
    };
    let events = record(&index, fill);
    let visits = events.iter().flatten().filter_map(|event| match event {
        ProbeEvent::Node(visit) => Some(visit),
        _ => None,
    });
    let (mut matches, mut leaves, mut lines) = (0, 0, 0);
    for visit in visits {
        match visit.kind {
            VisitedNodeKind::Inner { .. } => matches += 1,
            VisitedNodeKind::Leaf => leaves += 1,
        }
        lines += visit.lines();
    }
    let mut batch = Batch::new();
    fill(&mut batch);
    let mut counters = RadixCounters::default();
    index
        .execute_counted(&mut batch, &mut counters)
        .expect("gets");
    let counted = RadixCounters {
        partial_key_matches: matches,
        leaves,
        cache_lines: lines,
        ..RadixCounters::default()
    };
    assert_eq!(counters, counted);
}

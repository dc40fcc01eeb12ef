//! Tests of every peer against the standard library's map, on both kinds of keys.

use nearfield_peers::{PeerKey, PeerKind, PeerMap, PeerSession, PeerTextKey, Visitor};
use std::collections::BTreeMap;

const KEYS: u64 = 3000;

/// A visitor that runs the same operations on a peer and on the model.
struct Compare<S: PeerKey> {
    kind: PeerKind,
    keys: Vec<S>,
}

/// Returns the next step of a fixed pseudo-random sequence.
fn step(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

impl<S: PeerKey> Visitor<S> for Compare<S> {
    type Output = ();

    fn visit<P: PeerMap<S> + 'static>(self) {
        let name = self.kind.name();
        let mut model = BTreeMap::new();
        let mut peer = P::new();
        let key = |index: usize| P::key(self.keys[index]).expect("the peer takes the key");
        let mut sessions = peer.sessions(1);
        let session = &mut sessions[0];
        let guard = session.pin();
        let mut state = 1;
        for round in 0..40_000_u64 {
            // All 64 bits belong to the caller: no peer may keep some for itself.
            let round = round.reverse_bits() ^ round;
            let index = step(&mut state) as usize % self.keys.len();
            let native = self.keys[index].native();
            match step(&mut state) % 8 {
                0 | 1 => {
                    session.insert(&guard, key(index), round);
                    model.insert(native, round);
                }
                2 => {
                    if model.contains_key(&native) {
                        assert!(session.update(&guard, key(index), round), "{name}");
                        model.insert(native, round);
                    }
                }
                3 => {
                    let was_there = model.remove(&native).is_some();
                    assert_eq!(
                        session.remove(&guard, key(index)),
                        was_there,
                        "{name} {native:?}"
                    );
                }
                4 if self.kind.is_ordered() => {
                    let limit = step(&mut state) as usize % 100;
                    let mut values = Vec::new();
                    let count = session.scan(&guard, key(index), limit, |value| values.push(value));
                    let expected: Vec<u64> = model
                        .range(native..)
                        .take(limit)
                        .map(|(_, value)| *value)
                        .collect();
                    assert_eq!(values, expected, "{name} from {native:?}, {limit}");
                    assert_eq!(count, expected.len(), "{name}");
                }
                _ => {
                    let expected = model.get(&native).copied();
                    assert_eq!(
                        session.get(&guard, key(index)),
                        expected,
                        "{name} {native:?}"
                    );
                }
            }
        }
    }
}

fn words() -> Vec<u64> {
    let sparse = (1..KEYS).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..KEYS).chain(sparse).collect()
}

/// Returns strings of 1 to 40 bytes, some of them prefixes of others.
fn texts() -> Vec<PeerTextKey> {
    let mut state = 7;
    let mut texts: Vec<String> = (0..KEYS)
        .map(|i| {
            format!(
                "{}/{}",
                step(&mut state) % 100,
                "long".repeat(i as usize % 10)
            )
        })
        .collect();
    texts.extend((0..KEYS).map(|i| format!("{i}")));
    texts.sort();
    texts.dedup();
    let text = |string: String| {
        let terminated = format!("{string}\0").into_bytes().leak();
        PeerTextKey::from_terminated(terminated).expect("no NUL inside")
    };
    texts.into_iter().map(text).collect()
}

#[test]
fn words_agree_with_the_model() {
    for kind in PeerKind::ALL {
        kind.visit_words(Compare {
            kind,
            keys: words(),
        });
    }
}

#[test]
fn texts_agree_with_the_model() {
    for kind in PeerKind::ALL {
        let visited = kind
            .visit_text(Compare {
                kind,
                keys: texts(),
            })
            .is_some();
        assert_eq!(visited, kind.takes_text(), "{}", kind.name());
    }
}

/// A visitor in which threads load disjoint keys and then read everything.
struct SharedPeerVisitor(PeerKind);

impl Visitor<u64> for SharedPeerVisitor {
    type Output = ();

    fn visit<P: PeerMap<u64> + 'static>(self) {
        const THREADS: u64 = 4;
        let mut peer = P::new();
        let key = |key: u64| P::key(key).expect("the peer takes the key");
        std::thread::scope(|scope| {
            for (thread, mut session) in (0..).zip(peer.sessions(THREADS as usize)) {
                scope.spawn(move || {
                    let guard = session.pin();
                    for i in (thread..KEYS).step_by(THREADS as usize) {
                        session.insert(&guard, key(i), i + 1);
                    }
                });
            }
        });
        let mut sessions = peer.sessions(THREADS as usize);
        let session = &mut sessions[1];
        let guard = session.pin();
        for i in 0..KEYS {
            assert_eq!(
                session.get(&guard, key(i)),
                Some(i + 1),
                "{} {i}",
                self.0.name()
            );
        }
    }
}

#[test]
fn threads_share_the_shared_ones() {
    for kind in PeerKind::ALL.into_iter().filter(|kind| kind.is_shared()) {
        kind.visit_words(SharedPeerVisitor(kind));
    }
}

#[test]
fn names_are_unique_and_found() {
    for kind in PeerKind::ALL {
        assert_eq!(PeerKind::from_name(kind.name()), Some(kind));
    }
    assert_eq!(PeerKind::from_name("redis"), None);
}

//! The shape of a key set's radix tree, to compare generated sets with real ones.

/// The inner nodes of a path-compressed radix tree over bytes, by the smallest ART node kind that
/// holds their children, and the mean number of them above a key.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RadixTreeShape {
    pub(super) node4: usize,
    pub(super) node16: usize,
    pub(super) node48: usize,
    pub(super) node256: usize,
    pub(super) depth_mean: f64,
}

/// Computes the shape for `keys`, sorted and with none a prefix of another.
pub(super) fn shape(keys: &[Vec<u8>]) -> RadixTreeShape {
    let mut shape = RadixTreeShape::default();
    let mut pending = vec![(keys, 0)];
    let mut steps = 0;
    while let Some((keys, depth)) = pending.pop() {
        let (first, last) = (&keys[0], &keys[keys.len() - 1]);
        if keys.len() == 1 {
            continue;
        }
        let branch = depth
            + first[depth..]
                .iter()
                .zip(&last[depth..])
                .take_while(|(a, b)| a == b)
                .count();
        let children = keys.chunk_by(|a, b| a[branch] == b[branch]);
        match children.clone().count() {
            0..=4 => shape.node4 += 1,
            5..=16 => shape.node16 += 1,
            17..=48 => shape.node48 += 1,
            _ => shape.node256 += 1,
        }
        steps += keys.len();
        pending.extend(children.map(|child| (child, branch + 1)));
    }
    shape.depth_mean = steps as f64 / keys.len() as f64;
    shape
}

#[test]
fn a_small_tree() {
    let keys: Vec<Vec<u8>> = ["nearby\0", "nearfield\0", "nearly\0", "so\0"]
        .map(|key| key.as_bytes().to_vec())
        .into();
    let expected = RadixTreeShape {
        node4: 2,
        depth_mean: 7.0 / 4.0,
        ..RadixTreeShape::default()
    };
    assert_eq!(shape(&keys), expected);
}

//! Parts of leaves that are read again and again into the same memory.

use super::node_io::{Counts, NodeAt, is_still};
use crate::error::PoolError;
use crate::layout::{Leaf, LeafLayout, Segments};
use arrayvec::ArrayVec;
use nearfield_fabric::{Endpoint, Verb};

/// A counter twice, and two segments.
const READS_MAX: usize = 4;

/// A part of a leaf. What was not read is left over from other leaves.
#[derive(Debug)]
pub(super) struct Window {
    pub leaf: Leaf,
    wire: Vec<u8>,
    counts: Counts,
}

impl Window {
    pub fn new(layout: LeafLayout) -> Window {
        Window {
            leaf: Leaf::new(layout),
            wire: Vec::new(),
            counts: Default::default(),
        }
    }

    /// Reads segments of a leaf, between two looks at its counter if it has one. False if somebody has
    /// written meanwhile.
    pub async fn read(
        &mut self,
        endpoint: &impl Endpoint,
        at: NodeAt,
        segments: &Segments,
        is_counted: bool,
    ) -> Result<bool, PoolError> {
        let bytes = segments.wire_bytes();
        if self.wire.len() < bytes {
            self.wire.resize(bytes, 0);
        }
        let [before, behind] = &mut self.counts;
        let mut verbs = ArrayVec::<Verb<'_>, READS_MAX>::new();
        if is_counted {
            let (from, into) = (at.counter(), &mut before[..]);
            verbs.push(Verb::Read { from, into });
        }
        let mut rest = &mut self.wire[..bytes];
        for segment in segments.iter() {
            let wire = segment.wire();
            let (into, others) = rest.split_at_mut(wire.len());
            rest = others;
            let from = at.address.plus(wire.start as u64);
            verbs.push(Verb::Read { from, into });
        }
        if is_counted {
            let (from, into) = (at.counter(), &mut behind[..]);
            verbs.push(Verb::Read { from, into });
        }
        endpoint.post(&mut verbs).await?;
        drop(verbs);
        Ok(self.take_in(segments, is_counted))
    }

    /// Decodes what was read. Versions are of no use where a counter tells.
    fn take_in(&mut self, segments: &Segments, is_counted: bool) -> bool {
        let mut rest = &self.wire[..];
        let wire = segments.iter().map(|segment| {
            let (wire, others) = rest.split_at(segment.wire().len());
            rest = others;
            wire
        });
        if is_counted {
            if !is_still(self.counts) {
                return false;
            }
            self.leaf.copy(segments, wire);
            return true;
        }
        let wire: ArrayVec<&[u8], READS_MAX> = wire.collect();
        self.leaf.decode(segments, &wire).is_ok()
    }
}

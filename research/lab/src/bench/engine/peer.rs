//! Maps of other projects: one operation at a time.

use super::{BenchEngine, BenchLane};
use crate::bench::task::{BenchOperation, BenchOperationKind};
use crate::harness::Durations;
use nearfield_peers::{PeerKey, PeerMap, PeerSession};
use std::hint::black_box;
use std::marker::PhantomData;
use std::time::Instant;

/// One in this many operations is timed (reading the clock twice takes about as long as a fast
/// get), and the guard is taken again as often.
const STRIDE: usize = 64;

/// The engine of this module.
pub(in crate::bench) struct PeerEngine<S, P> {
    peer: P,
    source: PhantomData<S>,
}

impl<S: PeerKey, P: PeerMap<S>> PeerEngine<S, P> {
    pub(in crate::bench) fn new() -> Self {
        PeerEngine {
            peer: P::new(),
            source: PhantomData,
        }
    }
}

impl<S: PeerKey, P: PeerMap<S>> BenchEngine<S> for PeerEngine<S, P> {
    type Key = P::Key;
    type Lane<'e>
        = PeerLane<P::Session<'e>>
    where
        P: 'e;

    fn key(source: S) -> Result<P::Key, &'static str> {
        P::key(source)
    }

    fn lanes(&mut self, threads: usize, _: usize) -> Vec<PeerLane<P::Session<'_>>> {
        self.peer
            .sessions(threads)
            .into_iter()
            .map(PeerLane)
            .collect()
    }
}

/// One thread's session.
pub(in crate::bench) struct PeerLane<Q>(Q);

impl<Q: PeerSession> BenchLane for PeerLane<Q> {
    type Key = Q::Key;

    fn run(
        &mut self,
        tasks: &[BenchOperation<Q::Key>],
        version: u16,
        durations: &mut Durations,
    ) -> Result<u64, String> {
        let mut wrong = 0;
        for stride in tasks.chunks(STRIDE) {
            let guard = self.0.pin();
            let (timed, others) = (&stride[0], &stride[1..]);
            let start = Instant::now();
            wrong += u64::from(!self.perform(&guard, timed, version));
            durations.record(start.elapsed());
            for task in others {
                wrong += u64::from(!self.perform(&guard, task, version));
            }
        }
        Ok(wrong)
    }
}

impl<Q: PeerSession> PeerLane<Q> {
    /// Carries out one task; returns true if its outcome was right.
    #[inline]
    fn perform(&mut self, guard: &Q::Guard, task: &BenchOperation<Q::Key>, version: u16) -> bool {
        match task.verb {
            BenchOperationKind::Get => task.has_value(self.0.get(guard, task.key)),
            BenchOperationKind::Update => self.0.update(guard, task.key, task.value(version)),
            BenchOperationKind::Insert => {
                self.0.insert(guard, task.key, task.value(version));
                true
            }
            BenchOperationKind::Scan(limit) => {
                let mut sum = 0_u64;
                let add = |value| sum = sum.wrapping_add(value);
                let count = self.0.scan(guard, task.key, limit as usize, add);
                black_box(sum);
                (1..=limit as usize).contains(&count)
            }
            BenchOperationKind::ReadModifyWrite => {
                let value = self.0.get(guard, task.key);
                task.has_value(value) && self.0.update(guard, task.key, task.value(version))
            }
        }
    }
}

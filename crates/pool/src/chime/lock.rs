//! Locks of nodes, and changes under them.

use super::BACK_OFF;
use super::node_io::NodeAt;
use super::recover::REPAIRS_MAX;
use super::recovery_step::RecoveryStep;
use super::session::ChimeSession;
use crate::coordination::LocalLock;
use crate::error::PoolError;
use nearfield_fabric::recovery::lease::{
    FIRST_SLEEP, HELD_BIT, PriorLockState, Target, swap_and_read,
};
use nearfield_fabric::recovery::redo::{self, RedoLockOutcome, RedoRecord};
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress, LINE_BYTES, MaskedSwap};
use std::time::Duration;

/// Bytes, and their target.
pub(super) type Write = (GlobalAddress, Vec<u8>);

/// The writes to make under a lock.
#[derive(Debug, Default)]
pub(super) struct ChimeLockWrites {
    /// Counters that are odd during the writes.
    pub marks: Vec<GlobalAddress>,
    pub writes: Vec<Write>,
}

/// The held lock of a node.
///
/// If it is dropped without a release, as after an error of a memory node, it stays held: one of
/// the paper's forever, one with a lease until the lease expires.
#[derive(Debug)]
pub(super) struct ChimeNodeLock<'t> {
    node: NodeAt,
    /// Time after which no write is made under the lock, even if its own lease lasts longer.
    bound: Duration,
    /// The word before the lock was taken; `None` if it is unknown, because the holder has died.
    pub before: Option<u64>,
    leased: Option<redo::RedoLockGuard<'t>>,
    /// The turn among the clients of the compute node. Dropped at the release of the lock.
    turn: Option<LocalLock<'t, u64>>,
}

/// The lock was held for so long that another client may hold it by now. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Late;

/// The state of a lock after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockDisposition {
    /// The lock is released, with this word.
    Unlock(u64),
    Keep,
}

impl ChimeLockWrites {
    pub fn extend(&mut self, more: ChimeLockWrites) {
        self.marks.extend(more.marks);
        self.writes.extend(more.writes);
    }
}

impl<E: Endpoint> ChimeSession<'_, E> {
    /// Takes the lock of a node and reads the guarded data in the same post. The bytes read are
    /// meaningless if the former word of the lock is unknown. One round trip if the lock is free.
    ///
    /// Locks with leases are taken as [`redo`] describes: the changes of a dead holder are
    /// completed before this returns.
    pub(super) async fn lock(
        &self,
        node: NodeAt,
        reads: &mut [Target<'_>],
    ) -> Result<ChimeNodeLock<'_>, PoolError> {
        let at = node.lock();
        let Some(owner) = &self.tree.owner else {
            return self.spin(node, reads).await;
        };
        // Once the session is not valid the memory of the node may be reused, lock included.
        self.renew().await?;
        let mut forwards = 0;
        let leased = loop {
            // Asked in each turn, because a client that was suspended gets another number.
            let geometry = self.tree.node.geometry;
            let redo = owner.redo(
                &self.tree.endpoint,
                &self.tree.header,
                geometry,
                self.tree.lease,
            );
            match redo.await?.lock(&self.tree.endpoint, at, reads).await? {
                RedoLockOutcome::Locked(leased) => break leased,
                // The number was kept for much longer than a lease, so this client was suspended.
                RedoLockOutcome::Expired => {}
                RedoLockOutcome::Forwarded(parent) => {
                    // Damaged words may forward in a circle.
                    forwards += 1;
                    if forwards > REPAIRS_MAX {
                        return Err(PoolError::Damaged { at: node.address });
                    }
                    let _depth = self.begin_recovery(node.address)?;
                    // The holder of that lock has died, or is releasing this one.
                    Box::pin(self.give_back_orphan(parent, node)).await?;
                }
            }
        };
        let before = match leased.held.before {
            PriorLockState::Free(word) => Some(word),
            PriorLockState::Abandoned(_) => None,
        };
        let mut lock = ChimeNodeLock {
            node,
            bound: Duration::MAX,
            before,
            leased: Some(leased),
            turn: None,
        };
        if lock.before.is_none() {
            self.align(&lock, node).await?;
        }
        // The record is repeated already. A step that its note names is not part of it, and must be
        // made before others see the lock free.
        let key_bytes = self.tree.leaves.geometry().shape().key_bytes;
        if let Some(record) = lock.redone()
            && let Some(note) = RecoveryStep::decode(&record.note, key_bytes)
        {
            // The step may meet further abandoned locks.
            let _depth = self.begin_recovery(node.address)?;
            Box::pin(self.resume(node.address, note, &lock)).await?;
        }
        Ok(lock)
    }

    /// Makes the replicas of a node equal, of which a dead client may have changed one. `lock` is
    /// that of the node or of its parent. If it is late, nothing can be written under it.
    pub(super) async fn align(
        &self,
        lock: &ChimeNodeLock<'_>,
        node: NodeAt,
    ) -> Result<(), PoolError> {
        let until = self.until(lock).unwrap_or(Duration::MAX);
        let ranges = [(node.address, node.bytes())];
        let endpoint = &self.tree.endpoint;
        endpoint.align_replicas(until, node.lock(), &ranges).await?;
        Ok(())
    }

    /// Takes a lock like [`lock`](ChimeSession::lock), after earlier clients of the compute node.
    /// The client before may pass on one of the paper's locks: then it is not taken, and the
    /// guarded data are read separately.
    pub(super) async fn lock_in_turn(
        &self,
        node: NodeAt,
        reads: &mut [Target<'_>],
    ) -> Result<ChimeNodeLock<'_>, PoolError> {
        let Some(locks) = &self.tree.node.leaf_locks else {
            return self.lock(node, reads).await;
        };
        let (turn, passed) = locks.lock(node.lock()).await;
        let mut lock = match passed {
            Some(word) => {
                // A lock that was passed on is held already, so only the reads are left.
                let reads = reads.iter_mut();
                let reads = reads.map(|(from, into)| FabricVerb::Read { from: *from, into });
                let mut verbs: Vec<FabricVerb<'_>> = reads.collect();
                if !verbs.is_empty() {
                    self.tree.endpoint.post(&mut verbs).await?;
                }
                ChimeNodeLock {
                    node,
                    bound: Duration::MAX,
                    before: Some(word),
                    leased: None,
                    turn: None,
                }
            }
            None => self.lock(node, reads).await?,
        };
        lock.turn = Some(turn);
        Ok(lock)
    }

    /// Takes one of the paper's locks.
    async fn spin(
        &self,
        node: NodeAt,
        reads: &mut [Target<'_>],
    ) -> Result<ChimeNodeLock<'_>, PoolError> {
        // Only the held bit is compared, because a client does not know the other bits before the
        // swap returns them.
        let swap = MaskedSwap {
            expected: 0,
            compare_mask: HELD_BIT,
            desired: u64::MAX,
            swap_mask: u64::MAX,
        };
        let mut sleep = FIRST_SLEEP;
        let mut patience = self.patience();
        loop {
            let began = self.tree.endpoint.now();
            let found = swap_and_read(&self.tree.endpoint, node.lock(), swap, reads).await?;
            if swap.succeeds(found) {
                return Ok(ChimeNodeLock {
                    node,
                    bound: Duration::MAX,
                    before: Some(found),
                    leased: None,
                    turn: None,
                });
            }
            if patience.has_ended(&self.tree.endpoint) {
                self.wait_again(&mut patience, node.address)?;
            }
            let wait = match &self.tree.back_off {
                Some(back_off) => back_off.next(&mut sleep, self.tree.endpoint.now() - began),
                None => BACK_OFF,
            };
            self.tree.endpoint.sleep(wait).await;
        }
    }

    /// Releases a lock, or passes it on, when all writes under it have taken effect; `word` is its
    /// word while it is free. A lock that another client may hold by now is not touched.
    pub(super) fn unlock(&self, mut lock: ChimeNodeLock<'_>, word: u64) -> Result<(), PoolError> {
        if lock.is_wanted()
            && let Some(turn) = lock.turn.take()
        {
            match turn.hand_over(word) {
                Ok(()) => return Ok(()),
                Err((turn, _)) => lock.turn = Some(turn),
            }
        }
        self.give_back_at_once(lock, word).map(drop)
    }

    /// Releases a lock, possibly before the writes under it have taken effect, if these go to the
    /// same node. Returns false if another client may hold it by now: that client completes the
    /// record and its note.
    pub(super) fn give_back_at_once(
        &self,
        lock: ChimeNodeLock<'_>,
        word: u64,
    ) -> Result<bool, PoolError> {
        debug_assert_eq!(word & HELD_BIT, 0, "the word of a free lock");
        // A node orders the verbs of a client, so the release waits for no earlier write to the
        // same node.
        let (at, word) = (lock.node.lock(), word.to_le_bytes());
        let given_back = match self.until(&lock) {
            None => self
                .tree
                .endpoint
                .write_unsignalled(at, &word)
                .map(|()| true),
            Some(until) => self.tree.endpoint.write_unsignalled_by(until, at, &word),
        };
        let given_back = given_back?;
        // Otherwise the record stays: the client that takes the lock over still needs it.
        if given_back && let Some(leased) = lock.leased {
            leased.finish();
        }
        Ok(given_back)
    }

    /// Returns true if another client may hold a lock by now, or the node's memory may be reused.
    pub(super) fn is_late(&self, lock: &ChimeNodeLock<'_>) -> bool {
        let until = self.until(lock);
        until.is_some_and(|until| self.tree.endpoint.now() >= until)
    }

    /// Returns the time until which guarded data may be written: until then no other client holds
    /// the lock, and the node's memory is not reused. `None`: forever.
    fn until(&self, lock: &ChimeNodeLock<'_>) -> Option<Duration> {
        // The lease protects against other holders of the lock, the session against a reuse of the
        // memory.
        let leased = lock.until()?;
        Some(leased.min(self.safe_until()))
    }

    /// Posts verbs under a lock; returns false, and does nothing, if another client may hold it by
    /// now.
    pub(super) async fn post_under(
        &self,
        lock: &ChimeNodeLock<'_>,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, PoolError> {
        Ok(match self.until(lock) {
            None => self.tree.endpoint.post(verbs).await.map(|()| true)?,
            Some(until) => self.tree.endpoint.post_by(until, verbs).await?,
        })
    }

    /// Makes a change under a lock and releases it, or passes it on. One round trip.
    ///
    /// If this client dies in the middle, the client that takes the lock over finishes the change:
    /// a change that is not atomic is recorded before.
    pub(super) async fn commit(
        &self,
        mut lock: ChimeNodeLock<'_>,
        writes: &ChimeLockWrites,
        word: u64,
    ) -> Result<Result<(), Late>, PoolError> {
        // One atomic write is made or not, so there is nothing to complete, and no record.
        let note = if writes.marks.is_empty() && self.is_one(&writes.writes) {
            None
        } else {
            Some(&[][..])
        };
        let passes = lock.is_wanted();
        let then = if passes {
            LockDisposition::Keep
        } else {
            LockDisposition::Unlock(word)
        };
        let done = self.write(&mut lock, writes, note, then).await?;
        if passes {
            // Locks with leases are never passed on.
            debug_assert!(lock.leased.is_none() && done.is_ok());
            self.unlock(lock, word)?;
        } else if done.is_ok()
            && let Some(leased) = lock.leased
        {
            leased.finish();
        }
        Ok(done)
    }

    /// Makes a change under a lock and keeps the lock. If this client dies, the client that takes
    /// the lock over makes the change again and finds the note. One round trip.
    pub(super) async fn commit_and_keep(
        &self,
        lock: &mut ChimeNodeLock<'_>,
        writes: &ChimeLockWrites,
        note: &RecoveryStep,
    ) -> Result<Result<(), Late>, PoolError> {
        let note = note.encode();
        self.write(lock, writes, Some(&note), LockDisposition::Keep)
            .await
    }

    /// Makes the writes, after a record if there is a note for it.
    async fn write(
        &self,
        lock: &mut ChimeNodeLock<'_>,
        writes: &ChimeLockWrites,
        note: Option<&[u8]>,
        then: LockDisposition,
    ) -> Result<Result<(), Late>, PoolError> {
        // A slot for a record may take round trips, which would be in vain.
        if self.is_late(lock) {
            return Ok(Err(Late));
        }
        let mut record: Option<Write> = None;
        let mut is_recorded = false;
        if let Some(leased) = &mut lock.leased
            && let Some(note) = note
        {
            let marks = writes.marks.iter().map(|mark| (*mark, &[][..]));
            let writes = writes.writes.iter().map(|(to, bytes)| (*to, &bytes[..]));
            let writes: Vec<_> = marks.chain(writes).collect();
            record = Some(leased.record(&self.tree.endpoint, &writes, note).await?);
        }
        let word = match then {
            LockDisposition::Unlock(word) => Some(word.to_le_bytes()),
            LockDisposition::Keep => None,
        };
        // The release is not in the record: a client that repeats the change would give its own
        // lock away.
        let unlock = word.as_ref().map(|word| FabricVerb::Write {
            to: lock.node.lock(),
            bytes: word,
        });
        let node = lock.node.address.node();
        if let Some((to, bytes)) = &record
            && writes.writes.iter().any(|(to, _)| to.node() != node)
        {
            // Each node orders verbs for itself only. So the record is awaited before writes go to
            // other nodes: they must never take effect without it.
            let mut verbs = [FabricVerb::Write { to: *to, bytes }];
            if !self.post_under(lock, &mut verbs).await? {
                return Ok(Err(Late));
            }
            record = None;
            is_recorded = true;
        }
        let marks = || {
            writes.marks.iter().map(|&at| FabricVerb::Add {
                at,
                summand: 1,
                found: 0,
            })
        };
        let mut verbs: Vec<FabricVerb<'_>> = Vec::new();
        verbs.extend(
            record
                .iter()
                .map(|(to, bytes)| FabricVerb::Write { to: *to, bytes }),
        );
        // Record, counter, change and release go in one post, in this order: if any byte of the
        // change is there, the record is whole, and the counter is odd until all of it is there.
        verbs.extend(marks());
        verbs.extend(
            writes
                .writes
                .iter()
                .map(|(to, bytes)| FabricVerb::Write { to: *to, bytes }),
        );
        verbs.extend(marks());
        verbs.extend(unlock);
        if verbs.is_empty() || self.post_under(lock, &mut verbs).await? {
            return Ok(Ok(()));
        }
        if !is_recorded {
            return Ok(Err(Late));
        }
        // The record is written, but the deadline has passed, so this client may not make the
        // change. The client that takes the lock next makes it, and the step that the note names.
        Box::pin(self.repair(lock.node)).await?;
        Ok(Ok(()))
    }

    /// Returns true if writes take effect as one: a line, or a word if the nodes guarantee no more.
    pub(super) fn is_one(&self, writes: &[Write]) -> bool {
        let atomic = self.tree.endpoint.atomic_bytes().min(LINE_BYTES);
        debug_assert!(atomic.is_power_of_two(), "lines and words do not overlap");
        match writes {
            [(to, bytes)] => {
                let (first, length) = (to.offset(), bytes.len() as u64);
                length > 0 && first / atomic == (first + length - 1) / atomic
            }
            _ => false,
        }
    }
}

impl ChimeNodeLock<'_> {
    /// Returns true if a client of the compute node waits for the lock, and it may be passed on.
    /// A lock with a lease is never passed on.
    fn is_wanted(&self) -> bool {
        let is_wanted = self.turn.as_ref().is_some_and(LocalLock::is_wanted);
        // With a lease, the next client would write under the acquisition of the first: its change
        // would be redone from the first one's record, and it would have only the rest of that
        // lease.
        is_wanted && self.leased.is_none()
    }

    /// Returns a number that no other acquisition has ([`redo::RedoLockGuard::stamp`]). Returns
    /// zero for one of the paper's locks.
    pub fn stamp(&self, bits: u32) -> u64 {
        let leased = self.leased.as_ref();
        leased.map_or(0, |leased| leased.stamp(bits))
    }

    /// Returns the time until which the guarded data may be written. `None`: forever.
    fn until(&self) -> Option<Duration> {
        let leased = self.leased.as_ref()?;
        Some(leased.until().min(self.bound))
    }

    /// Limits writes under this lock to the time in which no other client can take `to`, which is
    /// held.
    pub fn bind(&mut self, to: &ChimeNodeLock<'_>) {
        self.bound = to.until().unwrap_or(Duration::MAX);
    }

    /// Takes the change of a former holder that was redone.
    fn redone(&mut self) -> Option<RedoRecord> {
        self.leased.as_mut()?.redone.take()
    }
}

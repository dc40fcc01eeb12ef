//! Posts to pairs: first to the backups, then to the primaries.

use super::MirroredEndpoint;
use super::state::{DeferredWrite, PairView, PendingLockWord};
use crate::address::{GlobalAddress, NodeId};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::{FabricVerb, MaskedSwap};
use std::time::Duration;

/// The part of a post that is done at the backups.
#[derive(Debug)]
struct BackupProgress {
    /// The words that swaps and additions found there, by the numbers of the verbs.
    found: Vec<Option<u64>>,
    /// The pairs whose backups have the changes.
    pairs: Vec<usize>,
    /// The versions of these pairs when their backups got the changes.
    versions: Vec<u64>,
}

impl<E: Endpoint> MirroredEndpoint<E> {
    /// Posts verbs after the deferred writes, if the post begins before the deadline.
    pub(super) async fn execute(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        self.write_deferred().await?;
        self.execute_at_once(deadline, verbs).await
    }

    /// Makes the deferred writes.
    pub(super) async fn write_deferred(&self) -> Result<(), FabricError> {
        let _turn = self.flush_queue.turn().await;
        loop {
            let next = self.deferred.borrow().front().cloned();
            let Some(write) = next else { return Ok(()) };
            // A write with a deadline releases a lock, which may be another client's if it is
            // released twice. It is tried once, even if the task stops waiting.
            let is_once = write.deadline < Duration::MAX;
            if is_once {
                self.deferred.borrow_mut().pop_front();
            }
            let mut verbs = [FabricVerb::Write {
                to: write.to,
                bytes: &write.bytes,
            }];
            match self.execute_at_once(write.deadline, &mut verbs).await {
                Ok(_) | Err(FabricError::NodeLost { .. }) => {}
                Err(error) => return Err(error),
            }
            if !is_once {
                self.deferred.borrow_mut().pop_front();
            }
        }
    }

    async fn execute_at_once(
        &self,
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        let pairs = self.pairs_of(verbs)?;
        let mut progress = BackupProgress {
            found: vec![None; verbs.len()],
            pairs: Vec::new(),
            versions: Vec::new(),
        };
        if !self.rules.backup_first {
            let posted = self.post_to_primaries(&pairs, deadline, verbs, &progress);
            let is_done = posted.await?.unwrap_or_default();
            if is_done {
                self.post_to_backups(&pairs, deadline, verbs, &mut progress)
                    .await?;
            }
            return Ok(is_done);
        }
        loop {
            let posted = self.post_to_backups(&pairs, deadline, verbs, &mut progress);
            if !posted.await? {
                return self.late(&progress);
            }
            let posted = self.post_to_primaries(&pairs, deadline, verbs, &progress);
            if let Some(is_done) = posted.await? {
                return Ok(is_done);
            }
        }
    }

    /// Returns true if a pair has taken in a node that does not have the changes.
    ///
    /// # Errors
    /// `NodeLost` if a former backup has the changes: they may have been made, and a second time
    /// could undo those of others.
    fn lacks_changes(
        &self,
        pair: usize,
        verbs: &[FabricVerb<'_>],
        progress: &BackupProgress,
    ) -> Result<bool, FabricError> {
        let (number, version, view) =
            self.with(pair, |state| (state.pair.number, state.version, state.view));
        if let Some(index) = progress.pairs.iter().position(|&done| done == pair) {
            return match progress.versions[index] == version {
                true => Ok(false),
                false => Err(self.lost(pair)),
            };
        }
        let mut changes = verbs.iter().filter(|verb| verb.node() == number);
        Ok(self.rules.backup_first
            && view == PairView::Both
            && changes.any(|verb| self.is_mirrored(verb)))
    }

    /// Returns the pairs that verbs access, each once.
    fn pairs_of(&self, verbs: &[FabricVerb<'_>]) -> Result<Vec<usize>, FabricError> {
        let mut pairs = Vec::new();
        for verb in verbs {
            let pair = self.index(verb.node())?;
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        Ok(pairs)
    }

    /// Returns the outcome of a post whose deadline has passed: the change may be made if a backup
    /// has it.
    fn late(&self, progress: &BackupProgress) -> Result<bool, FabricError> {
        match progress.pairs.first() {
            Some(&pair) => Err(self.lost(pair)),
            None => Ok(false),
        }
    }

    /// Returns true for verbs that are executed at the backup, too.
    fn is_mirrored(&self, verb: &FabricVerb<'_>) -> bool {
        self.rules.mirrors
            && match verb {
                FabricVerb::Read { .. } => false,
                FabricVerb::Write { .. } | FabricVerb::Add { .. } => true,
                FabricVerb::Swap { swap, .. } => self.rules.repeats_swaps && swap.is_whole(),
            }
    }

    /// Executes the changes at the backups. Returns false if the deadline has passed before all of
    /// them have begun.
    async fn post_to_backups(
        &self,
        pairs: &[usize],
        deadline: Duration,
        verbs: &[FabricVerb<'_>],
        progress: &mut BackupProgress,
    ) -> Result<bool, FabricError> {
        // One after the other, because the loss of one backup leaves the result of a post to
        // several unknown.
        for &pair in pairs {
            let number = self.nodes_of(pair).number;
            let changes: Vec<usize> = (0..verbs.len())
                .filter(|&index| verbs[index].node() == number && self.is_mirrored(&verbs[index]))
                .collect();
            if !changes.is_empty()
                && !progress.pairs.contains(&pair)
                && !self
                    .post_to_backup(pair, deadline, verbs, &changes, progress)
                    .await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Executes the verbs with these numbers at the backup of their pair, if it has one. Returns
    /// false if the deadline has passed.
    async fn post_to_backup(
        &self,
        pair: usize,
        deadline: Duration,
        verbs: &[FabricVerb<'_>],
        changes: &[usize],
        progress: &mut BackupProgress,
    ) -> Result<bool, FabricError> {
        loop {
            let fence = self.fence(pair, true, deadline).await?;
            let (view, backup, version) =
                self.with(pair, |state| (state.view, state.pair.backup, state.version));
            if view != PairView::Both {
                return Ok(true);
            }
            let locks = self.send_locks(pair);
            if locks.is_empty() && changes.is_empty() {
                return Ok(true);
            }
            let until = locks.iter().map(|lock| lock.until);
            let limit = until.fold(deadline.min(fence), Duration::min);
            let words: Vec<(GlobalAddress, [u8; 8])> = locks
                .iter()
                .map(|lock| {
                    (
                        GlobalAddress::new(backup, lock.offset),
                        lock.word.to_le_bytes(),
                    )
                })
                .collect();
            let mut posted: Vec<FabricVerb<'_>> = Vec::new();
            for (to, bytes) in &words {
                posted.push(FabricVerb::Write { to: *to, bytes });
            }
            for &index in changes {
                posted.extend(change_at(&verbs[index], backup));
            }
            let outcome = self.endpoint().post_by(limit, &mut posted).await;
            match outcome {
                Ok(true) => {
                    for (&index, verb) in changes.iter().zip(&posted[words.len()..]) {
                        progress.found[index] = verb.found();
                    }
                    progress.pairs.push(pair);
                    progress.versions.push(version);
                    self.with(pair, |state| {
                        let is_sent = |lock: &PendingLockWord| {
                            locks.iter().any(|sent| sent.word == lock.word)
                        };
                        state.locks.retain(|lock| !is_sent(lock));
                    });
                    return Ok(true);
                }
                Ok(false) => {
                    self.take_back(pair, &locks);
                    // Otherwise the time for the pair or for another lock has passed.
                    if self.endpoint().now() >= deadline {
                        return Ok(false);
                    }
                }
                Err(FabricError::NodeLost { .. }) => {
                    self.drop_backup(pair).await?;
                    return Ok(true);
                }
                Err(error) => return Err(self.outward(error)),
            }
        }
    }

    /// Writes the words of locks to the backup that it does not have. Returns false if the deadline
    /// has passed.
    pub(super) async fn send_lock_words(
        &self,
        pair: usize,
        deadline: Duration,
    ) -> Result<bool, FabricError> {
        let mut progress = BackupProgress {
            found: Vec::new(),
            pairs: Vec::new(),
            versions: Vec::new(),
        };
        self.post_to_backup(pair, deadline, &[], &[], &mut progress)
            .await
    }

    /// Returns the words of locks that the next post to the backup must write first.
    fn send_locks(&self, pair: usize) -> Vec<PendingLockWord> {
        if !self.rules.sends_locks {
            return Vec::new();
        }
        let now = self.endpoint().now();
        self.with(pair, |state| {
            // Nothing is written under the others any more.
            state.locks.retain(|lock| lock.until > now);
            // Each word is sent once. The client's later posts come after it, and another post
            // with the word could overwrite a release.
            let unsent = state.locks.iter_mut().filter(|lock| !lock.is_sent);
            let sent = unsent.map(|lock| {
                lock.is_sent = true;
                *lock
            });
            sent.collect()
        })
    }

    /// Notes that words of locks were not sent, because their post did not begin.
    fn take_back(&self, pair: usize, locks: &[PendingLockWord]) {
        self.with(pair, |state| {
            for lock in &mut state.locks {
                if locks.iter().any(|sent| sent.word == lock.word) {
                    lock.is_sent = false;
                }
            }
        });
    }

    /// Executes verbs at the primaries, or at the nodes that took over. Returns false, and has done
    /// nothing, if the deadline has passed. Returns `None`, and has done nothing, if a backup must
    /// have the changes first.
    ///
    /// # Errors
    /// `NodeLost` if the deadline has long passed, and backups have the changes.
    async fn post_to_primaries(
        &self,
        pairs: &[usize],
        deadline: Duration,
        verbs: &mut [FabricVerb<'_>],
        progress: &BackupProgress,
    ) -> Result<Option<bool>, FabricError> {
        let changes = |verb: &FabricVerb<'_>| !matches!(verb, FabricVerb::Read { .. });
        let changes = verbs.iter().any(changes);
        // A change that a backup has is a post under way. A quarter of a lease is left until others
        // may take its locks over.
        let last = match progress.pairs.is_empty() {
            true => deadline,
            false => deadline.saturating_add(self.lease / 4),
        };
        loop {
            let mut limit = last;
            for &pair in pairs {
                limit = limit.min(self.fence(pair, changes, last).await?);
            }
            for &pair in pairs {
                if self.lacks_changes(pair, verbs, progress)? {
                    return Ok(None);
                }
            }
            let mut others = pairs.iter().filter(|pair| !progress.pairs.contains(pair));
            if others.any(|&pair| self.is_void(pair, deadline)) {
                return self.late(progress).map(Some);
            }
            let left = self.left(verbs, progress)?;
            for (verb, found) in verbs.iter_mut().zip(&progress.found) {
                set_found(verb, *found);
            }
            if left.is_empty() {
                return Ok(Some(true));
            }
            let began = self.endpoint().now();
            let mut posted: Vec<FabricVerb<'_>> = Vec::new();
            for (index, verb) in verbs.iter_mut().enumerate() {
                if left.contains(&index) {
                    let pair = self.index(verb.node())?;
                    let node = self.with(pair, |state| state.serving());
                    posted.push(verb_at(verb, node, progress.found[index]));
                }
            }
            let outcome = self.endpoint().post_by(limit, &mut posted).await;
            let words: Vec<Option<u64>> = posted.iter().map(FabricVerb::found).collect();
            drop(posted);
            match outcome {
                Ok(true) => {
                    let doubtful = self.accept(verbs, progress, &left, &words, began)?;
                    return self.resolve(doubtful, progress).await.map(Some);
                }
                Ok(false) if self.endpoint().now() >= last => {
                    return self.late(progress).map(Some);
                }
                Ok(false) => {}
                Err(FabricError::NodeLost { node }) => self.go_on_without(node, verbs).await?,
                Err(error) => return Err(self.outward(error)),
            }
        }
    }

    /// Returns the numbers of the verbs that must still be executed: a backup that took over has
    /// made the changes already.
    ///
    /// # Errors
    /// `NodeLost` if reads or swaps of locks before these changes are left, which it would now
    /// execute after them.
    fn left(
        &self,
        verbs: &[FabricVerb<'_>],
        progress: &BackupProgress,
    ) -> Result<Vec<usize>, FabricError> {
        let mut left = Vec::new();
        // The pairs of which a verb is left that a backup executes alone.
        let mut begun = Vec::new();
        for (index, verb) in verbs.iter().enumerate() {
            let pair = self.index(verb.node())?;
            if self.view_of(pair) != PairView::Backup || !progress.pairs.contains(&pair) {
                left.push(index);
            } else if !self.is_mirrored(verb) {
                begun.push(pair);
                left.push(index);
            } else if begun.contains(&pair) {
                return Err(self.lost(pair));
            }
        }
        Ok(left)
    }

    /// Stores the results of the verbs with the numbers `left`. Returns the pair whose view decides
    /// if a swap was made, if there is one.
    fn accept(
        &self,
        verbs: &mut [FabricVerb<'_>],
        progress: &BackupProgress,
        left: &[usize],
        words: &[Option<u64>],
        began: Duration,
    ) -> Result<Option<usize>, FabricError> {
        let mut doubtful = None;
        for (&index, &word) in left.iter().zip(words) {
            let Some(word) = word else { continue };
            let verb = &mut verbs[index];
            let pair = self.index(verb.node())?;
            let result = match (&*verb, progress.found[index]) {
                // The backup has decided that the swap is made.
                (FabricVerb::Swap { swap, .. }, Some(found)) if found == swap.expected => {
                    if word != swap.expected && word != swap.desired {
                        // Others have helped and gone on; or the backup is lost, and another client
                        // has decided the swap at the primary.
                        doubtful = Some(pair);
                    }
                    found
                }
                // The swap failed, and the primary has followed, or is not that far.
                (FabricVerb::Swap { swap, .. }, Some(found)) if word == swap.expected => found,
                (FabricVerb::Swap { at, swap, .. }, None) => {
                    if let Some(desired) = swap.apply(word).filter(|_| !swap.is_whole()) {
                        self.note_lock(pair, at.offset(), word, desired, began);
                    }
                    word
                }
                _ => word,
            };
            set_found(verb, Some(result));
        }
        Ok(doubtful)
    }

    /// Returns true if the backup of the pair still serves, so that its decision is final.
    async fn resolve(
        &self,
        doubtful: Option<usize>,
        progress: &BackupProgress,
    ) -> Result<bool, FabricError> {
        let Some(pair) = doubtful else {
            return Ok(true);
        };
        self.confirm(pair).await?;
        let version = self.version_of(pair);
        let mut done = progress.pairs.iter().zip(&progress.versions);
        let is_same = done.any(|(&done, &at)| done == pair && at == version);
        if self.view_of(pair) == PairView::Both && is_same {
            Ok(true)
        } else {
            Err(self.lost(pair))
        }
    }

    /// Notes a lock that was taken at the primary by a post that began at `began`.
    fn note_lock(&self, pair: usize, offset: u64, before: u64, word: u64, began: Duration) {
        let until = began + self.lease / 2;
        self.with(pair, |state| {
            state.locks.retain(|lock| lock.offset != offset);
            if state.view == PairView::Both {
                state.locks.push(PendingLockWord {
                    offset,
                    before,
                    word,
                    until,
                    is_sent: false,
                });
            }
        });
    }

    /// Handles the loss of a node during a post to primaries.
    ///
    /// # Errors
    /// `NodeLost` if no node is left, or if the post may have had effects at other nodes that must
    /// not be repeated.
    async fn go_on_without(
        &self,
        node: NodeId,
        verbs: &[FabricVerb<'_>],
    ) -> Result<(), FabricError> {
        let is_of = |pair: &usize| {
            let nodes = self.nodes_of(*pair);
            [nodes.primary, nodes.backup].contains(&node)
        };
        let count = self.pairs.borrow().len();
        let Some(pair) = (0..count).find(is_of) else {
            return Err(FabricError::NodeLost { node });
        };
        self.lose_serving(pair, node).await?;
        let number = self.nodes_of(pair).number;
        let mut others = verbs.iter().filter(|verb| verb.node() != number);
        if others.any(FabricVerb::is_atomic) {
            return Err(self.lost(pair));
        }
        Ok(())
    }

    /// Makes a write without waiting, at once or with the next post. Returns false if the deadline
    /// has passed.
    pub(super) fn write_later(
        &self,
        deadline: Duration,
        to: GlobalAddress,
        bytes: &[u8],
    ) -> Result<bool, FabricError> {
        let pair = self.index(to.node())?;
        if self.endpoint().now() >= deadline || self.is_void(pair, deadline) {
            return Ok(false);
        }
        if self.deferred.borrow().is_empty()
            && let Some((node, fence)) = self.at_once(pair, to.offset(), bytes)
        {
            let at = GlobalAddress::new(node, to.offset());
            let limit = deadline.min(fence);
            match self.endpoint().write_unsignalled_by(limit, at, bytes) {
                Ok(true) => return Ok(true),
                Ok(false) | Err(FabricError::NodeLost { .. }) => {}
                Err(error) => return Err(self.outward(error)),
            }
        }
        self.deferred.borrow_mut().push_back(DeferredWrite {
            to,
            bytes: bytes.to_vec(),
            deadline,
        });
        Ok(true)
    }

    /// Returns the node at which a write can be made without a backup, and the time until which it
    /// may begin. If a lock is released with the word that it had, the backup has that word: it has
    /// never seen the lock held.
    fn at_once(&self, pair: usize, offset: u64, bytes: &[u8]) -> Option<(NodeId, Duration)> {
        self.with(pair, |state| match state.view {
            PairView::Primary | PairView::Backup => {
                let fence = state.fence(self.lease).filter(|_| state.joining.is_none());
                fence.map(|fence| (state.serving(), fence))
            }
            PairView::Lost => None,
            PairView::Both => {
                let fence = state.fence(self.lease)?;
                let index = state.locks.iter().position(|lock| {
                    !lock.is_sent && lock.offset == offset && *bytes == lock.before.to_le_bytes()
                })?;
                state.locks.swap_remove(index);
                Some((state.pair.primary, fence))
            }
        })
    }
}

/// Returns a change at the backup; `None` for a read.
fn change_at<'v>(verb: &'v FabricVerb<'_>, node: NodeId) -> Option<FabricVerb<'v>> {
    let at = GlobalAddress::new(node, verb.address().offset());
    match *verb {
        FabricVerb::Read { .. } => None,
        FabricVerb::Write { bytes, .. } => Some(FabricVerb::Write { to: at, bytes }),
        FabricVerb::Swap { swap, .. } => Some(FabricVerb::Swap { at, swap, found: 0 }),
        FabricVerb::Add { summand, .. } => Some(FabricVerb::Add {
            at,
            summand,
            found: 0,
        }),
    }
}

/// Returns a verb at the node that executes it, after the backup's part found `found`.
fn verb_at<'v>(verb: &'v mut FabricVerb<'_>, node: NodeId, found: Option<u64>) -> FabricVerb<'v> {
    let at = GlobalAddress::new(node, verb.address().offset());
    match verb {
        FabricVerb::Read { into, .. } => FabricVerb::Read { from: at, into },
        FabricVerb::Write { bytes, .. } => FabricVerb::Write { to: at, bytes },
        FabricVerb::Swap { swap, .. } => {
            let swap = match found {
                // The backup has this word already. Its client may be dead, so this one lets the
                // primary follow.
                Some(found) if found != swap.expected => MaskedSwap::whole(swap.expected, found),
                _ => *swap,
            };
            FabricVerb::Swap { at, swap, found: 0 }
        }
        FabricVerb::Add { summand, .. } => FabricVerb::Add {
            at,
            summand: *summand,
            found: 0,
        },
    }
}

fn set_found(verb: &mut FabricVerb<'_>, word: Option<u64>) {
    if let (FabricVerb::Swap { found, .. } | FabricVerb::Add { found, .. }, Some(word)) =
        (verb, word)
    {
        *found = word;
    }
}

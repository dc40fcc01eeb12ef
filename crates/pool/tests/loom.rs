//! Tests of all interleavings of a few readers, writers or lockers of one key: every one gets a
//! result, and no state of the key is left.

#![cfg(loom)]

use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::thread;
use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_pool::coordination::{CombinedWrite, LocalLocks, ReadDelegation, WriteCombining};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const KEY: &[u8] = b"key";
const LOCK: GlobalAddress = GlobalAddress::new(NodeId(0), 64);

/// Returns the result of the first poll, if there is one. The future is dropped.
fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn readers_meet_what_was_written_before_they_came() {
    check(|| {
        let reads = Arc::new(ReadDelegation::default());
        let remote = Arc::new(AtomicUsize::new(0));
        let read = |reads: &ReadDelegation, remote: &AtomicUsize| {
            let came = remote.load(SeqCst);
            let answer =
                block_on(reads.share(KEY, async || Ok(Some(vec![remote.load(SeqCst) as u8]))));
            let value = answer.expect("read").expect("there")[0];
            assert!(usize::from(value) >= came, "{value} is older than {came}");
        };
        let (others, written) = (Arc::clone(&reads), Arc::clone(&remote));
        let reader = thread::spawn(move || read(&others, &written));
        let written = Arc::clone(&remote);
        let writer = thread::spawn(move || written.store(1, SeqCst));
        read(&reads, &remote);
        reader.join().expect("reader");
        writer.join().expect("writer");
        assert!(reads.is_empty());
    });
}

/// Inserts by the leader, and returns the old value.
fn insert(writes: &WriteCombining, remote: &AtomicUsize, value: u8) -> u8 {
    let answer =
        block_on(
            writes.combine(KEY, CombinedWrite::Insert(vec![value]), async |leader| {
                let found = vec![remote.load(SeqCst) as u8];
                let value = leader.close(Some(&found)).expect("it exists");
                remote.store(usize::from(value[0]), SeqCst);
                Ok(Some(found))
            }),
        );
    answer.expect("written").expect("a value")[0]
}

#[test]
fn each_writer_meets_another_value() {
    check(|| {
        let writes = Arc::new(WriteCombining::default());
        let remote = Arc::new(AtomicUsize::new(0));
        let others: Vec<_> = (1..3)
            .map(|value| {
                let (writes, remote) = (Arc::clone(&writes), Arc::clone(&remote));
                thread::spawn(move || insert(&writes, &remote, value))
            })
            .collect();
        let mut met = vec![insert(&writes, &remote, 3)];
        met.extend(
            others
                .into_iter()
                .map(|other| other.join().expect("writer")),
        );
        met.push(remote.load(SeqCst) as u8);
        met.sort_unstable();
        assert_eq!(met, [0, 1, 2, 3]);
        assert!(writes.is_empty());
    });
}

#[test]
fn who_leaves_leaves_the_lead_to_others() {
    check(|| {
        let writes = Arc::new(WriteCombining::default());
        let remote = Arc::new(AtomicUsize::new(0));
        let leaves = Arc::clone(&writes);
        // It leads and never ends, or waits, until it is dropped.
        let leaver = thread::spawn(move || {
            let lead = leaves.combine(KEY, CombinedWrite::Insert(vec![9]), async |_| {
                std::future::pending().await
            });
            // It may get a result before it can leave.
            drop(poll_once(lead));
        });
        let (others, written) = (Arc::clone(&writes), Arc::clone(&remote));
        let writer = thread::spawn(move || insert(&others, &written, 1));
        let met = insert(&writes, &remote, 2);
        let mut met = vec![
            met,
            writer.join().expect("writer"),
            remote.load(SeqCst) as u8,
        ];
        leaver.join().expect("leaver");
        met.sort_unstable();
        // A waiter may be combined with another just before it leaves.
        let expected: &[&[u8]] = &[&[0, 1, 2], &[0, 1, 9], &[0, 2, 9], &[1, 2, 9]];
        assert!(expected.contains(&&met[..]), "{met:?}");
        assert!(writes.is_empty());
    });
}

#[test]
fn a_lock_that_is_passed_on_is_passed_to_one() {
    check(|| {
        let locks = Arc::new(LocalLocks::new(1));
        // Set to 1 while the remote lock is held.
        let remote = Arc::new(AtomicUsize::new(0));
        let work = |locks: &LocalLocks<u8>, remote: &AtomicUsize| {
            let (lock, held) = block_on(locks.lock(LOCK));
            assert_eq!(held.is_some(), remote.load(SeqCst) == 1);
            remote.store(1, SeqCst);
            let kept = if lock.is_wanted() {
                lock.hand_over(7).err()
            } else {
                Some((lock, 7))
            };
            if kept.is_some() {
                remote.store(0, SeqCst);
            }
        };
        let (others, word) = (Arc::clone(&locks), Arc::clone(&remote));
        let other = thread::spawn(move || work(&others, &word));
        let (others, word) = (Arc::clone(&locks), Arc::clone(&remote));
        let third = thread::spawn(move || work(&others, &word));
        work(&locks, &remote);
        other.join().expect("other");
        third.join().expect("third");
        assert_eq!((locks.len(), remote.load(SeqCst)), (0, 0));
    });
}

//! The table of local locks: read delegation and write combining.
//!
//! Each key has one lock of the table. A thread that finds the lock free takes it and executes its
//! operation. A thread that finds it taken leaves a request, and waits for the result. Before the
//! holder frees the lock, it executes the requests that were left meanwhile: those on one key
//! together, with one walk and at most one write.

use super::SmartTree;
use super::lock::{DelegationLock, DelegationLockRequest};
use crate::leaf::{RivalForm, RivalLeaf};
use crossbeam_epoch::Guard;
use crossbeam_utils::CachePadded;
use nearfield_core::EntryForm;
use nearfield_radix::{RadixKeyChange, RadixProbe};
use std::cell::Cell;
use std::hash::BuildHasher;
use std::ptr::{NonNull, null_mut};

/// Number of locks. They fit into a second-level cache.
const LOCKS: usize = 4096;

/// The maximum number of requests on one key that are executed together.
const TOGETHER_MAX: usize = 32;

/// The table; see the [module](self).
#[derive(Debug)]
pub struct DelegationLockTable {
    locks: Box<[CachePadded<DelegationLock<DelegatedKeyOperation>>]>,
}

impl Default for DelegationLockTable {
    fn default() -> Self {
        DelegationLockTable {
            locks: (0..LOCKS).map(|_| CachePadded::default()).collect(),
        }
    }
}

impl DelegationLockTable {
    #[inline]
    fn lock(&self, key: &[u8]) -> &DelegationLock<DelegatedKeyOperation> {
        let hash = foldhash::fast::FixedState::default().hash_one(key);
        &self.locks[hash as usize % LOCKS]
    }
}

/// An operation for another thread to execute.
#[derive(Debug)]
struct DelegatedKeyOperation {
    key: NonNull<[u8]>,
    /// A `&mut Decide` of the tree's form, or null for a read.
    decide: *mut (),
    /// The leaf that a read has found.
    leaf: Cell<*mut u8>,
}

/// The decision of a writer, which any thread may execute.
type Decide<'c, 'v, F> = dyn for<'a> FnMut(
        Option<<F as EntryForm>::Value<'a>>,
    ) -> RadixKeyChange<<F as EntryForm>::Value<'v>>
    + Send
    + 'c;

impl<F: RivalForm, const DELEGATES: bool> SmartTree<F, DELEGATES> {
    /// Finds the leaf of a key, or lets the thread that holds the key's lock find it.
    pub(super) fn read_delegated<'g>(
        &'g self,
        key: &[u8],
        guard: &'g Guard,
        probe: &mut impl RadixProbe,
    ) -> Option<RivalLeaf<'g, F>> {
        let lock = self.delegation.lock(key);
        let request = request(key, null_mut());
        if !lock.try_take() && wait(lock, &request, probe) {
            let leaf = NonNull::new(request.wanted.leaf.get())?;
            // SAFETY: the leaf was found in the tree after this thread was pinned.
            return Some(unsafe { RivalLeaf::from_address(leaf) });
        }
        probe.lock(0);
        let found = self.tree.find(key, guard, probe);
        self.serve(lock, guard, probe);
        found
    }

    /// Changes a key, or lets the thread that holds the key's lock change it.
    pub(super) fn change_combined<'v>(
        &self,
        key: &[u8],
        guard: &Guard,
        probe: &mut impl RadixProbe,
        decide: &mut (impl FnMut(Option<F::Value<'_>>) -> RadixKeyChange<F::Value<'v>> + Send),
    ) {
        let lock = self.delegation.lock(key);
        if !lock.try_take() {
            let mut decide: &mut Decide<'_, 'v, F> = decide;
            let request = request(key, (&raw mut decide).cast());
            if wait(lock, &request, probe) {
                return;
            }
            probe.lock(0);
            self.tree.change(key, guard, probe, decide);
        } else {
            probe.lock(0);
            self.tree.change(key, guard, probe, decide);
        }
        self.serve(lock, guard, probe);
    }

    /// Executes the requests that other threads have left at a lock that the caller holds, and
    /// frees it.
    #[inline]
    fn serve(
        &self,
        lock: &DelegationLock<DelegatedKeyOperation>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) {
        lock.serve(|requests| self.execute_left(requests, guard, probe));
    }

    #[cold]
    fn execute_left(
        &self,
        mut requests: Vec<&DelegationLockRequest<DelegatedKeyOperation>>,
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) {
        while let Some(first) = requests.first() {
            // SAFETY: the key belongs to the waiting thread, which does not continue before its
            // request is done.
            let key_of = |request: &DelegationLockRequest<DelegatedKeyOperation>| unsafe {
                request.wanted.key.as_ref()
            };
            let key = key_of(first);
            let mut together = Vec::new();
            // Requests on other keys of the lock stay, in their order.
            requests.retain(|&request| {
                let takes = key_of(request) == key && together.len() < TOGETHER_MAX;
                if takes {
                    together.push(request);
                }
                !takes
            });
            self.execute_together(key, &together, guard, probe);
            // Finished only now: `requests` no longer contains them, so they are not read after
            // their threads continue.
            together.into_iter().for_each(DelegationLockRequest::finish);
        }
    }

    /// Executes requests on one key, in order, with one walk.
    fn execute_together(
        &self,
        key: &[u8],
        requests: &[&DelegationLockRequest<DelegatedKeyOperation>],
        guard: &Guard,
        probe: &mut impl RadixProbe,
    ) {
        probe.duplicates(requests.len() as u64);
        if requests
            .iter()
            .all(|request| request.wanted.decide.is_null())
        {
            let found = self.tree.find(key, guard, probe);
            let address = found.map_or(null_mut(), |leaf| leaf.address().as_ptr());
            requests
                .iter()
                .for_each(|request| request.wanted.leaf.set(address));
            return;
        }
        // Reads among writes get the state before all of them: they overlap in time.
        let found = self.tree.find(key, guard, probe);
        let address = found.map_or(null_mut(), |leaf| leaf.address().as_ptr());
        let writes = requests.iter().filter(|request| {
            request.wanted.leaf.set(address);
            !request.wanted.decide.is_null()
        });
        let writes: Vec<&DelegationLockRequest<DelegatedKeyOperation>> = writes.copied().collect();
        self.tree
            .change(key, guard, probe, &mut |before: Option<F::Value<'_>>| {
                let mut after: RadixKeyChange<F::Value<'_>> = RadixKeyChange::Keep;
                for request in &writes {
                    // SAFETY: it is such a pointer, to a closure that the waiting thread lends
                    // until the request is done; any thread may call the closure.
                    let decide =
                        unsafe { &mut **request.wanted.decide.cast::<&mut Decide<'_, '_, F>>() };
                    // Each writer decides on the value that the one before has left.
                    let now = match after {
                        RadixKeyChange::Keep => before.map(F::shorten_value),
                        RadixKeyChange::Set(value) => Some(F::shorten_value(value)),
                        RadixKeyChange::Remove => None,
                    };
                    match decide(now) {
                        RadixKeyChange::Keep => {}
                        change => after = change,
                    }
                }
                after
            });
    }
}

/// Leaves a request and waits until it is done; returns false if the lock was taken instead.
#[cold]
fn wait(
    lock: &DelegationLock<DelegatedKeyOperation>,
    request: &DelegationLockRequest<DelegatedKeyOperation>,
    probe: &mut impl RadixProbe,
) -> bool {
    probe.wait();
    lock.wait(request)
}

fn request(key: &[u8], decide: *mut ()) -> DelegationLockRequest<DelegatedKeyOperation> {
    DelegationLockRequest::new(DelegatedKeyOperation {
        key: NonNull::from(key),
        decide,
        leaf: Cell::new(null_mut()),
    })
}

//! The check that a history is linearizable.
//!
//! Point operations on different keys do not depend on each other, so [`check`] checks each key
//! separately. [`order`] takes operations of any kind on one object, such as transactions on a few
//! keys. For one object, it is the search of Wing and Gong with Lowe's memory of tried states. The
//! candidates are the first remaining operations of each session. One that was invoked before all
//! others returned takes effect next, if the current state allows it. Only concurrent writes that
//! fit the same state make the search branch.

use crate::history::{CallInterval, HistoryEvent, PointOperation};
use std::collections::HashSet;
use std::fmt::{self, Debug, Display, Formatter};
use std::hash::Hash;

/// Number of operations before the failure that a counterexample shows.
const SHOWN_BEFORE: usize = 6;

/// An operation on an object that may take effect at one instant of its interval.
pub trait LinearizableOperation: Clone {
    /// The state of the object, initially the default.
    type State: Clone + Default + Eq + Hash + Debug;

    /// Returns the session that called the operation. The operations of a session are ordered.
    fn session(&self) -> u32;

    /// Returns the interval of the call.
    fn interval(&self) -> CallInterval;

    /// Returns the state after the operation if it was `state` before; `None` if the operation
    /// cannot have taken effect on that state.
    fn after(&self, state: &Self::State) -> Option<Self::State>;

    /// Returns true if the operation changes no state on which it can take effect.
    fn is_read(&self) -> bool;
}

impl LinearizableOperation for HistoryEvent {
    type State = Option<u64>;

    fn session(&self) -> u32 {
        self.session
    }

    fn interval(&self) -> CallInterval {
        self.interval
    }

    fn after(&self, state: &Option<u64>) -> Option<Option<u64>> {
        HistoryEvent::after(self, *state)
    }

    fn is_read(&self) -> bool {
        // An operation can take effect only on the state that it found.
        HistoryEvent::after(self, self.met) == Some(self.met)
    }
}

/// The longest order of operations that was found, and the operations that cannot follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadEnd<O: LinearizableOperation> {
    /// The last operations of the longest order found.
    pub before: Vec<O>,
    /// The state after them.
    pub state: O::State,
    /// The next operations, none of which fits the state.
    pub stuck: Vec<O>,
}

/// Checks that every operation on one object can have taken effect at one instant of its interval,
/// in the order of each session. The operations of a session must be in order; those of different
/// sessions may be mixed.
///
/// Takes nearly linear time in the number of operations if few that change the state overlap.
///
/// # Errors
/// The longest order, and the operations that cannot follow it.
pub fn order<O: LinearizableOperation>(mut history: Vec<O>) -> Result<(), Box<DeadEnd<O>>> {
    // The sort is stable, so the operations of a session stay in order.
    history.sort_by_key(O::session);
    search(&history)
}

/// The evidence that a history is not linearizable: the longest order of the operations on one key,
/// and the next ones, none of which can follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The number of the key.
    pub key: u64,
    /// The last operations of the longest order found.
    pub before: Vec<HistoryEvent>,
    /// The value after them.
    pub state: Option<u64>,
    /// The next operations, none of which fits the value.
    pub stuck: Vec<HistoryEvent>,
    /// The operations that wrote the values that these found.
    pub writers: Vec<HistoryEvent>,
}

/// Checks that every operation can have taken effect at one instant of its interval, in the order
/// of each session for one key. All keys are initially absent. The events of a session must be in
/// order; those of different sessions may be mixed.
///
/// Takes nearly linear time in the number of events if few writes overlap on one key.
///
/// # Errors
/// The operations of a key that cannot be ordered.
pub fn check(mut history: Vec<HistoryEvent>) -> Result<(), Box<Counterexample>> {
    // Stable, as in `order`.
    history.sort_by_key(|event| (event.key, event.session));
    history
        .chunk_by(|left, right| left.key == right.key)
        .try_for_each(check_key)
}

fn check_key(events: &[HistoryEvent]) -> Result<(), Box<Counterexample>> {
    search(events).map_err(|dead_end| Box::new(Counterexample::new(events, *dead_end)))
}

/// Searches an order of operations, which must be sorted by session.
fn search<O: LinearizableOperation>(operations: &[O]) -> Result<(), Box<DeadEnd<O>>> {
    debug_assert!(
        operations.is_sorted_by_key(O::session),
        "each session has one queue"
    );
    let mut search = LinearizationSearch {
        queues: operations
            .chunk_by(|left, right| left.session() == right.session())
            .collect(),
        path: Vec::with_capacity(operations.len()),
        branches: Vec::new(),
        tried: HashSet::new(),
        deepest: Deepest {
            path: Vec::new(),
            point: None,
        },
    };
    if search.succeeds(operations.len()) {
        Ok(())
    } else {
        Err(Box::new(search.dead_end()))
    }
}

/// A point of the search: number of operations of each queue that have taken effect, and the state
/// after them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LinearizationState<S> {
    taken: Vec<u32>,
    state: S,
}

struct Deepest<S> {
    path: Vec<usize>,
    point: Option<LinearizationState<S>>,
}

struct LinearizationSearch<'h, O: LinearizableOperation> {
    /// The operations of each session.
    queues: Vec<&'h [O]>,
    /// The queues that operations were taken from, in order.
    path: Vec<usize>,
    /// Alternatives to try: the length of the path up to the branch, the queue to take from, and
    /// the point before that.
    branches: Vec<(usize, usize, LinearizationState<O::State>)>,
    tried: HashSet<LinearizationState<O::State>>,
    deepest: Deepest<O::State>,
}

impl<'h, O: LinearizableOperation> LinearizationSearch<'h, O> {
    fn succeeds(&mut self, total: usize) -> bool {
        let mut point = LinearizationState {
            taken: vec![0; self.queues.len()],
            state: O::State::default(),
        };
        loop {
            self.take_unchanging(&mut point);
            if self.path.len() == total {
                return true;
            }
            // Depth first: a linearizable history hardly ever leads back.
            let next = self.choose(&point).or_else(|| {
                self.note_dead_end(&point);
                self.go_back(&mut point)
            });
            match next {
                Some(queue) => self.take(queue, &mut point),
                None => return false,
            }
        }
    }

    /// Returns the first operation of a queue that has not taken effect.
    fn head(&self, queue: usize, point: &LinearizationState<O::State>) -> Option<&'h O> {
        self.queues[queue].get(point.taken[queue] as usize)
    }

    /// Returns the queues with a head that can come next by its interval.
    fn ready<'s>(
        &'s self,
        point: &'s LinearizationState<O::State>,
    ) -> impl Iterator<Item = (usize, &'h O)> + 's {
        let heads = || (0..self.queues.len()).filter_map(|at| Some((at, self.head(at, point)?)));
        // An operation that was invoked after another has returned cannot come before it.
        let first_return = heads().map(|(_, head)| head.interval().returned).min();
        heads().filter(move |(_, head)| Some(head.interval().invoked) < first_return)
    }

    fn take(&mut self, queue: usize, point: &mut LinearizationState<O::State>) {
        let head = self
            .head(queue, point)
            .expect("a queue is chosen for its head");
        let after = head.after(&point.state);
        point.state = after.expect("a queue is chosen for the value that its head has found");
        point.taken[queue] += 1;
        self.path.push(queue);
    }

    fn take_unchanging(&mut self, point: &mut LinearizationState<O::State>) {
        // A read that can come next is taken at once: it fits here, and excludes no later order.
        let unchanging = |search: &Self, point: &LinearizationState<O::State>| {
            let mut ready = search.ready(point);
            let found =
                ready.find(|(_, head)| head.is_read() && head.after(&point.state).is_some())?;
            Some(found.0)
        };
        while let Some(queue) = unchanging(self, point) {
            self.take(queue, point);
        }
    }

    /// Picks a queue to take from, and stores the others as branches.
    fn choose(&mut self, point: &LinearizationState<O::State>) -> Option<usize> {
        let mut choices = self
            .ready(point)
            .filter(|(_, head)| head.after(&point.state).is_some())
            .map(|(queue, _)| queue);
        let first = choices.next()?;
        let others: Vec<_> = choices.collect();
        if !others.is_empty() {
            // Only points with alternatives are remembered: all others follow from one of these.
            if !self.tried.insert(point.clone()) {
                return None;
            }
            let depth = self.path.len();
            let branches = others
                .into_iter()
                .map(|queue| (depth, queue, point.clone()));
            self.branches.extend(branches);
        }
        Some(first)
    }

    fn go_back(&mut self, point: &mut LinearizationState<O::State>) -> Option<usize> {
        let (depth, queue, before) = self.branches.pop()?;
        debug_assert!(
            depth <= self.path.len(),
            "the path leads through its branches"
        );
        self.path.truncate(depth);
        *point = before;
        Some(queue)
    }

    fn note_dead_end(&mut self, point: &LinearizationState<O::State>) {
        if self.deepest.point.is_none() || self.path.len() > self.deepest.path.len() {
            self.deepest.path.clone_from(&self.path);
            self.deepest.point = Some(point.clone());
        }
    }

    fn dead_end(self) -> DeadEnd<O> {
        let point = self
            .deepest
            .point
            .as_ref()
            .expect("a failed search has a dead end");
        DeadEnd {
            before: self.last_taken(point),
            state: point.state.clone(),
            stuck: self.ready(point).map(|(_, head)| head.clone()).collect(),
        }
    }

    /// Returns the end of the deepest path, walked backwards.
    fn last_taken(&self, point: &LinearizationState<O::State>) -> Vec<O> {
        let mut taken = point.taken.clone();
        let mut last: Vec<_> = self
            .deepest
            .path
            .iter()
            .rev()
            .take(SHOWN_BEFORE)
            .map(|&queue| {
                taken[queue] -= 1;
                self.queues[queue][taken[queue] as usize].clone()
            })
            .collect();
        last.reverse();
        last
    }
}

impl Counterexample {
    fn new(events: &[HistoryEvent], dead_end: DeadEnd<HistoryEvent>) -> Counterexample {
        let DeadEnd {
            before,
            state,
            stuck,
        } = dead_end;
        // The values written show from where the stuck operations may have read.
        let met: HashSet<_> = stuck.iter().filter_map(|event| event.met).collect();
        let wrote =
            |event: &&HistoryEvent| event.written().is_some_and(|value| met.contains(&value));
        Counterexample {
            key: events[0].key,
            before,
            state,
            writers: events.iter().filter(wrote).copied().collect(),
            stuck,
        }
    }
}

impl<O: LinearizableOperation + Display> Display for DeadEnd<O> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let list = |f: &mut Formatter<'_>, operations: &[O]| {
            operations
                .iter()
                .try_for_each(|done| writeln!(f, "  {done}"))
        };
        writeln!(f, "no order of the operations explains the replies; after")?;
        list(f, &self.before)?;
        let state = &self.state;
        writeln!(f, "the state is {state:?}, and none of these can be next:")?;
        list(f, &self.stuck)
    }
}

impl Display for Counterexample {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let list = |f: &mut Formatter<'_>, events: &[HistoryEvent]| {
            events.iter().try_for_each(|event| writeln!(f, "  {event}"))
        };
        writeln!(
            f,
            "the operations on key {} cannot be ordered; after",
            self.key
        )?;
        list(f, &self.before)?;
        writeln!(
            f,
            "the value is {:?}, and none of these can be next:",
            self.state
        )?;
        list(f, &self.stuck)?;
        writeln!(f, "the values that they found were written by:")?;
        list(f, &self.writers)
    }
}

impl Display for HistoryEvent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let CallInterval { invoked, returned } = self.interval;
        write!(f, "[{invoked}, {returned}] session {}: ", self.session)?;
        match self.action {
            PointOperation::Get => write!(f, "get")?,
            PointOperation::Insert(value) => write!(f, "insert({value})")?,
            PointOperation::Remove => write!(f, "remove")?,
            PointOperation::Update {
                previous,
                value,
                applied,
            } => {
                let applied = if applied { "applied" } else { "did not apply" };
                write!(f, "update({previous:?}, {value}) {applied} and")?;
            }
            PointOperation::RemoveIf { previous, applied } => {
                let applied = if applied { "applied" } else { "did not apply" };
                write!(f, "remove_if({previous}) {applied} and")?;
            }
        }
        write!(f, " met {:?}", self.met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(
        session: u32,
        ticks: (u64, u64),
        action: PointOperation,
        met: Option<u64>,
    ) -> HistoryEvent {
        HistoryEvent {
            session,
            key: 0,
            interval: CallInterval {
                invoked: ticks.0,
                returned: ticks.1,
            },
            action,
            met,
        }
    }

    #[test]
    fn overlapping_operations_take_effect_in_either_order() {
        let write = event(0, (0, 3), PointOperation::Insert(1), None);
        for met in [None, Some(1)] {
            assert_eq!(
                check(vec![write, event(1, (1, 2), PointOperation::Get, met)]),
                Ok(())
            );
        }
    }

    #[test]
    fn a_read_after_a_write_meets_it() {
        let write = event(0, (0, 1), PointOperation::Insert(1), None);
        let stale = event(1, (2, 3), PointOperation::Get, None);
        let counterexample = check(vec![stale, write]).unwrap_err();
        assert_eq!(counterexample.before, [write]);
        assert_eq!(counterexample.stuck, [stale]);
    }

    #[test]
    fn reads_of_one_batch_do_not_go_back_in_time() {
        let write = event(0, (0, 10), PointOperation::Insert(1), None);
        let get = |met| event(1, (1, 2), PointOperation::Get, met);
        assert_eq!(check(vec![write, get(None), get(Some(1))]), Ok(()));
        assert!(check(vec![write, get(Some(1)), get(None)]).is_err());
    }

    #[test]
    fn of_two_updates_from_one_value_only_one_applies() {
        let update = |session, value, applied, met| {
            let action = PointOperation::Update {
                previous: None,
                value,
                applied,
            };
            event(session, (0, 9), action, met)
        };
        let won = update(0, 1, true, None);
        assert_eq!(check(vec![won, update(1, 2, false, Some(1))]), Ok(()));
        assert!(check(vec![won, update(1, 2, true, None)]).is_err());
        assert!(check(vec![won, update(1, 2, false, None)]).is_err());
    }

    #[test]
    fn of_two_conditional_removes_only_one_applies() {
        let write = event(0, (0, 1), PointOperation::Insert(1), None);
        let remove = |session, applied, met| {
            let action = PointOperation::RemoveIf {
                previous: 1,
                applied,
            };
            event(session, (2, 9), action, met)
        };
        let won = remove(1, true, Some(1));
        let check_with = |other| check(vec![write, won, other]);
        assert_eq!(check_with(remove(2, false, None)), Ok(()));
        assert!(check_with(remove(2, true, Some(1))).is_err());
        assert!(check_with(remove(2, true, None)).is_err());
        assert!(check_with(remove(2, false, Some(1))).is_err());
    }

    #[test]
    fn the_search_goes_back_from_a_wrong_choice() {
        // Each removal finds the value of one insert; only one order of all operations is possible.
        let history = vec![
            event(0, (0, 20), PointOperation::Insert(1), None),
            event(1, (1, 21), PointOperation::Insert(2), None),
            event(2, (2, 22), PointOperation::Remove, Some(2)),
            event(3, (3, 23), PointOperation::Remove, Some(1)),
            event(4, (24, 25), PointOperation::Insert(3), None),
        ];
        assert_eq!(check(history), Ok(()));
    }
}

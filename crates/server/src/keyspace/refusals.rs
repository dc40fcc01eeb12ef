//! Indexes that refuse calls because a test demands it, as they do when memory is exhausted; and
//! tests that keys and their objects stay whole then.

use nearfield::OperationError;
use std::cell::RefCell;

/// A call of an index that a test may have refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusableCall {
    /// The insertion of one entry.
    Insert,
    /// The removal of one entry.
    Remove,
    /// A batch, whose key is empty.
    Execute,
}

type Refuse = Box<dyn FnMut(RefusableCall, &[u8]) -> bool>;

thread_local! {
    static REFUSE: RefCell<Option<Refuse>> = RefCell::default();
}

/// Calls `act` while the indexes refuse this thread's calls for which `refuse` returns true.
pub fn refusing<R>(
    refuse: impl FnMut(RefusableCall, &[u8]) -> bool + 'static,
    act: impl FnOnce() -> R,
) -> R {
    REFUSE.set(Some(Box::new(refuse)));
    let result = act();
    REFUSE.take();
    result
}

/// Refuses a call if the test demands it.
pub(super) fn check(call: RefusableCall, key: &[u8]) -> Result<(), OperationError> {
    let is_refused =
        REFUSE.with_borrow_mut(|refuse| refuse.as_mut().is_some_and(|it| it(call, key)));
    match is_refused {
        true => Err(OperationError::OutOfMemory {
            what: "a test".to_owned(),
        }),
        false => Ok(()),
    }
}

/// Returns true if `key` is that of a note, which begins with a time, and not one of a test.
pub fn is_note(key: &[u8]) -> bool {
    key.first() == Some(&0)
}

mod tests {
    use super::RefusableCall::{Execute, Insert, Remove};
    use super::*;
    use crate::keyspace::notes::NoteChanges;
    use crate::keyspace::{DatabaseAccess, DatabaseKeys, Effects, Home, KeyView, Keyspace};
    use crate::object::{Container, ListObject, ObjectLimits, StoredObject};

    const TIME_MS: u64 = 1_900_000_000_000;

    fn with_keys<R>(keyspace: &Keyspace, act: impl FnOnce(&mut DatabaseKeys<'_>) -> R) -> R {
        let (mut databases, mut effects) = (keyspace.exclude(), Effects::default());
        let access = DatabaseAccess::Exclusive(&mut databases);
        act(&mut DatabaseKeys::new(keyspace, access, 0, 0, &mut effects))
    }

    fn list(keyspace: &Keyspace) -> StoredObject {
        let mut list = ListObject::create(&keyspace.heap);
        list.push_back(&ObjectLimits::default(), b"element");
        list.wrap()
    }

    /// Returns the elements of a list.
    fn elements(keyspace: &Keyspace, key: &[u8]) -> Option<usize> {
        with_keys(keyspace, |keys| {
            keys.read(key, |list: Option<&ListObject<_>>| Some(list?.len()))
                .expect("a list")
        })
    }

    fn note_count(keyspace: &Keyspace) -> usize {
        keyspace.share()[0].expiring().expect("an index")
    }

    #[test]
    fn a_key_whose_note_cannot_be_removed_is_deleted_and_its_object_given_up() {
        let keyspace = Keyspace::new(Home::Local);
        let put =
            |keys: &mut DatabaseKeys<'_>| keys.put_object(b"k", list(&keyspace), Some(TIME_MS));
        with_keys(&keyspace, put).expect("memory");
        let refuse = |call, key: &[u8]| call == Remove && is_note(key);
        let remove = || with_keys(&keyspace, |keys| keys.remove(b"k"));
        assert_eq!(refusing(refuse, remove), Ok(true));
        assert_eq!(keyspace.retired(), 1);
        // The note leads to no key, and is removed when it is due.
        assert_eq!(note_count(&keyspace), 1);
        let notes = keyspace.share()[0].notes(TIME_MS, 10).expect("an index");
        let checked = keyspace.share()[0].check_notes(&notes);
        assert_eq!(checked, Ok(vec![None]));
        assert_eq!(note_count(&keyspace), 0);
    }

    #[test]
    fn a_key_whose_note_cannot_be_removed_is_renamed_and_keeps_its_object() {
        let keyspace = Keyspace::new(Home::Local);
        let put =
            |keys: &mut DatabaseKeys<'_>| keys.put_object(b"k", list(&keyspace), Some(TIME_MS));
        with_keys(&keyspace, put).expect("memory");
        let refuse = |call, key: &[u8]| call == Remove && is_note(key);
        let rename = || with_keys(&keyspace, |keys| keys.rename(b"k", 0, b"other"));
        assert_eq!(refusing(refuse, rename), Ok(true));
        assert_eq!(elements(&keyspace, b"other"), Some(1));
        assert_eq!(elements(&keyspace, b"k"), None);
    }

    /// The index also refuses to undo what it has taken, so that no record may be stored before its
    /// note is.
    #[test]
    fn an_object_whose_note_is_refused_is_named_by_no_record() {
        let keyspace = Keyspace::new(Home::Local);
        let put = |time_ms| {
            with_keys(&keyspace, |keys| {
                keys.put_object(b"k", list(&keyspace), time_ms)
            })
        };
        let refuse = |inserted_max: usize| {
            let mut inserted = 0;
            move |call, key: &[u8]| {
                inserted += usize::from(call == Insert && !is_note(key));
                is_note(key) || call == Remove || inserted > inserted_max
            }
        };
        refusing(refuse(1), || put(Some(TIME_MS))).expect_err("a note");
        assert_eq!(elements(&keyspace, b"k"), None);
        put(None).expect("memory");
        refusing(refuse(1), || put(Some(TIME_MS))).expect_err("a note");
        assert_eq!(elements(&keyspace, b"k"), Some(1));
        assert_eq!(note_count(&keyspace), 0);
    }

    #[test]
    fn a_record_that_is_refused_takes_its_note_back() {
        let keyspace = Keyspace::new(Home::Local);
        let set = |value: &'static [u8], time_ms| {
            with_keys(&keyspace, |keys| {
                keys.set_string(b"k", value, Some(time_ms))
            })
        };
        set(b"first", TIME_MS).expect("memory");
        let refuse = |call, key: &[u8]| call == Insert && !is_note(key);
        refusing(refuse, || set(b"second", TIME_MS - 1)).expect_err("a record");
        let notes = keyspace.share()[0].notes(u64::MAX, 10).expect("an index");
        assert_eq!(notes, [(TIME_MS, b"k".to_vec())]);
        let value = with_keys(&keyspace, |keys| keys.string(b"k"));
        assert_eq!(value, Ok(Some(b"first".to_vec())));
    }

    #[test]
    fn writes_whose_new_notes_are_refused_are_returned_once() {
        let keyspace = Keyspace::new(Home::Local);
        let mut changes = NoteChanges::default();
        changes.add(7, b"k", Some(1), Some(2));
        changes.add(8, b"l", None, Some(3));
        // A note that is not removed leaves its key as it is written.
        changes.add(9, b"m", Some(4), None);
        let apply = || changes.apply(&keyspace.share()[0]);
        let refused = refusing(|call, _| call == Execute, apply);
        let writes: Vec<u32> = refused.iter().map(|(write, _)| *write).collect();
        assert_eq!(writes, [7, 8]);
    }
}

//! The command that sorts the elements of an object, by themselves or by the values of keys that
//! are named after them.

use crate::command::{Answer, CommandCall, integer, is};
use crate::commands::TABLE;
use crate::commands::hash::one_field;
use crate::commands::string::part;
use crate::error::CommandError;
use crate::keyspace::{Class, DatabaseKeys, KeyView};
use crate::number::parse_double;
use crate::object::{Container, Hash, ListObject, RedisType, StoredObject};
use crate::steps;
use hashbrown::HashMap;
use std::cmp::Ordering;
use std::rc::Rc;

/// The options of `SORT`.
#[derive(Debug, Default)]
struct SortOptions<'c> {
    descending: bool,
    /// True if elements are compared as bytes, false if as numbers.
    by_bytes: bool,
    /// The first element of the result, and the number of elements.
    limit: Option<(i64, i64)>,
    store: Option<&'c [u8]>,
    by: Option<&'c [u8]>,
    get: Vec<&'c [u8]>,
}

fn denied(option: &str) -> CommandError {
    CommandError::owned(format!(
        "ERR {option} option of SORT denied due to insufficient ACL permissions."
    ))
}

impl<'c> SortOptions<'c> {
    /// Parses the options. `any_key` is true if the client may read every key: patterns reach keys
    /// that are not among the arguments.
    fn parse(
        words: &[&'c [u8]],
        may_store: bool,
        any_key: bool,
    ) -> Result<SortOptions<'c>, CommandError> {
        let mut options = SortOptions::default();
        let mut rest = words;
        loop {
            rest = match *rest {
                [] => return Ok(options),
                [word, ref rest @ ..] if is(word, "asc") => {
                    options.descending = false;
                    rest
                }
                [word, ref rest @ ..] if is(word, "desc") => {
                    options.descending = true;
                    rest
                }
                [word, ref rest @ ..] if is(word, "alpha") => {
                    options.by_bytes = true;
                    rest
                }
                [word, start, count, ref rest @ ..] if is(word, "limit") => {
                    options.limit = Some((integer(start)?, integer(count)?));
                    rest
                }
                [word, target, ref rest @ ..] if may_store && is(word, "store") => {
                    options.store = Some(target);
                    rest
                }
                [word, pattern, ref rest @ ..] if is(word, "by") => {
                    // A pattern without a star reads no key.
                    if !any_key && pattern.contains(&b'*') {
                        return Err(denied("BY"));
                    }
                    options.by = Some(pattern);
                    rest
                }
                [word, pattern, ref rest @ ..] if is(word, "get") => {
                    // As in Redis, GET is refused with any pattern, also without a star.
                    if !any_key {
                        return Err(denied("GET"));
                    }
                    options.get.push(pattern);
                    rest
                }
                _ => return Err(CommandError::Syntax),
            };
        }
    }

    /// Returns the range of the result among `length` elements.
    fn part(&self, length: usize) -> std::ops::Range<usize> {
        let Some((start, count)) = self.limit else {
            return 0..length;
        };
        // As in Redis, a negative start means the first element, and a negative count all.
        let start = start.max(0);
        match count {
            0 => 0..0,
            count if count < 0 => part(length, start, -1),
            count => part(length, start, start.saturating_add(count - 1)),
        }
    }
}

/// Returns the positions of the keys of a `SORT`: the object to sort, and the target of the result.
pub(super) fn keys_of_sort(args: &[&[u8]]) -> Vec<usize> {
    let mut keys = vec![1];
    let mut position = 2;
    let mut store = None;
    while let Some(word) = args.get(position) {
        position += match word {
            _ if is(word, "limit") => 3,
            _ if is(word, "by") || is(word, "get") => 2,
            _ if is(word, "store") => {
                // As in Redis, the last STORE counts.
                store = Some(position + 1).filter(|&target| target < args.len());
                2
            }
            _ => 1,
        };
    }
    keys.extend(store);
    keys
}

pub(super) fn sort(call: &mut CommandCall<'_>) -> Answer {
    let options = SortOptions::parse(call.rest(2), true, may_look_up_any_key(call))?;
    sort_with(call, options)
}

pub(super) fn sort_ro(call: &mut CommandCall<'_>) -> Answer {
    let options = SortOptions::parse(call.rest(2), false, may_look_up_any_key(call))?;
    sort_with(call, options)
}

/// Returns true if the client may reach any key by the patterns of this command.
fn may_look_up_any_key(call: &CommandCall<'_>) -> bool {
    let name = call.args.first().copied().unwrap_or_default();
    let acl = &call.server.acl;
    TABLE
        .find(name)
        .is_some_and(|command| call.client.may_read_all_keys_by(acl, command, call.args))
}

fn sort_with(call: &mut CommandCall<'_>, mut options: SortOptions<'_>) -> Answer {
    let (elements, kind) = elements(&mut call.keys, call.args[1])?;
    let is_pattern = |pattern: &[u8]| pattern.contains(&b'*');
    // As in Redis, `BY` a text without a star means not to sort.
    let mut in_order = options.by.is_some_and(|pattern| !is_pattern(pattern));
    if in_order {
        options.by = None;
        if kind == Some(RedisType::Set) && options.store.is_some() {
            // A set has no order, but the stored result must not depend on chance.
            (in_order, options.by_bytes) = (false, true);
        }
    }
    let sorted = if in_order {
        let mut elements = elements;
        // The members of a set have no order that could be reversed.
        if options.descending && kind != Some(RedisType::Set) {
            elements.reverse();
        }
        elements
    } else {
        let mut elements = elements;
        if kind == Some(RedisType::Set) {
            // Elements of the same weight must not be in a random order either.
            elements.sort_unstable();
        }
        sorted(&mut call.keys, elements, &options)?
    };
    let part = sorted.get(options.part(sorted.len())).unwrap_or_default();
    let Some(target) = options.store else {
        call.reply.array(part.len() * options.get.len().max(1));
        return each_answer(&mut call.keys, part, &options.get, |answer| {
            call.reply.bulk_or_null(answer);
            // The rest of a reply that is cut would be looked up for nothing.
            !call.reply.is_cut()
        });
    };
    let (mut answers, mut bytes) = (Vec::new(), 0);
    let room = call.room();
    each_answer(&mut call.keys, part, &options.get, |answer| {
        // The results may be much longer than the elements, because GET can read one long value for
        // each of them.
        bytes += answer.map_or(0, <[u8]>::len) + ANSWER_BYTES;
        answers.push(answer.map(<[u8]>::to_vec));
        bytes as u64 <= room
    })?;
    if bytes as u64 > room {
        return Err(CommandError::LacksRoom(bytes));
    }
    call.reply.count(answers.len());
    store(call, target, &answers)
}

/// The memory of an answer that is stored, beside its bytes.
const ANSWER_BYTES: usize = 32;

/// Calls `visit` with each part of the result, until it returns false: for each element, the
/// element itself or, if there are patterns in `get`, the value that each of them yields.
fn each_answer(
    keys: &mut DatabaseKeys<'_>,
    elements: &[Vec<u8>],
    get: &[&[u8]],
    mut visit: impl FnMut(Option<&[u8]>) -> bool,
) -> Answer {
    for element in elements {
        if get.is_empty() && !visit(Some(element)) {
            return Ok(());
        }
        for pattern in get {
            if !visit(look_up(keys, pattern, element)?.as_deref()) {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn store(call: &mut CommandCall<'_>, target: &[u8], answers: &[Option<Vec<u8>>]) -> Answer {
    if answers.is_empty() {
        if call.keys.exists(target)? {
            call.keys.remove(target)?;
            call.keys.changed(target, Class::Generic, "del");
        }
        return Ok(());
    }
    let limits = call.keys.limits();
    let mut list = ListObject::create(&call.keys.keyspace().heap);
    for answer in answers {
        // As in Redis, an absent value is stored as an empty element.
        list.push_back(&limits, answer.as_deref().unwrap_or_default());
    }
    call.keys.put_object(target, list.wrap(), None)?;
    call.keys.changed(target, Class::List, "sortstore");
    Ok(())
}

/// Returns the elements of an object, and its type.
fn elements(
    keys: &mut DatabaseKeys<'_>,
    key: &[u8],
) -> Result<(Vec<Vec<u8>>, Option<RedisType>), CommandError> {
    let Some(found) = keys.find(key)? else {
        return Ok((Vec::new(), None));
    };
    let elements = keys.read_object(key, &found, |object| match object {
        StoredObject::List(list) => Some(list.iter().map(<[u8]>::to_vec).collect()),
        StoredObject::Set(set) => Some(set.iter().map(|member| member.to_vec()).collect()),
        StoredObject::SortedSet(set) => {
            Some(set.iter().map(|(member, _)| member.to_vec()).collect())
        }
        StoredObject::Text(_) | StoredObject::Hash(_) | StoredObject::Stream(_) => None,
    })?;
    let elements = elements.flatten().ok_or(CommandError::WrongType)?;
    Ok((elements, Some(found.kind)))
}

/// Length from which a value is kept once for all elements that are equal. A shorter one takes less
/// than the element itself does here.
const SHARED_BYTES_MIN: usize = 64;

/// The value that an element is compared by.
#[derive(Debug, PartialEq, PartialOrd)]
enum Weight {
    Number(f64),
    /// Bytes, or `None`, which sorts before all others.
    Bytes(Option<Rc<[u8]>>),
    /// The element itself.
    Element,
}

fn sorted(
    keys: &mut DatabaseKeys<'_>,
    elements: Vec<Vec<u8>>,
    options: &SortOptions<'_>,
) -> Result<Vec<Vec<u8>>, CommandError> {
    let mut weighed = Vec::with_capacity(elements.len());
    // A list may have one element a million times. A long value that belongs to it is kept once.
    let mut long: HashMap<Vec<u8>, Rc<[u8]>> = HashMap::new();
    for element in elements {
        let weight = match (options.by, options.by_bytes) {
            (None, true) => Weight::Element,
            (None, false) => Weight::Number(number(&element)?),
            (Some(pattern), by_bytes) => {
                let value = match long.get(&element) {
                    Some(value) => Some(Rc::clone(value)),
                    None => {
                        let value = look_up(keys, pattern, &element)?.map(Rc::<[u8]>::from);
                        let is_long = |value: &&Rc<[u8]>| value.len() >= SHARED_BYTES_MIN;
                        if let Some(value) = value.as_ref().filter(is_long) {
                            long.insert(element.clone(), Rc::clone(value));
                        }
                        value
                    }
                };
                match value {
                    value if by_bytes => Weight::Bytes(value),
                    Some(value) => Weight::Number(number(&value)?),
                    None => Weight::Number(0.0),
                }
            }
        };
        weighed.push((weight, element));
    }
    weighed.sort_by(|one, two| {
        // Elements with equal bytes keep their order.
        let order = match (&one.0, &two.0) {
            (Weight::Bytes(one), Weight::Bytes(two)) => one.cmp(two),
            // As in Redis, elements of equal numbers are ordered by their bytes. No number is NaN.
            _ => one.partial_cmp(two).unwrap_or(Ordering::Equal),
        };
        if options.descending {
            order.reverse()
        } else {
            order
        }
    });
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

/// Parses a number as `strtod` does, which returns 0 for empty text.
fn number(text: &[u8]) -> Result<f64, CommandError> {
    // C's `strtod` skips blanks before a number, but not after it.
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Ok(0.0);
    }
    parse_double(text).ok_or(CommandError::text(
        "ERR One or more scores can't be converted into double",
    ))
}

/// Returns the value of the key, or of the field of a hash, that `pattern` names for an element:
/// the element replaces the first star, and a field's name follows `->`.
fn look_up(
    keys: &mut DatabaseKeys<'_>,
    pattern: &[u8],
    element: &[u8],
) -> Result<Option<Vec<u8>>, CommandError> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|&byte| byte == b'*') else {
        return Ok(None);
    };
    steps::count(1);
    let (before, after) = pattern.split_at(star);
    let after = after.get(1..).unwrap_or_default();
    let arrow = after.windows(2).position(|two| two == b"->");
    let field = arrow.and_then(|arrow| after.get(arrow + 2..));
    let (after, field) = match field {
        // As in Redis, an arrow at the end belongs to the name of the key.
        Some(field) if !field.is_empty() => {
            let end = arrow.unwrap_or(0);
            (after.get(..end).unwrap_or_default(), Some(field))
        }
        _ => (after, None),
    };
    let key = [before, element, after].concat();
    let value = match field {
        Some(field) => {
            // Treated as HGET, so that only this field of the hash is loaded.
            let args: [&[u8]; 3] = [b"HGET", &key, field];
            let mut keys = keys.nested();
            keys.touch(one_field, &args);
            keys.read::<Hash, _>(&key, |hash| {
                hash.and_then(|hash| hash.get(field)).map(<[u8]>::to_vec)
            })
        }
        None => keys.string(&key),
    };
    match value {
        // A key of another type counts as absent.
        Err(CommandError::WrongType) => Ok(None),
        other => other,
    }
}

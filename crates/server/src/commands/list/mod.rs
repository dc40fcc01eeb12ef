//! Commands on lists.

pub(super) mod blocking;

use crate::command::arguments::{count, position, positions};
use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandGroup, PlannedCommand, Touch, integer, is,
};
use crate::error::CommandError;
use crate::keyspace::{Class, KeyView};
use crate::number::parse_integer;
use crate::object::node::counts;
use crate::object::{ListObject, ObjectLimits, ObjectPart};

const GROUP: CommandGroup = CommandGroup::List;

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::planned("lpush", -3, Touch::Change, |it| push(it, ListEnd::Left))
        .grows()
        .fast()
        .key(1)
        .part(|_| FRONT)
        .about(GROUP, "1.0.0", "O(1) for each element")
        .summary("Prepends elements to a list. Creates the key if it does not exist."),
    CommandDefinition::planned("rpush", -3, Touch::Change, |it| push(it, ListEnd::Right))
        .grows()
        .fast()
        .key(1)
        .part(|_| BACK)
        .about(GROUP, "1.0.0", "O(1) for each element")
        .summary("Appends elements to a list. Creates the key if it does not exist."),
    CommandDefinition::new("lpushx", -3, |call| push_present(call, ListEnd::Left))
        .grows()
        .fast()
        .key(1)
        .part(|_| FRONT)
        .about(GROUP, "2.2.0", "O(1) for each element")
        .summary("Prepends elements to a list that exists."),
    CommandDefinition::new("rpushx", -3, |call| push_present(call, ListEnd::Right))
        .grows()
        .fast()
        .key(1)
        .part(|_| BACK)
        .about(GROUP, "2.2.0", "O(1) for each element")
        .summary("Appends elements to a list that exists."),
    CommandDefinition::planned("lpop", -2, Touch::Change, |it| pop(it, ListEnd::Left))
        .writes()
        .fast()
        .key(1)
        .part(|args| popped(args, ListEnd::Left))
        .about(GROUP, "1.0.0", "O(N) for N elements")
        .summary("Removes the first elements of a list and returns them."),
    CommandDefinition::planned("rpop", -2, Touch::Change, |it| pop(it, ListEnd::Right))
        .writes()
        .fast()
        .key(1)
        .part(|args| popped(args, ListEnd::Right))
        .about(GROUP, "1.0.0", "O(N) for N elements")
        .summary("Removes the last elements of a list and returns them."),
    CommandDefinition::new("llen", 2, llen)
        .reads()
        .fast()
        .key(1)
        // The length is known without any element.
        .part(counts)
        .about(GROUP, "1.0.0", "O(1)")
        .summary("Returns the length of a list."),
    CommandDefinition::new("lindex", 3, lindex)
        .reads()
        .key(1)
        .part(|args| by_index(args, |it| ObjectPart::Range(it, it)))
        .about(GROUP, "1.0.0", "O(N) for N chunks to the nearer end")
        .summary("Returns an element of a list by its index."),
    CommandDefinition::new("lset", 4, lset)
        .grows()
        .key(1)
        .part(|args| by_index(args, ObjectPart::Around))
        .about(GROUP, "1.0.0", "O(N) for N chunks to the nearer end")
        .summary("Sets an element of a list by its index."),
    CommandDefinition::new("linsert", 5, linsert)
        .grows()
        .key(1)
        .part(|args| {
            // The elements up to the pivot are compared.
            args.get(3)
                .map_or(ObjectPart::All, |pivot| ObjectPart::First(pivot))
        })
        .about(GROUP, "2.2.0", "O(N) for N elements before the pivot")
        .summary("Inserts an element before or after another one."),
    CommandDefinition::new("lrange", 4, lrange)
        .reads()
        .key(1)
        .part(|args| by_range(args, ObjectPart::Range))
        .about(GROUP, "1.0.0", "O(S+N) for N elements after S chunks")
        .summary("Returns a range of elements of a list."),
    CommandDefinition::new("lrem", 4, lrem)
        .writes()
        .key(1)
        .part(each)
        .about(GROUP, "1.0.0", "O(N) for a list of N")
        .summary("Removes elements that equal another from a list."),
    CommandDefinition::new("ltrim", 4, ltrim)
        .writes()
        .key(1)
        .part(|args| by_range(args, ObjectPart::Cuts))
        .about(GROUP, "1.0.0", "O(N) for N removed chunks")
        .summary("Removes the elements at both ends of a list."),
    CommandDefinition::new("lpos", -3, lpos)
        .reads()
        .key(1)
        .about(GROUP, "6.0.6", "O(N) for N compared elements")
        .summary("Returns the indexes of elements that equal another."),
];

/// The first chunk, to which `LPUSH` adds.
const FRONT: ObjectPart<'static> = ObjectPart::Ends { front: 1, back: 0 };
/// The last chunk, to which `RPUSH` adds.
const BACK: ObjectPart<'static> = ObjectPart::Ends { front: 0, back: 1 };

/// Returns the part that is popped. If the arguments do not parse, it is all: no element is read.
fn popped<'a>(args: &[&'a [u8]], end: ListEnd) -> ObjectPart<'a> {
    let limit = args.get(2).map_or(Ok(1), |limit| count(limit));
    limit.map_or(ObjectPart::All, |limit| end.part(limit))
}

fn by_index<'a>(args: &[&'a [u8]], part: fn(i64) -> ObjectPart<'a>) -> ObjectPart<'a> {
    let index = args.get(2).and_then(|index| parse_integer(index));
    // Without an index the command fails before it reads anything, so any part will do.
    index.map_or(ObjectPart::All, part)
}

fn by_range<'a>(args: &[&'a [u8]], part: fn(i64, i64) -> ObjectPart<'a>) -> ObjectPart<'a> {
    let integer = |position: usize| args.get(position).and_then(|it| parse_integer(it));
    match (integer(2), integer(3)) {
        (Some(start), Some(stop)) => part(start, stop),
        _ => ObjectPart::All,
    }
}

fn each<'a>(args: &[&'a [u8]]) -> ObjectPart<'a> {
    match args {
        [_, _, count, element] => match parse_integer(count) {
            Some(count) => ObjectPart::Each(count, element),
            None => ObjectPart::All,
        },
        _ => ObjectPart::All,
    }
}

/// One of the ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// The end to which `LPUSH` adds.
    Left,
    /// The end to which `RPUSH` adds.
    Right,
}

impl ListEnd {
    /// Parses `LEFT` or `RIGHT`.
    ///
    /// # Errors
    /// `Syntax`.
    pub fn parse(argument: &[u8]) -> Result<ListEnd, CommandError> {
        if is(argument, "left") {
            Ok(ListEnd::Left)
        } else if is(argument, "right") {
            Ok(ListEnd::Right)
        } else {
            Err(CommandError::Syntax)
        }
    }

    /// Returns the event of a push at this end.
    pub fn pushed(self) -> &'static str {
        match self {
            ListEnd::Left => "lpush",
            ListEnd::Right => "rpush",
        }
    }

    /// Returns the event of a pop from this end.
    pub fn popped(self) -> &'static str {
        match self {
            ListEnd::Left => "lpop",
            ListEnd::Right => "rpop",
        }
    }

    /// Adds an element at this end.
    pub fn push(self, list: &mut ListObject, limits: &ObjectLimits, element: &[u8]) {
        match self {
            ListEnd::Left => list.push_front(limits, element),
            ListEnd::Right => list.push_back(limits, element),
        }
    }

    /// Returns the part of `count` elements at this end, at least one.
    pub fn part(self, count: usize) -> ObjectPart<'static> {
        // Even without an element the value must be loaded, to check its type.
        let count = count.max(1);
        match self {
            ListEnd::Left => ObjectPart::Ends {
                front: count,
                back: 0,
            },
            ListEnd::Right => ObjectPart::Ends {
                front: 0,
                back: count,
            },
        }
    }

    /// Returns the element at this end.
    pub fn peek(self, list: &ListObject) -> Option<&[u8]> {
        match self {
            ListEnd::Left => list.first(),
            ListEnd::Right => list.last(),
        }
    }

    /// Removes elements at this end.
    pub fn remove(self, list: &mut ListObject, count: usize) {
        match self {
            ListEnd::Left => list.remove_front(count),
            ListEnd::Right => list.remove_back(count),
        }
    }
}

fn push(planned: &mut PlannedCommand<'_>, end: ListEnd) -> Answer {
    let elements = planned.rest(2);
    let len = planned.edit::<ListObject, _>(0, |list, limits| {
        for element in elements {
            end.push(list, limits, element);
        }
        list.len()
    })?;
    planned.changed(0, Class::List, end.pushed());
    planned.reply.count(len);
    Ok(())
}

fn push_present(call: &mut CommandCall<'_>, end: ListEnd) -> Answer {
    let (key, elements) = (call.args[1], call.rest(2));
    let limits = call.keys.limits();
    let len = call.keys.edit_present::<ListObject, _>(key, |list| {
        for element in elements {
            end.push(list, &limits, element);
        }
        list.len()
    })?;
    if len.is_some() {
        call.keys.changed(key, Class::List, end.pushed());
    }
    call.reply.count(len.unwrap_or(0));
    Ok(())
}

fn pop(planned: &mut PlannedCommand<'_>, end: ListEnd) -> Answer {
    if planned.args.len() > 3 {
        return Err(CommandError::WrongArity(end.popped().into()));
    }
    // As in Redis, a count that is not valid is an error even without a key.
    let limit = planned.args.get(2).map(|limit| count(limit)).transpose()?;
    let popped = planned.edit_present::<ListObject, _>(0, |reply, list| {
        let Some(limit) = limit else {
            reply.bulk_or_null(end.peek(list));
            end.remove(list, 1);
            return true;
        };
        let count = limit.min(list.len());
        reply.array(count);
        pop_into(list, end, count, |element| reply.bulk(element));
        count > 0
    })?;
    match popped {
        Some(true) => planned.changed(0, Class::List, end.popped()),
        // A count of 0 removes nothing, which is no change.
        Some(false) => {}
        // As in Redis, an absent key is a null array if a count is given, even 0.
        None if limit.is_some() => planned.reply.null_array(),
        None => planned.reply.null(),
    }
    Ok(())
}

/// Removes at most `count` elements, and calls `visit` with each before.
pub fn pop_into(list: &mut ListObject, end: ListEnd, count: usize, visit: impl FnMut(&[u8])) {
    match end {
        ListEnd::Left => list.iter().take(count).for_each(visit),
        ListEnd::Right => {
            let last = list.len().saturating_sub(1);
            list.iter_back_from(last).take(count).for_each(visit);
        }
    }
    // All are visited before the first is removed, because the elements are borrowed.
    end.remove(list, count);
}

fn llen(call: &mut CommandCall<'_>) -> Answer {
    let len = |list: Option<&ListObject>| list.map_or(0, ListObject::len);
    call.reply.count(call.keys.read(call.args[1], len)?);
    Ok(())
}

fn lindex(call: &mut CommandCall<'_>) -> Answer {
    let index = call.args[2];
    let reply = &mut *call.reply;
    call.keys.read::<ListObject, _>(call.args[1], |list| {
        let Some(list) = list else {
            reply.null();
            return Ok(());
        };
        // As in Redis, the index is not parsed if there is no key.
        let index = position(integer(index)?, list.len());
        reply.bulk_or_null(index.and_then(|index| list.get(index)));
        Ok(())
    })?
}

fn lset(call: &mut CommandCall<'_>) -> Answer {
    let (key, index, element) = (call.args[1], call.args[2], call.args[3]);
    let limits = call.keys.limits();
    let set: Option<Answer> = call.keys.edit_present::<ListObject, _>(key, |list| {
        let index = position(integer(index)?, list.len());
        let index = index.ok_or(CommandError::IndexOutOfRange)?;
        list.set(&limits, index, element);
        Ok(())
    })?;
    set.ok_or(CommandError::NoSuchKey)??;
    call.keys.changed(key, Class::List, "lset");
    call.reply.ok();
    Ok(())
}

fn linsert(call: &mut CommandCall<'_>) -> Answer {
    let (key, pivot, element) = (call.args[1], call.args[3], call.args[4]);
    let after = is(call.args[2], "after");
    if !after && !is(call.args[2], "before") {
        return Err(CommandError::Syntax);
    }
    let limits = call.keys.limits();
    let inserted = call.keys.edit_present::<ListObject, _>(key, |list| {
        let found = if after {
            list.insert_after(&limits, pivot, element)
        } else {
            list.insert_before(&limits, pivot, element)
        };
        found.then(|| list.len())
    })?;
    match inserted {
        None => call.reply.integer(0),
        // The list has no such pivot, while 0 means that there is no list.
        Some(None) => call.reply.integer(-1),
        Some(Some(len)) => {
            call.keys.changed(key, Class::List, "linsert");
            call.reply.count(len);
        }
    }
    Ok(())
}

fn lrange(call: &mut CommandCall<'_>) -> Answer {
    let (start, stop) = (call.integer(2)?, call.integer(3)?);
    let reply = &mut *call.reply;
    call.keys.read::<ListObject, _>(call.args[1], |list| {
        let range = positions(start, stop, list.map_or(0, ListObject::len));
        reply.array(range.len());
        // An empty range may begin after the last element.
        if let Some(list) = list.filter(|_| !range.is_empty()) {
            for element in list.iter_from(range.start).take(range.len()) {
                reply.bulk(element);
            }
        }
    })
}

fn lrem(call: &mut CommandCall<'_>) -> Answer {
    let (key, count, element) = (call.args[1], call.integer(2)?, call.args[3]);
    let limits = call.keys.limits();
    let removed = call
        .keys
        .edit_present::<ListObject, _>(key, |list| list.remove(&limits, count, element))?;
    let removed = removed.unwrap_or(0);
    if removed > 0 {
        call.keys.changed(key, Class::List, "lrem");
    }
    call.reply.count(removed);
    Ok(())
}

fn ltrim(call: &mut CommandCall<'_>) -> Answer {
    let (key, start, stop) = (call.args[1], call.integer(2)?, call.integer(3)?);
    let trimmed = call.keys.edit_present::<ListObject, _>(key, |list| {
        let range = positions(start, stop, list.len());
        list.trim(range.start, range.end);
    })?;
    // As in Redis, LTRIM counts as a change even if it removes nothing.
    if trimmed.is_some() {
        call.keys.changed(key, Class::List, "ltrim");
    }
    call.reply.ok();
    Ok(())
}

/// The options of `LPOS`.
struct LposOptions {
    /// The number of matches that are skipped.
    skipped: u64,
    reverse: bool,
    /// The number of indexes in the reply, which is then an array.
    count: Option<usize>,
    compared_max: usize,
}

impl LposOptions {
    fn parse(options: &[&[u8]]) -> Result<LposOptions, CommandError> {
        let mut search = LposOptions {
            skipped: 0,
            reverse: false,
            count: None,
            compared_max: usize::MAX,
        };
        for option in options.chunks(2) {
            let &[name, value] = option else {
                return Err(CommandError::Syntax);
            };
            if is(name, "rank") {
                let rank = integer(value)?;
                if rank == i64::MIN {
                    return Err(CommandError::text(
                        "ERR value is out of range, value must between -9223372036854775807 and \
                         9223372036854775807",
                    ));
                }
                search.reverse = rank < 0;
                search.skipped = rank
                    .unsigned_abs()
                    .checked_sub(1)
                    .ok_or(CommandError::text(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                         second ... or use negative to start from the end of the list",
                    ))?;
            } else if is(name, "count") {
                let refused = |_| CommandError::text("ERR COUNT can't be negative");
                search.count = Some(match count(value).map_err(refused)? {
                    // As in Redis, 0 stands for all matches.
                    0 => usize::MAX,
                    count => count,
                });
            } else if is(name, "maxlen") {
                let refused = |_| CommandError::text("ERR MAXLEN can't be negative");
                search.compared_max = match count(value).map_err(refused)? {
                    // As in Redis, 0 stands for no limit.
                    0 => usize::MAX,
                    length => length,
                };
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(search)
    }

    /// Calls `found` with the indexes, in the order of the search, until it returns false.
    fn run(&self, list: &ListObject, element: &[u8], mut found: impl FnMut(usize) -> bool) {
        let last = list.len().saturating_sub(1);
        let elements = if self.reverse {
            list.iter_back_from(last)
        } else {
            list.iter()
        };
        let mut skipped = self.skipped;
        for (step, other) in elements.take(self.compared_max).enumerate() {
            if other != element {
                continue;
            }
            if skipped > 0 {
                skipped -= 1;
                continue;
            }
            debug_assert!(step <= last, "the steps are those of the elements");
            if !found(if self.reverse { last - step } else { step }) {
                return;
            }
        }
    }
}

fn lpos(call: &mut CommandCall<'_>) -> Answer {
    let element = call.args[2];
    let search = LposOptions::parse(call.rest(3))?;
    let reply = &mut *call.reply;
    call.keys.read::<ListObject, _>(call.args[1], |list| {
        let Some(limit) = search.count else {
            let mut first = None;
            if let Some(list) = list {
                search.run(list, element, |index| {
                    first = Some(index);
                    false
                });
            }
            match first {
                Some(index) => reply.count(index),
                // As in Redis, without COUNT the reply is one index and no array.
                None => reply.null(),
            }
            return;
        };
        let (mark, mut count) = (reply.begin(), 0);
        if let Some(list) = list {
            search.run(list, element, |index| {
                reply.count(index);
                count += 1;
                count < limit
            });
        }
        debug_assert!(count <= limit);
        reply.end_array(mark, count);
    })
}

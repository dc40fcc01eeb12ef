//! Commands on sets: unions, intersections and differences.

use crate::command::arguments::counted_keys;
use crate::command::parts::different;
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, integer};
use crate::commands::sorted_set::algebra::card_limit;
use crate::commands::sorted_set::range::store;
use crate::error::CommandError;
use crate::keyspace::{KeyMetadata, KeyView};
use crate::object::{Container, RedisType, Set, StoredObject};
use crate::steps;
use hashbrown::HashSet;
use nearfield_tiers::AccountedHeap;

const GROUP: CommandGroup = CommandGroup::Set;
const UNION_TIME: &str = "O(N) for N members of all sets";
const INTER_TIME: &str = "O(N*K) for the smallest of K sets with N members";
const DIFF_TIME: &str = "O(N*K) for the first of K sets with N members";

/// The rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("sinter", -2, |call| {
        answer(call, SetAlgebraOperation::Inter)
    })
    .reads()
    .keys_at(1, -1, 1)
    .about(GROUP, "1.0.0", INTER_TIME)
    .summary("Returns the intersection of sets."),
    CommandDefinition::new("sinterstore", -3, |call| {
        store_result(call, SetAlgebraOperation::Inter, "sinterstore")
    })
    .grows()
    .keys_at(1, -1, 1)
    .about(GROUP, "1.0.0", INTER_TIME)
    .summary("Stores the intersection of sets."),
    CommandDefinition::new("sintercard", -3, sintercard)
        .reads()
        .keys_counted(1, None)
        .about(GROUP, "7.0.0", INTER_TIME)
        .summary("Returns the number of members that the intersection of sets has."),
    CommandDefinition::new("sunion", -2, |call| {
        answer(call, SetAlgebraOperation::Union)
    })
    .reads()
    .keys_at(1, -1, 1)
    .about(GROUP, "1.0.0", UNION_TIME)
    .summary("Returns the union of sets."),
    CommandDefinition::new("sunionstore", -3, |call| {
        store_result(call, SetAlgebraOperation::Union, "sunionstore")
    })
    .grows()
    .keys_at(1, -1, 1)
    .about(GROUP, "1.0.0", UNION_TIME)
    .summary("Stores the union of sets."),
    CommandDefinition::new("sdiff", -2, |call| answer(call, SetAlgebraOperation::Diff))
        .reads()
        .keys_at(1, -1, 1)
        .about(GROUP, "1.0.0", DIFF_TIME)
        .summary("Returns the members of the first set that are in none of the others."),
    CommandDefinition::new("sdiffstore", -3, |call| {
        store_result(call, SetAlgebraOperation::Diff, "sdiffstore")
    })
    .grows()
    .keys_at(1, -1, 1)
    .about(GROUP, "1.0.0", DIFF_TIME)
    .summary("Stores the members of the first set that are in none of the others."),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetAlgebraOperation {
    Union,
    Inter,
    Diff,
}

/// Returns the result of an operation on the sets of `keys`, in any order.
fn run(
    call: &mut CommandCall<'_>,
    operation: SetAlgebraOperation,
    keys: &[&[u8]],
) -> Result<Vec<Vec<u8>>, CommandError> {
    // If the first set of a difference is named again, it is also subtracted.
    let (first, others) =
        keys.split_at(usize::from(operation == SetAlgebraOperation::Diff).min(keys.len()));
    let keys = [first, &different(others)].concat();
    let mut sets = Vec::with_capacity(keys.len());
    for key in &keys {
        // All types are checked before any set is read, as in Redis.
        let found = call.keys.find(key)?;
        if found.is_some_and(|found| found.kind != RedisType::Set) {
            return Err(CommandError::WrongType);
        }
        sets.push(found.map(|found| (*key, found)));
    }
    let has_none = match operation {
        SetAlgebraOperation::Union => false,
        SetAlgebraOperation::Inter => sets.iter().any(Option::is_none),
        SetAlgebraOperation::Diff => sets.first().is_none_or(Option::is_none),
    };
    if has_none {
        return Ok(Vec::new());
    }
    let sets: Vec<Input<'_>> = sets.into_iter().flatten().collect();
    match operation {
        SetAlgebraOperation::Union => union(call, &sets),
        SetAlgebraOperation::Inter => {
            let mut sized = Vec::with_capacity(sets.len());
            for (key, set) in sets {
                sized.push((
                    call.keys.read_object(key, &set, StoredObject::len)?,
                    (key, set),
                ));
            }
            // The smallest set is copied, and the others only looked up.
            sized.sort_by_key(|(len, _)| *len);
            let sets: Vec<Input<'_>> = sized.into_iter().map(|(_, set)| set).collect();
            filter(call, &sets, true)
        }
        SetAlgebraOperation::Diff => filter(call, &sets, false),
    }
}

/// A key, and the set that it holds.
type Input<'k> = (&'k [u8], KeyMetadata);

fn union(call: &CommandCall<'_>, sets: &[Input<'_>]) -> Result<Vec<Vec<u8>>, CommandError> {
    if let [only] = sets {
        return load(call, only);
    }
    let mut members: HashSet<Vec<u8>> = HashSet::new();
    for set in sets {
        read(call, set, |set| {
            for member in set.iter() {
                // A member is copied only if it is new.
                if !members.contains(&*member) {
                    members.insert(member.to_vec());
                }
            }
        })?;
    }
    Ok(members.into_iter().collect())
}

/// Returns the members of the first set that are in all others, or in none of them.
fn filter(
    call: &CommandCall<'_>,
    sets: &[Input<'_>],
    present: bool,
) -> Result<Vec<Vec<u8>>, CommandError> {
    debug_assert!(!sets.is_empty(), "an absent first set gives no result");
    let Some((first, others)) = sets.split_first() else {
        return Ok(Vec::new());
    };
    let mut members = load(call, first)?;
    for set in others {
        read(call, set, |set| {
            members.retain(|member| set.contains(member) == present);
        })?;
    }
    Ok(members)
}

fn load(call: &CommandCall<'_>, set: &Input<'_>) -> Result<Vec<Vec<u8>>, CommandError> {
    let mut members = Vec::new();
    read(call, set, |set| {
        members.extend(set.iter().map(|member| member.to_vec()));
    })?;
    Ok(members)
}

fn read(call: &CommandCall<'_>, (key, set): &Input<'_>, read: impl FnOnce(&Set)) -> Answer {
    call.keys.read_object(key, set, |object| {
        if let Some(set) = Set::of(object) {
            steps::count(set.len());
            read(set);
        }
    })?;
    Ok(())
}

fn answer(call: &mut CommandCall<'_>, operation: SetAlgebraOperation) -> Answer {
    let members = run(call, operation, call.rest(1))?;
    call.reply.set(members.len());
    members.iter().for_each(|member| call.reply.bulk(member));
    Ok(())
}

fn store_result(
    call: &mut CommandCall<'_>,
    operation: SetAlgebraOperation,
    event: &'static str,
) -> Answer {
    let members = run(call, operation, call.rest(2))?;
    // The result may be larger than the arguments by any factor.
    call.check_room_of(members.iter().map(|member| &member[..]))?;
    let limits = call.keys.limits();
    let mut result = Set::<AccountedHeap>::create(&call.keys.keyspace().heap);
    for member in &members {
        result.add(&limits, member);
    }
    store(call, call.args[1], result, event)?;
    call.reply.count(members.len());
    Ok(())
}

fn sintercard(call: &mut CommandCall<'_>) -> Answer {
    const NO_COUNT: CommandError = CommandError::text("ERR numkeys should be greater than 0");
    let arguments = call.rest(1);
    let number = integer(call.args[1]).map_err(|_| NO_COUNT)?;
    debug_assert!(!arguments.is_empty(), "the arity covers the number of keys");
    // As in Redis, this has an error of its own in SINTERCARD.
    if number > arguments.len() as i64 - 1 {
        return Err(CommandError::text(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    let (keys, options) = counted_keys(arguments, NO_COUNT)?;
    let limit = card_limit(options)?;
    let count = run(call, SetAlgebraOperation::Inter, keys)?.len();
    call.reply.count(count.min(limit));
    Ok(())
}

//! Commands on sorted sets: unions, intersections and differences, of sorted sets and of sets.
//! Members of a set count as having score 1.

use super::range::store;
use crate::command::arguments::{Words, count};
use crate::command::{Answer, CommandCall, CommandDefinition, CommandGroup, is};
use crate::error::CommandError;
use crate::keyspace::{KeyMetadata, KeyView};
use crate::number::parse_double;
use crate::object::{RedisType, SortedSet, StoredObject};
use crate::steps;
use hashbrown::{HashMap, HashSet};

const GROUP: CommandGroup = CommandGroup::SortedSet;
const UNION_TIME: &str = "O(N) + O(M log M) for N members of all inputs and M of the result";
const INTER_TIME: &str =
    "O(N*K) + O(M log M) for the smallest of K inputs with N members and M of the result";
const DIFF_TIME: &str =
    "O(N*K) + O(M log M) for the first of K inputs with N members and M of the result";

/// The rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::new("zunion", -3, |call| {
        answer(call, ZsetAlgebraOperation::Union, "zunion")
    })
    .reads()
    .keys_counted(1, None)
    .about(GROUP, "6.2.0", UNION_TIME)
    .summary("Returns the union of sorted sets."),
    CommandDefinition::new("zinter", -3, |call| {
        answer(call, ZsetAlgebraOperation::Inter, "zinter")
    })
    .reads()
    .keys_counted(1, None)
    .about(GROUP, "6.2.0", INTER_TIME)
    .summary("Returns the intersection of sorted sets."),
    CommandDefinition::new("zdiff", -3, |call| {
        answer(call, ZsetAlgebraOperation::Diff, "zdiff")
    })
    .reads()
    .keys_counted(1, None)
    .about(GROUP, "6.2.0", DIFF_TIME)
    .summary("Returns the members of the first sorted set that are in none of the others."),
    CommandDefinition::new("zunionstore", -4, |call| {
        store_result(call, ZsetAlgebraOperation::Union, "zunionstore")
    })
    .grows()
    .keys_counted(2, Some(1))
    .about(GROUP, "2.0.0", UNION_TIME)
    .summary("Stores the union of sorted sets."),
    CommandDefinition::new("zinterstore", -4, |call| {
        store_result(call, ZsetAlgebraOperation::Inter, "zinterstore")
    })
    .grows()
    .keys_counted(2, Some(1))
    .about(GROUP, "2.0.0", INTER_TIME)
    .summary("Stores the intersection of sorted sets."),
    CommandDefinition::new("zdiffstore", -4, |call| {
        store_result(call, ZsetAlgebraOperation::Diff, "zdiffstore")
    })
    .grows()
    .keys_counted(2, Some(1))
    .about(GROUP, "6.2.0", DIFF_TIME)
    .summary("Stores the members of the first sorted set that are in none of the others."),
    CommandDefinition::new("zintercard", -3, zintercard)
        .reads()
        .keys_counted(1, None)
        .about(GROUP, "7.0.0", INTER_TIME)
        .summary("Returns the number of members that the intersection of sorted sets has."),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZsetAlgebraOperation {
    Union,
    Inter,
    Diff,
}

/// The rule that combines the scores of a member of several inputs.
#[derive(Clone, Copy, Debug)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(argument: &[u8]) -> Result<Aggregate, CommandError> {
        if is(argument, "sum") {
            Ok(Aggregate::Sum)
        } else if is(argument, "min") {
            Ok(Aggregate::Min)
        } else if is(argument, "max") {
            Ok(Aggregate::Max)
        } else {
            Err(CommandError::Syntax)
        }
    }

    fn apply(self, one: f64, other: f64) -> f64 {
        debug_assert!(!one.is_nan(), "scores are numbers");
        match self {
            Aggregate::Sum => number_or_zero(one + other),
            Aggregate::Min if other < one => other,
            Aggregate::Max if other > one => other,
            Aggregate::Min | Aggregate::Max => one,
        }
    }
}

/// Returns 0 for NaN: infinity minus infinity counts as 0, and so does infinity times 0.
fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// A set or sorted set that exists.
#[derive(Debug)]
struct ZsetAlgebraInput {
    key: Vec<u8>,
    object: KeyMetadata,
    len: usize,
    /// Its weight for each time that it is named, in this order.
    weights: Vec<f64>,
}

/// The parsed arguments.
#[derive(Debug)]
struct ZsetAlgebraQuery {
    operation: ZsetAlgebraOperation,
    /// The inputs that exist, each once.
    inputs: Vec<ZsetAlgebraInput>,
    /// True if the first input exists.
    first: bool,
    /// True if all inputs exist.
    complete: bool,
    aggregate: Aggregate,
    scores: bool,
}

/// Members with their scores, in any order.
type Members = Vec<(Vec<u8>, f64)>;

/// Reads the inputs that a command names from `position` on, each as often as it is named. Returns
/// them and its options.
fn inputs<'c>(
    call: &mut CommandCall<'c>,
    position: usize,
    name: &'static str,
) -> Result<(Vec<Option<ZsetAlgebraInput>>, Words<'c>), CommandError> {
    let number = call.integer(position)?;
    if number < 1 {
        return Err(CommandError::owned(format!(
            "ERR at least 1 input key is needed for '{name}' command"
        )));
    }
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let rest = call.rest(position + 1);
    let (keys, options) = rest.split_at_checked(number).ok_or(CommandError::Syntax)?;
    let mut inputs = Vec::with_capacity(keys.len());
    let mut lengths: HashMap<&[u8], usize> = HashMap::new();
    for key in keys {
        let found = call.keys.find(key)?;
        if let Some(found) = &found
            && !matches!(found.kind, RedisType::Set | RedisType::SortedSet)
        {
            return Err(CommandError::WrongType);
        }
        let Some(object) = found else {
            inputs.push(None);
            continue;
        };
        // The lengths decide on the order of the inputs, before any is read.
        let len = match lengths.get(key) {
            Some(&len) => len,
            None => {
                let len = call.keys.read_object(key, &object, StoredObject::len)?;
                let len = len.unwrap_or(0);
                lengths.insert(*key, len);
                len
            }
        };
        inputs.push(Some(ZsetAlgebraInput {
            key: key.to_vec(),
            len,
            object,
            weights: vec![1.0],
        }));
    }
    Ok((inputs, options))
}

/// Returns each input once, with the weights of all its names. An input that a client names often
/// would otherwise be read as often.
fn different_inputs(
    named: impl IntoIterator<Item = ZsetAlgebraInput>,
    aggregate: Aggregate,
) -> Vec<ZsetAlgebraInput> {
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut inputs: Vec<ZsetAlgebraInput> = Vec::new();
    for input in named {
        match places.get(&input.key) {
            Some(&place) => inputs[place].weights.extend(input.weights),
            None => {
                places.insert(input.key.clone(), inputs.len());
                inputs.push(input);
            }
        }
    }
    if !matches!(aggregate, Aggregate::Sum) {
        // The least and the greatest of scores do not change when one of them comes again.
        for input in &mut inputs {
            let mut seen = HashSet::new();
            input.weights.retain(|weight| seen.insert(weight.to_bits()));
        }
    }
    inputs
}

impl ZsetAlgebraQuery {
    fn parse(
        call: &mut CommandCall<'_>,
        position: usize,
        operation: ZsetAlgebraOperation,
        name: &'static str,
        stores: bool,
    ) -> Result<ZsetAlgebraQuery, CommandError> {
        let (mut inputs, mut options) = inputs(call, position, name)?;
        let (mut aggregate, mut scores) = (Aggregate::Sum, false);
        // A difference combines no scores, so WEIGHTS and AGGREGATE are syntax errors there.
        let combines = operation != ZsetAlgebraOperation::Diff;
        while let [option, rest @ ..] = options {
            options = if combines
                && is(option, "weights")
                && let Some((weights, rest)) = rest.split_at_checked(inputs.len())
            {
                for (input, weight) in inputs.iter_mut().zip(weights) {
                    let weight = parse_double(weight)
                        .ok_or(CommandError::text("ERR weight value is not a float"))?;
                    // An absent input has a weight among the arguments as well.
                    if let Some(input) = input {
                        input.weights = vec![weight];
                    }
                }
                rest
            } else if combines
                && is(option, "aggregate")
                && let [word, rest @ ..] = rest
            {
                aggregate = Aggregate::parse(word)?;
                rest
            } else if !stores && is(option, "withscores") {
                scores = true;
                rest
            } else {
                return Err(CommandError::Syntax);
            };
        }
        // Absent keys are left out below, but an intersection with one of them is empty.
        let complete = inputs.iter().all(Option::is_some);
        let first = inputs.first().is_some_and(Option::is_some);
        Ok(ZsetAlgebraQuery {
            operation,
            inputs: different_inputs(inputs.into_iter().flatten(), aggregate),
            first,
            complete,
            aggregate,
            scores,
        })
    }

    /// Returns the members of the result and their scores, in the order of a sorted set.
    fn run(mut self, call: &mut CommandCall<'_>) -> Result<Members, CommandError> {
        if self.operation != ZsetAlgebraOperation::Diff {
            // Sums of floating-point numbers depend on the order, which is the same as in Redis,
            // except that the names of one input follow each other among inputs of equal length.
            self.inputs.sort_by_key(|input| input.len);
        }
        let mut members = match self.operation {
            ZsetAlgebraOperation::Union => self.union(call)?,
            ZsetAlgebraOperation::Inter if !self.complete => Members::new(),
            ZsetAlgebraOperation::Inter => self.inter(call)?,
            ZsetAlgebraOperation::Diff if !self.first => Members::new(),
            ZsetAlgebraOperation::Diff => self.diff(call)?,
        };
        // No two members are equal, so that even an unstable sort has one result.
        members.sort_unstable_by(|one, other| {
            let scores = one.1.partial_cmp(&other.1);
            // Scores are never NaN.
            let scores = scores.unwrap_or(std::cmp::Ordering::Equal);
            scores.then_with(|| one.0.cmp(&other.0))
        });
        Ok(members)
    }

    fn union(&self, call: &CommandCall<'_>) -> Result<Members, CommandError> {
        if let [only] = &self.inputs[..] {
            return self.load(call, only);
        }
        let mut members: HashMap<Vec<u8>, f64> = HashMap::new();
        for input in &self.inputs {
            // Only a new member is copied.
            visit(call, input, |member, score| match members.get_mut(member) {
                Some(sum) => *sum = self.combine(*sum, score, &input.weights),
                None => {
                    let first = self.combine_first(score, &input.weights);
                    members.insert(member.to_vec(), first);
                }
            })?;
        }
        Ok(members.into_iter().collect())
    }

    fn inter(&self, call: &CommandCall<'_>) -> Result<Members, CommandError> {
        debug_assert!(
            !self.inputs.is_empty(),
            "all inputs exist, and there is one"
        );
        let Some((first, others)) = self.inputs.split_first() else {
            return Ok(Members::new());
        };
        let mut members = self.load(call, first)?;
        for input in others {
            let ZsetAlgebraInput { key, object, .. } = input;
            steps::count(members.len());
            call.keys.read_object(key, object, |object| {
                members.retain_mut(|(member, score)| match score_in(object, member) {
                    Some(other) => {
                        *score = self.combine(*score, other, &input.weights);
                        true
                    }
                    None => false,
                });
            })?;
        }
        Ok(members)
    }

    fn diff(&self, call: &CommandCall<'_>) -> Result<Members, CommandError> {
        debug_assert!(!self.inputs.is_empty(), "the first input exists");
        let Some((first, others)) = self.inputs.split_first() else {
            return Ok(Members::new());
        };
        if first.weights.len() > 1 {
            // It is named again, and subtracted from itself.
            return Ok(Members::new());
        }
        let mut members = self.load(call, first)?;
        for ZsetAlgebraInput { key, object, .. } in others {
            steps::count(members.len());
            call.keys.read_object(key, object, |object| {
                members.retain(|(member, _)| score_in(object, member).is_none());
            })?;
        }
        Ok(members)
    }

    /// Returns the members of an input with their scores in the result.
    fn load(
        &self,
        call: &CommandCall<'_>,
        input: &ZsetAlgebraInput,
    ) -> Result<Members, CommandError> {
        let mut members = Members::with_capacity(input.len);
        visit(call, input, |member, score| {
            members.push((member.to_vec(), self.combine_first(score, &input.weights)));
        })?;
        Ok(members)
    }

    /// Returns the score of a member of the first input that has it.
    fn combine_first(&self, score: f64, weights: &[f64]) -> f64 {
        debug_assert!(!weights.is_empty(), "an input is named");
        match weights {
            [first, others @ ..] => self.combine(number_or_zero(score * first), score, others),
            [] => score,
        }
    }

    /// Combines the score so far of a member with its score in an input, once for each weight.
    fn combine(&self, sum: f64, score: f64, weights: &[f64]) -> f64 {
        weights.iter().fold(sum, |sum, weight| {
            let weighted = match self.operation {
                // NaN if infinity is multiplied by 0. Redis keeps NaN here, and only here.
                ZsetAlgebraOperation::Inter => score * weight,
                _ => number_or_zero(score * weight),
            };
            self.aggregate.apply(sum, weighted)
        })
    }
}

/// Calls `seen` with the members of an input and their scores.
fn visit(
    call: &CommandCall<'_>,
    input: &ZsetAlgebraInput,
    mut seen: impl FnMut(&[u8], f64),
) -> Answer {
    steps::count(input.len);
    let ZsetAlgebraInput { key, object, .. } = input;
    call.keys.read_object(key, object, |object| match object {
        StoredObject::Set(set) => set.iter().for_each(|member| seen(&member, 1.0)),
        StoredObject::SortedSet(set) => {
            let members = set.iter();
            members.for_each(|(member, score)| seen(member, score));
        }
        _ => {}
    })?;
    Ok(())
}

fn score_in(object: &StoredObject, member: &[u8]) -> Option<f64> {
    match object {
        StoredObject::Set(set) => set.contains(member).then_some(1.0),
        StoredObject::SortedSet(set) => set.score(member),
        _ => None,
    }
}

fn answer(
    call: &mut CommandCall<'_>,
    operation: ZsetAlgebraOperation,
    name: &'static str,
) -> Answer {
    let query = ZsetAlgebraQuery::parse(call, 1, operation, name, false)?;
    let scores = query.scores;
    let members = query.run(call)?;
    if scores {
        call.reply.pairs(members.len());
    } else {
        call.reply.array(members.len());
    }
    for (member, score) in &members {
        if scores {
            call.reply.pair();
        }
        call.reply.bulk(member);
        if scores {
            call.reply.double(*score);
        }
    }
    Ok(())
}

fn store_result(
    call: &mut CommandCall<'_>,
    operation: ZsetAlgebraOperation,
    name: &'static str,
) -> Answer {
    let query = ZsetAlgebraQuery::parse(call, 2, operation, name, true)?;
    let members = query.run(call)?;
    call.check_room_of(members.iter().map(|(member, _)| &member[..]))?;
    let limits = call.keys.limits();
    let heap = call.keys.keyspace().heap.clone();
    let longest = members.iter().map(|(member, _)| member.len()).max();
    // In the small form zeros would lose their signs, which the large one keeps.
    let mut result =
        SortedSet::with_room_in(heap, &limits, members.len(), longest.unwrap_or_default());
    for (member, score) in &members {
        result.insert(&limits, member, *score);
    }
    store(call, call.args[1], result, name)?;
    call.reply.count(members.len());
    Ok(())
}

fn zintercard(call: &mut CommandCall<'_>) -> Answer {
    let (inputs, options) = inputs(call, 1, "zintercard")?;
    let limit = card_limit(options)?;
    let complete = inputs.iter().all(Option::is_some);
    // Only the members count, whatever their scores become. With this aggregate an input has one
    // weight, however often it is named.
    let aggregate = Aggregate::Min;
    let query = ZsetAlgebraQuery {
        operation: ZsetAlgebraOperation::Inter,
        first: complete,
        complete,
        inputs: different_inputs(inputs.into_iter().flatten(), aggregate),
        aggregate,
        scores: false,
    };
    // The limit only bounds the reply. Redis also stops counting there.
    let count = query.run(call)?.len();
    call.reply.count(count.min(limit));
    Ok(())
}

/// Parses the options of `ZINTERCARD` and `SINTERCARD`: the limit, where 0 means no limit.
///
/// # Errors
/// The limit does not parse or is negative, or there is another option.
pub fn card_limit(mut options: &[&[u8]]) -> Result<usize, CommandError> {
    let mut limit = usize::MAX;
    while let [option, rest @ ..] = options {
        let [number, rest @ ..] = rest else {
            return Err(CommandError::Syntax);
        };
        if !is(option, "limit") {
            return Err(CommandError::Syntax);
        }
        limit = match count(number) {
            Ok(0) => usize::MAX,
            Ok(limit) => limit,
            Err(_) => return Err(CommandError::text("ERR LIMIT can't be negative")),
        };
        options = rest;
    }
    Ok(limit)
}

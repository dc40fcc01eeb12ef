//! Steps and results as Rust source.

use super::request::{Answer, Request, Scan};
use super::scenario::Step;
use crate::keys::Sample;
use nearfield_core::Outcome;
use std::any::type_name;
use std::fmt::Write;
use std::ops::Bound;

/// Returns the statements that repeat `steps`, one per line.
pub(crate) fn steps<F: Sample>(steps: &[Step<F>]) -> String {
    let form = type_name::<F>().rsplit("::").next().unwrap_or_default();
    let mut text = format!("let mut batch = Batch::<{form}>::new();\n");
    let mut is_used = false;
    for step in steps {
        match step {
            Step::Batch(requests) => {
                if std::mem::replace(&mut is_used, true) {
                    text.push_str("batch.clear();\n");
                }
                for request in requests {
                    let _ = writeln!(text, "{};", call("batch", request));
                }
                text.push_str("index.execute(&mut batch)?;\n");
            }
            Step::Single(request) => {
                let _ = writeln!(text, "{}?;", call("index", request));
            }
            Step::Between(number) => {
                let _ = writeln!(text, "between(&index, {number:#x});");
            }
            Step::Inspect => text.push_str("// scan everything, check_invariants\n"),
        }
    }
    text
}

/// Returns the method call for `request`.
pub(crate) fn call<F: Sample>(target: &str, request: &Request<F>) -> String {
    let key = |key| F::show_key(F::key(key));
    let value = |value| F::show_value(F::value(value));
    let arguments = match request {
        Request::Get(at) => format!("get({})", key(at)),
        Request::Insert(at, new) => format!("insert({}, {})", key(at), value(new)),
        Request::Update(at, previous, new) => {
            format!(
                "update({}, {}, {})",
                key(at),
                option(previous.as_ref().map(value)),
                value(new)
            )
        }
        Request::Remove(at) => format!("remove({})", key(at)),
        Request::RemoveIf(at, expected) => {
            format!("remove_if({}, {})", key(at), value(expected))
        }
        Request::Predecessor(at) => format!("predecessor({})", key(at)),
        Request::Successor(at) => format!("successor({})", key(at)),
        Request::Scan(scan) => scan_arguments(scan),
    };
    format!("{target}.{arguments}")
}

/// Returns an index's outcome.
pub(crate) fn outcome<F: Sample>(outcome: &Outcome<'_, F>) -> String {
    match (Answer::read(outcome), outcome) {
        (Some(read), _) => answer(&read),
        (None, Outcome::Failed(error)) => error.to_string(),
        (None, _) => "pending".to_owned(),
    }
}

/// Returns the result of sequential execution.
pub(crate) fn answer<F: Sample>(answer: &Answer<F>) -> String {
    let value = |value: &_| F::show_value(F::value(value));
    let entry = |(key, held): &(_, _)| {
        format!(
            "({}, {})",
            F::show_key(F::key(key)),
            F::show_value(F::value(held))
        )
    };
    match answer {
        Answer::Value(found) => option(found.as_ref().map(value)),
        Answer::Updated(applied, before) => {
            format!("({applied}, {})", option(before.as_ref().map(value)))
        }
        Answer::Entry(found) => option(found.as_ref().map(entry)),
        Answer::Entries(found) => {
            let entries: Vec<_> = found.iter().map(entry).collect();
            format!("[{}]", entries.join(", "))
        }
        Answer::KeyTooLong(bytes) => format!("the refusal of a key of {bytes} bytes"),
    }
}

fn scan_arguments<F: Sample>(scan: &Scan<F>) -> String {
    let bound = |bound: &Bound<_>| match bound {
        Bound::Included(key) => format!("Included({})", F::show_key(F::key(key))),
        Bound::Excluded(key) => format!("Excluded({})", F::show_key(F::key(key))),
        Bound::Unbounded => "Unbounded".to_owned(),
    };
    let limit = match scan.limit {
        u32::MAX => "u32::MAX".to_owned(),
        limit => limit.to_string(),
    };
    format!(
        "scan({}, {}, {limit}, {:?})",
        bound(&scan.low),
        bound(&scan.high),
        scan.direction
    )
}

fn option(text: Option<String>) -> String {
    text.map_or_else(|| "None".to_owned(), |text| format!("Some({text})"))
}

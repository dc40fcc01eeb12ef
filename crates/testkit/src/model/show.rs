//! Steps and results as Rust source.

use super::request::{OwnedOperation, OwnedOutcome, OwnedScan};
use super::scenario::ScenarioStep;
use crate::keys::SampleForm;
use nearfield_core::OperationOutcome;
use std::any::type_name;
use std::fmt::Write;
use std::ops::Bound;

/// Returns the statements that repeat `steps`, one per line.
pub(crate) fn steps<F: SampleForm>(steps: &[ScenarioStep<F>]) -> String {
    let form = type_name::<F>().rsplit("::").next().unwrap_or_default();
    let mut text = format!("let mut batch = Batch::<{form}>::new();\n");
    let mut is_used = false;
    for step in steps {
        match step {
            ScenarioStep::Batch(requests) => {
                if std::mem::replace(&mut is_used, true) {
                    // One batch for all, as in the test: a fault may depend on what it held before.
                    text.push_str("batch.clear();\n");
                }
                for request in requests {
                    // Writing to a string does not fail, here and below.
                    let _ = writeln!(text, "{};", call("batch", request));
                }
                text.push_str("index.execute(&mut batch)?;\n");
            }
            ScenarioStep::Single(request) => {
                let _ = writeln!(text, "{}?;", call("index", request));
            }
            ScenarioStep::Between(number) => {
                let _ = writeln!(text, "between(&index, {number:#x});");
            }
            ScenarioStep::Inspect => text.push_str("// scan everything, check_invariants\n"),
        }
    }
    text
}

/// Returns the method call for `request`.
pub(crate) fn call<F: SampleForm>(target: &str, request: &OwnedOperation<F>) -> String {
    let key = |key| F::show_key(F::key(key));
    let value = |value| F::show_value(F::value(value));
    let arguments = match request {
        OwnedOperation::Get(at) => format!("get({})", key(at)),
        OwnedOperation::Insert(at, new) => format!("insert({}, {})", key(at), value(new)),
        OwnedOperation::Update(at, previous, new) => {
            format!(
                "update({}, {}, {})",
                key(at),
                option(previous.as_ref().map(value)),
                value(new)
            )
        }
        OwnedOperation::Remove(at) => format!("remove({})", key(at)),
        OwnedOperation::RemoveIf(at, expected) => {
            format!("remove_if({}, {})", key(at), value(expected))
        }
        OwnedOperation::Predecessor(at) => format!("predecessor({})", key(at)),
        OwnedOperation::Successor(at) => format!("successor({})", key(at)),
        OwnedOperation::Scan(scan) => scan_arguments(scan),
    };
    format!("{target}.{arguments}")
}

/// Returns an index's outcome.
pub(crate) fn outcome<F: SampleForm>(outcome: &OperationOutcome<'_, F>) -> String {
    match (OwnedOutcome::read(outcome), outcome) {
        (Some(read), _) => answer(&read),
        (None, OperationOutcome::Failed(error)) => error.to_string(),
        (None, _) => "pending".to_owned(),
    }
}

/// Returns the result of sequential execution.
pub(crate) fn answer<F: SampleForm>(answer: &OwnedOutcome<F>) -> String {
    let value = |value: &_| F::show_value(F::value(value));
    let entry = |(key, held): &(_, _)| {
        format!(
            "({}, {})",
            F::show_key(F::key(key)),
            F::show_value(F::value(held))
        )
    };
    match answer {
        OwnedOutcome::Value(found) => option(found.as_ref().map(value)),
        OwnedOutcome::Updated(applied, before) => {
            format!("({applied}, {})", option(before.as_ref().map(value)))
        }
        OwnedOutcome::Entry(found) => option(found.as_ref().map(entry)),
        OwnedOutcome::Entries(found) => {
            let entries: Vec<_> = found.iter().map(entry).collect();
            format!("[{}]", entries.join(", "))
        }
        OwnedOutcome::KeyTooLong(bytes) => format!("the refusal of a key of {bytes} bytes"),
    }
}

fn scan_arguments<F: SampleForm>(scan: &OwnedScan<F>) -> String {
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

//! The description of a run, as text.

use super::designs::published;
use super::measured::threads;
use super::scale::DcartScale;
use super::workload::DcartWorkloadKind;
use crate::text::grouped;

pub(super) fn description(scale: &DcartScale) -> String {
    let parameters = published(scale);
    let files = scale.key_files.iter();
    let files: String = files
        .map(|(workload, file)| format!("\n- keys of {workload}: {}", file.display()))
        .collect();
    let workloads = scale.workloads(&DcartWorkloadKind::ALL);
    let workloads = workloads.iter();
    let workloads = workloads.map(|one| format!("{} {}", one.number(), one.name()));
    let workloads: Vec<String> = workloads.collect();
    let trace = scale.trace();
    let trace = trace.map(|file| {
        format!(
            "\n- recorded operations in place of the workloads: {}",
            file.display()
        )
    });
    let trace = trace.unwrap_or_default();
    let changed = scale.parameters.lines().map(str::trim);
    let changed = changed.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let changed: String = changed.map(|line| format!("\n- changed: {line}")).collect();
    format!(
        "{} keys of a generated set (50M in the paper), {} e-mail addresses; {} \
         operations of a point, {} where rivals are timed; seed {}\n\
         The accelerator, its memory and all energy are modelled: a real tree executes the \
         operations, every outcome is checked, and the model computes their time. Rivals \
         and Nearfield's engine are measured on this machine, on {} threads.\n\
         Operations choose keys by Zipf's distribution (0.99), which is assumed.\n\
         Workloads by their numbers: {}.\n\
         - accelerator: {} units, a cycle of {}, batches of {}\n\
         - its memory: {}, {} channels ({}){files}{trace}{changed}",
        grouped(scale.synthetic_keys as usize),
        grouped(scale.email_keys as usize),
        grouped(scale.dcart_operations),
        grouped(scale.timed_operations),
        scale.seed,
        threads(),
        workloads.join(", "),
        parameters.units,
        parameters.cycle,
        grouped(parameters.batch),
        parameters.memory.name,
        parameters.memory.channels,
        parameters.memory.source,
    )
}

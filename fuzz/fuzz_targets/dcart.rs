//! Parameters of DCART's accelerator, and traces of operations: no text makes a reader panic,
//! an operation is the same after it is written and read again, and an accelerator with accepted
//! parameters executes every operation once.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_hardware::accelerator::MemorySpan;
use nearfield_hardware::accelerator::dcart::{
    DcartAccelerator, DcartAction, DcartOperation, DcartParameters, DcartTrace, DcartTree,
    DcartVisit, DcartWalk,
};

/// Greatest number of banks, over all channels, of a memory that is small enough to build here.
const BANKS_MAX: u64 = 4096;

/// A tree of two nodes, which all keys share.
struct Flat;

impl DcartTree for Flat {
    fn execute(&mut self, operation: usize, walk: &mut DcartWalk) {
        let line = |address| MemorySpan { address, bytes: 64 };
        walk.visit(DcartVisit::inner(line(0), line(64)));
        walk.visit(DcartVisit::leaf(line(128)));
        walk.found();
        if operation.is_multiple_of(2) {
            walk.store(line(128));
            walk.lock(128);
        }
    }
}

/// Reads a text as a trace.
fn trace(text: &[u8]) {
    for operation in DcartTrace::new(text).map_while(Result::ok) {
        let (action, key): (DcartAction, Vec<u8>) = operation;
        let digits: String = key.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let line = format!("{} \"{digits}\"", action.name());
        let again = DcartTrace::new(line.as_bytes()).next();
        assert_eq!(again.and_then(Result::ok), Some((action, key)));
    }
}

fuzz_target!(|text: &[u8]| {
    trace(text);
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let mut parameters = DcartParameters::published();
    if parameters.set_all(text).is_err() {
        return;
    }
    let memory = &parameters.memory;
    let banks = [
        memory.channels,
        memory.ranks,
        memory.groups,
        memory.banks_per_group,
    ];
    if banks.into_iter().map(u64::from).product::<u64>() > BANKS_MAX {
        return;
    }
    let Ok(accelerator) = DcartAccelerator::new(parameters) else {
        return;
    };
    let operation = |number: u64| DcartOperation {
        key: number % 7,
        label: number as u8,
        bytes: 24,
        writes: number.is_multiple_of(2),
    };
    let operations: Vec<DcartOperation> = (0..60).map(operation).collect();
    if let Ok(report) = accelerator.run(&operations, &mut Flat) {
        assert_eq!(report.latencies.len(), operations.len());
    }
});

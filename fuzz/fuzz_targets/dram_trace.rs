//! Traces of memory requests: no bytes make the reader panic or never end, a request is the same
//! after it is written and read again, and a memory completes every request.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_hardware::dram::{
    DramAccess, DramMemory, DramPreset, DramReplayPace, DramTrace, Replay,
};

fuzz_target!(|text: &[u8]| {
    let requests: Vec<_> = DramTrace::new(text).map_while(Result::ok).collect();
    for request in &requests {
        let access = match request.access {
            DramAccess::Read => "READ",
            DramAccess::Write => "WRITE",
        };
        let line = format!("{:x} {access} {}", request.address, request.picoseconds);
        let again = DramTrace::new(line.as_bytes()).next();
        assert_eq!(again.and_then(Result::ok), Some(*request));
    }
    let preset = DramPreset::ALL[text.len() % DramPreset::ALL.len()];
    let memory = DramMemory::new(preset.parameters()).expect("presets are consistent");
    let pace = match text.first() {
        Some(b'\n') => DramReplayPace::Closed { think: 1 },
        _ => DramReplayPace::Open { per_clock: 1 },
    };
    let mut replay = Replay::new(memory, pace);
    if (text.len() / DramPreset::ALL.len()).is_multiple_of(2) {
        replay = replay.with_wrapped_addresses();
    }
    let sent = requests.iter().map(|request| replay.send(request));
    let sent = sent.filter(Result::is_ok).count();
    let answered = replay.finish().requests;
    assert_eq!(answered.reads + answered.writes, sent as u64);
});

//! The host's own work.

use super::ModuleParameters;
use crate::VirtualTime;

/// The host's work for a batch of an index besides moving data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostWork {
    /// Number of keys that were looked up in tables and directories.
    pub probes: u64,
    /// Number of words of messages that were packed or unpacked.
    pub words: u64,
    /// Number of keys that were sorted.
    pub sorted: u64,
}

impl ModuleParameters {
    /// Returns the time that the host takes if its threads share the work evenly.
    ///
    /// ```
    /// use nearfield_hardware::modules::{HostWork, ModulePreset};
    /// let parameters = ModulePreset::UpmemMeasured.parameters();
    /// let work = HostWork { probes: 3200, ..HostWork::default() };
    /// assert_eq!(parameters.host_time(&work).as_nanoseconds(), 5500.0);
    /// ```
    pub fn host_time(&self, work: &HostWork) -> VirtualTime {
        let host = &self.host;
        let each = [
            (work.probes, host.probe),
            (work.words, host.word),
            (work.sorted, host.sorted),
        ];
        // The product of a count and a time may exceed 64 bits.
        let picoseconds = each.map(|(count, time)| count as f64 * time.as_picoseconds() as f64);
        let shared = picoseconds.iter().sum::<f64>() / host.threads;
        VirtualTime::from_picoseconds(shared.round() as u64)
    }
}

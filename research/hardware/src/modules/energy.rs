//! The energy of rounds.

use super::ModuleParameters;
use crate::VirtualTime;

impl ModuleParameters {
    /// Returns the energy in joules of modules that have run for this total time, and of the moved
    /// bytes. It omits the host, and waiting modules.
    ///
    /// ```
    /// use nearfield_hardware::{VirtualTime, modules::ModulePreset};
    /// let parameters = ModulePreset::UpmemMeasured.parameters();
    /// // PulseDesignFigures: 0.15 W a module.
    /// let second = VirtualTime::from_nanoseconds(1_000_000_000);
    /// assert_eq!(parameters.joules(second, 0), 0.15);
    /// ```
    pub fn joules(&self, running: VirtualTime, moved_bytes: u64) -> f64 {
        self.watts_per_module * running.as_seconds() + self.joules_per_byte * moved_bytes as f64
    }
}

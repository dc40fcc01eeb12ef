//! A device with faults.

use nearfield_pim::device::{
    Answered, DeviceCounters, ModuleDevice, ModuleError, ModuleProgram, RoundError, Workers,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// A device that refuses rounds, and modules that fail before or after they have done something.
pub struct UnsteadyDevice {
    device: Workers,
    random: SmallRng,
    refuses: f64,
    fails: f64,
}

impl UnsteadyDevice {
    /// Creates modules. `refuses` is the probability that a round is refused, `fails` that a module
    /// fails in a round.
    pub fn new(modules: usize, seed: u64, refuses: f64, fails: f64) -> UnsteadyDevice {
        UnsteadyDevice {
            device: Workers::new(modules, 1 << 20, 2),
            random: SmallRng::seed_from_u64(seed),
            refuses,
            fails,
        }
    }
}

impl ModuleDevice for UnsteadyDevice {
    fn modules(&self) -> usize {
        self.device.modules()
    }

    fn bank_bytes(&self) -> u64 {
        self.device.bank_bytes()
    }

    fn round<P: ModuleProgram>(
        &mut self,
        program: P,
        mut inputs: Vec<Vec<u64>>,
    ) -> Result<Vec<Answered>, RoundError> {
        if self.random.random_bool(self.refuses) {
            return Err(RoundError::TooLong {
                module: 0,
                bytes: 2,
                limit: 1,
            });
        }
        let gone = self.random.random_range(0..inputs.len());
        let fails = self.random.random_bool(self.fails);
        let message = "on purpose".to_owned();
        if fails {
            // The module executes everything, nothing, or a part, and panics at an invalid task.
            let tasks = &mut inputs[gone];
            let count = tasks.len();
            let counts = [count, 0, self.random.random_range(0..=count)];
            tasks.truncate(counts[self.random.random_range(0..3)]);
        }
        let mut answered = self.device.round(program, inputs)?;
        if fails {
            answered[gone] = Err(ModuleError::Panic {
                module: gone,
                message,
            });
        }
        Ok(answered)
    }

    fn counters(&self) -> &DeviceCounters {
        self.device.counters()
    }
}

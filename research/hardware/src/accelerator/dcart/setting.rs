//! Setting of parameters by their names, one by one or as a text.

use super::{DcartError, DcartParameters, LineBufferPolicy, Pipeline};
use crate::VirtualTime;
use nearfield_core::byte_size;

/// The names by which parameters are set. Those of the card's memory begin with `memory.`, followed
/// by a name of [`dram::DcartParameters::set`](crate::dram::DcartParameters::set).
pub(super) const NAMES: &[&str] = &[
    "cycle",
    "units",
    "buckets",
    "batch",
    "combines",
    "shortcuts",
    "overlaps",
    "tree_policy",
    "pipeline",
    "scan_buffer",
    "bucket_buffer",
    "shortcut_buffer",
    "tree_buffer",
    "shortcut_bytes",
    "hash_cycles",
    "buffer_cycles",
    "match_cycles",
    "read_cycles",
    "write_cycles",
    "generate_cycles",
    "port_cycles",
    "stream_lines",
    "spill_lines",
    "block_memory",
    "memory.NAME",
];

/// The maximum number of characters of an input that an error repeats.
const SHOWN: usize = 40;

/// The place of a parameter's value.
enum DcartParameterSlot<'p> {
    Count(&'p mut usize),
    Number(&'p mut u64),
    Bytes(&'p mut u64),
    ShortBytes(&'p mut u32),
    Flag(&'p mut bool),
    Policy(&'p mut LineBufferPolicy),
    Pipeline(&'p mut Pipeline),
    Nanoseconds(&'p mut VirtualTime),
}

impl DcartParameters {
    /// Sets a parameter by its name. Bytes are as for [`byte_size`], `cycle` is in
    /// nanoseconds, `tree_policy` is `value` or `lru`, and `pipeline` is `in-order` or a number of
    /// operations, which a unit interleaves. [`check`](DcartParameters::check) checks that all
    /// parameters fit together.
    ///
    /// # Errors
    /// [`DcartError::Unknown`], [`DcartError::Value`], and [`DcartError::Memory`] for a parameter
    /// of the memory.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::dcart::{DcartParameters, Pipeline};
    ///
    /// let mut parameters = DcartParameters::published();
    /// parameters.set("tree_buffer", "1mb")?;
    /// parameters.set("pipeline", "16")?;
    /// parameters.set("memory.channels", "8")?;
    /// assert_eq!(parameters.tree_buffer, 1 << 20);
    /// assert_eq!(parameters.pipeline, Pipeline::Interleaved { operations: 16 });
    /// assert!(parameters.set("units", "many").is_err());
    /// # Ok::<(), nearfield_hardware::accelerator::dcart::DcartError>(())
    /// ```
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), DcartError> {
        if let Some(of_memory) = name.strip_prefix("memory.") {
            return Ok(self.memory.set(of_memory, value)?);
        }
        let Some(slot) = self.slot(name) else {
            return Err(DcartError::Unknown {
                name: name.chars().take(SHOWN).collect(),
                known: NAMES,
            });
        };
        let bad = |allowed| DcartError::Value {
            name: name.to_owned(),
            given: value.chars().take(SHOWN).collect(),
            allowed,
        };
        let number = || value.parse::<u64>().ok();
        match slot {
            DcartParameterSlot::Count(slot) => {
                // Sensible values are left to `check`, which runs when all parameters are set.
                *slot = value.parse().map_err(|_| bad("a whole number"))?;
            }
            DcartParameterSlot::Number(slot) => {
                *slot = number().ok_or_else(|| bad("a whole number"))?
            }
            DcartParameterSlot::Bytes(slot) => {
                *slot = byte_size(value).map_err(|_| bad("bytes, such as 4096 or 4mb"))?;
            }
            DcartParameterSlot::ShortBytes(slot) => {
                *slot = value.parse().map_err(|_| bad("a whole number"))?;
            }
            DcartParameterSlot::Flag(slot) => {
                *slot = value.parse().map_err(|_| bad("true or false"))?
            }
            DcartParameterSlot::Policy(slot) => {
                *slot = match value {
                    "value" => LineBufferPolicy::Value,
                    "lru" => LineBufferPolicy::Lru,
                    _ => return Err(bad("value or lru")),
                }
            }
            DcartParameterSlot::Pipeline(slot) => {
                *slot = match (value, value.parse()) {
                    ("in-order", _) => Pipeline::InOrder,
                    (_, Ok(operations)) => Pipeline::Interleaved { operations },
                    _ => return Err(bad("in-order, or a number of operations")),
                }
            }
            DcartParameterSlot::Nanoseconds(slot) => {
                let nanoseconds: Option<f64> = value.parse().ok();
                // Rounding comes before the test, so that a time just above 0 does not become 0.
                let picoseconds = nanoseconds.map(|it| (it * 1e3).round());
                let picoseconds = picoseconds.filter(|it| (1.0..=1e9).contains(it));
                let picoseconds = picoseconds.ok_or_else(|| bad("nanoseconds, above 0"))?;
                *slot = VirtualTime::from_picoseconds(picoseconds as u64);
            }
        }
        Ok(())
    }

    /// Sets parameters from a text: one `NAME=VALUE` per line. Empty lines, and those that begin
    /// with `#`, are ignored.
    ///
    /// # Errors
    /// [`DcartError::Line`] with the number of the wrong line and its error.
    pub fn set_all(&mut self, text: &str) -> Result<(), DcartError> {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let done = match line.split_once('=') {
                Some((name, value)) => self.set(name.trim(), value.trim()),
                None => Err(DcartError::Value {
                    name: "a line".to_owned(),
                    given: line.chars().take(SHOWN).collect(),
                    allowed: "NAME=VALUE",
                }),
            };
            done.map_err(|error| DcartError::Line {
                line: number + 1,
                error: Box::new(error),
            })?;
        }
        Ok(())
    }

    fn slot(&mut self, name: &str) -> Option<DcartParameterSlot<'_>> {
        Some(match name {
            "cycle" => DcartParameterSlot::Nanoseconds(&mut self.cycle),
            "units" => DcartParameterSlot::Count(&mut self.units),
            "buckets" => DcartParameterSlot::Count(&mut self.buckets),
            "batch" => DcartParameterSlot::Count(&mut self.batch),
            "combines" => DcartParameterSlot::Flag(&mut self.combines),
            "shortcuts" => DcartParameterSlot::Flag(&mut self.shortcuts),
            "overlaps" => DcartParameterSlot::Flag(&mut self.overlaps),
            "tree_policy" => DcartParameterSlot::Policy(&mut self.tree_policy),
            "pipeline" => DcartParameterSlot::Pipeline(&mut self.pipeline),
            "scan_buffer" => DcartParameterSlot::Bytes(&mut self.scan_buffer),
            "bucket_buffer" => DcartParameterSlot::Bytes(&mut self.bucket_buffer),
            "shortcut_buffer" => DcartParameterSlot::Bytes(&mut self.shortcut_buffer),
            "tree_buffer" => DcartParameterSlot::Bytes(&mut self.tree_buffer),
            "shortcut_bytes" => DcartParameterSlot::ShortBytes(&mut self.shortcut_bytes),
            "hash_cycles" => DcartParameterSlot::Number(&mut self.hash_cycles),
            "buffer_cycles" => DcartParameterSlot::Number(&mut self.buffer_cycles),
            "match_cycles" => DcartParameterSlot::Number(&mut self.match_cycles),
            "read_cycles" => DcartParameterSlot::Number(&mut self.read_cycles),
            "write_cycles" => DcartParameterSlot::Number(&mut self.write_cycles),
            "generate_cycles" => DcartParameterSlot::Number(&mut self.generate_cycles),
            "port_cycles" => DcartParameterSlot::Number(&mut self.port_cycles),
            "stream_lines" => DcartParameterSlot::Count(&mut self.stream_lines),
            "spill_lines" => DcartParameterSlot::Number(&mut self.spill_lines),
            "block_memory" => DcartParameterSlot::Bytes(&mut self.block_memory),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a value that each parameter accepts, and that it does not have.
    fn other(name: &str) -> &'static str {
        match name {
            "combines" | "shortcuts" | "overlaps" => "false",
            "tree_policy" => "lru",
            "pipeline" => "3",
            _ => "17",
        }
    }

    #[test]
    fn each_name_sets_a_parameter_of_its_own() {
        let published = DcartParameters::published();
        let mut all = Vec::new();
        for name in NAMES.iter().filter(|name| !name.starts_with("memory.")) {
            let mut parameters = published.clone();
            parameters.set(name, other(name)).unwrap();
            assert_ne!(parameters, published, "{name}");
            assert!(!all.contains(&parameters), "{name}");
            all.push(parameters);
        }
        let mut parameters = published.clone();
        parameters.set("memory.tRCD", "33").unwrap();
        assert_eq!(parameters.memory.t_rcd_read, 33);
    }

    #[test]
    fn errors_name_the_parameter_and_the_line() {
        let mut parameters = DcartParameters::published();
        let mut error = |name, value| parameters.set(name, value).unwrap_err().to_string();
        assert!(error("unit", "1").contains("no parameter \"unit\"; the names are cycle, units"));
        for name in NAMES.iter().filter(|name| !name.starts_with("memory.")) {
            for bad in ["", "soon", "-1"] {
                let error = error(name, bad);
                assert!(error.starts_with(&format!("{name} is {bad:?}")), "{error}");
            }
        }
        assert!(error("memory.channels", "3").contains("channels"));
        assert!(error("tree_buffer", "99999999999999999999gb").contains("tree_buffer"));
        assert!(error("tree_buffer", "17179869184gb").contains("tree_buffer"));
        let text = "# ours\nunits = 12\n\npipeline=16\ntree_buffer 1mb\n";
        let error = parameters.set_all(text).unwrap_err().to_string();
        assert!(
            error.starts_with("line 5: a line is \"tree_buffer 1mb\""),
            "{error}"
        );
        assert_eq!(parameters.units, 12);
        let error = parameters.set_all("units=x").unwrap_err().to_string();
        assert!(error.starts_with("line 1: units is \"x\""), "{error}");
    }
}

//! The parameters of a memory.

use super::DramError;
use super::memory::LINE_BYTES;

/// The parameters of a memory. Times are in clocks of the memory unless stated otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct DramParameters {
    /// The name under which results show them.
    pub name: &'static str,
    /// The source of the figures, and those that are assumed.
    pub source: &'static str,

    /// Number of independent channels; pseudo channels count as such.
    pub channels: u32,
    /// Number of ranks of a channel, which share its bus.
    pub ranks: u32,
    /// Number of groups of banks in a rank.
    pub groups: u32,
    /// Number of banks in a group.
    pub banks_per_group: u32,
    /// Number of rows of a bank.
    pub rows: u32,
    /// Number of lines of a row.
    pub columns: u32,
    /// Number of devices of a rank, each of which draws the `currents`.
    pub devices: f64,
    /// True if a command for a row and one for a column may be sent at the same clock.
    pub dual_command: bool,

    /// The length of a clock, in picoseconds.
    pub t_ck_ps: u64,
    /// Time for which the bus carries a line.
    pub burst: u64,
    /// Time from a read to its data.
    pub cl: u64,
    /// Time from a write to its data.
    pub cwl: u64,
    /// Time from opening a row to a read.
    pub t_rcd_read: u64,
    /// Time from opening a row to a write.
    pub t_rcd_write: u64,
    /// Time from closing a row to opening one.
    pub t_rp: u64,
    /// Time from opening a row to closing it.
    pub t_ras: u64,
    /// Time from opening a row to opening one in another group.
    pub t_rrd_s: u64,
    /// Time from opening a row to opening one in another bank of the group.
    pub t_rrd_l: u64,
    /// The span in which a rank opens at most four rows.
    pub t_faw: u64,
    /// Time between columns of different groups.
    pub t_ccd_s: u64,
    /// Time between reads of one group.
    pub t_ccd_l: u64,
    /// Time between writes of one group. DDR5 needs more than between reads.
    pub t_ccd_l_write: u64,
    /// Time from a read to closing its row.
    pub t_rtp: u64,
    /// Time from the last data of a write to closing its row.
    pub t_wr: u64,
    /// Time from the last data of a write to a read in another group.
    pub t_wtr_s: u64,
    /// Time from the last data of a write to a read in the same group.
    pub t_wtr_l: u64,
    /// Time for which the bus is idle when another rank, or the other side, begins to drive it.
    pub t_rtrs: u64,
    /// Time of a refresh.
    pub t_rfc: u64,
    /// Time between the refreshes of a rank; 0 for none.
    pub t_refi: u64,

    /// The currents.
    pub currents: Currents,

    /// Number of reads, and of writes, that a channel accepts before they have a place in the queue
    /// of a bank.
    pub transaction_queue: u32,
    /// Number of commands in the queue of a bank.
    pub command_queue: u32,
    /// The condition under which rows are closed.
    pub page: DramPagePolicy,
}

/// The currents of a device in milliamperes, by the names of its data sheet, and the voltage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Currents {
    /// The voltage.
    pub vdd: f64,
    /// Current while rows are opened and closed.
    pub idd0: f64,
    /// Current while all rows are closed.
    pub idd2n: f64,
    /// Current while a row is open.
    pub idd3n: f64,
    /// Current while lines are read without a pause.
    pub idd4r: f64,
    /// Current while lines are written without a pause.
    pub idd4w: f64,
    /// Current while all banks are refreshed.
    pub idd5ab: f64,
}

/// The condition under which a row is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DramPagePolicy {
    /// Close it when another row of the bank is needed, or the rank is refreshed.
    Open,
    /// Close it with each read or write.
    Closed,
}

/// The place of a parameter's value.
pub(super) enum DramParameterSlot<'a> {
    /// A power of two up to the limit.
    Power(&'a mut u32, u32),
    /// A whole number from 1 to the limit.
    Count(&'a mut u32, u32),
    /// Clocks: the minimum, and the fields to set.
    Clocks(u64, Vec<&'a mut u64>),
    /// Nanoseconds, kept in picoseconds.
    Nanoseconds(&'a mut u64),
    /// A number that is not negative.
    Real(&'a mut f64),
    Page(&'a mut DramPagePolicy),
    Flag(&'a mut bool),
}

/// The maximum of a time in clocks: more than a millisecond.
const CLOCKS_MAX: u64 = 10_000_000;

/// The largest size of a memory: 2^60 bytes. Every address of a memory fits 64 bits.
const BYTES_MAX: u64 = 1 << 60;

/// The largest number of banks in a channel.
const BANKS_MAX: u32 = 1024;

/// The names by which parameters are set: those of DRAMsim3's configuration if it has them.
pub(super) const NAMES: &[&str] = &[
    "channels",
    "ranks",
    "bankgroups",
    "banks_per_group",
    "rows",
    "lines_per_row",
    "devices",
    "dual_command",
    "tCK",
    "burst",
    "CL",
    "CWL",
    "tRCD",
    "tRCDRD",
    "tRCDWR",
    "tRP",
    "tRAS",
    "tRRD_S",
    "tRRD_L",
    "tFAW",
    "tCCD_S",
    "tCCD_L",
    "tCCD_L_WR",
    "tRTP",
    "tWR",
    "tWTR_S",
    "tWTR_L",
    "tRTRS",
    "tRFC",
    "tREFI",
    "VDD",
    "IDD0",
    "IDD2N",
    "IDD3N",
    "IDD4R",
    "IDD4W",
    "IDD5AB",
    "trans_queue_size",
    "cmd_queue_size",
    "page",
];

impl DramParameters {
    /// Sets a parameter by its name, whose case does not matter. `tRCD` sets both `tRCDRD` and
    /// `tRCDWR`, `tCCD_L` also `tCCD_L_WR`; `tCK` is in nanoseconds, other times in clocks.
    ///
    /// ```
    /// use nearfield_hardware::dram::DramPreset;
    ///
    /// let mut parameters = DramPreset::Ddr4X8.parameters();
    /// parameters.set("tRCD", "20")?;
    /// parameters.set("page", "closed")?;
    /// assert_eq!(parameters.t_rcd_read, 20);
    /// assert!(parameters.set("tRCD", "soon").is_err());
    /// # Ok::<(), nearfield_hardware::dram::DramError>(())
    /// ```
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), DramError> {
        let Some(slot) = self.slot(&name.to_ascii_lowercase()) else {
            return Err(DramError::UnknownParameter {
                name: name.chars().take(40).collect(),
                known: NAMES,
            });
        };
        let bad = |reason: String| DramError::BadParameter {
            name: name.to_owned(),
            value: format!("{:?}", value.chars().take(40).collect::<String>()),
            reason,
        };
        match slot {
            DramParameterSlot::Power(slot, max) => {
                let parsed = value.parse().ok().filter(|it: &u32| it.is_power_of_two());
                *slot = parsed
                    .filter(|it| *it <= max)
                    .ok_or_else(|| bad(format!("it is a power of two from 1 to {max}")))?;
            }
            DramParameterSlot::Count(slot, max) => {
                let parsed = value.parse().ok().filter(|it| (1..=max).contains(it));
                *slot = parsed.ok_or_else(|| bad(format!("it is a whole number, 1 to {max}")))?;
            }
            DramParameterSlot::Clocks(least, slots) => {
                let parsed = value.parse().ok();
                let clocks = parsed
                    .filter(|it| (least..=CLOCKS_MAX).contains(it))
                    .ok_or_else(|| bad(format!("it is in clocks, {least} to {CLOCKS_MAX}")))?;
                for slot in slots {
                    *slot = clocks;
                }
            }
            DramParameterSlot::Nanoseconds(slot) => {
                let parsed = value.parse().ok().map(|it: f64| (it * 1000.0).round());
                *slot = parsed
                    .filter(|it| (1.0..=1e6).contains(it))
                    .ok_or_else(|| bad("it is in nanoseconds, 0.001 to 1000".to_owned()))?
                    as u64;
            }
            DramParameterSlot::Real(slot) => {
                let parsed = value.parse().ok();
                *slot = parsed
                    .filter(|it: &f64| it.is_finite() && *it >= 0.0)
                    .ok_or_else(|| bad("it is a number from 0".to_owned()))?;
            }
            DramParameterSlot::Page(slot) => {
                *slot = match value {
                    "open" => DramPagePolicy::Open,
                    "closed" => DramPagePolicy::Closed,
                    _ => return Err(bad("it is open or closed".to_owned())),
                }
            }
            DramParameterSlot::Flag(slot) => {
                *slot = value
                    .parse()
                    .map_err(|_| bad("it is true or false".to_owned()))?;
            }
        }
        Ok(())
    }

    pub(super) fn slot(&mut self, name: &str) -> Option<DramParameterSlot<'_>> {
        let currents = &mut self.currents;
        let clocks = |slot| Some(DramParameterSlot::Clocks(1, vec![slot]));
        let from_zero = |slot| Some(DramParameterSlot::Clocks(0, vec![slot]));
        match name {
            "channels" => Some(DramParameterSlot::Power(&mut self.channels, 1024)),
            "ranks" => Some(DramParameterSlot::Power(&mut self.ranks, 64)),
            "bankgroups" => Some(DramParameterSlot::Power(&mut self.groups, 64)),
            "banks_per_group" => Some(DramParameterSlot::Power(&mut self.banks_per_group, 64)),
            "rows" => Some(DramParameterSlot::Power(&mut self.rows, 1 << 24)),
            "lines_per_row" => Some(DramParameterSlot::Power(&mut self.columns, 1 << 16)),
            "devices" => Some(DramParameterSlot::Real(&mut self.devices)),
            "dual_command" => Some(DramParameterSlot::Flag(&mut self.dual_command)),
            "tck" => Some(DramParameterSlot::Nanoseconds(&mut self.t_ck_ps)),
            "burst" => clocks(&mut self.burst),
            "cl" => clocks(&mut self.cl),
            "cwl" => clocks(&mut self.cwl),
            "trcd" => {
                let both = vec![&mut self.t_rcd_read, &mut self.t_rcd_write];
                Some(DramParameterSlot::Clocks(1, both))
            }
            "trcdrd" => clocks(&mut self.t_rcd_read),
            "trcdwr" => clocks(&mut self.t_rcd_write),
            "trp" => clocks(&mut self.t_rp),
            "tras" => clocks(&mut self.t_ras),
            "trrd_s" => clocks(&mut self.t_rrd_s),
            "trrd_l" => clocks(&mut self.t_rrd_l),
            "tfaw" => from_zero(&mut self.t_faw),
            "tccd_s" => clocks(&mut self.t_ccd_s),
            "tccd_l" => {
                let both = vec![&mut self.t_ccd_l, &mut self.t_ccd_l_write];
                Some(DramParameterSlot::Clocks(1, both))
            }
            "tccd_l_wr" => clocks(&mut self.t_ccd_l_write),
            "trtp" => clocks(&mut self.t_rtp),
            "twr" => clocks(&mut self.t_wr),
            "twtr_s" => from_zero(&mut self.t_wtr_s),
            "twtr_l" => from_zero(&mut self.t_wtr_l),
            "trtrs" => from_zero(&mut self.t_rtrs),
            "trfc" => clocks(&mut self.t_rfc),
            "trefi" => from_zero(&mut self.t_refi),
            "vdd" => Some(DramParameterSlot::Real(&mut currents.vdd)),
            "idd0" => Some(DramParameterSlot::Real(&mut currents.idd0)),
            "idd2n" => Some(DramParameterSlot::Real(&mut currents.idd2n)),
            "idd3n" => Some(DramParameterSlot::Real(&mut currents.idd3n)),
            "idd4r" => Some(DramParameterSlot::Real(&mut currents.idd4r)),
            "idd4w" => Some(DramParameterSlot::Real(&mut currents.idd4w)),
            "idd5ab" => Some(DramParameterSlot::Real(&mut currents.idd5ab)),
            "trans_queue_size" => Some(DramParameterSlot::Count(&mut self.transaction_queue, 4096)),
            "cmd_queue_size" => Some(DramParameterSlot::Count(&mut self.command_queue, 255)),
            "page" => Some(DramParameterSlot::Page(&mut self.page)),
            _ => None,
        }
    }

    /// Checks the conditions that involve several parameters.
    pub(super) fn check(&self) -> Result<(), DramError> {
        let bad = |name: &str, value: u64, reason: String| {
            Err(DramError::BadParameter {
                name: name.to_owned(),
                value: value.to_string(),
                reason,
            })
        };
        let powers = [
            ("channels", self.channels),
            ("ranks", self.ranks),
            ("bankgroups", self.groups),
            ("banks_per_group", self.banks_per_group),
            ("rows", self.rows),
            ("lines_per_row", self.columns),
        ];
        for (name, value) in powers {
            if !value.is_power_of_two() {
                return bad(name, u64::from(value), "it is a power of two".to_owned());
            }
        }
        let from_one = [
            ("tCK", self.t_ck_ps),
            ("trans_queue_size", u64::from(self.transaction_queue)),
            ("cmd_queue_size", u64::from(self.command_queue)),
        ];
        if let Some((name, value)) = from_one.into_iter().find(|(_, value)| *value == 0) {
            return bad(name, value, "it is at least 1".to_owned());
        }
        // The product of three numbers from a user may not fit.
        let banks = [self.ranks, self.groups, self.banks_per_group]
            .into_iter()
            .fold(1, u32::saturating_mul);
        if banks > BANKS_MAX {
            let reason = format!("a channel has at most {BANKS_MAX} banks");
            return bad("ranks", u64::from(self.ranks), reason);
        }
        if self.bytes() > BYTES_MAX {
            let reason = format!("a memory has at most {BYTES_MAX} bytes");
            return bad("rows", u64::from(self.rows), reason);
        }
        let pairs = [
            ("tRRD_L", self.t_rrd_l, "tRRD_S", self.t_rrd_s),
            ("tCCD_L", self.t_ccd_l, "tCCD_S", self.t_ccd_s),
            ("tCCD_L_WR", self.t_ccd_l_write, "tCCD_S", self.t_ccd_s),
            ("tWTR_L", self.t_wtr_l, "tWTR_S", self.t_wtr_s),
        ];
        for (long, value, short, least) in pairs {
            if value < least {
                return bad(
                    long,
                    value,
                    format!("it is at least {short}, which is {least}"),
                );
            }
        }
        if self.cl + self.burst + self.t_rtrs <= self.cwl {
            let reason = "a write would put its data on the bus before a read that is earlier";
            return bad("CWL", self.cwl, reason.to_owned());
        }
        // So that a channel can work between refreshes: a row that the next refresh closes before
        // its first read or write would be opened again and again.
        let open = self.t_ras.max(self.t_rcd_read).max(self.t_rcd_write);
        let least = u64::from(self.ranks) * 2 * (self.t_rfc + open + self.t_rp);
        if self.t_refi != 0 && self.t_refi < least {
            let reason = format!(
                "it is 0, or at least {least} = 2 × ranks × (tRFC + max(tRAS, tRCD) + tRP)"
            );
            return bad("tREFI", self.t_refi, reason);
        }
        Ok(())
    }

    /// Returns the length of a clock in nanoseconds.
    pub fn clock_ns(&self) -> f64 {
        self.t_ck_ps as f64 / 1e3
    }

    /// Returns the number of banks of a channel.
    pub fn banks(&self) -> u32 {
        self.ranks * self.groups * self.banks_per_group
    }

    /// Returns the size of the memory in bytes.
    pub fn bytes(&self) -> u64 {
        let parts = [self.channels, self.banks(), self.rows, self.columns];
        // Parameters from a user that have not been checked may describe more than 64 bits address.
        let lines = parts
            .into_iter()
            .map(u64::from)
            .fold(1, u64::saturating_mul);
        lines.saturating_mul(LINE_BYTES)
    }

    /// Returns the maximum number of bytes that all channels carry per nanosecond: GB/s.
    pub fn peak_gbps(&self) -> f64 {
        // Columns may have to be farther apart than the bus needs for a line.
        let line_ns = self.burst.max(self.t_ccd_s) as f64 * self.clock_ns();
        f64::from(self.channels) * LINE_BYTES as f64 / line_ns
    }

    /// Returns the maximum number of bytes per nanosecond if each line is in another row than the
    /// one before it in its bank: rows must be opened, and refreshed.
    pub fn random_gbps(&self) -> f64 {
        let banks = f64::from(self.groups * self.banks_per_group);
        let window = match self.t_faw {
            0 => f64::INFINITY,
            clocks => 4.0 / clocks as f64,
        };
        // The slowest of three limits counts: the window of four rows, the gap between two, and the
        // time that a bank takes for each.
        let opened = window
            .min(1.0 / self.t_rrd_s as f64)
            .min(banks / (self.t_ras + self.t_rp) as f64);
        let refreshed = match self.t_refi {
            0 => 1.0,
            interval => 1.0 - self.t_rfc as f64 / interval as f64,
        };
        let lines = f64::from(self.channels * self.ranks) * opened / self.clock_ns();
        (lines * LINE_BYTES as f64 * refreshed).min(self.peak_gbps())
    }
}

#[cfg(test)]
mod tests {
    use super::super::DramPreset;
    use super::*;

    #[test]
    fn sizes_that_no_memory_has_are_refused() {
        let error = |change: fn(&mut DramParameters)| {
            let mut parameters = DramPreset::Hbm2.parameters();
            change(&mut parameters);
            super::super::DramMemory::new(parameters)
                .unwrap_err()
                .to_string()
        };
        assert!(error(|one| one.rows = 0).contains("rows"));
        assert!(error(|one| one.channels = 3).contains("channels"));
        assert!(error(|one| one.t_ck_ps = 0).contains("tCK"));
        assert!(error(|one| one.command_queue = 0).contains("cmd_queue_size"));
        assert!(error(|one| one.ranks = 1 << 31).contains("ranks"));
        let huge = error(|one| {
            (one.channels, one.groups) = (1024, 64);
            (one.rows, one.columns) = (1 << 24, 1 << 16);
        });
        assert!(huge.contains("rows") && huge.contains("at most 1152921504606846976 bytes"));
    }

    #[test]
    fn every_name_can_be_set_and_no_other() {
        for name in NAMES {
            let mut parameters = DramPreset::Hbm2.parameters();
            let value = match *name {
                "page" => "closed",
                "dual_command" => "false",
                _ => "4",
            };
            let before = parameters.clone();
            parameters.set(&name.to_ascii_uppercase(), value).unwrap();
            // HBM2 already has some parameters with the value four.
            if !matches!(*name, "bankgroups" | "banks_per_group" | "CWL" | "tRRD_S") {
                assert_ne!(parameters, before, "{name}");
            }
        }
        let error = DramPreset::Hbm2.parameters().set("tXYZ", "1").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("no parameter \"tXYZ\"; the names are channels, ")
        );
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        let refuse = |name: &str, value: &str| {
            let mut parameters = DramPreset::Ddr4X8.parameters();
            let error = parameters.set(name, value).unwrap_err().to_string();
            assert!(error.starts_with(&format!("parameter {name} cannot be {value:?}: ")));
            assert_eq!(parameters, DramPreset::Ddr4X8.parameters());
        };
        for (name, value) in [
            ("channels", "3"),
            ("channels", "0"),
            ("rows", "99999999999"),
            ("tRP", "0"),
            ("tRP", "-1"),
            ("tRP", "2.5"),
            ("tCK", "0"),
            ("tCK", "NaN"),
            ("VDD", "inf"),
            ("IDD0", "-3"),
            ("page", "ajar"),
            ("dual_command", "1"),
            ("cmd_queue_size", "0"),
        ] {
            refuse(name, value);
        }
    }

    #[test]
    fn values_that_contradict_each_other_are_refused() {
        let check = |sets: &[(&str, &str)]| {
            let mut parameters = DramPreset::Ddr4X8.parameters();
            for (name, value) in sets {
                parameters.set(name, value).unwrap();
            }
            parameters.check().map_err(|error| error.to_string())
        };
        let accepted: [&[(&str, &str)]; 3] = [&[], &[("tREFI", "1268")], &[("tREFI", "0")]];
        for sets in accepted {
            assert_eq!(check(sets), Ok(()), "{sets:?}");
        }
        let refresh = "or at least 1268 = 2 × ranks × (tRFC + max(tRAS, tRCD) + tRP)";
        let refused: &[(&[(&str, &str)], &str)] = &[
            (&[("tCCD_L", "2")], "tCCD_S, which is 4"),
            (&[("tCCD_L_WR", "3")], "tCCD_L_WR cannot be 3"),
            (&[("tREFI", "600")], refresh),
            (&[("tREFI", "600"), ("ranks", "2")], "or at least 2536"),
            // The row of a request would be closed by each refresh before it can be read.
            (&[("tRCD", "642638")], "tREFI"),
            (&[("tRCDWR", "642638")], "tREFI"),
            (&[("CWL", "27")], "CWL"),
            (
                &[("ranks", "64"), ("bankgroups", "64")],
                "at most 1024 banks",
            ),
        ];
        for &(sets, reason) in refused {
            let error = check(sets).unwrap_err();
            assert!(error.contains(reason), "{sets:?}: {error}");
        }
    }

    #[test]
    fn limits_are_those_of_the_closed_forms() {
        let ddr4 = DramPreset::Ddr4X16.parameters();
        assert_eq!(ddr4.peak_gbps(), 51.2);
        let random = 2.0 * 64.0 * (4.0 / 48.0) / 0.625 * (1.0 - 560.0 / 12480.0);
        assert!((ddr4.random_gbps() - random).abs() < 1e-9);
        assert_eq!(ddr4.bytes(), 8 << 30);
        assert_eq!(DramPreset::Hbm2.parameters().peak_gbps(), 256.0);
        assert_eq!(DramPreset::Hbm2e.parameters().peak_gbps(), 409.6);
        assert_eq!(DramPreset::Hbm3.parameters().peak_gbps(), 819.2);
    }
}

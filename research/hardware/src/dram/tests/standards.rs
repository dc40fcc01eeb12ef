//! The timings of each preset against published tables, writes included.
//!
//! The tables, and the places in which they were read:
//!
//! - DDR4: JESD79-4, speed bin 3200AA, with the tables of tRRD, tFAW and tRFC for 8 Gb.
//! - DDR5: JESD79-5, speed bin 4800B, 16 Gb x8. The limits with both a time and a number of clocks
//!   are those that a module of such devices states in its SPD (bytes 70 to 93 of JESD400-5).
//! - DRAMsim3: `configs/*.ini` of `umd-memsys/DRAMsim3`, commit 0eb63609.
//! - ramulator2: `python/ramulator/dram/*.py` of `CMU-SAFARI/ramulator2`, commits 38c51d40 (DDR4),
//!   02568b06 (DDR5), 0aba1928 (HBM1, HBM2) and 300e25f7 (HBM3). Its authors list the tables of
//!   the standards that they took the values from.

use super::*;
use crate::dram::parameters::DramParameterSlot;

/// A limit of a standard: the larger of a number of clocks and a time.
struct StandardLimit {
    timing: &'static str,
    clocks: u64,
    picoseconds: u64,
}

const fn limit(timing: &'static str, clocks: u64, picoseconds: u64) -> StandardLimit {
    StandardLimit {
        timing,
        clocks,
        picoseconds,
    }
}

/// The limits that do not depend on the width of a device.
const DDR4: [StandardLimit; 11] = [
    limit("tRCDRD", 0, 13_750),
    limit("tRCDWR", 0, 13_750),
    limit("tRP", 0, 13_750),
    limit("tRAS", 0, 32_000),
    limit("tCCD_S", 4, 0),
    limit("tCCD_L", 5, 5_000),
    limit("tRTP", 4, 7_500),
    limit("tWR", 0, 15_000),
    limit("tWTR_S", 2, 2_500),
    limit("tWTR_L", 4, 7_500),
    limit("tRFC", 0, 350_000),
];

/// The limits of devices of 8 bits, with rows of 1 KB, and of devices of 16 bits, with 2 KB.
const DDR4_X8: [StandardLimit; 3] = [
    limit("tRRD_S", 4, 2_500),
    limit("tRRD_L", 4, 4_900),
    limit("tFAW", 20, 21_000),
];
const DDR4_X16: [StandardLimit; 3] = [
    limit("tRRD_S", 4, 5_300),
    limit("tRRD_L", 4, 6_400),
    limit("tFAW", 28, 30_000),
];

/// The writes of one group are `tCCD_L_WR2` apart: 8 bits times 16 beats are a whole word of the
/// device's error correction, so that it writes without reading before.
const DDR5: [StandardLimit; 15] = [
    limit("tRCDRD", 0, 16_250),
    limit("tRCDWR", 0, 16_250),
    limit("tRP", 0, 16_250),
    limit("tRAS", 0, 32_000),
    limit("tRRD_S", 8, 0),
    limit("tRRD_L", 8, 5_000),
    limit("tFAW", 32, 13_333),
    limit("tCCD_S", 8, 0),
    limit("tCCD_L", 8, 5_000),
    limit("tCCD_L_WR", 16, 10_000),
    limit("tRTP", 12, 7_500),
    limit("tWR", 0, 30_000),
    limit("tWTR_S", 4, 2_500),
    limit("tWTR_L", 16, 10_000),
    limit("tRFC", 0, 295_000),
];

fn timing(parameters: &DramParameters, name: &str) -> u64 {
    match parameters.clone().slot(&name.to_ascii_lowercase()) {
        Some(DramParameterSlot::Clocks(_, slots)) => *slots[0],
        _ => panic!("no timing {name}"),
    }
}

/// Returns the timings that differ from the limits. A time is rounded up to clocks after it is
/// multiplied by `guard` / 1000, by which the standard of DDR5 allows for rounded clocks.
fn beyond(parameters: &DramParameters, limits: &[StandardLimit], guard: u64) -> Vec<String> {
    let wrong = |limit: &StandardLimit| {
        let clock = parameters.t_ck_ps * 1000;
        let expected = limit
            .clocks
            .max((limit.picoseconds * guard).div_ceil(clock));
        let found = timing(parameters, limit.timing);
        (found != expected).then(|| format!("{}: {found}, not {expected}", limit.timing))
    };
    limits.iter().filter_map(wrong).collect()
}

#[test]
fn ddr_timings_are_the_limits_of_the_standards() {
    let none: [String; 0] = [];
    let (x8, x16) = (
        DramPreset::Ddr4X8.parameters(),
        DramPreset::Ddr4X16.parameters(),
    );
    for parameters in [&x8, &x16] {
        assert_eq!(beyond(parameters, &DDR4, 1000), none);
        assert_eq!((parameters.cl, parameters.cwl), (22, 16));
        // DDR4 has one gap for reads and writes of a group.
        assert_eq!(parameters.t_ccd_l_write, parameters.t_ccd_l);
        assert_eq!(parameters.t_refi * parameters.t_ck_ps, 7_800_000);
    }
    assert_eq!(beyond(&x8, &DDR4_X8, 1000), none);
    assert_eq!(beyond(&x16, &DDR4_X16, 1000), none);
    let ddr5 = DramPreset::Ddr5.parameters();
    assert_eq!(beyond(&ddr5, &DDR5, 997), none);
    assert_eq!((ddr5.cl, ddr5.cwl), (40, 38));
    assert_eq!(ddr5.t_refi * ddr5.t_ck_ps, 3_900_000);
    // The other width is seen.
    assert_eq!(beyond(&x8, &DDR4_X16, 1000).len(), 3);
    let mut slow = ddr5;
    slow.t_ccd_l_write = slow.t_ccd_l;
    assert_eq!(beyond(&slow, &DDR5, 997), ["tCCD_L_WR: 12, not 24"]);
}

/// A timing of a preset as DRAMsim3 and ramulator2 have it, in clocks, and the reason for which the
/// preset has one of two values that differ. 0: the simulator has no value.
type PublishedTiming = (&'static str, u64, u64, &'static str);

const VENDOR: &str = "the vendor states it, so the standard has no value";
const LEGACY: &str = "of a burst of two clocks in a whole channel; the other is of pseudo channels";

const DDR4_X8_PUBLISHED: &[PublishedTiming] = &[
    ("CL", 22, 22, ""),
    ("CWL", 16, 16, ""),
    ("tRCDRD", 22, 22, ""),
    ("tRP", 22, 22, ""),
    ("tRAS", 52, 52, ""),
    ("tRRD_S", 4, 4, ""),
    ("tRRD_L", 8, 8, ""),
    ("tFAW", 34, 34, ""),
    ("tCCD_S", 4, 4, ""),
    ("tCCD_L", 8, 8, ""),
    ("tCCD_L_WR", 8, 8, ""),
    ("tRTP", 12, 12, ""),
    ("tWR", 24, 24, ""),
    ("tWTR_S", 4, 4, ""),
    ("tWTR_L", 12, 12, ""),
    (
        "tRFC",
        560,
        576,
        "350 ns in the standard; the other has 360",
    ),
    ("tREFI", 12_480, 12_480, ""),
];

const DDR4_X16_PUBLISHED: &[PublishedTiming] = &[
    ("tRRD_S", 9, 9, ""),
    ("tRRD_L", 11, 11, ""),
    ("tFAW", 48, 48, ""),
    ("tCCD_L_WR", 8, 8, ""),
    ("tWR", 24, 24, ""),
];

/// DRAMsim3 has no DDR5: the first value is that of the standard where ramulator2 has another. Its
/// speed bin is 4800AN, which is faster in CL, tRCD and tRP; the others do not depend on the bin.
const DDR5_PUBLISHED: &[PublishedTiming] = &[
    ("tRAS", 0, 77, ""),
    ("tRRD_S", 0, 8, ""),
    ("tRRD_L", 0, 12, ""),
    (
        "tFAW",
        32,
        49,
        "13.333 ns in the standard; the other has 20",
    ),
    ("tCCD_S", 0, 8, ""),
    ("tCCD_L", 0, 12, ""),
    (
        "tCCD_L_WR",
        24,
        48,
        "of devices that need not read before they write",
    ),
    ("tRTP", 0, 18, ""),
    ("tWR", 0, 72, ""),
    ("tWTR_S", 0, 6, ""),
    ("tWTR_L", 0, 24, ""),
    (
        "tRFC",
        708,
        710,
        "rounded as the standard rounds, and not up",
    ),
    ("tREFI", 0, 9375, ""),
];

const HBM1_PUBLISHED: &[PublishedTiming] = &[
    ("CL", 7, 7, ""),
    ("CWL", 2, 4, VENDOR),
    ("tRCDRD", 7, 7, ""),
    ("tRCDWR", 7, 6, VENDOR),
    ("tRP", 7, 7, ""),
    ("tRAS", 17, 17, ""),
    (
        "tRRD_S",
        2,
        4,
        "4 ns are two clocks; the other has four at least",
    ),
    ("tRRD_L", 3, 4, VENDOR),
    ("tFAW", 15, 8, VENDOR),
    ("tCCD_S", 1, 1, ""),
    ("tCCD_L", 1, 2, LEGACY),
    ("tRTP", 3, 4, VENDOR),
    ("tWR", 8, 8, ""),
    ("tWTR_S", 3, 3, ""),
    ("tWTR_L", 4, 4, ""),
    ("tRFC", 130, 130, ""),
    ("tREFI", 1950, 1950, ""),
];

/// DRAMsim3 has tRTP 6 within a group, and does not use it.
const HBM2_PUBLISHED: &[PublishedTiming] = &[
    ("CL", 14, 14, ""),
    ("CWL", 4, 5, VENDOR),
    ("tRCDRD", 14, 14, ""),
    ("tRCDWR", 14, 12, VENDOR),
    ("tRP", 14, 14, ""),
    ("tRAS", 34, 34, ""),
    ("tRRD_S", 4, 4, ""),
    ("tRRD_L", 6, 4, VENDOR),
    ("tFAW", 30, 15, VENDOR),
    ("tCCD_S", 1, 2, LEGACY),
    ("tCCD_L", 2, 4, LEGACY),
    ("tRTP", 6, 5, VENDOR),
    ("tWR", 16, 16, ""),
    ("tWTR_S", 6, 6, ""),
    ("tWTR_L", 8, 8, ""),
    ("tRFC", 260, 350, "that of 4 Gb; 8 Gb a channel have 350 ns"),
    ("tREFI", 3900, 3900, ""),
];

/// A line is two bursts, so the gaps between columns are twice those of the table.
const HBM3_PUBLISHED: &[PublishedTiming] = &[
    ("CL", 0, 20, ""),
    ("CWL", 0, 10, ""),
    ("tRCDRD", 0, 31, ""),
    ("tRCDWR", 0, 15, ""),
    ("tRP", 0, 26, ""),
    ("tRAS", 0, 45, ""),
    ("tRRD_S", 0, 4, ""),
    ("tRRD_L", 0, 5, ""),
    ("tFAW", 0, 24, ""),
    ("tCCD_S", 0, 2 * 2, ""),
    ("tCCD_L", 0, 2 * 4, ""),
    ("tCCD_L_WR", 0, 2 * 4, ""),
    ("tRTP", 0, 9, ""),
    ("tWR", 0, 33, ""),
    ("tWTR_S", 0, 7, ""),
    ("tWTR_L", 0, 10, ""),
    ("tRFC", 0, 560, ""),
    ("tREFI", 0, 6240, ""),
];

/// Returns the rows that a preset contradicts: it has neither value, or two values differ without a
/// reason, or a reason has nothing to explain.
fn contradicted(parameters: &DramParameters, table: &[PublishedTiming]) -> Vec<&'static str> {
    let is_wrong = |row: &&PublishedTiming| {
        let (name, dramsim3, ramulator2, reason) = **row;
        let values = [dramsim3, ramulator2].map(|value| (value != 0).then_some(value));
        let found = timing(parameters, name);
        let differ = matches!(values, [Some(one), Some(other)] if one != other);
        !values.contains(&Some(found)) || differ == reason.is_empty()
    };
    table.iter().filter(is_wrong).map(|row| row.0).collect()
}

#[test]
fn timings_are_those_of_published_tables() {
    for (preset, table) in [
        (DramPreset::Ddr4X8, DDR4_X8_PUBLISHED),
        (DramPreset::Ddr4X16, DDR4_X16_PUBLISHED),
        (DramPreset::Ddr5, DDR5_PUBLISHED),
        (DramPreset::Hbm1, HBM1_PUBLISHED),
        (DramPreset::Hbm2, HBM2_PUBLISHED),
        (DramPreset::Hbm3, HBM3_PUBLISHED),
    ] {
        let parameters = preset.parameters();
        let none: [&str; 0] = [];
        assert_eq!(contradicted(&parameters, table), none, "{}", preset.name());
        for (name, _, _, reason) in table.iter().copied() {
            // A clock more is seen. Of two published values, it may be the other one.
            let more = if reason.is_empty() { 1 } else { 1000 };
            let value = timing(&parameters, name) + more;
            let mut other = parameters.clone();
            other.set(name, &value.to_string()).unwrap();
            assert!(contradicted(&other, table).contains(&name), "{name}");
        }
    }
}

#[test]
fn hbm2e_has_the_latencies_of_hbm2_in_nanoseconds() {
    let (old, new) = (
        DramPreset::Hbm2.parameters(),
        DramPreset::Hbm2e.parameters(),
    );
    for name in [
        "CL", "CWL", "tRCDRD", "tRCDWR", "tRP", "tRAS", "tRRD_S", "tRRD_L", "tRTP", "tWR",
        "tWTR_S", "tWTR_L", "tREFI",
    ] {
        let picoseconds = timing(&old, name) * old.t_ck_ps;
        let difference = (timing(&new, name) * new.t_ck_ps).abs_diff(picoseconds);
        assert!(
            difference < new.t_ck_ps,
            "{name} differs by {difference} ps"
        );
    }
    // Both tables have 16 or 15 ns for the window, and 350 ns for the refresh of 8 Gb a channel.
    assert_eq!(new.t_faw, 16_000_u64.div_ceil(new.t_ck_ps));
    assert_eq!(new.t_rfc * new.t_ck_ps, 350_000);
}

#[test]
fn the_memory_of_adm_is_that_of_its_table() {
    // ADM, Table 2: 1 GHz, 8 channels of 128 bits, 8 banks, tCAS-tRCD-tRP of 7-7-7 bus cycles.
    let parameters = DramPreset::Hbm2Paper.parameters();
    assert_eq!((parameters.t_ck_ps, parameters.channels), (1000, 8));
    assert_eq!((parameters.banks(), parameters.peak_gbps()), (8, 256.0));
    let latencies = [parameters.cl, parameters.t_rcd_read, parameters.t_rcd_write];
    assert_eq!((latencies, parameters.t_rp), ([7; 3], 7));
    // Its DRAM: 1.6 GHz, 2 channels of 64 bits, 8 banks, 22-22-22.
    let slow = DramPreset::Ddr4X16.parameters();
    assert_eq!((slow.t_ck_ps, slow.channels, slow.banks()), (625, 2, 8));
    assert_eq!((slow.cl, slow.t_rcd_read, slow.t_rp), (22, 22, 22));
    assert_eq!(slow.peak_gbps(), 51.2);
}

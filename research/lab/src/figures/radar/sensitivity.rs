//! Figure `sensitivity`: the headline ratios for each assumed or disputed parameter of the model,
//! changed alone.

use super::bench::{DEVICE, RadarBatchCosts};
use super::contender::{JUMP_PUSH, NEARFIELD, NEARFIELD_APART, PIM_TREE, RADAR, RANGE_PARTITION};
use crate::figures::row::{Quantity, Row};
use crate::report::NumberOrigin;
use nearfield_hardware::VirtualTime;
use nearfield_hardware::modules::{Bandwidth, Dma, ModuleHostTimes, ModuleParameters};

/// The degrees of skew of these ratios.
pub(super) const DEGREES: [f64; 2] = [0.0, 0.99];

/// The name of the figure.
pub(super) const FIGURE: &str = "sensitivity";

/// A headline: the ratio of one contender's throughput to another's.
pub(super) struct Headline {
    /// The name in the figure.
    pub name: &'static str,
    /// The two contenders.
    pub peers: [&'static str; 2],
    /// True for the greatest ratio over operations and degrees of skew, false for the least.
    pub is_greatest: bool,
}

/// The headlines of the paper, and ours.
pub(super) const HEADLINES: [Headline; 5] = [
    Headline {
        name: "radar over range-partition, the greatest",
        peers: [RADAR.name, RANGE_PARTITION.name],
        is_greatest: true,
    },
    Headline {
        name: "radar over jump-push, the greatest",
        peers: [RADAR.name, JUMP_PUSH.name],
        is_greatest: true,
    },
    Headline {
        name: "radar over pim-tree, the greatest",
        peers: [RADAR.name, PIM_TREE.name],
        is_greatest: true,
    },
    Headline {
        name: "nearfield over radar, the least",
        peers: [NEARFIELD.name, RADAR.name],
        is_greatest: false,
    },
    Headline {
        name: "nearfield, reads apart, over radar, the least",
        peers: [NEARFIELD_APART.name, RADAR.name],
        is_greatest: false,
    },
];

/// The device with one parameter changed.
pub(super) struct DeviceVariant {
    panel: &'static str,
    x: Quantity,
    pub parameters: ModuleParameters,
}

/// Returns the device as it is, and with each parameter that is assumed, or published in several
/// versions, varied over its range.
pub(super) fn variants() -> Vec<DeviceVariant> {
    let own = DEVICE.parameters();
    let mut variants = vec![DeviceVariant {
        panel: "unchanged",
        x: Quantity::new("part", "", 1.0),
        parameters: own,
    }];
    let mut vary = |panel, [name, unit]: [&'static str; 2], value, parameters| {
        variants.push(DeviceVariant {
            panel,
            x: Quantity::new(name, unit, value),
            parameters,
        });
    };
    let microseconds = |value: u32| VirtualTime::from_nanoseconds(u64::from(value) * 1000);
    for value in [100_u32, 200, 500] {
        let launch = microseconds(value);
        let milliseconds = f64::from(value) / 1e3;
        vary(
            "launch",
            ["launch", "ms"],
            milliseconds,
            ModuleParameters { launch, ..own },
        );
    }
    for value in [20_u32, 50] {
        let transfer = microseconds(value);
        let changed = ModuleParameters { transfer, ..own };
        vary(
            "a transfer",
            ["fixed part", "µs"],
            f64::from(value),
            changed,
        );
    }
    for gigabytes in [13.0, 19.0, 25.0] {
        let bandwidth = Bandwidth::Total(gigabytes * 1e9);
        vary(
            "bandwidth",
            ["bandwidth", "GB/s"],
            gigabytes,
            ModuleParameters { bandwidth, ..own },
        );
    }
    let word = own.dma.read_latency + 8.0 * own.dma.latency_per_byte;
    for nanoseconds in [14.0, 100.0, 231.4] {
        let cycles = nanoseconds * own.cycles_per_second / 1e9;
        // Only the fixed part of a copy varies, and it cannot be negative.
        let fixed = own.dma.read_latency - (word - cycles).max(0.0);
        let part = (fixed / own.dma.read_latency).clamp(0.0, 1.0);
        let dma = Dma {
            read_latency: own.dma.read_latency * part,
            write_latency: own.dma.write_latency * part,
            occupied: own.dma.occupied * part,
            ..own.dma
        };
        vary(
            "copies",
            ["a word of the bank", "ns"],
            nanoseconds,
            ModuleParameters { dma, ..own },
        );
    }
    for part in [0.5, 2.0] {
        let changed = ModuleParameters {
            instructions: part,
            ..own
        };
        vary("instructions", ["part of those counted", ""], part, changed);
    }
    for tasklets in [8_usize, 16, 24] {
        let changed = ModuleParameters { tasklets, ..own };
        vary(
            "threads of a module",
            ["threads", ""],
            tasklets as f64,
            changed,
        );
    }
    for (panel, times, set) in HOST_TIMES {
        for nanoseconds in *times {
            let mut host = own.host;
            set(&mut host, VirtualTime::from_nanoseconds(*nanoseconds));
            vary(
                panel,
                ["host", "ns"],
                *nanoseconds as f64,
                ModuleParameters { host, ..own },
            );
        }
    }
    variants
}

/// A time of a thread of the host, and the bounds of its range: a probe is between hits and misses
/// of its caches, others between half and double.
type HostTime = (
    &'static str,
    &'static [u64],
    fn(&mut ModuleHostTimes, VirtualTime),
);

const HOST_TIMES: &[HostTime] = &[
    ("a probe of the host", &[20, 90], |host, time| {
        host.probe = time
    }),
    ("a word at the host", &[2, 10], |host, time| {
        host.word = time
    }),
    ("a key in a sort", &[21, 84], |host, time| {
        host.sorted = time
    }),
];

/// Returns the rates of an operation by each variant. Variants are the last clocks of an outcome.
pub(super) fn rows(
    outcome: &RadarBatchCosts,
    name: &str,
    degree: f64,
    variants: &[DeviceVariant],
) -> Vec<Row> {
    debug_assert!(variants.len() <= outcome.clocks());
    let first = outcome.clocks() - variants.len();
    let row = |(number, variant): (usize, &DeviceVariant)| {
        let row = outcome.row(FIGURE, name, first + number, variant.x.clone());
        let operation = format!("{}|{}|{degree}", variant.panel, row.detail.panel);
        row.in_panel(operation)
    };
    variants.iter().enumerate().map(row).collect()
}

/// Computes the headlines by each variant from the rates of all contenders.
pub(super) fn headlines(rows: &[Row]) -> Vec<Row> {
    let mut found = Vec::new();
    for headline in &HEADLINES {
        let [one, other] = headline.peers;
        // Only rates of the same variant, operation and skew are compared.
        let mut ratios: Vec<(&Row, f64)> = Vec::new();
        for row in rows.iter().filter(|row| row.peer == one) {
            let is_counterpart = |counterpart: &&Row| {
                counterpart.peer == other
                    && counterpart.detail.panel == row.detail.panel
                    && counterpart.detail.x == row.detail.x
            };
            let counterpart = rows.iter().find(is_counterpart);
            let rates = row.rate_mops.zip(counterpart.and_then(|row| row.rate_mops));
            ratios.extend(rates.map(|(own, others)| (row, own / others)));
        }
        let mut done: Vec<(&str, &Quantity)> = Vec::new();
        for (row, _) in &ratios {
            let variant = (variant_of(row), &row.detail.x);
            // A variant has a ratio for each operation and degree of skew.
            if done.contains(&variant) {
                continue;
            }
            done.push(variant);
            let same = ratios
                .iter()
                .filter(|(other, _)| (variant_of(other), &other.detail.x) == variant);
            let same = same.map(|(_, ratio)| *ratio);
            let value = same.reduce(match headline.is_greatest {
                true => f64::max,
                false => f64::min,
            });
            let x = variant.1.clone();
            let y = Quantity::new("ratio", "x", value.unwrap_or(f64::NAN));
            let mut found_row = Row::counted(FIGURE, headline.name, x, y).in_panel(variant.0);
            found_row.kind = NumberOrigin::Modelled;
            found_row.detail.device = row.detail.device.clone();
            found.push(found_row);
        }
    }
    found
}

fn variant_of(row: &Row) -> &str {
    row.detail.panel.split('|').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_vary_between_the_published_figures() {
        let words = variants()
            .into_iter()
            .filter(|variant| variant.panel == "copies");
        let words: Vec<f64> = words
            .map(|variant| {
                let dma = variant.parameters.dma;
                let cycles = dma.read_latency + 8.0 * dma.latency_per_byte;
                assert!((cycles / 0.35 - variant.x.value).abs() < 0.1, "{cycles}");
                dma.occupied
            })
            .collect();
        assert!(words[0] < 1.0 && words[2] > 33.9, "{words:?}");
    }

    #[test]
    fn each_variant_differs_from_the_others() {
        let variants = variants();
        for (number, one) in variants.iter().enumerate() {
            let others = &variants[..number];
            // The axis of launch times includes the device's own.
            let is_own = (one.panel, one.x.value) == ("launch", 0.2);
            let same = others
                .iter()
                .any(|other| other.parameters == one.parameters);
            assert_eq!(same, is_own, "{}, {}", one.panel, one.x.value);
        }
    }

    #[test]
    fn a_headline_is_of_the_same_operation_and_skew() {
        let row = |peer: &str, panel: &str, mops: f64| {
            let x = Quantity::new("launch", "ms", 0.1);
            Row::rated(FIGURE, peer, x, mops, NumberOrigin::Modelled).in_panel(panel)
        };
        let rows = [
            row("radar", "launch|Get|0", 10.0),
            row("radar", "launch|Get|0.99", 20.0),
            row("range-partition", "launch|Get|0", 5.0),
            row("range-partition", "launch|Get|0.99", 2.0),
            row("nearfield", "launch|Get|0", 15.0),
            row("nearfield", "launch|Get|0.99", 24.0),
        ];
        let found = headlines(&rows);
        let found: Vec<_> = found
            .iter()
            .map(|row| (&*row.peer, row.detail.y.value))
            .collect();
        let expected = [(HEADLINES[0].name, 10.0), (HEADLINES[3].name, 1.2)];
        assert_eq!(found, expected);
    }
}

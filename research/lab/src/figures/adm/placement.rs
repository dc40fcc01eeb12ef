//! Placements: the policies that decide in which memory objects are, and move them.

use super::load::AdmWorkload;
use super::scale::AdmScale;
use nearfield_tiers::policy::{
    Adaptive, Adm, AdmSettings, ObjectUse, PairCosts, PolicyObject, TierMove, TieringPolicy,
};
use std::collections::HashSet;
use std::time::Duration;

/// A contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmPlacement {
    /// Everything in the slow memory.
    Dram,
    /// Objects go into the fast memory while it has room.
    FirstCome,
    /// ADM's policy as published.
    Adm,
    /// Our policy.
    Ours,
    /// The hottest objects in the fast memory, from the beginning and for ever.
    Ideal,
    /// Everything in the fast memory.
    Hbm,
}

impl AdmPlacement {
    pub(super) const ALL: [AdmPlacement; 6] = [
        AdmPlacement::Dram,
        AdmPlacement::FirstCome,
        AdmPlacement::Adm,
        AdmPlacement::Ours,
        AdmPlacement::Ideal,
        AdmPlacement::Hbm,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            AdmPlacement::Dram => "DRAM",
            AdmPlacement::FirstCome => "first come",
            AdmPlacement::Adm => "adm",
            AdmPlacement::Ours => "nearfield",
            AdmPlacement::Ideal => "ideal",
            AdmPlacement::Hbm => "HBM",
        }
    }

    /// Returns the bytes that the fast memory has room for.
    pub(super) fn capacity(self, load: &AdmWorkload) -> u64 {
        match self {
            AdmPlacement::Dram => 0,
            AdmPlacement::Hbm => u64::MAX,
            _ => load.capacity,
        }
    }

    /// Returns the keys in the order in which objects are loaded.
    pub(super) fn order(self, load: &AdmWorkload) -> Vec<usize> {
        match self {
            AdmPlacement::Ideal => load.by_heat(),
            _ => load.order(),
        }
    }

    /// Returns whether there is a fast memory, and a slow one.
    pub(super) fn powered(self) -> [bool; 2] {
        [self != AdmPlacement::Dram, self != AdmPlacement::Hbm]
    }
}

/// A placement that does not follow the load: the objects that the fast memory has room for at the
/// beginning belong to it. Values change their sizes, so some have to leave. They come back with a
/// later use, if there is room.
#[derive(Clone, Debug, Default)]
pub(super) struct FixedPlacement {
    belongs: HashSet<u64>,
}

impl TieringPolicy for FixedPlacement {
    fn used(&mut self, object: &PolicyObject, _: ObjectUse) -> Option<TierMove> {
        let comes = object.tier != 0 && self.belongs.contains(&object.hash);
        comes.then_some(TierMove { target: 0 })
    }

    fn visit(&mut self, _: &PolicyObject) -> Option<TierMove> {
        None
    }

    fn inserted(&mut self, object: &PolicyObject) {
        if object.tier == 0 {
            self.belongs.insert(object.hash);
        }
    }

    fn removed(&mut self, _: &PolicyObject) {}

    fn moved(&mut self, _: &PolicyObject, _: usize) {}

    fn passed(&mut self, _: Duration) {}
}

/// Number of requests between two walks of ADM, for each object: *assumed*, because the paper gives
/// none.
pub(super) const ADM_INTERVAL: usize = 10;

/// Returns the time of a request. Each object is requested once a second on average, which makes
/// 100,000 requests a second at the paper's size.
pub(super) fn time(scale: &AdmScale, request: usize) -> Duration {
    Duration::from_secs_f64(request as f64 / scale.objects as f64)
}

/// Returns the settings of ADM's policy at a scale.
pub(super) fn settings(scale: &AdmScale) -> AdmSettings {
    AdmSettings {
        seed: scale.seed,
        ..AdmSettings::with_thresholds(scale.threshold_in, scale.threshold_out)
    }
}

pub(super) fn adm(scale: &AdmScale) -> Adm {
    Adm::new(settings(scale))
}

/// Creates our policy. It knows each memory's latency of a line.
pub(super) fn ours(load: &AdmWorkload) -> Adaptive {
    let costs = [PairCosts::of_lines(25.0, 50.0)];
    let bytes_per_second = load.scale.objects as u64 * load.scale.our_bytes_per_second;
    Adaptive::new(&[load.capacity, u64::MAX], &costs, bytes_per_second)
}

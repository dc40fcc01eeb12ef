//! Placements: the policies that decide in which memory objects are, and move them.

use super::load::Load;
use super::scale::Scale;
use nearfield_tiers::policy::{Adaptive, Adm, AdmSettings, Move, Object, PairCosts, Policy, Use};
use std::collections::HashSet;
use std::time::Duration;

/// A contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
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

impl Placement {
    pub(super) const ALL: [Placement; 6] = [
        Placement::Dram,
        Placement::FirstCome,
        Placement::Adm,
        Placement::Ours,
        Placement::Ideal,
        Placement::Hbm,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Placement::Dram => "DRAM",
            Placement::FirstCome => "first come",
            Placement::Adm => "adm",
            Placement::Ours => "nearfield",
            Placement::Ideal => "ideal",
            Placement::Hbm => "HBM",
        }
    }

    /// Returns the bytes that the fast memory has room for.
    pub(super) fn capacity(self, load: &Load) -> u64 {
        match self {
            Placement::Dram => 0,
            Placement::Hbm => u64::MAX,
            _ => load.capacity,
        }
    }

    /// Returns the keys in the order in which objects are loaded.
    pub(super) fn order(self, load: &Load) -> Vec<usize> {
        match self {
            Placement::Ideal => load.by_heat(),
            _ => load.order(),
        }
    }

    /// Returns whether there is a fast memory, and a slow one.
    pub(super) fn powered(self) -> [bool; 2] {
        [self != Placement::Dram, self != Placement::Hbm]
    }
}

/// A placement that does not follow the load: the objects that the fast memory has room for at the
/// beginning belong to it. Values change their sizes, so some have to leave. They come back with a
/// later use, if there is room.
#[derive(Clone, Debug, Default)]
pub(super) struct Fixed {
    belongs: HashSet<u64>,
}

impl Policy for Fixed {
    fn used(&mut self, object: &Object, _: Use) -> Option<Move> {
        let comes = object.tier != 0 && self.belongs.contains(&object.hash);
        comes.then_some(Move { target: 0 })
    }

    fn met(&mut self, _: &Object) -> Option<Move> {
        None
    }

    fn inserted(&mut self, object: &Object) {
        if object.tier == 0 {
            self.belongs.insert(object.hash);
        }
    }

    fn removed(&mut self, _: &Object) {}

    fn moved(&mut self, _: &Object, _: usize) {}

    fn passed(&mut self, _: Duration) {}
}

/// Number of requests between two walks of ADM, for each object: *assumed*, because the paper gives
/// none.
pub(super) const ADM_INTERVAL: usize = 10;

/// Returns the time of a request. Each object is requested once a second on average, which makes
/// 100,000 requests a second at the paper's size.
pub(super) fn time(scale: &Scale, request: usize) -> Duration {
    Duration::from_secs_f64(request as f64 / scale.objects as f64)
}

pub(super) fn adm(scale: &Scale) -> Adm {
    Adm::new(AdmSettings {
        seed: scale.seed,
        ..AdmSettings::default()
    })
}

/// Creates our policy. It knows each memory's latency of a line, and moves at most 1 KiB for each
/// object in a second.
pub(super) fn ours(load: &Load) -> Adaptive {
    let costs = [PairCosts::of_lines(25.0, 50.0)];
    let bytes_per_second = load.scale.objects as u64 * 1024;
    Adaptive::new(&[load.capacity, u64::MAX], &costs, bytes_per_second)
}

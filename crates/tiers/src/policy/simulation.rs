//! A store of objects without contents, on which a policy is tried.

use super::{ObjectUse, PolicyObject, TieringPolicy};
use nearfield_hotness::HotnessTable;
use std::time::Duration;

/// A simulated store of objects that have only sizes: it reports everything to the policy that a
/// store would, and carries out its decisions at once. The same calls give the same moves.
///
/// ```
/// use nearfield_tiers::policy::{Adm, AdmSettings, PolicySimulation, ObjectUse};
///
/// let policy = Adm::new(AdmSettings::default());
/// let mut store = PolicySimulation::new(policy, &[1 << 20, u64::MAX], 1000);
/// let object = store.insert(500, 1);
/// let reads = (0..1000).take_while(|_| store.request(object, ObjectUse::Read).moved_to.is_none());
/// assert!(reads.count() > 20);
/// assert_eq!((store.tier(object), store.used_bytes(0)), (0, 500));
/// ```
#[derive(Debug)]
pub struct PolicySimulation<P> {
    policy: P,
    heat: HotnessTable,
    objects: Vec<SimulatedObject>,
    capacities: Vec<u64>,
    used: Vec<u64>,
    /// Number of uses in this period of the heat.
    uses: u64,
    /// Number of uses that were not yet reported to the policy, and how many of them the fastest
    /// tier served.
    untold: (u64, u64),
    /// The object that the walk visits next.
    walk: usize,
}

/// Number of uses after which they are reported to the policy.
const UNTOLD_MAX: u64 = 1000;

#[derive(Clone, Copy, Debug)]
struct SimulatedObject {
    bytes: u64,
    tier: usize,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedUseOutcome {
    /// The tier that the object was in when it was used.
    pub served_by: usize,
    /// The tier to which the object moved afterwards, if it did.
    pub moved_to: Option<usize>,
}

impl<P: TieringPolicy> PolicySimulation<P> {
    /// Creates a store without objects, and a heat with 8 bytes for each of `objects` objects. Each
    /// tier uses at most its capacity.
    pub fn new(policy: P, capacities: &[u64], objects: usize) -> PolicySimulation<P> {
        debug_assert!(!capacities.is_empty(), "each object is in a tier");
        PolicySimulation {
            policy,
            heat: HotnessTable::with_bytes(objects * 8),
            objects: Vec::with_capacity(objects),
            capacities: capacities.to_vec(),
            used: vec![0; capacities.len()],
            uses: 0,
            untold: (0, 0),
            walk: 0,
        }
    }

    /// Puts a new object into a tier, and returns its number. Puts it into a slower one if there is
    /// no room.
    pub fn insert(&mut self, bytes: u64, tier: usize) -> usize {
        let tier = self.roomy(bytes, tier);
        let number = self.objects.len();
        self.objects.push(SimulatedObject { bytes, tier });
        self.used[tier] += bytes;
        let object = self.object(number);
        self.policy.inserted(&object);
        number
    }

    fn roomy(&self, bytes: u64, tier: usize) -> usize {
        let has_room = |&tier: &usize| self.has_room(tier, bytes);
        let last = self.used.len() - 1;
        // The last tier takes what no other does, so that an object is always somewhere.
        (tier..last).find(has_room).unwrap_or(last)
    }

    fn has_room(&self, tier: usize, bytes: u64) -> bool {
        self.used[tier].saturating_add(bytes) <= self.capacities[tier]
    }

    fn object(&self, number: usize) -> PolicyObject {
        let SimulatedObject { bytes, tier } = self.objects[number];
        let hash = mix(number as u64);
        let heat = self.heat.level(hash);
        PolicyObject {
            hash,
            bytes,
            tier,
            heat,
        }
    }

    /// Uses an object as a client does.
    pub fn request(&mut self, number: usize, by: ObjectUse) -> SimulatedUseOutcome {
        let served_by = self.objects[number].tier;
        if by == ObjectUse::Read || self.policy.writes_count() {
            self.heat.record(mix(number as u64));
            self.uses += 1;
            if self.uses >= self.policy.period_uses() {
                self.uses = 0;
                self.heat.age();
                self.policy.aged();
            }
        }
        // Reported in groups, as a store does, whose threads share the policy under a lock.
        self.untold.0 += 1;
        self.untold.1 += u64::from(served_by == 0);
        if self.untold.0 >= UNTOLD_MAX {
            let (uses, served) = std::mem::take(&mut self.untold);
            self.policy.served(served, uses);
        }
        let object = self.object(number);
        let step = self.policy.used(&object, by);
        let moved_to = step.and_then(|step| self.try_move(&object, number, step.target));
        SimulatedUseOutcome {
            served_by,
            moved_to,
        }
    }

    /// Changes the size of an object; it moves to a slower tier if there is no room for it.
    pub fn resize(&mut self, number: usize, bytes: u64) {
        let before = self.object(number);
        self.used[before.tier] -= before.bytes;
        let tier = self.roomy(bytes, before.tier);
        // The policy counts the old size, so the move comes first, and then the new size.
        if tier != before.tier {
            self.policy.moved(&before, tier);
        }
        self.objects[number] = SimulatedObject { bytes, tier };
        self.used[tier] += bytes;
        let object = self.object(number);
        self.policy.resized(&object, before.bytes);
    }

    fn try_move(&mut self, object: &PolicyObject, number: usize, target: usize) -> Option<usize> {
        debug_assert_ne!(target, object.tier);
        if !self.has_room(target, object.bytes) {
            self.policy.abandoned(object, target);
            return None;
        }
        self.used[object.tier] -= object.bytes;
        self.used[target] += object.bytes;
        self.objects[number].tier = target;
        self.policy.moved(object, target);
        Some(target)
    }

    /// Walks over the next objects, round after round. Calls `moved` for each that moves: its
    /// number, its bytes, and the tiers from and to which it moves.
    pub fn walk(&mut self, count: usize, mut moved: impl FnMut(usize, u64, usize, usize)) {
        for _ in 0..count.min(self.objects.len()) {
            let number = self.walk;
            self.walk = (self.walk + 1) % self.objects.len();
            self.meet(number, &mut moved);
        }
    }

    /// Walks over all objects of a tier once, as ADM's walk does.
    pub fn walk_tier(&mut self, tier: usize, mut moved: impl FnMut(usize, u64, usize, usize)) {
        for number in 0..self.objects.len() {
            if self.objects[number].tier == tier {
                self.meet(number, &mut moved);
            }
        }
    }

    fn meet(&mut self, number: usize, moved: &mut impl FnMut(usize, u64, usize, usize)) {
        let object = self.object(number);
        let step = self.policy.visit(&object);
        if let Some(target) = step.and_then(|step| self.try_move(&object, number, step.target)) {
            moved(number, object.bytes, object.tier, target);
        }
    }

    /// Advances the time.
    pub fn pass(&mut self, now: Duration) {
        self.policy.passed(now);
    }

    /// Returns the tier that an object is in.
    pub fn tier(&self, number: usize) -> usize {
        self.objects[number].tier
    }

    /// Returns the bytes of an object.
    pub fn bytes(&self, number: usize) -> u64 {
        self.objects[number].bytes
    }

    /// Returns the bytes of a tier's objects, counted exactly.
    pub fn used_bytes(&self, tier: usize) -> u64 {
        self.used[tier]
    }

    /// Returns the policy.
    pub fn policy(&self) -> &P {
        &self.policy
    }
}

/// Mixes the bits of a number, so that it can stand for the hash of a key (splitmix64).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

//! The load factor at which a hash table refuses a key, counted over random keys.

use super::leaves::leaf_load;
use super::scale::{ChimeScale, Figure};
use crate::figures::job::FigureJob;
use crate::figures::row::{Quantity, Row};
use nearfield_pool::layout::PoolIndexShape;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Number of slots of a table of figure 3d.
const SLOTS: usize = 128;

/// A table that takes keys until there is no room for one. It only records which slots are taken.
trait Scheme {
    /// The name in the figure.
    const NAME: &'static str;
    /// Creates a table in which a reader of a key reads this number of slots.
    fn new(read: usize) -> Self;
    /// Returns the number of slots: whole buckets, so possibly less than `SLOTS`.
    fn slots(&self) -> usize;
    /// Inserts a key, for which two hashes were drawn. Returns false if there is no room.
    fn insert(&mut self, hashes: [usize; 2]) -> bool;
}

/// A table of buckets. A reader reads one bucket. The fields are the keys in each bucket, and the
/// slots of a bucket.
struct Associative(Vec<usize>, usize);

impl Scheme for Associative {
    const NAME: &'static str = "associativity";

    fn new(read: usize) -> Self {
        debug_assert!((1..=SLOTS).contains(&read));
        Associative(vec![0; SLOTS / read], read)
    }

    fn slots(&self) -> usize {
        self.0.len() * self.1
    }

    fn insert(&mut self, [hash, _]: [usize; 2]) -> bool {
        let buckets = self.0.len();
        let bucket = &mut self.0[hash % buckets];
        // The table gets no key after the first refusal, so the count may exceed the slots.
        *bucket += 1;
        *bucket <= self.1
    }
}

/// RACE: groups of two main buckets that share an overflow bucket. A key is in one of two main
/// buckets or in the overflow bucket next to it; so a reader reads four.
struct RaceHashing {
    buckets: Vec<usize>,
    slots: usize,
}

impl Scheme for RaceHashing {
    const NAME: &'static str = "RACE";

    fn new(read: usize) -> Self {
        debug_assert!(
            read >= 4 && read.is_multiple_of(4),
            "a reader reads four buckets"
        );
        let slots = read / 4;
        RaceHashing {
            buckets: vec![0; SLOTS / slots / 3 * 3],
            slots,
        }
    }

    fn slots(&self) -> usize {
        self.buckets.len() * self.slots
    }

    fn insert(&mut self, hashes: [usize; 2]) -> bool {
        let mains = self.buckets.len() / 3 * 2;
        let pairs = hashes.map(|hash| {
            let main = hash % mains;
            // The overflow bucket is between the two main ones, so that either reads its neighbour.
            let group = main / 2 * 3;
            (group + main % 2 * 2, group + 1)
        });
        let used =
            |(main, overflow): (usize, usize), buckets: &[usize]| buckets[main] + buckets[overflow];
        let [one, other] = pairs;
        let (main, overflow) = if used(one, &self.buckets) <= used(other, &self.buckets) {
            one
        } else {
            other
        };
        let free = [main, overflow]
            .into_iter()
            .find(|&bucket| self.buckets[bucket] < self.slots);
        free.map(|bucket| self.buckets[bucket] += 1).is_some()
    }
}

/// Hopscotch hashing: a key is in one of the `read` slots from its home on. With `FARM` a home is
/// the first slot of a bucket of half that size, so a reader reads FaRM's two buckets; without it
/// any slot can be a home.
struct HopscotchHashing<const FARM: bool> {
    /// The homes of the keys in the slots.
    homes: Vec<Option<usize>>,
    read: usize,
}

impl<const FARM: bool> Scheme for HopscotchHashing<FARM> {
    const NAME: &'static str = if FARM { "FaRM" } else { "hopscotch" };

    fn new(read: usize) -> Self {
        // FaRM has whole buckets only.
        let slots = if FARM {
            SLOTS / (read / 2) * (read / 2)
        } else {
            SLOTS
        };
        HopscotchHashing {
            homes: vec![None; slots],
            read,
        }
    }

    fn slots(&self) -> usize {
        self.homes.len()
    }

    fn insert(&mut self, [hash, _]: [usize; 2]) -> bool {
        let slots = self.homes.len();
        let stride = if FARM { self.read / 2 } else { 1 };
        let home = hash % (slots / stride) * stride;
        let free = (0..slots).find(|distance| self.homes[(home + distance) % slots].is_none());
        let Some(mut distance) = free else {
            return false;
        };
        // Hops move the free slot closer. Each moves the farthest key that may be in the free slot.
        while distance >= self.read {
            let target = (home + distance) % slots;
            let source = (distance - self.read + 1..distance).find(|&source| {
                let moved = self.homes[(home + source) % slots];
                moved.is_some_and(|moved| (target + slots - moved) % slots < self.read)
            });
            let Some(source) = source else {
                return false;
            };
            debug_assert!(self.homes[target].is_none(), "a hop would overwrite a key");
            self.homes[target] = self.homes[(home + source) % slots].take();
            distance = source;
        }
        debug_assert!(distance < self.read && self.homes[(home + distance) % slots].is_none());
        self.homes[(home + distance) % slots] = Some(home);
        true
    }
}

/// Computes the mean load factor of tables that have just refused a key.
fn load<S: Scheme>(read: usize, tables: usize, seed: u64) -> f64 {
    let random = &mut SmallRng::seed_from_u64(seed);
    let (mut entries, mut slots) = (0, 0);
    for _ in 0..tables {
        let mut table = S::new(read);
        slots += table.slots();
        while table.insert([0; 2].map(|_| random.random_range(0..usize::MAX >> 1))) {
            entries += 1;
        }
    }
    debug_assert!(entries <= slots);
    entries as f64 / slots as f64
}

fn tables(scale: &ChimeScale) -> usize {
    if scale.coarse { 200 } else { 2000 }
}

fn load_factor(value: f64) -> Quantity {
    Quantity::new("load factor", "", value)
}

/// Creates the jobs of figure 3d.
pub(super) fn schemes(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    fn job<S: Scheme>(figure: &Figure, scale: &ChimeScale) -> FigureJob {
        let (name, tables, seed) = (figure.name, tables(scale), scale.seed);
        FigureJob::count(name, S::NAME, move || {
            let row = |read: usize| {
                let x = Quantity::new("read amplification", "slots", read as f64);
                let load = load::<S>(read, tables, seed);
                Row::counted(name, S::NAME, x, load_factor(load))
            };
            [4, 8, 12, 16, 20].map(row).to_vec()
        })
    }
    vec![
        job::<Associative>(figure, scale),
        job::<RaceHashing>(figure, scale),
        job::<HopscotchHashing<true>>(figure, scale),
        job::<HopscotchHashing<false>>(figure, scale),
    ]
}

/// Creates the job of figure 19b, with the leaves of the index themselves.
pub(super) fn neighborhoods(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let (name, leaves, seed) = (figure.name, tables(scale), scale.seed);
    vec![FigureJob::count(name, "chime", move || {
        let row = |neighborhood: usize| {
            let shape = PoolIndexShape {
                neighborhood,
                ..PoolIndexShape::default()
            };
            let x = Quantity::new("slots of a neighborhood", "", neighborhood as f64);
            let load = leaf_load(shape, leaves, seed);
            Row::counted(name, "chime", x, load_factor(load))
        };
        [2, 4, 6, 8, 10, 12, 14, 16].map(row).to_vec()
    })]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The load factors agree with an independent count.
    #[test]
    fn schemes_fill_as_far_as_counted_elsewhere() {
        let reads = [4, 8, 12, 16, 20];
        let near = |loads: [f64; 5], others: [f64; 5], by: f64| {
            for (load, other) in loads.into_iter().zip(others) {
                assert!((load - other).abs() < by, "{loads:?} {other}");
            }
        };
        let hops = reads.map(|read| load::<HopscotchHashing<false>>(read, 500, 1));
        near(hops, [0.62, 0.87, 0.96, 0.99, 1.0], 0.02);
        let farm = reads.map(|read| load::<HopscotchHashing<true>>(read, 500, 1));
        near(farm, [0.54, 0.79, 0.89, 0.95, 0.98], 0.03);
        let race = reads.map(|read| load::<RaceHashing>(read, 500, 1));
        // A little higher here, because a key goes to the emptier of its two places.
        near(race, [0.53, 0.76, 0.84, 0.89, 0.91], 0.06);
        let buckets = reads.map(|read| load::<Associative>(read, 500, 1));
        for (number, load) in buckets.into_iter().enumerate() {
            assert!(load < race[number] && race[number] < hops[number]);
        }
    }

    /// Some load factors of buckets follow from counting: with one slot in each of 128 buckets,
    /// keys find room until two hash to the same, which is after 13.7 on average (the birthday
    /// problem).
    #[test]
    fn buckets_of_one_slot_fill_as_birthdays_collide() {
        let load = load::<Associative>(1, 2000, 1);
        assert!((load * 128.0 - 13.7).abs() < 0.6, "{load}");
    }

    #[test]
    fn nothing_lies_outside_its_neighborhood() {
        for farm in [false, true] {
            let random = &mut SmallRng::seed_from_u64(3);
            let mut entries = 0;
            let homes = if farm {
                let mut table = HopscotchHashing::<true>::new(8);
                while table.insert([random.random_range(0..1 << 40), 0]) {
                    entries += 1;
                }
                table.homes
            } else {
                let mut table = HopscotchHashing::<false>::new(8);
                while table.insert([random.random_range(0..1 << 40), 0]) {
                    entries += 1;
                }
                table.homes
            };
            assert_eq!(homes.iter().flatten().count(), entries);
            for (slot, home) in homes.iter().enumerate() {
                let home = home.unwrap_or(slot);
                assert!((slot + homes.len() - home) % homes.len() < 8);
            }
        }
    }
}

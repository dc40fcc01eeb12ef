//! Decisions about modules with a greater load than others. Source: RADAR, section IV-B.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The cost of moving keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Price {
    /// The cost by formulas 2 to 5 of the paper, in followed pointers: moving a key costs `per_key`
    /// more than reading it.
    Formulas {
        /// Number of pointers that could be followed while a key is moved.
        per_key: f64,
    },
    /// The cost of a key as a part of an operation: the time in which its two modules transfer it,
    /// independent of the number of other modules.
    Transfer {
        /// Number of operations per key.
        per_key: f64,
    },
}

/// The parameters that decide if a move pays off: costs of moving and reading keys, and the limits
/// of load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// Average number of pointers that a point operation follows.
    pub point: f64,
    /// Average number of pointers that a range operation follows.
    pub range: f64,
    /// Fraction of point operations among all (β).
    pub points: f64,
    /// Number of operations on keys that have no subrange yet.
    pub coming: u64,
    /// Logarithm to base 2 of the number of keys of a module.
    pub height: f64,
    /// Multiple of the average load above which a module is busy.
    pub tolerance: f64,
    /// Slack above that, in operations.
    pub chance: f64,
    pub price: Price,
}

impl Costs {
    /// Returns the cost of moving `keys` keys to another module, in operations (formulas 2 to 5).
    fn of_moving(&self, keys: u64) -> f64 {
        let keys = keys as f64;
        match self.price {
            Price::Formulas { per_key } => {
                let cost = self.point + (self.height + keys) + keys * per_key;
                let average = self.points * self.point + (1.0 - self.points) * self.range;
                cost / average.max(1.0)
            }
            Price::Transfer { per_key } => 1.0 + keys * per_key,
        }
    }

    /// Returns the load above which a module is busy.
    pub fn much(&self, loads: &[u64]) -> u64 {
        (self.fair(loads) as f64 * self.tolerance + self.chance) as u64
    }

    /// Returns the fair load: that of each module if all had the same.
    fn fair(&self, loads: &[u64]) -> u64 {
        let total: u64 = loads.iter().sum();
        (total + self.coming).div_ceil(loads.len().max(1) as u64)
    }
}

/// The rule by which subranges are divided into parts of the same length.
#[derive(Clone, Copy, Debug)]
pub(super) struct DivisionRule {
    /// Greatest number of parts, a power of two.
    pub fanout: u64,
    /// Number of bits in which keys differ of a subrange that cannot be divided.
    pub finest: u32,
    /// True if a moved subrange is divided at once until each part has at most a [`SHARE`] of a
    /// module's fair load, and only parts that are too hot for a module and cannot be divided are
    /// pulled or copied. False if it is divided once, into `fanout` parts.
    pub goes_on: bool,
    /// The greatest number of copies of a part that is only read and cannot be divided; 1 means
    /// none.
    pub copies_max: usize,
}

/// A subrange, with the load that the decision needs.
#[derive(Clone, Debug)]
pub(super) struct Subrange {
    pub start: u64,
    pub last: u64,
    pub module: usize,
    pub keys: u64,
    /// The weight of the batch's operations on the subrange.
    pub weight: u64,
    /// The key and weight of each operation, in ascending order.
    pub wanted: Vec<(u64, u64)>,
    /// The keys in `wanted` of operations that search for the greatest key at or below another.
    /// Each has weight one.
    pub floors: Vec<u64>,
    /// True if none of the operations is a write.
    pub is_read: bool,
}

impl Subrange {
    /// Updates the load after the keys were read; `keys` are in ascending order. The work of a
    /// predecessor is at the key that it finds, which may be far below the given one, and in
    /// another part. Predecessors that find no key here find one in another subrange.
    fn know(&mut self, keys: &[u64]) {
        debug_assert!(keys.is_sorted());
        let mut floors = self.floors.iter().copied().peekable();
        // Both lists are sorted, so one pass drops the searches from the keys that they were given.
        self.wanted.retain(|&(key, weight)| {
            let is_floor = weight == 1 && floors.peek() == Some(&key);
            if is_floor {
                floors.next();
            }
            !is_floor
        });
        let found = self.floors.iter().filter_map(|&floor| {
            let below = keys.partition_point(|&key| key <= floor);
            Some((keys[below.checked_sub(1)?], 1))
        });
        self.wanted.extend(found);
        self.wanted.sort_unstable();
        self.weight = self.wanted.iter().map(|&(_, weight)| weight).sum();
        self.keys = keys.len() as u64;
    }
}

/// Returns the number of bits in which keys of a range differ.
fn bits(start: u64, last: u64) -> u32 {
    u64::BITS - (last - start).leading_zeros()
}

/// The target of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PieceTarget {
    Module(usize),
    Host,
    /// Copies in all of these modules.
    Modules(Vec<usize>),
}

/// Number of parts that make up a module's fair load. Modules are filled with parts one by one, so
/// the last part may exceed the fair load by its own.
pub(super) const SHARE: u64 = 4;

/// A piece of a moved subrange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SubrangePiece {
    pub start: u64,
    pub last: u64,
    /// The weight of operations on the piece.
    weight: u64,
    /// True if the operations may include writes, so that the piece is needed even without keys.
    pub is_written: bool,
    pub target: PieceTarget,
}

/// The fair load of a module, and the load above which it is busy.
#[derive(Clone, Copy, Debug)]
struct ModuleLoadLimits {
    fair: u64,
    much: u64,
}

impl ModuleLoadLimits {
    fn new(loads: &[u64], costs: &Costs) -> ModuleLoadLimits {
        ModuleLoadLimits {
            fair: costs.fair(loads),
            much: costs.much(loads),
        }
    }
}

/// Cuts a subrange into pieces by the rule `division`. Pieces that cannot be divided and exceed the
/// load of a module are marked for the host.
fn cut(
    subrange: &Subrange,
    division: &DivisionRule,
    limits: ModuleLoadLimits,
    home: usize,
) -> Vec<SubrangePiece> {
    let mut pieces = Vec::new();
    let whole = SubrangePiece {
        start: subrange.start,
        last: subrange.last,
        weight: subrange.weight,
        is_written: false,
        target: PieceTarget::Module(home),
    };
    let grain = (limits.fair / SHARE).max(1);
    // Pieces are divided depth first and from the first on, so they come out in the order of their
    // keys.
    let mut waiting = vec![(whole, &subrange.wanted[..])];
    let mut is_first = true;
    while let Some((mut piece, wanted)) = waiting.pop() {
        let (is_hot, is_too_hot, parts) = match division.goes_on {
            true => (
                piece.weight > grain,
                piece.weight > limits.much,
                piece.weight.div_ceil(grain).next_power_of_two(),
            ),
            false => (is_first, is_first, division.fanout),
        };
        is_first = false;
        if bits(piece.start, piece.last) <= division.finest {
            if is_too_hot {
                // No division makes it cooler, so the host must bear it, or copies.
                piece.target = PieceTarget::Host;
            }
            pieces.push(piece);
            continue;
        }
        // A part with most of its load on one key stays hot after any division, so it is not
        // divided if a module can bear it.
        if !is_hot || !is_too_hot && 4 * hottest(wanted) > 3 * piece.weight {
            pieces.push(piece);
        } else {
            waiting.extend(parts_of(&piece, wanted, parts.min(division.fanout)));
        }
    }
    pieces
}

/// Returns the weight on the most requested key.
fn hottest(wanted: &[(u64, u64)]) -> u64 {
    let keys = wanted.chunk_by(|one, other| one.0 == other.0);
    let weights = keys.map(|of| of.iter().map(|&(_, weight)| weight).sum());
    weights.max().unwrap_or(0)
}

/// Divides a piece into `parts` parts, or into as many as it has keys. Returns them with their
/// requests, the last part first.
fn parts_of<'w>(
    piece: &SubrangePiece,
    wanted: &'w [(u64, u64)],
    parts: u64,
) -> Vec<(SubrangePiece, &'w [(u64, u64)])> {
    // The number of keys in the whole key space does not fit in 64 bits.
    let keys = 1_u64.checked_shl(bits(piece.start, piece.last));
    let parts = keys.map_or(parts, |keys| keys.min(parts));
    debug_assert!(parts.is_power_of_two(), "parts have the same length");
    let width = (piece.last - piece.start) / parts;
    let mut rest = wanted;
    let parts = (0..parts).rev().map(|part| {
        let start = piece.start + (width + 1) * part;
        let (before, own) = rest.split_at(rest.partition_point(|&(key, _)| key < start));
        rest = before;
        let part = SubrangePiece {
            start,
            last: start + width,
            weight: own.iter().map(|&(_, weight)| weight).sum(),
            is_written: false,
            target: piece.target.clone(),
        };
        (part, own)
    });
    parts.collect()
}

/// Decides which subranges to divide, given their loads in the batch. Begins with the busiest
/// module, and continues until no move is worth its cost. Pieces go to the least loaded idle
/// modules, the piece with the greatest load first. Returns the subranges to divide.
pub(super) fn decide(
    loads: &[u64],
    subranges: Vec<Subrange>,
    division: &DivisionRule,
    costs: &Costs,
) -> Vec<Subrange> {
    let limits = ModuleLoadLimits::new(loads, costs);
    let mut of_module: BTreeMap<usize, Vec<Subrange>> = BTreeMap::new();
    for subrange in subranges {
        of_module.entry(subrange.module).or_default().push(subrange);
    }
    let mut busy: Vec<(usize, Vec<Subrange>)> = of_module.into_iter().collect();
    busy.sort_by_key(|&(module, _)| Reverse(loads[module]));
    let mut moved = Vec::new();
    let mut state = After::new(loads);
    for (module, mut own) in busy {
        own.sort_by_key(|subrange| Reverse(subrange.weight));
        for subrange in own {
            let before = state.loads[module];
            // The move would not pay off even if all operations of the subrange left the module.
            let cost = costs.of_moving(subrange.keys);
            if before <= limits.much || subrange.weight as f64 <= cost {
                break;
            }
            let mut pieces = cut(&subrange, division, limits, module);
            // The decision is tried on a copy. The keys are unknown yet, so the load of each piece
            // is that of its operations.
            let mut after = state.clone();
            after.loads[module] -= subrange.weight;
            assign(&mut after, &mut pieces, &subrange, division, limits);
            // A subrange of which no piece moves stays as it is.
            let stays = |piece: &SubrangePiece| piece.target == PieceTarget::Module(module);
            let benefit = before.saturating_sub(after.most) as f64;
            if benefit > cost && !pieces.iter().all(stays) {
                state = after;
                moved.push(subrange);
            }
        }
    }
    moved
}

/// Chooses the pieces of divided subranges and their modules once the keys are known, the piece
/// with the greatest load first. `keys` returns the keys of a subrange by its number, or `None` if
/// it stays. Returns the pieces by number. `loads` are the loads of modules, which are updated.
pub(super) fn place(
    loads: &mut [u64],
    mut moved: Vec<Subrange>,
    division: &DivisionRule,
    costs: &Costs,
    keys: impl Fn(usize) -> Option<Vec<u64>>,
) -> Vec<Vec<SubrangePiece>> {
    let mut state = After::new(loads);
    let mut placed = vec![Vec::new(); moved.len()];
    let mut known = Vec::new();
    for (number, subrange) in moved.iter_mut().enumerate() {
        if let Some(keys) = keys(number) {
            let (module, before) = (subrange.module, subrange.weight);
            subrange.know(&keys);
            debug_assert!(
                subrange.weight <= before,
                "only searches move, to other subranges"
            );
            state.loads[module] -= before;
            // All divided subranges leave their modules before the first piece is placed. The
            // limits still count them where they were, so the fair load stays.
            loads[module] -= before - subrange.weight;
            known.push(number);
        }
    }
    let limits = ModuleLoadLimits::new(loads, costs);
    known.sort_by_key(|&number| Reverse(moved[number].weight));
    for number in known {
        let subrange = &moved[number];
        let mut pieces = cut(subrange, division, limits, subrange.module);
        assign(&mut state, &mut pieces, subrange, division, limits);
        for piece in &mut pieces {
            piece.is_written = piece.weight > 0 && !subrange.is_read;
        }
        placed[number] = pieces;
    }
    loads.copy_from_slice(&state.loads);
    placed
}

/// The loads of modules after a move.
#[derive(Clone, Debug)]
struct After {
    loads: Vec<u64>,
    /// Load of building pieces, in keys plus one for each piece. Without it, all pieces without
    /// requests in this batch would go to one module, although they take as long to build as
    /// others.
    building: Vec<u64>,
    /// The greatest load of the modules that the move changes, without parts that will be divided
    /// again.
    most: u64,
}

impl After {
    fn new(loads: &[u64]) -> After {
        After {
            loads: loads.to_vec(),
            building: vec![0; loads.len()],
            most: 0,
        }
    }
}

/// Chooses the modules for pieces of a subrange, whose load has been taken from its module.
fn assign(
    state: &mut After,
    pieces: &mut [SubrangePiece],
    subrange: &Subrange,
    division: &DivisionRule,
    limits: ModuleLoadLimits,
) {
    let (module, fair) = (subrange.module, limits.fair);
    // If subranges are divided once per batch, a hot part is divided again in the next batch, until
    // it can be pulled: "until it cannot be further split" (section IV-B). If each part had to be
    // cool at once, a single hot key would stay in its module forever.
    let is_divided_on = |piece: &SubrangePiece| {
        !division.goes_on && piece.weight > limits.much && piece.target != PieceTarget::Host
    };
    let After {
        loads,
        building,
        most,
    } = state;
    *most = loads[module];
    // The number of keys of each piece is an estimate until they are read.
    let keys = 1 + subrange.keys / pieces.len().max(1) as u64;
    // The module itself is no target: a piece stays there only if no other is idle.
    let mut idle: BinaryHeap<Reverse<(u64, usize)>> = (0..loads.len())
        .filter(|&other| loads[other] < fair && other != module)
        .map(|other| Reverse((loads[other] + building[other], other)))
        .collect();
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&piece| Reverse(pieces[piece].weight));
    for piece in order {
        let piece = &mut pieces[piece];
        let is_on = is_divided_on(piece);
        let copies = match piece.target {
            // The host could take it, but a part that is only read can be copied instead.
            PieceTarget::Host if subrange.is_read && division.copies_max > 1 => {
                let needed = piece.weight.div_ceil(fair.max(1)) as usize;
                // Too few copies would leave each module busy, so the host takes the piece.
                if needed > division.copies_max {
                    continue;
                }
                needed
            }
            PieceTarget::Host => continue,
            _ => 1,
        };
        let mut taken = Vec::new();
        let each = piece.weight.div_ceil(copies as u64);
        for _ in 0..copies {
            let Some(Reverse((_, target))) = idle.pop() else {
                break;
            };
            loads[target] += each;
            building[target] += keys;
            taken.push(target);
        }
        match taken[..] {
            [] => {
                // A piece for the host makes no load in a module.
                if piece.target == PieceTarget::Module(module) {
                    loads[module] += piece.weight;
                }
                *most = (*most).max(loads[module]);
                continue;
            }
            [target] => piece.target = PieceTarget::Module(target),
            _ => piece.target = PieceTarget::Modules(taken.clone()),
        }
        for target in taken {
            // A hot part that is divided again in the next batch must not speak against this move.
            if !is_on {
                *most = (*most).max(loads[target]);
            }
            idle.push(Reverse((loads[target] + building[target], target)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the costs by the figures of the paper's machine: about one operation for each 24
    /// keys.
    fn costs() -> Costs {
        Costs {
            point: 25.0,
            range: 500.0,
            points: 1.0,
            coming: 0,
            tolerance: 1.0,
            chance: 0.0,
            height: 17.9,
            price: Price::Formulas { per_key: 0.091 },
        }
    }

    const DIVISION: DivisionRule = DivisionRule {
        fanout: 4,
        finest: 4,
        goes_on: false,
        copies_max: 1,
    };

    #[test]
    fn moving_costs_what_is_derived_from_the_paper() {
        // Reference: the break-even is at 10.7 thousand operations for 244,140 keys, 668 for
        // 15,258, and 7 for 119.
        for (keys, operations) in [
            (244_140, 10_700.0),
            (15_258, 668.0),
            (3_815, 168.0),
            (119, 7.0),
        ] {
            let cost = costs().of_moving(keys);
            let near = f64::abs(cost - operations) / operations;
            assert!(near < 0.03, "{keys}: {cost}");
        }
    }

    /// Returns a subrange of 64 numbers of the key space, with operations on some of them.
    fn subrange(start: u64, module: usize, keys: u64, wanted: &[(u64, u64)]) -> Subrange {
        Subrange {
            start,
            last: start + 63,
            module,
            keys,
            weight: wanted.iter().map(|&(_, weight)| weight).sum(),
            wanted: wanted.to_vec(),
            floors: Vec::new(),
            is_read: false,
        }
    }

    /// Returns a divided subrange, by its start, and its pieces.
    fn divided(
        loads: &mut [u64],
        subranges: Vec<Subrange>,
        division: &DivisionRule,
    ) -> BTreeMap<u64, Vec<SubrangePiece>> {
        let moved = decide(loads, subranges, division, &costs());
        let starts: Vec<u64> = moved.iter().map(|subrange| subrange.start).collect();
        let placed = place(loads, moved, division, &costs(), |_| Some(Vec::new()));
        starts.into_iter().zip(placed).collect()
    }

    #[test]
    fn what_is_even_stays_as_it_is() {
        let subranges = (0..4).map(|m| subrange(m * 64, m as usize, 100, &[(m * 64, 100)]));
        let mut loads = [100; 4];
        assert!(divided(&mut loads, subranges.collect(), &DIVISION).is_empty());
    }

    #[test]
    fn what_is_busy_is_divided_if_that_is_worth_its_keys() {
        let subranges = |keys| {
            let hot = [(0, 1000), (16, 1000), (40, 1000), (63, 1000)];
            vec![subrange(0, 0, keys, &hot)]
        };
        let mut loads = [4000, 10, 10, 10];
        let moves = divided(&mut loads, subranges(1000), &DIVISION);
        let starts: Vec<u64> = moves[&0].iter().map(|piece| piece.start).collect();
        assert_eq!(starts, [0, 16, 32, 48]);
        assert!(loads.iter().max() <= Some(&2010), "{loads:?}");
        assert_eq!(loads.iter().sum::<u64>(), 4030);
        let mut loads = [4000, 10, 10, 10];
        assert!(divided(&mut loads, subranges(10_000_000), &DIVISION).is_empty());
    }

    #[test]
    fn no_part_is_smaller_than_a_key() {
        let mut two = subrange(0, 0, 2, &[(1, 1000)]);
        two.last = 1;
        let division = DivisionRule {
            finest: 0,
            ..DIVISION
        };
        let limits = ModuleLoadLimits { fair: 10, much: 10 };
        let pieces = cut(&two, &division, limits, 0);
        let parts: Vec<(u64, u64)> = pieces
            .iter()
            .map(|piece| (piece.start, piece.last))
            .collect();
        assert_eq!(parts, [(0, 0), (1, 1)]);
    }

    #[test]
    fn the_finest_is_pulled() {
        let mut finest = subrange(0, 0, 100, &[(0, 1000)]);
        finest.last = 15;
        let subranges = vec![finest, subrange(64, 0, 100, &[(70, 3)])];
        let mut loads = [1003, 0, 0];
        let moves = divided(&mut loads, subranges, &DIVISION);
        assert_eq!(moves.len(), 1);
        assert_eq!(moves[&0].len(), 1);
        assert_eq!(moves[&0][0].target, PieceTarget::Host);
        assert_eq!(loads, [3, 0, 0]);
    }

    /// A single hot key makes its part hot in any module. By the paper it takes one batch for each
    /// division, and one more to pull the key.
    #[test]
    fn a_hot_key_in_a_large_subrange_comes_out_of_it() {
        let hot = |is_read| Subrange {
            is_read,
            ..subrange(0, 0, 1000, &[(5, 10), (21, 1000), (40, 10)])
        };
        let loads = [1020, 10, 10, 10];
        let mut after = loads;
        let moves = divided(&mut after, vec![hot(false)], &DIVISION);
        let part = &moves[&0][1];
        let PieceTarget::Module(module) = part.target else {
            panic!("{moves:?}")
        };
        assert_eq!((part.start, part.last, part.weight), (16, 31, 1000));
        assert_eq!(after[module], 1010);
        let part = Subrange {
            last: part.last,
            ..subrange(part.start, module, 250, &[(21, 1000)])
        };
        let moves = divided(&mut after, vec![part], &DIVISION);
        assert_eq!(moves[&16][0].target, PieceTarget::Host);
        assert!(after.iter().max() <= Some(&20), "{after:?}");
        let division = DivisionRule {
            goes_on: true,
            finest: 2,
            copies_max: 8,
            ..DIVISION
        };
        let mut after = loads;
        let moves = divided(&mut after, vec![hot(false)], &division);
        let of_host = moves[&0]
            .iter()
            .filter(|piece| piece.target == PieceTarget::Host);
        let of_host: Vec<u64> = of_host.map(|piece| piece.start).collect();
        assert_eq!((of_host, moves[&0].len()), (vec![20], 7));
        assert_eq!(after.iter().sum::<u64>(), 50);
        // The pieces cover the keys without gaps.
        let mut next = 0;
        for piece in &moves[&0] {
            assert_eq!(piece.start, next);
            next = piece.last + 1;
        }
        assert_eq!(next, 64);
        // A part that is only read is copied.
        let mut after = loads;
        let moves = divided(&mut after, vec![hot(true)], &division);
        let copies = moves[&0].iter().find(|piece| piece.start == 20);
        let Some(PieceTarget::Modules(modules)) = copies.map(|piece| &piece.target) else {
            panic!("{moves:?}")
        };
        assert!(modules.len() > 1);
        assert!(after.iter().max() < Some(&600), "{after:?}");
    }

    /// The only keys are 3 and 60, so all searches between them find 3.
    #[test]
    fn predecessors_work_where_they_find_something() {
        let floors: Vec<u64> = (0..1000).map(|number| 4 + number % 56).collect();
        let mut hot = subrange(0, 0, 2, &[]);
        hot.wanted = floors.iter().map(|&key| (key, 1)).collect();
        hot.wanted.push((60, 1));
        hot.wanted.sort_unstable();
        hot.floors = floors;
        hot.floors.sort_unstable();
        hot.weight = 1001;
        hot.know(&[3, 60]);
        assert_eq!((hot.wanted.len(), hot.keys), (1001, 2));
        assert_eq!(
            hot.wanted.iter().filter(|&&(key, _)| key == 3).count(),
            1000
        );
        assert_eq!(hot.wanted[1000], (60, 1));
        // A search below all keys finds nothing here, but others do.
        let mut hot = subrange(0, 0, 2, &[(2, 1), (2, 5)]);
        hot.floors = vec![2];
        hot.know(&[3, 60]);
        assert_eq!((hot.wanted, hot.weight), (vec![(2, 5)], 5));
    }

    /// The fair load does not depend on the number of moved subranges that come from one module.
    #[test]
    fn much_that_comes_from_one_module_is_spread_over_all_others() {
        let hot = |start| {
            subrange(
                start,
                0,
                10,
                &[(start, 100), (start + 16, 100), (start + 40, 100)],
            )
        };
        let mut loads = [2400, 0, 0, 0, 0, 0, 0, 0];
        let moved = (0..8).map(|number| hot(64 * number)).collect();
        let division = DivisionRule {
            goes_on: true,
            ..DIVISION
        };
        divided(&mut loads, moved, &division);
        assert_eq!(loads.iter().sum::<u64>(), 2400);
        assert!(loads[1..].iter().max() <= Some(&400), "{loads:?}");
        assert!(loads[1..].iter().min() >= Some(&200), "{loads:?}");
    }

    /// A subrange whose module cannot return its keys keeps its work there.
    #[test]
    fn what_cannot_be_read_stays() {
        let hot = [(0, 1000), (16, 1000), (40, 1000), (63, 1000)];
        let subranges = vec![subrange(0, 0, 100, &hot)];
        let mut loads = [4000, 10, 10, 10];
        let moved = decide(&loads, subranges, &DIVISION, &costs());
        assert_eq!(moved.len(), 1);
        let placed = place(&mut loads, moved, &DIVISION, &costs(), |_| None);
        assert_eq!((placed, loads), (vec![Vec::new()], [4000, 10, 10, 10]));
    }

    /// A part can have any load from half of a share on, depending on its operations.
    #[test]
    fn what_is_a_little_too_hot_is_divided_into_few() {
        let division = DivisionRule {
            fanout: 32,
            finest: 0,
            goes_on: true,
            ..DIVISION
        };
        let limits = ModuleLoadLimits {
            fair: 100,
            much: 110,
        };
        let even: Vec<(u64, u64)> = (0..64).map(|key| (key, 1)).collect();
        let widths = |wanted: &[(u64, u64)]| -> Vec<u64> {
            let pieces = cut(&subrange(0, 0, 64, wanted), &division, limits, 0);
            let widths = pieces.iter().map(|piece| piece.last - piece.start + 1);
            widths.collect()
        };
        assert_eq!(widths(&even), [16; 4]);
        assert_eq!(widths(&even[..20]), [64]);
        // A key that is as hot as a part may be, or hotter, stays with others. A half that is as
        // hot is divided.
        assert_eq!(widths(&[(3, 1), (5, 90)]), [64]);
        assert_eq!(
            widths(&(0..30).map(|key| (key, 2)).collect::<Vec<_>>()).len(),
            6
        );
        assert_eq!(widths(&[(3, 1), (5, 120)]).iter().sum::<u64>(), 64);
        assert!(widths(&[(3, 1), (5, 120)]).contains(&1));
    }
}

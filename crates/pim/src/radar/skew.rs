//! What is to be done about modules that have more to do than others. Source: RADAR, section IV-B.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// By what moving keys is weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Price {
    /// Formulas 2 to 5 of the paper, in pointers that are followed: what is moved takes `per_key` more for each
    /// key than reading it.
    Formulas {
        /// Pointers that are followed while a key is moved.
        per_key: f64,
    },
    /// A key takes as much as this part of an operation: what the two modules that it goes between transfer
    /// takes time by itself, however many others there are.
    Transfer {
        /// Operations for each key.
        per_key: f64,
    },
}

/// What moving a key and looking at one take, by which moving is weighed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// Pointers that a point operation follows, on the average.
    pub point: f64,
    /// The same of a range operation.
    pub range: f64,
    /// The part of the operations that are point operations (β).
    pub points: f64,
    /// log2 of the keys of a module.
    pub height: f64,
    /// A module is busy that has so many times as much to do as the average.
    pub tolerance: f64,
    /// And so much more.
    pub chance: f64,
    pub price: Price,
}

impl Costs {
    /// What it takes to take `keys` keys out of a module and put them elsewhere, in operations (formulas 2 to 5).
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

    /// Modules with more to do than this are busy.
    pub fn much(&self, loads: &[u64]) -> u64 {
        (fair(loads) as f64 * self.tolerance + self.chance) as u64
    }
}

/// What each module would have if all had the same.
fn fair(loads: &[u64]) -> u64 {
    let total: u64 = loads.iter().sum();
    total.div_ceil(loads.len().max(1) as u64)
}

/// Into how many parts of the same length subranges are divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// A power of two.
    pub fanout: u64,
    /// The bits in which keys differ of a subrange that cannot be divided.
    pub finest: u32,
    /// Whether a part with more to do than a module should have is divided at once, and what then cannot be
    /// divided is pulled or copied.
    pub goes_on: bool,
    /// How many copies there may be of what is only read and cannot be divided; 1: none.
    pub copies_max: usize,
}

/// A subrange as the decision sees it.
#[derive(Clone, Debug)]
pub(super) struct Subrange {
    pub start: u64,
    pub last: u64,
    pub module: usize,
    pub keys: u64,
    /// What the operations of this batch on it count for.
    pub weight: u64,
    /// Where each works, and what it counts for, in ascending order.
    pub wanted: Vec<(u64, u64)>,
    /// Whether none of them is a write.
    pub is_read: bool,
}

/// The bits in which keys differ.
fn bits(start: u64, last: u64) -> u32 {
    u64::BITS - (last - start).leading_zeros()
}

/// Where a part goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Module(usize),
    Host,
    /// All of these.
    Modules(Vec<usize>),
}

/// A part of what is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub start: u64,
    pub last: u64,
    /// What operations on it count for.
    weight: u64,
    pub target: Target,
}

/// Divides a subrange, and what in it has more to do than `much` again, as far as `division` allows; parts
/// that cannot be divided then are to leave it.
fn cut(subrange: &Subrange, division: &Division, much: u64, home: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let whole = Piece {
        start: subrange.start,
        last: subrange.last,
        weight: subrange.weight,
        target: Target::Module(home),
    };
    let mut waiting = vec![(whole, &subrange.wanted[..])];
    let mut is_first = true;
    while let Some((mut piece, wanted)) = waiting.pop() {
        let is_finest = bits(piece.start, piece.last) <= division.finest;
        let is_hot = is_first || division.goes_on && piece.weight > much;
        if !is_hot || is_finest {
            if is_hot {
                piece.target = Target::Host;
            }
            pieces.push(piece);
            continue;
        }
        is_first = false;
        // Less one, as the whole key space has no width that is a number.
        let keys = 1_u64.checked_shl(bits(piece.start, piece.last));
        let parts = keys.map_or(division.fanout, |keys| keys.min(division.fanout));
        let width = (piece.last - piece.start) / parts;
        let mut rest = wanted;
        // The last is taken first.
        for part in (0..parts).rev() {
            let start = piece.start + (width + 1) * part;
            let (before, own) = rest.split_at(rest.partition_point(|&(key, _)| key < start));
            rest = before;
            let piece = Piece {
                start,
                last: start + width,
                weight: own.iter().map(|&(_, weight)| weight).sum(),
                target: Target::Module(home),
            };
            waiting.push((piece, own));
        }
        // In the order of their keys, as the first is on top.
    }
    pieces
}

/// Decides about subranges, from the busiest module down, of which each has so much to do in this batch,
/// until no move is worth its cost. Pieces go to the least loaded modules of those that are idle, that with most
/// to do first. Answers what is divided, by where it begins.
pub(super) fn decide(
    loads: &mut [u64],
    subranges: Vec<Subrange>,
    division: &Division,
    costs: &Costs,
) -> BTreeMap<u64, Vec<Piece>> {
    let (fair, much) = (fair(loads), costs.much(loads));
    let mut of_module: BTreeMap<usize, Vec<Subrange>> = BTreeMap::new();
    for subrange in subranges {
        of_module.entry(subrange.module).or_default().push(subrange);
    }
    let mut busy: Vec<(usize, Vec<Subrange>)> = of_module.into_iter().collect();
    busy.sort_by_key(|&(module, _)| Reverse(loads[module]));
    let mut moves = BTreeMap::new();
    let mut state = After {
        loads: loads.to_vec(),
        pieces: vec![0; loads.len()],
        most: 0,
    };
    for (module, mut own) in busy {
        own.sort_by_key(|subrange| Reverse(subrange.weight));
        for subrange in own {
            let before = state.loads[module];
            // Not even if all its operations went would it be worth it.
            let cost = costs.of_moving(subrange.keys);
            if before <= much || subrange.weight as f64 <= cost {
                break;
            }
            let mut pieces = cut(&subrange, division, much, module);
            let after = assign(&state, &mut pieces, &subrange, division, fair);
            // A subrange of which nothing can go elsewhere stays as it is.
            let stays = |piece: &Piece| piece.target == Target::Module(module);
            let benefit = before.saturating_sub(after.most) as f64;
            if benefit > cost && !pieces.iter().all(stays) {
                state = after;
                moves.insert(subrange.start, pieces);
            }
        }
    }
    loads.copy_from_slice(&state.loads);
    moves
}

/// What modules would have to do.
struct After {
    loads: Vec<u64>,
    /// How many pieces each gets. Of those that have as much to do, who gets fewest is next, as pieces that nobody asks for
    /// in this batch, which are as long to build as others, would all go to one.
    pieces: Vec<u32>,
    /// The most of those that the move changes.
    most: u64,
}

/// Chooses where pieces go.
fn assign(
    before: &After,
    pieces: &mut [Piece],
    subrange: &Subrange,
    division: &Division,
    fair: u64,
) -> After {
    let module = subrange.module;
    let (mut loads, mut received) = (before.loads.clone(), before.pieces.clone());
    loads[module] -= subrange.weight;
    let mut most = loads[module];
    let mut idle: BinaryHeap<Reverse<(u64, u32, usize)>> = (0..loads.len())
        .filter(|&other| loads[other] < fair && other != module)
        .map(|other| Reverse((loads[other], received[other], other)))
        .collect();
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&piece| Reverse(pieces[piece].weight));
    for piece in order {
        let piece = &mut pieces[piece];
        let copies = match piece.target {
            // The host has time, but what is only read need not come to it.
            Target::Host if subrange.is_read && division.copies_max > 1 => {
                let needed = piece.weight.div_ceil(fair.max(1)) as usize;
                if needed > division.copies_max {
                    continue;
                }
                needed
            }
            Target::Host => continue,
            _ => 1,
        };
        let mut taken = Vec::new();
        let each = piece.weight.div_ceil(copies as u64);
        for _ in 0..copies {
            let Some(Reverse((load, pieces, target))) = idle.pop() else {
                break;
            };
            loads[target] = load + each;
            received[target] = pieces + 1;
            taken.push(target);
        }
        match taken[..] {
            [] => {
                if piece.target == Target::Module(module) {
                    loads[module] += piece.weight;
                }
                most = most.max(loads[module]);
                continue;
            }
            [target] => piece.target = Target::Module(target),
            _ => piece.target = Target::Modules(taken.clone()),
        }
        for target in taken {
            most = most.max(loads[target]);
            idle.push(Reverse((loads[target], received[target], target)));
        }
    }
    After {
        loads,
        pieces: received,
        most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the figures of the paper's machine: about one operation for each 24 keys.
    fn costs() -> Costs {
        Costs {
            point: 25.0,
            range: 500.0,
            points: 1.0,
            tolerance: 1.0,
            chance: 0.0,
            height: 17.9,
            price: Price::Formulas { per_key: 0.091 },
        }
    }

    const DIVISION: Division = Division {
        fanout: 4,
        finest: 4,
        goes_on: false,
        copies_max: 1,
    };

    #[test]
    fn moving_costs_what_is_derived_from_the_paper() {
        // Reference: break-even of 10.7 thousand operations for 244,140 keys, 668 for 15,258, 7 for 119.
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

    /// A subrange of 64 keys of the key space, with operations on some.
    fn subrange(start: u64, module: usize, keys: u64, wanted: &[(u64, u64)]) -> Subrange {
        Subrange {
            start,
            last: start + 63,
            module,
            keys,
            weight: wanted.iter().map(|&(_, weight)| weight).sum(),
            wanted: wanted.to_vec(),
            is_read: false,
        }
    }

    #[test]
    fn what_is_even_stays_as_it_is() {
        let subranges = (0..4).map(|m| subrange(m * 64, m as usize, 100, &[(m * 64, 100)]));
        let mut loads = [100; 4];
        assert!(decide(&mut loads, subranges.collect(), &DIVISION, &costs()).is_empty());
    }

    #[test]
    fn what_is_busy_is_divided_if_that_is_worth_its_keys() {
        let subranges = |keys| {
            let hot = [(0, 1000), (16, 1000), (40, 1000), (63, 1000)];
            vec![subrange(0, 0, keys, &hot)]
        };
        let mut loads = [4000, 10, 10, 10];
        let moves = decide(&mut loads, subranges(1000), &DIVISION, &costs());
        let starts: Vec<u64> = moves[&0].iter().map(|piece| piece.start).collect();
        assert_eq!(starts, [0, 16, 32, 48]);
        assert!(loads.iter().max() <= Some(&2010), "{loads:?}");
        assert_eq!(loads.iter().sum::<u64>(), 4030);
        let mut loads = [4000, 10, 10, 10];
        assert!(decide(&mut loads, subranges(10_000_000), &DIVISION, &costs()).is_empty());
    }

    #[test]
    fn no_part_is_smaller_than_a_key() {
        let mut two = subrange(0, 0, 2, &[(1, 1000)]);
        two.last = 1;
        let division = Division {
            finest: 0,
            ..DIVISION
        };
        let pieces = cut(&two, &division, 10, 0);
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
        let moves = decide(&mut loads, subranges, &DIVISION, &costs());
        assert_eq!(moves.len(), 1);
        assert_eq!(moves[&0].len(), 1);
        assert_eq!(moves[&0][0].target, Target::Host);
        assert_eq!(loads, [3, 0, 0]);
    }

    /// A key that is hot by itself would be as hot wherever its part goes.
    #[test]
    fn a_hot_key_in_a_large_subrange_comes_out_of_it_at_once() {
        let hot = |is_read| Subrange {
            is_read,
            ..subrange(0, 0, 1000, &[(5, 10), (21, 1000), (40, 10)])
        };
        let loads = [1020, 10, 10, 10];
        let by_the_paper = decide(&mut loads.clone(), vec![hot(false)], &DIVISION, &costs());
        assert!(by_the_paper.is_empty());
        let division = Division {
            goes_on: true,
            finest: 2,
            copies_max: 8,
            ..DIVISION
        };
        let mut after = loads;
        let moves = decide(&mut after, vec![hot(false)], &division, &costs());
        let of_host = moves[&0]
            .iter()
            .filter(|piece| piece.target == Target::Host);
        let of_host: Vec<u64> = of_host.map(|piece| piece.start).collect();
        assert_eq!((of_host, moves[&0].len()), (vec![20], 7));
        assert_eq!(after.iter().sum::<u64>(), 50);
        // Keys of pieces follow each other, none missing.
        let mut next = 0;
        for piece in &moves[&0] {
            assert_eq!(piece.start, next);
            next = piece.last + 1;
        }
        assert_eq!(next, 64);
        // What is only read is copied.
        let mut after = loads;
        let moves = decide(&mut after, vec![hot(true)], &division, &costs());
        let copies = moves[&0].iter().find(|piece| piece.start == 20);
        let Some(Target::Modules(modules)) = copies.map(|piece| &piece.target) else {
            panic!("{moves:?}")
        };
        assert!(modules.len() > 1);
        assert!(after.iter().max() < Some(&600), "{after:?}");
    }
}

//! What is to be done about modules that have more to do than others. Source: RADAR, section IV-B.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

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
    /// What it takes to bring a key to another module, in pointers that are followed meanwhile.
    pub per_key: f64,
}

impl Costs {
    /// What it takes to take `keys` keys out of a module and put them elsewhere, in operations (formulas 2 to 5).
    fn of_moving(&self, keys: u64) -> f64 {
        let keys = keys as f64;
        let cost = self.point + (self.height + keys) + keys * self.per_key;
        let average = self.points * self.point + (1.0 - self.points) * self.range;
        cost / average.max(1.0)
    }
}

/// A subrange as the decision sees it.
#[derive(Clone, Debug)]
pub(super) struct Subrange {
    pub start: u64,
    pub module: usize,
    pub keys: u64,
    /// The operations of this batch on it, by the pieces into which it would be divided; one if it cannot be.
    pub pieces: Vec<u64>,
}

impl Subrange {
    fn operations(&self) -> u64 {
        self.pieces.iter().sum()
    }
}

/// What becomes of a subrange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// It is divided, and its pieces go to these modules.
    Divide(Vec<usize>),
    /// The host takes it.
    Pull,
}

/// So many subranges of a module are tried at most.
const TRIES: usize = 8;

/// Decides about subranges, from the busiest module down, of which each has so many operations in this batch,
/// until no move is worth its cost. Pieces go to the least loaded modules of those that are idle, that with most
/// to do first.
pub(super) fn decide(
    loads: &mut [u64],
    subranges: Vec<Subrange>,
    costs: &Costs,
) -> BTreeMap<u64, Move> {
    let total: u64 = loads.iter().sum();
    let fair = total.div_ceil(loads.len().max(1) as u64);
    let much = (fair as f64 * costs.tolerance) as u64;
    let mut of_module: Vec<Vec<Subrange>> = vec![Vec::new(); loads.len()];
    for subrange in subranges {
        if let Some(own) = of_module.get_mut(subrange.module) {
            own.push(subrange);
        }
    }
    let mut busy: Vec<usize> = (0..loads.len()).filter(|&m| loads[m] > much).collect();
    busy.sort_by_key(|&module| Reverse(loads[module]));
    let mut idle: BinaryHeap<Reverse<(u64, usize)>> = (0..loads.len())
        .filter(|&module| loads[module] < fair)
        .map(|module| Reverse((loads[module], module)))
        .collect();
    let mut moves = BTreeMap::new();
    for module in busy {
        let own = &mut of_module[module];
        own.sort_by_key(|subrange| Reverse(subrange.operations()));
        for subrange in own.iter().take(TRIES) {
            if loads[module] <= much {
                break;
            }
            let before = loads[module];
            let left = before - subrange.operations();
            let cost = costs.of_moving(subrange.keys);
            // Not even if all its operations went would it be worth it.
            if subrange.operations() as f64 <= cost {
                break;
            }
            if subrange.pieces.len() == 1 {
                loads[module] = left;
                moves.insert(subrange.start, Move::Pull);
                continue;
            }
            let mut targets = vec![module; subrange.pieces.len()];
            let mut order: Vec<usize> = (0..targets.len()).collect();
            order.sort_by_key(|&piece| Reverse(subrange.pieces[piece]));
            let mut taken: Vec<(u64, usize)> = Vec::new();
            let mut most = left;
            for piece in order {
                let Some(Reverse((load, target))) = idle.pop() else {
                    break;
                };
                let load = load + subrange.pieces[piece];
                targets[piece] = target;
                taken.push((subrange.pieces[piece], target));
                most = most.max(load);
                idle.push(Reverse((load, target)));
            }
            let stays: u64 = (0..targets.len())
                .filter(|&piece| targets[piece] == module)
                .map(|piece| subrange.pieces[piece])
                .sum();
            most = most.max(left + stays);
            let benefit = before.saturating_sub(most) as f64;
            if benefit - cost > 0.0 && !taken.is_empty() {
                for (operations, target) in taken {
                    loads[target] += operations;
                }
                loads[module] = left + stays;
                moves.insert(subrange.start, Move::Divide(targets));
            }
            // Whatever was decided, the heap says what is.
            idle = (0..loads.len())
                .filter(|&other| loads[other] < fair && other != module)
                .map(|other| Reverse((loads[other], other)))
                .collect();
        }
    }
    moves
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
            height: 17.9,
            per_key: 0.091,
        }
    }

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

    fn subrange(start: u64, module: usize, keys: u64, pieces: &[u64]) -> Subrange {
        Subrange {
            start,
            module,
            keys,
            pieces: pieces.to_vec(),
        }
    }

    #[test]
    fn what_is_even_stays_as_it_is() {
        let subranges = (0..4).map(|m| subrange(m * 10, m as usize, 100, &[25; 4]));
        let mut loads = [100; 4];
        assert!(decide(&mut loads, subranges.collect(), &costs()).is_empty());
    }

    #[test]
    fn what_is_busy_is_divided_if_that_is_worth_its_keys() {
        let subranges = |keys| {
            vec![
                subrange(0, 0, keys, &[1000, 1000, 1000, 1000]),
                subrange(10, 1, 100, &[10]),
                subrange(20, 2, 100, &[10]),
                subrange(30, 3, 100, &[10]),
            ]
        };
        let mut loads = [4000, 10, 10, 10];
        let moves = decide(&mut loads, subranges(1000), &costs());
        let Some(Move::Divide(targets)) = moves.get(&0) else {
            panic!("{moves:?}")
        };
        assert_eq!(targets.len(), 4);
        assert!(loads.iter().max() <= Some(&2010), "{loads:?}");
        let mut loads = [4000, 10, 10, 10];
        assert!(decide(&mut loads, subranges(10_000_000), &costs()).is_empty());
    }

    #[test]
    fn the_finest_is_pulled() {
        let subranges = vec![subrange(0, 0, 100, &[1000]), subrange(5, 0, 100, &[3])];
        let mut loads = [1003, 0, 0];
        let moves = decide(&mut loads, subranges, &costs());
        assert_eq!(moves, BTreeMap::from([(0, Move::Pull)]));
        assert_eq!(loads, [3, 0, 0]);
    }
}

//! Tests that lines predict the rank of each key, loaded or not, with no more than their error.

use nearfield_pool_rivals::rolex::{Models, RolexModelTrainer};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

fn train(error: u32, prefixes: &[u64]) -> Models {
    let mut trainer = RolexModelTrainer::new(error);
    prefixes.iter().for_each(|&prefix| trainer.push(prefix));
    trainer.finish()
}

/// Returns ascending prefixes of one of several kinds, with ties in some.
fn prefixes(random: &mut SmallRng, kind: u32) -> Vec<u64> {
    let count = random.random_range(1..2000);
    let mut prefix = random.random_range(0..1 << 20);
    let mut prefixes: Vec<u64> = match kind {
        // Prefixes anywhere.
        0 => (0..count).map(|_| random.random()).collect(),
        // Prefixes in steps whose length changes now and then.
        1 => {
            let mut step = 1;
            let next = (0..count).map(|_| {
                if random.random_ratio(1, 50) {
                    step = 1 << random.random_range(0..40);
                }
                prefix += step;
                prefix
            });
            next.collect()
        }
        // Many of few prefixes.
        2 => (0..count).map(|_| random.random_range(0..200)).collect(),
        // Ties of all lengths, apart.
        _ => {
            let next = (0..count).map(|_| {
                if random.random_ratio(1, 20) {
                    prefix += random.random_range(1..1 << 30);
                }
                prefix
            });
            next.collect()
        }
    };
    // The ends of the key space.
    prefixes.extend([0, u64::MAX]);
    prefixes.sort_unstable();
    prefixes
}

#[test]
fn ranks_lie_where_they_are_predicted() {
    for seed in 0..400 {
        let random = &mut SmallRng::seed_from_u64(seed);
        let loaded = prefixes(random, seed as u32 % 4);
        let error = [0, 1, 4, 16, 64][random.random_range(0..5)];
        let models = train(error, &loaded);
        let between = (0..loaded.len()).map(|_| random.random::<u64>());
        let near = loaded.iter().map(|&prefix| prefix.saturating_add(1));
        let before = loaded.iter().map(|&prefix| prefix.saturating_sub(1));
        let asked: Vec<u64> = loaded
            .iter()
            .copied()
            .chain(between.collect::<Vec<_>>())
            .chain(near)
            .chain(before)
            .collect();
        for prefix in asked {
            let below = loaded.partition_point(|&other| other < prefix) as u64;
            let up_to = loaded.partition_point(|&other| other <= prefix) as u64;
            let ties = up_to - below;
            let ranks = models.ranks(prefix);
            // A key of this prefix comes behind any loaded key of that prefix, or before all of
            // them.
            let (least, greatest) = (below.saturating_sub(1), up_to.saturating_sub(1));
            assert!(
                ranks.contains(&least) && ranks.contains(&greatest),
                "seed {seed}: {prefix} has ranks {least} to {greatest}, not {ranks:?}"
            );
            let count = ranks.end() - ranks.start() + 1;
            assert!(
                count <= 2 * u64::from(error) + 3 || count <= ties + 1,
                "seed {seed}: {prefix} with {ties} ties has {count} ranks"
            );
        }
    }
}

#[test]
fn few_lines_are_enough_for_regular_keys_and_more_error_takes_fewer() {
    let regular: Vec<u64> = (0..100_000).map(|number| number * 977).collect();
    assert_eq!(train(16, &regular).lines(), 1);
    let mut random = SmallRng::seed_from_u64(1);
    let mut scattered: Vec<u64> = (0..100_000).map(|_| random.random()).collect();
    scattered.sort_unstable();
    let lines = [8, 16, 32, 64].map(|error| train(error, &scattered).lines());
    assert!(
        lines.windows(2).all(|pair| pair[0] > 2 * pair[1]),
        "{lines:?}"
    );
    // Keys for each line, which takes 24 bytes.
    assert!((100_000 / lines[1]) > 80, "{lines:?}");
}

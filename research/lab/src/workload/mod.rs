//! The workload of an experiment: key sets, the distributions that choose among them, and the
//! streams of operations made of both. All are generated before the clock starts and determined by
//! one seed.

mod distribution;
mod gaussian;
mod keys;
mod mix;
mod permutation;
mod phasor;
mod stream;
mod strings;

pub use distribution::Distribution;
pub use gaussian::Gaussian;
pub use keys::{KeySet, KeySetSpec, Progress};
pub(crate) use keys::{each_line, opened};
pub use mix::{Mix, MixShares};
pub use permutation::Permutation;
pub(crate) use phasor::{HERTZ, hash, measurement, sum_and_bounds};
pub use stream::{Op, OpStream, StreamSpec, Streams};
pub use strings::ByteStringList;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// The generator of everything random in a workload. It is named here, instead of `StdRng`, because
/// the same seed must give the same workload after an update of the library.
pub(crate) type Random = Xoshiro256PlusPlus;

/// Creates a generator for one `purpose` of one `seed`, independent of those for other purposes.
pub(crate) fn random(seed: u64, purpose: u64) -> Random {
    Random::seed_from_u64(Permutation::of_words(seed).at(purpose))
}

//! The index of each form of entries.

use crate::device::Workers;
use crate::radar::{self, Radar};
use crate::strings::{self, Strings};
use nearfield_core::{Bytes, Form, OrderedIndex, Words};
use std::fmt::Debug;

/// A form of entries that can be placed in modules. The set is closed: [`Words`] go to [`Radar`],
/// [`Bytes`] to [`Strings`].
pub trait PimForm: Form {
    /// The index of such entries on worker threads.
    type OnWorkers: OrderedIndex<Self> + Debug;

    /// Creates an empty index on these workers.
    fn on_workers(workers: Workers) -> Self::OnWorkers;
}

impl PimForm for Words {
    type OnWorkers = Radar<Workers>;

    fn on_workers(workers: Workers) -> Radar<Workers> {
        Radar::new(workers, radar::Options::on_workers())
    }
}

impl PimForm for Bytes {
    type OnWorkers = Strings<Workers>;

    fn on_workers(workers: Workers) -> Strings<Workers> {
        Strings::new(workers, strings::Options::default())
    }
}

//! The index of each form of entries.

use crate::device::Workers;
use crate::radar::{self, Radar};
use crate::strings::{self, PimStrings};
use nearfield_core::{ByteStrings, EntryForm, OrderedIndex, Words};
use std::fmt::Debug;

/// A form of entries that can be placed in modules. The set is closed: [`Words`] go to [`Radar`],
/// [`ByteStrings`] to [`PimStrings`].
pub trait PimForm: EntryForm {
    /// The index of such entries on worker threads.
    type OnWorkers: OrderedIndex<Self> + Debug;

    /// Creates an empty index on these workers.
    fn on_workers(workers: Workers) -> Self::OnWorkers;
}

impl PimForm for Words {
    type OnWorkers = Radar<Workers>;

    fn on_workers(workers: Workers) -> Radar<Workers> {
        Radar::new(workers, radar::RadarOptions::on_workers())
    }
}

impl PimForm for ByteStrings {
    type OnWorkers = PimStrings<Workers>;

    fn on_workers(workers: Workers) -> PimStrings<Workers> {
        PimStrings::new(workers, strings::PimStringsOptions::default())
    }
}

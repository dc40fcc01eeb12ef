//! A memory with all its channels.

use super::channel::{Channel, DramReadCompletion};
use super::latencies::Latencies;
use super::map::DramAddressDecoder;
use super::report::{DramCommandCounts, DramEnergy, DramReport, DramRequestCounts};
use super::{AddressMap, DramAccess, DramError, DramParameters};

/// Size of a line in bytes; a request reads or writes one.
pub const LINE_BYTES: u64 = 64;

/// A memory, to which requests are sent in the order of their clocks.
#[derive(Clone, Debug)]
pub struct DramMemory {
    parameters: DramParameters,
    decoder: DramAddressDecoder,
    channels: Vec<Channel>,
}

impl DramMemory {
    /// Creates a memory without requests, whose rows are closed, with [`AddressMap::ROWS`].
    ///
    /// # Errors
    /// [`DramError::BadParameter`] if parameters contradict each other.
    pub fn new(parameters: DramParameters) -> Result<DramMemory, DramError> {
        DramMemory::with_map(parameters, AddressMap::ROWS)
    }

    /// Creates a memory with another address map.
    ///
    /// # Errors
    /// [`DramError::BadParameter`] if parameters contradict each other.
    pub fn with_map(parameters: DramParameters, map: AddressMap) -> Result<DramMemory, DramError> {
        parameters.check()?;
        let channel = Channel::new(&parameters, ());
        Ok(DramMemory {
            decoder: map.decoder(&parameters),
            channels: vec![channel; parameters.channels as usize],
            parameters,
        })
    }

    /// Returns the parameters.
    pub fn parameters(&self) -> &DramParameters {
        &self.parameters
    }

    /// Sends a request for the line that holds the byte at `address`. Its channel accepts it at the
    /// first clock from `clock` on at which the queue has room. Returns that clock. A channel that
    /// has already reached a later clock accepts it at that clock.
    pub fn submit(&mut self, address: u64, access: DramAccess, clock: u64) -> u64 {
        let line = address & !(LINE_BYTES - 1);
        let place = self.decoder.place(line);
        let channel = &mut self.channels[place.channel as usize];
        channel.advance(clock);
        // Only the channel's own progress makes room.
        while !channel.has_room(access) {
            channel.step();
        }
        let accepted = channel.clock();
        channel.submit(line, place, access);
        accepted
    }

    /// Keeps the result of each read from now on for [`DramMemory::completions_before`]. Reads of
    /// one line that wait together have one result.
    ///
    /// ```
    /// use nearfield_hardware::dram::{DramAccess, DramMemory, DramPreset};
    ///
    /// let mut memory = DramMemory::new(DramPreset::Hbm2.parameters())?;
    /// memory.keep_completions();
    /// memory.submit(0x1000, DramAccess::Read, 0);
    /// let mut completions = Vec::new();
    /// while let Some(clock) = memory.next_of_reads() {
    ///     memory.completions_before(clock + 1, &mut completions);
    /// }
    /// assert_eq!(completions[0].line, 0x1000);
    /// # Ok::<(), nearfield_hardware::dram::DramError>(())
    /// ```
    pub fn keep_completions(&mut self) {
        self.channels.iter_mut().for_each(Channel::keep_completions);
    }

    /// Returns the clock at which something happens next in a channel in which a read waits, or the
    /// clock of a result that the caller has not taken yet.
    pub fn next_of_reads(&self) -> Option<u64> {
        self.channels
            .iter()
            .filter_map(Channel::next_of_reads)
            .min()
    }

    /// Executes the clocks before `clock`, and appends the results of the reads that were sent to
    /// their banks. The data of a result may arrive later.
    pub fn completions_before(&mut self, clock: u64, completions: &mut Vec<DramReadCompletion>) {
        for channel in &mut self.channels {
            channel.advance(clock);
            completions.extend(channel.take_completions());
        }
    }

    /// Executes until every request has completed, and returns the clock of the last completion.
    /// Writes complete when they are accepted, and may still wait.
    pub fn settle(&mut self) -> u64 {
        for channel in &mut self.channels {
            while channel.has_reads() {
                channel.step();
            }
        }
        let clocks = self.channels.iter().map(Channel::last_completion);
        clocks.max().unwrap_or(0)
    }

    /// Executes until every request has completed, and reports.
    pub fn finish(self) -> DramReport {
        self.finish_at(0)
    }

    /// Executes until every request has completed, and at least to this clock, and reports:
    /// memories that are used together take energy for the same time.
    pub fn finish_at(mut self, clock: u64) -> DramReport {
        let clocks = self.settle().max(clock);
        let mut latencies = Latencies::default();
        let mut commands = DramCommandCounts::default();
        let mut requests = DramRequestCounts::default();
        let (mut active, mut row_hits) = (0_u128, 0);
        for channel in &mut self.channels {
            // All channels run to the same clock, because those that are idle are refreshed, too.
            channel.advance(clocks);
            latencies.merge(channel.latencies());
            commands.add(&channel.commands());
            requests.add(&channel.requests());
            active += u128::from(channel.active());
            row_hits += channel.row_hits();
        }
        let clock_ns = self.parameters.clock_ns();
        let time_ns = clocks as f64 * clock_ns;
        let ratio = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
        let ranks = u128::from(self.parameters.channels * self.parameters.ranks);
        let columns = commands.read + commands.write;
        DramReport {
            latency_ns: latencies.report(clock_ns),
            bandwidth_gbps: ratio((columns * LINE_BYTES) as f64, time_ns),
            row_hit_rate: ratio(row_hits as f64, columns as f64),
            commands,
            energy_uj: DramEnergy::of(
                &self.parameters,
                &commands,
                u128::from(clocks) * ranks,
                active,
            ),
            time_us: time_ns / 1e3,
            requests,
        }
    }
}

impl DramCommandCounts {
    fn add(&mut self, other: &DramCommandCounts) {
        self.activate += other.activate;
        self.precharge += other.precharge;
        self.read += other.read;
        self.write += other.write;
        self.refresh += other.refresh;
    }
}

impl DramRequestCounts {
    fn add(&mut self, other: &DramRequestCounts) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.reads_merged += other.reads_merged;
        self.writes_merged += other.writes_merged;
        self.writes_waiting += other.writes_waiting;
    }
}

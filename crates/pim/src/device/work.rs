//! The work of programs and of the host.

/// The work of programs in modules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramWork {
    /// Number of instructions of all threads.
    pub instructions: u64,
    /// Number of copies from the bank.
    pub reads: u64,
    /// Number of copies to the bank.
    pub writes: u64,
    /// Number of bytes of both.
    pub bytes: u64,
    /// Number of keys that were compared.
    pub compares: u64,
    /// Number of pointers that were followed.
    pub hops: u64,
}

impl ProgramWork {
    /// Returns the number of copies in both directions.
    pub fn copies(&self) -> u64 {
        self.reads + self.writes
    }

    /// Adds other work.
    pub fn add(&mut self, other: &ProgramWork) {
        self.instructions += other.instructions;
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes += other.bytes;
        self.compares += other.compares;
        self.hops += other.hops;
    }
}

/// The host's work for a batch of an index besides moving data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostWork {
    /// Number of keys that were looked up in tables and directories.
    pub probes: u64,
    /// Number of words of messages that were packed or unpacked.
    pub words: u64,
    /// Number of keys that were sorted.
    pub sorted: u64,
}

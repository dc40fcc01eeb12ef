//! Traversals at a memory node, and code shared with other commands.

use clap::Args;
use nearfield_fabric::{GlobalAddress, NodeId, RESERVED_BYTES};
use nearfield_offload::net::udp::{Announcer, place, serve_node_with_workers, socket_towards};
use nearfield_offload::net::{NodeSettings, OffloadNode, TenantKeys};
use nearfield_offload::node::{LocalMemory, NodeRanges};
use nearfield_offload::traversal::ProgramEngine;
use nearfield_offload::wire::{ANNOUNCED_MAX, Announcement, AuthenticationKey};
use parking_lot::FairMutex;
use std::io::Write;
use std::net::{SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time in a second that a node spends on the translation of a tenant's new programs.
const TRANSLATION_BUDGET: Duration = Duration::from_millis(100);

/// The cause of a failed command.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// The options by which a memory node runs traversals.
#[derive(Debug, Args)]
#[command(next_help_heading = "Traversals")]
pub(crate) struct Offload {
    /// Run traversal programs on the memory, in one more thread; requests arrive at this IPv4
    /// address and port by UDP (with ucx only if this process serves the memory, as over TCP)
    #[arg(long, value_name = "IP:PORT", requires = "tenants")]
    offload: Option<SocketAddrV4>,

    /// A file of the tenants that may run programs: lines of a number, a key of 64 hexadecimal
    /// digits, and the parts of the memory that it grants, such as 4096-8192, 8192-12288:read, or
    /// rest for all that no other part has; a line without parts grants nothing
    #[arg(long, value_name = "FILE", requires = "offload")]
    tenants: Option<PathBuf>,

    /// The number of threads that run programs; with more than one, a program that only reads may
    /// see a part of what another one stores in an iteration (with shm only)
    #[arg(long, value_name = "N", default_value_t = 1, requires = "offload",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    offload_threads: u16,

    /// Announce the node's addresses to this switch
    #[arg(long, value_name = "IP:PORT", requires_all = ["offload", "rack_key"])]
    switch: Option<SocketAddrV4>,

    /// A file with the rack's key, 64 hexadecimal digits, by which the switch knows the node
    #[arg(long, value_name = "FILE", requires = "switch")]
    rack_key: Option<PathBuf>,
}

impl Offload {
    /// Returns the address for requests, if there is one.
    pub(crate) fn listens_at(&self) -> Option<SocketAddrV4> {
        self.offload
    }

    /// Prepares to run programs, if an address is given.
    pub(crate) fn prepare<'n>(
        &self,
        number: NodeId,
        words: &'n [AtomicU64],
        turn: Option<&'n FairMutex<()>>,
    ) -> Result<Option<OffloadMemoryNode<'n>>, Failure> {
        let (Some(listen), Some(file)) = (self.offload, &self.tenants) else {
            return Ok(None);
        };
        if turn.is_some() && self.offload_threads > 1 {
            return Err(
                "--offload-threads needs --listen shm:NAME: over UCX, posts and programs exclude \
                 each other"
                    .into(),
            );
        }
        let text = read(file)?;
        let base = GlobalAddress::new(number, 0).to_bits();
        let (keys, ranges) =
            TenantKeys::read(&text, base, RESERVED_BYTES, size_of_val(words) as u64)
                .map_err(|error| format!("{}: {error}", file.display()))?;
        // Such a tenant's requests are refused, and only the operator can learn the cause.
        for tenant in keys.without_ranges(&ranges) {
            eprintln!(
                "warning: {}: tenant {} is granted no part of the memory, so its programs reach \
                 none (rest grants all that no other part has)",
                file.display(),
                tenant.0
            );
        }
        let ranges = NodeRanges::new(ranges)?;
        let socket = UdpSocket::bind(listen)
            .map_err(|error| format!("cannot listen at {listen}: {error}"))?;
        // A node that restarts must have a later epoch.
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() as u32;
        let announcer = match (self.switch, &self.rack_key) {
            (Some(switch), Some(file)) => {
                let mut here = SocketAddrV4::from(place(&socket)?);
                // The switch needs one address of this machine, not all of them.
                if here.ip().is_unspecified() {
                    let towards = socket_towards(switch.into())?;
                    here.set_ip(*SocketAddrV4::from(place(&towards)?).ip());
                }
                let count = ranges.iter().count();
                // Refused here, because the encoding leaves out the ranges that exceed the maximum.
                if count > ANNOUNCED_MAX {
                    let message = format!("{count} parts are too many to announce");
                    return Err(format!("{message}: {ANNOUNCED_MAX} at most").into());
                }
                let all = ranges.iter().map(|range| (range.start, range.bytes));
                Some(Announcer {
                    switch: switch.into(),
                    key: key_of(file)?,
                    announcement: Announcement {
                        epoch,
                        node: here.into(),
                        ranges: all.collect(),
                    },
                })
            }
            _ => None,
        };
        let settings = NodeSettings {
            epoch,
            // The interpreter needs no translation.
            translation_budget: ProgramEngine::HAS_NATIVE_CODE.then_some(TRANSLATION_BUDGET),
            ..NodeSettings::default()
        };
        let memory = LocalMemory::new(words, ranges)?;
        Ok(Some(OffloadMemoryNode {
            memory,
            turn,
            keys,
            settings,
            socket,
            announcer,
            workers: usize::from(self.offload_threads).saturating_sub(1),
        }))
    }
}

/// A memory node that can run programs.
pub(crate) struct OffloadMemoryNode<'n> {
    memory: LocalMemory<'n>,
    /// Lock held while programs access the memory, if other threads of this process access it.
    turn: Option<&'n FairMutex<()>>,
    keys: TenantKeys,
    settings: NodeSettings,
    socket: UdpSocket,
    announcer: Option<Announcer>,
    /// Number of threads besides the first.
    workers: usize,
}

impl OffloadMemoryNode<'_> {
    /// Returns the message for the user.
    pub(crate) fn welcome(&self) -> Result<String, Failure> {
        let executor = match ProgramEngine::HAS_NATIVE_CODE {
            true => "native code",
            false => "the interpreter (faster with cargo build --features native)",
        };
        Ok(format!(
            "Traversal programs run on it by {executor}: requests come to {}. Its epoch is {}.",
            place(&self.socket)?,
            self.settings.epoch
        ))
    }

    /// Runs programs until `stop`, then prints counts of the work.
    pub(crate) fn serve(&self, stop: &AtomicBool) -> std::io::Result<()> {
        let create = || OffloadNode::new(&self.memory, self.keys.clone(), self.settings);
        let mut node = match self.turn {
            Some(turn) => create().in_turn(turn),
            None => create(),
        };
        let announcer = self.announcer.as_ref();
        let worked = serve_node_with_workers(
            &mut node,
            self.workers,
            create,
            &self.socket,
            announcer,
            stop,
        )?;
        let mut counters = node.counters().clone();
        counters.add(&worked);
        print_line(&counters.to_string());
        Ok(())
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file);
    Ok(text.map_err(|error| format!("cannot read {}: {error}", file.display()))?)
}

/// Returns the key in a file.
pub(crate) fn key_of(file: &Path) -> Result<AuthenticationKey, Failure> {
    let key: Result<AuthenticationKey, _> = read(file)?.trim().parse();
    Ok(key.map_err(|error| format!("{}: {error}", file.display()))?)
}

/// Prints a line.
pub(crate) fn print_line(text: &str) {
    // The reader of the output may have closed it.
    let _ = writeln!(std::io::stdout(), "{text}");
}

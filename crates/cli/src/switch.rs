//! `nearfield switch`: forwards traversals to the memory node that holds their address.

use crate::expose::Exposure;
use crate::offload::{key_of, print_line};
use clap::Args;
use nearfield_offload::net::udp::{place, serve_switch};
use nearfield_offload::net::{Switch, SwitchRangeTable};
use std::net::{SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Forward traversals between callers and memory nodes, by UDP.
///
/// A request goes to the memory node that holds its address, and a reply to its caller; the switch
/// keeps no state of requests. It learns the addresses of each node from the nodes' announcements,
/// if it has the rack's key, or from --map. When it ends it prints counts of its work.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct SwitchArguments {
    /// The address for datagrams: an IPv4 address and a port
    #[arg(long, value_name = "IP:PORT")]
    listen: SocketAddrV4,

    /// A file with the rack's key, 64 hexadecimal digits, which authenticates announcements of
    /// memory nodes
    #[arg(long, value_name = "FILE", required_unless_present = "map")]
    rack_key: Option<PathBuf>,

    /// Addresses and their memory nodes, separated by commas; no announcement changes them
    #[arg(long, value_name = "START-END=IP:PORT,…", value_parser = map)]
    map: Option<SwitchRangeTable>,

    #[command(flatten)]
    exposure: Exposure,
}

const EXAMPLES: &str = "\
Examples:
  openssl rand -hex 32 > rack.key
  nearfield switch --listen 192.0.2.1:7000 --rack-key rack.key --expose
      Memory nodes with --switch 192.0.2.1:7000 and the same key announce their addresses.
  nearfield switch --listen 127.0.0.1:7000 --map 0x1000-0x40000000=127.0.0.1:7001
      One node, without announcements.";

fn map(text: &str) -> Result<SwitchRangeTable, String> {
    let map: Result<SwitchRangeTable, _> = text.parse();
    map.map_err(|error| error.to_string())
}

/// Serves until a signal arrives. Returns the exit code.
pub(crate) fn run(arguments: &SwitchArguments) -> ExitCode {
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &SwitchArguments) -> Result<(), Box<dyn std::error::Error>> {
    arguments.exposure.check(&arguments.listen.to_string())?;
    let stop = Arc::new(AtomicBool::new(false));
    let handler = Arc::clone(&stop);
    ctrlc::set_handler(move || handler.store(true, Ordering::Relaxed))?;
    let key = arguments.rack_key.as_deref().map(key_of).transpose()?;
    let socket = UdpSocket::bind(arguments.listen)
        .map_err(|error| format!("cannot listen at {}: {error}", arguments.listen))?;
    let mut switch = Switch::new(arguments.map.clone().unwrap_or_default(), key);
    print_line(&format!(
        "The switch is ready at {}. Ctrl-C ends it.",
        place(&socket)?
    ));
    say_map(&switch);
    serve_switch(&mut switch, &socket, &stop, say_map)?;
    print_line(&switch.counters().to_string());
    Ok(())
}

fn say_map(switch: &Switch) {
    let map = switch.map().to_string();
    match map.is_empty() {
        true => print_line("No memory node is known yet."),
        false => print_line(&format!("Memory nodes:\n{}", map.trim_end())),
    }
}

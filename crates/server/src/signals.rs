//! The server's reactions to signals.
//!
//! SIGTERM and SIGINT end it: requests that were read get their replies, and changes are made
//! durable. A script that runs for long is ended. A second signal ends the server at once. On
//! SIGHUP it opens its log file and reads its certificates again.

use crate::logging::LogLineTarget;
use crate::persistence;
use crate::server::ServerCore;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::Ordering;

/// The exit status of a server that is ended at once.
const ENDED_AT_ONCE: i32 = 130;

/// Begins to handle signals, on a thread of its own.
///
/// # Errors
/// The system refuses it.
pub fn handle(server: &'static ServerCore, logs: LogLineTarget) -> io::Result<()> {
    // SIGUSR1 would end the server otherwise.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])?;
    let handle = move || {
        let mut ending = false;
        for signal in signals.forever() {
            match signal {
                SIGHUP => reopen(server, &logs),
                SIGTERM | SIGINT => {
                    // Nothing may be saved before all is loaded.
                    if ending || !server.serving.load(Ordering::Acquire) {
                        std::process::exit(ENDED_AT_ONCE);
                    }
                    ending = true;
                    tracing::info!("a signal ends the server; another one ends it at once");
                    let parameter = match signal {
                        SIGINT => "shutdown-on-sigint",
                        _ => "shutdown-on-sigterm",
                    };
                    // Saving may take long, and another signal must be noticed meanwhile.
                    std::thread::spawn(|| end(server, parameter));
                }
                _ => {}
            }
        }
    };
    let thread = std::thread::Builder::new().name("nearfield-signals".to_owned());
    thread.spawn(handle).map(drop)
}

/// Ends the server as `SHUTDOWN` with the words of a parameter would.
fn end(server: &ServerCore, parameter: &str) {
    let words = server.config.text(parameter);
    let has = |wanted: &str| words.split(' ').any(|word| word == wanted);
    let save = match (has("save"), has("nosave")) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    if !persistence::shut_down(server, save, has("force")) {
        tracing::error!("the server continues because it could not save; another signal ends it");
    }
}

fn reopen(server: &ServerCore, logs: &LogLineTarget) {
    if let Err(error) = logs.reopen() {
        tracing::error!("cannot open the log file again: {error}");
    }
    if let Some(tls) = server.tls.get() {
        match tls.reload() {
            Ok(()) => tracing::info!("read the certificates again"),
            Err(error) => tracing::error!("the old certificates remain in use: {error}"),
        }
    }
}

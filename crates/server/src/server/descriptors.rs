//! The descriptors of the process: the number that the system provides, and the number that clients
//! may have.
//!
//! If clients took the last one, none would be left for snapshots, the log and files of tiers. So
//! the limit of the process is raised at the start as far as the system allows. Where that is not
//! enough, fewer clients are served.

use crate::server::ServerCore;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Number of descriptors that are not for clients: those of the log, snapshots, files of tiers,
/// listeners, and of other servers to which keys are moved.
const KEPT: u64 = 64;
/// The same for each thread that serves clients.
const KEPT_PER_THREAD: u64 = 4;

/// Raises the limit of the process so far that `clients` clients can be served. Returns the number
/// that can be served.
pub fn make_room_for(server: &ServerCore, clients: u64) -> u64 {
    let kept = KEPT + KEPT_PER_THREAD * server.options.threads as u64;
    let limit = getrlimit(Resource::Nofile);
    // The system returns `None` for an unlimited number.
    let most = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let (current, wanted) = (most(limit.current), clients.saturating_add(kept));
    debug_assert!(
        current <= most(limit.maximum),
        "the system keeps them in order"
    );
    // A limit that is higher already is not lowered.
    let raised = wanted.min(most(limit.maximum)).max(current);
    let new = Rlimit {
        current: Some(raised),
        maximum: limit.maximum,
    };
    if raised == current || setrlimit(Resource::Nofile, new).is_ok() {
        return served(clients, kept, raised);
    }
    served(clients, kept, current)
}

/// Returns the number of clients that a number of descriptors can serve, less the reserved ones.
fn served(clients: u64, kept: u64, descriptors: u64) -> u64 {
    clients.min(descriptors.saturating_sub(kept).max(1))
}

/// Lowers `maxclients` to the number of clients that can be served.
pub fn fit(server: &ServerCore) {
    let wanted = server.config.integer("maxclients").unsigned_abs();
    let served = make_room_for(server, wanted);
    if served < wanted {
        tracing::warn!(
            "the system allows too few descriptors for {wanted} clients: maxclients is {served} \
             (ulimit -n raises it)"
        );
        server.config.lower("maxclients", &served.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::TABLE;
    use crate::config::ServerOptions;

    #[test]
    fn clients_have_what_is_not_kept() {
        assert_eq!(served(10_000, 72, 1 << 20), 10_000);
        assert_eq!(served(10_000, 72, 4096), 4024);
        assert_eq!(served(4024, 72, 4096), 4024);
        assert_eq!(served(10_000, 72, 10), 1);
    }

    #[test]
    fn more_clients_than_the_system_allows_are_not_promised() {
        let server = ServerCore::new(TABLE.registry(), ServerOptions::default());
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert!(make_room_for(&server, u64::MAX) <= hard);
        server.config.lower("maxclients", "17");
        fit(&server);
        assert_eq!(server.config.integer("maxclients"), 17);
        let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert!(now >= 17 + KEPT);
    }
}

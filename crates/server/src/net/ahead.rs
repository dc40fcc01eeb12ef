//! The prefetch of keys of scripts.
//!
//! Scripts run one by one, so that each waits for the memory of its keys. The keys that a
//! connection names for the scripts it has sent are known before the first of them runs. They are
//! looked up in one batch with overlapping memory accesses; the scripts then find their keys in the
//! processor's caches. The result of a script never depends on the prefetch.

use super::limits;
use super::thread::IoThread;
use crate::command::CommandDefinition;
use crate::commands::TABLE;
use crate::resp::Parser;
use crate::resp::request::RequestProgress;
use nearfield::{Batch, ByteStrings};
use smallvec::SmallVec;

/// Number of scripts to prefetch for, at most.
const SCRIPTS_MAX: usize = 64;
const KEYS_MAX: usize = 128;

/// The buffers of the prefetch, kept for the next time.
#[derive(Debug, Default)]
pub struct Ahead {
    keys: Batch<ByteStrings>,
    /// The hashes of the keys, by which their uses are noted.
    hashes: Vec<u64>,
    /// The script command of the last lookup. Clients mostly send the same one again.
    latest: Option<&'static CommandDefinition>,
}

impl Ahead {
    /// Adds the keys of a script. Returns false if the command runs no script, or if there are
    /// enough keys.
    fn add(&mut self, args: &[&[u8]], hash: impl Fn(&[u8]) -> u64) -> bool {
        let Some(name) = args.first() else {
            return false;
        };
        let is = |it: &&CommandDefinition| name.eq_ignore_ascii_case(it.name.as_bytes());
        let command = match self.latest.filter(is) {
            Some(command) => command,
            None => match TABLE.lookup(args) {
                Ok(command) if TABLE.may_run_script(name) => command,
                _ => return false,
            },
        };
        self.latest = Some(command);
        for key in command.keys.positions(args) {
            if let Some(key) = args.get(key)
                && self.hashes.len() < KEYS_MAX
            {
                self.keys.get(key);
                self.hashes.push(hash(key));
            }
        }
        debug_assert_eq!(self.keys.len(), self.hashes.len(), "each key has its hash");
        self.hashes.len() < KEYS_MAX
    }
}

impl IoThread<'_> {
    /// Looks up the keys of the script that the connection's parser has found in `request`, and
    /// those of the commands after it, in `rest`. Returns the number of bytes of `rest` that were
    /// read: whole commands that may run scripts.
    pub(super) fn look_ahead(&mut self, index: usize, request: &[u8], rest: &[u8]) -> usize {
        let server = self.server;
        let state = &mut *self.guard;
        let connection = &state.connections[index];
        let mut words = connection.parser.arguments(request);
        let is_script = words.next().is_some_and(|name| TABLE.may_run_script(name));
        // A lookup in another server's memory takes as long as the script would wait for it.
        let is_remote = server.keyspace.is_shared();
        if !is_script || is_remote || rest.is_empty() || !connection.client.authenticated {
            return 0;
        }
        let args: SmallVec<[&[u8]; 16]> = connection.parser.arguments(request).collect();
        let (ahead, database) = (&mut state.ahead, connection.client.database);
        let hash = |key: &[u8]| server.access.hash(database, key);
        ahead.keys.clear();
        ahead.hashes.clear();
        if !ahead.add(&args, hash) {
            return 0;
        }
        let (mut parser, mut end, limits) = (Parser::new(), 0, limits::of_requests(server));
        for _ in 1..SCRIPTS_MAX {
            let next = rest.get(end..).unwrap_or_default();
            let Ok(RequestProgress::Complete(length)) = parser.next(next, &limits) else {
                break;
            };
            let args: SmallVec<[&[u8]; 16]> = parser.arguments(next).collect();
            if !ahead.add(&args, hash) {
                break;
            }
            end += length;
        }
        // The script itself fetches a single key as fast.
        if ahead.hashes.len() > 1 {
            server.access.noting().look(&ahead.hashes);
            if let Some(databases) = server.keyspace.try_share()
                && let Some(database) = databases.get(database)
                && let Some(entries) = database.entries()
            {
                // A script meets the same error when it runs, and reports it then.
                let _ = entries.execute(&mut ahead.keys);
            }
        }
        end
    }
}

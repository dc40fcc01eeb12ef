//! The second batch of a round whose commands read before they write: it writes the values that
//! they have made. The index may refuse some of the writes, and another server may have changed
//! some of the keys meanwhile. The replies of these commands are then corrected.

use super::{CommandRound, RoundClients};
use crate::error::CommandError;
use crate::execute::Executor;
use crate::keyspace::record::is_plain;
use crate::keyspace::{Database, DatabaseIndex, Keyspace, ValueRecord};
use crate::resp::RespReply;
use nearfield::OperationOutcome;

impl CommandRound {
    /// Writes the results of commands for the keys of a folded batch. If another server has changed
    /// a key meanwhile, nothing is written for it, and the commands on it are marked to be executed
    /// again.
    pub(super) fn write(
        &mut self,
        keyspace: &Keyspace,
        database: &Database,
        entries: &DatabaseIndex,
        clients: &mut impl RoundClients,
    ) {
        self.writes.clear();
        let gets = self
            .folded
            .plan_writes(&mut self.writes, &self.batch, self.is_shared);
        let executed = entries.execute(&mut self.writes);
        let notes = &mut self.ledger.notes;
        let mut failed: Vec<(u32, CommandError)> = Vec::new();
        let may_conflict = self.is_shared;
        for (position, &get) in gets.iter().enumerate() {
            let (old, now) = (self.batch.value(get as usize), self.folded.now(get));
            if old.is_some_and(is_plain)
                && now.is_some_and(is_plain)
                && !may_conflict
                && self.writes.value(position).is_some()
            {
                // It was written, and the old record referred to nothing.
                continue;
            }
            let error = match (&executed, self.writes.outcome(position)) {
                (Err(error), _) => error.clone(),
                (_, OperationOutcome::Failed(error)) => {
                    entries.own_error(error, self.folded.key(&self.batch, get))
                }
                (_, OperationOutcome::Updated { applied: false, .. }) => {
                    self.conflicts.push(get);
                    continue;
                }
                _ => {
                    let key = self.folded.key(&self.batch, get);
                    let old = old.map(ValueRecord::parse);
                    let before = old.and_then(|old| old.note());
                    let after = now.and_then(|now| ValueRecord::parse(now).note());
                    let outside =
                        |record: Option<ValueRecord<'_>>| record.and_then(|it| it.outside());
                    let (given_up, made) = (outside(old), outside(now.map(ValueRecord::parse)));
                    if let Some(given_up) = given_up.filter(|_| given_up != made) {
                        self.retired.push((get, given_up));
                    }
                    if self.is_shared {
                        database.note_shared_expiry(key, before, after);
                    } else {
                        notes.add(get, key, before, after);
                    }
                    continue;
                }
            };
            failed.push((get, error.into()));
        }
        for (get, error) in notes.apply(database) {
            let key = self.folded.key(&self.batch, get);
            // A key that keeps its new record keeps the slot in it, too.
            if put_back(database, key, self.batch.value(get as usize)) {
                self.retired.retain(|(retired, _)| *retired != get);
                failed.push((get, entries.own_error(error, key).into()));
            } else if let Some(made) = self.folded.now(get) {
                database.note_again(key, ValueRecord::parse(made).note());
            }
        }
        for (_, outside) in self.retired.drain(..) {
            keyspace.retire(Some(outside));
        }
        if !failed.is_empty() {
            for &(get, _) in &failed {
                let outside = |stored: Option<&[u8]>| ValueRecord::parse(stored?).outside();
                let old = outside(self.batch.value(get as usize));
                let made = outside(self.folded.now(get));
                keyspace.retire(made.filter(|_| made != old));
            }
            self.take_back(&failed, clients);
        }
    }

    /// Executes commands again, one by one and in their order, if another server has changed their
    /// keys meanwhile. Their replies replace the first ones.
    #[cold]
    pub(super) fn execute_again(
        &mut self,
        executor: &mut Executor<'_>,
        now_ms: u64,
        clients: &mut impl RoundClients,
    ) {
        let conflicts = std::mem::take(&mut self.conflicts);
        for (position, ((pending, kind), output)) in self.sent.iter().zip(&self.outputs).enumerate()
        {
            let mut operations = pending.operations(kind);
            let is_met = operations.any(|operation| {
                let get = self.folded.get_of(operation) as u32;
                conflicts.contains(&get)
            });
            if is_met && !output.reply.is_empty() {
                let (client, reply) = clients.client(pending.connection);
                let mut answer = RespReply::new(reply.protocol());
                let words = self.sent.words_of(&self.batch, (pending, kind));
                executor.run(client, &words, now_ms, &mut answer);
                self.corrections.push((position, answer));
            }
        }
    }

    /// Replies with errors to commands where the index has refused to write a key, given by its
    /// get, and removes these commands from the log.
    #[cold]
    fn take_back(&mut self, failed: &[(u32, CommandError)], clients: &mut impl RoundClients) {
        // From the last one to the first, so that earlier ranges of the log stay valid.
        let commands = self.sent.iter().zip(&self.outputs).enumerate();
        for (position, ((pending, kind), output)) in commands.rev() {
            let operations = pending.operations(kind);
            let error = failed.iter().find(|(get, _)| {
                let mut operations = operations.clone();
                operations.any(|operation| self.folded.get_of(operation) == *get as usize)
            });
            let is_kept = output.in_place || output.reply.is_empty();
            let Some((_, error)) = error.filter(|_| !is_kept) else {
                continue;
            };
            let mut answer = RespReply::new(clients.client(pending.connection).1.protocol());
            answer.error(&error.to_string());
            self.corrections.push((position, answer));
            self.ledger.log.drain(output.log.clone());
        }
    }

    /// Puts the corrections in place of the first replies. This is the last step: the ranges of the
    /// replies after a correction are no longer valid.
    #[cold]
    pub(super) fn correct_replies(&mut self, clients: &mut impl RoundClients) {
        let mut corrections = std::mem::take(&mut self.corrections);
        corrections.sort_unstable_by_key(|(position, _)| *position);
        debug_assert!(
            corrections.is_sorted_by(|(one, _), (other, _)| one < other),
            "a command that is folded in a shared index has one key"
        );
        // From the last one to the first, so that earlier ranges stay valid.
        for (position, answer) in corrections.into_iter().rev() {
            let sent = self.sent.get(position).zip(self.outputs.get(position));
            let Some(((pending, _), output)) = sent else {
                continue;
            };
            let reply = clients.client(pending.connection).1;
            let behind = reply.bytes().get(output.reply.end..).map(<[u8]>::to_vec);
            reply.truncate(output.reply.start);
            reply.raw(answer.bytes());
            reply.raw(&behind.unwrap_or_default());
        }
    }
}

/// Stores the old record of a key again, because its new expiry time cannot be noted. Returns false
/// if the index refuses that, too, so that the key keeps its new record.
#[cold]
fn put_back(database: &Database, key: &[u8], old: Option<&[u8]>) -> bool {
    let put_back = match old {
        None => database.remove(key),
        Some(old) => database.store(key, old, None),
    };
    put_back.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ClientSession, ClientShared};
    use crate::commands::TABLE;
    use crate::config::ServerOptions;
    use crate::keyspace::notes::Note;
    use crate::keyspace::refusals::{RefusableCall, is_note, refusing};
    use crate::net::round::BatchAdmission;
    use crate::resp::request::RequestProgress;
    use crate::resp::{Parser, Protocol, RequestLimits, encode};
    use crate::server::ServerCore;
    use std::sync::Arc;

    const NOW_MS: u64 = 1_700_000_000_000;

    /// A client that sends all commands of a round.
    struct OnlyRoundClient {
        client: ClientSession,
        reply: RespReply,
    }

    impl RoundClients for OnlyRoundClient {
        fn client(&mut self, _: u32) -> (&mut ClientSession, &mut RespReply) {
            (&mut self.client, &mut self.reply)
        }
    }

    impl OnlyRoundClient {
        fn new(server: &ServerCore) -> OnlyRoundClient {
            let shared = ClientShared::new(1, 0, String::new(), String::new(), 0);
            let mut client = ClientSession::new(Arc::new(shared), true);
            client.welcome(&server.acl);
            OnlyRoundClient {
                client,
                reply: RespReply::new(Protocol::Resp2),
            }
        }

        fn take_reply(&mut self) -> String {
            let reply = String::from_utf8_lossy(self.reply.bytes()).into_owned();
            self.reply.clear();
            reply
        }
    }

    fn round_of(lines: &[&str]) -> CommandRound {
        let mut round = CommandRound::new(false);
        for line in lines {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let (mut bytes, mut parser) = (Vec::new(), Parser::new());
            encode::words(&mut bytes, &words);
            let found = parser.next(&bytes, &RequestLimits::default());
            assert_eq!(found, Ok(RequestProgress::Complete(bytes.len())));
            assert_eq!(round.add(0, 0, &parser, &bytes), BatchAdmission::Yes);
        }
        round
    }

    /// Executes commands as one round and returns the replies.
    fn execute(server: &ServerCore, lines: &[&str]) -> String {
        let mut client = OnlyRoundClient::new(server);
        round_of(lines).execute(&mut Executor::new(server), NOW_MS, &mut client);
        client.take_reply()
    }

    /// Returns a function that refuses the notes of a round: its third batch, after the one that
    /// reads and the one that writes.
    fn notes_of_a_round() -> impl FnMut(RefusableCall, &[u8]) -> bool {
        let mut batches = 0;
        move |call, _| {
            batches += usize::from(call == RefusableCall::Execute);
            call == RefusableCall::Execute && batches == 3
        }
    }

    /// Returns a server with a hash that expires.
    fn with_hash() -> ServerCore {
        let server = ServerCore::new(TABLE.registry(), ServerOptions::default());
        let replies = execute(&server, &["HSET h f old", "EXPIREAT h 1900000000"]);
        assert_eq!(replies, ":1\r\n:1\r\n");
        server
    }

    /// Commands that give a key another object, and move its note to an earlier time.
    const ANOTHER: [&str; 3] = ["DEL h", "HSET h f new", "EXPIREAT h 1800000000"];

    /// Frees what was given up, and checks that all of it was given up once.
    fn reclaim(server: &ServerCore) -> usize {
        let retired = server.keyspace.retired();
        server
            .keyspace
            .reclaim_by(crate::keyspace::Keyspace::try_exclude);
        retired
    }

    fn notes_of(server: &ServerCore) -> Vec<Note> {
        let databases = server.keyspace.share();
        databases[0].notes(u64::MAX, 10).expect("an index")
    }

    #[test]
    fn a_key_whose_notes_are_both_refused_keeps_its_object_and_the_other_is_given_up_once() {
        let server = with_hash();
        let replies = refusing(notes_of_a_round(), || execute(&server, &ANOTHER));
        let refused = replies.lines().filter(|line| line.starts_with("-OOM"));
        assert_eq!(refused.count(), 3, "{replies}");
        assert_eq!(reclaim(&server), 1);
        let replies = execute(&server, &["HSET other f v", "HGET h f"]);
        assert_eq!(replies, ":1\r\n$3\r\nold\r\n");
        assert_eq!(notes_of(&server), [(1_900_000_000_000, b"h".to_vec())]);
    }

    #[test]
    fn a_key_whose_old_record_is_refused_keeps_the_new_one_and_its_object() {
        let server = with_hash();
        let mut notes = notes_of_a_round();
        let refuse = move |call, key: &[u8]| {
            notes(call, key) || call == RefusableCall::Insert && !is_note(key)
        };
        let replies = refusing(refuse, || execute(&server, &ANOTHER));
        assert_eq!(replies, ":1\r\n:1\r\n:1\r\n");
        assert_eq!(reclaim(&server), 1);
        let replies = execute(&server, &["HSET other f v", "HGET h f"]);
        assert_eq!(replies, ":1\r\n$3\r\nnew\r\n");
        assert_eq!(notes_of(&server), [(1_800_000_000_000, b"h".to_vec())]);
    }

    /// The hash is changed in place, so that its old record would name an empty one.
    #[test]
    fn a_hash_that_a_round_has_emptied_is_deleted_though_its_note_stays() {
        let server = with_hash();
        let replies = refusing(notes_of_a_round(), || execute(&server, &["HDEL h f"]));
        assert_eq!(replies, ":1\r\n");
        assert_eq!(reclaim(&server), 1);
        assert_eq!(execute(&server, &["EXISTS h"]), ":0\r\n");
        assert_eq!(notes_of(&server), [(1_900_000_000_000, b"h".to_vec())]);
    }

    /// One command is refused, and the one after it is executed again as if another server had
    /// changed its key.
    #[test]
    fn replies_of_one_round_that_are_corrected_for_two_reasons_stay_in_their_order() {
        let server = with_hash();
        let (mut executor, mut client) = (Executor::new(&server), OnlyRoundClient::new(&server));
        let mut round = round_of(&["EXPIREAT h 1800000000", "INCR n", "INCR other"]);
        let executed = refusing(notes_of_a_round(), || {
            round.execute_in_phase(&executor, NOW_MS, &mut client)
        });
        assert!(executed);
        round.conflicts.push(1);
        round.execute_again(&mut executor, NOW_MS, &mut client);
        round.correct_replies(&mut client);
        let reply = client.take_reply();
        let (refused, rest) = reply.split_once("\r\n").expect("a line");
        assert!(refused.starts_with("-OOM"), "{reply}");
        assert_eq!(rest, ":2\r\n:1\r\n");
    }
}

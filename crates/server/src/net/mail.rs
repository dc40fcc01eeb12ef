//! The messages that other threads leave for a thread.

use super::thread::IoThread;
use crate::connection::IoThreadMessage;

impl IoThread<'_> {
    /// Handles the messages that have arrived, and those that were left of an earlier call.
    pub(super) fn read_mail(&mut self) {
        let sent = self.mailbox.empty().into_iter();
        // Messages that resume clients are handled last: such a client may unsubscribe, and must
        // first get what was published before. The messages of one client keep their order.
        let (last, first): (Vec<_>, Vec<_>) =
            sent.partition(|message| matches!(message, IoThreadMessage::Fetched { .. }));
        self.mail.extend(first.into_iter().chain(last));
        let mut fetched = Vec::new();
        while let Some(message) = self.mail.pop_front() {
            if message.client().is_some() && message.client() == self.lent.client {
                self.lent.messages.push(message);
                continue;
            }
            match message {
                IoThreadMessage::Serve(stream) => self.add(stream),
                IoThreadMessage::Deliver { client, bytes } => match self.by_client.get(&client) {
                    Some(&index) => self.deliver(index, &bytes),
                    None => self.forward(client, IoThreadMessage::Deliver { client, bytes }),
                },
                IoThreadMessage::Resume {
                    client,
                    answer,
                    logged_up_to,
                } => {
                    if let Some(&index) = self.by_client.get(&client) {
                        // Another client's command has executed the command of this client.
                        let own = &mut self.connections[index].client.logged_up_to;
                        *own = logged_up_to.max(*own);
                        self.reply_to_waiting(index, &answer);
                        // After messages that are here already: the client may unsubscribe.
                        self.mail.push_back(IoThreadMessage::GoOn { client });
                    } else {
                        let resume = IoThreadMessage::Resume {
                            client,
                            answer,
                            logged_up_to,
                        };
                        self.forward(client, resume);
                    }
                }
                IoThreadMessage::GoOn { client } => {
                    if let Some(&index) = self.by_client.get(&client) {
                        self.resume_waiting(index);
                    }
                }
                IoThreadMessage::Fetched { client, held } => {
                    if let Some(&index) = self.by_client.get(&client) {
                        self.resume_parked(index);
                        fetched.push(held);
                    }
                }
                IoThreadMessage::Close { client } => {
                    if let Some(&index) = self.by_client.get(&client) {
                        self.close(index);
                    } else {
                        self.forward(client, IoThreadMessage::Close { client });
                    }
                }
                IoThreadMessage::Adopt(connection) => self.adopt(*connection),
                IoThreadMessage::Listen(sockets) => self.listen(sockets),
            }
        }
        if !fetched.is_empty() {
            // The commands find the values as long as these are held.
            self.execute_round();
        }
    }

    /// Adds a message that was published to the output of a connection.
    fn deliver(&mut self, index: usize, bytes: &[u8]) {
        // The replies to requests that were read before come first.
        self.execute_round();
        let state = &mut *self.guard;
        let connection = &mut state.connections[index];
        let share = &self.server.clients.share;
        share.note_received(&connection.client.shared, bytes.len());
        connection.bound_output(self.server);
        connection.reply.raw(bytes);
        connection.note_held(share);
        if connection.is_over_output_limit(self.server, state.steady_ms) {
            self.close(index);
        } else {
            self.mark_dirty(index);
        }
    }
}

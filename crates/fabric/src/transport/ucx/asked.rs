//! The verbs of one post to a node that executes them by messages.

use super::batch;
use super::endpoint::{UcxClient, UcxPendingCall};
use super::message::UcxRequest;
use crate::error::FabricError;
use crate::verb::FabricVerb;
use std::time::Instant;

/// The verbs of a post to a node, in one message.
pub struct UcxPostMessage<'p> {
    /// The index of the node among the client's nodes.
    node: usize,
    /// The indices of the verbs among the post's verbs.
    verbs: Vec<usize>,
    /// The request and the time of sending; `None` until the message is sent.
    sent: Option<(UcxPendingCall<'p>, Instant)>,
    is_done: bool,
}

impl<'p> UcxPostMessage<'p> {
    /// Begins with one of the post's verbs.
    pub fn new(node: usize, verb: usize) -> UcxPostMessage<'p> {
        UcxPostMessage {
            node,
            verbs: vec![verb],
            sent: None,
            is_done: false,
        }
    }

    pub fn node(&self) -> usize {
        self.node
    }

    /// Adds one of the post's verbs.
    pub fn push(&mut self, verb: usize) {
        self.verbs.push(verb);
    }

    fn message(&self, request: UcxRequest, number: u64, verbs: &[FabricVerb<'_>]) -> Vec<u8> {
        let mut message = request.encode(number);
        for verb in &self.verbs {
            batch::encode(&verbs[*verb], &mut message);
        }
        message
    }

    /// Sends the verbs without requesting a reply.
    pub fn tell(&self, client: &UcxClient, verbs: &[FabricVerb<'_>]) {
        let message = self.message(UcxRequest::Tell, 0, verbs);
        client.say(&client.nodes[self.node], message);
    }

    /// Sends the verbs, or receives the reply. Returns true if all is done.
    ///
    /// # Errors
    /// `NodeLost`.
    pub fn advance(
        &mut self,
        client: &'p UcxClient,
        verbs: &mut [FabricVerb<'_>],
    ) -> Result<bool, FabricError> {
        if self.is_done {
            return Ok(true);
        }
        let node = &client.nodes[self.node];
        let Some((awaited, asked)) = &self.sent else {
            let awaited = client.awaited(self.node, false);
            client.say(node, self.message(UcxRequest::Do, awaited.number(), verbs));
            self.sent = Some((awaited, Instant::now()));
            return Ok(false);
        };
        if let Some(answer) = awaited.answer() {
            let mut rest = answer.done.map(|_| &answer.rest[..]);
            for verb in &self.verbs {
                rest = rest.and_then(|rest| batch::take(&mut verbs[*verb], rest));
            }
            // Set also if the reply is wrong, because the reply was taken and will not come again.
            self.is_done = true;
            // A peer that sends such a reply is not a node of ours any more.
            return if rest.is_some_and(<[u8]>::is_empty) {
                Ok(true)
            } else {
                Err(client.lose(node))
            };
        }
        if node.connection.borrow().is_none() || client.is_silent(node, *asked) {
            return Err(client.lose(node));
        }
        Ok(false)
    }
}

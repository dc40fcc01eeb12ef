//! Writing a key once for all who want to write it.

use super::turns::{Called, Turn, Turns};
use crate::error::PoolError;
use std::sync::Arc;

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets the value, whether the key is there or not.
    Insert(Vec<u8>),
    /// Sets the value if the key is there.
    Update(Vec<u8>),
}

impl Write {
    /// What a key that held `before` holds afterwards.
    fn after<'w>(&'w self, before: Option<&'w [u8]>) -> Option<&'w [u8]> {
        match self {
            Write::Insert(value) => Some(value),
            Write::Update(value) => before.map(|_| &value[..]),
        }
    }
}

/// A value, or that there is none.
type Held = Option<Vec<u8>>;
type Answer = Result<Held, PoolError>;

/// One client of a compute node writes a key, and with it what others here want to write to it
/// meanwhile: of all these the last value goes to the memory node, just before the lock is given
/// back (write combining, SMART section 4.3, CHIME section 4.1.2).
///
/// The writes take effect one after the other at the moment in which the last value does, the
/// leader's first and then in the order in which they came. Each is answered the value before it:
/// the leader what was found in remote memory, and each other what the one before it has written.
#[derive(Debug)]
pub struct Writes {
    turns: Turns<Arc<[u8]>, Arc<Write>, (), Answer>,
}

impl Default for Writes {
    fn default() -> Writes {
        Writes {
            turns: Turns::new(),
        }
    }
}

impl Writes {
    /// Writes to `key`, or has another client do it, and answers the value before.
    ///
    /// `lead` does the write remotely: takes the lock, reads what the key holds,
    /// [`close`](Leader::close)s, writes what that says, gives the lock back, and answers what it
    /// has read. If it does not close, nobody is combined with it.
    ///
    /// # Errors
    /// What `lead` answers; after it has closed, all that are combined with it are answered that.
    /// `Interrupted`, if another led, has closed, and was dropped: then the write may have
    /// taken effect, or may do so, once or not at all. If he was dropped before, another one leads.
    pub async fn combine(
        &self,
        key: &[u8],
        write: Write,
        lead: impl AsyncFnOnce(&mut Leader<'_>) -> Answer,
    ) -> Answer {
        let write = Arc::new(write);
        let turn = match self.turns.enter(key.into(), Arc::clone(&write)).await {
            Called::Answered(answer) => return answer,
            Called::Turn(turn) => turn,
        };
        let mut leader = Leader {
            turn,
            write,
            answers: Vec::new(),
        };
        let done = lead(&mut leader).await;
        let answers = std::mem::take(&mut leader.answers);
        match &done {
            Ok(_) => leader.turn.answer(answers.into_iter().map(Ok)),
            Err(error) => leader
                .turn
                .answer(answers.iter().map(|_| Err(error.clone()))),
        }
        done
    }

    /// The number of keys that are being written.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// True if none is being written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Who writes a key for others too.
#[derive(Debug)]
pub struct Leader<'w> {
    turn: Turn<'w, Arc<[u8]>, Arc<Write>, (), Answer>,
    write: Arc<Write>,
    /// What those who are combined will be answered. As many as they are.
    answers: Vec<Held>,
}

impl Leader<'_> {
    /// Decides who is combined with this write, and answers what is to be written; `None` if the key
    /// is to stay absent. `found` is what the key holds.
    ///
    /// If the key is there, all who have come are combined. If it is not, and the leader updates,
    /// those are who update too: all of them find it absent. Those who insert wait, as the leader
    /// may not know where there is room.
    ///
    /// To be called under the lock under which `found` was read, as late as possible: nobody else
    /// may write the key before what this answers is written, or given up. What was given up before
    /// any of it was written, as the lock was lost, can be closed once more, with what is found then.
    pub fn close(&mut self, found: Option<&[u8]>) -> Option<Vec<u8>> {
        let stays = self.write.after(found).is_none();
        self.turn
            .close(|write| !stays || matches!(**write, Write::Update(_)));
        self.answers.clear();
        let mut held = self.write.after(found);
        for write in self.turn.messages() {
            self.answers.push(held.map(<[u8]>::to_vec));
            held = write.after(held);
        }
        held.map(<[u8]>::to_vec)
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let interrupted = self.answers.drain(..);
        self.turn
            .answer(interrupted.map(|_| Err(PoolError::Interrupted)));
    }
}

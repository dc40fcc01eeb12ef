//! Why no advice can be given.

use std::io;

/// Why no advice can be given.
#[derive(Debug, thiserror::Error)]
pub enum AdviseError {
    /// There is no server, or it has gone.
    #[error("cannot talk to a server: {0}")]
    Connection(#[from] io::Error),
    /// The server wants to know who asks.
    #[error("the server asks for a password: give --password, or set NEARFIELD_PASSWORD ({0})")]
    Password(String),
    /// The user has no right to a command.
    #[error(
        "the user has no right to {command}: {reply}. These rights are enough: \
         ~* +@read +select +info +client"
    )]
    Forbidden {
        /// The command.
        command: String,
        /// What the server says.
        reply: String,
    },
    /// The server refuses a command for another reason.
    #[error("the server refuses {command}: {reply}")]
    Refused {
        /// The command.
        command: String,
        /// What the server says.
        reply: String,
    },
    /// The server answers something that the command does not answer.
    #[error("the server answers {command} in another form than Redis does")]
    Strange {
        /// The command.
        command: String,
    },
    /// There are no keys.
    #[error("the server has no keys, so there is nothing to advise on")]
    Empty,
    /// There are keys, but none could be looked at.
    #[error(
        "none of {seen} keys could be looked at: they have expired, or other nodes of the cluster \
         have them"
    )]
    Nothing {
        /// The keys that the server has named.
        seen: u64,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// What the system says.
        source: io::Error,
    },
}

impl AdviseError {
    /// The error that a server's refusal is.
    pub fn refusal(command: &str, reply: &str) -> AdviseError {
        let (command, text) = (command.to_owned(), reply.to_owned());
        if reply.starts_with("NOAUTH") || reply.starts_with("WRONGPASS") {
            return AdviseError::Password(text);
        }
        match reply.starts_with("NOPERM") {
            true => AdviseError::Forbidden {
                command,
                reply: text,
            },
            false => AdviseError::Refused {
                command,
                reply: text,
            },
        }
    }
}

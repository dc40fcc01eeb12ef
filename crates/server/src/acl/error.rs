//! Errors in users and their rules.

/// The reason for refusing a rule, in Redis's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A rule that does not parse.
    #[error("Syntax error")]
    Syntax,
    /// The name of a command or category that does not exist.
    #[error("Unknown command or category name in ACL")]
    UnknownName,
    /// A pattern of keys, though all keys are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not \
         have any effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    KeysAfterAll,
    /// A pattern of channels, though all channels are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does \
         not have any effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    ChannelsAfterAll,
    /// A password to be removed that does not exist.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// A hash of a password that does not parse.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal \
         characters"
    )]
    BadHash,
    /// A subcommand with a first argument.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgumentOfSubcommand,
}

/// The reason that users could not be changed, saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AclError {
    /// A rule that is refused.
    #[error("Error in ACL SETUSER modifier '{rule}': {source}")]
    Rule {
        /// The rule.
        rule: String,
        /// The reason for the refusal.
        source: RuleError,
    },
    /// A selector that is not closed.
    #[error("Unmatched parenthesis in acl selector starting at '{0}'.")]
    UnmatchedParenthesis(String),
    /// A user's name that has blanks.
    #[error("Usernames can't contain spaces or null characters")]
    UserName,
    /// A line of the configuration that describes a user and is refused.
    #[error("{place}: {why}")]
    Line {
        /// The file and the line.
        place: String,
        /// Reason for the refusal.
        why: String,
    },
    /// No file to load or save.
    #[error(
        "This Redis instance is not configured to use an ACL file. You may want to specify users \
         via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
         configuration file set) in order to store users in the Redis configuration."
    )]
    NoFile,
    /// Lines of the file that are invalid; nothing was loaded.
    #[error(
        "{0} WARNING: ACL errors detected, no change to the previously active ACL \
         rules was performed"
    )]
    File(String),
    /// A file that cannot be read or written.
    #[error("There was an error trying to {what} the ACL file {path}: {source}")]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Error for a name and password that do not belong to a user that may log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("WRONGPASS invalid username-password pair or user is disabled.")]
pub struct WrongPassword;

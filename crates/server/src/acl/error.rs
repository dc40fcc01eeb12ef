//! Errors in users and their rules.

/// Why a rule is refused; the words are Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// It is no rule.
    #[error("Syntax error")]
    Syntax,
    /// It names a command or category that is not there.
    #[error("Unknown command or category name in ACL")]
    UnknownName,
    /// A pattern of keys, where all are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not \
         have any effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    KeysAfterAll,
    /// A pattern of channels, where all are allowed.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does \
         not have any effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    ChannelsAfterAll,
    /// A password to be removed is not there.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// A hash of a password is none.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal \
         characters"
    )]
    BadHash,
    /// A subcommand with an argument.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgumentOfSubcommand,
}

/// Why users could not be set, saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AclError {
    /// A rule is refused.
    #[error("Error in ACL SETUSER modifier '{rule}': {source}")]
    Rule {
        /// The rule.
        rule: String,
        /// What is wrong with it.
        source: RuleError,
    },
    /// A selector is not closed.
    #[error("Unmatched parenthesis in acl selector starting at '{0}'.")]
    UnmatchedParenthesis(String),
    /// A user's name has blanks.
    #[error("Usernames can't contain spaces or null characters")]
    UserName,
    /// A line of the configuration that describes a user is refused.
    #[error("{place}: {why}")]
    Line {
        /// The file and the line.
        place: String,
        /// Reason for the refusal.
        why: String,
    },
    /// There is no file to load or save.
    #[error(
        "This Redis instance is not configured to use an ACL file. You may want to specify users \
         via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis \
         configuration file set) in order to store users in the Redis configuration."
    )]
    NoFile,
    /// Lines of the file are wrong; nothing was loaded.
    #[error(
        "{0} WARNING: ACL errors detected, no change to the previously active ACL \
         rules was performed"
    )]
    File(String),
    /// The file cannot be read or written.
    #[error("There was an error trying to {what} the ACL file {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
}

/// The name and password do not belong to a user who may log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("WRONGPASS invalid username-password pair or user is disabled.")]
pub struct WrongPassword;

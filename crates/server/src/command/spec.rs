//! A row of the command table.

use super::call::CommandCall;
use super::plan::{CommandPlan, PlannedCommand, Touch, Usual};
use crate::catalog::{CommandGroup, CommandKeySpec, Flags, Spec};
use crate::error::CommandError;
use crate::object::{PartOf, node};
use std::ops::Deref;

/// The result of a command's implementation. If it is an error, the reply written so far is
/// dropped.
pub type Answer = Result<(), CommandError>;

/// A function that executes a command.
pub type CommandFunction = fn(&mut CommandCall<'_>) -> Answer;

/// The implementation of a command.
#[derive(Clone, Copy, Debug)]
pub enum CommandImplementation {
    /// A function.
    Command(CommandFunction),
    /// A plan: operations on the index, and a function that receives their outcomes.
    Planned(CommandPlan),
    /// A subcommand, named by the second argument.
    Container(&'static [CommandDefinition]),
}

/// A function that returns the name of another command if the arguments turn the command into it.
pub type Turning = fn(&[&[u8]]) -> Option<&'static str>;

/// A function that returns the positions of a command's secret words, such as passwords, in
/// ascending order.
pub type SecretPositions = fn(&[&[u8]]) -> Vec<usize>;

/// A function that returns the error for a subcommand that a container does not have.
pub type SubcommandRefusal = fn(&[u8]) -> CommandError;

/// A row of the command table: the description of a command, and its implementation.
#[derive(Clone, Copy, Debug)]
pub struct CommandDefinition {
    /// The description of the command.
    pub spec: Spec,
    /// Its implementation.
    pub run: CommandImplementation,
    /// The implementation of a container that is sent without a subcommand.
    pub bare: Option<CommandFunction>,
    /// The function that finds the command into which arguments turn this one.
    pub turning: Option<Turning>,
    /// The function that returns the part of its keys' objects that it touches.
    pub part: PartOf,
    /// The function that finds the words which monitors and the slow log do not show.
    pub secrets: SecretPositions,
    /// The function that returns a container's error for an unknown subcommand or a wrong number of
    /// its arguments, if it is not the usual error.
    pub unknown: Option<SubcommandRefusal>,
}

impl Deref for CommandDefinition {
    type Target = Spec;

    #[inline]
    fn deref(&self) -> &Spec {
        &self.spec
    }
}

impl CommandDefinition {
    /// Returns its subcommands, if it is a container.
    pub fn subcommands(&self) -> &'static [CommandDefinition] {
        match self.run {
            CommandImplementation::Command(_) | CommandImplementation::Planned(_) => &[],
            CommandImplementation::Container(subcommands) => subcommands,
        }
    }

    /// Finds a subcommand by its name in any case.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static CommandDefinition> {
        let mut subcommands = self.subcommands().iter();
        subcommands.find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
    }

    /// Creates a command without keys and flags.
    pub const fn new(name: &'static str, arity: i32, run: CommandFunction) -> CommandDefinition {
        CommandDefinition {
            spec: Spec {
                name,
                arity,
                flags: Flags(0),
                keys: CommandKeySpec::None,
                // `about` and `summary` replace these for most commands.
                group: CommandGroup::Server,
                since: "1.0.0",
                summary: "",
                complexity: "O(1)",
                deviation: "",
                categories: &[],
            },
            run: CommandImplementation::Command(run),
            bare: None,
            turning: None,
            // A command that names no part touches whole objects.
            part: node::all,
            secrets: |_| Vec::new(),
            unknown: None,
        }
    }

    /// Creates the subcommand `HELP` of a container, which needs no keys.
    pub const fn help(
        group: CommandGroup,
        since: &'static str,
        run: CommandFunction,
    ) -> CommandDefinition {
        CommandDefinition::new("help", 2, run)
            .flag(Flags(Flags::NO_PHASE.0 | Flags::LOADING.0))
            .about(group, since, "O(1)")
            .summary("Describes the subcommands.")
    }

    /// Creates a command that becomes operations on the index, one for each of its keys.
    pub const fn planned(
        name: &'static str,
        arity: i32,
        touch: Touch,
        complete: fn(&mut PlannedCommand<'_>) -> Answer,
    ) -> CommandDefinition {
        CommandDefinition {
            run: CommandImplementation::Planned(CommandPlan {
                touch,
                complete,
                usual: None,
            }),
            // The plan takes the place of this function, which is never called.
            ..CommandDefinition::new(name, arity, |_| Ok(()))
        }
    }

    /// Sets the effect of a planned command's completion in the usual case.
    pub const fn usually(mut self, usual: Usual) -> CommandDefinition {
        debug_assert!(
            matches!(self.run, CommandImplementation::Planned(_)),
            "only a plan has a usual case"
        );
        if let CommandImplementation::Planned(plan) = &mut self.run {
            plan.usual = Some(usual);
        }
        self
    }

    /// Creates a command that is only a name for its subcommands.
    pub const fn container(
        name: &'static str,
        subcommands: &'static [CommandDefinition],
    ) -> CommandDefinition {
        // The lookup returns a container itself only if it has a function for that.
        const fn never(_: &mut CommandCall<'_>) -> Answer {
            Ok(())
        }
        CommandDefinition {
            run: CommandImplementation::Container(subcommands),
            ..CommandDefinition::new(name, -2, never)
        }
    }

    /// Lets a container be sent without a subcommand, and sets its implementation for that.
    pub const fn without_subcommand(mut self, run: CommandFunction) -> CommandDefinition {
        debug_assert!(
            matches!(self.run, CommandImplementation::Container(_)),
            "other commands have no subcommands"
        );
        // As Redis shows it for COMMAND, which may be sent alone.
        self.spec.arity = -1;
        self.bare = Some(run);
        self
    }

    /// Adds flags.
    pub const fn flag(mut self, flags: Flags) -> CommandDefinition {
        self.spec.flags = Flags(self.spec.flags.0 | flags.0);
        self
    }
    /// Adds the flag for reading keys.
    pub const fn reads(self) -> CommandDefinition {
        self.flag(Flags::READONLY)
    }
    /// Adds the flag for changing keys.
    pub const fn writes(self) -> CommandDefinition {
        self.flag(Flags::WRITE)
    }
    /// Adds the flags for changing keys and taking memory.
    pub const fn grows(self) -> CommandDefinition {
        self.flag(Flags(Flags::WRITE.0 | Flags::DENYOOM.0))
    }
    /// Adds the flags for changing keys and taking little memory.
    pub const fn slowly_grows(self) -> CommandDefinition {
        self.flag(Flags(Flags::WRITE.0 | Flags::SLOWLY_GROWS.0))
    }
    /// Adds the flags for reading keys without using them.
    pub const fn looks(self) -> CommandDefinition {
        self.reads().flag(Flags::LOOKS_ONLY)
    }
    /// Adds the flag for constant or logarithmic time.
    pub const fn fast(self) -> CommandDefinition {
        self.flag(Flags::FAST)
    }
    /// Sets one key, the argument at `position`.
    pub const fn key(self, position: usize) -> CommandDefinition {
        self.keys_at(position, position as i32, 1)
    }
    /// Sets the keys: every `step`-th argument from `first` to `last`.
    pub const fn keys_at(mut self, first: usize, last: i32, step: usize) -> CommandDefinition {
        debug_assert!(first > 0 && step > 0, "the name of the command is no key");
        self.spec.keys = CommandKeySpec::Range { first, last, step };
        self
    }
    /// Sets the keys to those after the argument at `count`, which is their number.
    pub const fn keys_counted(mut self, count: usize, target: Option<usize>) -> CommandDefinition {
        self.spec.keys = CommandKeySpec::Counted { count, target };
        self
    }
    /// Sets the function that finds the keys.
    pub const fn keys_found(mut self, find: fn(&[&[u8]]) -> Vec<usize>) -> CommandDefinition {
        self.spec.keys = CommandKeySpec::Custom(find);
        self
    }
    /// Sets one key, the argument at `key`, or in its place all arguments after `keyword`, which is
    /// searched for from `from` (negative: from the end, backwards).
    pub const fn key_or_behind(
        mut self,
        key: usize,
        keyword: &'static str,
        from: i32,
        find: fn(&[&[u8]]) -> Vec<usize>,
    ) -> CommandDefinition {
        self.spec.keys = CommandKeySpec::OneOrBehind {
            key,
            keyword,
            from,
            find,
        };
        self
    }
    /// Sets the group, the first version of Redis that has the command, and its time in O notation.
    pub const fn about(
        mut self,
        group: CommandGroup,
        since: &'static str,
        complexity: &'static str,
    ) -> CommandDefinition {
        self.spec.group = group;
        self.spec.since = since;
        self.spec.complexity = complexity;
        self
    }
    /// Sets one sentence that describes the command for people.
    pub const fn summary(mut self, summary: &'static str) -> CommandDefinition {
        self.spec.summary = summary;
        self
    }
    /// Sets the difference from Redis, and its reason.
    pub const fn differs(mut self, deviation: &'static str) -> CommandDefinition {
        self.spec.deviation = deviation;
        self
    }
    /// Lets some arguments turn the command into another, of which it then needs the permissions.
    pub const fn turns_into(mut self, other: Turning) -> CommandDefinition {
        self.turning = Some(other);
        self
    }
    /// Sets the part of its keys' objects that it touches.
    pub const fn part(mut self, part: PartOf) -> CommandDefinition {
        self.part = part;
        self
    }
    /// Sets the words that monitors and the slow log do not show.
    pub const fn hides(mut self, secrets: SecretPositions) -> CommandDefinition {
        self.secrets = secrets;
        self
    }
    /// Sets a container's error for an unknown subcommand or a wrong number of its arguments.
    pub const fn unknown_by(mut self, error: SubcommandRefusal) -> CommandDefinition {
        debug_assert!(
            matches!(self.run, CommandImplementation::Container(_)),
            "other commands have no subcommands"
        );
        self.unknown = Some(error);
        self
    }
    /// Adds categories of access control to those derived from flags and group.
    pub const fn categories(mut self, categories: &'static [&'static str]) -> CommandDefinition {
        self.spec.categories = categories;
        self
    }

    /// Refuses the command for keys that other servers change, too.
    pub const fn unshared(self) -> CommandDefinition {
        self.flag(Flags::UNSHARED)
    }
}

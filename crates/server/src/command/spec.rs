//! A row of the command table.

use super::call::Call;
use super::plan::{Plan, Planned, Touch, Usual};
use crate::catalog::{Flags, Group, KeySpec, Spec};
use crate::error::CommandError;
use crate::object::{PartOf, node};
use std::ops::Deref;

/// What a command's implementation answers. What it has replied before an error is taken back.
pub type Answer = Result<(), CommandError>;

/// What runs a command.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// Its implementation.
    Command(fn(&mut Call<'_>) -> Answer),
    /// Operations on the index, and what follows from their outcomes.
    Planned(Plan),
    /// One of its subcommands, named by the second argument.
    Container(&'static [Command]),
}

/// Finds the name of the command that arguments make of another one, if they do.
pub type Turning = fn(&[&[u8]]) -> Option<&'static str>;

/// A row of the command table: the description of a command, and its implementation.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its description.
    pub spec: Spec,
    /// What runs it.
    pub run: Run,
    /// What runs a container that is sent without a subcommand.
    pub bare: Option<fn(&mut Call<'_>) -> Answer>,
    /// Finds the name of another command that arguments make of it.
    pub turning: Option<Turning>,
    /// Says which part of its keys' objects it touches.
    pub part: PartOf,
}

impl Deref for Command {
    type Target = Spec;

    #[inline]
    fn deref(&self) -> &Spec {
        &self.spec
    }
}

impl Command {
    /// A command without keys and flags.
    pub const fn new(name: &'static str, arity: i32, run: fn(&mut Call<'_>) -> Answer) -> Command {
        Command {
            spec: Spec {
                name,
                arity,
                flags: Flags(0),
                keys: KeySpec::None,
                group: Group::Server,
                since: "1.0.0",
                summary: "",
                complexity: "O(1)",
                deviation: "",
                categories: &[],
            },
            run: Run::Command(run),
            bare: None,
            turning: None,
            part: node::all,
        }
    }

    /// A command that becomes operations on the index, one for each of its keys.
    pub const fn planned(
        name: &'static str,
        arity: i32,
        touch: Touch,
        complete: fn(&mut Planned<'_>) -> Answer,
    ) -> Command {
        Command {
            run: Run::Planned(Plan {
                touch,
                complete,
                usual: None,
            }),
            ..Command::new(name, arity, |_| Ok(()))
        }
    }

    /// What the completion of a planned command comes to in the usual case.
    pub const fn usually(mut self, usual: Usual) -> Command {
        if let Run::Planned(plan) = &mut self.run {
            plan.usual = Some(usual);
        }
        self
    }

    /// A command that is only a name for its subcommands.
    pub const fn container(name: &'static str, subcommands: &'static [Command]) -> Command {
        const fn never(_: &mut Call<'_>) -> Answer {
            Ok(())
        }
        Command {
            run: Run::Container(subcommands),
            ..Command::new(name, -2, never)
        }
    }

    /// A container that may be sent without a subcommand, and then does this.
    pub const fn without_subcommand(mut self, run: fn(&mut Call<'_>) -> Answer) -> Command {
        self.spec.arity = -1;
        self.bare = Some(run);
        self
    }

    /// Adds flags.
    pub const fn flag(mut self, flags: Flags) -> Command {
        self.spec.flags = Flags(self.spec.flags.0 | flags.0);
        self
    }
    /// It reads keys.
    pub const fn reads(self) -> Command {
        self.flag(Flags::READONLY)
    }
    /// It changes keys.
    pub const fn writes(self) -> Command {
        self.flag(Flags::WRITE)
    }
    /// It changes keys and may take memory.
    pub const fn grows(self) -> Command {
        self.flag(Flags(Flags::WRITE.0 | Flags::DENYOOM.0))
    }
    /// It reads keys, and is no use of them.
    pub const fn looks(self) -> Command {
        self.reads().flag(Flags::LOOKS_ONLY)
    }
    /// It takes constant or logarithmic time.
    pub const fn fast(self) -> Command {
        self.flag(Flags::FAST)
    }
    /// It has one key, the argument at `position`.
    pub const fn key(self, position: usize) -> Command {
        self.keys_at(position, position as i32, 1)
    }
    /// Its keys are the arguments from `first` to `last`, each `step`.
    pub const fn keys_at(mut self, first: usize, last: i32, step: usize) -> Command {
        self.spec.keys = KeySpec::Range { first, last, step };
        self
    }
    /// The argument at `count` says how many keys follow.
    pub const fn keys_counted(mut self, count: usize, target: Option<usize>) -> Command {
        self.spec.keys = KeySpec::Counted { count, target };
        self
    }
    /// Its keys are found by a function.
    pub const fn keys_found(mut self, find: fn(&[&[u8]]) -> Vec<usize>) -> Command {
        self.spec.keys = KeySpec::Custom(find);
        self
    }
    /// It has one key, the argument at `key`, or in its place all that follow `keyword`, which is
    /// searched for from `from` (negative: from the end, backwards).
    pub const fn key_or_behind(
        mut self,
        key: usize,
        keyword: &'static str,
        from: i32,
        find: fn(&[&[u8]]) -> Vec<usize>,
    ) -> Command {
        self.spec.keys = KeySpec::OneOrBehind {
            key,
            keyword,
            from,
            find,
        };
        self
    }
    /// Its group, the version of Redis that it is known since, and how its time grows.
    pub const fn about(
        mut self,
        group: Group,
        since: &'static str,
        complexity: &'static str,
    ) -> Command {
        self.spec.group = group;
        self.spec.since = since;
        self.spec.complexity = complexity;
        self
    }
    /// One sentence for people.
    pub const fn summary(mut self, summary: &'static str) -> Command {
        self.spec.summary = summary;
        self
    }
    /// How it differs from Redis, and why.
    pub const fn differs(mut self, deviation: &'static str) -> Command {
        self.spec.deviation = deviation;
        self
    }
    /// Some arguments make another command of it, which then needs the permissions of that one.
    pub const fn turns_into(mut self, other: Turning) -> Command {
        self.turning = Some(other);
        self
    }
    /// It touches only a part of its keys' objects.
    pub const fn part(mut self, part: PartOf) -> Command {
        self.part = part;
        self
    }
    /// Categories of access control beyond those that flags and group tell.
    pub const fn categories(mut self, categories: &'static [&'static str]) -> Command {
        self.spec.categories = categories;
        self
    }

    /// It is not possible with keys that other servers change as well.
    pub const fn unshared(self) -> Command {
        self.flag(Flags::UNSHARED)
    }
}

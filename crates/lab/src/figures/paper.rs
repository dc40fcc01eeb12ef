//! The interface of a paper whose figures are drawn again.

use super::job::Job;
use super::row::{Claim, Device, Network, Row};

/// A figure: what it is called, what it shows, and what has to be done for it at a scale.
pub(super) struct Figure<S> {
    pub name: &'static str,
    pub title: &'static str,
    pub jobs: fn(&Figure<S>, &S) -> Vec<Job>,
}

/// A figure's name and what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Title {
    pub name: &'static str,
    pub text: &'static str,
}

/// A paper at a scale.
pub(super) trait Paper {
    /// Its name.
    fn name(&self) -> &'static str;

    /// All figures, in its order.
    fn titles(&self) -> Vec<Title>;

    /// All names of figures, for people.
    fn allowed(&self) -> &'static str;

    /// What has to be done for some figures.
    fn jobs(&self, figures: &[&'static str]) -> Vec<Job>;

    /// What the networks are modelled by, where there are some.
    fn networks(&self) -> Vec<Network> {
        Vec::new()
    }

    /// What modules are modelled by, where there are some.
    fn devices(&self) -> Vec<Device> {
        Vec::new()
    }

    /// The rows of a figure of which all are there, as they are shown.
    fn finish(&self, _figure: &str, rows: Vec<Row>) -> Vec<Row> {
        rows
    }

    /// All claims, with ours as far as it follows from rows.
    fn claims(&self, rows: &[Row]) -> Vec<Claim>;

    /// How large a run is and what it is modelled by, for people.
    fn head(&self, commit: &str) -> String;
}

impl<S> Figure<S> {
    pub(super) fn name_and_title(&self) -> Title {
        Title {
            name: self.name,
            text: self.title,
        }
    }
}

/// The jobs of a figure whose points come from runs that several figures share: none of its own.
pub(super) fn shared<S>(_: &Figure<S>, _: &S) -> Vec<Job> {
    Vec::new()
}

/// A table of figures: a name, what makes its jobs, and what it shows.
macro_rules! figures {
    ($($name:literal $jobs:path => $title:literal;)*) => {
        &[$(Figure { name: $name, title: $title, jobs: $jobs }),*]
    };
}

pub(super) use figures;

//! The interface of a paper with figures that are drawn again.

use super::job::FigureJob;
use super::row::{ModuleSystemModel, NetworkModel, PaperClaim, Row};

/// A figure: its name, its title, and its jobs at a scale.
pub(super) struct Figure<S> {
    pub name: &'static str,
    pub title: &'static str,
    pub jobs: fn(&Figure<S>, &S) -> Vec<FigureJob>,
}

/// A figure's name and title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Title {
    pub name: &'static str,
    pub text: &'static str,
}

/// A figure of a paper at a scale.
pub(super) struct ScaledFigure<'s> {
    pub title: Title,
    jobs: Box<dyn Fn() -> Vec<FigureJob> + 's>,
}

/// A paper at a scale.
pub(super) trait ScaledPaper {
    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Returns all figures, in the paper's order.
    fn figures(&self) -> Vec<ScaledFigure<'_>>;

    /// Returns the names of all figures as text.
    fn allowed(&self) -> &'static str;

    /// Returns the jobs with points for several of some figures.
    fn shared_jobs(&self, _figures: &[&'static str]) -> Vec<FigureJob> {
        Vec::new()
    }

    /// Returns the models of its networks; none by default.
    fn networks(&self) -> Vec<NetworkModel> {
        Vec::new()
    }

    /// Returns the models of its modules; none by default.
    fn devices(&self) -> Vec<ModuleSystemModel> {
        Vec::new()
    }

    /// Turns the complete rows of a figure into the rows that are shown.
    fn finish(&self, _figure: &str, rows: Vec<Row>) -> Vec<Row> {
        rows
    }

    /// Returns all claims, with our number if it follows from `rows`.
    fn claims(&self, rows: &[Row]) -> Vec<PaperClaim>;

    /// Describes the size of a run and its models as text.
    fn description(&self) -> String;

    /// Returns the text above the figures.
    fn head(&self, commit: &str) -> String {
        format!("commit {commit}\n{}\n", self.description())
    }

    /// Returns the titles of all figures.
    fn titles(&self) -> Vec<Title> {
        self.figures().iter().map(|figure| figure.title).collect()
    }

    /// Returns the jobs of some figures.
    fn jobs(&self, figures: &[&'static str]) -> Vec<FigureJob> {
        let mut all = self.figures();
        all.retain(|figure| figures.contains(&figure.title.name));
        let own = all.iter().flat_map(|figure| (figure.jobs)());
        self.shared_jobs(figures).into_iter().chain(own).collect()
    }
}

/// Returns the figures of a table at a scale.
pub(super) fn at_scale<'s, S: 'static>(
    figures: &'static [Figure<S>],
    scale: &'s S,
) -> Vec<ScaledFigure<'s>> {
    let figure = |figure: &'static Figure<S>| ScaledFigure {
        title: Title {
            name: figure.name,
            text: figure.title,
        },
        jobs: Box::new(move || (figure.jobs)(figure, scale)),
    };
    figures.iter().map(figure).collect()
}

/// Returns no jobs: the points of this figure come from runs that several figures share.
pub(super) fn shared<S>(_: &Figure<S>, _: &S) -> Vec<FigureJob> {
    Vec::new()
}

/// Creates a table of figures: a name, the function that makes its jobs, and a title.
macro_rules! figures {
    ($($name:literal $jobs:path => $title:literal;)*) => {
        &[$(Figure { name: $name, title: $title, jobs: $jobs }),*]
    };
}

pub(super) use figures;

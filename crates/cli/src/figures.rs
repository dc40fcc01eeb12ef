//! `nearfield figures`: the figures of a paper, from models.

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, ValueEnum};
use nearfield_lab::bench::{Completion, Interrupt, parse_quantity};
use nearfield_lab::error::LabError;
use nearfield_lab::figures::{FigureSession, Request, Scale};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// What a shell reports for a program ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Draw the figures of a paper again, from models of its hardware.
///
/// The indexes themselves run over a simulated network of ConnectX-6 adapters, or of memory attached
/// by CXL; clients, nodes and their time are virtual. So all throughput and latency is modelled, and
/// the same on any machine.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The paper
    paper: Paper,

    /// Figures, such as 12 or 18a, or 18 for all its parts [default: all]
    ///
    /// 3a to 3d: what rivals keep and read; 4a to 4c: verbs; 12: six workloads; 13: values of any
    /// length; 14: caches; 15a, 15b: one technique after the other; 16: metadata; 17: speculation;
    /// 18a to 18f: skew, caches, values, spans, neighborhoods; 19a to 19c: load factors and
    /// hotspots; cxl: memory attached by CXL, which is not in the paper.
    #[arg(value_name = "FIGURE")]
    figures: Vec<String>,

    /// Take minutes: 300,000 keys, and a few points of each axis
    #[arg(long)]
    quick: bool,

    /// Keys in place of the paper's 60M; caches shrink with them [default: 300k with --quick, else
    /// 60M or what memory allows]
    #[arg(long, value_name = "N", value_parser = count)]
    count: Option<u64>,

    /// Write points and claims to this file, after every figure
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write one page with all figures to this file, after every figure
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Papers whose figures there are.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Paper {
    /// CHIME, SOSP 2024: range indexes in disaggregated memory
    Chime,
}

const EXAMPLES: &str = "\
Examples:
  nearfield figures chime --quick --json chime.json
      All figures, with few keys and points.
  nearfield figures chime 12 15 --quick --html chime.html
      Six workloads, and what each technique is worth.
  nearfield figures chime 12 --count 6M
      With a tenth of the paper's keys and caches.";

fn count(text: &str) -> Result<u64, LabError> {
    parse_quantity("number of keys", text)
}

impl Arguments {
    fn request(&self) -> Result<Request, LabError> {
        let Paper::Chime = self.paper;
        let scale = if self.quick {
            Scale::quick()
        } else {
            Scale::full()
        };
        let scale = match self.count {
            Some(keys) => scale.with_keys(keys)?,
            None => scale,
        };
        Request::new(&self.figures, scale)
    }
}

/// Runs figures, and answers how it ended: 0, 1 for a failure, 2 for a bad flag, 130 for Ctrl-C.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let request = arguments.request();
    let request = request.unwrap_or_else(|error| reject(&error.to_string()));
    let session = FigureSession::open(arguments.json.as_deref(), arguments.html.as_deref());
    let session = session.unwrap_or_else(|error| reject(&error.to_string()));
    let interrupt = Interrupt::default();
    let handler = interrupt.clone();
    if let Err(error) = ctrlc::set_handler(move || handler.raise()) {
        eprintln!("note: Ctrl-C will lose the figure at hand: {error}");
    }
    // A reader that has gone away, such as `head`, is no reason to stop: the reports are still
    // wanted.
    let mut print = |text: &str| {
        let _ = writeln!(io::stdout(), "{text}");
    };
    match session.run(&request, &interrupt, &mut print) {
        Ok((report, Completion::Finished)) if report.failed.is_empty() => ExitCode::SUCCESS,
        Ok((report, Completion::Finished)) => {
            eprintln!("error: {} parts of figures failed", report.failed.len());
            ExitCode::FAILURE
        }
        Ok((_, Completion::Interrupted)) => {
            eprintln!("interrupted; the reports hold the points finished before");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Refuses a flag, as clap refuses those that it understands itself.
fn reject(message: &str) -> ! {
    crate::Cli::command()
        .error(ErrorKind::ValueValidation, message)
        .exit()
}

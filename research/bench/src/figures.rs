//! `nearfield-bench figures`: the figures of a paper, from models.

use crate::measuring::{fail, interrupt, interrupted, print, reject};
use clap::{Args, ValueEnum};
use nearfield_lab::error::LabError;
use nearfield_lab::figures::{
    AdmScale, ChimeScale, DcartScale, FigureRequest, FigureSession, PaperScale, PulseScale,
    RadarScale,
};
use nearfield_lab::harness::Completion;
use nearfield_lab::parse_quantity;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Draw the figures of a paper again, from models of its hardware.
///
/// CHIME: the indexes themselves run over a simulated network of ConnectX-6 adapters, or of memory
/// attached by CXL; clients, nodes and their time are virtual. RADAR: they run in modelled memory
/// modules with processors, by two sets of published figures. So all throughput and latency is
/// modelled, and the same on any machine, unless a figure is marked as measured. ADM: policies move
/// objects without contents between models of HBM and DRAM. pulse: verified programs run in models
/// of its accelerator, of processors and of a rack. DCART: a real tree executes operations, and a
/// model of its accelerator computes how long that takes; rivals are measured on this machine.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct FiguresArguments {
    /// The paper
    paper: PaperArgument,

    /// Figures, such as 12 or 18a, or 18 for all its parts [default: all]
    ///
    /// CHIME: 3a to 3d: caches and reads of rivals; 4a to 4c: verbs; 12: six workloads; 13: values
    /// of any length; 14: caches; 15a, 15b: techniques added one by one; 16: metadata; 17:
    /// speculation; 18a to 18f: skew, caches, values, spans, neighborhoods; 19a to 19c: load
    /// factors and hotspots. Not in the paper: cxl: memory attached by CXL; tuning: leaf sizes for
    /// the cache; sensitivity: influence of the network model's constants.
    ///
    /// RADAR: 7: batches in time; 8, 9: heights by hotness, with training measured; 10, 10p: six
    /// operations over skew, with measured and with the paper's parameters of modules; 11: cost of
    /// withstanding skew; 12: YCSB; 13: words of documents; 14: behind the server; 15: memory. Not
    /// in the paper: cpu: ordered maps measured on this machine; load: the load of the fullest
    /// module; skew: kinds of skew; sensitivity: influence of the model's parameters. 10, 10p, 11,
    /// 15 and sensitivity share their runs, and so do 8 and 9: request them together.
    ///
    /// ADM: 1b: requests to the hottest objects; 6a: requests that HBM serves; 6b to 6d: latency,
    /// energy of reads, energy of writes for four types of objects; 7: larger values; 8: lines that
    /// HBM serves; 9: more SETs. Not in the paper: memories: HBM as sold, and two address maps;
    /// moved: migrated bytes; moving: a hot set that moves; capacity: sizes of HBM; thresholds:
    /// ADM's thresholds; sets: sets that write whole values; server: the benches on the real
    /// server, with shares measured, and models that replay its trace. 6a to 6d, 8, 9, memories and
    /// moved share their runs.
    ///
    /// pulse: 2b, 2c: crossings between memory nodes; 4: a schedule; table3: applications; 7: all
    /// systems; 8: energy; 9: without the switch; 10: time by component; table4: designs; 11:
    /// throughput per watt; 12: CXL; a2: bandwidth; a3a to a6: figures of the appendix. Not in the
    /// paper: sensitivity: assumed parameters halved and doubled. 7, 9 and a2 share their runs.
    ///
    /// DCART: 2a, 2d: time of rivals; 2b, 2c: redundant visits and useful bytes; 2e: rivals by
    /// writes; 3, 3b: hot prefixes and nodes; 7: contended locks; 8: partial key matches; 9:
    /// throughput; 10: latency; 11: energy; 12a, 12b: operations and writes. Not in the paper:
    /// parts: parts left out; units; memories; ours: designs of the same area; sensitivity: assumed
    /// parameters halved and doubled. 7, 8, 9 and 11 share their runs.
    #[arg(value_name = "FIGURE")]
    figures: Vec<String>,

    /// Take minutes: CHIME with 300,000 keys, RADAR with 64 modules and 500,000, ADM with 20,000
    /// objects (4,000 on a real server), pulse with 3,000 requests of a point, DCART with 1M keys,
    /// and few points of each axis
    #[arg(long)]
    quick: bool,

    /// Number of keys in place of the paper's 60M, 500M, 100k or 50M [default: as for --quick, else
    /// the paper's for CHIME and ADM, by --modules for RADAR, and 10M for DCART]
    ///
    /// For pulse, the requests of each point; its tables always have the paper's keys. CHIME's
    /// caches shrink with the keys. With fewer keys than --modules says, RADAR's hot subranges are
    /// divided into single keys, which favours indexes that read equal keys once.
    #[arg(long, value_name = "N", value_parser = count)]
    count: Option<u64>,

    /// Number of RADAR's memory modules. Operations of a batch are proportional to it, keys to its
    /// square [default: as memory allows, up to 2048; 64 with --quick]
    #[arg(long, value_name = "N", value_parser = modules)]
    modules: Option<u64>,

    /// The text with the words that are keys in RADAR's figures 13 and 14, a document a line, also
    /// compressed by gzip [default: a generated one]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Keys of DCART's workloads IPGEO, DICT, EA, DE, RS, RD from files: a key a line, or the first
    /// column of a table, also compressed by gzip [default: generated ones]
    #[arg(long, value_name = "WORKLOAD=FILE", value_parser = assignment, num_args = 1..)]
    keys: Vec<(String, String)>,

    /// Recorded operations in place of DCART's workloads: `get|insert|update|remove KEY` a line,
    /// also compressed by gzip
    ///
    /// A key is the rest of its line. One in quotation marks has `\xNN` in it for other bytes, as
    /// in the output of Redis' MONITOR. Keys are there before the first operation, unless their
    /// first operation inserts them. 2a, 2d, 2e, 12a and 12b need a workload of the paper's.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "count"])]
    trace: Option<PathBuf>,

    /// Part of the bytes of all of ADM's objects that HBM has room for, in percent [default: 30]
    #[arg(long, value_name = "PERCENT")]
    capacity: Option<f64>,

    /// The counter above which ADM moves an object into HBM [default: 9]
    #[arg(long, value_name = "COUNTER")]
    threshold_in: Option<u8>,

    /// The counter below which ADM moves an object out of HBM [default: 13]
    #[arg(long, value_name = "COUNTER")]
    threshold_out: Option<u32>,

    /// Change a parameter of DCART's accelerator; may be given several times
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = assignment, num_args = 1..)]
    parameters: Vec<(String, String)>,

    /// File of parameters of DCART's accelerator to change: NAME=VALUE a line
    #[arg(long, value_name = "FILE")]
    parameter_file: Option<PathBuf>,

    /// Write points and claims to this file, after every figure
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write one page with all figures to this file, after every figure
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The papers.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PaperArgument {
    /// CHIME, SOSP 2024: range indexes in disaggregated memory
    Chime,
    /// RADAR, TPDS 2024: ordered indexes in memory modules with processors
    Radar,
    /// ADM, Micromachines 2022: objects in HBM and DRAM
    Adm,
    /// pulse, ASPLOS 2025: traversals that run at remote memory
    Pulse,
    /// DCART, DAC 2025: an accelerator of operations on an adaptive radix tree
    Dcart,
}

const EXAMPLES: &str = "\
Examples:
  nearfield-bench figures chime --quick --json chime.json
      All figures, with few keys and points.
  nearfield-bench figures chime 12 15 --quick --html chime.html
      Six workloads, and the gain of each technique.
  nearfield-bench figures chime 12 --count 6M
      With a tenth of the paper's keys and caches.
  nearfield-bench figures radar 10 11 15 --quick --html radar.html
      Six operations by skew, their costs, and the memory after them.
  nearfield-bench figures radar load --modules 2048 --count 4M
      The load of the fullest of 2048 modules, before and after subranges are redistributed.
  nearfield-bench figures radar 10 --quick --modules 256
      Six operations on 256 modules and 8M keys, at four degrees of skew.
  nearfield-bench figures adm --quick --json adm.json
      Policies that move objects between HBM and DRAM.
  nearfield-bench figures adm 6b 7 capacity --quick --capacity 65 --threshold-in 6
      With a larger HBM, and objects that move in sooner.
  nearfield-bench figures adm server --quick --json server.json
      The benches on a real server, next to the model of objects without contents.
  nearfield-bench figures pulse table4 --quick
      Logic and memory pipelines of the accelerator, apart and coupled.
  nearfield-bench figures pulse --quick --json pulse.json
      All figures of traversals that run next to remote memory.
  nearfield-bench figures dcart 9 ours --quick
      The accelerator of DCART compared with rivals, and with another design of the same area.
  nearfield-bench figures dcart 9 --quick --keys IPGEO=ipv4-country.csv.gz DICT=words.txt.gz
      With keys from files.
  nearfield-bench figures dcart units --quick --parameter tree_buffer=1mb pipeline=16
      Another accelerator.
  nearfield-bench figures dcart 9 parts ours --trace operations.txt.gz
      With recorded operations.
  nearfield-bench figures radar 13 --quick --text documents.txt.gz
      Words of your own text, with their frequencies.";

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn count(text: &str) -> Result<u64, LabError> {
    parse_quantity("number of keys", text)
}

fn modules(text: &str) -> Result<u64, LabError> {
    parse_quantity("number of modules", text)
}

impl FiguresArguments {
    fn request(&self) -> Result<FigureRequest, LabError> {
        if !matches!(self.paper, PaperArgument::Radar) {
            self.text
                .as_ref()
                .map_or(Ok(()), |path| only("RADAR", "--text", path.display()))?;
            self.modules
                .map_or(Ok(()), |modules| only("RADAR", "--modules", modules))?;
        }
        if !matches!(self.paper, PaperArgument::Dcart) {
            self.refuse_parameters()?;
        }
        if !matches!(self.paper, PaperArgument::Adm) {
            self.refuse_policies()?;
        }
        let scale = match self.paper {
            PaperArgument::Chime => {
                let scale = match self.quick {
                    true => ChimeScale::quick(),
                    false => ChimeScale::full(),
                };
                let keys = self.count.map(|keys| scale.clone().with_keys(keys));
                PaperScale::Chime(keys.transpose()?.unwrap_or(scale))
            }
            PaperArgument::Adm => {
                let scale = match self.quick {
                    true => AdmScale::quick(),
                    false => AdmScale::full(),
                };
                let keys = self.count.map(|keys| scale.clone().with_keys(keys));
                let scale = keys.transpose()?.unwrap_or(scale);
                let scale = match self.capacity {
                    Some(percent) => scale.with_capacity_percent(percent)?,
                    None => scale,
                };
                let threshold_in = self.threshold_in.unwrap_or(scale.threshold_in);
                let threshold_out = self.threshold_out.unwrap_or(scale.threshold_out);
                PaperScale::Adm(scale.with_thresholds(threshold_in, threshold_out))
            }
            PaperArgument::Pulse => {
                // Its tables take no memory, so only the requests are counted.
                let scale = match self.quick {
                    true => PulseScale::quick(),
                    false => PulseScale::full(),
                };
                let count = self.count.map(|count| scale.clone().with_requests(count));
                PaperScale::Pulse(count.transpose()?.unwrap_or(scale))
            }
            PaperArgument::Dcart => {
                let scale = match self.quick {
                    true => DcartScale::quick(),
                    false => DcartScale::full(),
                };
                let keys = self.count.map(|keys| scale.clone().with_keys(keys));
                let mut scale = keys.transpose()?.unwrap_or(scale);
                for (workload, file) in &self.keys {
                    scale = scale.with_key_file(workload, PathBuf::from(file))?;
                }
                if let Some(path) = &self.trace {
                    scale = scale.with_trace(path.clone())?;
                }
                let text = self.parameter_file.as_deref().map(read).transpose()?;
                let text = text.unwrap_or_default();
                PaperScale::Dcart(scale.with_parameters(&text, &self.parameters)?)
            }
            PaperArgument::Radar => {
                let scale = match self.quick {
                    true => RadarScale::quick(),
                    false => RadarScale::full(),
                };
                // The number of modules sets one of keys, which --count replaces.
                let modules = self.modules;
                let modules = modules.map(|modules| scale.clone().with_modules(modules));
                let scale = modules.transpose()?.unwrap_or(scale);
                let keys = self.count.map(|keys| scale.clone().with_keys(keys));
                let scale = keys.transpose()?.unwrap_or(scale);
                PaperScale::Radar(scale.with_text(self.text.clone()))
            }
        };
        FigureRequest::new(&self.figures, scale)
    }

    /// Refuses flags of ADM's figures.
    fn refuse_policies(&self) -> Result<(), LabError> {
        let given = [
            ("--capacity", self.capacity.map(|it| it.to_string())),
            ("--threshold-in", self.threshold_in.map(|it| it.to_string())),
            (
                "--threshold-out",
                self.threshold_out.map(|it| it.to_string()),
            ),
        ];
        for (flag, given) in given {
            given.map_or(Ok(()), |given| only("ADM", flag, given))?;
        }
        Ok(())
    }

    /// Refuses flags of DCART's figures.
    fn refuse_parameters(&self) -> Result<(), LabError> {
        let shown = |file: &Option<PathBuf>| Some(file.as_ref()?.display().to_string());
        let given = [
            ("--keys", self.keys.first().map(|(name, _)| name.clone())),
            (
                "--parameter",
                self.parameters.first().map(|(name, _)| name.clone()),
            ),
            ("--parameter-file", shown(&self.parameter_file)),
            ("--trace", shown(&self.trace)),
        ];
        match given
            .into_iter()
            .find_map(|(flag, given)| Some((flag, given?)))
        {
            Some((flag, given)) => only("DCART", flag, given),
            None => Ok(()),
        }
    }
}

/// Reads a file of parameters.
fn read(path: &Path) -> Result<String, LabError> {
    std::fs::read_to_string(path).map_err(|source| LabError::File {
        path: path.to_owned(),
        source,
    })
}

/// Refuses a flag that figures of other papers do not use.
fn only(paper: &str, flag: &'static str, given: impl ToString) -> Result<(), LabError> {
    Err(LabError::OutOfRange {
        subject: flag,
        given: given.to_string(),
        allowed: format!("{paper}'s figures only"),
    })
}

/// Runs figures and returns the exit code: 0, 1 for a failure, 2 for a bad flag, 130 for Ctrl-C.
pub(crate) fn run(arguments: &FiguresArguments) -> ExitCode {
    let request = arguments.request().unwrap_or_else(|error| reject(error));
    let session = FigureSession::open(arguments.json.as_deref(), arguments.html.as_deref());
    let session = session.unwrap_or_else(|error| reject(error));
    let interrupt = interrupt("the present figure");
    match session.run(&request, &interrupt, &mut print) {
        Ok((report, Completion::Finished)) if report.failed.is_empty() => ExitCode::SUCCESS,
        Ok((report, Completion::Finished)) => {
            fail(format!("{} parts of figures failed", report.failed.len()))
        }
        Ok((_, Completion::Interrupted)) => {
            interrupted("the reports hold the points finished before")
        }
        Err(error) => fail(error),
    }
}

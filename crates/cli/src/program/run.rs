//! `nearfield program run`: runs a program on memory nodes.

use super::source::program_of;
use crate::offload::{Failure, key_of, print_line};
use clap::Args;
use nearfield_fabric::{GlobalAddress, NodeId};
use nearfield_offload::net::udp::OffloadClient;
use nearfield_offload::node::Tenant;
use nearfield_offload::traversal::{
    QueryRunner, TraversalOutcome, TraversalQuery, TraversalStatus,
};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Compile a traversal program, run it on memory nodes, and show the scratchpad at its end.
///
/// The program starts at an address, with the given words in its scratchpad. It runs with the
/// permissions of a tenant, whose number and key are in the file of tenants of each memory node.
/// The command fails unless the program ends its traversal.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ProgramRunArguments {
    /// A C source, or an object file of `clang -target bpf`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The switch, or the --offload address of the only memory node
    #[arg(long, value_name = "IP:PORT")]
    at: SocketAddrV4,

    /// The number of the tenant
    #[arg(long, value_name = "N")]
    tenant: u16,

    /// A file with the tenant's key, 64 hexadecimal digits
    #[arg(long, value_name = "FILE")]
    key: PathBuf,

    /// The address of the first node: a number, or NODE:OFFSET with the number of a memory node and
    /// an offset in its memory; numbers are decimal, or hexadecimal with 0x
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    start: u64,

    /// The first words of the scratchpad, of 8 bytes each; the others are zero
    #[arg(long, value_name = "WORD,…", value_delimiter = ',', value_parser = number)]
    words: Vec<u64>,

    /// The number of iterations after which the traversal is stopped
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    iterations: u64,

    /// Seconds without progress after which the command fails
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    patience: u64,
}

const EXAMPLES: &str = "\
Examples:
  openssl rand -hex 32 > tenant.key
  echo \"1 $(cat tenant.key) rest:read\" > tenants
  nearfield memory-node --listen shm:pool --size 1gb --offload 127.0.0.1:7001 --tenants tenants
  nearfield program run list.c --at 127.0.0.1:7001 --tenant 1 --key tenant.key \\
      --start 0:4096 --words 42
      Looks 42 up in the list whose first node is at offset 4096 of memory node 0.";

fn number(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| format!("{text:?} is not a number such as 42 or 0x2a"))
}

fn address(text: &str) -> Result<u64, String> {
    /// Number of offsets in the memory of a node.
    const OFFSETS: u64 = 1 << 48;
    let address = match text.split_once(':') {
        None => number(text)?,
        Some((node, offset)) => {
            let node: u16 = node
                .parse()
                .map_err(|_| format!("{node:?} is not the number of a memory node"))?;
            let offset = number(offset)?;
            if offset >= OFFSETS {
                return Err(format!("the offset {offset} has more than 48 bits"));
            }
            GlobalAddress::new(NodeId(node), offset).to_bits()
        }
    };
    match address {
        0 => Err("address 0 is null, which ends a traversal".to_owned()),
        address => Ok(address),
    }
}

/// Runs the program, and prints its result.
pub(super) fn run(arguments: &ProgramRunArguments) -> Result<(), Failure> {
    let program = Arc::new(program_of(&arguments.file)?);
    let (given, bytes) = (arguments.words.len(), program.scratchpad_bytes());
    if 8 * given > bytes {
        let message = format!("{given} words do not fit the program's scratchpad of {bytes} bytes");
        return Err(message.into());
    }
    let key = key_of(&arguments.key)?;
    let tenant = Tenant(arguments.tenant);
    let mut client = OffloadClient::new(arguments.at, tenant, key, |settings| {
        settings.patience = Duration::from_secs(arguments.patience);
    })?;
    let query = TraversalQuery::new(&program, arguments.start, &arguments.words);
    let began = Instant::now();
    let outcome = client.run(&query, arguments.iterations)?;
    let time = began.elapsed();
    print_line(&result(&outcome, time));
    match failure(&outcome) {
        None => Ok(()),
        Some(message) => Err(message.into()),
    }
}

/// Returns the result of a run, with the words of the scratchpad that are not zero.
fn result(outcome: &TraversalOutcome, time: Duration) -> String {
    let mut text = format!(
        "{:?} after {} iterations in {:.3} ms, at address {}.\nThe scratchpad has {} bytes",
        outcome.status,
        outcome.iterations,
        time.as_secs_f64() * 1e3,
        place(outcome.address),
        outcome.scratchpad.len()
    );
    let words: Vec<(usize, u64)> = outcome
        .scratchpad
        .chunks(8)
        .map(|bytes| {
            let lowest_last = bytes.iter().rev();
            lowest_last.fold(0, |word: u64, byte| word << 8 | u64::from(*byte))
        })
        .enumerate()
        .filter(|(_, word)| *word != 0)
        .collect();
    text.push_str(match words.is_empty() {
        true => ", all zero.",
        false => ". Its words that are not zero:",
    });
    for (number, word) in words {
        text.push_str(&format!("\n  word {number:<3}  {word:#018x}  {word}"));
    }
    text
}

/// Returns the reason why a run has not ended its traversal, if it has not.
fn failure(outcome: &TraversalOutcome) -> Option<String> {
    let at = place(outcome.address);
    Some(match outcome.status {
        TraversalStatus::Done => return None,
        TraversalStatus::IterationLimit => format!(
            "the traversal has not ended after {} iterations; --iterations allows more",
            outcome.iterations
        ),
        TraversalStatus::NoSuchAddress => format!("no memory node holds {at}"),
        TraversalStatus::Denied => format!(
            "the tenant may not read {at}, or may not store there: its line in the file of tenants \
             grants parts of the memory"
        ),
        TraversalStatus::Split => {
            format!("the bytes that the program reads at {at} are not all within one part")
        }
        TraversalStatus::OutOfRegions => {
            format!("an iteration at {at} has allocated, and its list has no free region")
        }
        TraversalStatus::RefusedProgram => {
            "the memory node refuses the program, so its version is another one".to_owned()
        }
        status => format!("the run has ended by {status:?} at {at}"),
    })
}

fn place(address: u64) -> String {
    let at = GlobalAddress::from_bits(address);
    format!(
        "{address:#x} (offset {} of memory {})",
        at.offset(),
        at.node()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_or_offsets_of_nodes() {
        assert_eq!(address("4096"), Ok(4096));
        assert_eq!(address("0x1000000001000"), Ok((1 << 48) + 4096));
        assert_eq!(address("1:4096"), address("1:0x1000"));
        assert_eq!(address("1:4096"), Ok((1 << 48) + 4096));
        for (wrong, why) in [
            ("", "is not a number"),
            ("0x", "is not a number"),
            ("1:", "is not a number"),
            ("70000:8", "is not the number of a memory node"),
            ("1:0x1000000000000", "more than 48 bits"),
            ("0", "null"),
            ("0:0", "null"),
        ] {
            let refused = address(wrong).expect_err("it is wrong");
            assert!(refused.contains(why), "{wrong}: {refused}");
        }
    }

    #[test]
    fn results_have_the_words_that_are_not_zero() {
        let mut scratchpad = vec![0_u8; 20];
        let time = Duration::from_micros(1500);
        let outcome = |scratchpad: &[u8]| TraversalOutcome {
            status: TraversalStatus::IterationLimit,
            address: (3 << 48) + 64,
            scratchpad: scratchpad.to_vec(),
            iterations: 7,
        };
        let text = result(&outcome(&scratchpad), time);
        let expected = "IterationLimit after 7 iterations in 1.500 ms, at address 0x3000000000040 \
                        (offset 64 of memory node 3).\nThe scratchpad has 20 bytes, all zero.";
        assert_eq!(text, expected);
        scratchpad[9] = 1;
        scratchpad[17] = 2;
        let text = result(&outcome(&scratchpad), time);
        let words: Vec<&str> = text.lines().skip(2).collect();
        let expected = [
            "  word 1    0x0000000000000100  256",
            "  word 2    0x0000000000000200  512",
        ];
        assert_eq!(words, expected);
        let why = failure(&outcome(&scratchpad)).expect("no end");
        assert!(why.contains("after 7 iterations"), "{why}");
    }
}

//! Traversals as small programs that run where the data is.
//!
//! A linked structure in remote memory costs a round trip for each pointer. A *traversal program*
//! is sent to the memory instead. Programs are BPF bytecode as defined by RFC 9669, limited to the
//! conformance groups base32, base64, divmul32 and divmul64.
//!
//! - [`isa`]: instructions, their bytes and their text, and [`BpfCode`](isa::BpfCode), a list of
//!   instructions whose jumps stay inside it.
//! - [`program`]: code that the verifier has accepted: one iteration of a traversal, which
//!   terminates and accesses only the node, the scratchpad, a new allocation and its stack.
//! - [`executor`]: runs code and programs. The interpreter defines their semantics.
//! - `modelled` (cargo feature `model`): programs on models of hardware.
//! - [`compile`]: programs from C, by clang.
//! - [`traversal`]: the programming model: queries, iterations, and the choice where they run.
//! - [`node`]: the part that runs at a memory node: address translation, and many traversals on a
//!   core.
//! - [`net`]: callers, a switch and memory nodes that exchange datagrams.
//! - [`wire`]: the messages between callers and memory nodes.
//! - [`structures`]: linked structures in node memory, whose lookups are programs.
//!
//! ```
//! use nearfield_offload::executor::{Interpreter, BpfMachine};
//! use nearfield_offload::isa::assemble;
//!
//! let code = assemble("
//!         mov r0, 0
//!     more:
//!         add r0, r2
//!         sub r2, 1
//!         jne r2, 0, more
//!         exit
//! ")?;
//! let mut memory = [0; 4];
//! let result = Interpreter.run(&code, &mut BpfMachine::with_memory(&mut memory), 100);
//! assert_eq!(result, Ok(4 + 3 + 2 + 1));
//! # Ok::<(), nearfield_offload::isa::AssembleError>(())
//! ```

#![deny(unsafe_code)]

pub mod compile;
pub mod executor;
pub mod isa;
#[cfg(feature = "model")]
pub mod modelled;
pub mod net;
pub mod node;
pub mod program;
pub mod structures;
pub mod traversal;
pub mod wire;

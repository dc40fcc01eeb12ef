//! Verified programs.

use super::declaration::Declaration;
use super::hash::ProgramHash;
use super::verify::{self, VerifyError};
use super::window::{NODE_BYTES_MAX, ProgramWindow, SCRATCHPAD_BYTES_MAX};
use crate::isa::{BpfCode, BpfDecodeError};

/// Largest number of 8-byte slots of a program. The largest program of the paper's applications, a
/// B+ tree with aggregates over nine keys, has 314; that for the leaves of a pool, whose entries
/// are not aligned, has 550.
pub const INSTRUCTIONS_MAX: usize = 1024;

/// A load or store of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramAccess {
    /// The window that it accesses.
    pub window: ProgramWindow,
    /// The lowest place of its first byte, counted from the window's origin: the current address,
    /// the start of scratchpad or allocation, the end of the stack.
    pub min: i64,
    /// The highest place of its first byte.
    pub max: i64,
    /// Number of bytes.
    pub bytes: usize,
    /// True for a store, false for a load.
    pub stores: bool,
}

/// The bytes of a node that an iteration loads at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Place of the first byte, counted from the current address.
    pub start: i16,
    /// Number of bytes; at most [`NODE_BYTES_MAX`](super::NODE_BYTES_MAX).
    pub bytes: u16,
}

/// Code whose iterations all terminate, and access only their windows.
///
/// One iteration is one run of the code. It begins with these registers, and ends with the address
/// of the next node in register 0, or with zero if the traversal is done.
///
/// | register | content |
/// |---|---|
/// | 1 | the node at the current address |
/// | 2 | the scratchpad |
/// | 3 | the current address, as a number |
/// | 4 | the new allocation, if the program declares a list of free regions |
/// | 5 | the address of the new allocation, as a number, or zero if no region is free |
/// | 10 | the end of the stack |
///
/// ```
/// use nearfield_offload::isa::assemble;
/// use nearfield_offload::program::{Declaration, TraversalProgram};
///
/// // The last node of a list whose links lie at byte 8.
/// let code = assemble("
///         ldxdw r0, [r1+8]
///         jne r0, 0, on
///         stxdw [r2], r3
///     on:
///         exit
/// ")?;
/// let program = TraversalProgram::verify(code, Declaration::scratchpad(8))?;
/// assert_eq!((program.node_load().start, program.node_load().bytes), (8, 8));
///
/// let code = assemble("ldxdw r0, [r2+8]\n exit")?;
/// let error = TraversalProgram::verify(code, Declaration::scratchpad(8)).unwrap_err().to_string();
/// assert!(error.starts_with("slot 0 (ldxdw r0, [r2+8]): bytes 8 to 16 are not all within"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraversalProgram {
    code: BpfCode,
    declaration: Declaration,
    accesses: Vec<Option<ProgramAccess>>,
    node_load: NodeLoad,
    longest_path: usize,
    hash: ProgramHash,
}

/// The reason why bytes are not a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The bytes are too short for the declaration before the code.
    #[error("{bytes} bytes are too few for a declaration of {DECLARATION_BYTES}")]
    Short {
        /// Number of bytes.
        bytes: usize,
    },
    /// The last bytes of the declaration are not zero.
    #[error("the reserved bytes of the declaration are {value:#x}, not zero")]
    Reserved {
        /// Their value.
        value: u32,
    },
    /// The rest does not decode as code.
    #[error(transparent)]
    Decode(#[from] BpfDecodeError),
    /// The verifier rejects the code.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

/// Number of bytes before the code: the scratchpad's length, the place of the list of regions (all
/// bits set if there is none), four zeros.
const DECLARATION_BYTES: usize = 8;
const NO_REGIONS: u16 = u16::MAX;
// No list can begin there, so the value is free for its absence.
const _: () = assert!(NO_REGIONS as usize > SCRATCHPAD_BYTES_MAX);

impl TraversalProgram {
    /// Verifies code.
    ///
    /// # Errors
    /// See [`VerifyError`].
    pub fn verify(
        code: BpfCode,
        declaration: Declaration,
    ) -> Result<TraversalProgram, VerifyError> {
        let slots = code.slots();
        if slots > INSTRUCTIONS_MAX {
            return Err(VerifyError::TooLong { slots });
        }
        let bytes = usize::from(declaration.scratchpad);
        if !declaration.has_valid_scratchpad() {
            return Err(VerifyError::Scratchpad { bytes });
        }
        if let Some(at) = declaration.regions_at
            && !declaration.has_valid_regions()
        {
            let at = at.into();
            return Err(VerifyError::Regions { at, bytes });
        }
        let findings = verify::verify(&code, bytes, declaration.regions_at.is_some())?;
        let (start, end) = findings.node;
        debug_assert!((0..=NODE_BYTES_MAX as i64).contains(&(end - start)));
        let hash = ProgramHash::of(&encode(&code, declaration));
        Ok(TraversalProgram {
            code,
            declaration,
            accesses: findings.accesses,
            // The offsets of loads have 16 bits, and the load has at most 256 bytes, but the
            // program may move an address before it loads.
            node_load: NodeLoad {
                start: i16::try_from(start).map_err(|_| VerifyError::FarNode { start })?,
                bytes: (end - start) as u16,
            },
            longest_path: findings.longest_path,
            hash,
        })
    }

    /// Decodes and verifies bytes.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn decode(bytes: &[u8]) -> Result<TraversalProgram, ProgramError> {
        let Some((head, code)) = bytes.split_first_chunk::<DECLARATION_BYTES>() else {
            let bytes = bytes.len();
            return Err(ProgramError::Short { bytes });
        };
        let [a, b, c, d, e, f, g, h] = *head;
        let value = u32::from_le_bytes([e, f, g, h]);
        if value != 0 {
            return Err(ProgramError::Reserved { value });
        }
        let regions_at = u16::from_le_bytes([c, d]);
        let declaration = Declaration {
            scratchpad: u16::from_le_bytes([a, b]),
            regions_at: (regions_at != NO_REGIONS).then_some(regions_at),
        };
        // The length is checked before decoding: the bytes come from a peer.
        let slots = code.len() / 8;
        if slots > INSTRUCTIONS_MAX {
            return Err(VerifyError::TooLong { slots }.into());
        }
        let program = TraversalProgram::verify(BpfCode::decode(code)?, declaration)?;
        // A program has one encoding, and so one hash, by whichever way it reaches a node.
        debug_assert_eq!(program.encode(), bytes);
        Ok(program)
    }

    /// Encodes the program. Decoding accepts the bytes.
    pub fn encode(&self) -> Vec<u8> {
        encode(&self.code, self.declaration)
    }

    /// Returns the code.
    pub fn code(&self) -> &BpfCode {
        &self.code
    }

    /// Returns the declaration.
    pub fn declaration(&self) -> Declaration {
        self.declaration
    }

    /// Returns the length of the scratchpad, in bytes.
    pub fn scratchpad_bytes(&self) -> usize {
        self.declaration.scratchpad.into()
    }

    /// Returns the load with which an iteration begins.
    pub fn node_load(&self) -> NodeLoad {
        self.node_load
    }

    /// Returns the load or store of an instruction, if it is one.
    pub fn access(&self, index: usize) -> Option<ProgramAccess> {
        self.accesses.get(index).copied().flatten()
    }

    /// Returns true if it may store into a window.
    pub fn stores_into(&self, window: ProgramWindow) -> bool {
        let mut accesses = self.accesses.iter().flatten();
        accesses.any(|access| access.stores && access.window == window)
    }

    /// Returns true if it may change memory: nodes, or regions that it allocates.
    pub fn changes_memory(&self) -> bool {
        self.stores_into(ProgramWindow::Node) || self.stores_into(ProgramWindow::Allocation)
    }

    /// Returns the number of instructions of the longest path of an iteration.
    pub fn longest_path(&self) -> usize {
        self.longest_path
    }

    /// Returns the hash that identifies the program.
    pub fn hash(&self) -> ProgramHash {
        self.hash
    }
}

fn encode(code: &BpfCode, declaration: Declaration) -> Vec<u8> {
    let regions_at = declaration.regions_at.unwrap_or(NO_REGIONS);
    let mut bytes = Vec::with_capacity(DECLARATION_BYTES + 8 * code.slots());
    bytes.extend(declaration.scratchpad.to_le_bytes());
    bytes.extend(regions_at.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(code.encode());
    bytes
}

//! Programs from object files.

use crate::isa::{BpfCode, BpfDecodeError};
use crate::program::{Declaration, TraversalProgram, VerifyError};
use object::{Architecture, Object, ObjectSection};

/// The sections where the header puts the iteration and the declaration.
pub(super) const ITERATION: &str = "nearfield.iteration";
const DECLARATION: &str = "nearfield.declaration";
/// The value of the declaration's second field if there is no list of free regions.
const NO_REGIONS: u16 = u16::MAX;

/// The reason why an object file contains no program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The bytes are not an object file.
    #[error("not an object file: {0}")]
    Format(#[from] object::Error),
    /// The file is for another processor, or another byte order.
    #[error("the object file is for {0:?}, not for little-endian BPF")]
    Architecture(Architecture),
    /// A section is missing.
    #[error("there is no section {0}; does the source have NEARFIELD_TRAVERSAL?")]
    NoSection(&'static str),
    /// The code uses something outside its section: a global variable, a constant in memory, or a
    /// function that was not inlined.
    #[error("byte {at} of the iteration refers to {symbol:?}, which no program can reach")]
    Relocation {
        /// The position of the relocation, in bytes.
        at: u64,
        /// The symbol that it refers to.
        symbol: String,
    },
    /// The declaration has another length.
    #[error("the declaration has {bytes} bytes, not 4")]
    Declaration {
        /// Number of bytes found.
        bytes: usize,
    },
    /// The iteration does not decode.
    #[error(transparent)]
    Decode(#[from] BpfDecodeError),
    /// The verifier rejects the code.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

/// Reads the program of an object file.
///
/// # Errors
/// See [`ObjectError`].
pub fn from_object(bytes: &[u8]) -> Result<TraversalProgram, ObjectError> {
    let file = object::File::parse(bytes)?;
    if file.architecture() != Architecture::Bpf || !file.is_little_endian() {
        return Err(ObjectError::Architecture(file.architecture()));
    }
    let section = |name| {
        let section = file.section_by_name(name);
        section.ok_or(ObjectError::NoSection(name))
    };
    let iteration = section(ITERATION)?;
    // A relocation is an address that is known only after loading. Programs are sent as they are.
    if let Some((at, relocation)) = iteration.relocations().next() {
        let symbol = match relocation.target() {
            object::RelocationTarget::Symbol(index) => {
                let symbol = object::Object::symbol_by_index(&file, index)?;
                object::ObjectSymbol::name(&symbol)?.to_owned()
            }
            other => format!("{other:?}"),
        };
        return Err(ObjectError::Relocation { at, symbol });
    }
    let declared = section(DECLARATION)?.data()?;
    let &[a, b, c, d] = declared else {
        let bytes = declared.len();
        return Err(ObjectError::Declaration { bytes });
    };
    let regions_at = u16::from_le_bytes([c, d]);
    let declaration = Declaration {
        scratchpad: u16::from_le_bytes([a, b]),
        regions_at: (regions_at != NO_REGIONS).then_some(regions_at),
    };
    let code = BpfCode::decode(iteration.data()?)?;
    Ok(TraversalProgram::verify(code, declaration)?)
}

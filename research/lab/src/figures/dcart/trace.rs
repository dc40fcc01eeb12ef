//! Operations that the user has recorded, in place of the paper's workloads.

use crate::error::LabError;
use crate::memory::check_available;
use crate::workload::opened;
use nearfield_hardware::accelerator::dcart::{DcartAction, DcartError, DcartTrace};
use rustc_hash::FxHashMap;
use std::path::Path;

/// Number of operations between two checks of memory.
const CHECK_INTERVAL: usize = 1 << 16;
/// The most operations: trees count their records in 32 bits.
const OPERATIONS_MAX: usize = 50_000_000;
/// Bytes that an operation takes while a tree executes it and a model goes through it.
const BYTES_OF_AN_OPERATION: usize = 1 << 10;

/// The operations of a trace.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TraceWorkload {
    /// Keys: first those that exist before the first operation, then the others; each part in
    /// order.
    pub(super) keys: Vec<Vec<u8>>,
    /// Number of keys that exist before the first operation.
    pub(super) loaded: u32,
    /// The number of a key, and the action on it.
    pub(super) operations: Vec<(u32, DcartAction)>,
}

/// A key of a trace.
struct TraceKey {
    bytes: Vec<u8>,
    is_loaded: bool,
}

/// Reads a trace. Keys exist before the first operation, unless their first operation inserts them.
///
/// # Errors
/// `File` if it cannot be opened, `DcartTrace` if it does not parse, `OutOfRange` if it has no
/// operations or too many, and `OutOfMemory`.
pub(super) fn read(path: &Path) -> Result<TraceWorkload, LabError> {
    let text = opened(path).map_err(|source| LabError::File {
        path: path.to_owned(),
        source,
    })?;
    let bad = |error: DcartError| LabError::Trace {
        path: path.to_owned(),
        error,
    };
    let mut numbers = FxHashMap::<Vec<u8>, u32>::default();
    let (mut keys, mut operations, mut bytes) = (Vec::<TraceKey>::new(), Vec::new(), 0);
    for operation in DcartTrace::new(text) {
        let (action, key) = operation.map_err(bad)?;
        let number = match numbers.get(&key) {
            Some(number) => *number,
            None => {
                // There are at most as many keys as operations.
                debug_assert!(keys.len() <= OPERATIONS_MAX);
                let number = keys.len() as u32;
                bytes += 4 * key.len();
                numbers.insert(key.clone(), number);
                keys.push(TraceKey {
                    bytes: key,
                    is_loaded: action != DcartAction::Insert,
                });
                number
            }
        };
        operations.push((number, action));
        if operations.len().is_multiple_of(CHECK_INTERVAL) {
            let needed = bytes + BYTES_OF_AN_OPERATION * operations.len();
            check_available(|| format!("trace {}", path.display()), needed as u64)?;
        }
        if operations.len() > OPERATIONS_MAX {
            break;
        }
    }
    if !(1..=OPERATIONS_MAX).contains(&operations.len()) {
        return Err(LabError::OutOfRange {
            subject: "the number of operations of --trace",
            given: match operations.len() {
                0 => "0".to_owned(),
                _ => format!("more than {OPERATIONS_MAX}"),
            },
            allowed: format!("1 to {OPERATIONS_MAX}"),
        });
    }
    Ok(ordered(keys, operations))
}

/// Numbers keys in their order.
fn ordered(keys: Vec<TraceKey>, mut operations: Vec<(u32, DcartAction)>) -> TraceWorkload {
    // A run must not depend on the order of the first operations on keys.
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    let rank = |number: &u32| {
        let key = &keys[*number as usize];
        (!key.is_loaded, &key.bytes)
    };
    order.sort_unstable_by(|one, other| rank(one).cmp(&rank(other)));
    let mut numbers = vec![0; keys.len()];
    for (number, before) in order.iter().enumerate() {
        numbers[*before as usize] = number as u32;
    }
    for (number, _) in &mut operations {
        *number = numbers[*number as usize];
    }
    let loaded = keys.iter().filter(|key| key.is_loaded).count() as u32;
    let mut bytes: Vec<Vec<u8>> = keys.into_iter().map(|key| key.bytes).collect();
    let mut take = |before: &u32| std::mem::take(&mut bytes[*before as usize]);
    TraceWorkload {
        keys: order.iter().map(&mut take).collect(),
        loaded,
        operations,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file with this content, and returns the trace or the error's text.
    fn traced(name: &str, content: &[u8]) -> Result<TraceWorkload, String> {
        let file = format!("nearfield-trace-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, content).unwrap();
        let traced = read(&path);
        std::fs::remove_file(&path).unwrap();
        let shown = path.display().to_string();
        traced.map_err(|error| error.to_string().replace(&shown, "FILE"))
    }

    #[test]
    fn keys_are_there_unless_the_trace_inserts_them_first() {
        let text = b"get b\ninsert c\nupdate a\nget c\ninsert b\nremove a\ninsert 0\n";
        let traced = traced("keys", text).unwrap();
        assert_eq!(traced.keys, ["a", "b", "0", "c"].map(str::as_bytes));
        assert_eq!(traced.loaded, 2);
        let expected = [
            (1, DcartAction::Get),
            (3, DcartAction::Insert),
            (0, DcartAction::Update),
            (3, DcartAction::Get),
            (1, DcartAction::Insert),
            (0, DcartAction::Remove),
            (2, DcartAction::Insert),
        ];
        assert_eq!(traced.operations, expected);
    }

    #[test]
    fn gzip_is_recognized_by_content() {
        use std::io::Write;
        let compression = flate2::Compression::fast();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), compression);
        encoder.write_all(b"get a\n").unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(traced("packed", &packed), traced("plain", b"get a\n"));
        let cut = traced("cut", &packed[..packed.len() - 6]).unwrap_err();
        assert!(cut.starts_with("trace FILE: line "), "{cut}");
        assert!(cut.contains("cannot be read"), "{cut}");
    }

    #[test]
    fn errors_name_the_wrong_line() {
        let error = traced("bad", b"get a\n\nscan b\n").unwrap_err();
        let expected = "trace FILE: line 3: operation is \"scan\", but must be get, insert, update \
                        or remove";
        assert_eq!(error, expected);
        let error = traced("none", b"# nothing\n").unwrap_err();
        let expected = "the number of operations of --trace is 0; allowed: 1 to 50000000";
        assert_eq!(error, expected);
        let error = read(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent cannot be read"), "{error}");
        let error = read(&std::env::temp_dir()).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
    }
}

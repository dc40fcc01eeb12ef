//! The programs of source and object files.

use crate::offload::Failure;
use nearfield_offload::compile::{
    ObjectError, SourceLines, SourcePlace, compile_object, from_object,
};
use nearfield_offload::program::TraversalProgram;
use std::path::Path;

/// Returns the program of a C source, or of an object file that clang has written.
pub(super) fn program_of(path: &Path) -> Result<TraversalProgram, Failure> {
    let object = object_of(path)?;
    from_object(&object).map_err(|error| {
        let lines = SourceLines::of_object(&object);
        let message = match lines.of_error(&error) {
            Some(place) => with_place(place, &error),
            None => format!("{}: {error}", path.display()),
        };
        Failure::from(message)
    })
}

fn object_of(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = std::fs::read(path);
    let bytes = bytes.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if bytes.starts_with(b"\x7fELF") {
        return Ok(bytes);
    }
    Ok(compile_object(path)?)
}

/// Returns an error with the place in the source that it is about, as compilers print it.
fn with_place(place: &SourcePlace, error: &ObjectError) -> String {
    let SourcePlace {
        file,
        line,
        column,
        text,
    } = place;
    let before = text.chars().take((*column as usize).saturating_sub(1));
    // Tabs stay, so that the mark is below its column however wide they are shown.
    let before: String = before
        .map(|letter| if letter == '\t' { '\t' } else { ' ' })
        .collect();
    format!("{file}:{line}:{column}: {error}\n{line:>6} | {text}\n       | {before}^")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_below_the_column() {
        let place = SourcePlace {
            file: "a.c".to_owned(),
            line: 12,
            column: 5,
            text: "\tx = y;".to_owned(),
        };
        let text = with_place(&place, &ObjectError::Declaration { bytes: 3 });
        let expected = "a.c:12:5: the declaration has 3 bytes, not 4\n    12 | \tx = y;\n       \
                        | \t   ^";
        assert_eq!(text, expected);
        let unknown = SourcePlace { column: 0, ..place };
        let text = with_place(&unknown, &ObjectError::Declaration { bytes: 3 });
        assert!(text.ends_with("\n       | ^"), "{text}");
    }
}

//! Tests of good and bad key files, through the public interface.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::KeySetSpec;
use super::*;

/// A file that is removed at the end of the test.
struct ScratchKeyFile(PathBuf);

impl ScratchKeyFile {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("nearfield-{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        ScratchKeyFile(path)
    }

    fn generate(&self, count: Option<u64>) -> Result<KeySet, LabError> {
        KeySetSpec::File(self.0.clone()).generate(count, 1)
    }

    fn fault(&self) -> KeyFileFault {
        match self.generate(None) {
            Err(LabError::KeyFile { path, fault }) if path == self.0 => fault,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for ScratchKeyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn sorted(mut set: KeySet) -> KeySet {
    set.sort();
    set
}

fn strings(expected: &[&str]) -> KeySet {
    KeySet::Bytes(expected.iter().collect())
}

#[test]
fn lines_are_keys_once_each() {
    let file = ScratchKeyFile::new("lines.txt", b"near\r\nfield\n\nnear\nlab");
    assert_eq!(
        sorted(file.generate(None).unwrap()),
        strings(&["field", "lab", "near"])
    );
}

#[test]
fn a_count_takes_a_sample_and_never_more_than_there_is() {
    let content: String = (0..1000).map(|i| format!("key{i}\n")).collect();
    let file = ScratchKeyFile::new("sample.txt", content.as_bytes());
    let KeySet::Bytes(sample) = file.generate(Some(10)).unwrap() else {
        panic!("not strings")
    };
    assert_eq!(sample.len(), 10);
    assert!(sample.sorted() != sample);
    assert_eq!(file.generate(Some(5000)).unwrap().len(), 1000);
}

#[test]
fn gzip_is_recognized_by_content() {
    for name in ["packed.txt.gz", "packed.txt"] {
        let file = ScratchKeyFile::new(name, &gzip(b"b\na\n"));
        assert_eq!(sorted(file.generate(None).unwrap()), strings(&["a", "b"]));
    }
}

#[test]
fn integer_columns_are_words() {
    let file = ScratchKeyFile::new(
        "ranges.csv.gz",
        &gzip(b"16777216,16777471,AU\n5,9,DE\n5,10,FR\n"),
    );
    assert_eq!(
        sorted(file.generate(None).unwrap()),
        KeySet::Words(vec![5, 16_777_216])
    );
    let one_column = ScratchKeyFile::new("one.CSV", b"18446744073709551615\n0\n");
    assert_eq!(
        sorted(one_column.generate(None).unwrap()),
        KeySet::Words(vec![0, u64::MAX])
    );
}

#[test]
fn other_columns_are_strings() {
    for line in ["x,2", "-3,x", "18446744073709551616", ",5", "+7"] {
        let file = ScratchKeyFile::new("mixed.csv", format!("1,2\n{line}\n").as_bytes());
        assert_eq!(
            sorted(file.generate(None).unwrap()),
            sorted(strings(&["1,2", line])),
            "{line}"
        );
    }
    let text = ScratchKeyFile::new("numbers.txt", b"007\n7\n");
    assert_eq!(sorted(text.generate(None).unwrap()), strings(&["007", "7"]));
}

#[test]
fn unusable_files_are_refused_with_a_reason() {
    let missing = KeySetSpec::File(PathBuf::from("/nowhere/keys.txt"))
        .generate(None, 1)
        .unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("key file /nowhere/keys.txt: cannot be read: No such")
    );
    let folder = KeySetSpec::File(std::env::temp_dir())
        .generate(None, 1)
        .unwrap_err();
    assert!(folder.to_string().ends_with("is a directory"), "{folder}");

    for content in [&b""[..], b"\n\r\n\n"] {
        assert!(matches!(
            ScratchKeyFile::new("empty", content).fault(),
            KeyFileFault::Empty
        ));
    }
    let binary = ScratchKeyFile::new("binary", b"good\nb\0d\n");
    assert!(matches!(binary.fault(), KeyFileFault::NulByte { line: 2 }));
    let cut = gzip(&b"word\n".repeat(10_000));
    let truncated = ScratchKeyFile::new("cut.gz", &cut[..cut.len() - 9]);
    assert!(matches!(truncated.fault(), KeyFileFault::Unreadable(_)));
}

#[test]
fn the_longest_line_is_64_kibibytes() {
    for end in ["", "\n", "\r\n"] {
        let mut content = b"short\n".to_vec();
        content.extend(vec![b'k'; KEY_BYTES_MAX]);
        let fits = ScratchKeyFile::new("fits", &[&content, end.as_bytes()].concat());
        assert_eq!(fits.generate(None).unwrap().len(), 2);
        content.push(b'k');
        let long = ScratchKeyFile::new("long", &[&content, end.as_bytes()].concat());
        assert!(matches!(
            long.fault(),
            KeyFileFault::LongLine {
                line: 2,
                limit: 65_536
            }
        ));
    }
}

#[test]
fn endless_files_are_refused() {
    let zeros = KeySetSpec::File(PathBuf::from("/dev/zero"))
        .generate(None, 1)
        .unwrap_err();
    assert!(zeros.to_string().contains("NUL byte in line 1"), "{zeros}");
}

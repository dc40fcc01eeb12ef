//! Tests of a map whose disk fails: errors name the key, and the rest still works.

use nearfield_core::{Batch, ByteStrings, OperationError, OperationOutcome, OrderedIndex};
use nearfield_testkit::model::Reference;
use nearfield_tiers::disk::{RealTierDisk, TierDisk, TierFile};
use nearfield_tiers::map::TieredIndex;
use nearfield_tiers::{Specification, TierReadRing, Tiers};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const EIO: i32 = 5;

/// The faults that a disk has now.
#[derive(Debug, Default)]
struct MapDiskFaults {
    /// Set if reads fail.
    fails: AtomicBool,
    /// Set if reads of the kernel's ring fail, and others do not.
    ring_fails: AtomicBool,
    /// Set if the kernel's ring reads nothing, as if the file was cut.
    cuts: AtomicBool,
    /// Number of reads that were made to fail.
    failed: AtomicU64,
}

#[derive(Debug)]
struct FaultyMapDisk(Arc<MapDiskFaults>);

#[derive(Debug)]
struct FaultyMapFile {
    file: Box<dyn TierFile>,
    faults: Arc<MapDiskFaults>,
    /// A file for whose reads the kernel returns `EIO`: unmapped memory of this process.
    unreadable: File,
    empty: File,
}

impl TierDisk for FaultyMapDisk {
    fn create(&self, folder: &Path, bytes: u64) -> io::Result<Box<dyn TierFile>> {
        Ok(Box::new(FaultyMapFile {
            file: RealTierDisk.create(folder, bytes)?,
            faults: Arc::clone(&self.0),
            unreadable: File::open("/proc/self/mem")?,
            empty: File::open("/dev/null")?,
        }))
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<Option<u64>> {
        RealTierDisk.free_bytes(folder)
    }
}

impl FaultyMapFile {
    fn fails(&self) -> bool {
        let fails = self.faults.fails.load(Ordering::Relaxed);
        self.faults
            .failed
            .fetch_add(u64::from(fails), Ordering::Relaxed);
        fails
    }
}

impl TierFile for FaultyMapFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.fails() {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => self.file.read_at(buffer, offset),
        }
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(buffer, offset)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self.fails() || self.faults.ring_fails.load(Ordering::Relaxed) {
            true => Some(self.unreadable.as_fd()),
            false if self.faults.cuts.load(Ordering::Relaxed) => Some(self.empty.as_fd()),
            false => self.file.descriptor(),
        }
    }
}

/// Creates a map over a disk that fails. Its memory counts as 0, so that nothing moves by itself.
fn map(faults: &Arc<MapDiskFaults>) -> (TieredIndex<Reference<ByteStrings>>, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let tiers = [
        Specification::memory(1 << 20),
        Specification::file(folder.path(), 16 << 20),
    ];
    let disk: Arc<dyn TierDisk> = Arc::new(FaultyMapDisk(Arc::clone(faults)));
    let tiers = Tiers::open_on(&tiers, &disk).expect("tiers");
    let map = TieredIndex::new(tiers, Reference::new(), |_| 0).expect("a thread");
    (map, folder)
}

const VALUES: u32 = 200;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn value(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(3000)
}

/// Inserts values and moves them to files, most of them on the disk.
fn fill(map: &TieredIndex<Reference<ByteStrings>>) {
    for number in 0..VALUES {
        map.insert(&key(number), &value(number)).expect("inserted");
        assert_eq!(map.move_to(&key(number), 1), Ok(true));
    }
}

/// Returns the values of all keys, read at once.
fn read_all(map: &TieredIndex<Reference<ByteStrings>>) -> Vec<Result<Vec<u8>, OperationError>> {
    let mut batch = Batch::<ByteStrings>::new();
    (0..VALUES).for_each(|number| _ = batch.get(&key(number)));
    map.execute(&mut batch).expect("executed");
    let outcome = |position| match batch.outcome(position) {
        OperationOutcome::Value(Some(value)) => Ok(value.to_vec()),
        OperationOutcome::Failed(error) => Err(error),
        outcome => panic!("{outcome:?}"),
    };
    (0..VALUES as usize).map(outcome).collect()
}

fn assert_unreadable(error: &OperationError, number: u32) {
    let OperationError::Unreadable { key: named, what } = error else {
        panic!("{error}");
    };
    assert_eq!(*named, OperationError::shorten(&key(number)));
    assert!(what.contains("Input/output error"), "{what}");
}

/// Reads all values, of which most fail. The others, such as the one appended last, are in memory.
fn check_failing_reads(map: &TieredIndex<Reference<ByteStrings>>) {
    let mut failed = 0;
    for (number, read) in (0..).zip(read_all(map)) {
        match read {
            Ok(read) => assert_eq!(read, value(number)),
            Err(error) => {
                assert_unreadable(&error, number);
                failed += 1;
            }
        }
    }
    assert!(failed > VALUES / 2, "{failed}");
}

#[test]
fn reads_that_fail_name_the_key_and_the_rest_goes_on() {
    let faults = Arc::new(MapDiskFaults::default());
    let (map, _folder) = map(&faults);
    fill(&map);
    let all: Vec<_> = (0..VALUES).map(|number| Ok(value(number))).collect();
    assert_eq!(read_all(&map), all);
    faults.fails.store(true, Ordering::Relaxed);
    check_failing_reads(&map);
    assert!(faults.failed.load(Ordering::Relaxed) > 0);
    // Single reads, and comparisons with the value, fail, too.
    assert_unreadable(&map.get(&key(0)).expect_err("unreadable"), 0);
    let old = value(1);
    assert_unreadable(
        &map.update(&key(1), Some(&old), b"new")
            .expect_err("unreadable"),
        1,
    );
    assert_unreadable(&map.remove_if(&key(1), &old).expect_err("unreadable"), 1);
    let mut batch = Batch::<ByteStrings>::new();
    let compared = batch.update(&key(1), Some(&old), b"new");
    let inserted = batch.insert(b"other", b"value");
    map.execute(&mut batch).expect("executed");
    match batch.outcome(compared) {
        OperationOutcome::Failed(error) => assert_unreadable(&error, 1),
        outcome => panic!("{outcome:?}"),
    }
    assert_eq!(batch.outcome(inserted), OperationOutcome::Value(None));
    assert_unreadable(&map.move_to(&key(0), 0).expect_err("unreadable"), 0);
    // Nothing was changed. But an operation that replaces or removes the value succeeds in getting
    // rid of it.
    assert_unreadable(&map.insert(&key(2), b"new").expect_err("unreadable"), 2);
    assert_eq!(map.get(&key(2)), Ok(Some(b"new".to_vec())));
    assert_unreadable(&map.remove(&key(3)).expect_err("unreadable"), 3);
    assert_eq!(map.get(&key(3)), Ok(None));
    faults.fails.store(false, Ordering::Relaxed);
    assert_eq!(map.get(&key(0)), Ok(Some(value(0))));
    assert_eq!(map.update(&key(1), Some(&old), &old), Ok((true, Some(old))));
    map.check_invariants();
    assert!(map.tiers()[1].unreadable > 0);
}

#[test]
fn errors_that_the_ring_answers_name_the_key() {
    if let Err(error) = TierReadRing::new(1) {
        println!("skipped: this process has no ring: {error}");
        return;
    }
    let faults = Arc::new(MapDiskFaults::default());
    let (map, _folder) = map(&faults);
    fill(&map);
    faults.ring_fails.store(true, Ordering::Relaxed);
    check_failing_reads(&map);
    // A single value is read without a ring.
    assert_eq!(map.get(&key(0)), Ok(Some(value(0))));
    faults.ring_fails.store(false, Ordering::Relaxed);
    let all: Vec<_> = (0..VALUES).map(|number| Ok(value(number))).collect();
    assert_eq!(read_all(&map), all);
}

#[test]
fn reads_of_the_ring_that_end_too_early_are_read_again() {
    let faults = Arc::new(MapDiskFaults::default());
    let (map, _folder) = map(&faults);
    fill(&map);
    faults.cuts.store(true, Ordering::Relaxed);
    let all: Vec<_> = (0..VALUES).map(|number| Ok(value(number))).collect();
    assert_eq!(read_all(&map), all);
    map.check_invariants();
}

/// The files are closed with the map, even if readers used them last.
#[test]
fn a_map_that_is_dropped_ends_its_thread_and_closes_its_files() {
    let faults = Arc::new(MapDiskFaults::default());
    let (map, folder) = map(&faults);
    fill(&map);
    (0..VALUES).for_each(|number| drop(map.remove(&key(number)).expect("removed")));
    let files = || {
        let all = std::fs::read_dir("/proc/self/fd").expect("files");
        let links = all.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        links.filter(|link| link.starts_with(folder.path())).count()
    };
    assert!(files() > 0);
    drop(map);
    assert_eq!(files(), 0);
}

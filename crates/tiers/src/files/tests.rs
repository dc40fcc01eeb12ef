use super::*;
use crate::disk::{PATIENCE, RealTierDisk};
use parking_lot::{Condvar, MutexGuard};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

fn tier(capacity_bytes: u64) -> (FileTier, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let tier = FileTier::open(1, folder.path(), capacity_bytes, Arc::new(RealTierDisk)).unwrap();
    (tier, folder)
}

fn noise(random: &mut SmallRng, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    random.fill_bytes(&mut value);
    value
}

fn read(tier: &FileTier, place: ColdPlace) -> Vec<u8> {
    let mut value = Vec::new();
    tier.read(place, &mut value).unwrap();
    value
}

#[test]
fn values_of_all_lengths_are_read_as_they_were_put() {
    let (tier, folder) = tier(64 << 20);
    let mut random = SmallRng::seed_from_u64(1);
    let lengths = [
        0,
        1,
        15,
        16,
        4079,
        4080,
        4081,
        4096,
        70_000,
        (1 << 20) - 2,
        (1 << 20) - 1,
    ];
    let lengths = lengths.into_iter().chain([1 << 20, 3 << 20]);
    let lengths = lengths.chain((0..300).map(|number| number * 37));
    let kept: Vec<(ColdPlace, Vec<u8>)> = lengths
        .map(|bytes| noise(&mut random, bytes))
        .map(|value| (tier.put(&[&value]).unwrap()[0], value))
        .collect();
    for (place, value) in &kept {
        assert_eq!(&read(&tier, *place), value);
    }
    assert_eq!(tier.usage().values as usize, kept.len());
    for (place, _) in kept {
        tier.release(place);
    }
    assert_eq!((tier.usage().values, tier.usage().value_bytes), (0, 0));
    assert!(tier.long.lock().is_empty());
    // Files have no names, so nothing is left of them.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn segments_come_back_when_their_values_are_released() {
    let (tier, _folder) = tier(1 << 20);
    let mut random = SmallRng::seed_from_u64(2);
    let mut kept = std::collections::VecDeque::new();
    let mut bytes = 0;
    for _ in 0..4000 {
        let length = random.random_range(0..4000);
        let value = noise(&mut random, length);
        kept.push_back((tier.put(&[&value]).unwrap()[0], value));
        bytes += length;
        while bytes > 500_000 {
            let (place, value) = kept.pop_front().unwrap();
            assert_eq!(read(&tier, place), value);
            tier.release(place);
            bytes -= value.len();
        }
        let usage = tier.usage();
        assert_eq!(
            (usage.values as usize, usage.value_bytes as usize),
            (kept.len(), bytes)
        );
        assert!(usage.used_bytes <= usage.capacity_bytes && usage.capacity_bytes <= 1 << 20);
    }
}

#[test]
fn a_full_tier_refuses_and_a_sparse_segment_asks_to_be_put_again() {
    let (tier, _folder) = tier(1 << 20);
    let mut kept = Vec::new();
    let error = loop {
        match tier.put(&[&[7; 1000]]) {
            Ok(place) => kept.push(place[0]),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, TierRefusal::Full));
    assert_eq!(tier.usage().values as usize, kept.len());
    assert!(kept.len() > 900, "{}", kept.len());
    assert!(!tier.wants_rewrite(kept[0]));
    for place in kept.iter().take(64).skip(1).step_by(2).chain(&kept[2..6]) {
        tier.release(*place);
    }
    assert!(tier.wants_rewrite(kept[0]));
    let error = tier.put(&[&vec![0; 1 << 20]]).unwrap_err();
    assert!(matches!(error, TierRefusal::TooLarge { .. }));
}

#[test]
fn shorter_values_still_go_into_the_last_segment_when_longer_ones_are_refused() {
    let (tier, _folder) = tier(1 << 20);
    let mut random = SmallRng::seed_from_u64(6);
    let mut kept = Vec::new();
    for length in [9_000, 1_000, 100, 10, 0] {
        let error = loop {
            let value = noise(&mut random, length);
            match tier.put(&[&value]) {
                Ok(place) => kept.push((place[0], value)),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, TierRefusal::Full));
    }
    for (place, value) in &kept {
        assert_eq!(&read(&tier, *place), value, "{} bytes", value.len());
    }
}

#[test]
fn a_disk_that_answers_other_bytes_is_found_out() {
    let (tier, _folder) = tier(16 << 20);
    let mut random = SmallRng::seed_from_u64(3);
    let kept: Vec<(ColdPlace, Vec<u8>)> = (0..600)
        .map(|_| noise(&mut random, 4000))
        .map(|value| (tier.put(&[&value]).unwrap()[0], value))
        .collect();
    let (place, value) = &kept[10];
    let (number, start) = take_apart(*place);
    let segment = tier.segment(number).unwrap();
    let file = segment.file();
    let at = start / 4096 * 4096;
    let mut sectors = buffer::AlignedBuffer::default();
    sectors.lengthen(8192);
    file.read_at(sectors.bytes_mut(), at).unwrap();
    let damaged = (start - at) as usize + HEADER_BYTES + 100;
    sectors.bytes_mut()[damaged] ^= 1;
    file.write_at(sectors.bytes(), at).unwrap();
    let error = tier.read(*place, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, ReadError::Damaged));
    // The other values are unchanged.
    for (place, value) in kept.iter().skip(11) {
        assert_eq!(&read(&tier, *place), value);
    }
    // The record of another place is not taken for this one's.
    sectors.bytes_mut()[damaged] ^= 1;
    file.write_at(sectors.bytes(), at).unwrap();
    assert_eq!(&read(&tier, *place), value);
    let (_, other) = take_apart(kept[100].0);
    let pending = PendingTierRead {
        start: other,
        ..tier.pending(*place).unwrap()
    };
    assert!(matches!(
        pending.run(&mut Vec::new()),
        Err(ReadError::Damaged)
    ));
}

#[test]
fn a_read_that_is_pending_outlives_the_value() {
    let (tier, _folder) = tier(1 << 20);
    let mut random = SmallRng::seed_from_u64(4);
    let value = noise(&mut random, 40_000);
    let place = tier.put(&[&value]).unwrap()[0];
    let pending = tier.pending(place).unwrap();
    tier.release(place);
    // The segment is freed, and its number is reused.
    for _ in 0..100 {
        let other = tier.put(&[&noise(&mut random, 30_000)]).unwrap()[0];
        tier.release(other);
    }
    let mut read = Vec::new();
    pending.run(&mut read).unwrap();
    assert_eq!(read, value);
}

#[test]
fn a_ring_reads_many_values_at_once_and_finds_other_bytes_out() {
    let mut ring = match TierReadRing::new(8) {
        Ok(ring) => ring,
        Err(error) => {
            println!("skipped: the kernel refuses a ring: {error}");
            return;
        }
    };
    let (tier, _folder) = tier(16 << 20);
    let mut random = SmallRng::seed_from_u64(7);
    // Some are on the disk, some in the buffer, and some on both.
    let kept: Vec<(ColdPlace, Vec<u8>)> = (0..700)
        .map(|number| noise(&mut random, number * 7 + 1))
        .map(|value| (tier.put(&[&value]).unwrap()[0], value))
        .collect();
    let mut answers = std::collections::BTreeMap::new();
    let mut next = 0;
    while answers.len() < kept.len() {
        while next < kept.len() && ring.room() > 0 {
            let pending = tier.pending(kept[next].0).unwrap();
            let at_once = ring.begin(pending, next as u64);
            answers.extend(at_once.map(|answer| (next as u64, answer)));
            next += 1;
        }
        let patience = std::time::Duration::from_secs(10);
        let waited = ring.wait(patience, |number, answer| {
            assert!(answers.insert(number, answer).is_none());
        });
        waited.unwrap();
    }
    assert_eq!(ring.under_way(), 0);
    for (number, answer) in answers {
        assert_eq!(answer.unwrap(), kept[number as usize].1, "{number}");
    }
    // The record of another place is not taken for this one's.
    let pending = PendingTierRead {
        start: take_apart(kept[100].0).1,
        ..tier.pending(kept[10].0).unwrap()
    };
    let mut answer = ring.begin(pending, 0);
    while answer.is_none() {
        let waited = ring.wait(std::time::Duration::from_secs(10), |_, it| {
            answer = Some(it)
        });
        waited.unwrap();
    }
    assert!(matches!(answer, Some(Err(ReadError::Damaged))));
    // The file has lost its end.
    let (number, _) = take_apart(kept[0].0);
    let segment = tier.segment(number).unwrap();
    let file = segment.file().descriptor().unwrap().try_clone_to_owned();
    std::fs::File::from(file.unwrap()).set_len(0).unwrap();
    let mut answer = ring.begin(tier.pending(kept[0].0).unwrap(), 0);
    while answer.is_none() {
        let waited = ring.wait(std::time::Duration::from_secs(10), |_, it| {
            answer = Some(it)
        });
        waited.unwrap();
    }
    assert!(
        matches!(answer, Some(Err(ReadError::Disk(_)))),
        "{answer:?}"
    );
    // A ring that is dropped with reads under way leaks their buffers.
    for (place, _) in kept.iter().take(8) {
        ring.begin(tier.pending(*place).unwrap(), 1);
    }
    drop(ring);
}

#[test]
fn a_ring_that_was_made_by_another_thread_wakes_the_one_that_polls_it() {
    let ring = std::thread::spawn(|| TierReadRing::new(8));
    let mut ring = match ring.join().unwrap() {
        Ok(ring) => ring,
        Err(error) => {
            println!("skipped: the kernel refuses a ring: {error}");
            return;
        }
    };
    let (tier, _folder) = tier(16 << 20);
    let mut random = SmallRng::seed_from_u64(8);
    // The buffer is written out before the last ones are put.
    let places: Vec<ColdPlace> = (0..700)
        .map(|_| tier.put(&[&noise(&mut random, 5000)]).unwrap()[0])
        .collect();
    assert!(ring.begin(tier.pending(places[0]).unwrap(), 7).is_none());
    ring.submit().unwrap();
    let mut polled = libc::pollfd {
        fd: std::os::fd::AsRawFd::as_raw_fd(&ring),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut over = Vec::new();
    while over.is_empty() {
        // SAFETY: the call gets one entry, which outlives it.
        assert_ne!(unsafe { libc::poll(&raw mut polled, 1, 10_000) }, 0);
        ring.submit().unwrap();
        ring.reap(|number, read| over.push((number, read.is_ok())));
    }
    assert_eq!(over, [(7, true)]);
}

#[test]
fn folders_that_cannot_hold_a_tier_are_refused() {
    let missing = FileTier::open(
        1,
        Path::new("/no/such/folder"),
        1 << 20,
        Arc::new(RealTierDisk),
    );
    assert!(matches!(missing, Err(FolderError::Io(..))));
    let folder = tempfile::tempdir().unwrap();
    let huge = FileTier::open(1, folder.path(), 1 << 60, Arc::new(RealTierDisk));
    assert!(matches!(huge, Err(FolderError::TooSmall(..))));
}

#[test]
fn threads_put_read_and_release_at_once() {
    let (tier, _folder) = tier(32 << 20);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let tier = &tier;
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed);
                let mut kept = Vec::new();
                for _ in 0..2000 {
                    let length = random.random_range(0..3000);
                    let value = noise(&mut random, length);
                    kept.push((tier.put(&[&value]).unwrap()[0], value));
                    let at = random.random_range(0..kept.len());
                    assert_eq!(read(tier, kept[at].0), kept[at].1);
                    if kept.len() > 200 {
                        tier.release(kept.swap_remove(at).0);
                    }
                }
                kept.into_iter().for_each(|(place, _)| tier.release(place));
            });
        }
    });
    assert_eq!(tier.usage().values, 0);
}

/// A disk that does not respond while it hangs, and counts the calls that wait for it.
#[derive(Clone, Debug, Default)]
struct HangingDisk(Arc<(Mutex<Hangs>, Condvar)>);

#[derive(Debug, Default)]
struct Hangs {
    writes: bool,
    creates: bool,
    waiting: usize,
}

impl HangingDisk {
    fn set(&self, writes: bool, creates: bool) {
        let mut hangs = self.0.0.lock();
        (hangs.writes, hangs.creates) = (writes, creates);
        self.0.1.notify_all();
    }

    fn wait_while(&self, mut hangs: MutexGuard<'_, Hangs>, hang: fn(&Hangs) -> bool) {
        hangs.waiting += 1;
        self.0.1.wait_while(&mut hangs, |hangs| hang(hangs));
        hangs.waiting -= 1;
    }

    fn waiting(&self) -> usize {
        self.0.0.lock().waiting
    }
}

#[derive(Debug)]
struct HangingFile(Box<dyn TierFile>, HangingDisk);

impl TierDisk for HangingDisk {
    fn create(&self, folder: &Path, bytes: u64) -> io::Result<Box<dyn TierFile>> {
        self.wait_while(self.0.0.lock(), |hangs| hangs.creates);
        let file = RealTierDisk.create(folder, bytes)?;
        Ok(Box::new(HangingFile(file, self.clone())))
    }

    fn free_bytes(&self, folder: &Path) -> io::Result<Option<u64>> {
        RealTierDisk.free_bytes(folder)
    }
}

impl TierFile for HangingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.1.wait_while(self.1.0.0.lock(), |hangs| hangs.writes);
        self.0.write_at(buffer, offset)
    }
}

/// Puts values until one is refused, and returns the reason.
fn put_until_refused(
    tier: &FileTier,
    random: &mut SmallRng,
    kept: &mut Vec<(ColdPlace, Vec<u8>)>,
) -> TierRefusal {
    loop {
        let value = noise(random, 3000);
        match tier.put(&[&value]) {
            Ok(place) => kept.push((place[0], value)),
            Err(error) => return error,
        }
    }
}

#[test]
fn a_disk_that_hangs_is_waited_for_once_and_what_lies_in_memory_is_read_and_released() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), HangingDisk::default());
    let tier = FileTier::open(1, folder.path(), 4 << 20, Arc::new(disk.clone())).unwrap();
    let mut random = SmallRng::seed_from_u64(9);
    let mut kept = Vec::new();
    for (writes, creates) in [(true, false), (false, true)] {
        disk.set(writes, creates);
        std::thread::scope(|scope| {
            let (tier, kept, random) = (&tier, &mut kept, &mut random);
            let putting = scope.spawn(move || put_until_refused(tier, random, kept));
            while disk.waiting() == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            // The thread that puts a value waits. No thread holds a lock of a segment.
            assert!(!putting.is_finished());
            assert!(tier.open.is_locked() && tier.segments.try_write().is_some());
            let list = tier.segments.read().list.clone();
            assert!(list.iter().flatten().all(|it| it.is_unlocked()));
            let error = putting.join().unwrap();
            assert!(error.to_string().contains("does not respond"), "{error}");
        });
        // No thread waits a second time.
        let began = std::time::Instant::now();
        for _ in 0..100 {
            let error = tier.put(&[&[1; 3000]]).unwrap_err();
            assert!(error.to_string().contains("does not respond"), "{error}");
        }
        assert!(began.elapsed() < 10 * PATIENCE);
        for (place, value) in &kept {
            assert_eq!(&read(&tier, *place), value);
        }
        let (place, _) = kept.pop().unwrap();
        tier.release(place);
        disk.set(false, false);
        while disk.waiting() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // The refused values were not put.
        assert_eq!(tier.usage().values as usize, kept.len());
        let deadline = std::time::Instant::now() + PATIENCE;
        let take = || tier.put(&[&[1; 3000]]).map(|place| tier.release(place[0]));
        while take().is_err() {
            assert!(std::time::Instant::now() < deadline);
        }
    }
    assert!(matches!(
        put_until_refused(&tier, &mut random, &mut kept),
        TierRefusal::Full
    ));
    for (place, value) in &kept {
        assert_eq!(&read(&tier, *place), value);
    }
    kept.into_iter().for_each(|(place, _)| tier.release(place));
    assert_eq!((tier.usage().values, tier.usage().value_bytes), (0, 0));
    assert!(tier.usage().used_bytes <= tier.segment_bytes);
}

use super::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const UNIT: usize = 16;
const SPAN_BYTES: usize = SPAN_UNITS * UNIT + size_of::<PieceSpan>();

/// Pieces of a separate region. Each piece has its number in all its bytes.
struct PieceTestRegion {
    region: ReservedRegion,
    pieces: PieceAllocator,
    /// Number of requested bytes, and their limit.
    taken: AtomicUsize,
    limit: usize,
}

/// A piece in use.
#[derive(Clone, Copy, Debug)]
struct AllocatedPiece {
    first: u32,
    units: usize,
    content: u8,
}

impl PieceTestRegion {
    fn new(limit: usize) -> PieceTestRegion {
        let region = ReservedRegion::reserve(UNIT, 1 << 24, 0).expect("address space");
        let pieces = PieceAllocator::new(&region, 0).expect("address space");
        PieceTestRegion {
            region,
            pieces,
            taken: AtomicUsize::new(0),
            limit,
        }
    }

    fn grow(&self, bytes: usize) -> Result<(), OperationError> {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if taken <= self.limit {
            return Ok(());
        }
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
        Err(self.region.full())
    }

    fn allocate(&self, units: usize, content: u8) -> Result<AllocatedPiece, OperationError> {
        let grow = |bytes| self.grow(bytes);
        let first = self.pieces.allocate(&self.region, units, grow)?;
        // SAFETY: the piece belongs to this caller, and has this length.
        unsafe {
            self.region
                .address(first)
                .write_bytes(content, units * UNIT)
        };
        Ok(AllocatedPiece {
            first,
            units,
            content,
        })
    }

    /// Frees a piece, after checking that no other thread has written to it.
    fn free(&self, piece: AllocatedPiece) {
        let address = self.region.address(piece.first).cast_const();
        // SAFETY: the piece belongs to this caller, has this length, and is initialized.
        let bytes = unsafe { std::slice::from_raw_parts(address, piece.units * UNIT) };
        assert!(
            bytes.iter().all(|&byte| byte == piece.content),
            "{piece:?} was written by another"
        );
        self.pieces.free(piece.first, piece.units);
    }

    fn live(&self) -> usize {
        self.pieces.live_units(&self.region)
    }

    /// Checks that the counted bytes were requested.
    fn assert_accounts(&self) {
        let taken = self.taken.load(Ordering::Relaxed);
        assert_eq!(self.pieces.bytes_taken(&self.region), taken);
        assert!(taken <= self.limit);
    }
}

#[test]
fn pieces_do_not_overlap_and_are_accounted_for() {
    for (seed, units_max) in [(1, 1), (2, 8), (3, PIECE_UNITS_MAX), (4, PIECE_UNITS_MAX)] {
        let memory = PieceTestRegion::new(usize::MAX);
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut pieces, mut live) = (Vec::<AllocatedPiece>::new(), 0);
        let mut taken_max = 0;
        for step in 0..60_000 {
            let grows = step / 10_000 % 2 == 0;
            if pieces.is_empty() || rng.random_ratio(if grows { 6 } else { 4 }, 10) {
                let units = rng.random_range(1..=units_max);
                pieces.push(memory.allocate(units, rng.random()).expect("memory"));
                live += units;
            } else {
                let piece = pieces.swap_remove(rng.random_range(0..pieces.len()));
                live -= piece.units;
                memory.free(piece);
            }
            if step % 1000 == 0 {
                assert_eq!(memory.live(), live);
                memory.assert_accounts();
                taken_max = taken_max.max(memory.taken.load(Ordering::Relaxed));
            }
        }
        for piece in pieces.drain(..) {
            memory.free(piece);
        }
        assert_eq!(memory.live(), 0);
        // All of it can be reused.
        for _ in 0..2 {
            let spans = memory.pieces.count(&memory.region);
            for _ in 0..spans * (SPAN_UNITS / PIECE_UNITS_MAX) {
                pieces.push(memory.allocate(PIECE_UNITS_MAX, 1).expect("memory"));
            }
            // One span's holes were listed before the last pieces were freed, and it has room only
            // between them.
            assert!(memory.pieces.count(&memory.region) <= spans + 1);
            pieces.drain(..).for_each(|piece| memory.free(piece));
        }
    }
}

/// Pieces behave like blocks: all grow at about the same time, and each is replaced by a longer
/// one.
#[test]
fn what_pieces_leave_that_grow_serves_longer_ones() {
    let memory = PieceTestRegion::new(usize::MAX);
    let mut rng = SmallRng::seed_from_u64(5);
    let allocate = |units| memory.allocate(units, units as u8).expect("memory");
    let mut pieces: Vec<AllocatedPiece> = (0..10_000).map(|_| allocate(8)).collect();
    for _ in 0..400_000 {
        let i = rng.random_range(0..pieces.len());
        let old = pieces[i];
        let longer = old.units + rng.random_range(1..3);
        pieces[i] = allocate(if longer > PIECE_UNITS_MAX { 32 } else { longer });
        memory.free(old);
        let (live, taken) = (memory.live() * UNIT, memory.taken.load(Ordering::Relaxed));
        assert!(
            taken < live * 3 / 2 + 4 * SPAN_BYTES,
            "{taken} bytes are held for {live}"
        );
    }
    let live: usize = pieces.iter().map(|piece| piece.units).sum();
    assert_eq!(memory.live(), live);
}

#[test]
fn threads_free_what_others_have_allocated() {
    const THREADS: usize = 4;
    let memory = PieceTestRegion::new(usize::MAX);
    let shared: Mutex<Vec<AllocatedPiece>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (memory, shared) = (&memory, &shared);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(thread as u64);
                for _ in 0..50_000 {
                    let units = rng.random_range(1..=PIECE_UNITS_MAX);
                    let piece = memory.allocate(units, rng.random()).expect("memory");
                    let mut pieces = shared.lock().expect("no panic");
                    pieces.push(piece);
                    let count = pieces.len();
                    if count > 2000 {
                        let piece = pieces.swap_remove(rng.random_range(0..count));
                        drop(pieces);
                        memory.free(piece);
                    }
                }
            });
        }
    });
    let pieces = shared.into_inner().expect("no panic");
    let live: usize = pieces.iter().map(|piece| piece.units).sum();
    assert_eq!(memory.live(), live);
    memory.assert_accounts();
    assert!(memory.taken.load(Ordering::Relaxed) < live * UNIT * 2 + 2 * THREADS * SPAN_BYTES);
    pieces.into_iter().for_each(|piece| memory.free(piece));
    assert_eq!(memory.live(), 0);
}

/// All freed memory is found when no more memory may be taken, by any thread.
#[test]
fn the_limit_is_kept_and_all_below_it_is_used() {
    let memory = PieceTestRegion::new(8 * SPAN_BYTES);
    let mut rng = SmallRng::seed_from_u64(6);
    for round in 0..20 {
        let units = rng.random_range(1..=PIECE_UNITS_MAX);
        let mut pieces = Vec::new();
        while let Ok(piece) = memory.allocate(units, round) {
            pieces.push(piece);
        }
        memory.assert_accounts();
        // The rest of a span, or of a hole that was listed in the last round, is too short.
        assert!(pieces.len() * units > 8 * SPAN_UNITS / 10 * 9);
        let some = pieces.swap_remove(rng.random_range(0..pieces.len()));
        std::thread::scope(|scope| {
            scope.spawn(|| memory.free(some));
        });
        pieces.push(memory.allocate(units, round).expect("one that was freed"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(memory.allocate(units, round).is_err());
                memory.free(pieces.swap_remove(0));
                pieces.push(memory.allocate(units, round).expect("one that was freed"));
                // Half by this thread, half by another.
                let half = pieces.len() / 2;
                pieces.drain(half..).for_each(|piece| memory.free(piece));
            });
        });
        pieces.into_iter().for_each(|piece| memory.free(piece));
        assert_eq!(memory.live(), 0);
    }
}

#[test]
fn memory_of_free_spans_is_given_back_and_used_again() {
    let memory = PieceTestRegion::new(usize::MAX);
    let allocate = |content| memory.allocate(40, content).expect("memory");
    let mut pieces: Vec<AllocatedPiece> = (0..10_000).map(|_| allocate(1)).collect();
    let taken = memory.pieces.bytes_taken(&memory.region);
    // SAFETY: no piece is referred to.
    assert_eq!(unsafe { memory.pieces.give_back(&memory.region) }, 0);
    let freed = pieces.split_off(1000);
    freed.into_iter().for_each(|piece| memory.free(piece));
    // SAFETY: no piece is referred to.
    let bytes = unsafe { memory.pieces.give_back(&memory.region) };
    if cfg!(target_os = "linux") {
        assert!(bytes > taken / 10 * 8);
    }
    memory.taken.fetch_sub(bytes, Ordering::Relaxed);
    memory.assert_accounts();
    pieces.extend((0..9000).map(|_| allocate(2)));
    memory.assert_accounts();
    assert!(memory.pieces.bytes_taken(&memory.region) <= taken + SPAN_BYTES);
    pieces.into_iter().for_each(|piece| memory.free(piece));
    assert_eq!(memory.live(), 0);
}

/// The sparsest memory may be memory from which a thread takes pieces. It cannot be emptied, but
/// other memory can.
#[test]
fn sparse_spans_are_found_beside_one_that_is_owned() {
    const SPANS: u32 = 96;
    let memory = PieceTestRegion::new(usize::MAX);
    let span_of = |piece: &AllocatedPiece| piece.first / SPAN_UNITS as u32;
    let mut pieces = vec![memory.allocate(64, 1).expect("memory")];
    while span_of(pieces.last().expect("one")) < SPANS - 1 {
        pieces.push(memory.allocate(64, 1).expect("memory"));
    }
    // The last of three groups keeps only the pieces of its last span, which is owned.
    let (mut number, mut kept) = (0, Vec::new());
    for piece in pieces {
        number += 1;
        let stays = match span_of(&piece) {
            0..64 => number % 3 > 0,
            span => span == SPANS - 1,
        };
        match stays {
            true => kept.push(piece),
            false => memory.free(piece),
        }
    }
    let taken = memory.pieces.take_sparse(&memory.region);
    let in_use = |&&span: &&u32| memory.pieces.span(span).used() > 0;
    assert!(taken.iter().filter(in_use).count() > 20, "{taken:?}");
    kept.into_iter().for_each(|piece| memory.free(piece));
}

//! Spans: memory that many threads free and one owner at a time takes.

use crate::{ScenarioStart, check};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use nearfield_radix::memory::span::{PieceSpan, SPAN_UNITS};

/// Number of units in a piece: two pieces make a span ripe, one does not.
const PIECE: usize = SPAN_UNITS / 16;
const PIECES: usize = 16;

/// A span of pieces. The owner of a piece has its cell: loom detects two owners at a time, and
/// unordered accesses.
struct PieceCellSpan {
    span: PieceSpan,
    cells: [UnsafeCell<usize>; PIECES],
    /// The number of times that the span became ripe.
    ripe: Mutex<usize>,
    owners: AtomicUsize,
}

impl PieceCellSpan {
    /// Creates a span whose pieces are all taken, and that is owned.
    fn full() -> Arc<Self> {
        let memory = PieceCellSpan {
            span: PieceSpan::default(),
            cells: std::array::from_fn(|_| UnsafeCell::new(0)),
            ripe: Mutex::new(0),
            owners: AtomicUsize::new(1),
        };
        memory.span.acquire(0);
        for piece in 0..PIECES {
            memory.span.take(piece * PIECE, PIECE);
        }
        Arc::new(memory)
    }

    fn touch(&self, piece: usize) {
        self.cells[piece].with_mut(|_| ());
    }

    fn tell(&self) {
        *self.ripe.lock().expect("no panic") += 1;
    }

    fn free(&self, piece: usize) {
        self.touch(piece);
        if self.span.free(piece * PIECE, PIECE) {
            self.tell();
        }
    }

    fn release(&self) {
        self.owners.fetch_sub(1, Ordering::Relaxed);
        if self.span.release() {
            self.tell();
        }
    }

    /// Acquires the span, if it was announced as ripe.
    fn acquire(&self) -> bool {
        let mut ripe = self.ripe.lock().expect("no panic");
        if *ripe == 0 {
            return false;
        }
        *ripe -= 1;
        self.own(|| self.span.acquire(0));
        true
    }

    fn own(&self, acquire: impl FnOnce()) {
        acquire();
        let others = self.owners.fetch_add(1, Ordering::Relaxed);
        assert_eq!(others, 0, "two owners");
    }

    /// Takes all free pieces; returns their number.
    fn take_all(&self) -> usize {
        let mut free = Vec::new();
        self.span.holes(PIECE, |at, units| {
            let pieces = at / PIECE..(at + units) / PIECE;
            free.extend(pieces);
        });
        for &piece in &free {
            self.span.take(piece * PIECE, PIECE);
            self.touch(piece);
        }
        free.len()
    }
}

/// The next owner finds units that are freed while the owner leaves, and is notified exactly once.
#[test]
fn a_span_becomes_ripe_once_and_its_next_owner_finds_what_was_freed() {
    check(|| {
        let (memory, start) = (PieceCellSpan::full(), ScenarioStart::new());
        let freeing = [0, 1].map(|thread| {
            let memory = Arc::clone(&memory);
            start.spawn(move || {
                memory.free(thread);
                memory.free(8 + thread);
            })
        });
        start.pass();
        memory.release();
        let acquired = memory.acquire();
        let mut taken = 0;
        if acquired {
            taken += memory.take_all();
            assert!(taken >= 2, "too early");
        }
        for thread in freeing {
            thread.join().expect("no panic");
        }
        if !acquired {
            assert!(memory.acquire(), "no thread received four pieces");
            taken += memory.take_all();
            assert_eq!(taken, 4);
        }
        assert!(*memory.ripe.lock().expect("no panic") == 0);
        assert_eq!(memory.span.used(), (PIECES - 4 + taken) * PIECE);
    });
}

/// The owner of a span that is being emptied finds pieces only by their beginnings, while others
/// free them.
#[test]
fn a_piece_that_is_being_freed_is_found_by_its_beginning_or_not_at_all() {
    const AT: usize = SPAN_UNITS / 2 - 4;
    const UNITS: usize = 8;
    check(|| {
        let span = Arc::new(PieceSpan::default());
        span.acquire(0);
        span.take(AT, UNITS);
        span.take(AT + UNITS, UNITS);
        let start = ScenarioStart::new();
        let freeing = start.spawn_on(&span, move |span| {
            let _ = span.free(AT, UNITS);
        });
        start.pass();
        let found = span.next_piece(0);
        assert!(found == Some(AT) || found == Some(AT + UNITS), "{found:?}");
        freeing.join().expect("no panic");
        assert_eq!(span.next_piece(0), Some(AT + UNITS));
        assert_eq!(span.next_piece(AT + 2 * UNITS), None);
    });
}

/// If memory is short, a thread that searches, or one that was notified of a ripe span, becomes the
/// owner of a resting span.
#[test]
fn a_span_at_rest_has_one_owner() {
    check(|| {
        let (memory, start) = (PieceCellSpan::full(), ScenarioStart::new());
        memory.release();
        let freeing = start.spawn_on(&memory, move |memory| {
            memory.free(0);
            memory.free(1);
            if memory.acquire() {
                assert!(memory.take_all() <= 2);
                memory.release();
            }
        });
        start.pass();
        if memory.span.acquire_resting(0) {
            memory.own(|| ());
            memory.take_all();
            memory.release();
        }
        freeing.join().expect("no panic");
    });
}

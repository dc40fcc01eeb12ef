//! Memory reclamation when no thread can reach the memory any more.

use crossbeam_epoch::pin;
use nearfield_core::{ByteStrings, OrderedIndex};
use nearfield_radix::{EngineOptions, RadixIndex};
use std::sync::mpsc::channel;

/// Number of pins of a thread between two at which it frees memory that others have left.
const PINS_BETWEEN: usize = 128;

/// The stack size, far too small for one nested call per block that waits.
const STACK_BYTES: usize = 256 << 10;

fn a_thread_ends(options: EngineOptions) {
    let index = RadixIndex::<ByteStrings>::new().expect("address space");
    index.set_options(options);
    let held = pin();
    let writes = || {
        for n in 0..60_000_u32 {
            index
                .insert(b"key", &n.to_be_bytes().repeat(300))
                .expect("insert");
        }
    };
    std::thread::scope(|scope| scope.spawn(writes).join().expect("writes"));
    let ((at_end, is_at_end), (go_on, may_go_on)) = (channel(), channel());
    let ends = move || {
        // The pin with which its part in the epochs ends is the next one that frees.
        (0..PINS_BETWEEN).for_each(|_| drop(pin()));
        at_end.send(()).expect("the test waits");
        may_go_on.recv().expect("the test sends");
    };
    let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
    let thread = builder.spawn(ends).expect("a thread");
    is_at_end.recv().expect("the thread sends");
    drop(held);
    // Now most of it may be freed.
    (0..4).for_each(|_| pin().flush());
    go_on.send(()).expect("the thread waits");
    thread.join().expect("it ends");
    assert_eq!(index.read(b"key", <[u8]>::len), Some(1200));
}

/// A thread that ends frees memory in a loop, and not each block in a call nested within the call
/// that frees the one before: that would need an unbounded stack.
#[test]
fn a_thread_ends_while_much_waits_to_be_freed() {
    a_thread_ends(EngineOptions::default());
}

#[test]
fn a_thread_ends_while_much_waits_to_be_freed_behind_shortcuts() {
    a_thread_ends(EngineOptions::data_centric(1 << 12));
}

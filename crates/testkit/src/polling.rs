//! Runs a future on the calling thread, by polling alone.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future until it is ready. It need not wake its task: an endpoint without threads of its
/// own continues when it is polled.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

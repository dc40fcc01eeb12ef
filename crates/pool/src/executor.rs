//! Polling many futures on the calling thread.
//!
//! Endpoints have no threads of their own: an operation that waits for the network continues when
//! it is polled. So the executor polls all operations in flight in turn, without wakers.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Polls a future until it is ready.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// Runs the future that `begin` creates for each task, up to `width` of them at a time. Each starts
/// as soon as one before it has ended, and reuses its memory.
pub(crate) fn run_all<T, R: Future<Output = ()>>(
    tasks: impl IntoIterator<Item = T>,
    width: usize,
    mut begin: impl FnMut(T) -> R,
) {
    let mut tasks = tasks.into_iter();
    if width <= 1 {
        return tasks.for_each(|task| block_on(begin(task)));
    }
    let begun = tasks.by_ref().take(width);
    let mut places: Vec<Pin<Box<Option<R>>>> =
        begun.map(|task| Box::pin(Some(begin(task)))).collect();
    let mut context = Context::from_waker(Waker::noop());
    while !places.is_empty() {
        places.retain_mut(|place| {
            while let Some(running) = place.as_mut().as_pin_mut() {
                if running.poll(&mut context).is_pending() {
                    return true;
                }
                // The new future is polled at once: it has not posted anything yet.
                place.set(tasks.next().map(&mut begin));
            }
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;

    /// Returns when it is polled for the n-th time.
    async fn polled(times: usize) {
        let mut left = times;
        poll_fn(|_| {
            left -= 1;
            if left == 0 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    #[test]
    fn as_many_are_under_way_as_may_be_and_all_are_done_once() {
        for width in [0, 1, 3, 100] {
            let (under_way, most) = (Cell::new(0_usize), Cell::new(0));
            let done = RefCell::new(Vec::new());
            run_all(0..50, width, |task: usize| {
                let (under_way, most, done) = (&under_way, &most, &done);
                async move {
                    under_way.set(under_way.get() + 1);
                    most.set(most.get().max(under_way.get()));
                    polled(2 + task % 3).await;
                    under_way.set(under_way.get() - 1);
                    done.borrow_mut().push(task);
                }
            });
            let mut done = done.into_inner();
            done.sort_unstable();
            assert_eq!(done, (0..50).collect::<Vec<_>>());
            assert_eq!(most.get(), width.clamp(1, 50));
        }
    }
}

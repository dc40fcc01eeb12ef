//! Futures that are polled in turn, by the only thread of a process.

use std::pin::Pin;
use std::task::{Context, Waker};

/// Polls all of them until each has ended.
pub fn block_on_all<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut all: Vec<Option<Pin<Box<F>>>> = futures.map(|future| Some(Box::pin(future))).collect();
    let mut context = Context::from_waker(Waker::noop());
    while all.iter().any(Option::is_some) {
        for one in &mut all {
            if let Some(future) = one
                && future.as_mut().poll(&mut context).is_ready()
            {
                *one = None;
            }
        }
    }
}

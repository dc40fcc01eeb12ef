//! Contestants in turn: each acts once before any acts again, so that other load on the machine
//! affects all of them alike.

use super::interrupt::{Completion, Interrupt};

/// Calls `act` with the round and each of `contestants`, round by round, until the interrupt is
/// raised.
///
/// # Errors
/// The first error of `act`.
pub(crate) fn in_turns<C, E>(
    rounds: usize,
    contestants: &mut [C],
    interrupt: &Interrupt,
    mut act: impl FnMut(usize, &mut C) -> Result<(), E>,
) -> Result<Completion, E> {
    for round in 0..rounds {
        for contestant in &mut *contestants {
            if interrupt.is_raised() {
                return Ok(Completion::Interrupted);
            }
            act(round, contestant)?;
        }
    }
    Ok(Completion::Finished)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_acts_again_before_all_have_and_nobody_after_an_interrupt() {
        let interrupt = Interrupt::default();
        let mut said = String::new();
        let completion = in_turns(9, &mut ['a', 'b'], &interrupt, |round, name| {
            said.push_str(&format!("{name}{round} "));
            if (round, *name) == (1, 'a') {
                interrupt.raise();
            }
            Ok::<(), ()>(())
        });
        assert_eq!(completion, Ok(Completion::Interrupted));
        assert_eq!(said, "a0 b0 a1 ");
        let refused = in_turns(2, &mut ['a'], &Interrupt::default(), |round, _| Err(round));
        assert_eq!(refused, Err(0));
    }
}

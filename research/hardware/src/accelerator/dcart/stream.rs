//! Consecutive lines of memory that are read ahead.

use std::collections::VecDeque;

/// A stream of lines, which are requested in order, arrive in any order, and are used in order.
#[derive(Clone, Debug, Default)]
pub(super) struct CardLineStream {
    base: u64,
    lines: u64,
    ahead: u64,
    /// The first line that has not been used. Requested lines from it on have arrived or not.
    used: u64,
    here: VecDeque<bool>,
}

impl CardLineStream {
    pub(super) fn new(base: u64, lines: u64, ahead: usize) -> CardLineStream {
        CardLineStream {
            base,
            lines,
            ahead: ahead as u64,
            used: 0,
            here: VecDeque::new(),
        }
    }

    /// Returns the next line to request, and its address.
    pub(super) fn ask(&mut self) -> Option<(u64, u64)> {
        let line = self.used + self.here.len() as u64;
        debug_assert!(line <= self.lines);
        if line >= self.lines || self.here.len() as u64 >= self.ahead {
            return None;
        }
        self.here.push_back(false);
        Some((line, self.base + line * crate::dram::LINE_BYTES))
    }

    pub(super) fn arrived(&mut self, line: u64) {
        if let Some(here) = line
            .checked_sub(self.used)
            .and_then(|place| self.here.get_mut(place as usize))
        {
            *here = true;
        }
    }

    /// Marks the lines before this one as used, if they have arrived.
    pub(super) fn reach(&mut self, line: u64) {
        // Places are counted from the first unused line, so lines are passed in order, each after
        // its arrival.
        while self.used < line && self.here.front() == Some(&true) {
            self.here.pop_front();
            self.used += 1;
        }
    }

    /// Returns true if the line that was reached has arrived.
    pub(super) fn has(&self, line: u64) -> bool {
        self.used == line && self.here.front() == Some(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_used_in_their_order() {
        let mut stream = CardLineStream::new(1024, 3, 2);
        assert_eq!(stream.ask(), Some((0, 1024)));
        assert_eq!(stream.ask(), Some((1, 1088)));
        assert_eq!(stream.ask(), None, "two ahead");
        stream.arrived(1);
        assert!(!stream.has(0));
        stream.arrived(0);
        assert!(stream.has(0));
        stream.reach(1);
        assert!(stream.has(1));
        assert_eq!(stream.ask(), Some((2, 1152)));
        stream.reach(2);
        assert!(!stream.has(2));
        stream.arrived(2);
        assert!(stream.has(2));
        assert_eq!(stream.ask(), None);
    }
}

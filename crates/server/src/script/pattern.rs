//! The matching of Lua 5.1's patterns, in bounded depth and with checks of the verdict.
//!
//! The matcher of the interpreter recurses as deeply as a pattern demands, and cannot be
//! interrupted while it tries all possible matches.

use super::guard;
use std::ffi::CStr;

/// Largest number of captures in a pattern.
const CAPTURES_MAX: usize = 32;

/// Largest number of repeated or captured items that wait for the rest of the pattern, as in Lua
/// 5.2.
const DEPTH_MAX: usize = 200;

/// Number of attempts between two checks of the verdict.
const STEPS_UNTIL_LOOK: usize = 1 << 16;

const ESCAPE: u8 = b'%';

/// The reason why the matching of a pattern ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternFault {
    /// An error in the pattern.
    Wrong(&'static CStr),
    /// The end of the script, which is requested for this reason.
    Over(&'static str),
}

type Outcome<T> = Result<T, PatternFault>;

fn wrong<T>(text: &'static CStr) -> Outcome<T> {
    Err(PatternFault::Wrong(text))
}

/// The extent of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternCapture {
    /// A capture that is not closed. It begins here.
    Open(usize),
    /// A capture of the position.
    Place(usize),
    /// A capture of a text, which begins and ends here.
    Span(usize, usize),
}

/// The state of matching a pattern to a subject. It has nothing that must be dropped.
#[derive(Debug)]
pub struct PatternMatcher<'m> {
    subject: &'m [u8],
    pattern: &'m [u8],
    captures: [PatternCapture; CAPTURES_MAX],
    level: usize,
    depth: usize,
    steps: usize,
}

impl<'m> PatternMatcher<'m> {
    /// Prepares a pattern, which ends where a C string would.
    pub fn new(subject: &'m [u8], pattern: &'m [u8]) -> PatternMatcher<'m> {
        let end = memchr::memchr(0, pattern).unwrap_or(pattern.len());
        PatternMatcher {
            subject,
            pattern: pattern.get(..end).unwrap_or_default(),
            captures: [PatternCapture::Open(0); CAPTURES_MAX],
            level: 0,
            depth: 0,
            steps: 0,
        }
    }

    /// Removes the anchor at the beginning of the pattern. Returns true if there was one.
    pub fn take_anchor(&mut self) -> bool {
        match self.pattern {
            [b'^', rest @ ..] => {
                self.pattern = rest;
                true
            }
            _ => false,
        }
    }

    /// Matches the whole pattern at this position of the subject, and returns the end.
    pub fn run(&mut self, at: usize) -> Outcome<Option<usize>> {
        debug_assert!(at <= self.subject.len());
        // Captures of the last match, also of one that has failed, are still there.
        self.level = 0;
        self.depth = 0;
        self.step(1)?;
        self.at(at, 0)
    }

    /// Returns the captures of the last match.
    pub fn captures(&self) -> &[PatternCapture] {
        debug_assert!(self.level <= CAPTURES_MAX);
        self.captures.get(..self.level).unwrap_or_default()
    }

    /// Counts attempts, and checks the verdict periodically.
    fn step(&mut self, count: usize) -> Outcome<()> {
        self.steps += count;
        if self.steps >= STEPS_UNTIL_LOOK {
            self.steps = 0;
            if let Some(reason) = guard::verdict() {
                return Err(PatternFault::Over(reason));
            }
        }
        Ok(())
    }

    /// Returns a byte of the pattern, which ends with a 0 as in C.
    fn pattern_at(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// Matches the pattern from `p` on at `s`, one level deeper.
    fn at(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        debug_assert!(s <= self.subject.len() && p <= self.pattern.len());
        debug_assert!(self.depth <= DEPTH_MAX);
        if self.depth == DEPTH_MAX {
            return wrong(c"pattern too complex");
        }
        self.depth += 1;
        let matched = self.items(s, p);
        self.depth -= 1;
        matched
    }

    fn items(&mut self, mut s: usize, mut p: usize) -> Outcome<Option<usize>> {
        loop {
            self.step(1)?;
            match self.pattern_at(p) {
                b'(' if self.pattern_at(p + 1) == b')' => {
                    return self.begin_capture(s, p + 2, PatternCapture::Place(s));
                }
                b'(' => return self.begin_capture(s, p + 1, PatternCapture::Open(s)),
                b')' => return self.end_capture(s, p + 1),
                0 => return Ok(Some(s)),
                b'$' if self.pattern_at(p + 1) == 0 => {
                    return Ok((s == self.subject.len()).then_some(s));
                }
                ESCAPE => match self.pattern_at(p + 1) {
                    b'b' => {
                        let Some(end) = self.balanced(s, p + 2)? else {
                            return Ok(None);
                        };
                        (s, p) = (end, p + 4);
                        continue;
                    }
                    b'f' => {
                        p += 2;
                        if self.pattern_at(p) != b'[' {
                            return wrong(c"missing '[' after '%f' in pattern");
                        }
                        let end = self.class_end(p)?;
                        // As in C, a 0 is before the first byte and after the last one.
                        let byte = |at: Option<usize>| at.and_then(|at| self.subject.get(at));
                        let before = byte(s.checked_sub(1)).copied().unwrap_or(0);
                        let here = byte(Some(s)).copied().unwrap_or(0);
                        if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                            return Ok(None);
                        }
                        p = end;
                        continue;
                    }
                    digit if digit.is_ascii_digit() => {
                        let Some(end) = self.again(s, digit)? else {
                            return Ok(None);
                        };
                        (s, p) = (end, p + 2);
                        continue;
                    }
                    _ => {}
                },
                _ => {}
            }
            let end = self.class_end(p)?;
            let is_matched = self.single(s, p, end);
            match self.pattern_at(end) {
                b'?' => {
                    if is_matched && let Some(all) = self.at(s + 1, end + 1)? {
                        return Ok(Some(all));
                    }
                    p = end + 1;
                }
                b'*' => return self.most(s, p, end),
                b'+' if is_matched => return self.most(s + 1, p, end),
                b'-' => return self.fewest(s, p, end),
                b'+' => return Ok(None),
                _ if is_matched => (s, p) = (s + 1, end),
                _ => return Ok(None),
            }
        }
    }

    /// Returns the end of the item that begins at `p`.
    fn class_end(&self, p: usize) -> Outcome<usize> {
        let mut end = p + 1;
        match self.pattern_at(p) {
            ESCAPE if self.pattern_at(end) == 0 => wrong(c"malformed pattern (ends with '%')"),
            ESCAPE => Ok(end + 1),
            b'[' => {
                end += usize::from(self.pattern_at(end) == b'^');
                loop {
                    let byte = self.pattern_at(end);
                    if byte == 0 {
                        return wrong(c"malformed pattern (missing ']')");
                    }
                    // A bracket at the beginning is a member of the set, so it is not the end.
                    end += 1;
                    if byte == ESCAPE && self.pattern_at(end) != 0 {
                        end += 1;
                    }
                    if self.pattern_at(end) == b']' {
                        return Ok(end + 1);
                    }
                }
            }
            _ => Ok(end),
        }
    }

    /// Returns true if the byte at `s` is in the item from `p` to `end`.
    fn single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.subject.get(s) else {
            return false;
        };
        match self.pattern_at(p) {
            b'.' => true,
            ESCAPE => in_class(byte, self.pattern_at(p + 1)),
            b'[' => self.in_set(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    /// Returns true if a byte is in the set that begins at `p` and has its closing bracket at
    /// `last`.
    fn in_set(&self, byte: u8, mut p: usize, last: usize) -> bool {
        debug_assert_eq!(self.pattern_at(last), b']', "the set has an end");
        let is_negated = self.pattern_at(p + 1) == b'^';
        p += usize::from(is_negated);
        loop {
            p += 1;
            if p >= last {
                return is_negated;
            }
            let first = self.pattern_at(p);
            let found = if first == ESCAPE {
                p += 1;
                in_class(byte, self.pattern_at(p))
            } else if self.pattern_at(p + 1) == b'-' && p + 2 < last {
                p += 2;
                (first..=self.pattern_at(p)).contains(&byte)
            } else {
                first == byte
            };
            if found {
                return !is_negated;
            }
        }
    }

    fn balanced(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let (open, close) = (self.pattern_at(p), self.pattern_at(p + 1));
        if open == 0 || close == 0 {
            return wrong(c"unbalanced pattern");
        }
        let rest = self.subject.get(s..).unwrap_or_default();
        if rest.first() != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (at, &byte) in rest.iter().enumerate().skip(1) {
            // Checked first: if both delimiters are the same, the second one closes.
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    self.step(at)?;
                    return Ok(Some(s + at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        self.step(rest.len())?;
        Ok(None)
    }

    /// Matches the item as often as possible, and less often where the rest does not match.
    fn most(&mut self, s: usize, p: usize, end: usize) -> Outcome<Option<usize>> {
        let mut count = 0;
        while self.single(s + count, p, end) {
            count += 1;
        }
        self.step(count)?;
        for count in (0..=count).rev() {
            if let Some(all) = self.at(s + count, end + 1)? {
                return Ok(Some(all));
            }
        }
        Ok(None)
    }

    /// Matches the item as few times as the rest allows.
    fn fewest(&mut self, mut s: usize, p: usize, end: usize) -> Outcome<Option<usize>> {
        loop {
            if let Some(all) = self.at(s, end + 1)? {
                return Ok(Some(all));
            }
            if !self.single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn begin_capture(
        &mut self,
        s: usize,
        p: usize,
        capture: PatternCapture,
    ) -> Outcome<Option<usize>> {
        let Some(place) = self.captures.get_mut(self.level) else {
            return wrong(c"too many captures");
        };
        *place = capture;
        self.level += 1;
        let matched = self.at(s, p)?;
        // The next attempt may capture something else at this level.
        self.level -= usize::from(matched.is_none());
        Ok(matched)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Outcome<Option<usize>> {
        let captures = self.captures.get(..self.level).unwrap_or_default();
        let is_open = |it: &PatternCapture| matches!(it, PatternCapture::Open(_));
        let Some(last) = captures.iter().rposition(is_open) else {
            return wrong(c"invalid pattern capture");
        };
        let Some(PatternCapture::Open(start)) = self.captures.get(last).copied() else {
            return wrong(c"invalid pattern capture");
        };
        debug_assert!(start <= s, "a match only advances");
        self.set(last, PatternCapture::Span(start, s));
        let matched = self.at(s, p)?;
        if matched.is_none() {
            self.set(last, PatternCapture::Open(start));
        }
        Ok(matched)
    }

    fn set(&mut self, at: usize, capture: PatternCapture) {
        if let Some(place) = self.captures.get_mut(at) {
            *place = capture;
        }
    }

    /// Matches the text of a capture again. `digit` is the number of the capture, from 1.
    fn again(&mut self, s: usize, digit: u8) -> Outcome<Option<usize>> {
        let number = usize::from(digit).checked_sub(usize::from(b'1'));
        match number.and_then(|number| self.captures().get(number)) {
            None | Some(PatternCapture::Open(_)) => wrong(c"invalid capture index"),
            Some(PatternCapture::Place(_)) => Ok(None),
            Some(&PatternCapture::Span(start, end)) => {
                let text = self.subject.get(start..end).unwrap_or_default();
                let rest = self.subject.get(s..).unwrap_or_default();
                let end = rest.starts_with(text).then_some(s + text.len());
                // Many bytes are compared in the time of one attempt.
                self.step(text.len() / 64)?;
                Ok(end)
            }
        }
    }
}

/// Returns true if a byte is in the class of a letter, as in the C locale.
fn in_class(byte: u8, letter: u8) -> bool {
    let is_in = match letter.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | b'\t'..=b'\r'),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return letter == byte,
    };
    is_in == letter.is_ascii_lowercase()
}

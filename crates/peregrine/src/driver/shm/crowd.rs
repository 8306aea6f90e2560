//! Processes that start together. Creating a channel of shared memory takes the time of dozens of matches, so that the
//! channels to most of them wait until discovery has come to rest.

use peregrine_rtps::time::{Instant, Span};

/// Processes to which channels are created at once.
const PROMPT_PROCESSES: usize = 4;

/// Discovery is at rest when no reader has requested a channel for this time.
const REST: Span = Span::from_millis(500);

/// The processes to whose writers readers have requested channels since discovery was last at rest.
#[derive(Default)]
pub(super) struct Crowd {
    /// The addresses of the first ones: at most [`PROMPT_PROCESSES`].
    prompt: Vec<[u8; 16]>,
    last_request: Option<Instant>,
    is_awaited: bool,
}

impl Crowd {
    /// Records that a reader requests a channel before samples come, from a writer of the process with this address.
    /// Returns whether the request waits for [rest](Self::is_at_rest).
    pub(super) fn must_wait(&mut self, now: Instant, process: [u8; 16]) -> bool {
        if self.last_request.is_some_and(|last| now.since(last) >= REST) {
            self.prompt.clear();
        }
        self.last_request = Some(now);
        if self.prompt.contains(&process) {
            return false;
        }
        if self.prompt.len() < PROMPT_PROCESSES {
            self.prompt.push(process);
            debug_assert!(self.prompt.len() <= PROMPT_PROCESSES);
            return false;
        }
        self.is_awaited = true;
        true
    }

    /// The earliest time of the rest for which requests wait.
    pub(super) fn rest_at(&self) -> Option<Instant> {
        self.last_request.filter(|_| self.is_awaited).map(|last| last + REST)
    }

    /// Whether discovery has come to rest and requests have waited for it. True once.
    pub(super) fn is_at_rest(&mut self, now: Instant) -> bool {
        let is_at_rest = self.rest_at().is_some_and(|at| at <= now);
        self.is_awaited &= !is_at_rest;
        is_at_rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant(1_000_000_000);

    fn process(number: usize) -> [u8; 16] {
        [number as u8; 16]
    }

    #[test]
    fn requests_to_further_processes_wait_until_no_request_has_come_for_a_while() {
        let mut crowd = Crowd::default();
        for _ in 0..2 {
            assert!((0..PROMPT_PROCESSES).all(|number| !crowd.must_wait(START, process(number))));
        }
        assert_eq!(crowd.rest_at(), None);
        assert!(crowd.must_wait(START, process(PROMPT_PROCESSES)));
        let later = START + REST - Span(1);
        assert!(!crowd.is_at_rest(later));
        assert!(!crowd.must_wait(later, process(0)), "a process of the first ones");
        assert_eq!(crowd.rest_at(), Some(later + REST));
        assert!(!crowd.is_at_rest(START + REST));
        assert!(crowd.is_at_rest(later + REST));
        assert!(!crowd.is_at_rest(later + REST) && crowd.rest_at().is_none());
    }

    #[test]
    fn processes_that_come_one_after_the_other_do_not_wait() {
        let mut crowd = Crowd::default();
        for number in 0..3 * PROMPT_PROCESSES {
            let now = START + Span(REST.0 * number as u64);
            assert!(!crowd.must_wait(now, process(number)));
        }
        assert_eq!(crowd.rest_at(), None);
    }
}

//! The schedule of a participant's announcements.

use alloc::vec::Vec;

use crate::limits::{ANNOUNCEMENT_BURST, ANNOUNCEMENT_BURST_INTERVAL, ANNOUNCEMENT_PERIOD_MIN};
use crate::seq::SequenceNumber;
use crate::time::{Instant, Span};

/// The schedule: a burst at the start, then a period with jitter. The announcer also numbers announcements: equal
/// content has the same sequence number, so that readers that go by the number notice changed content only.
#[derive(Debug)]
pub(super) struct Announcer {
    pub(super) next: Instant,
    last: Option<Instant>,
    pub(super) sent: u32,
    period: Span,
    random: u64,
    /// The serialized data of the last announcement, and its number.
    said: Vec<u8>,
    pub(super) number: SequenceNumber,
    /// No announcement to the groups before this time: see [`Self::be_silent`].
    silent_until: Instant,
    /// Since when the next announcement is put off.
    put_off_since: Option<Instant>,
    /// The announcement that the silence has put off goes to each known participant.
    owes_known: bool,
    /// The silence since the last announcement has been reported: see [`Self::take_silence`].
    is_silence_noted: bool,
}

impl Announcer {
    /// A `period` shorter than [`ANNOUNCEMENT_PERIOD_MIN`] is raised to it: a period of zero would always be due.
    pub(super) fn new(now: Instant, period: Span, seed: u64) -> Self {
        let period = period.max(ANNOUNCEMENT_PERIOD_MIN);
        Self {
            next: now,
            last: None,
            sent: 0,
            period,
            random: seed | 1,
            said: Vec::new(),
            number: SequenceNumber::ZERO,
            silent_until: Instant(0),
            put_off_since: None,
            owes_known: false,
            is_silence_noted: false,
        }
    }

    pub(super) fn number_of(&mut self, payload: &[u8]) -> SequenceNumber {
        if self.said != payload {
            self.said = payload.to_vec();
            self.number = self.number.next();
        }
        self.number
    }

    /// The number of a goodbye. Announcements after it have higher numbers: peers drop lower ones as outdated.
    pub(super) fn number_of_goodbye(&mut self) -> SequenceNumber {
        self.said.clear();
        self.number = self.number.next();
        self.number
    }

    pub(super) fn next(&self) -> Instant {
        self.next.max(self.silent_until)
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next() <= now
    }

    /// Announces earlier than scheduled, but not faster than in a burst, so that messages of unverified peers are not
    /// multiplied.
    pub(super) fn expedite_announcement(&mut self, now: Instant) {
        let soonest = self.last.map_or(now, |last| now.max(last + ANNOUNCEMENT_BURST_INTERVAL));
        self.next = self.next.min(soonest);
    }

    /// Nothing is announced to the groups, the initial peers and all known participants for this time. Answers to
    /// single participants go on. An announcement that is due is put off by this time once, however often the
    /// participant calls this.
    pub(super) fn be_silent(&mut self, now: Instant, time: Span) {
        let since = *self.put_off_since.get_or_insert(self.next.max(now));
        self.silent_until = self.silent_until.max((now + time).min(since + time));
    }

    /// Whether nothing has been announced for longer than this lease and than two periods, as after a stop of the
    /// process. True once for each such silence.
    pub(super) fn take_silence(&mut self, now: Instant, lease: Span) -> bool {
        let longest = lease.max(self.period.times(2));
        let is_long = !self.is_silence_noted && self.last.is_some_and(|last| now.since(last) > longest);
        self.is_silence_noted |= is_long;
        is_long
    }

    /// Begins an announcement, which goes to each known participant if `known`. The result says whether it does: an
    /// earlier one may have been put off. `None`: the silence lasts, and puts this announcement off as well.
    pub(super) fn begin(&mut self, now: Instant, known: bool) -> Option<bool> {
        self.owes_known |= known;
        if now < self.silent_until {
            self.next = self.next.min(now);
            return None;
        }
        self.schedule(now);
        Some(core::mem::take(&mut self.owes_known))
    }

    fn schedule(&mut self, now: Instant) {
        self.put_off_since = None;
        self.last = Some(now);
        self.is_silence_noted = false;
        self.sent = self.sent.saturating_add(1);
        let wait = if self.sent < ANNOUNCEMENT_BURST {
            ANNOUNCEMENT_BURST_INTERVAL.times(1 << (self.sent - 1)).0.min(self.period.0)
        } else {
            self.period.0
        };
        // Up to a tenth earlier, so that participants started together do not announce at the same times.
        let jitter = (wait / 10).max(1);
        self.next = now + Span(wait - self.draw() % jitter);
    }

    /// Xorshift, because the quality of the distribution does not matter.
    const fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_within_the_silence_are_one_after_it() {
        let start = Instant(1_000_000_000);
        let mut announcer = Announcer::new(start, Span::from_secs(1), 1);
        assert_eq!(announcer.begin(start, false), Some(false));
        let until = start + Span::from_millis(50);
        announcer.be_silent(start, until.since(start));
        for (after, known) in [(10, true), (20, false)] {
            let now = start + Span::from_millis(after);
            assert_eq!(announcer.begin(now, known), None);
            announcer.expedite_announcement(now);
            assert_eq!((announcer.next(), announcer.is_due(now)), (until, false));
        }
        assert!(announcer.is_due(until));
        assert_eq!(announcer.begin(until, false), Some(true), "to known participants, as the first one");
        assert!(announcer.next() > until);
        assert_eq!(announcer.begin(announcer.next(), false), Some(false));
    }

    #[test]
    fn announcement_that_is_due_is_put_off_once_however_often_the_announcer_is_silenced() {
        let start = Instant(1_000_000_000);
        let mut announcer = Announcer::new(start, Span::from_secs(1), 1);
        assert!(announcer.begin(start, false).is_some());
        let due = announcer.next();
        let time = Span::from_millis(100);
        let mut now = start;
        for _ in 0..100 {
            now = now + Span::from_millis(10);
            if announcer.is_due(now) {
                break;
            }
            announcer.be_silent(now, time);
        }
        assert!(announcer.begin(now, false).is_some() && now <= due + time + Span::from_millis(10), "{now:?}, {due:?}");
    }

    #[test]
    fn silence_longer_than_the_lease_is_reported_once_until_the_next_announcement() {
        let (start, period, lease) = (Instant(1_000_000_000), Span::from_secs(3), Span::from_secs(10));
        let mut announcer = Announcer::new(start, period, 1);
        assert!(!announcer.take_silence(start + Span::from_secs(100), lease), "nothing was announced before");
        announcer.begin(start, false);
        assert!(!announcer.take_silence(start + lease, lease));
        let late = start + Span(lease.0 + 1);
        // Goodbyes for other reasons put the announcement off.
        announcer.be_silent(late, Span::from_millis(100));
        assert_eq!([(); 2].map(|()| announcer.take_silence(late, lease)), [true, false]);
        announcer.begin(late + Span::from_secs(1), false);
        assert!(!announcer.take_silence(late + lease, lease) && !announcer.take_silence(late + lease, Span::INFINITE));
        // A lease that is shorter than the time between announcements is no sign of a stop.
        assert!(!announcer.take_silence(late + Span::from_secs(6), Span::from_secs(1)));
    }

    #[test]
    fn overdue_announcement_is_put_off_too() {
        let start = Instant(1_000_000_000);
        let mut announcer = Announcer::new(start, Span::from_secs(1), 1);
        let time = Span::from_millis(100);
        let late = start + Span::from_secs(60);
        announcer.be_silent(late, time);
        assert_eq!((announcer.is_due(late), announcer.next()), (false, late + time));
    }

    #[test]
    fn period_of_zero_is_raised_to_shortest() {
        let mut announcer = Announcer::new(Instant(0), Span::ZERO, 1);
        for _ in 0..2 * ANNOUNCEMENT_BURST {
            let now = announcer.next();
            announcer.begin(now, false);
            assert!(announcer.next().since(now) >= Span(ANNOUNCEMENT_PERIOD_MIN.0 * 9 / 10));
        }
    }
}

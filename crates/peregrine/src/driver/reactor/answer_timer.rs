//! The timer of the answers that an application thread has left.

use std::io;
use std::sync::atomic::Ordering;

use peregrine_rtps::time::{Instant, Span};

use super::wake_timer::WakeTimer;
use crate::driver::base::system::{AtomicU64, Timer};

/// How long answers wait for the application thread that left them, and for the next datagram. A writer of Peregrine
/// sends another sample or repeats its request no later
/// ([`RETRY_IN_LASTING_FLOW`](peregrine_rtps::limits::RETRY_IN_LASTING_FLOW)), and a receive thread then answers: this
/// time is for other writers.
pub(super) const ANSWER_DELAY_MAX: Span = Span::from_millis(20);

/// Makes a follower wake up when answers have waited for [`ANSWER_DELAY_MAX`].
///
/// To set a timer costs a virtual machine 10 us, and so does its expiry: more than a whole exchange of small samples.
/// Therefore the timer is set at most once in [`ANSWER_DELAY_MAX`] and is never cancelled: answers that are left
/// meanwhile only move the deadline, and the follower that the timer wakes sets it again.
pub(super) struct AnswerTimer {
    wake: WakeTimer,
    /// When the answers that were left last are due.
    due: AtomicU64,
}

impl AnswerTimer {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { wake: WakeTimer::new()?, due: AtomicU64::new(0) })
    }

    /// The timer, which becomes readable when a follower has to [look](Self::is_due).
    pub(super) const fn timer(&self) -> &Timer {
        self.wake.timer()
    }

    /// Makes sure that a follower wakes up when the answers that were left `now` are due.
    pub(super) fn start(&self, now: Instant) {
        let due = (now + ANSWER_DELAY_MAX).0;
        self.due.store(due, Ordering::SeqCst);
        self.wake.arm(due);
    }

    /// Whether answers may be due. The caller is a follower that the timer has woken. If answers were left later, sets
    /// the timer to when they are due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        // A thread that leaves answers stores the deadline, then arms: either that thread sees that the timer is not
        // set, or its deadline is seen here.
        self.wake.begin_look();
        let due = self.due.load(Ordering::SeqCst);
        if due > now.0 {
            self.wake.arm(due);
        }
        due <= now.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use peregrine_transport::clock::MonotonicNs;
    use peregrine_transport::event::{Poller, Token};

    use super::*;
    use crate::driver::base::clock::now;

    fn timer() -> (AnswerTimer, Poller) {
        let (timer, poller) = (AnswerTimer::new().unwrap(), Poller::new().unwrap());
        poller.add(timer.timer(), Token(0)).unwrap();
        (timer, poller)
    }

    fn expires(poller: &mut Poller) -> bool {
        let deadline = MonotonicNs((now() + Span::from_secs(20)).0);
        poller.wait(Some(deadline)).unwrap().next().is_some()
    }

    #[test]
    fn answers_left_once_are_due_at_the_first_expiry() {
        let (timer, mut poller) = timer();
        let left = now();
        timer.start(left);
        assert!(expires(&mut poller));
        assert!(now() >= left + ANSWER_DELAY_MAX);
        assert!(timer.is_due(now()));
    }

    #[test]
    fn answers_left_later_move_the_deadline_without_setting_the_timer() {
        let (timer, mut poller) = timer();
        let left = now();
        timer.start(left);
        timer.start(left + Span::from_millis(1));
        assert!(expires(&mut poller));
        assert!(!timer.is_due(left + ANSWER_DELAY_MAX), "the later answers have a millisecond left");
        assert!(expires(&mut poller));
        assert!(timer.is_due(left + ANSWER_DELAY_MAX + Span::from_millis(1)));
    }

    #[test]
    fn timer_that_has_expired_is_set_by_the_next_answers() {
        let (timer, mut poller) = timer();
        timer.start(now());
        assert!(expires(&mut poller));
        assert!(timer.is_due(now()));
        timer.start(now());
        assert!(expires(&mut poller));
        assert!(timer.is_due(now()));
    }
}

//! The subscribers that a publisher knows from their announcements.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::sentinel::{ControlCounter, Partner, Sentinel};
use super::stop::{Stop, StopReason};
use crate::clock::MonotonicNs;
use crate::error::Error;
use crate::messaging::Sample;

/// Interval at which a wait checks the stop request.
const STOP_POLL: Duration = Duration::from_millis(50);

/// Announcements of the subscribers. One per publisher; the announcement listener writes it, the main thread reads it.
#[derive(Debug)]
pub struct AnnouncementBoard {
    expected: u32,
    state: Mutex<State>,
    changed: Condvar,
    stop: Arc<Stop>,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The condition was met.
    Done,
    /// The timeout has passed.
    TimeOver,
    /// A stop of the run was requested.
    Stopped(StopReason),
}

#[derive(Debug, Default)]
struct State {
    /// Subscribers that are present, and the process of each.
    present: BTreeMap<u32, Option<Partner>>,
    /// For each subscriber, the latest round of LENGTH_CHANGED that it has confirmed.
    confirmed: BTreeMap<u32, u32>,
    /// Whether all expected subscribers were present at some time.
    complete: bool,
    /// Whether the end was announced, so that departures are expected.
    ending: bool,
    fault: Option<String>,
}

impl AnnouncementBoard {
    /// Expects subscribers `0..expected`. Requests `stop` when all of them have left, or when an unexpected one
    /// appears.
    pub fn new(expected: u32, stop: Arc<Stop>) -> Self {
        Self { expected, state: Mutex::default(), changed: Condvar::new(), stop }
    }

    /// Records an announcement.
    pub fn on_announcement(&self, sample: &Sample<'_>) {
        let Some(sentinel) = Sentinel::of_payload_len(sample.payload.len()) else { return };
        let mut state = self.lock();
        let subscriber = match u32::try_from(sample.entity_id) {
            Ok(subscriber) if subscriber < self.expected => subscriber,
            _ => {
                if !state.ending {
                    let fault = format!(
                        "Subscriber {} has announced itself, but with -numSubscribers {} the subscribers must be \
                         numbered 0 to {} by -sidMultiSubTest.",
                        sample.entity_id,
                        self.expected,
                        self.expected.saturating_sub(1)
                    );
                    self.conflict(&mut state, fault);
                }
                return;
            }
        };
        match sentinel {
            // The subscriber waits for the next test.
            Sentinel::Initialize if state.ending => {}
            Sentinel::Initialize => {
                if state.arrive(subscriber, Partner::of_introduction(sample), self.expected) {
                    let fault = format!(
                        "Two subscribers announce themselves as number {subscriber}; give each its own \
                         -sidMultiSubTest."
                    );
                    self.conflict(&mut state, fault);
                }
            }
            Sentinel::LengthChanged => {
                state.confirmed.insert(subscriber, ControlCounter::from_timestamp(sample.timestamp).round);
            }
            Sentinel::Finished => {
                state.present.remove(&subscriber);
                if state.complete && !state.ending && state.present.is_empty() {
                    self.stop.request(StopReason::PartnersLeft);
                }
            }
        }
        self.changed.notify_all();
    }

    /// Waits until all subscribers are present.
    pub fn wait_for_all(&self, timeout: Duration) -> Result<Waited, Error> {
        self.wait(timeout, |state| state.complete)
    }

    /// Waits until every present subscriber has confirmed that round of LENGTH_CHANGED.
    pub fn wait_for_confirmation(&self, round: u32, timeout: Duration) -> Result<Waited, Error> {
        self.wait(timeout, |state| {
            state.present.keys().all(|subscriber| state.confirmed.get(subscriber) == Some(&round))
        })
    }

    /// From now on a departing subscriber confirms the end and does not stop the run.
    pub fn expect_departures(&self) {
        self.lock().ending = true;
    }

    /// Waits until every subscriber has confirmed the end or left. A stop request does not end this wait: the wait is
    /// short, and the subscribers must learn of the end after Ctrl-C as well.
    pub fn wait_until_all_have_left(&self, timeout: Duration) -> bool {
        let end = MonotonicNs::now().plus(timeout);
        let mut state = self.lock();
        while !state.present.is_empty() {
            let left = end.remaining();
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The conflict among subscribers, if [`StopReason::Conflict`] stopped the run.
    pub fn fault(&self) -> Option<String> {
        self.lock().fault.clone()
    }

    /// Numbers of the present subscribers.
    pub fn present(&self) -> BTreeSet<u32> {
        self.lock().present.keys().copied().collect()
    }

    fn conflict(&self, state: &mut State, fault: String) {
        state.fault.get_or_insert(fault);
        self.stop.request(StopReason::Conflict);
        self.changed.notify_all();
    }

    fn wait(&self, timeout: Duration, done: impl Fn(&State) -> bool) -> Result<Waited, Error> {
        let end = MonotonicNs::now().plus(timeout);
        let mut state = self.lock();
        loop {
            if let Some(fault) = &state.fault {
                return Err(Error::Partner(fault.clone()));
            }
            if done(&state) {
                return Ok(Waited::Done);
            }
            if let Some(reason) = self.stop.reason() {
                return Ok(Waited::Stopped(reason));
            }
            let left = end.remaining();
            if left.is_zero() {
                return Ok(Waited::TimeOver);
            }
            state = self.changed.wait_timeout(state, left.min(STOP_POLL)).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether another process with this number is present.
    fn arrive(&mut self, subscriber: u32, process: Option<Partner>, expected: u32) -> bool {
        let earlier = self.present.insert(subscriber, process).flatten();
        self.complete |= self.present.len() == expected as usize;
        earlier.is_some() && process.is_some() && earlier != process
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ProcessNumber;

    const SOON: Duration = Duration::from_secs(20);

    fn board(expected: u32) -> AnnouncementBoard {
        AnnouncementBoard::new(expected, Arc::default())
    }

    fn announce(board: &AnnouncementBoard, sentinel: Sentinel, subscriber: u32, counter: u64) {
        board.on_announcement(&sentinel.sample(subscriber, 0, counter));
    }

    fn arrive(board: &AnnouncementBoard, process: ProcessNumber, subscriber: u32) {
        board.on_announcement(&process.introduce(subscriber));
    }

    #[test]
    fn wait_ends_after_every_distinct_subscriber() {
        let board = board(2);
        announce(&board, Sentinel::Initialize, 1, 5);
        announce(&board, Sentinel::Initialize, 1, 5);
        assert_eq!(board.wait_for_all(Duration::ZERO), Ok(Waited::TimeOver));
        announce(&board, Sentinel::Initialize, 0, 6);
        assert_eq!(board.wait_for_all(SOON), Ok(Waited::Done));
    }

    #[test]
    fn number_used_twice_is_named() {
        let board = board(2);
        let process = ProcessNumber::of_this_process();
        arrive(&board, process, 0);
        arrive(&board, process, 0);
        assert_eq!(board.wait_for_all(Duration::ZERO), Ok(Waited::TimeOver));
        arrive(&board, ProcessNumber::of_this_process(), 0);
        assert!(matches!(board.wait_for_all(SOON), Err(Error::Partner(text)) if text.contains("as number 0")));
    }

    #[test]
    fn subscriber_can_rejoin_before_the_start() {
        let board = board(2);
        announce(&board, Sentinel::Initialize, 0, 5);
        announce(&board, Sentinel::Finished, 0, 0);
        announce(&board, Sentinel::Initialize, 0, 6);
        announce(&board, Sentinel::Initialize, 1, 7);
        assert_eq!(board.wait_for_all(SOON), Ok(Waited::Done));
    }

    #[test]
    fn number_used_by_two_participants_is_named() {
        let board = board(2);
        let arrive = |origin| {
            board.on_announcement(&Sample { origin, ..Sentinel::Initialize.sample(0, 0, 5) });
            board.wait_for_all(Duration::ZERO)
        };
        assert_eq!(arrive([1; 12]), Ok(Waited::TimeOver));
        assert_eq!(arrive([1; 12]), Ok(Waited::TimeOver));
        assert!(matches!(arrive([2; 12]), Err(Error::Partner(text)) if text.contains("as number 0")));
    }

    #[test]
    fn subscribers_without_a_process_number_are_accepted() {
        let board = board(1);
        announce(&board, Sentinel::Initialize, 0, 5);
        announce(&board, Sentinel::Initialize, 0, 6);
        assert_eq!(board.wait_for_all(SOON), Ok(Waited::Done));
    }

    #[test]
    fn subscriber_after_the_end_is_not_waited_for() {
        let stop = Arc::<Stop>::default();
        let board = AnnouncementBoard::new(1, Arc::clone(&stop));
        arrive(&board, ProcessNumber::of_this_process(), 0);
        board.expect_departures();
        arrive(&board, ProcessNumber::of_this_process(), 0);
        assert_eq!((stop.reason(), board.fault()), (None, None));
        announce(&board, Sentinel::Finished, 0, 0);
        arrive(&board, ProcessNumber::of_this_process(), 0);
        assert!(board.wait_until_all_have_left(Duration::ZERO));
    }

    #[test]
    fn extra_subscriber_ends_the_run() {
        let stop = Arc::<Stop>::default();
        let board = AnnouncementBoard::new(1, Arc::clone(&stop));
        arrive(&board, ProcessNumber::of_this_process(), 0);
        assert_eq!((stop.reason(), board.fault()), (None, None));
        arrive(&board, ProcessNumber::of_this_process(), 0);
        assert_eq!(stop.reason(), Some(StopReason::Conflict));
        assert!(board.fault().unwrap().contains("-sidMultiSubTest"));
    }

    #[test]
    fn number_out_of_range_is_named() {
        let board = board(1);
        announce(&board, Sentinel::Initialize, 1, 5);
        assert!(matches!(board.wait_for_all(SOON), Err(Error::Partner(text)) if text.contains("Subscriber 1")));
    }

    #[test]
    fn round_counts_only_its_own_confirmations() {
        let board = board(1);
        announce(&board, Sentinel::Initialize, 0, 5);
        announce(&board, Sentinel::LengthChanged, 0, ControlCounter { round: 1, attempt: 7 }.to_timestamp());
        assert_eq!(board.wait_for_confirmation(1, SOON), Ok(Waited::Done));
        assert_eq!(board.wait_for_confirmation(2, Duration::ZERO), Ok(Waited::TimeOver));
    }

    #[test]
    fn departure_after_the_end_is_expected() {
        let stop = Arc::<Stop>::default();
        let board = AnnouncementBoard::new(1, Arc::clone(&stop));
        announce(&board, Sentinel::Initialize, 0, 5);
        board.expect_departures();
        announce(&board, Sentinel::Finished, 0, 0);
        assert!(board.wait_until_all_have_left(Duration::ZERO));
        assert_eq!(stop.reason(), None);
    }

    #[test]
    fn last_departure_ends_the_run() {
        let stop = Arc::<Stop>::default();
        let board = AnnouncementBoard::new(2, Arc::clone(&stop));
        announce(&board, Sentinel::Initialize, 0, 5);
        announce(&board, Sentinel::Initialize, 1, 6);
        announce(&board, Sentinel::Finished, 0, 0);
        assert_eq!((stop.reason(), board.present()), (None, BTreeSet::from([1])));
        assert!(!board.wait_until_all_have_left(Duration::ZERO));
        announce(&board, Sentinel::Finished, 1, 0);
        assert_eq!(stop.reason(), Some(StopReason::PartnersLeft));
        assert!(board.wait_until_all_have_left(Duration::ZERO));
    }
}

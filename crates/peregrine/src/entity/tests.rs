//! Calls of a participant by several threads at a time.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use peregrine_xtypes::facade::DdsType;

use super::{DomainParticipant, PublisherListener, SubscriberListener, TopicListener};
use crate::qos::UserData;
use crate::status::StatusMask;
use crate::{DomainConfig, InterfaceSelection};

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Count {
    number: u32,
}

struct Silent;
impl TopicListener for Silent {}
impl PublisherListener for Silent {}
impl SubscriberListener for Silent {}

fn participant(domain: u32, is_enabled: bool) -> DomainParticipant {
    let interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    let config = DomainConfig { interfaces, ..DomainConfig::default() };
    DomainParticipant::builder(domain).config(config).enabled(is_enabled).build().unwrap()
}

/// Has another thread `act`, which needs a lock that the calling thread holds with `guard`, and asserts that the other
/// thread holds `state` while it waits.
fn assert_held_during<S: Send, G>(state: &Mutex<S>, guard: G, act: impl FnOnce() + Send) {
    thread::scope(|scope| {
        // Dropped at a failed assertion, too, so that the other thread ends.
        let guard = guard;
        scope.spawn(act);
        let end = Instant::now() + PATIENCE;
        let mut held = 0;
        // A call that holds the lock for a moment does not hold it at so many looks in a row.
        while held < 10_000 {
            assert!(Instant::now() < end, "the other thread does not hold the lock while it waits");
            held = if state.try_lock().is_ok() { 0 } else { held + 1 };
            thread::yield_now();
        }
        drop(guard);
    });
}

#[test]
fn the_later_of_two_changes_of_policies_is_announced_later() {
    let participant = participant(62, true);
    let mut qos = participant.qos();
    qos.user_data = UserData(vec![1]);
    let inner = &participant.inner;
    assert_held_during(&inner.state, inner.core.lock(), || participant.set_qos(qos.clone()).unwrap());
    assert_eq!((inner.core.lock().rtps.config().qos.clone(), participant.qos()), (qos.clone(), qos));
}

#[test]
fn policies_that_change_while_the_participant_is_enabled_are_announced_later() {
    let participant = participant(63, false);
    let inner = &participant.inner;
    assert_held_during(&inner.state, inner.core.lock(), || participant.enable().unwrap());
    assert_eq!(inner.core.lock().rtps.config().qos, participant.qos());
}

#[test]
fn the_later_of_two_exchanges_of_the_listener_reaches_the_topic_later() {
    let participant = participant(64, true);
    let topic = participant.topic::<Count>("counts").unwrap();
    let exchange = || participant.set_listener(Some(Arc::new(Silent)), StatusMask::INCONSISTENT_TOPIC);
    assert_held_during(&participant.inner.state, topic.core.lock(), exchange);
    assert!(topic.core.lock().upper.is_some());
}

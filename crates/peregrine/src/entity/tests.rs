//! Calls of one participant by several threads at a time.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
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

/// Runs `act` on another thread. `act` needs a lock that the calling thread holds with `guard`. Asserts that the other
/// thread holds `state` while it waits for that lock.
fn assert_held_during<S: Send, G>(state: &Mutex<S>, guard: G, act: impl FnOnce() + Send) {
    let (sender, other) = mpsc::sync_channel(1);
    thread::scope(|scope| {
        // Dropped on a failed assertion as well, so that the other thread ends.
        let guard = guard;
        scope.spawn(move || {
            sender.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            act();
        });
        let other = other.recv_timeout(PATIENCE).unwrap();
        let end = Instant::now() + PATIENCE;
        // A thread that sleeps for the lock of this thread goes on holding what it holds.
        while !(state.try_lock().is_err() && is_asleep(&other) && state.try_lock().is_err()) {
            assert!(Instant::now() < end, "the other thread does not hold the lock while it waits");
            thread::yield_now();
        }
        drop(guard);
    });
}

/// Whether this thread of the process, named as by `/proc/thread-self`, waits.
fn is_asleep(thread: &Path) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(thread).join("stat")).unwrap_or_default();
    // The name before the state may contain spaces.
    stat.rsplit_once(") ").is_some_and(|(_, after)| after.starts_with('S'))
}

#[test]
fn concurrent_policy_changes_are_announced_in_order() {
    let participant = participant(62, true);
    let mut qos = participant.qos();
    qos.user_data = UserData(vec![1]);
    let inner = &participant.inner;
    assert_held_during(&inner.state, inner.core.lock(), || participant.set_qos(qos.clone()).unwrap());
    assert_eq!((inner.core.lock().rtps.config().qos.clone(), participant.qos()), (qos.clone(), qos));
}

#[test]
fn policy_change_during_enable_is_announced_after_enabling() {
    let participant = participant(63, false);
    let inner = &participant.inner;
    assert_held_during(&inner.state, inner.core.lock(), || participant.enable().unwrap());
    assert_eq!(inner.core.lock().rtps.config().qos, participant.qos());
}

#[test]
fn concurrent_listener_changes_reach_the_topic_in_order() {
    let participant = participant(64, true);
    let topic = participant.topic::<Count>("counts").unwrap();
    let exchange = || participant.set_listener(Some(Arc::new(Silent)), StatusMask::INCONSISTENT_TOPIC);
    assert_held_during(&participant.inner.state, topic.core.lock(), exchange);
    assert!(topic.core.lock().upper.is_some());
}

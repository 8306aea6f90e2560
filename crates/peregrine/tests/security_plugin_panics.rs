//! Plug-ins of applications that panic, or call an entity.

mod realm;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use peregrine::security::ProtectionKind;
use peregrine::security::plugins::access_control::{Denial, EndpointSecurity, Rights};
use peregrine::{DomainParticipant, Error, user_code_panics};
use realm::hooked_access::{Hooks, hooked};
use realm::{Block, Levels, PATIENCE, Realm, exchange, participant, reader, writer};

const LEVELS: Levels = Levels {
    messages: ProtectionKind::None,
    discovery: ProtectionKind::None,
    submessages: ProtectionKind::None,
    payloads: ProtectionKind::Encrypt,
};

/// Misbehaves for some topics.
#[derive(Debug, Default)]
struct State {
    /// Calls that have panicked.
    calls: AtomicU32,
    participant: Mutex<Option<DomainParticipant>>,
}

impl State {
    fn misbehave(&self, topic: &str) {
        if topic == "open/panics" {
            self.calls.fetch_add(1, Ordering::SeqCst);
            panic!("on purpose");
        }
        if topic == "open/calls"
            && let Some(participant) = &*self.participant.lock().unwrap_or_else(PoisonError::into_inner)
        {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let _ = participant.topic::<Block>("open/other");
        }
    }
}

impl Hooks for State {
    fn on_endpoint(&self, _: &Rights, topic: &str) -> Option<Result<EndpointSecurity, Denial>> {
        if topic == "open/local" {
            self.misbehave("open/panics");
        }
        None
    }

    fn on_remote_endpoint(&self, topic: &str) {
        self.misbehave(topic);
    }
}

/// Two participants, of which the second has the faulty plug-in.
fn sides(domain: u32) -> (DomainParticipant, DomainParticipant, Arc<State>) {
    let (realm, state) = (Realm::new(LEVELS), Arc::<State>::default());
    let plugins = hooked(Arc::clone(&state));
    let a = participant(domain, realm.member("A", 2));
    let b = participant(domain, realm.member("B", 3).plugins(plugins));
    (a, b, state)
}

/// Matches further endpoints until the plug-in has misbehaved: discovery continues.
fn await_calls(a: &DomainParticipant, b: &DomainParticipant, state: &State) {
    let end = Instant::now() + PATIENCE;
    while state.calls.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < end, "the plug-in is not asked");
        exchange(&writer(a, "open/more"), &reader(b, "open/more"));
    }
}

/// The panicking call comes from the thread that leads discovery, under the lock of the participant.
#[test]
fn remote_endpoint_is_denied_by_a_plugin_that_panics_and_discovery_continues() {
    let (a, b, state) = sides(93);
    let before = user_code_panics();
    let (_to_panic, panics) = (writer(&a, "open/panics"), reader(&b, "open/panics"));
    let (good, good_reader) = (writer(&a, "open/good"), reader(&b, "open/good"));
    exchange(&good, &good_reader);
    await_calls(&a, &b, &state);
    assert!(user_code_panics() > before);
    exchange(&writer(&a, "open/late"), &reader(&b, "open/late"));
    assert!(panics.matched_publications().is_empty());
}

/// The panicking call comes from the thread of the application.
#[test]
fn local_endpoint_is_denied_by_a_plugin_that_panics() {
    let (_, b, state) = sides(94);
    let denied = b.topic::<Block>("open/local").and_then(|topic| topic.reader()).map(drop);
    let denial = denied.unwrap_err();
    assert!(matches!(denial, Error::Security(_)), "{denial:?}");
    assert!(denial.to_string().contains("the access control of the application has panicked"), "{denial}");
    assert!(state.calls.load(Ordering::SeqCst) > 0);
    let _still_works = reader(&b, "open/good");
}

/// The call would wait for the lock of its own participant. Builds without debug assertions do not notice.
#[cfg(debug_assertions)]
#[test]
fn plugin_that_calls_an_entity_panics_instead_of_a_deadlock() {
    let (a, b, state) = sides(95);
    *state.participant.lock().unwrap() = Some(b.clone());
    let (_calls, calls_reader) = (writer(&a, "open/calls"), reader(&b, "open/calls"));
    let (good, good_reader) = (writer(&a, "open/good"), reader(&b, "open/good"));
    exchange(&good, &good_reader);
    await_calls(&a, &b, &state);
    exchange(&writer(&a, "open/late"), &reader(&b, "open/late"));
    assert!(calls_reader.matched_publications().is_empty());
    let last = state.participant.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(last);
}

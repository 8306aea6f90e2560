//! A topic in the driver: the state that all its endpoints in a participant share.

use std::any::Any;
use std::sync::{Arc, Mutex, Weak};

use peregrine_rtps::qos::TopicQos;
use peregrine_rtps::time::Instant;

use super::waiting::{StatusState, Waitable};
use super::wakers::{HasWakers, StateGuard, Wakers};
use crate::driver::base::parker::Parker;
use crate::driver::base::sync::lock;
use crate::driver::host::listener_gate::{AfterRun, ListenerGate};
use crate::driver::host::listener_queue::RunListener;
use crate::driver::host::{Host, Hosted};
use crate::status::{InconsistentTopicStatus, StatusMask};

/// Calls of a topic to its listener, under no lock.
pub(crate) trait TopicHook: Any + Send + Sync {
    /// INCONSISTENT_TOPIC has changed.
    fn inconsistent(&self, topic: &str, status: InconsistentTopicStatus);
}

/// A listener, and the statuses that it handles.
pub(crate) type Listening<L> = Option<(Arc<L>, StatusMask)>;

pub(crate) struct TopicState {
    pub(crate) qos: TopicQos,
    pub(crate) is_enabled: bool,
    pub(crate) inconsistent: InconsistentTopicStatus,
    pub(crate) changed: StatusMask,
    /// The topic's own listener.
    pub(crate) own: Listening<dyn TopicHook>,
    /// The listener of the participant.
    pub(crate) upper: Listening<dyn TopicHook>,
    wakers: Wakers,
}

/// One topic of a participant.
pub(crate) struct TopicCore {
    pub(crate) name: Arc<str>,
    pub(crate) type_name: Arc<str>,
    host: Arc<dyn Host>,
    pub(crate) gate: ListenerGate,
    state: Mutex<TopicState>,
    /// The shared state of its handles, as long as one of them exists.
    shared: Mutex<Weak<dyn Any + Send + Sync>>,
}

impl TopicCore {
    pub(crate) fn new(host: Arc<dyn Host>, name: String, type_name: Arc<str>, qos: TopicQos, is_enabled: bool) -> Self {
        let state = TopicState {
            qos,
            is_enabled,
            inconsistent: InconsistentTopicStatus::default(),
            changed: StatusMask::NONE,
            own: None,
            upper: None,
            wakers: Wakers::default(),
        };
        Self {
            name: name.into(),
            type_name,
            host,
            gate: ListenerGate::default(),
            state: Mutex::new(state),
            shared: Mutex::new(Weak::<()>::new()),
        }
    }

    pub(crate) fn lock(&self) -> StateGuard<'_, TopicState> {
        StateGuard::lock(&self.state)
    }

    /// The shared state of the handles: that of an existing handle, otherwise the result of `make`.
    pub(crate) fn shared<S: Any + Send + Sync>(&self, make: impl FnOnce() -> Arc<S>) -> Arc<S> {
        let mut kept = lock(&self.shared);
        if let Some(known) = kept.upgrade().and_then(|shared| shared.downcast().ok()) {
            return known;
        }
        let made = make();
        *kept = Arc::downgrade(&(Arc::clone(&made) as Arc<dyn Any + Send + Sync>));
        made
    }

    /// An endpoint of a topic of this name with another type was found.
    pub(crate) fn note_inconsistent(&self) {
        let mut state = self.lock();
        state.inconsistent.count();
        state.changed |= StatusMask::INCONSISTENT_TOPIC;
    }

    /// Runs the listener and wakes waiting threads. The caller must hold no lock.
    pub(crate) fn after(self: &Arc<Self>) {
        let mut state = self.lock();
        let news = state.changed.take_unreported();
        if news.is_empty() {
            return;
        }
        state.wakers.wake(news);
        drop(state);
        if self.gate.add(news) {
            self.host.run_or_queue(self);
        }
    }
}

impl RunListener for TopicCore {
    fn gate(&self) -> &ListenerGate {
        &self.gate
    }

    fn run_listener(&self) -> AfterRun {
        self.gate.run(|news| {
            let mut state = self.lock();
            let listens = |l: &Listening<dyn TopicHook>| {
                l.as_ref().filter(|(_, mask)| mask.intersects(news)).map(|(listener, _)| Arc::clone(listener))
            };
            let Some(listener) = listens(&state.own).or_else(|| listens(&state.upper)) else { return };
            state.changed.remove(news);
            let status = state.inconsistent.read();
            drop(state);
            listener.inconsistent(&self.name, status);
        })
    }
}

impl HasWakers for TopicState {
    #[inline]
    fn wakers(&mut self) -> &mut Wakers {
        &mut self.wakers
    }
}

impl Hosted for TopicCore {
    fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }
}

impl Waitable for TopicCore {
    type State = TopicState;

    fn park(&self, parker: &Arc<Parker>, end: Instant) {
        self.host.park(parker, end);
    }

    fn state(&self) -> StateGuard<'_, TopicState> {
        self.lock()
    }
}

impl StatusState for TopicState {
    fn changed(&self) -> StatusMask {
        self.changed
    }
}

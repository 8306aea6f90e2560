//! A topic as the driver holds it: what is common to all its endpoints in a participant.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use peregrine_rtps::qos::TopicQos;

use super::Watched;
use super::domain::Domain;
use super::wakers::Wakers;
use crate::condition::{StatusCondition, StatusConditionInner as ConditionInner, StatusState};
use crate::listener::TopicListener;
use crate::status::{InconsistentTopicStatus, StatusMask};

/// A listener, and the statuses it is told of.
pub(crate) type Listening<L> = Option<(Arc<L>, StatusMask)>;

pub(crate) struct TopicState {
    pub(crate) qos: TopicQos,
    pub(crate) is_enabled: bool,
    pub(crate) inconsistent: InconsistentTopicStatus,
    pub(crate) changed: StatusMask,
    /// The topic's own listener.
    pub(crate) own: Listening<dyn TopicListener>,
    /// That of the participant.
    pub(crate) upper: Listening<dyn TopicListener>,
    wakers: Wakers,
}

/// One topic of a participant.
pub(crate) struct TopicCore {
    pub(crate) name: String,
    pub(crate) type_name: &'static str,
    domain: Arc<Domain>,
    state: Mutex<TopicState>,
    condition: Mutex<Weak<ConditionInner>>,
}

impl TopicCore {
    pub(crate) fn new(
        domain: Arc<Domain>,
        name: String,
        type_name: &'static str,
        qos: TopicQos,
        is_enabled: bool,
    ) -> Self {
        let state = TopicState {
            qos,
            is_enabled,
            inconsistent: InconsistentTopicStatus::default(),
            changed: StatusMask::NONE,
            own: None,
            upper: None,
            wakers: Wakers::default(),
        };
        Self { name, type_name, domain, state: Mutex::new(state), condition: Mutex::new(Weak::new()) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TopicState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one condition on its statuses.
    pub(crate) fn condition(self: &Arc<Self>) -> StatusCondition {
        let mut kept = self.condition.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = kept.upgrade() {
            return StatusCondition::from_inner(inner);
        }
        let condition = StatusCondition::new(Arc::clone(self) as Arc<_>);
        *kept = Arc::downgrade(condition.as_inner());
        condition
    }

    /// An endpoint of a topic of this name with another type was found.
    pub(crate) fn note_inconsistent(&self) {
        let mut state = self.lock();
        state.inconsistent.count();
        state.changed |= StatusMask::INCONSISTENT_TOPIC;
    }

    /// Tells whom it concerns. To be called without any lock.
    pub(crate) fn after(self: &Arc<Self>) {
        let mut state = self.lock();
        let news = state.changed.take_untold();
        if news.is_empty() {
            return;
        }
        state.wakers.wake(news);
        drop(state);
        if self.domain.must_tell_later() {
            let core = Arc::clone(self);
            self.domain.tell_later(move || core.tell(news));
        } else {
            self.tell(news);
        }
    }

    /// Runs the listener. To be called without any lock.
    fn tell(&self, news: StatusMask) {
        let mut state = self.lock();
        let listens = |l: &Listening<dyn TopicListener>| {
            l.as_ref().filter(|(_, mask)| mask.intersects(news)).map(|(listener, _)| Arc::clone(listener))
        };
        let Some(listener) = listens(&state.own).or_else(|| listens(&state.upper)) else { return };
        state.changed.remove(news);
        let status = state.inconsistent.read();
        drop(state);
        listener.on_inconsistent_topic(&self.name, status);
    }
}

impl Watched for TopicCore {
    type State = TopicState;

    fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    fn state(&self) -> MutexGuard<'_, TopicState> {
        self.lock()
    }

    fn wakers(state: &mut TopicState) -> &mut Wakers {
        &mut state.wakers
    }
}

impl StatusState for TopicState {
    fn changed(&self) -> StatusMask {
        self.changed
    }
}

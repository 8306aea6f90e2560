//! Topics (DDS 1.4 §2.2.2.3).

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use peregrine_rtps::discovery::data::NAME_BYTES_MAX;
use peregrine_rtps::qos::TopicQos;

use crate::condition::StatusCondition;
use crate::driver::base::user_code::run_user_code;
use crate::driver::endpoint::topic::{TopicCore, TopicHook};
use crate::entity::{DomainParticipant, Entity, TopicListener};
use crate::error::{Argument, BadParameter, Error, Precondition};
use crate::qos;
use crate::status::{InconsistentTopicStatus, StatusMask};
use crate::topic_type::{SerializedType, TopicType};

/// A name for values of type `T`. A participant has at most one topic of each name; all handles refer to it.
pub struct Topic<T> {
    pub(crate) core: Arc<TopicCore>,
    /// The run-time description of the type.
    pub(crate) data_type: SerializedType,
    participant: DomainParticipant,
    condition: StatusCondition,
    marker: PhantomData<fn() -> T>,
}

impl<T: TopicType> Topic<T> {
    pub(crate) fn new(
        participant: &DomainParticipant,
        name: &str,
        data_type: SerializedType,
        qos: Option<TopicQos>,
    ) -> Result<Self, Error> {
        if name.is_empty() {
            return Err(BadParameter::EmptyTopicName.into());
        }
        if name.len() > NAME_BYTES_MAX {
            let argument = Argument::TopicName;
            return Err(BadParameter::TooLong { argument, len: name.len(), max: NAME_BYTES_MAX }.into());
        }
        if let Some(qos) = &qos {
            qos::check_topic(qos)?;
        }
        let default = participant.default_topic_qos();
        let core =
            participant.inner.core.topic(name, data_type.shared_name(), qos, default, participant.autoenables())?;
        participant.refresh_topic(&core);
        let condition = StatusCondition::of_topic(&core);
        let (name, of) = (Arc::clone(&core.name), Arc::downgrade(&participant.inner));
        condition.set_entity(move || {
            let participant = DomainParticipant { inner: of.upgrade()? };
            Some(Entity::Topic { participant, name: Arc::clone(&name) })
        });
        Ok(Self { core, data_type, participant: participant.clone(), condition, marker: PhantomData })
    }

    /// The name of the topic.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The name of the type of the topic.
    #[must_use]
    pub fn type_name(&self) -> &str {
        self.data_type.name()
    }

    /// Whether the type of the topic has a key.
    #[must_use]
    #[inline]
    pub fn has_key(&self) -> bool {
        T::KEYED.unwrap_or_else(|| self.data_type.has_key())
    }

    /// The participant of the topic.
    #[must_use]
    pub const fn participant(&self) -> &DomainParticipant {
        &self.participant
    }

    /// The policies of the topic. Writers and readers use them only if their builders call `copy_from_topic_qos`.
    #[must_use]
    pub fn qos(&self) -> TopicQos {
        self.core.lock().qos.clone()
    }

    /// Changes policies. New TOPIC_DATA is announced with all endpoints of the topic.
    ///
    /// # Errors
    /// [`Error::ImmutablePolicy`] names a policy that cannot change once the topic is enabled;
    /// [`Error::InconsistentPolicy`] and [`Error::Unsupported`] for policies that contradict each other or are not
    /// available; [`Error::AlreadyDeleted`] after the participant was closed.
    pub fn set_qos(&self, qos: TopicQos) -> Result<(), Error> {
        qos::check_topic(&qos)?;
        self.participant.check_open()?;
        let mut state = self.core.lock();
        if let Some(policy) = state.qos.immutable_change(&qos).filter(|_| state.is_enabled) {
            return Err(Error::ImmutablePolicy(policy));
        }
        let has_news = state.qos.topic_data != qos.topic_data;
        state.qos = qos;
        drop(state);
        if has_news {
            self.participant.announce_endpoints_of(&self.core);
        }
        Ok(())
    }

    /// Enables the topic: from now on only the changeable policies may change (DDS 1.4 §2.2.2.1.1.7). A topic is
    /// created enabled unless the ENTITY_FACTORY policy of its participant disables that. Writers and readers work with
    /// a topic that is not enabled.
    ///
    /// # Errors
    /// [`Precondition::ParticipantNotEnabled`]; [`Error::AlreadyDeleted`] after its participant was closed.
    pub fn enable(&self) -> Result<(), Error> {
        self.participant.check_open()?;
        if !self.participant.is_enabled() {
            return Err(Precondition::ParticipantNotEnabled.into());
        }
        self.core.lock().is_enabled = true;
        Ok(())
    }

    /// Whether the topic is enabled.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.core.lock().is_enabled
    }

    /// INCONSISTENT_TOPIC.
    #[must_use]
    pub fn inconsistent_topic_status(&self) -> InconsistentTopicStatus {
        let mut state = self.core.lock();
        state.changed.remove(StatusMask::INCONSISTENT_TOPIC);
        state.inconsistent.read()
    }

    /// The statuses that have changed since they were last read.
    #[must_use]
    pub fn status_changes(&self) -> StatusMask {
        self.core.lock().changed
    }

    /// The condition on the statuses of the topic.
    #[must_use]
    pub const fn status_condition(&self) -> &StatusCondition {
        &self.condition
    }

    /// The listener of the topic and the statuses that the listener handles; `None` without one.
    #[must_use]
    pub fn listener(&self) -> Option<(Arc<dyn TopicListener>, StatusMask)> {
        let (hook, mask) = self.core.lock().own.clone()?;
        let told = (hook as Arc<dyn Any + Send + Sync>).downcast::<TopicListenerHook>().ok()?;
        Some((Arc::clone(&told.0), mask))
    }

    /// The number of calls of the listeners of the topic that have panicked. The listener remains set; each panic is
    /// logged.
    #[must_use]
    pub fn listener_panics(&self) -> u64 {
        self.core.gate.panics()
    }

    /// Replaces the listener of the topic and its statuses. `None` removes the listener.
    ///
    /// Blocks until a running call of the previous listener has returned, unless the caller is itself a listener. The
    /// caller must not hold a lock that the previous listener takes. The previous listener is not called afterwards.
    pub fn set_listener(&self, listener: Option<Arc<dyn TopicListener>>, mask: StatusMask) {
        let listener = listener.map(|listener| (TopicListenerHook::hook(listener), mask));
        let gone = std::mem::replace(&mut self.core.lock().own, listener);
        // The old listener may own entities: it is dropped without the lock.
        run_user_code(|| drop(gone));
        self.core.gate.wait_until_idle();
    }
}

impl<T: TopicType> From<&Topic<T>> for Entity {
    fn from(topic: &Topic<T>) -> Self {
        Self::Topic { participant: topic.participant.clone(), name: Arc::clone(&topic.core.name) }
    }
}

/// Forwards the status changes of a topic to its listener.
pub(crate) struct TopicListenerHook(Arc<dyn TopicListener>);

impl TopicListenerHook {
    pub(crate) fn hook(listener: Arc<dyn TopicListener>) -> Arc<dyn TopicHook> {
        Arc::new(Self(listener))
    }
}

impl TopicHook for TopicListenerHook {
    fn inconsistent(&self, topic: &str, status: InconsistentTopicStatus) {
        self.0.on_inconsistent_topic(topic, status);
    }
}

impl<T> Clone for Topic<T> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            data_type: self.data_type.clone(),
            participant: self.participant.clone(),
            condition: self.condition.clone(),
            marker: PhantomData,
        }
    }
}

impl<T> std::fmt::Debug for Topic<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topic").field("name", &self.core.name).finish_non_exhaustive()
    }
}

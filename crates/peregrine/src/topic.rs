//! Topics (DDS 1.4 §2.2.2.3).

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use peregrine_rtps::discovery::data::NAME_OCTETS_MAX;
use peregrine_rtps::qos::TopicQos;

use crate::condition::StatusCondition;
use crate::driver::base::user_code::run_user_code;
use crate::driver::endpoint::topic::{TopicCore, TopicHook};
use crate::entity::{DomainParticipant, Entity, TopicListener};
use crate::error::{BadParameter, Error, Precondition};
use crate::qos;
use crate::status::{InconsistentTopicStatus, StatusMask};
use crate::topic_type::{SerializedType, TopicType};

/// A name for values of type `T`. Topics of the same name of one participant are the same topic.
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
        if name.len() > NAME_OCTETS_MAX {
            let argument = "the name of the topic, in bytes,";
            return Err(BadParameter::TooLong { argument, len: name.len(), max: NAME_OCTETS_MAX }.into());
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

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The name of its type.
    #[must_use]
    pub fn type_name(&self) -> &str {
        self.data_type.name()
    }

    /// Whether its type has a key.
    #[must_use]
    #[inline]
    pub fn has_key(&self) -> bool {
        T::KEYED.unwrap_or_else(|| self.data_type.has_key())
    }

    /// Its participant.
    #[must_use]
    pub const fn participant(&self) -> &DomainParticipant {
        &self.participant
    }

    /// Its policies. Writers and readers take them over only where asked to (`copy_from_topic_qos`).
    #[must_use]
    pub fn qos(&self) -> TopicQos {
        self.core.lock().qos.clone()
    }

    /// Changes policies. New TOPIC_DATA is announced with all endpoints of the topic.
    ///
    /// # Errors
    /// [`Error::ImmutablePolicy`] names a policy that cannot change once the topic is enabled; others contradict each
    /// other or are not available; [`Error::AlreadyDeleted`] after its participant was closed.
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

    /// From now on only the policies that the standard calls changeable may change (DDS 1.4 §2.2.2.1.1.7). A topic is
    /// enabled from the start unless its participant's ENTITY_FACTORY says otherwise. Its writers and readers do not
    /// depend on it.
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

    /// Whether it is enabled.
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

    /// The condition on its statuses.
    #[must_use]
    pub const fn status_condition(&self) -> &StatusCondition {
        &self.condition
    }

    /// The listener of the topic and the statuses that the listener handles; `None` without one.
    #[must_use]
    pub fn listener(&self) -> Option<(Arc<dyn TopicListener>, StatusMask)> {
        let (hook, mask) = self.core.lock().own.clone()?;
        let told = (hook as Arc<dyn Any + Send + Sync>).downcast::<Told>().ok()?;
        Some((Arc::clone(&told.0), mask))
    }

    /// Replaces the listener of the topic and its statuses. `None` removes the listener.
    ///
    /// When this returns, the listener before is not running any more and is not called again; so the caller must not
    /// hold a lock that it waits for. In a listener this does not wait.
    pub fn set_listener(&self, listener: Option<Arc<dyn TopicListener>>, mask: StatusMask) {
        let listener = listener.map(|listener| (Told::hook(listener), mask));
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

/// Hands what a topic tells to a listener.
pub(crate) struct Told(Arc<dyn TopicListener>);

impl Told {
    pub(crate) fn hook(listener: Arc<dyn TopicListener>) -> Arc<dyn TopicHook> {
        Arc::new(Self(listener))
    }
}

impl TopicHook for Told {
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

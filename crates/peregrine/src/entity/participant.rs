//! Participants (DDS 1.4 §2.2.2.2).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use peregrine_rtps::discovery::data::{NAME_OCTETS_MAX, ParticipantData, PublicationData, SubscriptionData};
use peregrine_rtps::id::{DomainId, EntityId, Guid, GuidPrefix};
use peregrine_rtps::participant::{Addresses, Participant, ParticipantConfig, ParticipantCounters, PeerDrops};
use peregrine_rtps::qos::{ParticipantQos, PublisherQos, SubscriberQos, TopicQos};
use peregrine_rtps::time::{Span, Timestamp};
use peregrine_rtps::vendor::VendorId;
use peregrine_transport::random;
use peregrine_transport::udp::Statistics;
use peregrine_xtypes::DdsType;

use super::{
    Defaults, DomainParticipant, DomainParticipantListener, Entity, ParticipantInner, ParticipantState, Publisher,
    PublisherInner, Subscriber, SubscriberInner, TopicListener,
};
use crate::condition::{NoStatuses, StatusCondition};
use crate::config::DomainConfig;
use crate::discovery::{DiscoveredTopic, DiscoveryEvents};
use crate::driver::clock::{now, wall};
use crate::driver::domain::DomainHandle;
use crate::driver::host::Host;
use crate::driver::participant::{Abandoned, ParticipantCore};
use crate::driver::sync::lock;
use crate::driver::topic::TopicCore;
use crate::driver::waiting::wait_until;
use crate::endpoint::flushed;
use crate::error::{BadParameter, Error, Timeout, Unsupported};
use crate::shared_memory::SharedMemoryStatistics;
use crate::state_machine::random_u64;
use crate::status::StatusMask;
use crate::topic::{Told, Topic};
use crate::topic_type::{Serialized, SerializedType};
use crate::{logging, qos};

/// How long a participant counts as present without news of it.
const LEASE_DEFAULT: Duration = Duration::from_secs(20);

/// Announcements per lease: two may be lost without harm.
const ANNOUNCEMENTS_PER_LEASE: u64 = 3;

/// The participants of this process.
static PARTICIPANTS: Mutex<Vec<Weak<ParticipantInner>>> = Mutex::new(Vec::new());

/// The policies of participants that are not given any; `None`: those of the standard.
static DEFAULT_QOS: Mutex<Option<ParticipantQos>> = Mutex::new(None);

/// Whether participants are enabled from the start.
static AUTOENABLES: AtomicBool = AtomicBool::new(true);

/// Creates a participant that is not all defaults.
#[derive(Clone, Debug)]
pub struct ParticipantBuilder {
    domain: DomainId,
    domain_tag: String,
    name: String,
    qos: Option<ParticipantQos>,
    config: DomainConfig,
    lease: Duration,
    is_enabled: Option<bool>,
}

impl DomainParticipant {
    /// A participant with default settings.
    ///
    /// # Errors
    /// The domain is not between 0 and 232, or the system refuses sockets or threads.
    pub fn new(domain: u32) -> Result<Self, Error> {
        Self::builder(domain).build()
    }

    /// A participant to be described further.
    #[must_use]
    pub fn builder(domain: u32) -> ParticipantBuilder {
        ParticipantBuilder {
            domain: DomainId(domain),
            domain_tag: String::new(),
            name: String::new(),
            qos: None,
            config: DomainConfig::default(),
            lease: LEASE_DEFAULT,
            is_enabled: None,
        }
    }

    /// Its GUID.
    #[must_use]
    pub fn guid(&self) -> Guid {
        Guid::new(self.inner.core.prefix, EntityId::PARTICIPANT)
    }

    /// Its domain.
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.inner.domain.id
    }

    /// Its policies.
    #[must_use]
    pub fn qos(&self) -> ParticipantQos {
        self.inner.lock().qos.clone()
    }

    /// Changes policies. New USER_DATA is announced at once.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for properties, which are fixed; [`Error::BadParameter`] for what is too long to be announced.
    pub fn set_qos(&self, qos: ParticipantQos) -> Result<(), Error> {
        qos::check_participant(&qos)?;
        let mut state = self.inner.lock();
        let is_enabled = self.is_enabled();
        if is_enabled && state.qos.properties != qos.properties {
            return Err(Unsupported::PropertyChange.into());
        }
        state.qos = qos.clone();
        drop(state);
        if !is_enabled {
            return Ok(());
        }
        let core = &self.inner.core;
        let mut locked = core.lock();
        locked.rtps.set_qos(now(), wall(), qos);
        core.finish(locked);
        Ok(())
    }

    /// Joins the domain, where [`ParticipantBuilder::enabled`] or the factory left that to the application (DDS 1.4 §2.2.2.1.1.7); then
    /// enables what is in the participant, unless ENTITY_FACTORY says otherwise. Does nothing if the participant is enabled.
    ///
    /// Before, the participant is silent and discovers nothing, every policy of it may change, and what is created in it is not enabled.
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`] after [`Self::close`]; those of [`Publisher::enable`] and [`Subscriber::enable`].
    pub fn enable(&self) -> Result<(), Error> {
        let inner = &*self.inner;
        if inner.core.is_closing() {
            return Err(Error::AlreadyDeleted);
        }
        let state = inner.lock();
        if inner.is_enabled.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let qos = state.qos.clone();
        drop(state);
        let autoenables = qos.entity_factory.autoenable_created_entities;
        inner.core.lock().rtps.set_qos(now(), wall(), qos);
        inner.join();
        if autoenables {
            inner.core.topics().iter().for_each(|topic| topic.lock().is_enabled = true);
            let (publishers, subscribers) = (inner.publishers(), inner.subscribers());
            publishers.into_iter().try_for_each(|inner| Publisher::from(inner).enable())?;
            subscribers.into_iter().try_for_each(|inner| Subscriber::from(inner).enable())?;
        }
        Ok(())
    }

    /// Whether the participant takes part in the domain.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.inner.is_enabled.load(Ordering::SeqCst)
    }

    /// A topic of this name with values of type `T`, with default policies unless it exists already.
    ///
    /// # Errors
    /// The name is empty or longer than 256 octets; [`Error::PreconditionNotMet`] when this participant has a topic of
    /// this name with another type.
    pub fn topic<T: DdsType>(&self, name: &str) -> Result<Topic<T>, Error> {
        Topic::new(self, name, SerializedType::of::<T>(), None)
    }

    /// The topic of this name, if this participant has one with values of type `T` (`lookup_topicdescription`).
    #[must_use]
    pub fn lookup_topic<T: DdsType>(&self, name: &str) -> Option<Topic<T>> {
        let exists = |topic: &Arc<TopicCore>| &*topic.name == name && &*topic.type_name == T::TYPE_NAME;
        let known = self.inner.core.topics().into_iter().find(exists)?;
        let topic = self.topic(name).ok();
        drop(known);
        topic
    }

    /// The topic of this name as soon as this participant has it, or another participant has an endpoint of it (DDS 1.4 §2.2.2.2.1.11).
    ///
    /// # Errors
    /// [`Timeout::NoTopic`]; see [`Self::topic`].
    pub fn find_topic<T: DdsType>(&self, name: &str, timeout: Duration) -> Result<Topic<T>, Error> {
        if let Some(topic) = self.lookup_topic(name) {
            return Ok(topic);
        }
        let found = wait_until(&*self.inner.core, timeout, StatusMask::ALL, |locked| {
            let (rtps, has) = (&locked.rtps, |found: &str, ty: &str| found == name && ty == T::TYPE_NAME);
            let is_written = rtps.remote_publications().any(|data| has(&data.topic_name, &data.type_name));
            let is_read = rtps.remote_subscriptions().any(|data| has(&data.topic_name, &data.type_name));
            (is_written || is_read).then_some(())
        });
        match found {
            Some(()) => self.topic(name),
            None => Err(Timeout::NoTopic { topic: name.into(), waited: timeout }.into()),
        }
    }

    /// The policies of topics that are created without any.
    #[must_use]
    pub fn default_topic_qos(&self) -> TopicQos {
        self.inner.lock().defaults.topic.clone()
    }

    /// Changes the policies of topics that are created without any from now on.
    ///
    /// # Errors
    /// See [`Self::topic_with_qos`].
    pub fn set_default_topic_qos(&self, qos: TopicQos) -> Result<(), Error> {
        qos::check_topic(&qos)?;
        self.inner.lock().defaults.topic = qos;
        Ok(())
    }

    /// The policies of the publishers that topics make for their writers.
    #[must_use]
    pub fn default_publisher_qos(&self) -> PublisherQos {
        self.inner.lock().defaults.publisher.clone()
    }

    /// Changes the policies of the publishers that topics make for their writers from now on.
    ///
    /// # Errors
    /// See [`Self::publisher`].
    pub fn set_default_publisher_qos(&self, qos: PublisherQos) -> Result<(), Error> {
        qos::check_publisher(&qos)?;
        self.inner.lock().defaults.publisher = qos;
        Ok(())
    }

    /// The policies of the subscribers that topics make for their readers.
    #[must_use]
    pub fn default_subscriber_qos(&self) -> SubscriberQos {
        self.inner.lock().defaults.subscriber.clone()
    }

    /// Changes the policies of the subscribers that topics make for their readers from now on.
    ///
    /// # Errors
    /// See [`Self::subscriber`].
    pub fn set_default_subscriber_qos(&self, qos: SubscriberQos) -> Result<(), Error> {
        qos::check_subscriber(&qos)?;
        self.inner.lock().defaults.subscriber = qos;
        Ok(())
    }

    /// A topic with these policies.
    ///
    /// # Errors
    /// See [`Self::topic`]; policies contradict each other or are not available yet; the topic exists with other
    /// policies.
    pub fn topic_with_qos<T: DdsType>(&self, name: &str, qos: TopicQos) -> Result<Topic<T>, Error> {
        Topic::new(self, name, SerializedType::of::<T>(), Some(qos))
    }

    /// A topic whose samples stay serialized, with default policies unless the topic exists already: for recorders, routers and bindings,
    /// which learn the type at run time. Its endpoints match typed endpoints with the same names, in any process.
    ///
    /// # Errors
    /// See [`Self::topic`]; [`Error::BadParameter`] for a name of a type that is empty or longer than 256 bytes.
    pub fn serialized_topic(&self, name: &str, data_type: SerializedType) -> Result<Topic<Serialized>, Error> {
        data_type.check()?;
        Topic::new(self, name, data_type, None)
    }

    /// A topic whose samples stay serialized, with these policies.
    ///
    /// # Errors
    /// See [`Self::serialized_topic`] and [`Self::topic_with_qos`].
    pub fn serialized_topic_with_qos(
        &self,
        name: &str,
        data_type: SerializedType,
        qos: TopicQos,
    ) -> Result<Topic<Serialized>, Error> {
        data_type.check()?;
        Topic::new(self, name, data_type, Some(qos))
    }

    /// A publisher with these policies.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a policy that is not available yet; [`Error::BadParameter`] for one that is too long to be announced.
    pub fn publisher(&self, qos: PublisherQos) -> Result<Publisher, Error> {
        qos::check_publisher(&qos)?;
        Ok(self.checked_publisher(qos))
    }

    /// A subscriber with these policies.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a policy that is not available yet; [`Error::BadParameter`] for one that is too long to be announced.
    pub fn subscriber(&self, qos: SubscriberQos) -> Result<Subscriber, Error> {
        qos::check_subscriber(&qos)?;
        Ok(self.checked_subscriber(qos))
    }

    pub(crate) fn checked_publisher(&self, qos: PublisherQos) -> Publisher {
        let is_enabled = self.autoenables();
        let mut state = self.inner.lock();
        let publisher = Publisher::new(self, qos, is_enabled);
        state.publishers.retain(|p| p.strong_count() > 0);
        state.publishers.push(Arc::downgrade(publisher.inner()));
        publisher
    }

    pub(crate) fn checked_subscriber(&self, qos: SubscriberQos) -> Subscriber {
        let is_enabled = self.autoenables();
        let mut state = self.inner.lock();
        let subscriber = Subscriber::new(self, qos, is_enabled);
        state.subscribers.retain(|s| s.strong_count() > 0);
        state.subscribers.push(Arc::downgrade(subscriber.inner()));
        subscriber
    }

    /// Deletes its writers and readers: from now on their calls fail with [`Error::AlreadyDeleted`].
    pub fn delete_contained_entities(&self) {
        self.inner.publishers().iter().for_each(|publisher| publisher.delete_contained());
        self.inner.subscribers().iter().for_each(|subscriber| subscriber.delete_contained());
    }

    /// Deletes everything in the participant, waits until the reliable readers of its writers have acknowledged their last samples, leaves
    /// the domain, and ends the threads of the domain if this is the last participant of this process with its configuration. Waits for
    /// writers that were dropped before, too. Afterwards calls of anything in the participant fail with [`Error::AlreadyDeleted`], and
    /// dropping the handles waits for nothing.
    ///
    /// Dropping the last handle without this call waits for [`DomainConfig::linger`] at most and reports nothing.
    ///
    /// Not to be called in a listener: the call waits for running listeners to return.
    ///
    /// # Errors
    /// [`Timeout::NotFlushed`]: `timeout` was over first. The participant has left all the same, and the error has the number of samples that
    /// readers may miss. [`Error::AlreadyDeleted`] if the participant was closed before.
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        let abandoned = self.inner.delete_all(timeout)?;
        self.inner.core.wait_until_gone(None, timeout);
        self.inner.leave();
        drop(self.inner.take_handle());
        flushed(abandoned, timeout)
    }

    /// The same as a future, for programs that must not block: a short-lived thread waits for the threads of the domain to end. When the future
    /// is dropped, everything in the participant has been deleted, and the participant leaves with its last handle.
    ///
    /// Under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), a thread of the application has to keep polling.
    ///
    /// # Errors
    /// See [`Self::close`]; [`Error::System`] if the system refuses the thread; the calling thread has waited then.
    pub async fn close_async(&self, timeout: Duration) -> Result<(), Error> {
        let abandoned = self.inner.delete_all(timeout)?;
        self.inner.core.until_gone(None).await;
        self.inner.leave();
        if let Some(handle) = self.inner.take_handle() {
            end_elsewhere(handle)?.await;
        }
        flushed(abandoned, timeout)
    }

    /// The statuses that have changed since they were last read: always none, for a participant has no statuses of its own.
    #[must_use]
    pub const fn status_changes(&self) -> StatusMask {
        StatusMask::NONE
    }

    /// The condition on its statuses, of which the standard gives it none.
    #[must_use]
    pub fn status_condition(&self) -> &StatusCondition {
        &self.inner.condition
    }

    /// Replaces the listener of the participant. The listener handles these statuses of all entities of the participant that no
    /// listener of theirs handles. `None` removes the listener.
    pub fn set_listener(&self, listener: Option<Arc<dyn DomainParticipantListener>>, mask: StatusMask) {
        let listener = listener.map(|listener| (listener, mask));
        let gone = std::mem::replace(&mut self.inner.lock().listener, listener);
        // The old listener may own entities: it is dropped without the lock.
        drop(gone);
        self.inner.publishers().iter().for_each(|publisher| publisher.refresh());
        self.inner.subscribers().iter().for_each(|subscriber| subscriber.refresh());
        self.inner.core.topics().iter().for_each(|topic| self.refresh_topic(topic));
    }

    /// The listener and the statuses that it is told of; `None` without one.
    #[must_use]
    pub fn listener(&self) -> Option<(Arc<dyn DomainParticipantListener>, StatusMask)> {
        self.inner.lock().listener.clone()
    }

    /// The participants known besides this one.
    #[must_use]
    pub fn discovered_participants(&self) -> Vec<ParticipantData> {
        self.inner.core.remote_participants()
    }

    /// The writers known of other participants (builtin topic DCPSPublication).
    #[must_use]
    pub fn discovered_publications(&self) -> Vec<PublicationData> {
        self.inner.core.lock().rtps.remote_publications().cloned().collect()
    }

    /// The readers known of other participants (builtin topic DCPSSubscription).
    #[must_use]
    pub fn discovered_subscriptions(&self) -> Vec<SubscriptionData> {
        self.inner.core.lock().rtps.remote_subscriptions().cloned().collect()
    }

    /// The topics that endpoints of other participants have, without those of ignored participants and endpoints.
    #[must_use]
    pub fn discovered_topics(&self) -> Vec<DiscoveredTopic> {
        let locked = self.inner.core.lock();
        let topic = |name: &str, type_name: &str, guid: Guid| DiscoveredTopic {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            has_key: guid.entity.has_key(),
        };
        let written = locked.rtps.remote_publications().map(|data| topic(&data.topic_name, &data.type_name, data.guid));
        let read = locked.rtps.remote_subscriptions().map(|data| topic(&data.topic_name, &data.type_name, data.guid));
        written.chain(read).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether this is the GUID of this participant, or of a writer or reader of it that takes part in communication.
    #[must_use]
    pub fn contains_entity(&self, guid: Guid) -> bool {
        let locked = self.inner.core.lock();
        let is_endpoint = locked.writers.contains_key(&guid.entity) || locked.readers.contains_key(&guid.entity);
        guid.prefix == self.inner.core.prefix && (guid.entity == EntityId::PARTICIPANT || is_endpoint)
    }

    /// The time by which samples are stamped.
    #[must_use]
    pub fn current_time(&self) -> Timestamp {
        wall()
    }

    /// What is found and lost in the domain from now on; what is known already comes first.
    #[must_use]
    pub fn discovery_events(&self) -> DiscoveryEvents {
        DiscoveryEvents::new(Arc::clone(&self.inner.core))
    }

    /// Never again hears of this participant or endpoint.
    pub fn ignore(&self, guid: Guid) {
        let mut locked = self.inner.core.lock();
        locked.rtps.ignore(now(), wall(), guid);
        self.inner.core.finish(locked);
    }

    /// Never again hears of writers and readers of other participants with a topic of this name, and forgets the known ones (DDS 1.4
    /// §2.2.2.2.1.15). There is no way back. Endpoints of this participant are not affected.
    pub fn ignore_topic(&self, topic: &str) {
        let mut locked = self.inner.core.lock();
        locked.rtps.ignore_topic(now(), wall(), topic);
        self.inner.core.finish(locked);
    }

    /// Asserts the liveliness of all writers with LIVELINESS MANUAL_BY_PARTICIPANT.
    pub fn assert_liveliness(&self) {
        self.inner.core.lock().rtps.assert_liveliness();
    }

    /// Under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll): receives, runs timers and listeners on this thread, until
    /// something has come or `timeout` is over. With a zero timeout it looks once and does not sleep. Otherwise it does
    /// nothing: other threads do all that.
    pub fn poll(&self, timeout: Duration) {
        self.inner.domain.poll(timeout);
    }

    /// Messages that this participant has dropped, counted by reason.
    #[must_use]
    pub fn counters(&self) -> ParticipantCounters {
        self.inner.core.lock().rtps.counters()
    }

    /// The same by the participant that it came from, each with its vendor; one entry for all that are not known, or not any
    /// more. Only those of which anything was dropped.
    ///
    /// What readers do not take of a matched writer is in their own counters, and in SAMPLE_LOST and SAMPLE_REJECTED.
    #[must_use]
    pub fn drops(&self) -> Vec<PeerDrops> {
        self.inner.core.lock().rtps.drops()
    }

    /// What the sockets of this domain have done so far, each with its address.
    #[must_use]
    pub fn transport_statistics(&self) -> Vec<(std::net::SocketAddr, Statistics)> {
        self.inner.domain.statistics()
    }

    /// What the participants of this process in this domain share with other processes of the host by shared memory.
    #[must_use]
    pub fn shared_memory_statistics(&self) -> SharedMemoryStatistics {
        self.inner.domain.shared_memory_statistics()
    }
}

impl ParticipantBuilder {
    /// Divides the domain: only participants with the same tag meet. The default is empty.
    #[must_use]
    pub fn domain_tag(mut self, tag: impl Into<String>) -> Self {
        self.domain_tag = tag.into();
        self
    }

    /// A name, for people. The default is empty.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Policies. The default is that of
    /// [`DomainParticipantFactory::set_default_participant_qos`](crate::DomainParticipantFactory::set_default_participant_qos).
    #[must_use]
    pub fn qos(mut self, qos: ParticipantQos) -> Self {
        self.qos = Some(qos);
        self
    }

    /// Transports, interfaces, peers, threads. The default is [`DomainConfig::default`].
    #[must_use]
    pub fn config(mut self, config: DomainConfig) -> Self {
        self.config = config;
        self
    }

    /// Whether the participant joins the domain at once, or when [`DomainParticipant::enable`] is called. The default is that of
    /// [`DomainParticipantFactory::set_qos`](crate::DomainParticipantFactory::set_qos): at once.
    #[must_use]
    pub const fn enabled(mut self, is_enabled: bool) -> Self {
        self.is_enabled = Some(is_enabled);
        self
    }

    /// How long others keep this participant without news of it. The default is 20 seconds; the participant announces itself three times
    /// in that time.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Joins the domain.
    ///
    /// # Errors
    /// The domain or a setting is out of range, the environment variable `PEREGRINE_LOG` is no level, a policy is too long to be announced, an interface does not exist, a peer
    /// cannot be resolved, or the system refuses sockets or threads.
    pub fn build(self) -> Result<DomainParticipant, Error> {
        logging::start_from_environment()?;
        self.config.check()?;
        for (argument, text) in [("domain_tag", &self.domain_tag), ("name", &self.name)] {
            if text.len() > NAME_OCTETS_MAX {
                return Err(BadParameter::TooLong { argument, len: text.len(), max: NAME_OCTETS_MAX }.into());
            }
        }
        let qos = self.qos.unwrap_or_else(default_qos);
        qos::check_participant(&qos)?;
        let handle = DomainHandle::get(self.domain, &self.config)?;
        let domain = Arc::clone(handle.domain());
        let mut unique = [0; 10];
        random::fill(&mut unique).map_err(Error::system)?;
        let lease = Span::from(self.lease);
        let config = ParticipantConfig {
            prefix: GuidPrefix::new(VendorId::PEREGRINE, unique),
            domain: self.domain,
            domain_tag: self.domain_tag,
            name: self.name,
            qos: qos.clone(),
            lease,
            announce_period: lease.divided_by(ANNOUNCEMENTS_PER_LEASE),
            addresses: Addresses::clone(&domain.addresses()),
            shared_memory: domain.shared_memory_address(),
            seed: random_u64()?,
            protection: None,
        };
        let rtps = Participant::new(now(), config);
        let core = Arc::new(ParticipantCore::new(Arc::clone(&domain) as Arc<_>, rtps));
        let defaults = Defaults::default();
        let state = ParticipantState { qos, defaults, publishers: Vec::new(), subscribers: Vec::new(), listener: None };
        let condition = StatusCondition::new(Arc::new(NoStatuses(Arc::clone(&domain) as Arc<_>)));
        let is_enabled = self.is_enabled.unwrap_or_else(autoenables);
        let handle = Mutex::new(Some(handle));
        let inner = ParticipantInner {
            core,
            domain,
            handle,
            condition,
            is_enabled: AtomicBool::new(is_enabled),
            state: Mutex::new(state),
        };
        let inner = Arc::new(inner);
        let me = Arc::downgrade(&inner);
        let find = move || me.upgrade().map(|inner| Entity::DomainParticipant(DomainParticipant { inner }));
        inner.condition.set_entity(find);
        if is_enabled {
            inner.join();
        }
        let mut participants = lock(&PARTICIPANTS);
        participants.retain(|participant| participant.strong_count() > 0);
        participants.push(Arc::downgrade(&inner));
        drop(participants);
        Ok(DomainParticipant { inner })
    }
}

/// The oldest participant of this process in this domain.
pub(crate) fn lookup(domain: u32) -> Option<DomainParticipant> {
    let participants: Vec<_> = lock(&PARTICIPANTS).clone();
    // Without the lock: a handle that is dropped here may be the last one.
    let mut participants = participants.iter().filter_map(Weak::upgrade).map(|inner| DomainParticipant { inner });
    participants.find(|participant| participant.domain() == DomainId(domain))
}

pub(crate) fn autoenables() -> bool {
    AUTOENABLES.load(Ordering::SeqCst)
}

pub(crate) fn set_autoenables(autoenables: bool) {
    AUTOENABLES.store(autoenables, Ordering::SeqCst);
}

pub(crate) fn default_qos() -> ParticipantQos {
    lock(&DEFAULT_QOS).clone().unwrap_or_default()
}

pub(crate) fn set_default_qos(qos: ParticipantQos) -> Result<(), Error> {
    qos::check_participant(&qos)?;
    *lock(&DEFAULT_QOS) = Some(qos);
    Ok(())
}

impl DomainParticipant {
    /// Whether what is made from it is enabled from the start.
    pub(crate) fn autoenables(&self) -> bool {
        self.is_enabled() && self.inner.lock().qos.entity_factory.autoenable_created_entities
    }

    /// What a writer of this participant or of another one has announced.
    pub(crate) fn publication_data(&self, writer: Guid) -> Option<PublicationData> {
        let own = self.inner.publishers().into_iter().flat_map(|publisher| publisher.writers());
        if let Some(own) = own.into_iter().find(|own| own.core().guid == writer) {
            return Some(own.data());
        }
        self.inner.core.lock().rtps.remote_publication(&writer).cloned()
    }

    /// What a reader of this participant or of another one has announced.
    pub(crate) fn subscription_data(&self, reader: Guid) -> Option<SubscriptionData> {
        let own = self.inner.subscribers().into_iter().flat_map(|subscriber| subscriber.readers());
        if let Some(own) = own.into_iter().find(|own| own.core().guid == reader) {
            return Some(own.data());
        }
        self.inner.core.lock().rtps.remote_subscription(&reader).cloned()
    }

    /// Lets a topic know of the participant's listener.
    pub(crate) fn refresh_topic(&self, topic: &TopicCore) {
        let upper = self.listener().map(|(listener, mask)| (Told::hook(listener as Arc<dyn TopicListener>), mask));
        let gone = std::mem::replace(&mut topic.lock().upper, upper);
        // The old listener may own entities: it is dropped without the lock.
        drop(gone);
    }

    /// The policies of a topic have changed.
    pub(crate) fn announce_endpoints_of(&self, topic: &Arc<TopicCore>) {
        let writers = self.inner.publishers().into_iter().flat_map(|p| p.writers());
        writers.filter(|w| Arc::ptr_eq(&w.core().topic, topic)).for_each(|w| w.announce());
        let readers = self.inner.subscribers().into_iter().flat_map(|s| s.readers());
        readers.filter(|r| Arc::ptr_eq(&r.core().topic, topic)).for_each(|r| r.announce());
    }
}

impl ParticipantInner {
    fn lock(&self) -> MutexGuard<'_, ParticipantState> {
        lock(&self.state)
    }

    fn publishers(&self) -> Vec<Arc<PublisherInner>> {
        self.lock().publishers.iter().filter_map(Weak::upgrade).collect()
    }

    fn subscribers(&self) -> Vec<Arc<SubscriberInner>> {
        self.lock().subscribers.iter().filter_map(Weak::upgrade).collect()
    }
}

impl ParticipantInner {
    /// Deletes what is in it. Returns what readers miss of the writers that wait for acknowledgements, when those have waited for `timeout`.
    fn delete_all(&self, timeout: Duration) -> Result<Vec<Arc<Abandoned>>, Error> {
        if !self.core.begin_to_close(timeout) {
            return Err(Error::AlreadyDeleted);
        }
        self.publishers().iter().for_each(|publisher| publisher.delete_contained());
        self.subscribers().iter().for_each(|subscriber| subscriber.delete_contained());
        Ok(self.core.linger_anew(timeout))
    }

    /// Takes part in the domain from now on.
    fn join(&self) {
        let domain = &self.domain;
        domain.add(&self.core);
        // The addresses of the host may have changed before the domain had this participant in its list.
        self.core.move_to(&domain.addresses());
        // The first announcement leaves at once.
        self.core.handle_timeout(now());
    }

    fn leave(&self) {
        // Others do not know a participant that has never been enabled.
        if !self.is_enabled.load(Ordering::SeqCst) {
            return;
        }
        self.core.leave();
        self.domain.remove(&self.core);
    }

    fn take_handle(&self) -> Option<Arc<DomainHandle>> {
        lock(&self.handle).take()
    }
}

/// Drops a handle on a thread of its own: the last one waits for the threads of the domain.
fn end_elsewhere(handle: Arc<DomainHandle>) -> Result<impl Future<Output = ()> + Send, Error> {
    let ended = Arc::new(Mutex::new((false, None::<Waker>)));
    let by_thread = Arc::clone(&ended);
    let end = move || {
        drop(handle);
        let mut ended = lock(&by_thread);
        ended.0 = true;
        let waker = ended.1.take();
        drop(ended);
        waker.into_iter().for_each(Waker::wake);
    };
    std::thread::Builder::new().name("pg-close".to_owned()).spawn(end).map_err(Error::system)?;
    Ok(std::future::poll_fn(move |context| {
        let mut ended = lock(&ended);
        if ended.0 {
            return Poll::Ready(());
        }
        ended.1 = Some(context.waker().clone());
        Poll::Pending
    }))
}

impl Drop for ParticipantInner {
    fn drop(&mut self) {
        // A participant that was closed has no handle.
        let Some(handle) = self.take_handle() else { return };
        self.core.settle();
        self.leave();
        drop(handle);
    }
}

impl std::fmt::Debug for DomainParticipant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DomainParticipant").field("guid", &self.guid()).field("domain", &self.domain()).finish()
    }
}

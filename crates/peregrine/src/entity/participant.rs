//! Participants (DDS 1.4 §2.2.2.2).

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread::Builder;
use std::time::Duration;

use peregrine_rtps::discovery::data::{ParticipantData, PublicationData, SubscriptionData};
use peregrine_rtps::id::{DomainId, EntityId, Guid};
use peregrine_rtps::participant::{ParticipantCounters, PeerDrops};
use peregrine_rtps::qos::{IgnoreLocal, ParticipantQos, PublisherQos, SubscriberQos, TopicQos};
use peregrine_rtps::time::Timestamp;
use peregrine_transport::thread;
use peregrine_transport::udp::Statistics;
use peregrine_xtypes::DdsType;

use super::{
    DomainParticipant, DomainParticipantListener, Entity, ParticipantInner, ParticipantState, Publisher,
    PublisherInner, Subscriber, SubscriberInner, TopicListener,
};
use crate::condition::StatusCondition;
use crate::discovery::{DiscoveredTopic, DiscoveredTopicData, DiscoveryEvents};
use crate::driver::base::clock::{now, wall};
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::user_code::{UserCode, run_user_code};
use crate::driver::endpoint::topic::TopicCore;
use crate::driver::endpoint::waiting::wait_until;
use crate::driver::host::Host as _;
use crate::driver::reactor::domain::{Domain, DomainHandle};
use crate::driver::session::participant::{Abandoned, ParticipantCore};
use crate::endpoint::flushed;
use crate::error::{Error, Timeout, Unsupported};
use crate::peer_memory::PeerMemory;
use crate::qos;
use crate::shared_memory::SharedMemoryStatistics;
use crate::status::StatusMask;
use crate::topic::{Topic, TopicListenerHook};
use crate::topic_type::{Serialized, SerializedType};

impl DomainParticipant {
    /// The GUID of the participant.
    #[must_use]
    pub fn guid(&self) -> Guid {
        Guid::new(self.inner.core.prefix, EntityId::PARTICIPANT)
    }

    /// The domain of the participant.
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.inner.domain.id
    }

    /// The policies of the participant.
    #[must_use]
    pub fn qos(&self) -> ParticipantQos {
        self.inner.lock().qos.clone()
    }

    /// Changes policies. New USER_DATA is announced at once.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a change of properties; [`Error::BadParameter`] for policies that are too long to be
    /// announced; [`Error::AlreadyDeleted`] after [`Self::close`].
    pub fn set_qos(&self, qos: ParticipantQos) -> Result<(), Error> {
        qos::check_participant(&qos)?;
        let mut state = self.inner.lock();
        let core = &self.inner.core;
        // The lock of the policies is held, so that two threads number the announcements of their changes in the order
        // in which they made them. Their datagrams may overtake each other.
        let mut locked = core.lock();
        if locked.is_closing() {
            return Err(Error::AlreadyDeleted);
        }
        let is_enabled = self.is_enabled();
        if is_enabled && state.qos.properties != qos.properties {
            return Err(Unsupported::PropertyChange.into());
        }
        state.qos = qos.clone();
        if !is_enabled {
            return Ok(());
        }
        locked.rtps.set_qos(now(), wall(), qos);
        drop(state);
        core.finish(locked);
        Ok(())
    }

    /// Enables a participant that [`ParticipantBuilder::enabled`](crate::ParticipantBuilder::enabled) or the factory
    /// created disabled (DDS 1.4 §2.2.2.1.1.7): the participant joins the domain, and its entities are enabled unless
    /// its ENTITY_FACTORY policy disables that. Does nothing if the participant is enabled.
    ///
    /// A disabled participant sends and discovers nothing, every policy of it may change, and its new entities are
    /// disabled.
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`] after [`Self::close`]; those of [`Publisher::enable`] and [`Subscriber::enable`].
    pub fn enable(&self) -> Result<(), Error> {
        let inner = &*self.inner;
        let state = inner.lock();
        // See `set_qos`.
        let mut locked = inner.core.lock();
        if locked.is_closing() {
            return Err(Error::AlreadyDeleted);
        }
        if inner.is_enabled.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let autoenables = state.qos.entity_factory.autoenable_created_entities;
        locked.rtps.set_qos(now(), wall(), state.qos.clone());
        drop(locked);
        drop(state);
        inner.join();
        if autoenables {
            inner.core.topics().iter().for_each(|topic| topic.lock().is_enabled = true);
            let (publishers, subscribers) = (inner.publishers(), inner.subscribers());
            publishers.into_iter().try_for_each(|inner| Publisher::from(inner).enable())?;
            subscribers.into_iter().try_for_each(|inner| Subscriber::from(inner).enable())?;
        }
        Ok(())
    }

    /// Whether the participant is enabled: it takes part in the domain.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.inner.is_enabled.load(Ordering::SeqCst)
    }

    /// Which endpoints near them its endpoints do not match, unless an endpoint was built with a choice of its own.
    #[must_use]
    pub fn ignore_local(&self) -> IgnoreLocal {
        self.inner.ignore_local
    }

    /// A topic of this name with values of type `T`, with default policies unless it exists already.
    ///
    /// # Errors
    /// [`Error::BadParameter`] for a name that is empty or longer than 256 bytes; [`Precondition::TopicHasOtherType`];
    /// [`Error::AlreadyDeleted`] after [`Self::close`].
    ///
    /// [`Precondition::TopicHasOtherType`]: crate::error::Precondition::TopicHasOtherType
    pub fn topic<T: DdsType>(&self, name: &str) -> Result<Topic<T>, Error> {
        Topic::new(self, name, SerializedType::of::<T>(), None)
    }

    /// The topic of this name with values of type `T` (`lookup_topicdescription`); `None` if this participant has none.
    #[must_use]
    pub fn lookup_topic<T: DdsType>(&self, name: &str) -> Option<Topic<T>> {
        let exists = |topic: &Arc<TopicCore>| &*topic.name == name && &*topic.type_name == T::TYPE_NAME;
        let known = self.inner.core.topics().into_iter().find(exists)?;
        let topic = self.topic(name).ok();
        drop(known);
        topic
    }

    /// Waits until this participant has the topic of this name, or another participant has an endpoint of it, and
    /// returns the topic (DDS 1.4 §2.2.2.2.1.11). Another thread may create the topic during the wait.
    ///
    /// # Errors
    /// [`Timeout::NoTopic`]; see [`Self::topic`].
    pub fn find_topic<T: DdsType>(&self, name: &str, timeout: Duration) -> Result<Topic<T>, Error> {
        let known = self.await_topic(name, T::TYPE_NAME, timeout)?;
        let topic = self.topic(name);
        drop(known);
        topic
    }

    /// The policies of topics that are created without policies.
    #[must_use]
    pub fn default_topic_qos(&self) -> TopicQos {
        self.inner.lock().defaults.topic.clone()
    }

    /// Changes the policies of topics that are created without policies from now on.
    ///
    /// # Errors
    /// See [`Self::topic_with_qos`].
    pub fn set_default_topic_qos(&self, qos: TopicQos) -> Result<(), Error> {
        qos::check_topic(&qos)?;
        self.inner.lock().defaults.topic = qos;
        Ok(())
    }

    /// The policies of the publishers that topics create for their writers.
    #[must_use]
    pub fn default_publisher_qos(&self) -> PublisherQos {
        self.inner.lock().defaults.publisher.clone()
    }

    /// Changes the policies of the publishers that topics create for their writers from now on.
    ///
    /// # Errors
    /// See [`Self::publisher`].
    pub fn set_default_publisher_qos(&self, qos: PublisherQos) -> Result<(), Error> {
        qos::check_publisher(&qos)?;
        self.inner.lock().defaults.publisher = qos;
        Ok(())
    }

    /// The policies of the subscribers that topics create for their readers.
    #[must_use]
    pub fn default_subscriber_qos(&self) -> SubscriberQos {
        self.inner.lock().defaults.subscriber.clone()
    }

    /// Changes the policies of the subscribers that topics create for their readers from now on.
    ///
    /// # Errors
    /// See [`Self::subscriber`].
    pub fn set_default_subscriber_qos(&self, qos: SubscriberQos) -> Result<(), Error> {
        qos::check_subscriber(&qos)?;
        self.inner.lock().defaults.subscriber = qos;
        Ok(())
    }

    /// The topic of this name, created with these policies.
    ///
    /// # Errors
    /// See [`Self::topic`]; policies contradict each other or are not available yet; the topic exists with other
    /// policies.
    pub fn topic_with_qos<T: DdsType>(&self, name: &str, qos: TopicQos) -> Result<Topic<T>, Error> {
        Topic::new(self, name, SerializedType::of::<T>(), Some(qos))
    }

    /// A topic whose samples stay serialized, for recorders, routers and bindings, which learn the type at run time. A
    /// topic that does not exist is created with default policies. Its endpoints match typed endpoints with the same
    /// topic and type names, in any process.
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
    /// [`Error::Unsupported`] for a policy that is not available yet; [`Error::BadParameter`] for one that is too long
    /// to be announced; [`Error::AlreadyDeleted`] after [`Self::close`].
    pub fn publisher(&self, qos: PublisherQos) -> Result<Publisher, Error> {
        qos::check_publisher(&qos)?;
        self.check_open()?;
        Ok(self.checked_publisher(qos))
    }

    /// A subscriber with these policies.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a policy that is not available yet; [`Error::BadParameter`] for one that is too long
    /// to be announced; [`Error::AlreadyDeleted`] after [`Self::close`].
    pub fn subscriber(&self, qos: SubscriberQos) -> Result<Subscriber, Error> {
        qos::check_subscriber(&qos)?;
        self.check_open()?;
        Ok(self.checked_subscriber(qos))
    }

    pub(crate) fn checked_publisher(&self, qos: PublisherQos) -> Publisher {
        let is_enabled = self.autoenables();
        let mut state = self.inner.lock();
        let publisher = Publisher::new(self, qos, is_enabled);
        state.publishers.push(Arc::downgrade(publisher.inner()));
        publisher
    }

    pub(crate) fn checked_subscriber(&self, qos: SubscriberQos) -> Subscriber {
        let is_enabled = self.autoenables();
        let mut state = self.inner.lock();
        let subscriber = Subscriber::new(self, qos, is_enabled);
        state.subscribers.push(Arc::downgrade(subscriber.inner()));
        subscriber
    }

    /// Deletes all writers and readers of the participant. Their calls then fail with [`Error::AlreadyDeleted`].
    pub fn delete_contained_entities(&self) {
        self.inner.publishers().iter().for_each(|publisher| publisher.delete_contained());
        self.inner.subscribers().iter().for_each(|subscriber| subscriber.delete_contained());
    }

    /// Deletes all entities of the participant, waits until the reliable readers have acknowledged the last samples of
    /// its writers (also of writers that were dropped before), and leaves the domain. Ends the threads of the domain if
    /// no other participant of this process has the same configuration. Afterwards calls of the participant and its
    /// entities fail with [`Error::AlreadyDeleted`], and dropping their handles does not block.
    ///
    /// Without this call, dropping the last handle blocks for at most
    /// [`DomainConfig::linger`](crate::DomainConfig::linger) and reports no error. If a listener drops the last handle,
    /// a short-lived thread waits instead.
    ///
    /// Do not call this function in a listener: it waits for running listeners to return.
    ///
    /// # Errors
    /// [`Timeout::NotFlushed`]: readers had not acknowledged all samples after `timeout`. The participant has left the
    /// domain nevertheless; the error has the number of samples that readers may miss. [`Error::AlreadyDeleted`] if the
    /// participant was closed before.
    pub fn close(&self, timeout: Duration) -> Result<(), Error> {
        let abandoned = self.inner.delete_all(timeout)?;
        self.inner.core.wait_until_gone(None, timeout);
        self.inner.leave();
        drop(self.inner.take_handle());
        flushed(abandoned, timeout)
    }

    /// [`Self::close`] as a future, for programs that must not block: a short-lived thread waits for the threads of the
    /// domain to end. If the future is dropped early, all entities of the participant have been deleted, and the
    /// participant leaves the domain with its last handle.
    ///
    /// Under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), a thread of the application has to keep polling.
    ///
    /// # Errors
    /// See [`Self::close`]; [`Error::System`] if the system refuses the thread; in that case the calling thread has
    /// waited.
    pub async fn close_async(&self, timeout: Duration) -> Result<(), Error> {
        let abandoned = self.inner.delete_all(timeout)?;
        self.inner.core.until_gone(None).await;
        self.inner.leave();
        if let Some(handle) = self.inner.take_handle() {
            end_elsewhere(handle)?.await;
        }
        flushed(abandoned, timeout)
    }

    /// The statuses that have changed since they were last read: always none, because a participant has no statuses.
    #[must_use]
    pub const fn status_changes(&self) -> StatusMask {
        StatusMask::NONE
    }

    /// The condition on the statuses of the participant; never true, because the standard gives the participant no
    /// statuses.
    #[must_use]
    pub fn status_condition(&self) -> &StatusCondition {
        &self.inner.condition
    }

    /// Replaces the listener of the participant. The listener handles the statuses in `mask` of all entities of the
    /// participant, except statuses that another listener handles. `None` removes the listener.
    ///
    /// Blocks until a running call of the previous listener has returned, unless the caller is itself a listener. The
    /// caller must not hold a lock that the previous listener takes. The previous listener is not called afterwards.
    pub fn set_listener(&self, listener: Option<Arc<dyn DomainParticipantListener>>, mask: StatusMask) {
        let listener = listener.map(|listener| (listener, mask));
        let gone = std::mem::replace(&mut self.inner.lock().listener, listener);
        // The old listener may own entities: it is dropped without the lock.
        run_user_code(|| drop(gone));
        let (publishers, subscribers) = (self.inner.publishers(), self.inner.subscribers());
        let topics = self.inner.core.topics();
        publishers.iter().for_each(|publisher| publisher.refresh());
        subscribers.iter().for_each(|subscriber| subscriber.refresh());
        topics.iter().for_each(|topic| self.refresh_topic(topic));
        publishers.iter().for_each(|publisher| publisher.wait_for_listeners());
        subscribers.iter().for_each(|subscriber| subscriber.wait_for_listeners());
        topics.iter().for_each(|topic| topic.gate.wait_until_idle());
    }

    /// The listener of the participant and the statuses that the listener handles; `None` without a listener.
    #[must_use]
    pub fn listener(&self) -> Option<(Arc<dyn DomainParticipantListener>, StatusMask)> {
        self.inner.lock().listener.clone()
    }

    /// The discovered participants, without this one.
    #[must_use]
    pub fn discovered_participants(&self) -> Vec<ParticipantData> {
        self.inner.core.remote_participants()
    }

    /// The discovered writers of other participants (builtin topic DCPSPublication).
    #[must_use]
    pub fn discovered_publications(&self) -> Vec<PublicationData> {
        self.inner.core.lock().rtps.remote_publications().cloned().collect()
    }

    /// The discovered readers of other participants (builtin topic DCPSSubscription).
    #[must_use]
    pub fn discovered_subscriptions(&self) -> Vec<SubscriptionData> {
        self.inner.core.lock().rtps.remote_subscriptions().cloned().collect()
    }

    /// The topics of the endpoints of other participants, without ignored participants and endpoints.
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

    /// The data that other participants announce about a topic (`get_discovered_topic_data`, DDS 1.4 §2.2.2.2.1.30):
    /// the policies of one endpoint of the topic, preferably a writer. `None` if the topic has no endpoints any more.
    #[must_use]
    pub fn discovered_topic_data(&self, topic: &DiscoveredTopic) -> Option<DiscoveredTopicData> {
        let locked = self.inner.core.lock();
        let is_it = |name: &str, type_name: &str| name == topic.name && type_name == topic.type_name;
        let written = locked.rtps.remote_publications().find(|data| is_it(&data.topic_name, &data.type_name));
        let read = || locked.rtps.remote_subscriptions().find(|data| is_it(&data.topic_name, &data.type_name));
        let mut qos = TopicQos::default();
        if let Some(data) = written {
            qos::copy_from_writer(&data.qos, &mut qos);
            qos.topic_data = data.topic_data.clone();
        } else {
            let data = read()?;
            qos::copy_from_reader(&data.qos, &mut qos);
            qos.topic_data = data.topic_data.clone();
        }
        Some(DiscoveredTopicData { topic: topic.clone(), qos })
    }

    /// Whether `guid` is the GUID of this participant or of one of its writers and readers, enabled or not (DDS 1.4
    /// §2.2.2.2.1.12). Publishers, subscribers and topics have no GUID: see [`Self::contains`].
    #[must_use]
    pub fn contains_entity(&self, guid: Guid) -> bool {
        if guid == self.guid() {
            return true;
        }
        let writers = self.inner.publishers().into_iter().flat_map(|publisher| publisher.writers());
        let mut writers = writers.filter(|writer| !writer.core().is_closed());
        let readers = self.inner.subscribers().into_iter().flat_map(|subscriber| subscriber.readers());
        let mut readers = readers.filter(|reader| !reader.core().lock().closed);
        writers.any(|writer| writer.core().guid == guid) || readers.any(|reader| reader.core().guid == guid)
    }

    /// Whether `entity` is this participant or one of its entities (`contains_entity`, DDS 1.4 §2.2.2.2.1.12). A
    /// disabled entity counts, a deleted one does not. [`Entity`] is made from a reference to a participant, topic,
    /// publisher, subscriber, writer or reader.
    #[must_use]
    pub fn contains(&self, entity: impl Into<Entity>) -> bool {
        let is_this = |participant: &Self| Arc::ptr_eq(&participant.inner, &self.inner);
        match entity.into() {
            Entity::DomainParticipant(participant) => is_this(&participant),
            Entity::Topic { participant, name } => {
                is_this(&participant) && self.inner.core.topics().iter().any(|topic| topic.name == name)
            }
            Entity::Publisher(publisher) => is_this(publisher.participant()) && publisher.check_open().is_ok(),
            Entity::Subscriber(subscriber) => is_this(subscriber.participant()) && subscriber.check_open().is_ok(),
            Entity::DataWriter(writer) => self.contains_entity(writer.guid()),
            Entity::DataReader(reader) => self.contains_entity(reader.guid()),
        }
    }

    /// The current time of the clock that timestamps samples.
    #[must_use]
    pub fn current_time(&self) -> Timestamp {
        wall()
    }

    /// The discovery events of this participant: first one event for each entity that is known already, then one for
    /// each change. Reports of security and reasons of non-matches are not repeated. To get all, create the participant
    /// disabled ([`ParticipantBuilder::enabled`](crate::ParticipantBuilder::enabled)), and enable it after this call.
    #[must_use]
    pub fn discovery_events(&self) -> DiscoveryEvents {
        DiscoveryEvents::new(Arc::clone(&self.inner.core))
    }

    /// Ignores a participant or endpoint: discards its data now and from now on. This cannot be reverted.
    pub fn ignore(&self, guid: Guid) {
        let mut locked = self.inner.core.lock();
        locked.rtps.ignore(now(), wall(), guid);
        self.inner.core.finish(locked);
    }

    /// Ignores the writers and readers of other participants whose topic has this name: discards the known ones and all
    /// later ones (DDS 1.4 §2.2.2.2.1.15). This cannot be reverted. Endpoints of this participant are not affected.
    pub fn ignore_topic(&self, topic: &str) {
        let mut locked = self.inner.core.lock();
        locked.rtps.ignore_topic(now(), wall(), topic);
        self.inner.core.finish(locked);
    }

    /// Asserts the liveliness of all writers with LIVELINESS MANUAL_BY_PARTICIPANT.
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`] after [`Self::close`].
    pub fn assert_liveliness(&self) -> Result<(), Error> {
        let mut locked = self.inner.core.lock();
        if locked.is_closing() {
            return Err(Error::AlreadyDeleted);
        }
        locked.rtps.assert_liveliness();
        Ok(())
    }

    /// Under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll): receives, and runs timers and listeners on this thread,
    /// until a message has been received or `timeout` is over. A zero timeout polls once and does not block. Under
    /// other strategies the call does nothing, because the threads of the domain do this work.
    pub fn poll(&self, timeout: Duration) {
        self.inner.domain.poll(timeout);
    }

    /// Messages that this participant has dropped, counted by reason.
    #[must_use]
    pub fn counters(&self) -> ParticipantCounters {
        self.inner.core.lock().rtps.counters()
    }

    /// Dropped messages by sending participant, each with its vendor, and one entry for all unknown and removed
    /// participants. Participants without dropped messages have no entry.
    ///
    /// Samples of matched writers that a reader did not accept are counted by the reader, in
    /// [`DataReader::counters`](crate::DataReader::counters), SAMPLE_LOST and SAMPLE_REJECTED.
    #[must_use]
    pub fn drops(&self) -> Vec<PeerDrops> {
        self.inner.core.lock().rtps.drops()
    }

    /// The memory that peers make this participant hold, with its limits.
    #[must_use]
    pub fn peer_memory(&self) -> PeerMemory {
        PeerMemory::of(&self.inner.core.memory)
    }

    /// The counters of each socket of this domain since it was opened, with the address of the socket.
    #[must_use]
    pub fn transport_statistics(&self) -> Vec<(std::net::SocketAddr, Statistics)> {
        self.inner.domain.statistics()
    }

    /// The counters of all connections of this domain since it was opened.
    #[doc(hidden)]
    #[must_use]
    pub fn stream_statistics(&self) -> crate::stream_link::StreamStatistics {
        self.inner.domain.stream_statistics()
    }

    /// How many deleted writers of this participant have gone although readers had not acknowledged their last samples:
    /// because their time was over ([`DomainConfig::linger`](crate::DomainConfig::linger), or that of `close`), or
    /// because more than 1,024 of them waited. Each is logged.
    #[must_use]
    pub fn writers_abandoned(&self) -> u64 {
        self.inner.core.writers_abandoned()
    }

    /// The use of shared memory between the participants of this process in this domain and other processes of the
    /// host.
    #[must_use]
    pub fn shared_memory_statistics(&self) -> SharedMemoryStatistics {
        self.inner.domain.shared_memory_statistics()
    }
}

impl DomainParticipant {
    /// Refuses calls after [`Self::close`].
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.inner.core.is_closing() { Err(Error::AlreadyDeleted) } else { Ok(()) }
    }

    /// Whether entities of the participant are created enabled.
    pub(crate) fn autoenables(&self) -> bool {
        self.is_enabled() && self.inner.lock().qos.entity_factory.autoenable_created_entities
    }

    /// Waits until this participant has the topic, which the result then holds, or another participant has an endpoint
    /// of it.
    fn await_topic(&self, name: &str, type_name: &str, timeout: Duration) -> Result<Option<Arc<TopicCore>>, Error> {
        let found = wait_until(&*self.inner.core, timeout, StatusMask::ALL, |locked| {
            if locked.is_closing() {
                return Some(Err(Error::AlreadyDeleted));
            }
            let own = locked.topic(name).filter(|topic| &*topic.type_name == type_name);
            if own.is_some() {
                return Some(Ok(own));
            }
            let (rtps, has) = (&locked.rtps, |found: &str, ty: &str| found == name && ty == type_name);
            let is_written = rtps.remote_publications().any(|data| has(&data.topic_name, &data.type_name));
            let is_read = rtps.remote_subscriptions().any(|data| has(&data.topic_name, &data.type_name));
            (is_written || is_read).then_some(Ok(None))
        });
        found.unwrap_or_else(|| Err(Timeout::NoTopic { topic: name.into(), waited: timeout }.into()))
    }

    /// The discovery data of a writer of this or another participant.
    pub(crate) fn publication_data(&self, writer: Guid) -> Option<PublicationData> {
        let own = self.inner.publishers().into_iter().flat_map(|publisher| publisher.writers());
        if let Some(own) = own.into_iter().find(|own| own.core().guid == writer) {
            return Some(own.data());
        }
        self.inner.core.lock().rtps.remote_publication(&writer).cloned()
    }

    /// The discovery data of a reader of this or another participant.
    pub(crate) fn subscription_data(&self, reader: Guid) -> Option<SubscriptionData> {
        let own = self.inner.subscribers().into_iter().flat_map(|subscriber| subscriber.readers());
        if let Some(own) = own.into_iter().find(|own| own.core().guid == reader) {
            return Some(own.data());
        }
        self.inner.core.lock().rtps.remote_subscription(&reader).cloned()
    }

    /// Passes the participant's listener to a topic.
    pub(crate) fn refresh_topic(&self, topic: &TopicCore) {
        // The lock is held, so that two threads that replace the listener reach the topic in the same order.
        let state = self.inner.lock();
        let upper = state.listener.clone();
        let upper = upper.map(|(listener, mask)| (TopicListenerHook::hook(listener as Arc<dyn TopicListener>), mask));
        let gone = std::mem::replace(&mut topic.lock().upper, upper);
        drop(state);
        // The old listener may own entities: it is dropped without the lock.
        run_user_code(|| drop(gone));
    }

    /// Announces the endpoints of a topic again after its policies have changed.
    pub(crate) fn announce_endpoints_of(&self, topic: &Arc<TopicCore>) {
        let writers = self.inner.publishers().into_iter().flat_map(|p| p.writers());
        writers.filter(|w| Arc::ptr_eq(&w.core().topic, topic)).for_each(|w| w.announce());
        let readers = self.inner.subscribers().into_iter().flat_map(|s| s.readers());
        readers.filter(|r| Arc::ptr_eq(&r.core().topic, topic)).for_each(|r| r.announce());
    }
}

impl ParticipantInner {
    fn lock(&self) -> Guard<'_, ParticipantState> {
        lock(&self.state)
    }

    fn publishers(&self) -> Vec<Arc<PublisherInner>> {
        self.lock().publishers.iter().collect()
    }

    fn subscribers(&self) -> Vec<Arc<SubscriberInner>> {
        self.lock().subscribers.iter().collect()
    }
}

impl ParticipantInner {
    /// Deletes all entities. The deleted writers wait for acknowledgements for at most `timeout`; the result then
    /// states the samples that readers miss.
    fn delete_all(&self, timeout: Duration) -> Result<Vec<Arc<Abandoned>>, Error> {
        if !self.core.begin_to_close(timeout) {
            return Err(Error::AlreadyDeleted);
        }
        self.publishers().iter().for_each(|publisher| publisher.delete_contained());
        self.subscribers().iter().for_each(|subscriber| subscriber.delete_contained());
        Ok(self.core.linger_anew(timeout, |_| true).into_iter().map(|(_, abandoned)| abandoned).collect())
    }

    /// Enables the participant in the domain.
    pub(super) fn join(&self) {
        let domain = &self.domain;
        domain.add(&self.core);
        self.core.begin_presence();
        // The addresses of the host may have changed before the domain had this participant in its list.
        self.core.move_to(&domain.addresses());
        // The first announcement is sent at once.
        self.core.handle_timeout(now());
    }

    fn leave(&self) {
        // Peers do not know a participant that has never been enabled.
        if self.is_enabled.load(Ordering::SeqCst) {
            leave(&self.core, &self.domain);
        }
    }

    /// Waits for the deleted writers on a thread of its own, then leaves. `false` if the system refuses the thread.
    fn leave_elsewhere(&self, handle: &Arc<DomainHandle>) -> bool {
        let (core, domain, handle) = (Arc::clone(&self.core), Arc::clone(&self.domain), Arc::clone(handle));
        let end = move || {
            core.wait_for_deleted_writers();
            // Only writers of an enabled participant wait for acknowledgements.
            leave(&core, &domain);
            drop(handle);
        };
        let spawned = thread::spawn(Builder::new().name("pg-close".to_owned()), end);
        spawned.inspect_err(|error| tracing::warn!(%error, "the last samples of deleted writers may be lost")).is_ok()
    }

    fn take_handle(&self) -> Option<Arc<DomainHandle>> {
        lock(&self.handle).take()
    }
}

fn leave(core: &Arc<ParticipantCore>, domain: &Domain) {
    core.leave();
    domain.remove(core);
}

/// Drops a handle on a separate thread, because the drop of the last handle waits for the threads of the domain.
fn end_elsewhere(handle: Arc<DomainHandle>) -> Result<impl Future<Output = ()> + Send, Error> {
    let ended = Arc::new(Mutex::new((false, None::<Waker>)));
    let by_thread = Arc::clone(&ended);
    let end = move || {
        drop(handle);
        let mut ended = lock(&by_thread);
        ended.0 = true;
        let waker = ended.1.take();
        drop(ended);
        waker.into_iter().for_each(|waker| UserCode::Wake(waker).run());
    };
    thread::spawn(Builder::new().name("pg-close".to_owned()), end).map_err(Error::system)?;
    Ok(std::future::poll_fn(move |context| {
        // Wakers are user code: cloned and dropped without the lock.
        let waker = context.waker().clone();
        let mut ended = lock(&ended);
        if ended.0 {
            drop(ended);
            return Poll::Ready(());
        }
        let before = ended.1.replace(waker);
        drop(ended);
        drop(before);
        Poll::Pending
    }))
}

impl Drop for ParticipantInner {
    fn drop(&mut self) {
        // A participant that was closed has no handle.
        let Some(handle) = self.take_handle() else { return };
        // The last handle was dropped in a listener.
        if self.core.must_wait_elsewhere() && self.leave_elsewhere(&handle) {
            return;
        }
        self.core.wait_for_deleted_writers();
        self.leave();
        drop(handle);
    }
}

impl std::fmt::Debug for DomainParticipant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DomainParticipant").field("guid", &self.guid()).field("domain", &self.domain()).finish()
    }
}

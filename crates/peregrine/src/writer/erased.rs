//! The operations of a writer that its publisher uses, and the calls of its listeners.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use peregrine_rtps::discovery::data::{PublicationData, SubscriptionData};
use peregrine_rtps::history::ChangeKind;
use peregrine_rtps::id::Guid;
use peregrine_rtps::qos::{DataWriterQos, Limit};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;

use super::{AnyDataWriter, AnyWriter, DataWriter, DataWriterListener, Enabled, WriterInner};
use crate::condition::StatusCondition;
use crate::driver::base::clock::now;
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::{Deferring, run_user_code};
use crate::driver::endpoint::topic::Listening;
use crate::driver::endpoint::writer::{WriterCore, WriterHook};
use crate::driver::session::participant::{Abandoned, ParticipantCore};
use crate::endpoint::{nearest, tell};
use crate::entity::PublisherListener;
use crate::error::{Error, Precondition};
use crate::state_machine::{WriterSettings, new_writer, representation};
use crate::status::StatusMask;
use crate::topic_type::TopicType;

impl<T: TopicType> AnyWriter for WriterInner<T> {
    fn core(&self) -> &Arc<WriterCore> {
        &self.core
    }

    fn participant(&self) -> &Arc<ParticipantCore> {
        &self.publisher.participant().inner.core
    }

    fn subscription_data(&self, reader: Guid) -> Option<SubscriptionData> {
        self.publisher.participant().subscription_data(reader)
    }

    fn condition(&self) -> &StatusCondition {
        &self.condition
    }

    fn qos(&self) -> DataWriterQos {
        lock(&self.qos).clone()
    }

    fn set_qos(&self, qos: DataWriterQos) -> Result<(), Error> {
        Self::set_qos(self, qos)
    }

    fn is_enabled(&self) -> bool {
        self.enabled.get().is_some()
    }

    fn retire_within(&self, linger: Option<Duration>) -> Option<Arc<Abandoned>> {
        Self::retire_within(self, linger)
    }

    fn enable(&self) -> Result<(), Error> {
        if !self.publisher.is_enabled() {
            return Err(Precondition::PublisherNotEnabled.into());
        }
        let qos = lock(&self.qos);
        let mut state = self.core.lock();
        if state.closed {
            return Err(Error::AlreadyDeleted);
        }
        if self.enabled.get().is_some() {
            return Ok(());
        }
        // Every policy could change until now.
        let settings = WriterSettings { batching: self.batching(), ..self.settings };
        state.writer = new_writer(self.participant(), self.core.guid, &qos, settings)?;
        self.enabled.get_or_init(|| Enabled {
            representation: representation(&qos.data_representation),
            max_blocking_time: qos.reliability.max_blocking_time,
            max_instances: match qos.resource_limits.max_instances {
                Limit::At(n) => n as usize,
                Limit::Unlimited => usize::MAX,
            },
            liveliness: qos.liveliness.kind,
        });
        drop(state);
        drop(qos);
        self.announce();
        Ok(())
    }

    fn announce(&self) {
        if self.enabled.get().is_some() {
            self.participant().put_writer(&self.core, || self.announcement());
        }
    }

    fn delete(&self) {
        self.retire();
    }

    fn wait_for_acknowledgments(&self, timeout: Duration) -> Result<(), Error> {
        Self::wait_for_acknowledgments(self, timeout)
    }

    fn write_payload(&self, payload: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        Self::write_payload(self, payload, source_timestamp)
    }

    fn dispose_key(&self, key: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.end_payload(key, ChangeKind::Disposed, source_timestamp)
    }

    fn unregister_key(&self, key: &[u8], source_timestamp: Timestamp) -> Result<SequenceNumber, Error> {
        self.end_payload(key, self.unregistering(), source_timestamp)
    }

    fn follow_suspension(&self) {
        let state = self.publisher.with_suspension(|is_suspended| {
            let mut state = self.core.lock();
            self.is_suspended.store(is_suspended, Ordering::SeqCst);
            state.writer.set_batching(now(), self.batching());
            state
        });
        self.core.transmit(state);
    }

    fn data(&self) -> PublicationData {
        self.announcement()
    }

    fn refresh(self: Arc<Self>) {
        let core = Arc::clone(&self.core);
        let exchange = core.gate.begin_exchange();
        let own = lock(&self.listener).clone();
        let publisher = self.publisher.listener();
        let participant = self.publisher.participant().listener();
        let participant = participant.map(|(listener, mask)| (listener as Arc<dyn PublisherListener>, mask));
        let upper = [publisher, participant];
        let mut mask = own.as_ref().map_or(StatusMask::NONE, |(_, mask)| *mask);
        upper.iter().flatten().for_each(|(_, upper)| mask |= *upper);
        let hook = Hook { writer: Arc::downgrade(&self), own, upper };
        let hook = (!mask.is_empty()).then(|| (Arc::new(hook) as _, mask));
        let mut state = core.lock();
        let mask_before = state.hook.as_ref().map_or(StatusMask::NONE, |(_, mask)| *mask);
        // The new listener is also notified of statuses that have changed before and are unread.
        state.statuses.changed.mark_unreported(mask.without(mask_before));
        let gone = if state.closed { hook } else { std::mem::replace(&mut state.hook, hook) };
        let has_news = !state.closed && state.statuses.changed.has_unreported();
        drop(state);
        drop(exchange);
        // The old listener may own entities: it is dropped without the lock.
        run_user_code(|| drop(gone));
        if has_news {
            // The caller may hold locks that the listener takes.
            let _no_user_code = Deferring::begin();
            core.after();
        }
    }
}

/// The listeners of a writer, the nearest first.
struct Hook<T: TopicType> {
    writer: Weak<WriterInner<T>>,
    own: Listening<dyn DataWriterListener<T>>,
    upper: [Listening<dyn PublisherListener>; 2],
}

impl<T: TopicType> WriterHook for Hook<T> {
    fn changed(&self, statuses: StatusMask) {
        let Some(inner) = self.writer.upgrade() else { return };
        let writer = DataWriter { inner };
        tell!(
            self, writer as AnyDataWriter, statuses:
            PUBLICATION_MATCHED: on_publication_matched(publication_matched_status),
            OFFERED_INCOMPATIBLE_QOS: on_offered_incompatible_qos(offered_incompatible_qos_status),
            OFFERED_DEADLINE_MISSED: on_offered_deadline_missed(offered_deadline_missed_status),
            LIVELINESS_LOST: on_liveliness_lost(liveliness_lost_status),
            RELIABLE_READER_ACTIVITY_CHANGED:
                on_reliable_reader_activity_changed(reliable_reader_activity_changed_status),
            RELIABLE_WRITER_CACHE_CHANGED:
                on_reliable_writer_cache_changed(reliable_writer_cache_changed_status),
            DELIVERY_STALLED: on_delivery_stalled(delivery_stalled_status),
        );
    }
}

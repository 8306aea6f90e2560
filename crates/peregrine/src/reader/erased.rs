//! The operations of a reader that its subscriber uses, and the calls of its listeners.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use peregrine_rtps::discovery::data::{PublicationData, SubscriptionData};
use peregrine_rtps::id::Guid;
use peregrine_rtps::qos::DataReaderQos;

use super::{AnyDataReader, AnyReader, DataReader, DataReaderListener, ReaderInner};
use crate::condition::StatusCondition;
use crate::driver::base::clock::now;
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::{Deferring, run_user_code};
use crate::driver::endpoint::reader::{ReaderCore, ReaderHook};
use crate::driver::endpoint::topic::Listening;
use crate::endpoint::{nearest, tell};
use crate::entity::SubscriberListener;
use crate::error::{Error, Precondition};
use crate::state_machine::new_reader;
use crate::status::StatusMask;
use crate::topic_type::TopicType;

impl<T: TopicType> AnyReader for ReaderInner<T> {
    fn core(&self) -> &Arc<ReaderCore> {
        &self.core
    }

    fn publication_data(&self, writer: Guid) -> Option<PublicationData> {
        self.subscriber.participant().publication_data(writer)
    }

    fn condition(&self) -> &StatusCondition {
        &self.condition
    }

    fn qos(&self) -> DataReaderQos {
        lock(&self.qos).clone()
    }

    fn set_qos(&self, qos: DataReaderQos) -> Result<(), Error> {
        Self::set_qos(self, qos)
    }

    fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Acquire)
    }

    fn enable(&self) -> Result<(), Error> {
        if !self.subscriber.is_enabled() {
            return Err(Precondition::SubscriberNotEnabled.into());
        }
        let presentation = self.subscriber.qos().presentation;
        let qos = lock(&self.qos);
        let mut state = self.open()?;
        if self.is_enabled.load(Ordering::Acquire) {
            return Ok(());
        }
        // Every policy could change until now, those of the subscriber too.
        let keys = self.topic.data_type.keys();
        state.reader = new_reader(self.participant(), self.core.guid, keys, &qos, &presentation)?;
        self.is_enabled.store(true, Ordering::Release);
        drop(state);
        drop(qos);
        self.announce();
        Ok(())
    }

    fn announce(&self) {
        if self.is_enabled.load(Ordering::Acquire) {
            self.participant().put_reader(&self.core, || self.announcement());
        }
    }

    fn delete(&self) -> bool {
        self.participant().remove_reader(&self.core)
    }

    fn data(&self) -> SubscriptionData {
        self.announcement()
    }

    fn refresh(self: Arc<Self>) {
        let core = Arc::clone(&self.core);
        let exchange = core.gate.begin_exchange();
        let own = lock(&self.listener).clone();
        let subscriber = self.subscriber.listener();
        let participant = self.subscriber.participant().listener();
        let participant = participant.map(|(listener, mask)| (listener as Arc<dyn SubscriberListener>, mask));
        let upper = [subscriber, participant];
        let mut mask = own.as_ref().map_or(StatusMask::NONE, |(_, mask)| *mask);
        upper.iter().flatten().for_each(|(_, upper)| mask |= *upper);
        if mask.intersects(StatusMask::DATA_ON_READERS) {
            mask |= StatusMask::DATA_AVAILABLE;
        }
        if mask.intersects(StatusMask::DATA_AVAILABLE) {
            mask |= StatusMask::NOTIFIED;
        }
        if self.topic.data_type.keys().is_user_code() {
            mask |= StatusMask::UNKEYED;
        }
        let hook = Hook { reader: Arc::downgrade(&self), own, upper };
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
            core.after(now());
        }
    }
}

impl<T: TopicType> ReaderInner<T> {
    /// Finds the instances of waiting samples with the application's key function.
    fn find_instances(&self) {
        let keys = self.topic.data_type.keys();
        self.core.find_instances(|payload, kind| keys.find(payload, kind));
    }
}

/// The listeners of a reader, the nearest first.
struct Hook<T: TopicType> {
    reader: Weak<ReaderInner<T>>,
    own: Listening<dyn DataReaderListener<T>>,
    upper: [Listening<dyn SubscriberListener>; 2],
}

impl<T: TopicType> ReaderHook for Hook<T> {
    fn changed(&self, statuses: StatusMask) {
        let Some(inner) = self.reader.upgrade() else { return };
        if statuses.contains(StatusMask::UNKEYED) {
            inner.find_instances();
        }
        let reader = DataReader { inner };
        tell!(
            self, reader as AnyDataReader, statuses:
            SUBSCRIPTION_MATCHED: on_subscription_matched(subscription_matched_status),
        );
        let on_readers = nearest(StatusMask::DATA_ON_READERS, &self.upper);
        if statuses.contains(StatusMask::DATA_AVAILABLE)
            && let Some(listener) = on_readers
        {
            let method = || listener.on_data_on_readers(reader.subscriber());
            reader.inner.core.gate.call_back(StatusMask::DATA_ON_READERS, method);
        }
        let is_notified = statuses.contains(StatusMask::NOTIFIED);
        if is_notified || statuses.contains(StatusMask::DATA_AVAILABLE) && on_readers.is_none() {
            reader.inner.core.gate.call_back(StatusMask::DATA_AVAILABLE, || self.notify_data(&reader));
        }
        tell!(
            self, reader as AnyDataReader, statuses:
            REQUESTED_INCOMPATIBLE_QOS: on_requested_incompatible_qos(requested_incompatible_qos_status),
            REQUESTED_DEADLINE_MISSED: on_requested_deadline_missed(requested_deadline_missed_status),
            LIVELINESS_CHANGED: on_liveliness_changed(liveliness_changed_status),
            SAMPLE_LOST: on_sample_lost(sample_lost_status),
            SAMPLE_REJECTED: on_sample_rejected(sample_rejected_status),
        );
    }
}

impl<T: TopicType> Hook<T> {
    fn notify_data(&self, reader: &DataReader<T>) {
        if let Some(own) = nearest(StatusMask::DATA_AVAILABLE, [&self.own]) {
            own.on_data_available(reader);
        } else if let Some(upper) = nearest(StatusMask::DATA_AVAILABLE, &self.upper) {
            upper.on_data_available(&AnyDataReader::from(reader));
        }
    }
}

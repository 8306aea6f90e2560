//! Waiting for calls of listeners.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use peregrine::status::{
    IncompatibleQosStatus, LivelinessChangedStatus, LivelinessLostStatus, MatchedStatus, OfferedDeadlineMissedStatus,
    RequestedDeadlineMissedStatus,
};
use peregrine::{DataReader, DataReaderListener, DataWriter, DataWriterListener, TopicType};

/// Counts the events of an endpoint, so that no event between a check and a wait is missed. Clones share the count.
#[derive(Clone, Default)]
pub(crate) struct News(Arc<(Mutex<u64>, Condvar)>);

impl News {
    /// Calls `look` at once and after each event, until it returns a result or the time is over.
    pub(crate) fn wait<R>(&self, limit: Duration, mut look: impl FnMut() -> Option<R>) -> Option<R> {
        let end = Instant::now() + limit;
        let (count, changed) = &*self.0;
        loop {
            let seen = *count.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = look() {
                return Some(found);
            }
            let guard = count.lock().unwrap_or_else(PoisonError::into_inner);
            let left = end.saturating_duration_since(Instant::now());
            let (_guard, waited) =
                changed.wait_timeout_while(guard, left, |count| *count == seen).unwrap_or_else(PoisonError::into_inner);
            if waited.timed_out() {
                return None;
            }
        }
    }

    fn tell(&self) {
        let (count, changed) = &*self.0;
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.wrapping_add(1);
        changed.notify_all();
    }
}

impl<T: TopicType> DataWriterListener<T> for News {
    fn on_publication_matched(&self, _: &DataWriter<T>, _: MatchedStatus) {
        self.tell();
    }

    fn on_offered_incompatible_qos(&self, _: &DataWriter<T>, _: IncompatibleQosStatus) {
        self.tell();
    }

    fn on_offered_deadline_missed(&self, _: &DataWriter<T>, _: OfferedDeadlineMissedStatus) {
        self.tell();
    }

    fn on_liveliness_lost(&self, _: &DataWriter<T>, _: LivelinessLostStatus) {
        self.tell();
    }
}

impl<T: TopicType> DataReaderListener<T> for News {
    fn on_data_available(&self, _: &DataReader<T>) {
        self.tell();
    }

    fn on_subscription_matched(&self, _: &DataReader<T>, _: MatchedStatus) {
        self.tell();
    }

    fn on_requested_incompatible_qos(&self, _: &DataReader<T>, _: IncompatibleQosStatus) {
        self.tell();
    }

    fn on_requested_deadline_missed(&self, _: &DataReader<T>, _: RequestedDeadlineMissedStatus) {
        self.tell();
    }

    fn on_liveliness_changed(&self, _: &DataReader<T>, _: LivelinessChangedStatus) {
        self.tell();
    }
}

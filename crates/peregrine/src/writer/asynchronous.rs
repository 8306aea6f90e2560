//! Writing and waiting for asynchronous programs, whatever runs them.

use std::sync::Arc;

use peregrine_rtps::history::{Change, ChangeKind};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_xtypes::DdsType;

use super::DataWriter;
use crate::driver::clock::wall;
use crate::driver::sync::lock;
use crate::driver::waiting::Until;
use crate::driver::wakers::Awaited;
use crate::driver::writer::{WriteFailure, WriterState};
use crate::error::Error;
use crate::status::StatusMask;
use crate::topic_type::TopicType;

/// Under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), a thread of the application has to keep polling for futures
/// to make progress. A future that is dropped leaves nothing behind; a sample it has not written yet is not written.
impl<T: DdsType> DataWriter<T> {
    /// Writes a value, as soon as KEEP_ALL and the resource limits leave room. There is no time limit:
    /// `max_blocking_time` is for threads, a future can be dropped.
    ///
    /// # Errors
    /// See [`DataWriter::write`]; never [`Error::Timeout`].
    pub async fn write_async(&self, value: &T) -> Result<SequenceNumber, Error> {
        let inner = &*self.inner;
        let (change, key) = {
            let (mut state, instance, filled) = inner.encode(value)?;
            inner.check_usable(&mut state)?;
            let (_, key) = inner.key_if_new(state, instance, value)?;
            let payload = filled.into_payload();
            (Change { kind: ChangeKind::Alive, instance, source_timestamp: wall(), payload }, key)
        };
        self.put_when_there_is_room(change, key).await
    }
}

impl<T: TopicType> DataWriter<T> {
    pub(super) async fn put_when_there_is_room(
        &self,
        mut change: Change,
        mut key: Option<Vec<u8>>,
    ) -> Result<SequenceNumber, Error> {
        let inner = &*self.inner;
        loop {
            let instance = change.instance;
            let numbered = || inner.note_key(ChangeKind::Alive, instance, key.take());
            let (failure, refused) = match inner.core.try_write(inner.core.lock(), change, numbered) {
                Ok(number) => {
                    inner.assert_liveliness_by_writing();
                    return Ok(number);
                }
                Err(refused) => refused,
            };
            if matches!(failure, WriteFailure::Closed) {
                return Err(Error::AlreadyDeleted);
            }
            if inner.topic.has_key() && key.is_none() {
                // Another thread may unregister the instance meanwhile, which this change then registers again.
                key = lock(&inner.keys).get(&instance).cloned();
            }
            change = self.room_for(refused).await;
        }
    }

    /// Waits until every matched reliable reader has acknowledged everything written so far.
    ///
    /// # Errors
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`], also when the writer is deleted meanwhile.
    pub fn wait_for_acknowledgments_async(&self) -> impl Future<Output = Result<(), Error>> + Send + use<T> {
        let usable = self.inner.check_open();
        let last = self.inner.request_acknowledgement();
        let acknowledged = move |state: &mut WriterState| {
            if state.closed {
                return Some(Err(Error::AlreadyDeleted));
            }
            state.writer.is_acknowledged_by_all(last).then_some(Ok(()))
        };
        let acknowledged = Until::new(Arc::clone(&self.inner.core), Awaited::Acknowledged(last), acknowledged);
        async move {
            usable?;
            acknowledged.await
        }
    }

    /// Waits until at least so many readers match.
    ///
    /// # Errors
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`], also when the writer is deleted meanwhile.
    pub fn wait_for_readers_async(&self, readers: usize) -> impl Future<Output = Result<(), Error>> + Send + use<T> {
        let usable = self.inner.check_open();
        let matched = move |state: &mut WriterState| {
            if state.closed {
                return Some(Err(Error::AlreadyDeleted));
            }
            (state.matched.len() >= readers).then_some(Ok(()))
        };
        let matched = Until::new(Arc::clone(&self.inner.core), StatusMask::PUBLICATION_MATCHED, matched);
        async move {
            usable?;
            matched.await
        }
    }

    /// Gives the change back when there is room for it, or nothing to wait for any more.
    fn room_for(&self, change: Change) -> impl Future<Output = Change> + Send + use<T> {
        let mut held = Some(change);
        Until::new(Arc::clone(&self.inner.core), Awaited::Room, move |state: &mut WriterState| {
            let has_room = held.as_ref().is_none_or(|change| state.has_room(change));
            if state.closed || has_room { held.take() } else { None }
        })
    }
}

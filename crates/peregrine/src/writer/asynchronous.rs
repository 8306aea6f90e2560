//! Writing and waiting for asynchronous programs, whatever runs them.

use std::cell::Cell;
use std::sync::Arc;

use peregrine_rtps::history::{Change, ChangeKind};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_xtypes::DdsType;

use super::{DataWriter, WriterInner};
use crate::driver::base::clock::wall;
use crate::driver::base::sync::lock;
use crate::driver::endpoint::waiting::Until;
use crate::driver::endpoint::wakers::{Awaited, StateGuard};
use crate::driver::endpoint::writer::{WriteFailure, WriterState};
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
        let attempt = {
            let inner = &*self.inner;
            let (mut state, instance, filled) = inner.encode(value)?;
            inner.check_usable(&mut state)?;
            let (state, key) = inner.key_if_new(state, instance, value)?;
            let payload = filled.into_payload();
            inner.try_put(
                state,
                Change { kind: ChangeKind::Alive, instance, source_timestamp: wall(), payload },
                key,
            )?
        };
        self.put_when_there_is_room(attempt).await
    }
}

/// The outcome of an attempt to write: the number of the sample, or, without room, the change and the key of its
/// instance for the next attempt.
pub(super) type Attempt = Result<SequenceNumber, (Change, Option<Vec<u8>>)>;

impl<T: TopicType> WriterInner<T> {
    /// Writes a change if there is room. `key`: the serialized key of an instance that is new, found under the same
    /// lock.
    pub(super) fn try_put(
        &self,
        guard: StateGuard<'_, WriterState>,
        change: Change,
        key: Option<Vec<u8>>,
    ) -> Result<Attempt, Error> {
        let (instance, key) = (change.instance, Cell::new(key));
        let numbered = || self.note_key(ChangeKind::Alive, instance, key.take());
        let refused = || {
            // While this task waits, a thread may unregister the instance, which this change then registers again.
            if self.topic.has_key() {
                key.set(key.take().or_else(|| lock(&self.keys).get(&instance).cloned()));
            }
        };
        match self.core.try_write(guard, change, numbered, refused) {
            Ok(number) => {
                self.assert_liveliness_by_writing();
                Ok(Ok(number))
            }
            Err((WriteFailure::Closed, _)) => Err(Error::AlreadyDeleted),
            Err((WriteFailure::Full(_), change)) => Ok(Err((change, key.take()))),
        }
    }
}

impl<T: TopicType> DataWriter<T> {
    /// Repeats a write that found no room.
    pub(super) async fn put_when_there_is_room(&self, mut attempt: Attempt) -> Result<SequenceNumber, Error> {
        loop {
            let (change, key) = match attempt {
                Ok(number) => return Ok(number),
                Err(refused) => refused,
            };
            let change = self.room_for(change).await;
            attempt = self.inner.try_put(self.inner.core.lock(), change, key)?;
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

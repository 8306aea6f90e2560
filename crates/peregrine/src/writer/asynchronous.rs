//! Writing and waiting for asynchronous programs on any executor.

use std::cell::Cell;
use std::sync::Arc;

use peregrine_rtps::history::{Change, ChangeKind};
use peregrine_rtps::id::KeyHash;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;
use peregrine_xtypes::DdsType;

use super::lent::Filled;
use super::{DataWriter, WriterInner};
use crate::driver::base::clock::wall;
use crate::driver::base::sync::lock;
use crate::driver::endpoint::waiting::WaitFuture;
use crate::driver::endpoint::wakers::{Awaited, StateGuard};
use crate::driver::endpoint::writer::{WriteFailure, WriterState};
use crate::error::Error;
use crate::status::StatusMask;
use crate::topic_type::TopicType;

/// Under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), futures make progress only while an application thread
/// polls. A dropped future leaves no waker behind; a sample that it has not written yet is not written.
impl<T: DdsType> DataWriter<T> {
    /// Writes a value as soon as KEEP_ALL and the resource limits leave room. `max_blocking_time` does not apply: drop
    /// the future to give up.
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
    /// Writes a value if there is room. `key`: see [`Self::try_put`].
    pub(super) fn try_put_filled<'c>(
        &'c self,
        guard: StateGuard<'c, WriterState>,
        instance: KeyHash,
        source_timestamp: Timestamp,
        filled: Filled,
        key: Option<Vec<u8>>,
    ) -> Result<Attempt, Error> {
        let (guard, payload) = match filled {
            Filled::Slot(slot) if !self.topic.has_key() => {
                match self.core.write_bypassing_history(guard, slot, source_timestamp) {
                    Ok(number) => {
                        self.assert_liveliness_by_writing();
                        return Ok(Ok(number));
                    }
                    Err((guard, slot)) => (guard, slot.into_payload()),
                }
            }
            filled => (guard, filled.into_payload()),
        };
        self.try_put(guard, Change { kind: ChangeKind::Alive, instance, source_timestamp, payload }, key)
    }

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
            // While this task waits, another thread may unregister the instance. This change then registers it again.
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
    /// Waits for room and repeats a write that found none.
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

    /// Waits until every matched reliable reader has acknowledged all samples written so far.
    ///
    /// # Errors
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`], also if the writer is deleted during the wait.
    pub fn wait_for_acknowledgments_async(&self) -> impl Future<Output = Result<(), Error>> + Send + use<T> {
        let usable = self.inner.check_open();
        let last = self.inner.request_acknowledgement();
        let acknowledged = move |state: &mut WriterState| {
            if state.closed {
                return Some(Err(Error::AlreadyDeleted));
            }
            state.writer.is_acknowledged_by_all(last).then_some(Ok(()))
        };
        let acknowledged = WaitFuture::new(Arc::clone(&self.inner.core), Awaited::Acknowledged(last), acknowledged);
        async move {
            usable?;
            acknowledged.await
        }
    }

    /// Waits until at least `readers` readers match.
    ///
    /// # Errors
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`], also if the writer is deleted during the wait.
    pub fn wait_for_readers_async(&self, readers: usize) -> impl Future<Output = Result<(), Error>> + Send + use<T> {
        let usable = self.inner.check_open();
        let matched = move |state: &mut WriterState| {
            if state.closed {
                return Some(Err(Error::AlreadyDeleted));
            }
            (state.matched.len() >= readers).then_some(Ok(()))
        };
        let matched = WaitFuture::new(Arc::clone(&self.inner.core), StatusMask::PUBLICATION_MATCHED, matched);
        async move {
            usable?;
            matched.await
        }
    }

    /// Returns the change when there is room for it, or when the writer is deleted.
    fn room_for(&self, change: Change) -> impl Future<Output = Change> + Send + use<T> {
        let mut held = Some(change);
        WaitFuture::new(Arc::clone(&self.inner.core), Awaited::Room, move |state: &mut WriterState| {
            let has_room = held.as_ref().is_none_or(|change| state.has_room(change));
            if state.closed || has_room { held.take() } else { None }
        })
    }
}

//! Samples for asynchronous programs on any executor.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use peregrine_rtps::history::Selector;
use peregrine_xtypes::DdsType;

use super::any::has_data_or_end;
use super::{DataReader, Sample};
use crate::driver::endpoint::reader::ReaderState;
use crate::driver::endpoint::waiting::WaitFuture;
use crate::error::Error;
use crate::status::StatusMask;
use crate::topic_type::TopicType;

const ONE: Selector = Selector { max_samples: 1, ..Selector::ANY };

/// A stream of the samples of a reader. Each poll takes one sample. If the reader is disabled or deleted, the stream
/// yields that error once and ends.
#[derive(Debug)]
pub struct SampleStream<T: DdsType> {
    reader: DataReader<T>,
    waiting: Option<u64>,
    has_ended: bool,
}

/// Under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), futures and streams make progress only while an application
/// thread polls. A dropped future leaves no waker behind.
impl<T: DdsType> DataReader<T> {
    /// Waits for the next sample and takes it.
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`], [`Error::NotEnabled`].
    pub async fn next(&self) -> Result<Sample<T>, Error> {
        loop {
            if let Some(sample) = self.take_selected(&ONE)?.pop() {
                return Ok(sample);
            }
            let core = Arc::clone(&self.inner.core);
            WaitFuture::new(core, StatusMask::DATA_AVAILABLE, |state: &mut ReaderState| {
                (state.closed || state.reader.cache().has_any(&ONE)).then_some(())
            })
            .await;
        }
    }

    /// A stream of all samples, in order.
    #[must_use]
    pub fn stream(&self) -> SampleStream<T> {
        SampleStream { reader: self.clone(), waiting: None, has_ended: false }
    }
}

/// The notes above on [`WaitStrategy::Poll`](crate::WaitStrategy::Poll) and dropped futures apply.
impl<T: TopicType> DataReader<T> {
    /// Waits until the reader has a sample, read or unread. The sample stays in the reader.
    ///
    /// # Errors
    /// [`Error::AlreadyDeleted`], also if the reader is deleted during the wait; [`Error::NotEnabled`].
    pub async fn wait_for_data_async(&self) -> Result<(), Error> {
        self.inner.check_enabled()?;
        WaitFuture::new(Arc::clone(&self.inner.core), StatusMask::DATA_AVAILABLE, has_data_or_end).await
    }

    /// Waits until at least `writers` writers match.
    ///
    /// # Errors
    /// [`Error::NotEnabled`]; [`Error::AlreadyDeleted`], also if the reader is deleted during the wait.
    pub fn wait_for_writers_async(&self, writers: usize) -> impl Future<Output = Result<(), Error>> + Send + use<T> {
        let usable = self.inner.check_enabled();
        let matched = move |state: &mut ReaderState| {
            if state.closed {
                return Some(Err(Error::AlreadyDeleted));
            }
            (state.matched.len() >= writers).then_some(Ok(()))
        };
        let matched = WaitFuture::new(Arc::clone(&self.inner.core), StatusMask::SUBSCRIPTION_MATCHED, matched);
        async move {
            usable?;
            matched.await
        }
    }
}

impl<T: DdsType> Stream for SampleStream<T> {
    type Item = Result<Sample<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { reader, waiting, has_ended } = &mut *self;
        if *has_ended {
            return Poll::Ready(None);
        }
        loop {
            match reader.take_selected(&ONE) {
                Err(error) => {
                    *has_ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                Ok(mut samples) => {
                    if let Some(sample) = samples.pop() {
                        return Poll::Ready(Some(Ok(sample)));
                    }
                }
            }
            let waker = context.waker().clone();
            let mut state = reader.inner.core.lock();
            if !state.closed && !state.reader.cache().has_any(&ONE) {
                *waiting = Some(state.wakers.renew(*waiting, StatusMask::DATA_AVAILABLE.into(), waker));
                return Poll::Pending;
            }
        }
    }
}

impl<T: DdsType> Drop for SampleStream<T> {
    fn drop(&mut self) {
        if let Some(id) = self.waiting {
            self.reader.inner.core.lock().wakers.remove(id);
        }
    }
}

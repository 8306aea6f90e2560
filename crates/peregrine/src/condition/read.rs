//! Conditions on the samples of a reader (DDS 1.4 §2.2.2.5.8, §2.2.2.5.9).

use std::sync::{Arc, Weak};
use std::task::Waker;

use peregrine_rtps::history::{Peeked, Selector};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::payload::Payload;
use peregrine_xtypes::{DdsType, decode};

use super::selection::{Choose, SampleCondition};
use super::trigger::{Trigger, condition};
use crate::driver::base::user_code::run_user_code;
use crate::driver::endpoint::reader::ReaderCore;
use crate::driver::host::Host;
use crate::reader::{AnyReader as _, DataReader, ReaderInner};
use crate::status::StatusMask;
use crate::topic_type::TopicType;
use crate::writer::shared;

/// True while a reader has samples in the states of a [`Selector`]. Clones are handles of the same condition.
pub struct ReadCondition<T: TopicType> {
    pub(super) inner: Arc<States<T>>,
}

/// True while a reader has samples in the states of a [`Selector`] whose values a query accepts. Clones are handles of
/// the same condition.
///
/// Each evaluation of the condition decodes the samples in these states.
pub struct QueryCondition<T: DdsType> {
    pub(super) inner: Arc<Query<T>>,
}

pub(super) struct States<T: TopicType> {
    core: Arc<ReaderCore>,
    reader: Weak<ReaderInner<T>>,
    selector: Selector,
}

pub(super) struct Query<T: DdsType> {
    states: States<T>,
    accepts: Box<dyn Fn(&T) -> bool + Send + Sync>,
}

impl<T: TopicType> DataReader<T> {
    /// Creates a condition that is true while the reader has samples in these states.
    #[must_use]
    pub fn read_condition(&self, states: Selector) -> ReadCondition<T> {
        ReadCondition { inner: Arc::new(States::new(self.inner(), states)) }
    }
}

impl<T: DdsType> DataReader<T> {
    /// Creates a condition that is true while the reader has samples in these states with a value that `query` accepts.
    #[must_use]
    pub fn query_condition(
        &self,
        states: Selector,
        query: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> QueryCondition<T> {
        let states = States::new(self.inner(), states);
        QueryCondition { inner: Arc::new(Query { states, accepts: Box::new(query) }) }
    }
}

impl<T: TopicType> ReadCondition<T> {
    /// The reader of the condition (`get_datareader`, DDS 1.4 §2.2.2.5.8.1); `None` after its last handle was dropped.
    #[must_use]
    pub fn reader(&self) -> Option<DataReader<T>> {
        self.inner.reader.upgrade().map(DataReader::from)
    }

    /// The selected states.
    #[must_use]
    pub fn selector(&self) -> &Selector {
        &self.inner.selector
    }
}

impl<T: DdsType> QueryCondition<T> {
    /// The reader of the condition (`get_datareader`, DDS 1.4 §2.2.2.5.8.1); `None` after its last handle was dropped.
    #[must_use]
    pub fn reader(&self) -> Option<DataReader<T>> {
        self.inner.states.reader.upgrade().map(DataReader::from)
    }

    /// The selected states.
    #[must_use]
    pub fn selector(&self) -> &Selector {
        &self.inner.states.selector
    }
}

impl<T: TopicType> States<T> {
    fn new(reader: &Arc<ReaderInner<T>>, selector: Selector) -> Self {
        Self { core: Arc::clone(reader.core()), reader: Arc::downgrade(reader), selector }
    }
}

impl<T: DdsType> Query<T> {
    /// The samples in these states that the query accepts. The query runs under no lock.
    fn matches(&self, instance: Option<KeyHash>) -> Vec<Peeked> {
        let States { core, selector, .. } = &self.states;
        let selector = Selector { instance: instance.or(selector.instance), max_samples: usize::MAX, ..*selector };
        let mut found = Vec::new();
        core.lock().reader.peek(&selector, &mut found);
        found.retain(|Peeked { selected, .. }| {
            selected.info.valid_data && is_accepted::<T>(&selected.payload, &self.accepts)
        });
        found
    }
}

fn is_accepted<T: DdsType>(payload: &Payload, accepts: &dyn Fn(&T) -> bool) -> bool {
    match shared::value::<T>(payload) {
        Some(value) => run_user_code(|| accepts(value)),
        None => run_user_code(|| decode::<T>(payload).is_ok_and(|value| accepts(&value))),
    }
}

condition!(ReadCondition<T: TopicType>);
condition!(QueryCondition<T: DdsType>);

impl<T: TopicType> SampleCondition<T> for ReadCondition<T> {}
impl<T: DdsType> SampleCondition<T> for QueryCondition<T> {}

impl<T: TopicType> Choose for ReadCondition<T> {
    fn reader(&self) -> Guid {
        self.inner.core.guid
    }

    fn selector(&self) -> Selector {
        self.inner.selector
    }

    fn choose(&self, _: Option<KeyHash>) -> Option<Vec<Peeked>> {
        None
    }
}

impl<T: DdsType> Choose for QueryCondition<T> {
    fn reader(&self) -> Guid {
        self.inner.states.core.guid
    }

    fn selector(&self) -> Selector {
        self.inner.states.selector
    }

    fn choose(&self, instance: Option<KeyHash>) -> Option<Vec<Peeked>> {
        Some(self.inner.matches(instance))
    }
}

impl<T: TopicType> Trigger for States<T> {
    fn is_triggered(&self) -> bool {
        self.core.lock().reader.cache().has_any(&self.selector)
    }

    fn watch(&self, waker: Waker) -> u64 {
        self.core.lock().wakers.add(StatusMask::DATA_AVAILABLE.into(), waker)
    }

    fn unwatch(&self, id: u64) {
        self.core.lock().wakers.remove(id);
    }

    fn host(&self) -> Option<&Arc<dyn Host>> {
        Some(&self.core.host)
    }
}

impl<T: DdsType> Trigger for Query<T> {
    fn is_triggered(&self) -> bool {
        !self.matches(None).is_empty()
    }

    fn watch(&self, waker: Waker) -> u64 {
        self.states.watch(waker)
    }

    fn unwatch(&self, id: u64) {
        self.states.unwatch(id);
    }

    fn host(&self) -> Option<&Arc<dyn Host>> {
        self.states.host()
    }
}

impl<T: TopicType> Clone for ReadCondition<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T: DdsType> Clone for QueryCondition<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T: TopicType> std::fmt::Debug for ReadCondition<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadCondition").field("selector", self.selector()).finish_non_exhaustive()
    }
}

impl<T: DdsType> std::fmt::Debug for QueryCondition<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryCondition").field("selector", self.selector()).finish_non_exhaustive()
    }
}

//! Discovered entities of the domain: the builtin topics as events (DDS 1.4 §2.2.5).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use peregrine_rtps::qos::TopicQos;

use crate::condition::DiscoveryCondition;
use crate::driver::endpoint::waiting::wait_until;
pub use crate::driver::session::observer::DiscoveryEvent;
use crate::driver::session::observer::Observer;
use crate::driver::session::participant::{Locked, ParticipantCore};
use crate::status::StatusMask;

/// A topic as the endpoints of other participants announce it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub struct DiscoveredTopic {
    /// The name of the topic.
    pub name: String,
    /// The name of the type of the topic.
    pub type_name: String,
    /// Whether the type of the topic has a key.
    pub has_key: bool,
}

/// The data that endpoints of other participants announce about a topic.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct DiscoveredTopicData {
    /// The topic.
    pub topic: DiscoveredTopic,
    /// The policies of the topic, as an endpoint announces them. Policies that endpoints do not announce (HISTORY,
    /// RESOURCE_LIMITS, TRANSPORT_PRIORITY) have their defaults.
    pub qos: TopicQos,
}

/// The discovery events of one participant, in order. A program polls them, waits for them, or uses them as a stream.
/// The events end when the participant is closed.
pub struct DiscoveryEvents {
    core: Arc<ParticipantCore>,
    id: u64,
    condition: DiscoveryCondition,
    waiting: Option<u64>,
}

impl DiscoveryEvents {
    pub(crate) fn new(core: Arc<ParticipantCore>) -> Self {
        let mut locked = core.lock();
        let mut observer = Observer::new(locked.next_observer());
        let rtps = &locked.rtps;
        rtps.remote_participants().for_each(|p| observer.push(DiscoveryEvent::ParticipantFound(p.clone())));
        rtps.remote_publications().for_each(|p| observer.push(DiscoveryEvent::PublicationFound(p.clone())));
        rtps.remote_subscriptions().for_each(|s| observer.push(DiscoveryEvent::SubscriptionFound(s.clone())));
        let id = observer.id();
        locked.observers.push(observer);
        drop(locked);
        let condition = DiscoveryCondition::new(Arc::clone(&core), id);
        Self { core, id, condition, waiting: None }
    }

    /// Takes the next event without waiting; `None` if there is none.
    #[must_use]
    pub fn try_next(&mut self) -> Option<DiscoveryEvent> {
        take(&mut self.core.lock(), self.id)
    }

    /// Waits for the next event and takes it; `None` after `timeout`, or when the participant is closed.
    #[must_use]
    pub fn wait_next(&mut self, timeout: Duration) -> Option<DiscoveryEvent> {
        wait_until(&*self.core, timeout, StatusMask::ALL, |locked| take_or_end(locked, self.id)).flatten()
    }

    /// The condition on these events, for a [`WaitSet`](crate::WaitSet) that waits for other conditions too. It is true
    /// while [`Self::try_next`] has an event, and after the participant was closed; it stays valid after `self` is
    /// dropped, and is false then until the participant is closed.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), peregrine::Error> {
    /// use std::time::Duration;
    ///
    /// use peregrine::{DomainParticipant, Selector, WaitSet};
    ///
    /// let participant = DomainParticipant::new(0)?;
    /// let reader = participant.topic::<u32>("numbers")?.reader()?;
    /// let mut events = participant.discovery_events();
    /// let samples = reader.read_condition(Selector::ANY);
    /// let set = WaitSet::new();
    /// set.attach(events.condition());
    /// set.attach(&samples);
    /// for condition in set.wait(Duration::from_secs(1))? {
    ///     if condition == *events.condition() {
    ///         while let Some(event) = events.try_next() {
    ///             println!("{event:?}");
    ///         }
    ///     } else if condition == samples {
    ///         println!("{} samples", reader.take()?.len());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn condition(&self) -> &DiscoveryCondition {
        &self.condition
    }

    /// How many events were dropped because the application did not look for so long.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.core.lock().observers.iter().find(|o| o.id() == self.id).map_or(0, Observer::missed)
    }
}

fn take(locked: &mut Locked, id: u64) -> Option<DiscoveryEvent> {
    locked.observers.iter_mut().find(|o| o.id() == id)?.next()
}

/// The next event, or the end of the events; `None` if there is neither yet.
fn take_or_end(locked: &mut Locked, id: u64) -> Option<Option<DiscoveryEvent>> {
    let event = take(locked, id);
    (event.is_some() || locked.is_closing()).then_some(event)
}

impl Stream for DiscoveryEvents {
    type Item = DiscoveryEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<DiscoveryEvent>> {
        let Self { core, id, waiting, .. } = &mut *self;
        let waker = context.waker().clone();
        let mut locked = core.lock();
        if let Some(event) = take_or_end(&mut locked, *id) {
            return Poll::Ready(event);
        }
        *waiting = Some(locked.wakers.renew(*waiting, StatusMask::ALL.into(), waker));
        Poll::Pending
    }
}

impl Drop for DiscoveryEvents {
    fn drop(&mut self) {
        let mut locked = self.core.lock();
        locked.observers.retain(|o| o.id() != self.id);
        if let Some(waiting) = self.waiting {
            locked.wakers.remove(waiting);
        }
    }
}

impl std::fmt::Debug for DiscoveryEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiscoveryEvents").field("missed", &self.missed()).finish_non_exhaustive()
    }
}

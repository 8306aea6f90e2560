//! What is found in the domain: the builtin topics as events (DDS 1.4 §2.2.5).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use peregrine_rtps::discovery::data::{ParticipantData, PublicationData, SubscriptionData};
use peregrine_rtps::id::{Guid, GuidPrefix};
use peregrine_rtps::participant::LostReason;
use peregrine_rtps::qos::NonMatch;

use crate::driver::participant::{Locked, ParticipantCore};
use crate::driver::wait_until;
use crate::shared_memory::DeliveryPath;
use crate::status::StatusMask;

/// Events kept for whoever has not looked yet; past that, the oldest are dropped and counted.
const EVENTS_MAX: usize = 4096;

/// Something found or lost in the domain.
#[derive(Clone, Debug)]
pub enum DiscoveryEvent {
    /// A participant was found, or says something new about itself.
    ParticipantFound(ParticipantData),
    /// A participant is gone.
    ParticipantLost(GuidPrefix, LostReason),
    /// A writer was found, or its policies have changed.
    PublicationFound(PublicationData),
    /// A writer is gone.
    PublicationLost(Guid),
    /// A reader was found, or its policies have changed.
    SubscriptionFound(SubscriptionData),
    /// A reader is gone.
    SubscriptionLost(Guid),
    /// A writer and a reader of the same topic do not match, one of them at least of this participant. Told again when the
    /// reason changes.
    NotMatched {
        /// The one of this participant.
        local: Guid,
        /// The other one.
        remote: Guid,
        /// Why not, with both values.
        reason: NonMatch,
    },
    /// The samples of a matched writer reach a reader by another way than before, or could not. Told of participants that both
    /// offer shared memory, by the side of the reader, and by that of the writer once a channel was there; what nothing is told
    /// of goes in messages.
    PathChanged {
        /// The one of this participant.
        local: Guid,
        /// The other one.
        remote: Guid,
        /// By which way now.
        path: DeliveryPath,
    },
}

/// The events of one participant, in order: to be asked, waited for, or used as a stream.
pub struct DiscoveryEvents {
    core: Arc<ParticipantCore>,
    id: u64,
    waiting: Option<u64>,
}

/// Where events wait for one who looks.
pub(crate) struct Observer {
    pub(crate) id: u64,
    queue: VecDeque<DiscoveryEvent>,
    missed: u64,
}

impl DiscoveryEvents {
    pub(crate) fn new(core: Arc<ParticipantCore>) -> Self {
        let mut locked = core.lock();
        let mut observer = Observer { id: locked.next_observer(), queue: VecDeque::new(), missed: 0 };
        let rtps = &locked.rtps;
        rtps.remote_participants().for_each(|p| observer.push(DiscoveryEvent::ParticipantFound(p.clone())));
        rtps.remote_publications().for_each(|p| observer.push(DiscoveryEvent::PublicationFound(p.clone())));
        rtps.remote_subscriptions().for_each(|s| observer.push(DiscoveryEvent::SubscriptionFound(s.clone())));
        let id = observer.id;
        locked.observers.push(observer);
        drop(locked);
        Self { core, id, waiting: None }
    }

    /// The next event, if there is one.
    #[must_use]
    pub fn try_next(&mut self) -> Option<DiscoveryEvent> {
        take(&mut self.core.lock(), self.id)
    }

    /// Waits for the next event; `None` when `timeout` is over.
    #[must_use]
    pub fn wait_next(&mut self, timeout: Duration) -> Option<DiscoveryEvent> {
        wait_until(&*self.core, timeout, StatusMask::ALL, |locked| take(locked, self.id))
    }

    /// How many events were dropped because nobody looked at them for so long.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.core.lock().observers.iter().find(|o| o.id == self.id).map_or(0, |o| o.missed)
    }
}

impl Observer {
    pub(crate) fn push(&mut self, event: DiscoveryEvent) {
        if self.queue.len() >= EVENTS_MAX {
            self.queue.pop_front();
            self.missed = self.missed.saturating_add(1);
        }
        self.queue.push_back(event);
    }
}

fn take(locked: &mut Locked, id: u64) -> Option<DiscoveryEvent> {
    locked.observers.iter_mut().find(|o| o.id == id)?.queue.pop_front()
}

impl Stream for DiscoveryEvents {
    type Item = DiscoveryEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<DiscoveryEvent>> {
        let Self { core, id, waiting } = &mut *self;
        let mut locked = core.lock();
        if let Some(event) = take(&mut locked, *id) {
            return Poll::Ready(Some(event));
        }
        *waiting = Some(locked.wakers.renew(*waiting, StatusMask::ALL, context.waker()));
        Poll::Pending
    }
}

impl Drop for DiscoveryEvents {
    fn drop(&mut self) {
        let mut locked = self.core.lock();
        locked.observers.retain(|o| o.id != self.id);
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

//! Conditions: what a [`WaitSet`] waits for (DDS 1.4 §2.2.4.4).

mod guard;
mod read;
mod status;
mod wait_set;

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

pub use guard::GuardCondition;
pub(crate) use read::sealed::Choose;
pub use read::{QueryCondition, ReadCondition, SampleCondition};
pub use status::StatusCondition;
pub(crate) use status::{NoStatuses, StatusSource};
pub use wait_set::WaitSet;

use crate::driver::domain::Domain;
use crate::participant::DomainParticipant;
use crate::publisher::Publisher;
use crate::reader::AnyDataReader;
use crate::subscriber::Subscriber;
use crate::writer::AnyDataWriter;

/// An entity that has a [`StatusCondition`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Entity {
    /// A participant.
    DomainParticipant(DomainParticipant),
    /// A topic of a participant.
    Topic {
        /// The participant.
        participant: DomainParticipant,
        /// The name of the topic.
        name: Arc<str>,
    },
    /// A publisher.
    Publisher(Publisher),
    /// A subscriber.
    Subscriber(Subscriber),
    /// A writer.
    DataWriter(AnyDataWriter),
    /// A reader.
    DataReader(AnyDataReader),
}

/// Any condition. Two are equal when they are the same one.
#[derive(Clone)]
pub struct Condition(pub(crate) Arc<dyn Trigger>);

/// What all conditions can do.
pub(crate) trait Trigger: Send + Sync {
    fn is_triggered(&self) -> bool;

    /// Wakes `waker` whenever the condition may have become true, from now on until `unwatch`.
    fn watch(&self, waker: Waker) -> u64;

    fn unwatch(&self, id: u64);

    /// The domain whose news make it true; `None` if it is the application's business alone.
    fn domain(&self) -> Option<&Arc<Domain>>;
}

impl Condition {
    /// Whether it holds now.
    #[must_use]
    pub fn trigger_value(&self) -> bool {
        self.0.is_triggered()
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

impl Eq for Condition {}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("trigger_value", &self.trigger_value()).finish_non_exhaustive()
    }
}

/// Lets each kind of condition stand where any condition may, and be compared with one.
macro_rules! conditions {
    ($($name:ident $(<$type:ident: $bound:path>)?),*) => {$(
        impl $(<$type: $bound>)? $name $(<$type>)? {
            /// Whether it holds now.
            #[must_use]
            pub fn trigger_value(&self) -> bool {
                self.inner.is_triggered()
            }
        }

        impl $(<$type: $bound>)? From<&$name $(<$type>)?> for Condition {
            fn from(condition: &$name $(<$type>)?) -> Self {
                Self(Arc::clone(&condition.inner) as _)
            }
        }

        impl $(<$type: $bound>)? PartialEq<$name $(<$type>)?> for Condition {
            fn eq(&self, other: &$name $(<$type>)?) -> bool {
                std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.inner))
            }
        }
    )*};
}
conditions!(GuardCondition, StatusCondition, ReadCondition<T: crate::TopicType>, QueryCondition<T: crate::DdsType>);

//! Operations that the handles of writers and readers have in common.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use peregrine_rtps::id::Guid;
use peregrine_rtps::qos::NonMatch;

use crate::driver::endpoint::topic::Listening;
use crate::driver::session::participant::{Abandoned, ParticipantCore};
use crate::error::{Error, Timeout, Unmatched};
use crate::status::StatusMask;

/// The common operations of the handle of an endpoint, with its type (`$typed`) and without (`$any`).
macro_rules! endpoint_handles {
    ($typed:ident, $any:ident) => {
        impl $any {
            /// The GUID of the endpoint.
            #[must_use]
            pub fn guid(&self) -> Guid {
                self.0.core().guid
            }

            /// The name of the topic of the endpoint.
            #[must_use]
            pub fn topic_name(&self) -> &str {
                &self.0.core().topic.name
            }

            /// The name of the type of the endpoint.
            #[must_use]
            pub fn type_name(&self) -> &str {
                &self.0.core().topic.type_name
            }

            /// Whether its type has a key.
            #[must_use]
            pub fn has_key(&self) -> bool {
                self.guid().entity.has_key()
            }

            /// The same with its type, if that is `T`.
            #[must_use]
            pub fn downcast<T: TopicType>(&self) -> Option<$typed<T>> {
                let any: Arc<dyn std::any::Any + Send + Sync> = Arc::clone(&self.0) as _;
                any.downcast().ok().map(|inner| $typed { inner })
            }
        }

        impl<T: TopicType> From<&$typed<T>> for $any {
            fn from(typed: &$typed<T>) -> Self {
                Self(Arc::clone(&typed.inner) as _)
            }
        }

        impl std::fmt::Debug for $any {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($any)).field("guid", &self.guid()).field("topic", &self.topic_name()).finish()
            }
        }

        impl<T: TopicType> Clone for $typed<T> {
            fn clone(&self) -> Self {
                Self { inner: Arc::clone(&self.inner) }
            }
        }

        impl<T: TopicType> Drop for $typed<T> {
            /// The drop of the last handle waits until a listener that runs on another thread returns.
            fn drop(&mut self) {
                self.inner.core.gate.close_and_wait(|running| Arc::strong_count(&self.inner) <= running + 1);
            }
        }

        impl<T: TopicType> std::fmt::Debug for $typed<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let topic = self.inner.topic.name();
                f.debug_struct(stringify!($typed)).field("guid", &self.guid()).field("topic", &topic).finish()
            }
        }
    };
}
pub(crate) use endpoint_handles;

/// Calls the nearest listener for each changed status, with the value of the status.
macro_rules! tell {
    ($hook:ident, $endpoint:ident as $any:ident, $statuses:ident: $($status:ident: $told:ident($read:ident),)*) => {$(
        if $statuses.contains(StatusMask::$status) {
            $endpoint.inner.core.gate.call_back(StatusMask::$status, || {
                if let Some(own) = nearest(StatusMask::$status, [&$hook.own]) {
                    own.$told(&$endpoint, $endpoint.$read());
                } else if let Some(upper) = nearest(StatusMask::$status, &$hook.upper) {
                    upper.$told(&$any::from(&$endpoint), $endpoint.$read());
                }
            });
        }
    )*};
}
pub(crate) use tell;

/// The nearest listener that handles this status.
pub(crate) fn nearest<'l, L: ?Sized + 'l>(
    status: StatusMask,
    listeners: impl IntoIterator<Item = &'l Listening<L>>,
) -> Option<&'l Arc<L>> {
    listeners.into_iter().flatten().find(|(_, mask)| mask.contains(status)).map(|(listener, _)| listener)
}

/// Why no more endpoints match: the last endpoint that did not match, otherwise the missing endpoint or participant.
pub(crate) fn why_unmatched(last: Option<(Guid, NonMatch)>, participant: &ParticipantCore) -> Unmatched {
    if let Some((endpoint, reason)) = last {
        return Unmatched::Mismatch { endpoint, reason };
    }
    match participant.remote_participants().len() {
        0 => Unmatched::NoParticipant,
        participants => Unmatched::NoEndpoint { participants },
    }
}

/// The result of closing writers; `abandoned` holds the samples that readers miss.
pub(crate) fn flushed(abandoned: impl IntoIterator<Item = Arc<Abandoned>>, waited: Duration) -> Result<(), Error> {
    let (mut writers, mut samples) = (0, 0);
    for writer in abandoned {
        writers += writer.writers.load(Ordering::Relaxed);
        samples += writer.samples.load(Ordering::Relaxed);
    }
    if writers == 0 { Ok(()) } else { Err(Timeout::NotFlushed { writers, samples, waited }.into()) }
}

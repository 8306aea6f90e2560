//! The common interface of all kinds of conditions.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use crate::driver::host::Host;
/// A condition of any kind. Two values are equal if they are handles of the same condition.
#[derive(Clone)]
pub struct Condition(pub(crate) Arc<dyn Trigger>);

/// The part of a condition that a wait set uses.
pub(crate) trait Trigger: Send + Sync {
    fn is_triggered(&self) -> bool;

    /// Registers `waker`, which is woken whenever the condition may have become true, until `unwatch` is called with
    /// the returned id.
    fn watch(&self, waker: Waker) -> u64;

    fn unwatch(&self, id: u64);

    /// The host whose threads can make the condition true; `None` if only the application can.
    fn host(&self) -> Option<&Arc<dyn Host>>;
}

impl Condition {
    /// Whether the condition is true now.
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

/// Implements conversion to [`Condition`] and comparison with it for one kind of condition.
macro_rules! condition {
    ($name:ident $(<$type:ident: $bound:path>)?) => {
        impl $(<$type: $bound>)? $name $(<$type>)? {
            /// Whether the condition is true now.
            #[must_use]
            pub fn trigger_value(&self) -> bool {
                self.inner.is_triggered()
            }
        }

        impl $(<$type: $bound>)? From<&$name $(<$type>)?> for $crate::Condition {
            fn from(condition: &$name $(<$type>)?) -> Self {
                Self(std::sync::Arc::clone(&condition.inner) as _)
            }
        }

        impl $(<$type: $bound>)? PartialEq<$name $(<$type>)?> for $crate::Condition {
            fn eq(&self, other: &$name $(<$type>)?) -> bool {
                std::ptr::addr_eq(std::sync::Arc::as_ptr(&self.0), std::sync::Arc::as_ptr(&other.inner))
            }
        }
    };
}
pub(crate) use condition;

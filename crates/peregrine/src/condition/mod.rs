//! Conditions, for which a [`WaitSet`] waits (DDS 1.4 §2.2.4.4).

mod discovery;
mod guard;
mod read;
mod selection;
mod status;
mod trigger;
mod wait_set;

pub use discovery::DiscoveryCondition;
pub use guard::GuardCondition;
pub use read::{QueryCondition, ReadCondition};
pub(crate) use selection::Choose;
pub use selection::SampleCondition;
pub use status::StatusCondition;
pub(crate) use status::{NoStatuses, StatusSource};
pub use trigger::Condition;
pub use wait_set::WaitSet;

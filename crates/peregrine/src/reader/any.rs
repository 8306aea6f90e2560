//! Readers without their type.

use std::any::Any;
use std::sync::Arc;

use peregrine_rtps::discovery::data::SubscriptionData;

use crate::driver::reader::ReaderCore;
use crate::error::Error;

/// A reader of any type.
#[derive(Clone)]
pub struct AnyDataReader(pub(super) Arc<dyn AnyReader>);

/// What can be done with a reader without knowing its type.
pub(crate) trait AnyReader: Any + Send + Sync {
    fn core(&self) -> &Arc<ReaderCore>;
    fn enable(&self) -> Result<(), Error>;
    /// Its policies, or those of its topic or subscriber, have changed.
    fn announce(&self);
    fn delete(&self);
    /// What it announces.
    fn data(&self) -> SubscriptionData;
    /// Tells its listener that there is something to take.
    fn notify(&self);
    /// Its listener, or one above it, has changed.
    fn refresh(self: Arc<Self>);
}

impl AnyDataReader {
    pub(crate) const fn new(reader: Arc<dyn AnyReader>) -> Self {
        Self(reader)
    }
}

//! Writers without their type.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use peregrine_rtps::discovery::data::PublicationData;

use crate::driver::writer::WriterCore;
use crate::error::Error;

/// A writer of any type.
#[derive(Clone)]
pub struct AnyDataWriter(pub(super) Arc<dyn AnyWriter>);

/// What can be done with a writer without knowing its type.
pub(crate) trait AnyWriter: Any + Send + Sync {
    fn core(&self) -> &Arc<WriterCore>;
    fn enable(&self) -> Result<(), Error>;
    /// Its policies, or those of its topic or publisher, have changed.
    fn announce(&self);
    fn delete(&self);
    fn wait_for_acknowledgments(&self, timeout: Duration) -> Result<(), Error>;
    /// Gathers samples into messages until its publisher resumes publications.
    fn suspend(&self, is_suspended: bool);
    /// What it announces.
    fn data(&self) -> PublicationData;
    /// Its listener, or one above it, has changed.
    fn refresh(self: Arc<Self>);
}

impl AnyDataWriter {
    pub(crate) const fn new(writer: Arc<dyn AnyWriter>) -> Self {
        Self(writer)
    }
}

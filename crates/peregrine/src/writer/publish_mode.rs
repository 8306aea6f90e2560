//! Synchronous and asynchronous publishing.

pub use crate::driver::endpoint::flow::FlowController;

/// The thread that sends the samples of a writer. The mode is local to the writer: discovery does not announce it, and
/// readers match either mode.
#[derive(Clone, Debug, Default)]
pub enum PublishMode {
    /// The writing thread sends each sample before the write returns.
    #[default]
    Synchronous,
    /// A write adds the sample to the writer's history and returns. The publishing thread of the domain sends it when
    /// the flow controller permits; under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), the polling thread sends
    /// it.
    ///
    /// HISTORY and RESOURCE_LIMITS bound the waiting samples: with KEEP_ALL a write blocks while there is no room, with
    /// KEEP_LAST it replaces samples that have not been sent. Small waiting samples share a datagram.
    Asynchronous {
        /// The flow controller, which limits the rate.
        flow: FlowController,
    },
}

impl PublishMode {
    /// The flow controller of an asynchronous writer.
    pub(crate) const fn flow(&self) -> Option<&FlowController> {
        match self {
            Self::Synchronous => None,
            Self::Asynchronous { flow } => Some(flow),
        }
    }
}

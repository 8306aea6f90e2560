//! When samples leave: at once, or by a thread of the domain as a flow controller lets them.

pub use crate::driver::endpoint::flow::FlowController;

/// The thread that sends the samples of a writer. The mode is local to the writer: discovery does not announce it, and
/// readers match either mode.
#[derive(Clone, Debug, Default)]
pub enum PublishMode {
    /// The writing thread sends each sample before the write returns.
    #[default]
    Synchronous,
    /// A write puts the sample into the writer's history and returns. A thread of the domain sends it, as soon as the
    /// flow controller lets it; under [`WaitStrategy::Poll`](crate::WaitStrategy::Poll), the thread that polls does.
    ///
    /// HISTORY and RESOURCE_LIMITS bound what waits: under KEEP_ALL a write blocks while there is no room, KEEP_LAST
    /// replaces samples that have not been sent. Small samples that wait together leave in one datagram.
    Asynchronous {
        /// How fast.
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

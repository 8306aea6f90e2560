//! The part of a participant that its endpoints use.

use std::sync::Arc;

use crate::driver::base::endpoint_timers::EndpointTimer;
use crate::driver::host::Host;

/// The part of a participant that an endpoint uses.
pub(crate) struct EndpointContext {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) timer: EndpointTimer,
    /// Samples whose payloads are not protected may reach other participants of the host outside of messages.
    pub(crate) trusts_host: bool,
}

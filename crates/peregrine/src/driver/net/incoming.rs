//! A received message, from any transport.

use std::sync::Arc;

use peregrine_rtps::locator::Source;
use peregrine_transport::udp::Datagram;

/// A message with the buffer that contains it.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct Incoming<'d> {
    pub(in crate::driver) buffer: &'d Arc<Vec<u8>>,
    pub(in crate::driver) bytes: &'d [u8],
    pub(in crate::driver) source: Source,
}

impl<'d> From<Datagram<'d>> for Incoming<'d> {
    #[inline]
    fn from(datagram: Datagram<'d>) -> Self {
        Self { buffer: datagram.buffer, bytes: datagram.bytes(), source: Source::Datagram(datagram.source) }
    }
}

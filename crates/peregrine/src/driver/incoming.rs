//! A message that has come, whatever it came by.

use std::sync::Arc;

use peregrine_rtps::locator::Source;
use peregrine_transport::udp::Datagram;

/// A message with the buffer that it lies in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<'d> {
    pub(super) buffer: &'d Arc<Vec<u8>>,
    pub(super) bytes: &'d [u8],
    pub(super) source: Source,
}

impl<'d> From<Datagram<'d>> for Incoming<'d> {
    #[inline]
    fn from(datagram: Datagram<'d>) -> Self {
        Self { buffer: datagram.buffer, bytes: datagram.bytes(), source: Source::Datagram(datagram.source) }
    }
}

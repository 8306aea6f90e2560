//! What every way has at its ends.

use std::io;
use std::time::Duration;

/// A receiver that has waited this long looks whether there will be anything at all.
pub(super) const SILENCE: Duration = Duration::from_millis(20);
/// Asked of the kernel for sockets. What it grants less shows as loss.
pub(super) const BUFFER_BYTES: usize = 8 << 20;
/// No datagram is longer.
pub(super) const DATAGRAM_BYTES: usize = 1 << 16;

/// One end of a way from thread to thread.
pub(super) trait End: Send {
    /// Sends the message; as many times as leave together at no more cost. How many were sent; 0 if there was no room.
    fn send(&mut self, message: &[u8]) -> io::Result<u64>;

    /// Waits for messages. How many have arrived as a whole; `None` when nothing came for [`SILENCE`].
    fn receive(&mut self) -> io::Result<Option<u64>>;
}

/// Both ends, the sender's first.
pub(super) type Ends = (Box<dyn End>, Box<dyn End>);

/// What a socket says when its time is over, or when it would have to wait.
pub(super) fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

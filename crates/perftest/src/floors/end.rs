//! The ends of a floor.

use std::io;
use std::time::Duration;

/// After this time without a message a receiver checks whether the sender has ended.
pub(super) const SILENCE: Duration = Duration::from_millis(20);
/// Requested socket buffers. A smaller grant shows as loss.
pub(super) const BUFFER_BYTES: usize = 8 << 20;
/// Longest datagram.
pub(super) const DATAGRAM_BYTES: usize = 1 << 16;

/// One end of a path between two threads.
pub(super) trait End: Send {
    /// Sends the message, as often as one call sends it. Returns how often; 0 if there was no room.
    fn send(&mut self, message: &[u8]) -> io::Result<u64>;

    /// Waits for messages. Returns the number of messages that have arrived completely; `None` if none has arrived for
    /// [`SILENCE`].
    fn receive(&mut self) -> io::Result<Option<u64>>;
}

/// Both ends, the sender's first.
pub(super) type Ends = (Box<dyn End>, Box<dyn End>);

/// Errors of a socket after its timeout, or when it would block.
pub(super) fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

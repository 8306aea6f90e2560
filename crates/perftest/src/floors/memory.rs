//! Shared memory: each message is copied in and out.

use std::io;

use peregrine_transport::floor::{Receiver, Sender, Wait, ring};

use super::end::{End, Ends, SILENCE};

/// Messages in flight, if they are small.
const SLOTS: usize = 64;
/// Total size of large messages in flight, so that they stay in the caches as far as two of them do.
const RING_BYTES: usize = 8 << 20;

/// The waiting side spins.
pub(super) fn spin(size: usize) -> io::Result<Ends> {
    ends(size, Wait::Spin)
}

/// The waiting side sleeps at once.
pub(super) fn futex(size: usize) -> io::Result<Ends> {
    ends(size, Wait::Futex)
}

fn ends(size: usize, wait: Wait) -> io::Result<Ends> {
    let slots = (RING_BYTES / size.max(1)).clamp(2, SLOTS);
    let (there, far_receiver) = ring(slots, size, wait)?;
    let (back, near_receiver) = ring(slots, size, wait)?;
    let end = |sender, receiver| -> Box<dyn End> { Box::new(Memory { sender, receiver, buffer: vec![0; size] }) };
    Ok((end(there, near_receiver), end(back, far_receiver)))
}

struct Memory {
    sender: Sender,
    receiver: Receiver,
    buffer: Vec<u8>,
}

impl End for Memory {
    fn send(&mut self, message: &[u8]) -> io::Result<u64> {
        self.sender.send(message, SILENCE).map(u64::from)
    }

    fn receive(&mut self) -> io::Result<Option<u64>> {
        Ok(self.receiver.receive(&mut self.buffer, SILENCE)?.map(|_| 1))
    }
}

//! Shared memory: each message is copied in and out.

use std::io;

use peregrine_transport::floor::{Receiver, Sender, Wait, ring};

use super::end::{DATAGRAM_BYTES, End, Ends, SILENCE};

/// Messages under way.
const SLOTS: usize = 64;

/// Whoever waits never sleeps.
pub(super) fn spin(size: usize) -> io::Result<Ends> {
    ends(size, Wait::Spin)
}

/// Whoever waits sleeps at once.
pub(super) fn futex(size: usize) -> io::Result<Ends> {
    ends(size, Wait::Futex)
}

fn ends(size: usize, wait: Wait) -> io::Result<Ends> {
    let (there, far_receiver) = ring(SLOTS, size, wait)?;
    let (back, near_receiver) = ring(SLOTS, size, wait)?;
    let end =
        |sender, receiver| -> Box<dyn End> { Box::new(Memory { sender, receiver, buffer: vec![0; DATAGRAM_BYTES] }) };
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

//! Messages to the same destinations, combined for one system call: gathering, and trains of equal messages.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use arrayvec::ArrayVec;
use peregrine_rtps::locator::Locator;
use peregrine_rtps::transmit::Message;
use peregrine_transport::udp::{MAX_SEGMENTS, MAX_TRAIN_BYTES, Transmit};

/// Maximum number of slices and transmits per call of the socket.
const SLICES: usize = 512;
pub(super) const TRANSMITS: usize = 32;

/// Messages to the same destinations that are passed to the system at once.
pub(super) struct Run<'a> {
    pub(in crate::driver) to: &'a Arc<[Locator]>,
    pub(super) slices: ArrayVec<IoSlice<'a>, SLICES>,
    trains: ArrayVec<Train, TRANSMITS>,
    pub(in crate::driver) messages: usize,
    /// The single messages, if they are also for peers with connections.
    kept: Option<Vec<Message<'a>>>,
}

impl<'a> Run<'a> {
    pub(in crate::driver) fn new(first: Message<'a>) -> Self {
        Self { to: first.to(), slices: ArrayVec::new(), trains: ArrayVec::new(), messages: 0, kept: None }
    }

    /// Gathers `first` and the messages after it, as long as they go to the same destinations and there is room.
    /// Messages of equal length are sent as one train. Returns the first message that is not of the run.
    pub(super) fn gather(
        &mut self,
        first: Message<'a>,
        messages: &mut impl ExactSizeIterator<Item = Message<'a>>,
    ) -> Option<Message<'a>> {
        let mut current = Some(first);
        while let Some(message) = current.filter(|m| Arc::ptr_eq(m.to(), self.to) || m.to() == self.to) {
            let is_full = self.slices.len() + message.part_count() > SLICES;
            let joins = !is_full && self.trains.last().is_some_and(|train| train.takes(message.len()));
            if !joins && (is_full || self.trains.is_full()) && self.messages > 0 {
                return Some(message);
            }
            self.push(message, joins, messages.len() + 1);
            current = messages.next();
        }
        current
    }

    /// Keeps the messages that are gathered from now on.
    #[cold]
    pub(super) fn keep_messages(&mut self) {
        self.kept = Some(Vec::new());
    }

    pub(super) fn kept_messages(&self) -> impl Iterator<Item = &Message<'a>> {
        self.kept.iter().flatten()
    }

    /// Adds a message to the last train, or begins one; `left` messages remain, including this one.
    fn push(&mut self, message: Message<'a>, joins: bool, left: usize) {
        let (len, first_slice) = (message.len(), self.slices.len());
        for part in message.parts() {
            if self.slices.try_push(IoSlice::new(part)).is_err() {
                break;
            }
        }
        let slices = self.slices.len() - first_slice;
        match self.trains.last_mut().filter(|_| joins) {
            Some(train) => {
                train.slices += slices;
                train.bytes += len;
                train.segments += 1;
                train.ended = len < train.segment_bytes;
            }
            None => self.trains.push(Train {
                first_slice,
                slices,
                segment_bytes: len,
                bytes: len,
                segments: 1,
                segments_max: even_train(len, left),
                ended: false,
            }),
        }
        self.messages += 1;
        if let Some(kept) = &mut self.kept {
            kept.push(message);
        }
    }

    /// The trains except those that contain only the first `ahead` messages. Sets `ahead` to the number of skipped
    /// messages.
    pub(super) fn trains_from(&self, ahead: &mut usize) -> &[Train] {
        let (mut trains, mut messages) = (0, 0);
        for train in &self.trains {
            if messages + train.segments > *ahead {
                break;
            }
            trains += 1;
            messages += train.segments;
        }
        *ahead = messages;
        self.trains.get(trains..).unwrap_or(&[])
    }
}

/// One transmit that is being built.
pub(super) struct Train {
    first_slice: usize,
    slices: usize,
    segment_bytes: usize,
    bytes: usize,
    pub(in crate::driver) segments: usize,
    segments_max: usize,
    /// A shorter message ends a train.
    ended: bool,
}

/// The number of messages of this length per train, for `messages` in total: equal for all trains except the last. The
/// receiver processes the first train while the sender sends the next; with a long train before a short one it would
/// wait for both.
fn even_train(message_bytes: usize, messages: usize) -> usize {
    let longest = (MAX_TRAIN_BYTES / message_bytes.max(1)).clamp(1, MAX_SEGMENTS);
    messages.div_ceil(messages.div_ceil(longest).max(1)).max(1)
}

impl Train {
    /// Whether a message of this length may follow.
    const fn takes(&self, len: usize) -> bool {
        !self.ended
            && len <= self.segment_bytes
            && self.segments < self.segments_max
            && self.bytes + len <= MAX_TRAIN_BYTES
    }

    pub(in crate::driver) fn transmit<'a>(&self, slices: &'a [IoSlice<'a>], destination: SocketAddr) -> Transmit<'a> {
        let segment = u16::try_from(self.segment_bytes).ok().and_then(NonZeroU16::new);
        Transmit {
            slices: slices.get(self.first_slice..self.first_slice + self.slices).unwrap_or(&[]),
            destination,
            segment_bytes: segment.filter(|_| self.segments > 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::transmit::TransmitBatch;

    use super::*;

    #[test]
    fn trains_are_of_even_length() {
        let ethernet = 1472;
        assert_eq!(even_train(ethernet, 45), 23, "44 and 1 would be possible");
        assert_eq!(even_train(ethernet, 44), 44);
        assert_eq!(even_train(ethernet, 89), 30);
        assert_eq!(even_train(100, 640), MAX_SEGMENTS);
        assert_eq!(even_train(MAX_TRAIN_BYTES + 1, 3), 1);
        assert_eq!(even_train(0, 0), 1);
    }

    #[test]
    fn resumed_run_skips_sent_trains() {
        let to: Arc<[Locator]> = Arc::new([Locator::from(SocketAddr::from(([127, 0, 0, 1], 7400)))]);
        let mut batch = TransmitBatch::default();
        // Two trains of two messages, and a message that is alone.
        for len in [100, 60, 100, 60, 100] {
            batch.push_message(&vec![0; len], Arc::clone(&to));
        }
        let mut messages = batch.messages();
        let first = messages.next().unwrap();
        let mut run = Run::new(first);
        assert!(run.gather(first, &mut messages).is_none());
        let segments = |trains: &[Train]| trains.iter().map(|train| train.segments).collect::<Vec<_>>();
        for (ahead, left_out, left) in
            [(0, 0, vec![2, 2, 1]), (1, 0, vec![2, 2, 1]), (2, 2, vec![2, 1]), (5, 5, vec![])]
        {
            let mut from = ahead;
            assert_eq!((segments(run.trains_from(&mut from)), from), (left, left_out), "{ahead}");
        }
    }
}

//! Data before the pattern in each sample of an open loop, little endian.
//!
//! ```text
//!  0               4               8                              16
//!  +---------------+---------------+------------------------------+
//!  | kind          | run           | intended send                |   of the sender's clock
//!  +---------------+---------------+------------------------------+
//!  | receipt                       | send of the answer           |   of the responder's clock
//!  +-------------------------------+------------------------------+
//! ```
//!
//! The timestamp of the sample contains the actual send time.

use crate::plan::OVERHEAD_LEN;

/// Bytes of a stamp.
pub(super) const STAMP_LEN: usize = 32;
/// Shortest sample that contains a stamp.
pub(super) const SHORTEST: usize = OVERHEAD_LEN + STAMP_LEN;

/// Purpose of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Part of the load; it is answered if it is a ping.
    Data,
    /// Requests a hello, with the number of the sender's session in place of the intended send. The answer contains the
    /// identity of the responder's clock in the field of the receipt.
    Hello,
    /// Requests the responder's report of a run. The answer contains it after the stamp.
    Report,
    /// The sender leaves.
    Bye,
}

/// First bytes of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) kind: Kind,
    /// Number of the run: samples of an earlier run may still arrive.
    pub(super) run: u32,
    pub(super) intended_ns: u64,
    pub(super) received_ns: u64,
    pub(super) answered_ns: u64,
}

impl Stamp {
    /// An unanswered stamp.
    pub(super) fn new(kind: Kind, run: u32, intended_ns: u64) -> Self {
        Self { kind, run, intended_ns, received_ns: 0, answered_ns: 0 }
    }

    #[inline]
    pub(super) fn write_to(&self, payload: &mut [u8]) {
        let Some(stamp) = payload.first_chunk_mut::<STAMP_LEN>() else { return };
        let words = [
            u64::from(self.kind.code()) | u64::from(self.run) << 32,
            self.intended_ns,
            self.received_ns,
            self.answered_ns,
        ];
        stamp.copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
    }

    /// `None` if the payload is not that of an open loop.
    #[inline]
    pub(super) fn read_from(payload: &[u8]) -> Option<Self> {
        let (words, _) = payload.first_chunk::<STAMP_LEN>()?.as_chunks::<8>();
        let &[first, intended, received, answered] = words else { return None };
        let first = u64::from_le_bytes(first);
        Some(Self {
            kind: Kind::of_code(first as u32)?,
            run: (first >> 32) as u32,
            intended_ns: u64::from_le_bytes(intended),
            received_ns: u64::from_le_bytes(received),
            answered_ns: u64::from_le_bytes(answered),
        })
    }
}

impl Kind {
    const ALL: [Self; 4] = [Self::Data, Self::Hello, Self::Report, Self::Bye];

    /// "OLP" and a number, so that other payloads are not mistaken for stamps.
    const fn code(self) -> u32 {
        0x4f4c_5000 | self as u32
    }

    fn of_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamp_has_these_literal_bytes() {
        let stamp = Stamp { kind: Kind::Report, run: 7, intended_ns: 1, received_ns: 2, answered_ns: 0x0300 };
        let mut payload = [0xee; 33];
        stamp.write_to(&mut payload);
        assert_eq!(payload[..8], [2, b'P', b'L', b'O', 7, 0, 0, 0]);
        assert_eq!((payload[8], payload[16], payload[25], payload[32]), (1, 2, 3, 0xee));
        assert_eq!(Stamp::read_from(&payload), Some(stamp));
    }

    #[test]
    fn malformed_stamp_is_refused() {
        let mut payload = [0; STAMP_LEN];
        assert_eq!(Stamp::read_from(&payload), None);
        Stamp::new(Kind::Data, 0, 0).write_to(&mut payload);
        assert_eq!(Stamp::read_from(&payload[1..]), None);
        payload[0] = 9;
        assert_eq!(Stamp::read_from(&payload), None);
        Stamp::new(Kind::Data, 0, 0).write_to(&mut payload[..5]);
        assert_eq!(payload[0], 9, "where it does not fit nothing is written");
    }
}

//! The participant message: the writer liveliness protocol.

use alloc::vec::Vec;

use super::list::split_encapsulation;
use super::{DiscoveryDataError, PARTICIPANT_MESSAGE_BYTES_MAX};
use crate::id::{GuidPrefix, KeyHash};
use crate::wire::{Endianness, ValueError, ValueReader, ValueWriter};

/// ParticipantMessageData (RTPS 2.5 §8.4.13.5, §9.6.3.1).
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |                          guid prefix                          |
/// |                           12 bytes                            |
/// |                             kind                              |
/// |                    data: length and bytes                     |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParticipantMessageData {
    /// The participant of the writers.
    pub prefix: GuidPrefix,
    /// Which of its writers are alive.
    pub kind: ParticipantMessageKind,
    /// Any content; usually empty.
    pub data: Vec<u8>,
}

/// Which writers of the participant are alive (RTPS 2.5 §9.6.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ParticipantMessageKind(pub [u8; 4]);

impl ParticipantMessageKind {
    /// Writers with liveliness AUTOMATIC.
    pub const AUTOMATIC: Self = Self([0, 0, 0, 1]);
    /// Writers with liveliness MANUAL_BY_PARTICIPANT.
    pub const MANUAL_BY_PARTICIPANT: Self = Self([0, 0, 0, 2]);
}

impl ParticipantMessageData {
    /// The key hash of the message: prefix and kind.
    #[must_use]
    pub const fn key_hash(&self) -> KeyHash {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.prefix.0;
        let [m, n, o, p] = self.kind.0;
        KeyHash([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
    }

    /// Reads a message, encapsulation header included. Fast DDS up to 2.11 marks the plain CDR as a parameter list.
    ///
    /// # Errors
    /// The message is malformed and must be ignored.
    pub fn parse(payload: &[u8]) -> Result<Self, DiscoveryDataError> {
        let (representation, body) = split_encapsulation(payload)?;
        let endianness = match representation {
            [0, 0 | 2] => Endianness::Big,
            [0, 1 | 3] => Endianness::Little,
            other => return Err(DiscoveryDataError::Encapsulation(other)),
        };
        Self::read(&mut ValueReader::new(body, endianness)).map_err(|_| DiscoveryDataError::TooShort)
    }

    /// Appends the message, encapsulation header included.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 1, 0, 0]);
        let mut value = ValueWriter::new(out, Endianness::Little);
        value.octets(&self.prefix.0);
        value.octets(&self.kind.0);
        value.octet_sequence(&self.data);
    }

    fn read(value: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let (prefix, kind) = (GuidPrefix(value.array()?), ParticipantMessageKind(value.array()?));
        let data = value.octet_sequence()?;
        Ok(Self { prefix, kind, data: data.get(..PARTICIPANT_MESSAGE_BYTES_MAX).unwrap_or(data).to_vec() })
    }
}

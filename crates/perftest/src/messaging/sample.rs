//! `TestData_t`, and its form on a plain socket.
//!
//! ```text
//!  0               4               8              12              16
//!  +-------+-------+---------------+---------------+---------------+
//!  | 00 01 | 00 00 | key           | entity_id     | seq_num       |   CDR little endian, no options
//!  +-------+-------+---------------+---------------+---------------+
//!  | timestamp_sec | timestamp_usec| latency_ping  | payload length|   high and low half of one counter
//!  +---------------+---------------+---------------+---------------+
//!  | payload ...
//! ```

use std::fmt;

/// Length of the encapsulation header, which `dataLen` does not count.
pub const ENCAPSULATION_LEN: usize = 4;
/// Length of everything before the payload, encapsulation header included.
pub const HEADER_LEN: usize = ENCAPSULATION_LEN + crate::plan::OVERHEAD_LEN;

/// CDR, little endian (RTPS 2.5 §10.2, representation identifier 0x0001).
const ENCAPSULATION: [u8; ENCAPSULATION_LEN] = [0x00, 0x01, 0x00, 0x00];

/// One sample, with its payload borrowed from the sender or from the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Instance number, little endian.
    pub key: [u8; 4],
    /// Number of the publisher; in an announcement, of the subscriber.
    pub entity_id: i32,
    /// Per publisher, from 0, wrapping.
    pub seq_num: u32,
    /// The publisher's clock at the send of the last ping. Opaque to other processes.
    pub timestamp: u64,
    /// Number of the subscriber that must answer, or -1.
    pub latency_ping: i32,
    /// The writing participant, if known; not part of the serialized sample.
    pub origin: Origin,
    /// Payload, which fills the sample up to `dataLen`.
    pub payload: &'a [u8],
}

/// The GUID prefix of the participant that wrote a sample (RTPS 2.5 §8.2.4.1), or [`Sample::NO_ORIGIN`].
pub type Origin = [u8; 12];

/// Bytes that are not a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedSample {
    /// Number of bytes.
    pub len: usize,
}

impl fmt::Display for MalformedSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes that are not a sample", self.len)
    }
}

impl std::error::Error for MalformedSample {}

impl<'a> Sample<'a> {
    /// For samples whose writer is unknown.
    pub const NO_ORIGIN: Origin = [0; 12];
    /// Value of `latency_ping` in a sample that requests no answer.
    pub const NO_PING: i32 = -1;

    /// The first sample of a publisher, which requests no answer.
    pub fn data(publisher: u32, payload: &'a [u8]) -> Self {
        Self {
            key: [0; 4],
            entity_id: publisher as i32,
            seq_num: 0,
            timestamp: 0,
            latency_ping: Self::NO_PING,
            origin: Sample::NO_ORIGIN,
            payload,
        }
    }

    /// Number that selects the pattern of its payload.
    #[inline]
    pub fn pattern_number(&self) -> u64 {
        u64::from(self.entity_id.cast_unsigned()) << 32 | u64::from(self.seq_num)
    }

    /// All bytes before the payload.
    #[inline]
    pub fn header(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        let fields = [
            ENCAPSULATION,
            self.key,
            self.entity_id.to_le_bytes(),
            self.seq_num.to_le_bytes(),
            ((self.timestamp >> 32) as u32).to_le_bytes(),
            (self.timestamp as u32).to_le_bytes(),
            self.latency_ping.to_le_bytes(),
            (self.payload.len() as u32).to_le_bytes(),
        ];
        header.copy_from_slice(fields.as_flattened());
        header
    }

    /// Bytes of the sample as DDS writes it, including encapsulation header and padding to a multiple of four.
    #[inline]
    pub fn serialized_len(&self) -> usize {
        (HEADER_LEN + self.payload.len()).next_multiple_of(4)
    }

    /// Writes the sample as DDS does. The buffer has [`Self::serialized_len`] bytes.
    #[inline]
    pub fn serialize_into(&self, buffer: &mut [u8]) {
        let mut header = self.header();
        let len = HEADER_LEN + self.payload.len();
        // The last two bits of the options contain the padding (XTypes 1.3 §7.6.3.1.2).
        header[ENCAPSULATION_LEN - 1] = (len.next_multiple_of(4) - len) as u8;
        let (front, rest) = buffer.split_at_mut(HEADER_LEN);
        front.copy_from_slice(&header);
        let (payload, padding) = rest.split_at_mut(self.payload.len());
        payload.copy_from_slice(self.payload);
        padding.fill(0);
    }

    /// Parses a serialized payload of DDS. Both encoding versions have the same bytes for this type; the encapsulation
    /// header states the version and the padding.
    #[inline]
    pub fn from_serialized(bytes: &'a [u8]) -> Result<Self, MalformedSample> {
        match bytes {
            [0x00, 0x01 | 0x07, ..] => Ok(Self::split_fields(bytes)?.0),
            _ => Err(MalformedSample { len: bytes.len() }),
        }
    }

    /// Splits the first sample off `bytes`, and returns the rest.
    #[inline]
    pub fn split_from(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), MalformedSample> {
        if bytes.first_chunk() != Some(&ENCAPSULATION) {
            return Err(MalformedSample { len: bytes.len() });
        }
        Self::split_fields(bytes)
    }

    /// Delivers every sample of a datagram or slot and returns their number; stops at malformed bytes.
    #[inline]
    pub(crate) fn each(mut bytes: &'a [u8], mut on_sample: impl FnMut(&Self)) -> usize {
        let mut count = 0;
        while !bytes.is_empty() {
            let Ok((sample, rest)) = Self::split_from(bytes) else { break };
            on_sample(&sample);
            count += 1;
            bytes = rest;
        }
        count
    }

    #[inline]
    fn split_fields(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), MalformedSample> {
        let malformed = MalformedSample { len: bytes.len() };
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(malformed)?;
        let (fields, _) = header.as_chunks::<4>();
        let &[_encapsulation, key, entity_id, seq_num, high, low, latency_ping, payload_len] = fields else {
            return Err(malformed);
        };
        let payload_len = u32::from_le_bytes(payload_len) as usize;
        if payload_len > rest.len() {
            return Err(malformed);
        }
        let (payload, rest) = rest.split_at(payload_len);
        let sample = Self {
            key,
            entity_id: i32::from_le_bytes(entity_id),
            seq_num: u32::from_le_bytes(seq_num),
            timestamp: u64::from(u32::from_le_bytes(high)) << 32 | u64::from(u32::from_le_bytes(low)),
            latency_ping: i32::from_le_bytes(latency_ping),
            origin: Sample::NO_ORIGIN,
            payload,
        };
        Ok((sample, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Sample<'static> = Sample {
        key: [0xff, 0xff, 0, 0],
        entity_id: 3,
        seq_num: 0x0102_0304,
        timestamp: 0x1122_3344_5566_7788,
        latency_ping: -1,
        origin: Sample::NO_ORIGIN,
        payload: &[9, 8, 7],
    };

    const BYTES: [u8; 35] = [
        0x00, 0x01, 0x00, 0x00, // encapsulation
        0xff, 0xff, 0x00, 0x00, // key
        0x03, 0x00, 0x00, 0x00, // entity_id
        0x04, 0x03, 0x02, 0x01, // seq_num
        0x44, 0x33, 0x22, 0x11, // timestamp, high half
        0x88, 0x77, 0x66, 0x55, // timestamp, low half
        0xff, 0xff, 0xff, 0xff, // latency_ping
        0x03, 0x00, 0x00, 0x00, // payload length
        9, 8, 7,
    ];

    #[test]
    fn sample_has_these_literal_bytes() {
        assert_eq!([&SAMPLE.header()[..], SAMPLE.payload].concat(), BYTES);
        assert_eq!(Sample::split_from(&BYTES), Ok((SAMPLE, &[][..])));
    }

    #[test]
    fn batch_contains_consecutive_samples() {
        let batch = [BYTES, BYTES].concat();
        let (first, rest) = Sample::split_from(&batch).unwrap();
        let (second, rest) = Sample::split_from(rest).unwrap();
        assert_eq!((first, second, rest.len()), (SAMPLE, SAMPLE, 0));
    }

    #[test]
    fn malformed_sample_of_any_length_is_refused() {
        for len in 0..BYTES.len() {
            assert_eq!(Sample::split_from(&BYTES[..len]), Err(MalformedSample { len }));
        }
        let mut huge = BYTES;
        huge[28..32].copy_from_slice(&[0xff; 4]);
        assert!(Sample::split_from(&huge).is_err());
        let mut foreign = BYTES;
        foreign[1] = 0x03;
        assert!(Sample::split_from(&foreign).is_err());
    }
}

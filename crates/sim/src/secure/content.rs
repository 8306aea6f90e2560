//! The payloads of samples.

use peregrine_rtps::id::GuidPrefix;

/// The bytes of a payload before its content: the encapsulation, the number and the GUID prefix of the writer.
pub(super) const HEAD_BYTES: usize = 4 + 4 + 12;

/// The payload of a sample with this number, and this many bytes behind its head.
pub(super) fn content(writer: GuidPrefix, number: u32, bytes: usize) -> Vec<u8> {
    let mut payload = vec![0, 1, 0, 0];
    payload.extend_from_slice(&number.to_le_bytes());
    payload.extend_from_slice(&writer.0);
    payload.resize(HEAD_BYTES + bytes, number as u8);
    payload
}

//! SEC_PREFIX, SEC_BODY, SEC_POSTFIX, SRTPS_PREFIX and SRTPS_POSTFIX: the frame around protected bytes.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::{Cursor, Emitter, Endianness};
use super::error::Fault;
use super::submessage_id::SubmessageId;

/// The CryptoHeader: body of SEC_PREFIX and SRTPS_PREFIX, and the first bytes of a protected payload (DDS Security 1.2
/// §10.5.2). The byte order flag has no effect on the fields.
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |                      transformation kind                      |
/// |                     transformation key id                     |
/// |                          session id                           |
/// |                 initialization vector suffix                  |
/// |                            8 bytes                            |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CryptoHeader {
    /// The algorithm.
    pub kind: [u8; 4],
    /// The key of the sender.
    pub key_id: [u8; 4],
    /// The session key derived from it.
    pub session_id: [u8; 4],
    /// Makes the nonce unique for each use of the session key.
    pub suffix: [u8; 8],
}

/// A receiver-specific MAC: proves to one receiver that the sender made the common MAC (DDS Security 1.2 §10.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverMac {
    /// The key that the sender shares with this receiver.
    pub key_id: [u8; 4],
    /// The MAC.
    pub mac: [u8; 16],
}

/// The CryptoFooter: body of SEC_POSTFIX and SRTPS_POSTFIX, and the last bytes of a protected payload (DDS Security 1.2
/// §10.5.2). Numbers are big endian, independent of the flag of the submessage.
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |                          common MAC                           |
/// |                           16 bytes                            |
/// |                  number of receiver MACs: n                   |
/// |                n * (key id: 4 bytes, MAC: 16)                 |
/// +---------------+---------------+---------------+---------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CryptoFooter<'a> {
    /// The MAC of the protected bytes for all holders of the sender's key.
    pub common_mac: [u8; 16],
    receivers: &'a [[u8; ReceiverMac::LEN]],
}

impl CryptoHeader {
    /// Length on the wire in bytes.
    pub const LEN: usize = 20;

    /// Splits the header from the remainder.
    ///
    /// # Errors
    /// There are fewer bytes than a header has.
    pub fn parse(octets: &[u8]) -> Result<(Self, &[u8]), Fault> {
        let mut fields = Cursor::new(octets, Endianness::Big);
        let header = Self {
            kind: fields.octets()?,
            key_id: fields.octets()?,
            session_id: fields.octets()?,
            suffix: fields.octets()?,
        };
        Ok((header, fields.remaining()))
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..4].copy_from_slice(&self.kind);
        out[4..8].copy_from_slice(&self.key_id);
        out[8..12].copy_from_slice(&self.session_id);
        out[12..].copy_from_slice(&self.suffix);
        out
    }

    /// Appends SEC_PREFIX or SRTPS_PREFIX.
    pub fn emit(&self, id: SubmessageId, endianness: Endianness, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_submessage(id, endianness));
    }

    /// SEC_PREFIX or SRTPS_PREFIX.
    pub(crate) fn to_submessage(self, id: SubmessageId, endianness: Endianness) -> [u8; 4 + Self::LEN] {
        let mut out = [0; 4 + Self::LEN];
        out[..2].copy_from_slice(&[id.0, endianness.flag()]);
        out[2..4].copy_from_slice(&endianness.u16_octets(Self::LEN as u16));
        out[4..].copy_from_slice(&self.to_bytes());
        out
    }
}

impl ReceiverMac {
    /// Length on the wire in bytes.
    pub const LEN: usize = 20;

    fn parse(octets: &[u8; Self::LEN]) -> Self {
        let [k0, k1, k2, k3, mac @ ..] = *octets;
        Self { key_id: [k0, k1, k2, k3], mac }
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..4].copy_from_slice(&self.key_id);
        out[4..].copy_from_slice(&self.mac);
        out
    }
}

impl<'a> CryptoFooter<'a> {
    /// Length on the wire in bytes without receiver MACs.
    pub const LEN: usize = 20;

    /// Splits the footer from the remainder.
    ///
    /// # Errors
    /// There are fewer bytes than the footer states.
    pub fn parse(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Fault> {
        let mut fields = Cursor::new(octets, Endianness::Big);
        let common_mac = fields.octets()?;
        let count = usize::try_from(fields.u32()?).map_err(|_| Fault::Truncated)?;
        let len = count.checked_mul(ReceiverMac::LEN).ok_or(Fault::Truncated)?;
        let (receivers, _) = fields.slice(len)?.as_chunks();
        Ok((Self { common_mac, receivers }, fields.remaining()))
    }

    /// The receiver-specific MACs.
    pub fn receivers(&self) -> impl ExactSizeIterator<Item = ReceiverMac> + use<'a> {
        self.receivers.iter().map(ReceiverMac::parse)
    }

    /// Appends the footer without a submessage around it.
    pub fn emit_bytes(common_mac: &[u8; 16], receivers: impl ExactSizeIterator<Item = ReceiverMac>, out: &mut Vec<u8>) {
        out.extend_from_slice(common_mac);
        out.extend_from_slice(&u32::try_from(receivers.len()).unwrap_or(u32::MAX).to_be_bytes());
        receivers.for_each(|receiver| out.extend_from_slice(&receiver.to_bytes()));
    }

    /// Appends SEC_POSTFIX or SRTPS_POSTFIX.
    pub fn emit(
        id: SubmessageId,
        endianness: Endianness,
        common_mac: &[u8; 16],
        receivers: impl ExactSizeIterator<Item = ReceiverMac>,
        out: &mut Vec<u8>,
    ) {
        if receivers.len() == 0 {
            let mut submessage = [0; 4 + Self::LEN];
            submessage[..2].copy_from_slice(&[id.0, endianness.flag()]);
            submessage[2..4].copy_from_slice(&endianness.u16_octets(Self::LEN as u16));
            submessage[4..20].copy_from_slice(common_mac);
            out.extend_from_slice(&submessage);
            return;
        }
        let mut submessage = Emitter::begin(out, endianness, id, 0);
        Self::emit_bytes(common_mac, receivers, submessage.body());
        submessage.finish();
    }
}

/// The CryptoContent: body of SEC_BODY, and the part of an encrypted payload between header and footer (DDS Security
/// 1.2 §10.5.2): the number of bytes as a big-endian word, then the encrypted bytes. In a SEC_BODY, zeros pad them to a
/// multiple of 4.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CryptoContent<'a>(pub &'a [u8]);

impl<'a> CryptoContent<'a> {
    /// Bytes before the encrypted ones.
    pub const HEAD: usize = 4;

    /// Splits the content from the remainder.
    ///
    /// # Errors
    /// There are fewer bytes than the content states.
    pub fn parse(octets: &'a [u8]) -> Result<(Self, &'a [u8]), Fault> {
        let mut fields = Cursor::new(octets, Endianness::Big);
        let len = usize::try_from(fields.u32()?).map_err(|_| Fault::Truncated)?;
        Ok((Self(fields.slice(len)?), fields.remaining()))
    }

    /// Appends SEC_BODY.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        let len = u32::try_from(self.0.len()).unwrap_or(u32::MAX).to_be_bytes();
        Emitter::begin(out, endianness, SubmessageId::SEC_BODY, 0).octets(&len).octets(self.0).finish();
    }

    /// The bytes before `len` encrypted bytes of a SEC_BODY. `len` must be a multiple of 4 that fits into a SEC_BODY.
    pub(crate) fn head(len: usize, endianness: Endianness) -> [u8; 8] {
        let [l0, l1] = endianness.u16_octets(u16::try_from(Self::HEAD.saturating_add(len)).unwrap_or(0));
        let [c0, c1, c2, c3] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
        [SubmessageId::SEC_BODY.0, endianness.flag(), l0, l1, c0, c1, c2, c3]
    }
}

impl fmt::Display for CryptoHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, key] = [self.kind, self.key_id].map(u32::from_be_bytes);
        write!(f, "transformation {kind:#x} with key {key:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::hex;
    use super::*;
    use crate::wire::{Submessage, Submessages};
    use proptest::prelude::*;
    use std::vec;

    const HEADER: CryptoHeader = CryptoHeader {
        kind: [0, 0, 0, 4],
        key_id: [0, 0, 0, 2],
        session_id: [0x86, 0x8e, 0x78, 0x0e],
        suffix: [0xe9, 4, 0x3c, 0xb4, 0x97, 0x9e, 0x8b, 0xb2],
    };
    const MAC: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    const RECEIVER: ReceiverMac = ReceiverMac { key_id: [0, 0, 0, 4], mac: [0xa9; 16] };

    fn bodies(octets: &[u8]) -> Vec<(SubmessageId, &[u8])> {
        let parsed = Submessages::new(octets).map(|submessage| match submessage {
            Ok(Submessage::Security { id, body, .. }) => (id, body),
            other => panic!("{other:?}"),
        });
        parsed.collect()
    }

    #[test]
    fn protected_submessage_equals_literal_bytes() {
        let mut out = Vec::new();
        HEADER.emit(SubmessageId::SEC_PREFIX, Endianness::Little, &mut out);
        CryptoContent(&[0xaa, 0xbb, 0xcc, 0xdd, 0xee]).emit(Endianness::Little, &mut out);
        CryptoFooter::emit(SubmessageId::SEC_POSTFIX, Endianness::Little, &MAC, [RECEIVER].into_iter(), &mut out);
        let expected = hex("31011400 00000004 00000002 868e780e e9043cb4 979e8bb2
             30010c00 00000005 aabbccdd ee000000
             32012800 01020304 05060708 090a0b0c 0d0e0f10 00000001 00000004 a9a9a9a9 a9a9a9a9 a9a9a9a9 a9a9a9a9");
        assert_eq!(out, expected);
        assert_eq!(CryptoContent::head(8, Endianness::Little)[..], hex("30010c00 00000008"));
        let [(prefix, header), (body, content), (postfix, footer)] = bodies(&out)[..] else { panic!() };
        assert_eq!((prefix, body, postfix), (SubmessageId(0x31), SubmessageId(0x30), SubmessageId(0x32)));
        assert_eq!(CryptoHeader::parse(header), Ok((HEADER, &[][..])));
        assert_eq!(CryptoContent::parse(content).unwrap().0.0, [0xaa, 0xbb, 0xcc, 0xdd, 0xee]);
        let (footer, rest) = CryptoFooter::parse(footer).unwrap();
        assert_eq!((footer.common_mac, footer.receivers().collect::<Vec<_>>(), rest.len()), (MAC, vec![RECEIVER], 0));
    }

    #[test]
    fn frame_of_protected_message_equals_literal_bytes() {
        let mut out = Vec::new();
        HEADER.emit(SubmessageId::SRTPS_PREFIX, Endianness::Big, &mut out);
        CryptoFooter::emit(SubmessageId::SRTPS_POSTFIX, Endianness::Big, &MAC, [].into_iter(), &mut out);
        let expected = hex("33000014 00000004 00000002 868e780e e9043cb4 979e8bb2
             34000014 01020304 05060708 090a0b0c 0d0e0f10 00000000");
        assert_eq!(out, expected);
        let ids: Vec<SubmessageId> = bodies(&out).into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [SubmessageId(0x33), SubmessageId(0x34)]);
    }

    #[test]
    fn fields_past_end_are_rejected() {
        assert_eq!(CryptoHeader::parse(&[0; 19]), Err(Fault::Truncated));
        assert_eq!(CryptoContent::parse(&[0, 0, 0, 2, 7]), Err(Fault::Truncated));
        assert_eq!(CryptoContent::parse(&[0xff; 4]), Err(Fault::Truncated));
        let mut footer = [0; CryptoFooter::LEN + ReceiverMac::LEN];
        footer[19] = 2;
        assert_eq!(CryptoFooter::parse(&footer), Err(Fault::Truncated));
        footer[16..20].fill(0xff);
        assert_eq!(CryptoFooter::parse(&footer), Err(Fault::Truncated));
        assert_eq!(CryptoFooter::parse(&footer[..19]), Err(Fault::Truncated));
    }

    proptest! {
        #[test]
        fn elements_round_trip(
            header: [u8; 20],
            content: Vec<u8>,
            mac: [u8; 16],
            receivers in proptest::collection::vec(any::<[u8; 20]>(), 0..20),
        ) {
            let header = CryptoHeader::parse(&header).unwrap().0;
            let receivers: Vec<ReceiverMac> = receivers.iter().map(ReceiverMac::parse).collect();
            let mut out = header.to_bytes().to_vec();
            prop_assert_eq!(CryptoHeader::parse(&out), Ok((header, &[][..])));
            out.clear();
            CryptoFooter::emit_bytes(&mac, receivers.iter().copied(), &mut out);
            let (footer, rest) = CryptoFooter::parse(&out).unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!((footer.common_mac, footer.receivers().collect::<Vec<_>>()), (mac, receivers));
            let mut out = Vec::new();
            CryptoContent(&content).emit(Endianness::Little, &mut out);
            let (parsed, padding) = CryptoContent::parse(&out[4..]).unwrap();
            prop_assert_eq!(parsed.0, &content[..]);
            prop_assert!(padding.len() < 4 && padding.iter().all(|octet| *octet == 0));
        }
    }
}

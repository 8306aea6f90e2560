mod seals;

use std::vec;
use std::vec::Vec;

use super::open::{Opener, Piece};
use super::payload::PayloadSealer;
use super::*;
use crate::payload::BufferPool;
use crate::receiver::{DropReason, Envelope, Input, Interpreter, Origin, Receive};
use crate::time::Instant;
use crate::vendor::VendorId;
use crate::wire::vectors::hex;
use crate::wire::{Header, Submessages};

/// Captured from Cyclone DDS: message signed, submessages encrypted with origin authentication, payload encrypted.
const MESSAGE: &str = "
    52545053 02010110 a2111b84 10fd7f99 db0657de
    33011400 00000003 00000001 e4bc7e6a 812682c4 d8a69350
    0c011400 00000000 02010110 a2111b84 10fd7f99 db0657de
    09010800 7e3c046b 34a0bc2d
    31011400 00000004 00000002 868e780e e9043cb4 979e8bb2
    30015400 00000050 a2e6c164 414fe41f 29e955dd c4202607 9db96f72 19809bfc e21fedb4 9fad2cdd f1a1c9f0
    7a445f6a ccf4c565 dfb1b72c 6459d8f5 eac8394c fe626b46 e5e6e29b b0402098 6a455fa9 96dc22a6 8a16de92
    32012800 298d1f9e f947f1c9 7648bfa5 872d909b 00000001 00000004 a94912eb 079029ec 2729b1d2 a399ad27
    31011400 00000004 00000002 868e780e e9043cb5 979e8bb2
    30012400 00000020 04edf370 edc274db 4d7b64aa 29be355d 4beb9d7b 998188f3 32578816 fe2c6d27
    32012800 863324ee ec2a07e4 0a1a2aba 9fdd11fb 00000001 00000004 1246c0ff 12be45f4 407d2188 82a6d06a
    34011400 8bd28ec9 e9782a3e b6f42266 f7eb8781 00000000";
/// The decrypted content of the two SEC_BODY, and the payload in the first of them.
const DATA: &str = "
    15054c00 00001000 00000000 00000203 00000000 01000000 00000004 00000003 d3bfcfa2 9a2990a7 33e9d81f
    0000000c add7dcfe 4a748431 2024c2a3 51e6ec20 881c8309 f9d44ab6 68d8c112 00000000";
const HEARTBEAT: &str = "07011c00 00000000 00000203 00000000 01000000 00000000 01000000 01000000";
const PAYLOAD: &str = "00010000 01000000 00000000";

const WRITER: EntityId = EntityId([0, 0, 2, 3]);

/// Decrypts the bytes above by their nonces, and accepts no other message than this one.
#[derive(Debug)]
struct Captured;

impl Protection for Captured {
    fn levels(&self, _: EntityId) -> ProtectionLevels {
        ProtectionLevels {
            message: ProtectionKind::Sign,
            submessage: ProtectionKind::EncryptWithOriginAuthentication,
            payload: ProtectionKind::Encrypt,
        }
    }

    fn seal(&self, _: Scope, _: EntityId, _: Option<GuidPrefix>, _: Text<'_>) -> Result<Seal, SealError> {
        Err(SealError::NoKey)
    }

    fn receiver_mac(&self, _: Scope, _: EntityId, _: &Seal, _: Guid) -> Result<ReceiverMac, SealError> {
        Err(SealError::NoKey)
    }

    fn open(
        &self,
        scope: Scope,
        source: GuidPrefix,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        text: Text<'_>,
    ) -> Result<Guid, OpenError> {
        let (encrypted, plain, receivers) = match (scope, header.key_id, header.suffix[3]) {
            (Scope::Message, [0, 0, 0, 1], _) => {
                let Text::Signed(octets) = text else { return Err(OpenError::NotAuthentic) };
                let whole = hex(MESSAGE);
                let postfix = whole.len() - 20;
                // The signed text is INFO_SRC to the last SEC_POSTFIX.
                let is_unchanged = octets == &whole[44..whole.len() - 24]
                    && header.to_bytes() == whole[24..44]
                    && footer.common_mac == whole[postfix..postfix + 16]
                    && footer.receivers().len() == 0;
                let participant = Guid::new(source, EntityId::PARTICIPANT);
                return if is_unchanged { Ok(participant) } else { Err(OpenError::NotAuthentic) };
            }
            (Scope::Submessage, [0, 0, 0, 2], 0xb4) => ([0xa2, 0xe6, 0xc1, 0x64], DATA, 1),
            (Scope::Submessage, [0, 0, 0, 2], 0xb5) => ([0x04, 0xed, 0xf3, 0x70], HEARTBEAT, 1),
            (Scope::Payload, [0, 0, 0, 3], _) => ([0xad, 0xd7, 0xdc, 0xfe], PAYLOAD, 0),
            _ => return Err(OpenError::UnknownKey),
        };
        let Text::Encrypted(octets) = text.in_place() else { panic!("submessages and payload are encrypted") };
        assert_eq!(octets[..4], encrypted);
        assert_eq!(footer.receivers().len(), receivers);
        octets.copy_from_slice(&hex(plain));
        Ok(Guid::new(source, WRITER))
    }
}

#[derive(Default)]
struct Heard {
    payloads: Vec<Vec<u8>>,
    heartbeats: usize,
    dropped: Vec<DropReason>,
    /// Submessages that lack protection.
    unprotected: usize,
}

impl Receive for Heard {
    fn input(&mut self, envelope: Envelope, input: Input<'_>) {
        // As a participant does.
        if !Captured.levels(WRITER).permit(envelope.protection) {
            self.unprotected += 1;
            return;
        }
        assert_eq!(envelope.from.entity, WRITER);
        match input {
            Input::Data(_, data) => self.payloads.push(data.payload.as_bytes().to_vec()),
            Input::Heartbeat(_) => self.heartbeats += 1,
            other => panic!("{other:?}"),
        }
    }

    fn dropped(&mut self, _: GuidPrefix, _: VendorId, reason: DropReason) {
        self.dropped.push(reason);
    }
}

fn receive_all(message: &[u8]) -> Heard {
    let mut heard = Heard::default();
    let own = GuidPrefix([9; 12]);
    let (header, _) = Header::parse(message).unwrap();
    let mut opener = Opener::new(1 << 20);
    let buffer = opener.open(&Captured, Instant(0), own, &header, message);
    let mut interpreter = Interpreter::new(&header, own);
    for piece in &opener.pieces {
        match piece {
            Piece::Readable { at, protection, sender } => {
                let all = if at.is_decrypted { buffer.as_ref().unwrap() } else { message };
                let submessages = Submessages::behind(&all[at.range.clone()]);
                interpreter.read_protected(
                    message,
                    submessages,
                    Origin { protection: *protection, sender: *sender },
                    &mut heard,
                );
            }
            Piece::Refused(error) => interpreter.refuse(*error, &mut heard),
            Piece::Malformed => interpreter.stop(&mut heard),
        }
    }
    heard
}

#[test]
fn captured_message_with_three_levels_is_opened() {
    let heard = receive_all(&hex(MESSAGE));
    assert_eq!((heard.heartbeats, heard.dropped), (1, vec![]));
    let [payload] = &heard.payloads[..] else { panic!("one sample") };
    assert_eq!(payload[..], hex(DATA)[24..]);
    let sealer = PayloadSealer { protection: &Captured, writer: WRITER, kind: ProtectionKind::Encrypt };
    let writer = Guid::new(GuidPrefix::UNKNOWN, WRITER);
    let opened = payload::open(sealer, writer, payload, &mut BufferPool::new(0)).unwrap();
    assert_eq!(opened[..], hex(PAYLOAD));
    let other = Guid::new(GuidPrefix::UNKNOWN, EntityId([0, 0, 3, 3]));
    assert_eq!(payload::open(sealer, other, payload, &mut BufferPool::new(0)), Err(OpenError::NotAuthentic));
}

#[test]
fn sealed_payload_of_another_length_than_it_states_is_refused() {
    let heard = receive_all(&hex(MESSAGE));
    let [sealed] = &heard.payloads[..] else { panic!("one sample") };
    let writer = Guid::new(GuidPrefix::UNKNOWN, WRITER);
    let open = |bytes: &[u8]| {
        let sealer = PayloadSealer { protection: &Captured, writer: WRITER, kind: ProtectionKind::Encrypt };
        payload::open(sealer, writer, bytes, &mut BufferPool::new(0)).map(|opened| opened.to_vec())
    };
    let refused = Err(OpenError::NotAuthentic);
    for len in 0..sealed.len() {
        assert_eq!(open(&sealed[..len]), refused, "{len} of {} bytes", sealed.len());
    }
    // A payload is padded to a multiple of four bytes.
    let longer = |by: usize| open(&[&sealed[..], &[0; 8][..by]].concat());
    assert_eq!((longer(3), longer(4)), (Ok(hex(PAYLOAD)), refused.clone()));
    let stated = CryptoHeader::LEN..CryptoHeader::LEN + 4;
    for len in [0u32, 8, 11, 13, 16, 0x7fff_ffff, u32::MAX] {
        let mut changed = sealed.clone();
        changed[stated.clone()].copy_from_slice(&len.to_be_bytes());
        assert_eq!(open(&changed), refused, "{len} bytes");
    }
}

/// Bits that no MAC covers are among them: of the RTPS header, and of the headers of SRTPS_PREFIX and SRTPS_POSTFIX.
#[test]
fn captured_message_with_any_bit_changed_delivers_nothing() {
    let whole = hex(MESSAGE);
    assert_eq!(whole.len(), 368);
    for bit in 0..whole.len() * 8 {
        let mut message = whole.clone();
        message[bit / 8] ^= 1 << (bit % 8);
        if Header::parse(&message).is_err() {
            assert!(bit < 40, "only the protocol and its major version make a message unreadable");
            continue;
        }
        let heard = receive_all(&message);
        assert_eq!((heard.payloads.len(), heard.heartbeats), (0, 0), "bit {bit}");
        assert!(heard.unprotected > 0 || !heard.dropped.is_empty(), "bit {bit} is not counted");
    }
}

#[test]
fn inconsistent_frames_are_malformed() {
    let whole = hex(MESSAGE);
    let without = |range: core::ops::Range<usize>| [&whole[..range.start], &whole[range.end..]].concat();
    let postfix = whole.len() - 24;
    let flags = |at: usize| {
        let mut message = whole.clone();
        message[at + 1] |= 2;
        message
    };
    let count = |count: u32| {
        let mut message = whole.clone();
        message[postfix + 20..].copy_from_slice(&count.to_be_bytes());
        message
    };
    for (what, message) in [
        ("no SRTPS_POSTFIX", without(postfix..whole.len())),
        ("no SRTPS_PREFIX content", without(24..44)),
        ("an unknown flag of SRTPS_PREFIX", flags(20)),
        ("an unknown flag of SRTPS_POSTFIX", flags(postfix)),
        ("one receiver more than bytes", count(1)),
        ("more receivers than bytes", count(200)),
        // 20 bytes for each are 2³² + 4.
        ("receivers whose bytes overflow 32 bits", count(0x0ccc_cccd)),
        ("the greatest number of receivers", count(u32::MAX)),
        ("a submessage behind", [&whole[..], &whole[68..80]].concat()),
    ] {
        let heard = receive_all(&message);
        assert_eq!(
            (heard.payloads.len(), heard.heartbeats, heard.dropped),
            (0, 0, vec![DropReason::Malformed]),
            "{what}"
        );
    }
}

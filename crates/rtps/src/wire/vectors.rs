//! Common parts of the tests of this module: literal bytes, and whole messages captured from other implementations.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Endianness, Fault, Header, Submessage, Submessages, WireError};

/// Directed SPDP announcement of Cyclone DDS 11.0.1.
pub(crate) const CYCLONE_SPDP: &str = "
    5254505302050110011078f867233410c25a2b680e010c000110b271706883edfe424ecc090108006c67006b30475f6f15052c0100001000
    000100c7000100c2000000000100000000030000020008000a0000000000000059005800030000000e0000005f5f50726f636573734e616d
    6500000007000000707974686f6e0000060000005f5f5069640000000600000032363334320000000b0000005f5f486f73746e616d650000
    03000000766d0000000000001500040002050000160004000110000050001000011078f867233410c25a2b68000001c1580004003ffc0000
    0f000400bb000000310018000100000091d300000000000000000000000000007f000001320018000100000090d300000000000000000000
    000000007f00000107803000000000000000000000000000000000000000000016000000766d2f31312e302e312f4c696e75782f4c696e75
    78000000198004000000200001000000";

/// SEDP publication, participant message and two HEARTBEATs of Cyclone DDS 11.0.1.
pub(crate) const CYCLONE_PUBLICATION: &str = "
    5254505302050110011078f867233410c25a2b680e010c000110b271706883edfe424ecc090108006c67006bbba1d4751505f40000001000
    000003c7000003c200000000010000000003000005000c00070000005371756172650000070010000a000000536861706554797065000000
    1d00040001000000400008000000000003000000730008000100000002000000750064006000000001100040280000002400000014000000
    f11e426789957ce858cfdf3191a589000000000000000000040000000000000002100040280000002400000014000000f25c0a127987e5e2
    f3746b1f80a5b90000000000000000000400000000000000150004000205000016000400011000005a001000011078f867233410c25a2b68
    000002020c8004000100000001000000090108006c67006bd269786f1505300000001000000200c7000200c2000000000100000000010000
    011078f867233410c25a2b6800000001010000000000000007011c00000003c7000003c20000000001000000000000000100000002000000
    07011c00000200c7000200c20000000001000000000000000100000002000000";

/// SEDP subscription of Cyclone DDS 11.0.1.
pub(crate) const CYCLONE_SUBSCRIPTION: &str = "
    52545053020501100110b271706883edfe424ecc090108006d67006b0a198b99150504010000100000000000000004c20000000001000000
    0003000005000c00070000005371756172650000070010000a0000005368617065547970650000001d000400010000001a000c0002000000
    000000009a999919400008000000000003000000730008000200000000000200750064006000000001100040280000002400000014000000
    f11e426789957ce858cfdf3191a589000000000000000000040000000000000002100040280000002400000014000000f25c0a127987e5e2
    f3746b1f80a5b90000000000000000000400000000000000150004000205000016000400011000005a0010000110b271706883edfe424ecc
    000002070c8004000100000001000000";

/// User DATA and HEARTBEAT of Cyclone DDS 11.0.1.
pub(crate) const CYCLONE_DATA: &str = "
    5254505302050110011078f867233410c25a2b680e010c000110b271706883edfe424ecc090108006d67006b423501761505380000001000
    00000207000002020000000003000000000900001c00000005000000424c5545000000002500000064000000180000000000000007011c00
    00000207000002020000000003000000000000000300000002000000";

/// ACKNACK of Cyclone DDS 11.0.1.
pub(crate) const CYCLONE_ACKNACK: &str = "
    52545053020501100110b271706883edfe424ecc0e010c00011078f867233410c25a2b680603180000000207000002020000000004000000
    0000000002000000";

/// Dispose of an instance and HEARTBEAT of Cyclone DDS 11.0.1.
pub(crate) const CYCLONE_DISPOSE: &str = "
    5254505302050110011078f867233410c25a2b68090108006f67006bd2436076150b34000000100000000000000002020000000007000000
    710004000000000101000000000900000900000005000000424c55450000000007011c000000000000000202000000000600000000000000
    0700000006000000";

/// The bytes of a text in hexadecimal; white space is skipped.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| u8::try_from(d).unwrap()).collect();
    assert_eq!(digits.len() % 2, 0, "odd number of digits");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The only submessage in these bytes.
pub(super) fn parse_one(octets: &[u8]) -> Result<Submessage<'_>, WireError> {
    let mut submessages = Submessages::new(octets);
    let one = submessages.next().expect("one submessage")?;
    assert!(submessages.next().is_none(), "only one submessage");
    Ok(one)
}

/// Emits and parses in both byte orders, and compares with the literal bytes.
pub(super) fn assert_encoding(submessage: Submessage<'_>, little: &str, big: &str) {
    for (endianness, literal) in [(Endianness::Little, little), (Endianness::Big, big)] {
        let mut out = Vec::new();
        submessage.emit(endianness, &mut out);
        assert_eq!(out, hex(literal), "{endianness:?}");
        assert_eq!(parse_one(&out), Ok(submessage));
    }
}

/// The emitted bytes parse to the same value, in both byte orders.
pub(super) fn assert_round_trip(submessage: Submessage<'_>) {
    for endianness in [Endianness::Little, Endianness::Big] {
        let mut out = Vec::new();
        submessage.emit(endianness, &mut out);
        assert_eq!(parse_one(&out), Ok(submessage), "{endianness:?}");
    }
}

pub(super) fn assert_fault(octets: &str, fault: Fault) {
    assert_eq!(parse_one(&hex(octets)).unwrap_err().fault, fault, "{octets}");
}

const CAPTURED: [&str; 6] =
    [CYCLONE_SPDP, CYCLONE_PUBLICATION, CYCLONE_SUBSCRIPTION, CYCLONE_DATA, CYCLONE_ACKNACK, CYCLONE_DISPOSE];

fn describe(message: &str) -> Vec<std::string::String> {
    let octets = hex(message);
    let (_, rest) = Header::parse(&octets).unwrap();
    Submessages::new(rest).map(|submessage| std::format!("{}", submessage.unwrap())).collect()
}

#[test]
fn captured_messages_parse_to_expected_submessages() {
    assert_eq!(
        describe(CYCLONE_SPDP),
        [
            "INFO_DST 0110b271706883edfe424ecc",
            "INFO_TS 1795188588.435047578",
            "DATA 000100c2 -> 000100c7 1 data 280 bytes"
        ]
    );
    assert_eq!(
        describe(CYCLONE_PUBLICATION)[2..],
        [
            "DATA 000003c2 -> 000003c7 1 data 224 bytes",
            "INFO_TS 1795188588.435431112",
            "DATA 000200c2 -> 000200c7 1 data 28 bytes",
            "HEARTBEAT 000003c2 -> 000003c7 [1, 1] count 2",
            "HEARTBEAT 000200c2 -> 000200c7 [1, 1] count 2"
        ]
    );
    assert_eq!(describe(CYCLONE_SUBSCRIPTION)[1..], ["DATA 000004c2 -> 00000000 1 data 240 bytes"]);
    assert_eq!(
        describe(CYCLONE_DATA)[2..],
        ["DATA 00000202 -> 00000207 3 data 36 bytes", "HEARTBEAT 00000202 -> 00000207 [3, 3] count 2"]
    );
    assert_eq!(
        describe(CYCLONE_ACKNACK),
        ["INFO_DST 011078f867233410c25a2b68", "ACKNACK 00000207 -> 00000202 4/0: final count 2"]
    );
    assert_eq!(
        describe(CYCLONE_DISPOSE)[1..],
        [
            "DATA 00000202 -> 00000000 7 inline QoS {STATUS_INFO[4]} key 20 bytes",
            "HEARTBEAT 00000202 -> 00000000 [6, 7] count 6"
        ]
    );
}

#[test]
fn captured_messages_are_reproduced_exactly() {
    for message in CAPTURED {
        let octets = hex(message);
        let (header, rest) = Header::parse(&octets).unwrap();
        let mut out = Vec::new();
        header.emit(&mut out);
        for submessage in Submessages::new(rest) {
            submessage.unwrap().emit(Endianness::Little, &mut out);
        }
        assert_eq!(out, octets);
    }
}

#[test]
fn parsing_ends_at_first_fault() {
    let octets = hex("01010000 09010400 00000000 01010000");
    let all: Vec<_> = Submessages::new(&octets).collect();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], Ok(Submessage::Pad));
    assert_eq!(all[1].unwrap_err().fault, Fault::Truncated);
}

#[test]
fn length_above_message_is_rejected() {
    let faults = [
        ("0701ff00 00000000", Fault::LengthExceedsMessage { stated: 255, available: 4 }),
        ("80010300 00000001 010000", Fault::Misaligned { stated: 3 }),
        ("0701", Fault::Truncated),
    ];
    for (octets, fault) in faults {
        let octets = hex(octets);
        let mut submessages = Submessages::new(&octets);
        assert_eq!(submessages.next().unwrap().unwrap_err().fault, fault);
        assert!(submessages.next().is_none());
    }
}

#[test]
fn length_zero_extends_to_end_except_for_pad_and_info_ts() {
    let octets = hex("01010000 09030000 80010000 01020304 05060708");
    let ids: Vec<_> = Submessages::new(&octets).map(Result::unwrap).collect();
    let body = [1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[2], Submessage::Unknown { id: super::SubmessageId(0x80), flags: 1, body: &body });
}

#[test]
fn last_submessage_may_have_unaligned_length() {
    let octets = hex("15051d00 00001000 00000000 00000202 00000000 07000000 00010000 aabbccddee");
    assert!(matches!(parse_one(&octets), Ok(Submessage::Data(_))));
}

#[test]
fn ids_of_vendors_rtps_1_and_security_are_not_interpreted() {
    for id in [0x02, 0x10, 0x18, 0x80, 0xff] {
        let octets = [id, 1, 4, 0, 9, 9, 9, 9];
        assert!(matches!(parse_one(&octets), Ok(Submessage::Unknown { body: [9, 9, 9, 9], .. })));
    }
    for id in [0x30, 0x31, 0x32, 0x33, 0x34] {
        let octets = [id, 1, 4, 0, 9, 9, 9, 9];
        assert!(matches!(parse_one(&octets), Ok(Submessage::Security { body: [9, 9, 9, 9], .. })));
    }
}

proptest! {
    /// The valid submessages of a damaged message can be emitted and parsed again.
    #[test]
    fn parsing_damaged_message_ends(
        message in proptest::sample::select(CAPTURED.to_vec()),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        len in any::<prop::sample::Index>(),
    ) {
        let mut octets = hex(message);
        for (at, octet) in damage {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        octets.truncate(len.index(octets.len() + 1));
        let Ok((_, rest)) = Header::parse(&octets) else { return Ok(()) };
        prop_assert!(Submessages::new(rest).count() <= rest.len() / 4 + 1);
        for submessage in Submessages::new(rest).flatten() {
            let (mut first, mut second) = (Vec::new(), Vec::new());
            submessage.emit(Endianness::Little, &mut first);
            parse_one(&first).unwrap().emit(Endianness::Little, &mut second);
            prop_assert_eq!(first, second);
        }
    }
}

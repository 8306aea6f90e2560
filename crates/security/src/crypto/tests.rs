mod sessions;

use std::collections::HashSet;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{
    OpenError, Protection, ProtectionKind, ProtectionLevels, Scope, Seal, SealError, Text,
};
use peregrine_rtps::wire::{CryptoFooter, CryptoHeader, ReceiverMac};
use proptest::prelude::*;

use super::*;
use crate::limits::{BUILTIN_IDLE_INTERVALS, KEYS_PER_SENDER, SESSIONS_PER_KEY, USER_IDLE_INTERVALS};
use crate::testing::{hex, random};

const KINDS: [ProtectionKind; 5] = [
    ProtectionKind::None,
    ProtectionKind::Sign,
    ProtectionKind::Encrypt,
    ProtectionKind::SignWithOriginAuthentication,
    ProtectionKind::EncryptWithOriginAuthentication,
];
const PAYLOAD_KINDS: [ProtectionKind; 3] = [ProtectionKind::None, ProtectionKind::Sign, ProtectionKind::Encrypt];

const WRITER: EntityId = EntityId([0, 0, 2, 3]);
const READER: EntityId = EntityId([0, 0, 3, 4]);
const OTHER_READER: EntityId = EntityId([0, 0, 4, 4]);
const ALICE: GuidPrefix = GuidPrefix([1; 12]);
const BOB: GuidPrefix = GuidPrefix([2; 12]);
const CAROL: GuidPrefix = GuidPrefix([3; 12]);
const TEXT: &[u8] = b"sixteen octets.. and some more..";

/// A protected text as it travels.
#[derive(Clone, Debug)]
struct Sealed {
    scope: Scope,
    encrypted: bool,
    header: CryptoHeader,
    text: Vec<u8>,
    footer: Vec<u8>,
}

impl Sealed {
    fn new(scope: Scope, encrypted: bool, seal: Seal, text: Vec<u8>, macs: &[ReceiverMac]) -> Self {
        let mut footer = Vec::new();
        CryptoFooter::emit_bytes(&seal.common_mac, macs.iter().copied(), &mut footer);
        Self { scope, encrypted, header: seal.header, text, footer }
    }

    /// The sender and the text as a receiver sees them.
    fn open(&self, source: GuidPrefix, by: &Cryptography) -> Result<(Guid, Vec<u8>), OpenError> {
        let mut octets = self.text.clone();
        let (footer, rest) = CryptoFooter::parse(&self.footer).map_err(|_| OpenError::NotAuthentic)?;
        if !rest.is_empty() {
            return Err(OpenError::NotAuthentic);
        }
        let text = if self.encrypted { Text::Encrypted(&mut octets) } else { Text::Signed(&octets) };
        let sender = by.open(self.scope, source, &self.header, &footer, text)?;
        Ok((sender, octets))
    }

    /// The same with one bit changed, counted over header, text and footer.
    fn flipped(&self, bit: usize) -> Self {
        let mut octets = [&self.header.to_bytes()[..], &self.text, &self.footer].concat();
        octets[bit / 8] ^= 1 << (bit % 8);
        let (header, rest) = CryptoHeader::parse(&octets).unwrap();
        let (text, footer) = rest.split_at(self.text.len());
        Self { header, text: text.to_vec(), footer: footer.to_vec(), ..*self }
    }

    fn bits(&self) -> usize {
        (CryptoHeader::LEN + self.text.len() + self.footer.len()) * 8
    }
}

/// The keys of two participants, one with a writer and one with a reader, that have exchanged them.
struct Pair {
    alice: KeyFactory,
    bob: KeyFactory,
    levels: ProtectionLevels,
}

fn pair(levels: ProtectionLevels, config: CryptoConfig) -> Pair {
    let mut alice = KeyFactory::new(levels.message, config, &mut random(1));
    let mut bob = KeyFactory::new(levels.message, config, &mut random(2));
    alice.register_endpoint(WRITER, levels.submessage, levels.payload, &mut random(3));
    bob.register_endpoint(READER, levels.submessage, levels.payload, &mut random(4));
    for (local, remote) in [(EntityId::PARTICIPANT, EntityId::PARTICIPANT), (WRITER, READER)] {
        exchange((&mut alice, ALICE, local), (&mut bob, BOB, remote)).unwrap();
        exchange((&mut bob, BOB, remote), (&mut alice, ALICE, local)).unwrap();
    }
    Pair { alice, bob, levels }
}

fn exchange(
    (from, from_prefix, sender): (&mut KeyFactory, GuidPrefix, EntityId),
    (to, to_prefix, receiver): (&mut KeyFactory, GuidPrefix, EntityId),
) -> Result<(), RefusedKeys> {
    let tokens = from.match_remote(sender, Guid::new(to_prefix, receiver), &mut random(5));
    for keys in tokens {
        to.set_remote_keys(receiver, Guid::new(from_prefix, sender), &keys)?;
    }
    Ok(())
}

/// Seals for these receivers, if the scope is protected.
fn seal(
    by: &Cryptography,
    scope: Scope,
    sender: EntityId,
    kind: ProtectionKind,
    receivers: &[Guid],
) -> Result<Sealed, SealError> {
    let mut octets = TEXT.to_vec();
    let text = if kind.encrypts() { Text::Encrypted(&mut octets) } else { Text::Signed(&octets) };
    let seal = by.seal(scope, sender, None, text)?;
    let receivers = if kind.authenticates_origin() { receivers } else { &[] };
    let macs: Result<Vec<_>, _> =
        receivers.iter().map(|receiver| by.receiver_mac(scope, sender, &seal, *receiver)).collect();
    Ok(Sealed::new(scope, kind.encrypts(), seal, octets, &macs?))
}

/// One text at each protected level, from Alice for Bob.
fn all_sealed(Pair { alice, levels, .. }: &Pair) -> Vec<(Guid, Sealed)> {
    let alice = alice.cryptography();
    let participant = Guid::new(BOB, EntityId::PARTICIPANT);
    let reader = Guid::new(BOB, READER);
    let scopes = [
        (Scope::Message, EntityId::PARTICIPANT, levels.message, participant),
        (Scope::Submessage, WRITER, levels.submessage, reader),
        (Scope::Payload, WRITER, levels.payload, reader),
    ];
    let protected = scopes.into_iter().filter(|(_, _, kind, _)| !kind.is_none());
    let sealed = protected.map(|(scope, sender, kind, receiver)| {
        (Guid::new(ALICE, sender), seal(&alice, scope, sender, kind, &[receiver]).unwrap())
    });
    sealed.collect()
}

fn all_levels() -> impl Iterator<Item = ProtectionLevels> {
    KINDS.into_iter().flat_map(|message| {
        KINDS.into_iter().flat_map(move |submessage| {
            PAYLOAD_KINDS.into_iter().map(move |payload| ProtectionLevels { message, submessage, payload })
        })
    })
}

#[test]
fn wiped_bytes_are_zeros() {
    let mut octets = TEXT.to_vec();
    (Cryptography::new(ProtectionKind::None).wiper())(&mut octets);
    assert_eq!(octets, [0; TEXT.len()]);
}

#[test]
fn text_is_opened_by_its_receiver_at_all_levels_with_both_key_lengths() {
    for key_length in [KeyLength::Aes128, KeyLength::Aes256] {
        for levels in all_levels() {
            let pair = pair(levels, CryptoConfig { key_length, ..CryptoConfig::default() });
            assert_eq!(pair.alice.levels(WRITER), levels);
            let bob = pair.bob.cryptography();
            for (sender, sealed) in all_sealed(&pair) {
                assert_eq!(sealed.encrypted, sealed.text != TEXT, "{levels:?}");
                assert_eq!(sealed.open(ALICE, &bob), Ok((sender, TEXT.to_vec())), "{levels:?} {:?}", sealed.scope);
                assert_eq!(sealed.open(CAROL, &bob), Err(OpenError::UnknownKey));
            }
        }
    }
}

#[test]
fn unprotected_levels_have_no_keys() {
    let pair = pair(ProtectionLevels::default(), CryptoConfig::default());
    let alice = pair.alice.cryptography();
    for (scope, sender) in
        [(Scope::Message, EntityId::PARTICIPANT), (Scope::Submessage, WRITER), (Scope::Payload, WRITER)]
    {
        assert_eq!(seal(&alice, scope, sender, ProtectionKind::Sign, &[]).unwrap_err(), SealError::NoKey);
    }
    assert_eq!(pair.bob.cryptography().remote_count(), 0);
}

#[test]
fn every_flipped_bit_is_refused_in_all_configurations() {
    for levels in all_levels() {
        let pair = pair(levels, CryptoConfig::default());
        let bob = pair.bob.cryptography();
        for (_, sealed) in all_sealed(&pair) {
            for bit in 0..sealed.bits() {
                assert!(sealed.flipped(bit).open(ALICE, &bob).is_err(), "{levels:?} {:?} bit {bit}", sealed.scope);
            }
        }
    }
}

proptest! {
    #[test]
    fn changed_bytes_are_refused(
        (message, submessage, payload) in (0..5usize, 0..5usize, 0..3usize),
        changes in proptest::collection::vec((any::<u16>(), 1..=u8::MAX), 1..4),
    ) {
        let levels = ProtectionLevels {
            message: KINDS[message],
            submessage: KINDS[submessage],
            payload: PAYLOAD_KINDS[payload],
        };
        let pair = pair(levels, CryptoConfig::default());
        for (_, sealed) in all_sealed(&pair) {
            let original = [&sealed.header.to_bytes()[..], &sealed.text, &sealed.footer].concat();
            let mut octets = original.clone();
            for (at, by) in &changes {
                let at = usize::from(*at) % octets.len();
                octets[at] ^= by;
            }
            prop_assume!(octets != original);
            let (header, rest) = CryptoHeader::parse(&octets).unwrap();
            let (text, footer) = rest.split_at(sealed.text.len());
            let changed = Sealed { header, text: text.to_vec(), footer: footer.to_vec(), ..sealed };
            prop_assert!(changed.open(ALICE, &pair.bob.cryptography()).is_err());
        }
    }
}

#[test]
fn captured_message_of_cyclone_is_opened_at_all_levels() {
    let message = hex("
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
        34011400 8bd28ec9 e9782a3e b6f42266 f7eb8781 00000000");
    let prefix = GuidPrefix(message[8..20].try_into().unwrap());
    let participant = hex("00000003
        00000020 e94949758b0fc86cb8da0e55696c9e4d79265214781b85ee30c7015ed1efb438 00000001
        00000020 513117cf17bbae139331a2d84f176817af47138bf87b7caf132ce8c10f8cf530 00000000 00000000");
    let submessages = hex("00000004
        00000020 3c6f14e8fcab6039773665cff1f163b58598b91660cb301d67a6d769002f2c44 00000002
        00000020 45d0c6d019eb1118ac5a4ffef37d54ed50976b791ef4434e86b4e4dc587f79ac 00000004
        00000020 3f4f2737d70f92510fbe13bdf25b88b72e8b95d157f0e857c59713f9e6f2db4c");
    let payloads = hex("00000004
        00000020 5a28af2fb7179fae8be77e43aa780a1b96edf4b1edf1d2e2481e6566fe69e6e4 00000003
        00000020 1bad1a2bb65f80889f1eabbc433444fb7565638b2fc932e3f41ab4461b42f579 00000000 00000000");
    let [participant, submessages, payloads] =
        [participant, submessages, payloads].map(|octets| KeyMaterial::parse(&octets).unwrap());

    let mut keys = KeyFactory::new(ProtectionKind::Sign, CryptoConfig::default(), &mut random(1));
    keys.register_endpoint(
        READER,
        ProtectionKind::EncryptWithOriginAuthentication,
        ProtectionKind::Encrypt,
        &mut random(2),
    );
    let source = Guid::new(prefix, EntityId::PARTICIPANT);
    keys.set_remote_keys(EntityId::PARTICIPANT, source, &[participant]).unwrap();
    let writer = Guid::new(prefix, WRITER);
    keys.set_remote_keys(READER, writer, &[submessages, payloads]).unwrap();
    let keys = keys.cryptography();

    let at = |at: usize, scope, encrypted, text: core::ops::Range<usize>, footer: core::ops::Range<usize>| Sealed {
        scope,
        encrypted,
        header: CryptoHeader::parse(&message[at..]).unwrap().0,
        text: message[text].to_vec(),
        footer: message[footer].to_vec(),
    };
    let whole = at(24, Scope::Message, false, 44..344, 348..368);
    assert_eq!(whole.open(prefix, &keys).unwrap().0, source);
    for bit in 0..whole.bits() {
        assert!(whole.flipped(bit).open(prefix, &keys).is_err(), "bit {bit} of the message");
    }
    let data = at(84, Scope::Submessage, true, 112..192, 196..236);
    assert_eq!(data.open(prefix, &keys).unwrap().0, writer);
    for bit in 0..data.bits() {
        assert!(data.flipped(bit).open(prefix, &keys).is_err(), "bit {bit} of the submessage");
    }
    let (sender, data) = data.open(prefix, &keys).unwrap();
    assert_eq!(sender, writer);
    let plain = "15054c00 00001000 00000000 00000203 00000000 01000000 00000004 00000003 d3bfcfa2 9a2990a7 33e9d81f
        0000000c add7dcfe 4a748431 2024c2a3 51e6ec20 881c8309 f9d44ab6 68d8c112 00000000";
    assert_eq!(data, hex(plain));
    let heartbeat = at(240, Scope::Submessage, true, 268..300, 304..344);
    let plain = "07011c00 00000000 00000203 00000000 01000000 00000000 01000000 01000000";
    assert_eq!(heartbeat.open(prefix, &keys), Ok((writer, hex(plain))));
    let payload = Sealed {
        scope: Scope::Payload,
        encrypted: true,
        header: CryptoHeader::parse(&data[24..]).unwrap().0,
        text: data[48..60].to_vec(),
        footer: data[60..].to_vec(),
    };
    let opened = Ok((writer, hex("00010000 01000000 00000000")));
    assert_eq!(payload.open(prefix, &keys), opened);
    for bit in 0..payload.bits() {
        assert!(payload.flipped(bit).open(prefix, &keys).is_err(), "bit {bit} of the payload");
    }
    assert_eq!(payload.open(prefix, &keys), opened);
}

fn origin_authenticated() -> ProtectionLevels {
    let kind = ProtectionKind::EncryptWithOriginAuthentication;
    ProtectionLevels { message: kind, submessage: kind, payload: ProtectionKind::Encrypt }
}

#[test]
fn removed_replaced_and_added_receiver_macs_are_refused() {
    let pair = pair(origin_authenticated(), CryptoConfig::default());
    let bob = pair.bob.cryptography();
    for (_, sealed) in all_sealed(&pair).into_iter().filter(|(_, sealed)| sealed.scope != Scope::Payload) {
        let (footer, _) = CryptoFooter::parse(&sealed.footer).unwrap();
        let common = footer.common_mac;
        let [right] = footer.receivers().collect::<Vec<_>>()[..] else { panic!("one receiver") };
        let wrong = ReceiverMac { mac: [7; 16], ..right };
        let stranger = ReceiverMac { key_id: [9; 4], ..right };
        let open = |macs: &[ReceiverMac]| {
            let mut footer = Vec::new();
            CryptoFooter::emit_bytes(&common, macs.iter().copied(), &mut footer);
            Sealed { footer, ..sealed.clone() }.open(ALICE, &bob).is_ok()
        };
        assert!(open(&[right]) && open(&[stranger, right]));
        for macs in [&[][..], &[stranger], &[wrong], &[wrong, right], &[right, wrong]] {
            assert!(!open(macs), "{:?} {macs:?}", sealed.scope);
        }
    }
}

#[test]
fn insider_without_the_receivers_key_cannot_speak_for_the_writer() {
    // Carol has the writer's key too, and only the key for her own MAC.
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    let mut carol = KeyFactory::new(pair.levels.message, CryptoConfig::default(), &mut random(6));
    carol.register_endpoint(READER, pair.levels.submessage, pair.levels.payload, &mut random(7));
    exchange((&mut pair.alice, ALICE, WRITER), (&mut carol, CAROL, READER)).unwrap();
    let alice = pair.alice.cryptography();
    let kind = pair.levels.submessage;
    let both = [Guid::new(BOB, READER), Guid::new(CAROL, READER)];
    let for_both = seal(&alice, Scope::Submessage, WRITER, kind, &both).unwrap();
    let for_carol = seal(&alice, Scope::Submessage, WRITER, kind, &both[1..]).unwrap();
    let [bob, carol] = [pair.bob.cryptography(), carol.cryptography()];
    assert!(for_both.open(ALICE, &bob).is_ok() && for_both.open(ALICE, &carol).is_ok());
    assert!(for_carol.open(ALICE, &carol).is_ok());
    assert_eq!(for_carol.open(ALICE, &bob), Err(OpenError::NotAuthentic));
}

#[test]
fn several_readers_of_one_participant_share_the_key_of_a_writer() {
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    pair.bob.register_endpoint(OTHER_READER, pair.levels.submessage, pair.levels.payload, &mut random(8));
    exchange((&mut pair.alice, ALICE, WRITER), (&mut pair.bob, BOB, OTHER_READER)).unwrap();
    let alice = pair.alice.cryptography();
    let sealed_for = |reader| {
        let reader = Guid::new(BOB, reader);
        seal(&alice, Scope::Submessage, WRITER, pair.levels.submessage, &[reader]).unwrap()
    };
    let (first, second) = (sealed_for(READER), sealed_for(OTHER_READER));
    let bob = pair.bob.cryptography();
    assert!(first.open(ALICE, &bob).is_ok() && second.open(ALICE, &bob).is_ok());
    pair.bob.unmatch_remote(OTHER_READER, Guid::new(ALICE, WRITER));
    assert!(first.open(ALICE, &bob).is_ok());
    assert_eq!(second.open(ALICE, &bob), Err(OpenError::NotAuthentic));
    pair.bob.unregister_endpoint(READER);
    assert_eq!(first.open(ALICE, &bob), Err(OpenError::UnknownKey));
}

#[test]
fn key_opens_only_the_scope_and_the_algorithm_that_it_is_for() {
    let sign = ProtectionKind::Sign;
    let pair = pair(
        ProtectionLevels { message: sign, submessage: sign, payload: ProtectionKind::Encrypt },
        CryptoConfig::default(),
    );
    let bob = pair.bob.cryptography();
    for (_, sealed) in all_sealed(&pair) {
        for scope in [Scope::Message, Scope::Submessage, Scope::Payload] {
            let moved = Sealed { scope, ..sealed.clone() };
            assert_eq!(moved.open(ALICE, &bob).is_ok(), scope == sealed.scope);
        }
        let as_other = Sealed { encrypted: !sealed.encrypted, ..sealed.clone() };
        assert_eq!(as_other.open(ALICE, &bob), Err(OpenError::NotAuthentic));
        for id in 0..=5 {
            let header = CryptoHeader { kind: [0, 0, 0, id], ..sealed.header };
            let downgraded = Sealed { header, ..sealed.clone() };
            assert_eq!(downgraded.open(ALICE, &bob).is_ok(), id == sealed.header.kind[3]);
        }
    }
}

#[test]
fn keys_that_do_not_fit_the_governance_are_refused() {
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    let reader = Guid::new(BOB, READER);
    let tokens = pair.alice.match_remote(WRITER, reader, &mut random(9));
    let [keys] = &tokens[..] else { panic!("one message") };
    let [frames, payloads] = &keys[..] else { panic!("two keys") };
    let writer = Guid::new(ALICE, WRITER);
    let config = CryptoConfig { accepted_key_length: KeyLength::Aes256, ..CryptoConfig::default() };
    let mut bob = KeyFactory::new(pair.levels.message, config, &mut random(2));
    bob.register_endpoint(READER, pair.levels.submessage, pair.levels.payload, &mut random(4));
    let mut set = |keys: &[KeyMaterial]| bob.set_remote_keys(READER, writer, keys);
    let signing = |key: &KeyMaterial| {
        let algorithm = key.algorithm.map(|algorithm| Algorithm { encrypts: false, ..algorithm });
        KeyMaterial { algorithm, ..key.clone() }
    };
    let short = |key: &KeyMaterial| {
        let algorithm = key.algorithm.map(|algorithm| Algorithm { key_length: KeyLength::Aes128, ..algorithm });
        KeyMaterial { algorithm, ..key.clone() }
    };
    let cases = [
        (vec![], RefusedKeys::Count(0)),
        (vec![frames.clone(), payloads.clone(), payloads.clone()], RefusedKeys::Count(3)),
        (vec![KeyMaterial::none(), payloads.clone()], RefusedKeys::Kind([0; 4])),
        (vec![signing(frames), payloads.clone()], RefusedKeys::Kind([0, 0, 0, 3])),
        (vec![frames.clone(), signing(payloads)], RefusedKeys::Kind([0, 0, 0, 3])),
        (vec![frames.clone(), short(payloads)], RefusedKeys::KeyLength),
        (vec![payloads.clone(), payloads.clone()], RefusedKeys::NoReceiverKey),
        (vec![KeyMaterial { key_id: [0; 4], ..frames.clone() }, payloads.clone()], RefusedKeys::KeyId([0; 4])),
    ];
    for (keys, expected) in cases {
        assert_eq!(set(&keys), Err(expected));
    }
    assert_eq!(set(keys), Ok(()));
    let stranger = Guid::new(ALICE, EntityId([0, 0, 9, 3]));
    assert_eq!(bob.set_remote_keys(READER, stranger, keys), Err(RefusedKeys::KeyId(frames.key_id)));
    assert_eq!(bob.set_remote_keys(OTHER_READER, writer, keys), Err(RefusedKeys::NotRegistered));
}

#[test]
fn one_key_of_a_writer_serves_both_levels() {
    let kind = ProtectionKind::Encrypt;
    let levels = ProtectionLevels { message: ProtectionKind::None, submessage: kind, payload: kind };
    let mut alice = KeyFactory::new(kind, CryptoConfig::default(), &mut random(1));
    alice.register_endpoint(WRITER, kind, ProtectionKind::None, &mut random(3));
    let mut bob = KeyFactory::new(ProtectionKind::None, CryptoConfig::default(), &mut random(2));
    bob.register_endpoint(READER, levels.submessage, levels.payload, &mut random(4));
    exchange((&mut alice, ALICE, WRITER), (&mut bob, BOB, READER)).unwrap();
    let sealed = seal(&alice.cryptography(), Scope::Submessage, WRITER, kind, &[]).unwrap();
    for scope in [Scope::Submessage, Scope::Payload] {
        let sealed = Sealed { scope, ..sealed.clone() };
        assert!(sealed.open(ALICE, &bob.cryptography()).is_ok());
    }
    let whole = Sealed { scope: Scope::Message, ..sealed };
    assert_eq!(whole.open(ALICE, &bob.cryptography()), Err(OpenError::UnknownKey));
}

#[test]
fn reader_gives_a_key_even_if_only_payloads_are_protected() {
    let levels = ProtectionLevels { payload: ProtectionKind::Encrypt, ..ProtectionLevels::default() };
    let mut pair = pair(levels, CryptoConfig::default());
    let tokens = pair.bob.match_remote(READER, Guid::new(ALICE, WRITER), &mut random(5));
    assert_eq!(tokens.len(), 1);
    assert_eq!((tokens[0].len(), tokens[0][0].kind()), (1, [0, 0, 0, 3]));
    assert_eq!(pair.alice.cryptography().remote_count(), 0, "the writer does not use it");
}

#[test]
fn participant_without_message_protection_gives_a_key_of_zeros() {
    let mut keys = KeyFactory::new(ProtectionKind::None, CryptoConfig::default(), &mut random(1));
    let participant = Guid::new(BOB, EntityId::PARTICIPANT);
    let tokens = keys.match_remote(EntityId::PARTICIPANT, participant, &mut random(2));
    assert_eq!(tokens, [[KeyMaterial::none()]]);
    keys.set_remote_keys(EntityId::PARTICIPANT, participant, &[KeyMaterial::none()]).unwrap();
    assert_eq!(keys.cryptography().remote_count(), 0);
}

#[test]
fn session_is_renewed_before_its_blocks_exceed_the_limit() {
    // A text of 32 bytes counts three blocks, so that a session has three texts.
    let config = CryptoConfig { blocks_per_session: 9, ..CryptoConfig::default() };
    let pair = pair(origin_authenticated(), config);
    let (alice, bob) = (pair.alice.cryptography(), pair.bob.cryptography());
    let receiver = [Guid::new(BOB, READER)];
    let mut sessions = Vec::new();
    let mut nonces = HashSet::new();
    for _ in 0..30 {
        let sealed = seal(&alice, Scope::Submessage, WRITER, pair.levels.submessage, &receiver).unwrap();
        assert!(sealed.open(ALICE, &bob).is_ok());
        sessions.push(u32::from_be_bytes(sealed.header.session_id));
        assert!(nonces.insert((sealed.header.session_id, sealed.header.suffix)));
    }
    let expected: Vec<u32> = (0..30).map(|index| sessions[0].wrapping_add(index / 3)).collect();
    assert_eq!(sessions, expected);
    alice.renew_session(WRITER);
    let sealed = seal(&alice, Scope::Submessage, WRITER, pair.levels.submessage, &receiver).unwrap();
    assert_eq!(u32::from_be_bytes(sealed.header.session_id), sessions[29].wrapping_add(1));
    assert!(sealed.open(ALICE, &bob).is_ok());
}

#[test]
fn text_longer_than_a_session_is_sealed_in_a_session_of_its_own() {
    let config = CryptoConfig { blocks_per_session: 1, ..CryptoConfig::default() };
    let pair = pair(origin_authenticated(), config);
    let (alice, bob) = (pair.alice.cryptography(), pair.bob.cryptography());
    let mut sessions = HashSet::new();
    for _ in 0..20 {
        let sealed = seal(&alice, Scope::Payload, WRITER, ProtectionKind::Encrypt, &[]).unwrap();
        assert!(sessions.insert(sealed.header.session_id));
        assert!(sealed.open(ALICE, &bob).is_ok());
    }
}

#[test]
fn nonces_of_several_threads_do_not_repeat() {
    let config = CryptoConfig { blocks_per_session: 100, ..CryptoConfig::default() };
    let pair = pair(origin_authenticated(), config);
    let alice = pair.alice.cryptography();
    let nonces: Vec<_> = std::thread::scope(|scope| {
        let seals = || {
            let seal = || seal(&alice, Scope::Message, EntityId::PARTICIPANT, pair.levels.message, &[]).unwrap();
            (0..2000).map(|_| seal().header).map(|header| (header.session_id, header.suffix)).collect::<Vec<_>>()
        };
        let threads = [(); 4].map(|()| scope.spawn(seals));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(nonces.len(), 8000);
    assert_eq!(nonces.iter().collect::<HashSet<_>>().len(), 8000);
}

#[test]
fn sessions_are_opened_in_any_order_and_their_number_is_bounded() {
    let config = CryptoConfig { blocks_per_session: 1, ..CryptoConfig::default() };
    let pair = pair(origin_authenticated(), config);
    let (alice, bob) = (pair.alice.cryptography(), pair.bob.cryptography());
    let seals: Vec<Sealed> =
        (0..50).map(|_| seal(&alice, Scope::Payload, WRITER, ProtectionKind::Encrypt, &[]).unwrap()).collect();
    for sealed in seals.iter().rev().chain(&seals) {
        assert!(sealed.open(ALICE, &bob).is_ok());
    }
    let key = bob.remote(ALICE, seals[0].header.key_id).unwrap();
    assert_eq!(key.session_count(), SESSIONS_PER_KEY);
}

#[test]
fn idle_session_keys_are_dropped_and_made_again() {
    let mut pair = pair(origin_authenticated(), CryptoConfig { blocks_per_session: 1, ..CryptoConfig::default() });
    let (alice, bob) = (pair.alice.cryptography(), pair.bob.cryptography());
    let seal = || seal(&alice, Scope::Payload, WRITER, ProtectionKind::Encrypt, &[]).unwrap();
    let (first, second) = (seal(), seal());
    let sessions = || bob.remote(ALICE, first.header.key_id).unwrap().session_count();
    let mut intervals = |count: u8| (0..count).map(|_| pair.bob.drop_idle_sessions()).sum::<usize>();
    assert!(first.open(ALICE, &bob).is_ok() && second.open(ALICE, &bob).is_ok());
    assert_eq!(intervals(USER_IDLE_INTERVALS), 0);
    assert!(second.open(ALICE, &bob).is_ok());
    assert_eq!(intervals(USER_IDLE_INTERVALS), 0);
    assert_eq!(sessions(), 2, "one of the two is in use");
    assert_eq!((intervals(1), sessions()), (1, 0));
    assert!(first.open(ALICE, &bob).is_ok());
    assert_eq!(sessions(), 1);
    // A text that is not authentic does not keep a session.
    assert_eq!(intervals(USER_IDLE_INTERVALS), 0);
    let header = CryptoHeader { suffix: [1; 8], ..first.header };
    assert_eq!(Sealed { header, ..first.clone() }.open(ALICE, &bob), Err(OpenError::NotAuthentic));
    assert_eq!((intervals(1), sessions()), (1, 0));
}

#[test]
fn flow_with_a_sample_in_ten_intervals_derives_no_key() {
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    let bob = pair.bob.cryptography();
    let open_all = |pair: &Pair| all_sealed(pair).iter().all(|(_, sealed)| sealed.open(ALICE, &bob).is_ok());
    assert!(open_all(&pair));
    for _ in 0..3 {
        assert_eq!((0..USER_IDLE_INTERVALS).map(|_| pair.bob.drop_idle_sessions()).sum::<usize>(), 0);
        let before = session::DERIVATIONS.get();
        assert!(open_all(&pair));
        assert_eq!(session::DERIVATIONS.get(), before, "of the message, the submessage and the payload");
    }
}

#[test]
fn idle_session_keys_of_builtin_entities_are_dropped_sooner() {
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    let exchange = exchange_key(&[1; 32], &[2; 32], &crate::secret::Secret::copy_of(&[7; 32]));
    pair.alice.set_exchange_key(BOB, &exchange, ExchangeRole::Initiator, &mut random(6));
    pair.bob.set_exchange_key(ALICE, &exchange, ExchangeRole::Replier, &mut random(7));
    let (alice, bob) = (pair.alice.cryptography(), pair.bob.cryptography());
    for (_, sealed) in all_sealed(&pair) {
        assert!(sealed.open(ALICE, &bob).is_ok());
    }
    let mut octets = TEXT.to_vec();
    let keys = alice.seal(Scope::Submessage, secure_entity::VOLATILE_WRITER, Some(BOB), Text::Encrypted(&mut octets));
    assert!(Sealed::new(Scope::Submessage, true, keys.unwrap(), octets, &[]).open(ALICE, &bob).is_ok());
    let dropped: Vec<usize> = (0..=USER_IDLE_INTERVALS).map(|_| pair.bob.drop_idle_sessions()).collect();
    let mut expected = vec![0; usize::from(USER_IDLE_INTERVALS) + 1];
    // The key for the exchange of keys; those for messages, submessages and payloads carry samples.
    expected[usize::from(BUILTIN_IDLE_INTERVALS)] = 1;
    expected[usize::from(USER_IDLE_INTERVALS)] = 3;
    assert_eq!(dropped, expected);
}

#[test]
fn forged_sessions_do_not_displace_real_ones() {
    let pair = pair(origin_authenticated(), CryptoConfig::default());
    let (alice, bob) = (pair.alice.cryptography(), pair.bob.cryptography());
    let sealed = seal(&alice, Scope::Payload, WRITER, ProtectionKind::Encrypt, &[]).unwrap();
    assert!(sealed.open(ALICE, &bob).is_ok());
    for session in 0..100u32 {
        let header = CryptoHeader { session_id: session.to_be_bytes(), ..sealed.header };
        assert_eq!(Sealed { header, ..sealed.clone() }.open(ALICE, &bob), Err(OpenError::NotAuthentic));
    }
    assert_eq!(bob.remote(ALICE, sealed.header.key_id).unwrap().session_count(), 1);
    assert!(sealed.open(ALICE, &bob).is_ok());
}

#[test]
fn renewed_keys_are_used_once_activated_and_older_ones_still_open() {
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    let kind = pair.levels.submessage;
    let reader = Guid::new(BOB, READER);
    let writer = Guid::new(ALICE, WRITER);
    let alice = pair.alice.cryptography();
    let bob = pair.bob.cryptography();
    let sealed = || seal(&alice, Scope::Submessage, WRITER, kind, &[reader]).unwrap();
    let payload = || seal(&alice, Scope::Payload, WRITER, ProtectionKind::Encrypt, &[]).unwrap();
    let old = [sealed(), payload()];
    let tokens = pair.alice.renew(WRITER, &mut random(20));
    assert_eq!(tokens.iter().map(|(to, keys)| (*to, keys.len())).collect::<Vec<_>>(), [(reader, 2)]);
    assert_eq!(sealed().header.key_id, old[0].header.key_id, "not yet in use");
    pair.alice.activate(WRITER, &mut random(21));
    let new = [sealed(), payload()];
    for (old, new) in old.iter().zip(&new) {
        assert_ne!(old.header.key_id, new.header.key_id);
        assert_eq!(new.open(ALICE, &bob), Err(OpenError::UnknownKey));
        assert!(old.open(ALICE, &bob).is_ok());
    }
    pair.bob.set_remote_keys(READER, writer, &tokens[0].1).unwrap();
    assert!(new.iter().chain(&old).all(|sealed| sealed.open(ALICE, &bob).is_ok()));
    for round in 0..10 {
        let tokens = pair.alice.renew(WRITER, &mut random(30 + round));
        pair.bob.set_remote_keys(READER, writer, &tokens[0].1).unwrap();
        pair.alice.activate(WRITER, &mut random(40 + round));
        assert!(sealed().open(ALICE, &bob).is_ok());
    }
    assert_eq!(bob.remote_count(), 1 + KEYS_PER_SENDER, "the participant's and the newest of the writer");
    assert_eq!(old[0].open(ALICE, &bob), Err(OpenError::UnknownKey));
}

#[test]
fn generation_of_payloads_changes_when_renewed_keys_are_activated() {
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    let alice = pair.alice.cryptography();
    let before = alice.payload_generation(WRITER);
    pair.alice.renew(WRITER, &mut random(20));
    assert_eq!(alice.payload_generation(WRITER), before);
    pair.alice.activate(WRITER, &mut random(21));
    assert_ne!(alice.payload_generation(WRITER), before);
}

#[test]
fn reader_matched_during_a_renewal_gets_both_generations() {
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    pair.alice.renew(WRITER, &mut random(20));
    let mut carol = KeyFactory::new(pair.levels.message, CryptoConfig::default(), &mut random(6));
    carol.register_endpoint(READER, pair.levels.submessage, pair.levels.payload, &mut random(7));
    exchange((&mut pair.alice, ALICE, WRITER), (&mut carol, CAROL, READER)).unwrap();
    let (alice, carol) = (pair.alice.cryptography(), carol.cryptography());
    let reader = [Guid::new(CAROL, READER)];
    let sealed = || seal(&alice, Scope::Submessage, WRITER, pair.levels.submessage, &reader).unwrap();
    assert!(sealed().open(ALICE, &carol).is_ok());
    pair.alice.activate(WRITER, &mut random(21));
    assert!(sealed().open(ALICE, &carol).is_ok());
}

#[test]
fn forgotten_participant_can_neither_send_nor_receive() {
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    let bob = pair.bob.cryptography();
    let before = all_sealed(&pair);
    pair.bob.forget_participant(ALICE);
    for (_, sealed) in before {
        assert_eq!(sealed.open(ALICE, &bob), Err(OpenError::UnknownKey));
    }
    assert_eq!(bob.remote_count(), 0);
    let participant = Guid::new(ALICE, EntityId::PARTICIPANT);
    let kind = pair.levels.message;
    let sealed = seal(&bob, Scope::Message, EntityId::PARTICIPANT, kind, &[participant]);
    assert_eq!(sealed.unwrap_err(), SealError::NoKey);
}

#[test]
fn exchange_key_protects_both_directions_with_distinct_nonces() {
    let secret = crate::secret::Secret::copy_of(&[7; 32]);
    let key = exchange_key(&[1; 32], &[2; 32], &secret);
    let mut alice = KeyFactory::new(ProtectionKind::None, CryptoConfig::default(), &mut random(1));
    let mut bob = KeyFactory::new(ProtectionKind::None, CryptoConfig::default(), &mut random(1));
    // The same random numbers on both sides.
    alice.set_exchange_key(BOB, &key, ExchangeRole::Initiator, &mut random(3));
    bob.set_exchange_key(ALICE, &key, ExchangeRole::Replier, &mut random(3));
    let (alice, bob) = (alice.cryptography(), bob.cryptography());
    let seal = |by: &Cryptography, to| {
        let mut octets = TEXT.to_vec();
        let text = Text::Encrypted(&mut octets);
        let seal = by.seal(Scope::Submessage, secure_entity::VOLATILE_WRITER, Some(to), text).unwrap();
        Sealed::new(Scope::Submessage, true, seal, octets, &[])
    };
    let (to_bob, to_alice) = (seal(&alice, BOB), seal(&bob, ALICE));
    assert_eq!(to_bob.header.session_id, to_alice.header.session_id);
    assert_ne!(to_bob.header.suffix, to_alice.header.suffix);
    assert_eq!(to_bob.open(ALICE, &bob), Ok((Guid::new(ALICE, EntityId::PARTICIPANT), TEXT.to_vec())));
    assert_eq!(to_alice.open(BOB, &alice), Ok((Guid::new(BOB, EntityId::PARTICIPANT), TEXT.to_vec())));
    assert_eq!(to_alice.open(CAROL, &alice), Err(OpenError::UnknownKey));
    let mut octets = TEXT.to_vec();
    for receiver in [Some(CAROL), None] {
        let text = Text::Encrypted(&mut octets);
        let seal = alice.seal(Scope::Submessage, secure_entity::VOLATILE_READER, receiver, text);
        assert_eq!(seal, Err(SealError::NoKey), "{receiver:?}");
    }
    let levels = alice.levels(secure_entity::VOLATILE_WRITER);
    let expected = ProtectionLevels { submessage: ProtectionKind::Encrypt, ..ProtectionLevels::default() };
    assert_eq!(levels, expected);
}

#[test]
fn levels_of_endpoints_without_registration_never_permit_plain_user_data() {
    let kind = ProtectionKind::Sign;
    let keys = KeyFactory::new(kind, CryptoConfig::default(), &mut random(1));
    let message = ProtectionLevels { message: kind, ..ProtectionLevels::default() };
    for exempt in [EntityId::SPDP_WRITER, EntityId::SPDP_READER, secure_entity::STATELESS_WRITER] {
        assert_eq!(keys.levels(exempt), ProtectionLevels::default());
    }
    assert_eq!(keys.levels(EntityId::SEDP_PUBLICATIONS_WRITER), message);
    assert_eq!(keys.levels(EntityId::PARTICIPANT), message);
    for user in [WRITER, READER] {
        let levels = keys.levels(user);
        assert!(levels.submessage.encrypts() && levels.payload.encrypts());
        let sealed = seal(&keys.cryptography(), Scope::Submessage, user, levels.submessage, &[]);
        assert_eq!(sealed.unwrap_err(), SealError::NoKey);
    }
}

#[test]
fn debug_output_of_keys_contains_no_key() {
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    let tokens = pair.alice.match_remote(WRITER, Guid::new(BOB, READER), &mut random(5));
    let shown = format!("{:?} {:?} {tokens:?}", pair.alice, pair.bob.cryptography());
    for key in tokens.iter().flatten() {
        for secret in [&key.key, &key.salt] {
            let octets = secret.expose();
            let decimal: Vec<String> = octets.iter().take(4).map(u8::to_string).collect();
            assert!(!shown.contains(&decimal.join(", ")), "{shown}");
            let hexadecimal: String = octets.iter().take(4).map(|octet| format!("{octet:02x}")).collect();
            assert!(!shown.contains(&hexadecimal), "{shown}");
        }
    }
}

//! Participants with pre-shared keys exchange announcements.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use peregrine_rtps::id::{DomainId, GuidPrefix};
use peregrine_rtps::locator::{Locator, Source};
use peregrine_rtps::participant::{
    Addresses, Drops, FragmentRun, MessageRefusal, Participant, ParticipantConfig, ParticipantEvent,
};
use peregrine_rtps::protection::{OpenError, Protection, ProtectionKind, Seal, SharedProtection, Text};
use peregrine_rtps::reader::Reception;
use peregrine_rtps::time::{Instant, Span, Timestamp};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::vendor::{ProtocolVersion, VendorId};
use peregrine_rtps::wire::{CryptoFooter, CryptoHeader, Header};

use super::{Passphrases, PreSharedConfig, PreSharedKeys};
use crate::crypto::session::Master;
use crate::crypto::{Algorithm, KeyLength, PreSharedKey, PreSharedKeyOwner};
use crate::limits::{
    IDLE_SESSIONS_INTERVAL, NEW_SESSIONS_PER_INTERVAL, SENDER_DERIVATION_BURST, SENDER_DERIVATION_COST, SENDERS_PARTS,
    SENDERS_PER_PART,
};
use crate::secret::Secret;
use crate::testing::hex;

const NOW: Instant = Instant(1_000_000_000);
const WALL: Timestamp = Timestamp { seconds: 1_000, fraction: 0 };
const ALICE: GuidPrefix = GuidPrefix([1, 15, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
const BOB: GuidPrefix = GuidPrefix([1, 15, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
/// Bytes before the CryptoHeader, and before the text, in a message.
const PREFIX_AT: usize = 20;
const FRAME: usize = 24;

/// Random bytes that count.
fn random() -> impl FnMut(&mut [u8]) {
    let mut next = 0u8;
    move |octets: &mut [u8]| {
        octets.fill_with(|| {
            next = next.wrapping_add(1);
            next
        });
    }
}

fn config(kind: ProtectionKind, prefix: GuidPrefix) -> PreSharedConfig {
    let (key_length, domain_tag) = (KeyLength::Aes256, String::new());
    PreSharedConfig { kind, key_length, domain_id: 201, domain_tag, prefix }
}

fn passphrases(primary: &str, extra: &str) -> Passphrases {
    Passphrases::parse(primary.as_bytes(), extra.as_bytes()).unwrap()
}

fn keys(kind: ProtectionKind, prefix: GuidPrefix, primary: &str) -> Arc<PreSharedKeys> {
    Arc::new(PreSharedKeys::new(config(kind, prefix), Some(&passphrases(primary, "")), &mut random()))
}

fn participant(prefix: GuidPrefix, protection: Option<Arc<PreSharedKeys>>) -> Participant {
    let locator = Locator::from(std::net::SocketAddr::from(([10, 0, 0, prefix.0[2]], 7410)));
    let config = ParticipantConfig {
        domain: DomainId(201),
        addresses: Addresses {
            metatraffic_unicast: vec![locator],
            metatraffic_multicast: vec![locator],
            default_unicast: vec![locator],
            ..Addresses::default()
        },
        protection: protection.map(|keys| SharedProtection::new(keys)),
        ..ParticipantConfig::new(prefix, 1)
    };
    Participant::new(NOW, config)
}

/// The first announcement.
fn announcement(participant: &mut Participant) -> Vec<u8> {
    participant.handle_timeout(NOW + Span::from_secs(1), WALL);
    let mut batch = TransmitBatch::default();
    participant.poll_transmit(NOW, &mut batch);
    let mut out = Vec::new();
    batch.messages().next().expect("an announcement").copy_to(&mut out);
    out
}

/// The events that a message causes.
fn hear(participant: &mut Participant, now: Instant, message: &[u8]) -> Vec<ParticipantEvent> {
    let source = Source::Datagram(([10, 0, 0, 9], 7410).into());
    let rx = Reception { now, wall: WALL, buffer: None, source };
    participant.handle_datagram(&rx, message, &mut FragmentRun::default(), |_, _, _| {});
    std::iter::from_fn(|| participant.poll_event()).collect()
}

fn is_found(events: &[ParticipantEvent], prefix: GuidPrefix) -> bool {
    events.iter().any(|e| matches!(e, ParticipantEvent::ParticipantFound(data) if data.prefix == prefix))
}

fn refusal(events: &[ParticipantEvent]) -> Option<MessageRefusal> {
    events.iter().find_map(|event| match event {
        ParticipantEvent::MessagesRefused { refusal, .. } => Some(*refusal),
        _ => None,
    })
}

#[test]
fn sealed_message_of_the_standards_example_has_these_bytes() {
    let passphrase = "5632:castle super radar denial swing lunar kind swarm wet toilet output harbor basic begin \
                      margin huge year visit";
    let prefix = GuidPrefix(hex("DFCD91E1686804516CB1B60E").try_into().unwrap());
    let receiver = keys(ProtectionKind::Sign, BOB, passphrase);
    let sender = Header { version: ProtocolVersion { major: 2, minor: 5 }, vendor: VendorId([1, 1]), prefix };
    // Made by other programs from the key 4708460a… of the standard: the session key by `openssl dgst -mac HMAC`, the
    // tag of AES-256-GCM with the text as additional data.
    let session_id = [0xaa, 0xbb, 0xcc, 0xdd];
    let header = CryptoHeader { kind: [0, 0, 0x16, 3], key_id: [0x61, 0xc8, 0x53, 0], session_id, suffix: [7; 8] };
    let footer = [&hex(SIGNED_TAG)[..], &[0; 4]].concat();
    let (footer, _) = CryptoFooter::parse(&footer).unwrap();
    let open = |text: &[u8]| receiver.open_pre_shared(NOW, &sender, &header, &footer, &[], Text::Signed(text));
    assert_eq!(open(b"0123456789abcdef"), Ok(()));
    assert_eq!(open(b"0123456789abcdeg"), Err(OpenError::NotAuthentic));
}

/// See above.
const SIGNED_TAG: &str = "85577c62ed5409d1d3b04dc51fb9e9b1";

#[test]
fn announcement_is_framed_and_hidden_and_opened_by_those_with_the_passphrase() {
    for kind in [ProtectionKind::Sign, ProtectionKind::Encrypt] {
        let message = announcement(&mut participant(ALICE, Some(keys(kind, ALICE, "1:secret"))));
        // SRTPS_PREFIX with the flags for little endian and for a pre-shared key.
        assert_eq!(message[PREFIX_AT..PREFIX_AT + 4], [0x33, 0x05, 20, 0]);
        let first_of_text = message[PREFIX_AT + FRAME];
        assert_eq!(first_of_text, if kind.encrypts() { 0x30 } else { 0x0c }, "SEC_BODY or INFO_SRC");
        let shows_writer = message.windows(4).any(|octets| octets == [0, 1, 0, 0xc2]);
        assert_eq!(shows_writer, !kind.encrypts());
        let mut bob = participant(BOB, Some(keys(kind, BOB, "1:secret")));
        assert!(is_found(&hear(&mut bob, NOW, &message), ALICE), "{kind:?}");
        assert_eq!(bob.counters().drops, Drops::default());
    }
}

#[test]
fn message_with_additional_data_is_opened_and_its_header_is_authenticated() {
    for kind in [ProtectionKind::Sign, ProtectionKind::Encrypt] {
        let alice = keys(kind, ALICE, "1:secret");
        let plain = announcement(&mut participant(ALICE, None));
        let (header, body) = plain.split_at(PREFIX_AT);
        let mut text = body.to_vec();
        let seal = if kind.encrypts() {
            seal_with_additional(header, &mut text)
        } else {
            alice.seal_pre_shared(Text::Signed(&plain)).unwrap()
        };
        let mut message = header.to_vec();
        message.extend([0x33, 0x07, 20, 0]);
        message.extend(seal.header.to_bytes());
        if kind.encrypts() {
            message.extend([0x30, 0x01]);
            message.extend((text.len() as u16 + 4).to_le_bytes());
            message.extend((text.len() as u32).to_be_bytes());
        }
        message.extend(&text);
        message.extend([0x34, 0x01, 20, 0]);
        message.extend(seal.common_mac);
        message.extend([0; 4]);
        let bob = || participant(BOB, Some(keys(kind, BOB, "1:secret")));
        assert!(is_found(&hear(&mut bob(), NOW, &message), ALICE), "{kind:?}");
        every_flip_is_refused(&message, bob);
    }
}

/// Encrypts a text of Alice, with additional data.
fn seal_with_additional(additional: &[u8], text: &mut [u8]) -> Seal {
    let secret = PreSharedKey {
        passphrase_id: 1,
        passphrase: Secret::copy_of(b"secret"),
        domain_id: 201,
        domain_tag: String::new(),
    };
    let header = Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: ALICE };
    let algorithm = Algorithm { key_length: KeyLength::Aes256, encrypts: true };
    let material = secret.key_of(PreSharedKeyOwner::of(&header), algorithm);
    let (session_id, suffix) = ([1; 4], [2; 8]);
    let session = Master::of_sender(&material.key, &material.salt, KeyLength::Aes256).derived(session_id);
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &session).unwrap());
    let nonce = Nonce::try_assume_unique_for_key(&[&session_id[..], &suffix].concat()).unwrap();
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(additional), text).unwrap();
    let header = CryptoHeader { kind: material.kind(), key_id: material.key_id, session_id, suffix };
    Seal { header, common_mac: tag.as_ref().try_into().unwrap() }
}

fn every_flip_is_refused(message: &[u8], bob: impl Fn() -> Participant) {
    let mut receiver = bob();
    for bit in 0..message.len() * 8 {
        let mut changed = message.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        // Time passes, so that the budget for unknown senders never ends.
        let events = hear(&mut receiver, NOW + Span::from_millis(bit as u64), &changed);
        let is_quiet = events.iter().all(|event| matches!(event, ParticipantEvent::MessagesRefused { .. }));
        assert!(is_quiet, "bit {bit}: {events:?}");
    }
    assert!(is_found(&hear(&mut receiver, NOW + Span::from_secs(100), message), ALICE));
}

#[test]
fn flipped_bit_anywhere_in_a_message_is_refused() {
    for kind in [ProtectionKind::Sign, ProtectionKind::Encrypt] {
        let message = announcement(&mut participant(ALICE, Some(keys(kind, ALICE, "1:secret"))));
        every_flip_is_refused(&message, || participant(BOB, Some(keys(kind, BOB, "1:secret"))));
    }
}

#[test]
fn refused_messages_have_a_reason_and_a_counter() {
    let kind = ProtectionKind::Encrypt;
    let plain = announcement(&mut participant(ALICE, None));
    let of = |keys: PreSharedKeys| announcement(&mut participant(ALICE, Some(Arc::new(keys))));
    let with = |config: PreSharedConfig, primary: &str| {
        of(PreSharedKeys::new(config, Some(&passphrases(primary, "")), &mut random()))
    };
    let same = config(kind, ALICE);
    let other_domain = with(PreSharedConfig { domain_id: 202, ..same.clone() }, "1:secret");
    let other_tag = with(PreSharedConfig { domain_tag: "tag".to_owned(), ..same.clone() }, "1:secret");
    let cases = [
        (plain, MessageRefusal::Unprotected, Drops { unprotected: 1, ..Drops::default() }),
        (other_domain, MessageRefusal::OtherDomain, Drops { other_domain: 1, ..Drops::default() }),
        (other_tag, MessageRefusal::OtherDomain, Drops { other_domain: 1, ..Drops::default() }),
        (
            with(same.clone(), "2:secret"),
            MessageRefusal::UnknownPassphrase,
            Drops { unknown_passphrase: 1, ..Drops::default() },
        ),
        (
            with(same.clone(), "257:secret"),
            MessageRefusal::UnknownPassphrase,
            Drops { unknown_passphrase: 1, ..Drops::default() },
        ),
        (with(same, "1:another"), MessageRefusal::NotAuthentic, Drops { not_authentic: 1, ..Drops::default() }),
    ];
    for (message, expected, drops) in cases {
        let mut bob = participant(BOB, Some(keys(kind, BOB, "1:secret")));
        let events = hear(&mut bob, NOW, &message);
        assert_eq!((refusal(&events), events.len()), (Some(expected), 1), "{events:?}");
        assert_eq!(bob.counters().drops, drops);
    }
    // A message that is signed where messages are to be encrypted.
    let signed = announcement(&mut participant(ALICE, Some(keys(ProtectionKind::Sign, ALICE, "1:secret"))));
    let mut bob = participant(BOB, Some(keys(kind, BOB, "1:secret")));
    assert_eq!(hear(&mut bob, NOW, &signed).len(), 0);
    assert_eq!(bob.counters().drops, Drops { protected: 1, ..Drops::default() });
}

#[test]
fn forged_sessions_of_a_known_sender_have_a_reason_and_a_counter() {
    let kind = ProtectionKind::Encrypt;
    let message = announcement(&mut participant(ALICE, Some(keys(kind, ALICE, "1:secret"))));
    let mut bob = participant(BOB, Some(keys(kind, BOB, "1:secret")));
    hear(&mut bob, NOW, &message);
    let mut forge = |now: Instant, session: u32| {
        let mut forged = message.clone();
        // Behind the kind and the number of the key.
        forged[FRAME + 8..FRAME + 12].copy_from_slice(&session.to_be_bytes());
        let events = hear(&mut bob, now, &forged);
        let Drops { not_authentic, too_many_sessions, .. } = bob.counters().drops;
        (refusal(&events), not_authentic, too_many_sessions)
    };
    let texts = 2 * NEW_SESSIONS_PER_INTERVAL;
    let reported: Vec<_> = (0..texts).filter_map(|session| forge(NOW, session).0).collect();
    assert_eq!(reported, [MessageRefusal::NotAuthentic, MessageRefusal::TooManySessions], "once in a second each");
    let (_, not_authentic, too_many_sessions) = forge(NOW, texts + 1);
    assert_eq!(not_authentic + too_many_sessions, u64::from(texts) + 1);
    assert!(too_many_sessions > u64::from(texts) / 4, "{too_many_sessions}");
    let admitted = forge(NOW + IDLE_SESSIONS_INTERVAL, texts + 2);
    assert_eq!((admitted.1, admitted.2), (not_authentic + 1, too_many_sessions), "the next interval admits new ones");
}

#[test]
fn replaced_passphrase_is_used_and_the_former_one_opens_while_it_is_known() {
    let kind = ProtectionKind::Encrypt;
    let (alice, bob) = (keys(kind, ALICE, "1:old"), keys(kind, BOB, "1:old"));
    let mut receiver = participant(BOB, Some(Arc::clone(&bob)));
    let said = |keys: &Arc<PreSharedKeys>| announcement(&mut participant(ALICE, Some(Arc::clone(keys))));
    let with_old = said(&alice);
    hear(&mut receiver, NOW, &with_old);
    bob.replace(&passphrases("1:old", "2:new"), &mut random());
    assert_eq!(bob.senders(), 1, "the key of a sender outlives a change of other passphrases");
    alice.replace(&passphrases("2:new", "1:old"), &mut random());
    let with_new = said(&alice);
    assert_ne!(with_old[FRAME..FRAME + 8], with_new[FRAME..FRAME + 8], "the number of the passphrase");
    for message in [&with_new, &with_old] {
        hear(&mut receiver, NOW, message);
    }
    assert_eq!((receiver.counters().drops, bob.senders()), (Drops::default(), 2));
    bob.replace(&passphrases("2:new", ""), &mut random());
    assert_eq!(bob.senders(), 1);
    assert_eq!(refusal(&hear(&mut receiver, NOW, &with_old)), Some(MessageRefusal::UnknownPassphrase));
    bob.replace(&passphrases("2:other", ""), &mut random());
    assert_eq!(bob.senders(), 0);
    assert_eq!(refusal(&hear(&mut receiver, NOW, &with_new)), Some(MessageRefusal::NotAuthentic));
}

#[test]
fn participant_without_passphrases_says_and_hears_nothing() {
    let kind = ProtectionKind::Sign;
    let closed = || Arc::new(PreSharedKeys::new(config(kind, BOB), None, &mut random()));
    let mut bob = participant(BOB, Some(closed()));
    let message = announcement(&mut participant(ALICE, Some(keys(kind, ALICE, "1:secret"))));
    assert_eq!(refusal(&hear(&mut bob, NOW, &message)), Some(MessageRefusal::UnknownPassphrase));
    bob.handle_timeout(NOW + Span::from_secs(1), WALL);
    let mut batch = TransmitBatch::default();
    bob.poll_transmit(NOW, &mut batch);
    assert!(batch.is_empty() && bob.counters().unsealed > 0);
}

/// Opens a text of this sender.
fn opens(receiver: &PreSharedKeys, now: Instant, sender: GuidPrefix, passphrase: &str) -> Result<(), OpenError> {
    let keys = keys(ProtectionKind::Sign, sender, passphrase);
    let seal = keys.seal_pre_shared(Text::Signed(b"text")).unwrap();
    let footer = [&seal.common_mac[..], &[0; 4]].concat();
    let (footer, _) = CryptoFooter::parse(&footer).unwrap();
    let header = Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: sender };
    receiver.open_pre_shared(now, &header, &seal.header, &footer, &[], Text::Signed(b"text"))
}

fn stranger(number: u64) -> GuidPrefix {
    let mut prefix = GuidPrefix([9; 12]);
    prefix.0[4..].copy_from_slice(&number.to_be_bytes());
    prefix
}

#[test]
fn flood_of_strangers_ends_their_budget_and_leaves_known_senders_alone() {
    let bob = keys(ProtectionKind::Sign, BOB, "1:secret");
    assert_eq!(opens(&bob, NOW, ALICE, "1:secret"), Ok(()));
    for number in 1..SENDER_DERIVATION_BURST {
        assert_eq!(opens(&bob, NOW, stranger(number), "1:guess"), Err(OpenError::NotAuthentic));
    }
    assert_eq!(opens(&bob, NOW, stranger(0), "1:secret"), Err(OpenError::TooManySenders));
    assert_eq!(opens(&bob, NOW, ALICE, "1:secret"), Ok(()));
    assert_eq!(bob.senders(), 1, "a stranger takes no room");
    assert_eq!(opens(&bob, NOW + SENDER_DERIVATION_COST, stranger(0), "1:secret"), Ok(()));
}

#[test]
fn least_recently_used_senders_give_way() {
    let bob = keys(ProtectionKind::Sign, BOB, "1:secret");
    let room = SENDERS_PARTS * SENDERS_PER_PART;
    let mut now = NOW;
    assert_eq!(opens(&bob, now, ALICE, "1:secret"), Ok(()));
    for number in 0..room as u64 * 2 {
        now = now + SENDER_DERIVATION_COST;
        assert_eq!(opens(&bob, now, stranger(number), "1:secret"), Ok(()));
        if number % 16 == 0 {
            opens(&bob, now, ALICE, "1:secret").unwrap();
        }
    }
    assert!(bob.senders() <= room && bob.senders() > room * 3 / 4, "{}", bob.senders());
    // Without budget, only a key that was kept opens.
    for number in 0..SENDER_DERIVATION_BURST + 1 {
        let _ = opens(&bob, now, stranger(u64::MAX - number), "1:guess");
    }
    assert_eq!(opens(&bob, now, stranger(u64::MAX / 2), "1:secret"), Err(OpenError::TooManySenders));
    assert_eq!(opens(&bob, now, ALICE, "1:secret"), Ok(()), "a sender in use is kept");
}

#[test]
fn shorter_keys_than_are_accepted_are_refused() {
    let short = PreSharedConfig { key_length: KeyLength::Aes128, ..config(ProtectionKind::Sign, ALICE) };
    let short = PreSharedKeys::new(short, Some(&passphrases("1:secret", "")), &mut random());
    let seal = short.seal_pre_shared(Text::Signed(b"text")).unwrap();
    let footer = [&seal.common_mac[..], &[0; 4]].concat();
    let (footer, _) = CryptoFooter::parse(&footer).unwrap();
    let header = Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: ALICE };
    for (least, expected) in [(KeyLength::Aes128, Ok(())), (KeyLength::Aes256, Err(OpenError::UnknownKey))] {
        let bob =
            PreSharedKeys::new(config(ProtectionKind::Sign, BOB), Some(&passphrases("1:secret", "")), &mut random());
        let bob = bob.accepting(least);
        let found = bob.open_pre_shared(NOW, &header, &seal.header, &footer, &[], Text::Signed(b"text"));
        assert_eq!(found, expected);
        assert_eq!(opens(&bob, NOW, ALICE, "1:secret"), Ok(()), "{least:?}");
    }
}

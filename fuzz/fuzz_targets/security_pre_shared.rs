//! The texts of passphrases, and messages that are protected with a pre-shared key. Any text is parsed or refused. A
//! participant accepts the announcement of a peer as it was sent, and no changed one.
#![no_main]

use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use peregrine_rtps::discovery::data::ParticipantData;
use peregrine_rtps::id::GuidPrefix;
use peregrine_rtps::locator::{Locator, Source};
use peregrine_rtps::participant::{Addresses, FragmentRun, Participant, ParticipantConfig, ParticipantEvent};
use peregrine_rtps::protection::{ProtectionKind, SharedProtection};
use peregrine_rtps::reader::Reception;
use peregrine_rtps::time::{Instant, Span, Timestamp};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_security::crypto::{KeyLength, Passphrases, PreSharedConfig, PreSharedKeys};

const NOW: Instant = Instant(1_000_000_000);
const WALL: Timestamp = Timestamp { seconds: 1, fraction: 0 };
const ALICE: GuidPrefix = GuidPrefix([1; 12]);
const BOB: GuidPrefix = GuidPrefix([2; 12]);
/// Bytes of the RTPS header.
const HEADER: usize = 20;

#[derive(Arbitrary, Debug)]
struct Attack {
    encrypts: bool,
    primary: Vec<u8>,
    extra: Vec<u8>,
    messages: Vec<Message>,
}

#[derive(Arbitrary, Debug)]
enum Message {
    /// Any submessages in the name of the peer.
    Noise(Vec<u8>),
    /// The announcement with some bytes changed or cut.
    Changed { changes: Vec<(u16, u8)>, cut: Option<u16>, appended: Vec<u8> },
}

static SIGNED: LazyLock<Vec<u8>> = LazyLock::new(|| announcement(ProtectionKind::Sign));
static ENCRYPTED: LazyLock<Vec<u8>> = LazyLock::new(|| announcement(ProtectionKind::Encrypt));

fn participant(prefix: GuidPrefix, kind: ProtectionKind) -> Participant {
    let passphrases = Passphrases::parse(b"1:secret", b"").expect("a passphrase");
    let (key_length, domain_tag) = (KeyLength::Aes256, String::new());
    let config = PreSharedConfig { kind, key_length, domain_id: 0, domain_tag, prefix };
    let keys = PreSharedKeys::new(config, Some(&passphrases), &mut |octets| octets.fill(7));
    let locator = Locator::from(std::net::SocketAddr::from(([10, 0, 0, 1], 7410)));
    let config = ParticipantConfig {
        addresses: Addresses {
            metatraffic_unicast: vec![locator],
            metatraffic_multicast: vec![locator],
            default_unicast: vec![locator],
            ..Addresses::default()
        },
        protection: Some(SharedProtection::new(Arc::new(keys))),
        ..ParticipantConfig::new(prefix, 1)
    };
    Participant::new(NOW, config)
}

fn announcement(kind: ProtectionKind) -> Vec<u8> {
    let mut alice = participant(ALICE, kind);
    alice.handle_timeout(NOW + Span::from_secs(1), WALL);
    let mut batch = TransmitBatch::default();
    alice.poll_transmit(NOW, &mut batch);
    let mut out = Vec::new();
    batch.messages().next().expect("an announcement").copy_to(&mut out);
    out
}

/// The participant that the message makes known.
fn believed(bob: &mut Participant, message: &[u8]) -> Option<Box<ParticipantData>> {
    let source = Source::Datagram(([10, 0, 0, 9], 7410).into());
    let rx = Reception { now: NOW, wall: WALL, buffer: None, source };
    bob.handle_datagram(&rx, message, &mut FragmentRun::default(), |_, _, _| {});
    std::iter::from_fn(|| bob.poll_event()).find_map(|event| match event {
        ParticipantEvent::ParticipantFound(data) => Some(data),
        _ => None,
    })
}

fuzz_target!(|attack: Attack| {
    if let Ok(parsed) = Passphrases::parse(&attack.primary, &attack.extra) {
        assert!(parsed.iter().all(|passphrase| passphrase.id() & 0xff != 0xff));
    }
    let kind = if attack.encrypts { ProtectionKind::Encrypt } else { ProtectionKind::Sign };
    let original = if attack.encrypts { &*ENCRYPTED } else { &*SIGNED };
    let mut bob = participant(BOB, kind);
    for message in attack.messages.into_iter().take(50) {
        let message = match message {
            Message::Noise(noise) => [&original[..HEADER], &noise].concat(),
            Message::Changed { changes, cut, appended } => {
                let mut message = original.clone();
                for (at, value) in changes {
                    let at = usize::from(at) % message.len();
                    message[at] = value;
                }
                message.truncate(cut.map_or(usize::MAX, usize::from));
                message.extend_from_slice(&appended);
                message
            }
        };
        // Headers of submessages may state their length in the other byte order, and submessages of vendors may follow.
        if let Some(data) = believed(&mut bob, &message) {
            let expected = believed(&mut participant(BOB, kind), original).expect("the announcement is true");
            assert_eq!(data, expected, "a changed announcement is believed");
            bob = participant(BOB, kind);
        }
    }
});

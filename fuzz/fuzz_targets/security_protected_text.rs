//! Header, text and footer of a protected text are changed in any way: the receiver opens the text that the sender has
//! sealed, and no other.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{Protection, ProtectionKind, Scope, Text};
use peregrine_rtps::wire::{CryptoFooter, CryptoHeader};
use peregrine_security::crypto::{CryptoConfig, KeyFactory};

const ALICE: GuidPrefix = GuidPrefix([1; 12]);
const BOB: GuidPrefix = GuidPrefix([2; 12]);
const WRITER: EntityId = EntityId([0, 0, 2, 3]);
const READER: EntityId = EntityId([0, 0, 3, 4]);
const TEXT: &[u8] = b"sixteen octets.. and some more..";

#[derive(Arbitrary, Debug)]
struct Attack {
    encrypts: bool,
    proves_origin: bool,
    sealed_as: Level,
    opened_as: Level,
    opened_encrypted: bool,
    changes: Vec<(u8, u8)>,
    appended: Vec<u8>,
}

#[derive(Arbitrary, Clone, Copy, PartialEq, Debug)]
enum Level {
    Message,
    Submessage,
    Payload,
}

impl Level {
    fn scope(self) -> (Scope, EntityId, EntityId) {
        match self {
            Self::Message => (Scope::Message, EntityId::PARTICIPANT, EntityId::PARTICIPANT),
            Self::Submessage => (Scope::Submessage, WRITER, READER),
            Self::Payload => (Scope::Payload, WRITER, READER),
        }
    }
}

fn text(encrypts: bool, octets: &mut [u8]) -> Text<'_> {
    if encrypts { Text::Encrypted(octets) } else { Text::Signed(octets) }
}

fuzz_target!(|attack: Attack| {
    let basic = if attack.encrypts { ProtectionKind::Encrypt } else { ProtectionKind::Sign };
    let kind = match (attack.encrypts, attack.proves_origin) {
        (_, false) => basic,
        (false, true) => ProtectionKind::SignWithOriginAuthentication,
        (true, true) => ProtectionKind::EncryptWithOriginAuthentication,
    };
    let mut seed = 0u8;
    let mut random = |out: &mut [u8]| {
        out.iter_mut().for_each(|octet| {
            seed = seed.wrapping_mul(5).wrapping_add(1);
            *octet = seed;
        });
    };
    let mut alice = KeyFactory::new(kind, CryptoConfig::default(), &mut random);
    let mut bob = KeyFactory::new(kind, CryptoConfig::default(), &mut random);
    alice.register_endpoint(WRITER, kind, basic, &mut random);
    bob.register_endpoint(READER, kind, basic, &mut random);
    for (from, to) in [(EntityId::PARTICIPANT, EntityId::PARTICIPANT), (WRITER, READER)] {
        for keys in alice.match_remote(from, Guid::new(BOB, to), &mut random) {
            bob.set_remote_keys(to, Guid::new(ALICE, from), &keys).expect("keys of the same governance");
        }
    }
    let (alice, bob) = (alice.cryptography(), bob.cryptography());
    let (scope, sender, receiver) = attack.sealed_as.scope();
    let mut octets = TEXT.to_vec();
    let seal = alice.seal(scope, sender, None, text(attack.encrypts, &mut octets)).expect("there is a key");
    let proves = kind.authenticates_origin() && attack.sealed_as != Level::Payload;
    let mac = proves.then(|| alice.receiver_mac(scope, sender, &seal, Guid::new(BOB, receiver)).expect("a key"));
    let mut footer = Vec::new();
    CryptoFooter::emit_bytes(&seal.common_mac, mac.iter().copied().collect::<Vec<_>>().into_iter(), &mut footer);

    let original = [&seal.header.to_bytes()[..], &octets, &footer].concat();
    let mut changed = original.clone();
    for (at, value) in attack.changes {
        let at = usize::from(at) % changed.len();
        changed[at] = value;
    }
    changed.extend_from_slice(&attack.appended);
    let (header, rest) = CryptoHeader::parse(&changed).expect("long enough");
    let (octets, footer) = rest.split_at(TEXT.len());
    let Ok((footer, _)) = CryptoFooter::parse(footer) else { return };
    let mut octets = octets.to_vec();
    let (scope, ..) = attack.opened_as.scope();
    let opened = bob.open(scope, ALICE, &header, &footer, text(attack.opened_encrypted, &mut octets));
    if opened.is_ok() {
        assert_eq!(octets, TEXT);
        assert_eq!((attack.opened_as, attack.opened_encrypted), (attack.sealed_as, attack.encrypts));
        assert_eq!((header, footer.common_mac), (seal.header, seal.common_mac));
        // The common MAC does not cover the list of receiver MACs, and each receiver looks at its own (DDS Security 1.2
        // §10.5.2): a MAC for another receiver can be added or removed on the way.
        if let Some(mac) = mac {
            let own: Vec<_> = footer.receivers().filter(|found| found.key_id == mac.key_id).collect();
            assert!(!own.is_empty() && own.iter().all(|found| *found == mac), "{own:?} in place of {mac:?}");
        }
    }
});

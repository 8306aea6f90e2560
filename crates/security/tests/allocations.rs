//! Sealing and opening in a steady state allocate no memory, at every level and with every kind of protection.
//!
//! The program has one thread: the allocations of all threads are counted, and the thread of a test harness makes some.

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{Protection, ProtectionKind, Scope, Text};
use peregrine_rtps::wire::CryptoFooter;
use peregrine_security::crypto::{CryptoConfig, KeyFactory};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const WRITER: EntityId = EntityId([0, 0, 2, 3]);
const READER: EntityId = EntityId([0, 0, 3, 4]);
const ALICE: GuidPrefix = GuidPrefix([1; 12]);
const BOB: GuidPrefix = GuidPrefix([2; 12]);

fn random(seed: u8) -> impl FnMut(&mut [u8]) {
    let mut next = seed;
    move |out| {
        for octet in out {
            next = next.wrapping_mul(5).wrapping_add(1);
            *octet = next;
        }
    }
}

fn main() {
    steady_state_allocates_nothing();
    println!("test steady_state_allocates_nothing ... ok");
}

fn steady_state_allocates_nothing() {
    let kinds = [
        (ProtectionKind::Sign, ProtectionKind::Sign),
        (ProtectionKind::Encrypt, ProtectionKind::Encrypt),
        (ProtectionKind::SignWithOriginAuthentication, ProtectionKind::Sign),
        (ProtectionKind::EncryptWithOriginAuthentication, ProtectionKind::Encrypt),
    ];
    for (kind, payload) in kinds {
        let mut alice = KeyFactory::new(kind, CryptoConfig::default(), &mut random(1));
        let mut bob = KeyFactory::new(kind, CryptoConfig::default(), &mut random(2));
        alice.register_endpoint(WRITER, kind, payload, &mut random(3));
        bob.register_endpoint(READER, kind, payload, &mut random(4));
        for (from, to) in [(EntityId::PARTICIPANT, EntityId::PARTICIPANT), (WRITER, READER)] {
            for keys in alice.match_remote(from, Guid::new(BOB, to), &mut random(5)) {
                bob.set_remote_keys(to, Guid::new(ALICE, from), &keys).unwrap();
            }
        }
        let (alice, bob) = (alice.cryptography(), bob.cryptography());
        let mut text = vec![7; 1400];
        let mut footer = Vec::with_capacity(64);
        let mut pass = |scope, sender, kind: ProtectionKind, receiver| {
            text.fill(7);
            let seal = alice.seal(scope, sender, None, as_text(kind, &mut text)).unwrap();
            let proves = kind.authenticates_origin();
            let mac = proves.then(|| alice.receiver_mac(scope, sender, &seal, Guid::new(BOB, receiver)).unwrap());
            footer.clear();
            CryptoFooter::emit_bytes(&seal.common_mac, mac.as_slice().iter().copied(), &mut footer);
            let (parsed, _) = CryptoFooter::parse(&footer).unwrap();
            let opened = bob.open(scope, ALICE, &seal.header, &parsed, as_text(kind, &mut text));
            assert_eq!(opened, Ok(Guid::new(ALICE, sender)));
            assert!(text.iter().all(|octet| *octet == 7));
        };
        let mut all = || {
            pass(Scope::Message, EntityId::PARTICIPANT, kind, EntityId::PARTICIPANT);
            pass(Scope::Submessage, WRITER, kind, READER);
            pass(Scope::Payload, WRITER, payload, READER);
        };
        // The first texts of a session derive its keys.
        all();
        let profiler = dhat::Profiler::builder().testing().build();
        let before = dhat::HeapStats::get().total_blocks;
        (0..100).for_each(|_| all());
        assert_eq!(dhat::HeapStats::get().total_blocks, before, "{kind:?}");
        drop(profiler);
    }
}

fn as_text(kind: ProtectionKind, octets: &mut [u8]) -> Text<'_> {
    if kind.encrypts() { Text::Encrypted(octets) } else { Text::Signed(octets) }
}

//! 10,000 strangers at once: a real peer is served within a second, and memory and bytes stay within their bounds.

use super::peers::payload;
use super::*;
use crate::authentication::agreement::{Coding, PrivateShare};
use crate::authentication::contents::{Credentials, Request};
use crate::limits::{
    EARLY_MESSAGES, HALF_OPEN, HALF_OPEN_PER_ADDRESS, HANDSHAKE_TIME, PEERS, UNPROVEN_BYTES, WAITING_BYTES,
};
use crate::message::{GenericMessage, names};
use crate::secret::Secret;

const STRANGERS: u64 = 10_000;
/// The bound on the delay of a real peer.
const BOUND: Span = Span::from_secs(1);

/// A certificate that names the authority that is trusted, and is not by it, so that a signature must be verified.
struct Forger {
    owner: Owner,
    dh1: Vec<u8>,
}

impl Forger {
    /// A forger whose GUIDs are below those of another participant, or above.
    fn new(than: GuidPrefix, is_below: bool) -> Self {
        let twin = Identity::self_signed(&Draft::authority("EC CA"), TestKey::ec());
        let names = ["F_1", "F_2", "F_3", "F_4", "F_5", "F_6", "F_7", "F_8", "F_9", "F_10", "F_11", "F_12", "F_13"];
        let mut owners = names.into_iter().map(|name| Owner::new(&twin, name, TestKey::ec()));
        let owner = owners.find(|owner| (owner.prefix.0[..6] < than.0[..6]) == is_below).expect("one of 13 names");
        let seed = Secret::copy_of(&[1; 32]);
        let (_, dh1) = PrivateShare::generate(KeyAgreement::EcdhP256, Coding::Plain, &seed).unwrap();
        Self { owner, dh1 }
    }

    fn prefix(&self, number: u64) -> GuidPrefix {
        let mut prefix = self.owner.prefix;
        prefix.0[6..].copy_from_slice(&number.to_be_bytes()[2..]);
        prefix
    }

    /// A request that is well-formed up to the signature of its certificate.
    fn request(&self, number: u64, to: GuidPrefix) -> Vec<u8> {
        let credentials = Credentials {
            certificate: self.owner.identity.pem().into_bytes(),
            permissions: Vec::new(),
            participant_data: participant_data(self.prefix(number)),
            signature_algorithm: b"ECDSA-SHA256".to_vec(),
            agreement_algorithm: b"ECDH+prime256v1-CEUM".to_vec(),
        };
        let request = Request { credentials, dh1: self.dh1.clone(), challenge1: [1; 32] };
        payload(self.prefix(number), to, request.token())
    }
}

/// Lets strangers arrive during a second, and a real peer in the middle of it. The victim is the other node.
fn flood(mut world: World, real: usize, source: fn(u64) -> IpAddr, forger: &Forger, with_request: bool) -> World {
    let victim = 1 - real;
    for number in 0..STRANGERS {
        let after = Span(number * 1_000_000_000 / STRANGERS);
        let request = with_request.then(|| forger.request(number, PAIR[victim].prefix));
        let arrival = Arrival::Stranger { prefix: forger.prefix(number), source: source(number), request };
        world.arrive(after, victim, arrival);
    }
    let start = world.now;
    let mut sent_before = 0;
    let mut step = |world: &mut World| {
        world.run_for(Span::from_millis(1));
        let usage = world.nodes[victim].authenticator.usage();
        assert!(usage.half_open <= HALF_OPEN && usage.peers <= PEERS && usage.jobs <= 4, "{usage:?}");
        assert!(usage.waiting_bytes <= WAITING_BYTES && usage.early_messages <= EARLY_MESSAGES, "{usage:?}");
        for Transmit { to, payload } in world.nodes[victim].sent.drain(..) {
            sent_before += payload.len() as u64;
            let token = GenericMessage::parse(&payload).unwrap().data.remove(0);
            let is_reply = token.class_id == names::HANDSHAKE_REPLY || token.class_id == names::HANDSHAKE_FINAL;
            assert!(!is_reply || to == PAIR[real].prefix, "a stranger was answered");
        }
        let seconds = world.now.since(start).0 / 1_000_000_000 + 2;
        assert!(sent_before <= UNPROVEN_BYTES * seconds, "{sent_before} bytes in {seconds} s");
    };
    (0..500).for_each(|_| step(&mut world));
    let begun = world.now;
    world.announce(0, 20);
    world.announce(1, 20);
    while !world.agrees(0, 1) {
        assert!(world.now.since(begun) <= BOUND, "not served within {BOUND}");
        step(&mut world);
    }
    (0..1000).for_each(|_| step(&mut world));
    world
}

fn one_address(_: u64) -> IpAddr {
    IpAddr::from([10, 9, 9, 9])
}

fn many_addresses(number: u64) -> IpAddr {
    let [.., a, b] = number.to_be_bytes();
    IpAddr::from([10, 9, a, b])
}

/// The address of the real peer, as forgers may state it.
fn address_of_the_peer(_: u64) -> IpAddr {
    address(0)
}

#[test]
fn requests_of_strangers_from_one_address_do_not_delay_a_peer() {
    let forger = Forger::new(PAIR[1].prefix, true);
    let world = flood(World::pair(1, PERFECT), 0, one_address, &forger, true);
    let usage = world.nodes[1].authenticator.usage();
    assert!(usage.half_open <= HALF_OPEN_PER_ADDRESS, "{usage:?}");
    let statistics = world.nodes[1].authenticator.statistics();
    assert!(statistics.refused > 100 && statistics.no_room > 100, "{statistics:?}");
}

#[test]
fn requests_of_strangers_from_many_addresses_do_not_delay_a_peer() {
    let forger = Forger::new(PAIR[1].prefix, true);
    let world = flood(World::pair(2, PERFECT), 0, many_addresses, &forger, true);
    assert!(world.nodes[1].authenticator.statistics().gave_way > 100);
    // Without the flood, nothing is left of it after some time.
    let mut world = world;
    world.run_for(Span::from_secs(120));
    let usage = world.nodes[1].authenticator.usage();
    assert_eq!((usage.half_open, usage.waiting_bytes, usage.jobs), (0, 0, 0));
    assert!(world.agrees(0, 1));
}

#[test]
fn requests_of_strangers_with_the_address_of_the_peer_do_not_delay_it() {
    let forger = Forger::new(PAIR[1].prefix, true);
    let world = flood(World::pair(3, PERFECT), 0, address_of_the_peer, &forger, true);
    assert!(world.nodes[1].authenticator.statistics().gave_way > 100);
}

#[test]
fn announcements_of_strangers_do_not_delay_a_peer() {
    for (seed, source) in [(4, one_address as fn(u64) -> IpAddr), (5, many_addresses)] {
        let forger = Forger::new(PAIR[0].prefix, false);
        // The victim is the one that would begin.
        let world = flood(World::pair(seed, PERFECT), 1, source, &forger, false);
        assert!(world.nodes[0].authenticator.statistics().no_room > 100);
    }
}

#[test]
fn requests_to_strangers_share_a_budget_of_bytes() {
    const STRANGERS: u64 = 200;
    let mut owner = Owner::new(&EC_AUTHORITY, "P_a", TestKey::ec());
    owner.permissions = vec![b' '; 60_000];
    let forger = Forger::new(owner.prefix, false);
    let mut world = World::new(7, PERFECT);
    world.add(&owner, trusting(&EC_AUTHORITY));
    for number in 0..STRANGERS {
        let (prefix, source) = (forger.prefix(number), many_addresses(number));
        world.arrive(Span(number), 0, Arrival::Stranger { prefix, source, request: None });
    }
    let bytes = |world: &World| world.nodes[0].sent.iter().map(|sent| sent.payload.len() as u64).sum::<u64>();
    world.run_for(Span::from_millis(100));
    assert!(bytes(&world) > UNPROVEN_BYTES - 100_000, "all of it may be used at once");
    for tenths in 2..100 {
        assert!(bytes(&world) * 10 <= UNPROVEN_BYTES * (9 + tenths));
        world.run_for(Span::from_millis(100));
    }
    assert!(world.nodes[0].authenticator.statistics().not_sent > STRANGERS);
    // Each got a request, the first ones before any got many.
    let receivers: std::collections::BTreeSet<_> = world.nodes[0].sent.iter().map(|sent| sent.to).collect();
    assert_eq!(receivers.len() as u64, STRANGERS);
    let first: std::collections::BTreeSet<_> =
        world.nodes[0].sent.iter().take(STRANGERS as usize * 5 / 4).map(|sent| sent.to).collect();
    assert_eq!(first, receivers);
}

/// More bytes than the budget, of which nothing leaves.
#[test]
fn held_back_requests_are_tried_again_until_the_handshake_ends_and_use_no_budget() {
    let mut owner = Owner::new(&EC_AUTHORITY, "P_a", TestKey::ec());
    owner.permissions = vec![b' '; 60_000];
    let forger = Forger::new(owner.prefix, false);
    let mut world = World::new(7, PERFECT);
    world.add(&owner, trusting(&EC_AUTHORITY));
    const STRANGERS: u64 = 60;
    for number in 0..STRANGERS {
        let (prefix, source) = (forger.prefix(number), many_addresses(number));
        world.arrive(Span(number), 0, Arrival::Stranger { prefix, source, request: None });
    }
    let mut tries = 0;
    let most_of_it = HANDSHAKE_TIME.times(2).divided_by(3).0 / 1_000_000;
    for _ in 0..most_of_it / 10 {
        world.run_for(Span::from_millis(10));
        for sent in core::mem::take(&mut world.nodes[0].sent) {
            tries += 1;
            world.call(0, |authenticator, input| {
                authenticator.message_held_back(input, sent.to, sent.payload.len());
            });
        }
    }
    assert!((5 * STRANGERS..20 * STRANGERS).contains(&tries), "{tries}");
    assert_eq!(world.nodes[0].authenticator.statistics().not_sent, 0, "the budget is used up");
    let goes_on = |number| world.nodes[0].authenticator.is_half_open(forger.prefix(number));
    assert!((0..STRANGERS).all(goes_on));
    world.run_for(HANDSHAKE_TIME);
    assert!(!world.nodes[0].authenticator.is_half_open(forger.prefix(0)));
}

#[test]
fn participants_that_are_known_are_bounded_and_idle_ones_give_way() {
    let mut world = World::pair(6, PERFECT);
    world.announce(0, 1);
    world.announce(1, 1);
    world.run_for(Span::from_secs(1));
    let forger = Forger::new(PAIR[1].prefix, true);
    for number in 0..PEERS as u64 + 1000 {
        let prefix = forger.prefix(number);
        world.call(1, |authenticator, input| {
            authenticator.handle_announcement(input, prefix, many_addresses(number), None);
        });
    }
    assert_eq!(world.nodes[1].authenticator.usage().peers, PEERS);
    assert!(world.agrees(0, 1));
    // Sessions do not give way.
    let announced = world.nodes[1].events.len();
    world.announce(0, 1);
    world.run_for(Span::from_secs(1));
    assert_eq!(world.nodes[1].events.len(), announced);
}

#[test]
fn unread_reports_are_bounded() {
    let mut authenticator = PAIR[0].authenticator(trusting(&EC_AUTHORITY), Instant(0));
    let forger = Forger::new(PAIR[0].prefix, false);
    let mut random = random(1);
    for number in 0..2 * crate::limits::REPORTS as u64 {
        let mut input = Input { now: Instant(number), wall: NOW, random: &mut random };
        authenticator.handle_announcement(&mut input, forger.prefix(number), one_address(0), None);
    }
    let reports = core::iter::from_fn(|| authenticator.poll_event()).count();
    assert_eq!(reports, crate::limits::REPORTS);
    assert_eq!(authenticator.statistics().reports_dropped, crate::limits::REPORTS as u64);
}

#[test]
fn unsent_messages_are_bounded() {
    let mut authenticator = PAIR[0].authenticator(trusting(&EC_AUTHORITY), Instant(0));
    let forger = Forger::new(PAIR[0].prefix, true);
    let mut random = random(1);
    // The forgers would begin, so that their challenges are announced to them: 300 bytes each.
    let mut now = Instant(0);
    for number in 0..3 * crate::limits::TRANSMITS as u64 {
        now = now + Span::from_millis(2);
        let mut input = Input { now, wall: NOW, random: &mut random };
        authenticator.handle_announcement(
            &mut input,
            forger.prefix(number),
            many_addresses(number),
            Some(&identity_token()),
        );
        authenticator.handle_timeout(&mut input);
    }
    let messages = core::iter::from_fn(|| authenticator.poll_transmit()).count();
    assert_eq!(messages, crate::limits::TRANSMITS);
    assert!(authenticator.statistics().not_sent > 0);
}

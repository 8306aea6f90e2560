//! The bytes of messages of the handshake to participants that have not proved that they receive anything.

use super::mock::Mock;
use super::*;
use crate::discovery::data::ParticipantSecurityData;
use crate::limits::{
    ANSWER_CREDIT_FACTOR, ANSWER_CREDIT_MAX, ANSWER_REFILL_PER_SECOND, HANDSHAKE_CREDIT_FACTOR, HANDSHAKE_CREDIT_MAX,
    SECURE_MESSAGE_BYTES_MAX,
};
use crate::participant::remote_security::RemoteSecurity;
use crate::protection::{ProtectionKind, SharedProtection};

const STRANGER: u32 = 9;
/// A request with usual certificates and permissions.
const REQUEST: usize = 5000;

/// Host 1 with security, alone.
fn secured() -> Domain {
    let protection = Mock::new(prefix(1), ProtectionKind::None, ProtectionKind::None);
    let security = Some(Box::new(ParticipantSecurityData::default()));
    Domain::new([(1, ParticipantConfig { protection: Some(SharedProtection::new(protection)), security, ..config(1) })])
}

/// The announcement of a participant with security, from the address that it announces.
fn announced(host: u32, to: Option<GuidPrefix>) -> Vec<u8> {
    announced_at(host, host, to)
}

fn announced_at(host: u32, place: u32, to: Option<GuidPrefix>) -> Vec<u8> {
    let addresses = config(place).addresses;
    let security = Some(Box::new(ParticipantSecurityData::default()));
    announcement(ParticipantConfig { security, addresses, ..config(host) }, to)
}

fn send(domain: &mut Domain, to: u32, len: usize) -> Result<(), SecureSendError> {
    let (now, wall) = (domain.now, domain.wall());
    let sent = domain.at(1).send_secure(now, wall, SecureChannel::Handshake, prefix(to), &vec![7; len]);
    domain.run_until_idle();
    sent
}

/// Sends requests until one is held back. Returns their number.
fn requests_until_held_back(domain: &mut Domain, to: u32) -> usize {
    let sent = (0..1000).take_while(|_| send(domain, to, REQUEST) == Ok(())).count();
    assert!(sent < 1000, "no request is held back");
    sent
}

/// The announcements of the stranger to all pay for a request before they are as long as that.
fn announce_until_sent(domain: &mut Domain) {
    let mut came = 0;
    while send(domain, STRANGER, REQUEST).is_err() {
        assert!(came <= REQUEST, "announcements do not pay");
        let heard = announced(STRANGER, None);
        came += heard.len();
        domain.hear(1, &heard);
    }
}

fn bytes_to(domain: &Domain, host: u32) -> usize {
    domain.sent_to(1, host).iter().map(|m| m.bytes.len()).sum()
}

#[test]
fn unverified_participant_gets_ten_bytes_for_each_and_a_constant() {
    let mut domain = secured();
    let mut came = 0;
    for round in 0..200 {
        let heard = announced(STRANGER, None);
        came += heard.len();
        domain.hear(1, &heard);
        requests_until_held_back(&mut domain, STRANGER);
        domain.run(Span::from_millis(100));
        let allowed = came * (ANSWER_CREDIT_FACTOR + HANDSHAKE_CREDIT_FACTOR)
            + ANSWER_CREDIT_MAX
            + (round + 1) * ANSWER_REFILL_PER_SECOND / 10;
        let went = bytes_to(&domain, STRANGER);
        assert!(went <= allowed, "{went} bytes for {came} in round {round}");
    }
    let went = bytes_to(&domain, STRANGER);
    assert!(went > 3 * came, "only {went} bytes for {came}: the requests are not sent");
    assert!(domain.counters(1).drops.held_back >= 200);
}

#[test]
fn recorded_request_of_a_stranger_pays_for_a_bounded_number_of_replies() {
    let mut domain = secured();
    domain.hear(1, &announced(STRANGER, None));
    requests_until_held_back(&mut domain, STRANGER);
    let before = bytes_to(&domain, STRANGER);
    let heard = secure_channels::stranger_handshake(STRANGER, &vec![3; 1200]);
    domain.hear(1, &heard);
    let replies = (0..1000).take_while(|_| send(&mut domain, STRANGER, 1300).is_ok()).count();
    assert!(replies < 1000, "no reply is held back");
    let went = bytes_to(&domain, STRANGER) - before;
    assert!(went > 0 && went <= heard.len() * HANDSHAKE_CREDIT_FACTOR + REQUEST, "{went} bytes for {}", heard.len());
}

#[test]
fn held_back_request_leaves_after_the_next_announcements() {
    let mut domain = secured();
    domain.hear(1, &announced(STRANGER, None));
    requests_until_held_back(&mut domain, STRANGER);
    assert_eq!(send(&mut domain, STRANGER, REQUEST), Err(SecureSendError::Unpaid));
    announce_until_sent(&mut domain);
}

#[test]
fn participant_that_pays_for_its_messages_does_not_wait_for_others_at_its_address() {
    let mut domain = secured();
    // Impostors announce themselves from the address of the participant and use up what it may get unpaid.
    let impostor = 50;
    domain.places.insert(impostor, STRANGER);
    domain.hear(1, &announced_at(impostor, STRANGER, None));
    requests_until_held_back(&mut domain, impostor);
    domain.hear(1, &announced(STRANGER, None));
    let own = announced(STRANGER, None).len();
    assert_eq!(send(&mut domain, STRANGER, own), Ok(()));
    assert_eq!(send(&mut domain, impostor, REQUEST), Err(SecureSendError::Unpaid));
    // Another address has a budget of its own.
    domain.hear(1, &announced(STRANGER + 1, None));
    assert_eq!(send(&mut domain, STRANGER + 1, REQUEST), Ok(()));
}

/// Otherwise, a forger could be heard at many addresses, and direct all messages to one.
#[test]
fn budget_belongs_to_the_address_that_gets_the_messages() {
    let mut domain = secured();
    domain.hear(1, &announced(STRANGER, None));
    requests_until_held_back(&mut domain, STRANGER);
    for impostor in 50..60 {
        // Heard first from an address of its own, then from that of the victim.
        let addresses = config(impostor).addresses;
        let named = [STRANGER, impostor].map(|host| Locator::from(address(host, 7410)));
        let addresses = Addresses { metatraffic_unicast: named.to_vec(), ..addresses };
        let security = Some(Box::new(ParticipantSecurityData::default()));
        let heard = announcement(ParticipantConfig { security, addresses, ..config(impostor) }, None);
        domain.hear_from(1, address(impostor, 7410), &heard);
        domain.hear_from(1, address(STRANGER, 7410), &heard);
        let before = bytes_to(&domain, STRANGER);
        while send(&mut domain, impostor, REQUEST).is_ok() && bytes_to(&domain, STRANGER) - before < ANSWER_CREDIT_MAX {
        }
        let went = bytes_to(&domain, STRANGER) - before;
        assert!(went <= 2 * heard.len() * (ANSWER_CREDIT_FACTOR + HANDSHAKE_CREDIT_FACTOR), "{went} bytes");
    }
}

/// A forger of source addresses may know this participant.
#[test]
fn verified_participant_gets_one_message_free() {
    let mut domain = secured();
    domain.hear(1, &announced(STRANGER, None));
    requests_until_held_back(&mut domain, STRANGER);
    domain.hear(1, &announced(STRANGER, Some(prefix(1))));
    assert_eq!(send(&mut domain, STRANGER, SECURE_MESSAGE_BYTES_MAX), Ok(()));
    assert!(requests_until_held_back(&mut domain, STRANGER) <= 2, "the announcements pay");
    // Announcements to all pay, too.
    announce_until_sent(&mut domain);
}

#[test]
fn authenticated_participant_pays_nothing() {
    let mut domain = secured();
    domain.hear(1, &announced(STRANGER, None));
    requests_until_held_back(&mut domain, STRANGER);
    let remote = domain.at(1).remotes.get_mut(&prefix(STRANGER)).unwrap();
    remote.security = Some(Box::new(RemoteSecurity::new(Admission::Authenticated)));
    for _ in 0..100 {
        assert_eq!(send(&mut domain, STRANGER, REQUEST), Ok(()));
    }
}

#[test]
fn longest_message_leaves_with_full_credit() {
    let mut domain = secured();
    domain.hear(1, &announced(STRANGER, None));
    requests_until_held_back(&mut domain, STRANGER);
    assert_eq!(send(&mut domain, STRANGER, SECURE_MESSAGE_BYTES_MAX), Err(SecureSendError::Unpaid));
    let mut came = 0;
    while send(&mut domain, STRANGER, SECURE_MESSAGE_BYTES_MAX).is_err() {
        let heard = announced(STRANGER, None);
        came += heard.len();
        domain.hear(1, &heard);
        assert!(came <= HANDSHAKE_CREDIT_MAX, "the longest message never leaves");
    }
}

//! Sessions that nothing has proved yet: forged ones cost little and keep no true one out.

use super::super::session::DERIVATIONS;
use super::*;
use crate::limits::{NEW_SESSIONS_PER_INTERVAL, NEW_SESSIONS_SHARE, SESSIONS_AHEAD};

const FLOOD: u32 = 10_000;

/// Each text in a session of its own.
fn renewing() -> Pair {
    pair(origin_authenticated(), CryptoConfig { blocks_per_session: 1, ..CryptoConfig::default() })
}

/// The same text in another session.
fn in_session(sealed: &Sealed, session: u32) -> Sealed {
    Sealed { header: CryptoHeader { session_id: session.to_be_bytes(), ..sealed.header }, ..sealed.clone() }
}

/// The number of a session in no order.
fn scattered(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b9)
}

/// The errors with which Bob refuses texts in these sessions, forged in the name of Alice.
fn flood(sealed: &Sealed, sessions: impl Iterator<Item = u32>, bob: &Cryptography) -> Vec<OpenError> {
    sessions.map(|session| in_session(sealed, session).open(ALICE, bob).unwrap_err()).collect()
}

fn derivations<R>(of: impl FnOnce() -> R) -> (R, u64) {
    let before = DERIVATIONS.get();
    let result = of();
    (result, DERIVATIONS.get() - before)
}

#[test]
fn forged_sessions_derive_one_key_each_for_a_bounded_share_of_texts() {
    let mut pair = pair(origin_authenticated(), CryptoConfig::default());
    let bob = pair.bob.cryptography();
    let of_share = (FLOOD - NEW_SESSIONS_PER_INTERVAL) / NEW_SESSIONS_SHARE;
    let most = u64::from(NEW_SESSIONS_PER_INTERVAL + of_share * 5 / 4);
    for (_, sealed) in all_sealed(&pair) {
        let (errors, derived) = derivations(|| flood(&sealed, (0..FLOOD).map(scattered), &bob));
        let count = |error| errors.iter().filter(|found| **found == error).count() as u64;
        assert_eq!(derived, count(OpenError::NotAuthentic), "{:?}", sealed.scope);
        assert!(derived <= most, "{:?}: {derived} keys", sealed.scope);
        assert_eq!(count(OpenError::TooManySessions), u64::from(FLOOD) - derived, "{:?}", sealed.scope);
        let key = bob.remote(ALICE, sealed.header.key_id).unwrap();
        assert_eq!((key.session_count(), key.expected_count()), (0, 0), "{:?}: forged texts keep keys", sealed.scope);
    }
    pair.bob.drop_idle_sessions();
    for (_, sealed) in all_sealed(&pair) {
        let errors = flood(&sealed, (0..NEW_SESSIONS_PER_INTERVAL).map(scattered), &bob);
        assert!(errors.iter().all(|error| *error == OpenError::NotAuthentic), "the next interval admits as many");
    }
}

#[test]
fn text_without_the_macs_that_it_needs_derives_no_key() {
    let pair = pair(origin_authenticated(), CryptoConfig::default());
    let bob = pair.bob.cryptography();
    for (_, sealed) in all_sealed(&pair) {
        let (footer, _) = CryptoFooter::parse(&sealed.footer).unwrap();
        let of_another = ReceiverMac { key_id: [0xee; 4], mac: [7; 16] };
        // A payload has no MAC for a receiver; the others have one for Bob.
        let macs = if sealed.scope == Scope::Payload { vec![vec![of_another]] } else { vec![vec![], vec![of_another]] };
        for macs in macs {
            let mut changed = Vec::new();
            CryptoFooter::emit_bytes(&footer.common_mac, macs.iter().copied(), &mut changed);
            let changed = Sealed { footer: changed, ..sealed.clone() };
            let (errors, derived) = derivations(|| flood(&changed, 0..FLOOD, &bob));
            assert!(errors.iter().all(|error| *error == OpenError::NotAuthentic), "{:?}", sealed.scope);
            assert_eq!(derived, 0, "{:?}", sealed.scope);
        }
        assert!(sealed.open(ALICE, &bob).is_ok(), "{:?}: they use up nothing", sealed.scope);
    }
}

/// The attacker records the true texts: it knows the key and the sessions that come next.
#[test]
fn true_sender_that_renews_its_session_is_opened_at_once_during_a_flood() {
    let pair = renewing();
    let bob = pair.bob.cryptography();
    let mut recorded = all_sealed(&pair);
    for (_, sealed) in &recorded {
        assert!(sealed.open(ALICE, &bob).is_ok());
    }
    for round in 0..100u32 {
        for (_, sealed) in &recorded {
            let current = u32::from_be_bytes(sealed.header.session_id);
            flood(sealed, (0..FLOOD / 10).map(|number| scattered(round * FLOOD + number)), &bob);
            let next = (0..10).flat_map(|_| (1..20).map(|ahead| current.wrapping_add(ahead)));
            let next_swapped = (1..20).map(|ahead| current.swap_bytes().wrapping_add(ahead).swap_bytes());
            let (_, derived) = derivations(|| flood(sealed, next.chain(next_swapped), &bob));
            // The expected ones in both byte orders, once each, and a share of the others.
            assert!(derived <= 8 + 2 * 165 / 8, "{:?}: {derived} keys, some of them again", sealed.scope);
            let key = bob.remote(ALICE, sealed.header.key_id).unwrap();
            assert!(key.session_count() <= SESSIONS_PER_KEY);
            assert!(key.expected_count() <= 2 * SESSIONS_AHEAD as usize + 1, "{}", key.expected_count());
        }
        // Texts for other participants take sessions, too.
        for _ in 0..round % SESSIONS_AHEAD as u32 {
            all_sealed(&pair);
        }
        recorded = all_sealed(&pair);
        for (sender, sealed) in &recorded {
            let opened = sealed.open(ALICE, &bob);
            assert_eq!(opened, Ok((*sender, TEXT.to_vec())), "round {round}, {:?}", sealed.scope);
        }
    }
}

#[test]
fn first_text_of_a_sender_is_opened_after_few_attempts_in_any_flood() {
    for in_between in [0, 1, 7, NEW_SESSIONS_SHARE, 100 * NEW_SESSIONS_SHARE] {
        let pair = pair(origin_authenticated(), CryptoConfig::default());
        let bob = pair.bob.cryptography();
        for (_, sealed) in all_sealed(&pair) {
            let mut numbers = (0..).map(scattered);
            flood(&sealed, numbers.by_ref().take(FLOOD as usize), &bob);
            let attempts = (1..=1000).find(|_| {
                flood(&sealed, numbers.by_ref().take(in_between as usize), &bob);
                sealed.open(ALICE, &bob).is_ok()
            });
            let most = 8 * NEW_SESSIONS_SHARE;
            assert!(attempts.is_some_and(|attempts| attempts <= most), "{in_between} in between: {attempts:?}");
        }
    }
}

#[test]
fn recorded_texts_of_earlier_sessions_do_not_displace_the_current_one() {
    let pair = renewing();
    let bob = pair.bob.cryptography();
    let recorded: Vec<_> = (0..60).flat_map(|_| all_sealed(&pair)).map(|(_, sealed)| sealed).collect();
    for sealed in &recorded {
        assert!(sealed.open(ALICE, &bob).is_ok());
    }
    let (earlier, current) = recorded.split_at(recorded.len() - 3);
    for sealed in earlier {
        // Some of them are refused, as too many new sessions.
        let _ = sealed.open(ALICE, &bob);
    }
    let (opened, derived) = derivations(|| current.iter().all(|sealed| sealed.open(ALICE, &bob).is_ok()));
    assert!(opened);
    assert_eq!(derived, 0, "keys of the current sessions were displaced");
}

#[test]
fn sessions_whose_keys_were_dropped_are_opened_at_once_during_a_flood() {
    let mut pair = renewing();
    let bob = pair.bob.cryptography();
    let (first, skipped) = (all_sealed(&pair), all_sealed(&pair));
    for (_, sealed) in first.iter().chain(&skipped) {
        assert!(sealed.open(ALICE, &bob).is_ok());
    }
    (0..=USER_IDLE_INTERVALS).for_each(|_| _ = pair.bob.drop_idle_sessions());
    for (_, sealed) in skipped.into_iter().chain(all_sealed(&pair)) {
        assert_eq!(flood(&sealed, (0..FLOOD).map(scattered), &bob).last(), Some(&OpenError::TooManySessions));
        assert!(sealed.open(ALICE, &bob).is_ok(), "{:?}", sealed.scope);
    }
}

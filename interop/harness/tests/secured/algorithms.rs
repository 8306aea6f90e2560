//! Algorithms that the certificates of participants, or their settings, choose.

use std::collections::BTreeSet;

use peregrine_interop::{Capture, NetNs, Participant, Program};
use peregrine_rtps::protection::ProtectionKind::{Encrypt, EncryptWithOriginAuthentication, None as Plain, Sign};
use peregrine_security::issue::KeyChoice;

use super::documents::{ALL, Levels, Member, Realm, Rules};
use super::{Maker, exchange};

/// The names of writer and reader. One name lets the writer begin the handshake, the other one the reader.
const ORDERS: [[&str; 2]; 2] = [["Anna", "Bert"], ["Bert", "Anna"]];

/// Peregrine with itself, and with each of the others in both directions.
const PAIRS: [(&str, [Maker; 2]); 5] = [
    ("peregrine_to_cyclone", [Program::peregrine, Program::cyclone_dds]),
    ("cyclone_to_peregrine", [Program::cyclone_dds, Program::peregrine]),
    ("peregrine_to_fast", [Program::peregrine, Program::fast_dds]),
    ("fast_to_peregrine", [Program::fast_dds, Program::peregrine]),
    ("peregrine_to_peregrine", [Program::peregrine, Program::peregrine]),
];

/// Lets each pair exchange samples, each side as the one that begins the handshake. `adapt` changes the options of the
/// participants that Peregrine runs.
fn check(test: &str, keys: KeyChoice, all_levels: &[Levels], adapt: fn(&mut Participant)) {
    for (pair, makers) in PAIRS {
        let programs = makers.map(|maker| maker().unwrap());
        for (levels, names) in all_levels.iter().flat_map(|levels| ORDERS.map(|names| (levels, names))) {
            let realm = Realm::with_keys(&format!("{test}-{pair}"), keys);
            let mut parts = names.map(|name| realm.participant(&Rules::of(*levels), &Member::named(name)));
            for (part, side) in parts.iter_mut().zip(pair.split("_to_")) {
                if side == "peregrine" {
                    adapt(part);
                }
            }
            let host = NetNs::isolated().unwrap();
            exchange(&host, [&programs[0], &programs[1]], [&parts[0], &parts[1]])
                .unwrap_or_else(|failure| panic!("{pair}, {levels:?}, writer {}: {failure}", names[0]));
        }
    }
}

#[test]
fn participants_with_rsa_keys_exchange_samples() {
    check("rsa", KeyChoice::Rsa2048, &[ALL, [Sign, Encrypt, Encrypt, Encrypt]], |_| {});
}

#[test]
fn samples_of_128_bit_keys_are_exchanged_with_those_of_256_bit_keys() {
    let origin = [Sign, Plain, EncryptWithOriginAuthentication, Encrypt];
    let levels = [ALL, origin, [Sign, Plain, Plain, Plain], [Encrypt, Plain, Plain, Plain]];
    check("short-keys", KeyChoice::P256, &levels, |participant| participant.key_bits = Some(128));
}

/// The transformation kinds of the messages that two participants of Peregrine with keys of this length exchange
/// (DDS Security 1.2 §10.5.2.1.1).
fn kinds_of_messages(levels: Levels, key_bits: Option<u32>) -> BTreeSet<[u8; 4]> {
    /// `SRTPS_PREFIX` begins after the header of the message.
    const PREFIX: usize = 20;
    let realm = Realm::new("kinds");
    let parts = ["Anna", "Bert"].map(|name| {
        let participant = realm.participant(&Rules::of(levels), &Member::named(name));
        Participant { key_bits, ..participant }
    });
    let (program, host) = (Program::peregrine().unwrap(), NetNs::isolated().unwrap());
    let capture = Capture::start(&host, "lo").unwrap();
    exchange(&host, [&program, &program], [&parts[0], &parts[1]]).unwrap();
    let datagrams = capture.stop().unwrap().datagrams("rtps.sm.id == 0x33").unwrap();
    let kinds = datagrams.iter().filter(|(_, bytes)| bytes.get(PREFIX) == Some(&0x33));
    kinds.filter_map(|(_, bytes)| bytes.get(PREFIX + 4..)?.first_chunk().copied()).collect()
}

#[test]
fn messages_state_the_length_of_the_keys() {
    let (sign, encrypt) = ([Sign, Plain, Plain, Plain], [Encrypt, Plain, Plain, Plain]);
    let kinds = [(sign, Some(128)), (encrypt, Some(128)), (sign, None), (encrypt, None)];
    let kinds = kinds.map(|(levels, key_bits)| kinds_of_messages(levels, key_bits).into_iter().collect::<Vec<_>>());
    assert_eq!(kinds, [1, 2, 3, 4].map(|kind| vec![[0, 0, 0, kind]]));
}

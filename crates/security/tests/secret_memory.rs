//! The memory of a process contains no private key, no password and no key of a session after their last use. The
//! stack is cleared before the search: what functions of other crates leave there is not examined.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use aws_lc_rs::hmac;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{Protection, ProtectionKind, Scope, Text};
use peregrine_rtps::wire::CryptoFooter;
use peregrine_security::crypto::{CryptoConfig, KeyFactory};
use peregrine_security::identity::PrivateKey;
use peregrine_security::secret::Secret;

/// Changes the bytes that are searched for, so that the search does not find its own memory.
const MASK: u8 = 0x55;
/// Memory is searched in parts of this length, which overlap.
const PART: usize = 1 << 20;
const OVERLAP: usize = 64;
const STACK: usize = 256 << 10;

const PASSWORD: &str = "0f9Q9zLm4Tx7Vb2Hn6Jk8Pw5Y";
/// Made by `openssl pkcs8 -topk8 -v2 aes-256-cbc`, with this password.
const ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjlVl1BUFgg4gICA+gw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEECnDIISkOu7dE929j7nNF3QEgZDr
+FvK5cM3dM7ax/Zlgm1tkrfL0ImlZYx4J0tUzP3x5e+IjquPy41BI18KX2HWcNY4
7ggtTqOj4F0bg9hw2zOK9tRsvCqGHR3i3xidrNmZMr8UX+OQ7wJCxwwSpT0WOhD3
wVDZahSjCMaBlBt+R6fFR4tJAje0kz5mQZuA8WCeCeYxSH9oBL+p9O27MSdFmu0=
-----END ENCRYPTED PRIVATE KEY-----
";
/// The same key without encryption, in base64 and as the number itself.
const BASE64: [&str; 3] = [
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgZlpGUoxLkM5LvGbo",
    "QeTRcWo6xx8lCKehqeWHooUpptqhRANCAAQhje3gWM6FRjsfsOUBTPm6KPrpZ1zH",
    "QdPkykK2kd9QgjbIaue+Zah6ie/jJo0ccsvBOOwEsz3FixEmMSVTS2iV",
];
const NUMBER: &str = "665a46528c4b90ce4bbc66e841e4d1716a3ac71f2508a7a1a9e587a28529a6da";

const ALICE: GuidPrefix = GuidPrefix([1; 12]);
const BOB: GuidPrefix = GuidPrefix([2; 12]);
const WRITER: EntityId = EntityId([0, 0, 2, 3]);
const READER: EntityId = EntityId([0, 0, 3, 4]);

fn masked(octets: impl Iterator<Item = u8>) -> Vec<u8> {
    octets.map(|octet| octet ^ MASK).collect()
}

fn masked_hex(digits: &str) -> Vec<u8> {
    let digit = |octet: u8| (octet as char).to_digit(16).unwrap() as u8;
    masked(digits.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])))
}

/// Overwrites what functions that have returned left on the stack.
#[inline(never)]
fn clear_stack() {
    let mut room = [0u8; STACK];
    black_box(&mut room);
}

/// How many times the bytes are in the writable memory of this process.
///
/// The search copies parts of the memory into one buffer, which is cleared afterwards and is not searched itself.
fn places(masked: &[u8]) -> usize {
    clear_stack();
    let memory = File::open("/proc/self/mem").unwrap();
    let mut buffer = vec![0; PART];
    let own = buffer.as_ptr() as u64..buffer.as_ptr() as u64 + PART as u64;
    let mut found = std::collections::BTreeSet::new();
    for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
        let mut words = line.split_whitespace();
        let (range, permissions) = (words.next().unwrap(), words.next().unwrap());
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
        if !permissions.starts_with("rw") || line.ends_with("[vvar]") {
            continue;
        }
        let mut at = start;
        while at < end {
            if own.contains(&at) {
                at = own.end;
                continue;
            }
            let stop = if at < own.start { end.min(own.start) } else { end };
            let len = usize::try_from((stop - at).min(PART as u64)).unwrap();
            let read = memory.read_at(&mut buffer[..len], at).unwrap_or(0);
            let windows = buffer[..read].windows(masked.len()).enumerate();
            let is_it = |window: &[u8]| window.iter().zip(masked).all(|(octet, masked)| octet ^ MASK == *masked);
            found.extend(windows.filter(|(_, window)| is_it(window)).map(|(place, _)| at + place as u64));
            at += if read == PART { PART - OVERLAP } else { len } as u64;
        }
    }
    buffer.fill(0);
    black_box(&buffer);
    found.len()
}

/// The key of the session in which the text was sealed, masked (DDS Security 1.2 §10.5.3.3.3).
#[inline(never)]
fn masked_session_key(key: &[u8; 32], salt: &[u8; 32], session_id: [u8; 4]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let text = [b"SessionKey", &salt[..], &session_id].concat();
    masked(hmac::sign(&key, &text).as_ref().iter().copied())
}

/// Random bytes that are all different, beginning with this one.
fn counting(first: u8) -> impl FnMut(&mut [u8]) {
    let mut next = first;
    move |octets: &mut [u8]| {
        octets.fill_with(|| {
            next = next.wrapping_mul(73).wrapping_add(41);
            next
        });
    }
}

fn private_keys_and_passwords() {
    let number = masked_hex(NUMBER);
    let reversed: Vec<u8> = number.iter().rev().copied().collect();
    let password = masked(PASSWORD.bytes());
    // The allocator overwrites the first bytes of what is freed.
    let texts = BASE64.map(|line| masked(line.bytes().skip(24).take(32)));
    let all = [&number, &reversed, &password, &texts[0], &texts[1], &texts[2]];
    let count = || all.map(|masked| places(masked));
    let before = count();
    let signature = {
        let secret = Secret::copy_of(PASSWORD.as_bytes());
        let key = PrivateKey::from_pem(ENCRYPTED, Some(&secret)).unwrap();
        let found = count();
        assert!(found[2] > before[2] && found[0] + found[1] > before[0] + before[1], "the search works: {found:?}");
        key.sign(key.message_algorithm(), b"text").unwrap()
    };
    assert!(!signature.is_empty());
    assert_eq!(count(), before, "an encrypted key");
    {
        // As an application reads a file.
        let mut text = String::with_capacity(1024);
        text.push_str("-----BEGIN PRIVATE KEY-----\n");
        for line in BASE64 {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str("-----END PRIVATE KEY-----\n");
        let text = Secret::from(text.into_bytes());
        let key = PrivateKey::from_pem(std::str::from_utf8(text.expose()).unwrap(), None).unwrap();
        assert!(count()[3] > before[3], "the search works");
        key.sign(key.message_algorithm(), b"text").unwrap();
    }
    assert_eq!(count(), before, "a key without encryption");
}

fn keys_of_senders_and_sessions() {
    let (kind, levels) = (ProtectionKind::None, (ProtectionKind::Encrypt, ProtectionKind::None));
    let mut alice = KeyFactory::new(kind, CryptoConfig::default(), &mut counting(1));
    let mut bob = KeyFactory::new(kind, CryptoConfig::default(), &mut counting(2));
    alice.register_endpoint(WRITER, levels.0, levels.1, &mut counting(3));
    bob.register_endpoint(READER, levels.0, levels.1, &mut counting(4));
    let (mut salt, mut key) = ([0; 32], [0; 32]);
    for keys in alice.match_remote(WRITER, Guid::new(BOB, READER), &mut counting(5)) {
        salt.copy_from_slice(keys[0].salt.expose());
        key.copy_from_slice(keys[0].key.expose());
        bob.set_remote_keys(READER, Guid::new(ALICE, WRITER), &keys).unwrap();
    }
    let mut text = *b"a text of some bytes, which a reader opens.";
    let sealed = alice.cryptography().seal(Scope::Submessage, WRITER, None, Text::Encrypted(&mut text)).expect("a key");
    let footer = [&sealed.common_mac[..], &[0; 4]].concat();
    let (footer, _) = CryptoFooter::parse(&footer).unwrap();
    let opened = bob.cryptography().open(Scope::Submessage, ALICE, &sealed.header, &footer, Text::Encrypted(&mut text));
    assert_eq!(opened, Ok(Guid::new(ALICE, WRITER)));
    let session = masked_session_key(&key, &salt, sealed.header.session_id);
    let sender = masked(key.iter().copied());
    key.fill(0);
    black_box(&mut key);
    // Expanded keys begin with the key itself.
    let found = [places(&sender), places(&session)];
    assert!(found.iter().all(|count| *count >= 2), "the search works: {found:?}");
    drop(bob);
    let without_bob = [places(&sender), places(&session)];
    assert!(without_bob[0] < found[0] && without_bob[1] < found[1], "{found:?}, then {without_bob:?}");
    drop(alice);
    assert_eq!([places(&sender), places(&session)], [0, 0]);
}

/// One test, since each would find the secrets of the others.
#[test]
fn memory_contains_no_secret_after_its_last_use() {
    private_keys_and_passwords();
    keys_of_senders_and_sessions();
}

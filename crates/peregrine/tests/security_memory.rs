//! The memory of a process contains no messages with keys after their exchange.

mod realm;

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use peregrine_rtps::protection::ProtectionKind;
use peregrine_security::message::{DataHolder, GenericMessage, MessageHead, names};
use realm::{Levels, Realm, exchange, participant, reader, writer};

/// Length of a kind of key, and of a salt, in key material with keys of 256 bits.
const KEY_HEAD: [u8; 7] = [0, 0, 0, 4, 0, 0, 0];
/// Longer ranges of memory are searched in parts.
const PART: usize = 1 << 20;

/// Changes the bytes that are searched for, so that the search does not find its own memory.
const MASK: u8 = 0x55;

/// The name of the property that begins a key in a message, masked.
fn masked_name_of_a_key() -> Vec<u8> {
    names::KEY_MATERIAL.bytes().chain([0]).map(|octet| octet ^ MASK).collect()
}

/// The number of messages with keys in the writable memory of this process.
///
/// The search copies parts of the memory into one buffer, which is cleared afterwards and is not searched itself.
fn messages_with_keys() -> usize {
    let name = masked_name_of_a_key();
    let memory = File::open("/proc/self/mem").unwrap();
    let mut buffer = vec![0; PART];
    let own = buffer.as_ptr() as u64;
    // Parts overlap, so that a place may be found twice.
    let mut found = BTreeSet::new();
    for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
        let mut words = line.split_whitespace();
        let (range, permissions) = (words.next().unwrap(), words.next().unwrap());
        let Some((start, end)) = range.split_once('-') else { continue };
        let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
        if !permissions.starts_with("rw") || line.ends_with("[vvar]") {
            continue;
        }
        let mut at = start;
        while at < end {
            let len = usize::try_from((end - at).min(PART as u64)).unwrap();
            // A range that was unmapped in the meantime has no keys.
            let read = memory.read_at(&mut buffer[..len], at).unwrap_or(0);
            if own >= at && own < at + read as u64 {
                let skipped = usize::try_from(own - at).unwrap();
                let skipped_end = (skipped + PART).min(read);
                buffer[skipped..skipped_end].fill(0);
            }
            found.extend(keys_in(&buffer[..read], &name).map(|place| at + place as u64));
            // A message that lies across two parts is in the second one.
            let next = at + if read == PART { read - 4096 } else { read.max(4096) } as u64;
            if own >= at && own < at + PART as u64 {
                at = next.max((own + PART as u64).min(end));
            } else {
                at = next;
            }
        }
    }
    buffer.fill(0);
    std::hint::black_box(&buffer);
    found.len()
}

/// The places with the name of a key, its length, and a salt that is not zero.
fn keys_in<'a>(memory: &'a [u8], masked_name: &'a [u8]) -> impl Iterator<Item = usize> {
    let windows = memory.windows(masked_name.len()).enumerate();
    let is_name = move |window: &[u8]| window.iter().zip(masked_name).all(|(octet, masked)| octet ^ MASK == *masked);
    let places = windows.filter(move |(_, window)| is_name(window)).map(|(at, _)| at);
    let is_key = move |at: usize| {
        let value = memory.get(at + masked_name.len() + 4..)?;
        let salt = value.get(12..28)?;
        Some(value.starts_with(&KEY_HEAD[..3]) && value[4..7] == KEY_HEAD[4..] && salt.iter().any(|octet| *octet != 0))
    };
    places.filter(move |at| is_key(*at) == Some(true))
}

/// A message as it is sent, with one key.
fn message() -> Vec<u8> {
    let mut key = vec![0x11; 88];
    key[..8].copy_from_slice(&[0, 0, 0, 4, 0, 0, 0, 32]);
    let token = DataHolder::new(names::CRYPTO).with(names::KEY_MATERIAL, &key);
    let (head, class_id) = (MessageHead::default(), names::DATAWRITER_CRYPTO_TOKENS.to_owned());
    GenericMessage { head, class_id, data: vec![token] }.to_bytes()
}

#[test]
fn messages_with_keys_leave_nothing_in_memory_once_they_were_exchanged() {
    // The search finds a message that is there, also in a block that was freed.
    let kept = message();
    assert_eq!(messages_with_keys(), 1, "the search does not work");
    drop(peregrine_security::secret::Secret::from(kept));
    assert_eq!(messages_with_keys(), 0);

    let (messages, discovery) = (ProtectionKind::Sign, ProtectionKind::Encrypt);
    let levels =
        Levels { messages, discovery, submessages: ProtectionKind::Encrypt, payloads: ProtectionKind::Encrypt };
    let realm = Realm::new(levels);
    let (a, b) = (participant(112, realm.member("A", 2)), participant(112, realm.member("B", 3)));
    let pairs: Vec<_> = (0..20)
        .map(|number| {
            let topic = format!("open{number}");
            (writer(&a, &topic), reader(&b, &topic))
        })
        .collect();
    pairs.iter().for_each(|(writer, reader)| exchange(writer, reader));
    // The last messages are acknowledged, and perhaps still being read.
    let end = Instant::now() + Duration::from_secs(5);
    while messages_with_keys() > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(messages_with_keys(), 0);
}

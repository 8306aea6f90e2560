//! Recorded traffic: what the governance hides is in no packet, and an independent decoder has no complaint.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use peregrine_interop::{Capture, Complaint, DataType, Error, NetNs, Participant, Program, Qos, Result, Write};
use peregrine_rtps::protection::ProtectionKind;

use super::documents::{GOVERNANCES, Levels, Member, Realm, Rules, is_hidden_by};
use super::{LIMIT, Maker, WORLDS, durable, join};

const TOPIC: &str = "TopicThatMayBeHidden";
const TYPE: DataType = DataType::KeyedSample;
const PARTITION: &str = "PartitionThatMayBeHidden";
const KEY: u32 = 0x5ec2_e7a1;
/// Lengths of samples: in one message, and in fragments.
const SIZES: [u32; 2] = [300, 70_000];

/// The identifiers of submessages of DDS Security (1.2 §7.4.7).
const SEC_PREFIX: &str = "0x31";
const SRTPS_PREFIX: &str = "0x33";
/// The vendor id of Cyclone DDS.
const CYCLONE: &str = "0x0110";
const UNCOMPRESSED: &str = "unable to uncompress payload";

/// The MD5 digest of the key in big endian: the key hash where the payload is encrypted. A key of four bytes is found
/// from it by trial.
const KEY_DIGEST: [u8; 16] =
    [0x95, 0x83, 0xbf, 0x6a, 0x00, 0xb3, 0x2c, 0x6f, 0xd0, 0xa3, 0xb8, 0xb0, 0x2d, 0x17, 0x43, 0xd6];

/// Bytes that appear in a recording if nothing is protected.
fn marks() -> [(&'static str, Vec<u8>); 6] {
    // The data of each sample repeats the numbers from 0 to 250: 64 of them in order are no chance.
    let data = (100..164).collect();
    // The serialized key and the sequence number behind it, and the key as a key hash.
    let key = [KEY.to_le_bytes(), 1u32.to_le_bytes()].concat();
    let hash = [KEY.to_be_bytes(), [0; 4], [0; 4], [0; 4]].concat();
    let text = |text: &str| text.as_bytes().to_vec();
    [
        ("data", data),
        ("key", key),
        ("key hash", hash),
        ("topic name", text(TOPIC)),
        ("type name", text(TYPE.name())),
        ("partition", text(PARTITION)),
    ]
}

/// Marks of samples: their data, and their keys.
fn is_of_sample(mark: &str) -> bool {
    matches!(mark, "data" | "key" | "key hash")
}

/// Whether the governance hides a mark.
fn is_hidden(mark: &str, [messages, discovery, submessages, payloads]: Levels) -> bool {
    let of_samples = [messages, submessages, payloads];
    let of_names = [messages, discovery];
    let kinds = if is_of_sample(mark) { of_samples.as_slice() } else { of_names.as_slice() };
    kinds.iter().copied().any(is_hidden_by)
}

/// The pair of a recording.
struct Recorded {
    programs: [Program; 2],
    /// Whether samples may take another way than the recorded interface, as Peregrine's shared memory.
    may_bypass: bool,
    /// The vendor id of an implementation that sends its plain announcements in clear, although messages are encrypted.
    announces_in_clear: Option<&'static str>,
    /// Whether the end of an instance has a key hash where nothing is encrypted.
    has_key_hash: bool,
    /// Whether the digest of the key stands beside an encrypted payload.
    has_digest: bool,
}

/// The findings in a recording.
struct Found {
    marks: Vec<&'static str>,
    /// Whether the digest of the key is in the recording.
    has_key_digest: bool,
    /// The marks in messages of others than [`Recorded::announces_in_clear`].
    strict_marks: Vec<&'static str>,
    submessages: String,
}

fn contains(octets: &[u8], mark: &[u8]) -> bool {
    octets.windows(mark.len()).any(|window| window == mark)
}

fn marks_in(octets: &[u8]) -> Vec<&'static str> {
    marks().into_iter().filter(|(_, mark)| contains(octets, mark)).map(|(name, _)| name).collect()
}

/// Records an exchange, at whose end the writer disposes and unregisters the instance.
fn record(pair: &Recorded, parts: &[Participant; 2], [_, _, _, payloads]: Levels) -> Result<Found> {
    let host = NetNs::isolated()?;
    let capture = Capture::start(&host, "lo")?;
    let qos = Qos { partitions: vec![PARTITION.to_owned()], ..durable() };
    let mut writer = join(&pair.programs[0], &host, &parts[0])?;
    writer.writer("w", TOPIC, TYPE, &qos)?;
    let mut reader = join(&pair.programs[1], &host, &parts[1])?;
    reader.reader("r", TOPIC, TYPE, &qos)?;
    writer.wait_matched("w", 1, LIMIT)?;
    for (first_seq, size_bytes) in (1..).zip(SIZES) {
        writer.write("w", &Write { key: KEY, first_seq, size_bytes, count: 1, period_us: 0 })?;
        let taken = reader.take("r", 1, LIMIT)?;
        if taken.len() != 1 || !taken.iter().all(|sample| sample.intact && sample.seq == first_seq) {
            return Err(Error::Violated(format!("another sample than the one written: {taken:?}")));
        }
    }
    writer.dispose("w", KEY)?;
    writer.unregister("w", KEY)?;
    writer.wait_acknowledged("w", LIMIT)?;
    reader.leave();
    writer.leave();
    let decoded = capture.stop()?;
    // The decoder does not know which payloads are protected. It takes the kind of the transformation for the options
    // of the encapsulation, and the 4 of AES256_GCM for a compression.
    // A protected key looks like a parameter list to it, which is malformed by chance.
    let is_of_payload = |complaint: &Complaint| {
        let is_malformed = complaint.reason.contains("Malformed") && complaint.summary.contains(TOPIC);
        is_malformed || complaint.reason.ends_with(UNCOMPRESSED)
    };
    let is_expected = |complaint: &Complaint| is_hidden_by(payloads) && is_of_payload(complaint);
    if let Some(first) = decoded.complaints()?.iter().find(|complaint| !is_expected(complaint)) {
        return Err(Error::Violated(format!("a packet does not decode: {first:?}")));
    }
    let octets = fs::read(decoded.file()).map_err(|error| Error::Violated(error.to_string()))?;
    // The properties that configure security name the folder of the documents. No property list may show them.
    for folder in parts.iter().filter_map(|part| part.security.as_ref()) {
        let name = folder.as_os_str().as_encoded_bytes();
        if contains(&octets, name) {
            return Err(Error::Violated(format!("the recording shows the property with {}", folder.display())));
        }
    }
    let marks = marks_in(&octets);
    let strict_marks = match pair.announces_in_clear {
        Some(vendor) => {
            let others = decoded.datagrams(&format!("rtps.vendorId != {vendor}"))?;
            // A mark does not continue in the next datagram.
            marks_in(&others.into_iter().flat_map(|(_, octets)| [octets, vec![0; 4]]).flatten().collect::<Vec<_>>())
        }
        None => marks.clone(),
    };
    let has_key_digest = contains(&octets, &KEY_DIGEST);
    Ok(Found { marks, has_key_digest, strict_marks, submessages: decoded.submessage_ids()? })
}

fn check_one(pair: &Recorded, parts: &[Participant; 2], levels: Levels) -> Result<()> {
    let found = record(pair, parts, levels)?;
    // The digest stands beside the payload, so that the payload must be the only part that is encrypted.
    let [messages, _, submessages, payloads] = levels.map(is_hidden_by);
    let shows_digest = pair.has_digest && payloads && !messages && !submessages;
    if found.has_key_digest != shows_digest {
        return Err(Error::Violated(format!("the digest of the key is in the recording: {}", found.has_key_digest)));
    }
    for (mark, _) in marks() {
        let may_lack = is_of_sample(mark) && pair.may_bypass;
        let is_absent = mark == "key hash" && !pair.has_key_hash;
        if is_hidden(mark, levels) || is_absent {
            let is_excused =
                pair.announces_in_clear.is_some() && !is_of_sample(mark) && levels[1] == ProtectionKind::None;
            let searched = if is_excused { &found.strict_marks } else { &found.marks };
            if searched.contains(&mark) {
                return Err(Error::Violated(format!("the recording shows the {mark}")));
            }
        } else if !may_lack && !found.marks.contains(&mark) {
            return Err(Error::Violated(format!("the recording lacks the {mark}: the search finds nothing")));
        }
    }
    // The exchange of keys always has protected submessages.
    for (id, expected) in [(SRTPS_PREFIX, levels[0] != ProtectionKind::None), (SEC_PREFIX, true)] {
        if expected != found.submessages.contains(id) {
            return Err(Error::Violated(format!("submessage {id} in the recording: {}", !expected)));
        }
    }
    Ok(())
}

fn check(name: &str, pair: &Recorded) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORLDS {
            scope.spawn(|| {
                while let Some((governance, levels)) = GOVERNANCES.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let realm = Realm::new(&format!("capture-{name}-{governance}"));
                    let rules = Rules::of(*levels);
                    let parts = ["Anna", "Bert"].map(|name| realm.participant(&rules, &Member::named(name)));
                    if let Err(error) = check_one(pair, &parts, *levels) {
                        failures.lock().unwrap().push(format!("{governance}: {error}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{name}: {failures:#?}");
}

/// Peregrine writes. Its readers, and those of Cyclone DDS, find an instance by the serialized key.
fn to(reader: Maker, announces_in_clear: Option<&'static str>, has_digest: bool) -> Recorded {
    let programs = [Program::peregrine().unwrap(), reader().unwrap()];
    Recorded { programs, may_bypass: false, announces_in_clear, has_key_hash: true, has_digest }
}

/// Peregrine reads. Both others send the digest of a key where the payload is encrypted (DDS Security 1.2 §7.4.4).
fn from(writer: Maker, announces_in_clear: Option<&'static str>, has_key_hash: bool) -> Recorded {
    let programs = [writer().unwrap(), Program::peregrine().unwrap()];
    Recorded { programs, may_bypass: false, announces_in_clear, has_key_hash, has_digest: true }
}

#[test]
fn recording_of_peregrine_shows_what_is_not_hidden() {
    check("peregrine", &Recorded { may_bypass: true, ..to(Program::peregrine, None, false) });
}

#[test]
fn recording_of_peregrine_and_cyclone_shows_what_is_not_hidden() {
    check("to-cyclone", &to(Program::cyclone_dds, Some(CYCLONE), false));
}

#[test]
fn recording_of_peregrine_and_fast_shows_what_is_not_hidden() {
    check("to-fast", &to(Program::fast_dds, None, true));
}

/// Cyclone DDS sends no key hash where nothing is encrypted.
#[test]
fn recording_of_cyclone_and_a_reader_of_peregrine_shows_what_is_not_hidden() {
    check("from-cyclone", &from(Program::cyclone_dds, Some(CYCLONE), false));
}

#[test]
fn recording_of_fast_and_a_reader_of_peregrine_shows_what_is_not_hidden() {
    check("from-fast", &from(Program::fast_dds, None, true));
}

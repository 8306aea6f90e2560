//! DDS Security with other vendors: each governance, each side as initiator of the handshake, in both directions.
//! `docs/security-interop.md` lists what the others lack.

#![forbid(unsafe_code)]

#[path = "secured/algorithms.rs"]
mod algorithms;
#[path = "secured/attacks.rs"]
mod attacks;
#[path = "secured/captures.rs"]
mod captures;
#[path = "secured/documents.rs"]
mod documents;
#[path = "secured/moves.rs"]
mod moves;
#[path = "secured/outages.rs"]
mod outages;
#[path = "secured/refusals.rs"]
mod refusals;
#[path = "secured/rejoins.rs"]
mod rejoins;
#[path = "secured/restarts.rs"]
mod restarts;
#[path = "secured/rights.rs"]
mod rights;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use documents::{GOVERNANCES, Member, Realm, Rules};
use peregrine_interop::scenario::ends_and_sample;
use peregrine_interop::{DataType, Durability, Error, NetNs, Participant, Peer, Program, Qos, Result, TwoHosts, Write};

const LIMIT: Duration = Duration::from_secs(20);
const TOPIC: &str = "Topic";
/// Lengths of samples: in one message, in some fragments, in hundreds of fragments. Fast DDS 2.9 cannot open a signed
/// payload of another length than a multiple of 4.
const SIZES: [u32; 3] = [100, 70_000, 1_000_000];
/// Exchanges of one pair that run at the same time, each on a network of its own. An exchange mostly waits.
const WORLDS: usize = 3;

type Maker = fn() -> Result<Program>;

/// Reliable and transient local.
fn durable() -> Qos {
    Qos { durability: Durability::TransientLocal, ..Qos::default() }
}

fn sample(seq: u32, size_bytes: u32) -> Write {
    Write { key: 1, first_seq: seq, size_bytes, count: 1, period_us: 0 }
}

/// Starts a peer with a participant in domain 0.
fn join(program: &Program, host: &NetNs, participant: &Participant) -> Result<Peer> {
    let mut peer = Peer::start(program, host)?;
    peer.participant(0, participant)?;
    Ok(peer)
}

/// A writer on the first host and a reader on the second, which match. A sample has arrived.
fn matched(hosts: &TwoHosts, programs: [Maker; 2], parts: &[Participant; 2]) -> Result<[Peer; 2]> {
    let mut writer = join(&programs[0]()?, &hosts.a, &parts[0])?;
    let mut reader = join(&programs[1]()?, &hosts.b, &parts[1])?;
    writer.writer("w", TOPIC, DataType::KeyedSample, &durable())?;
    reader.reader("r", TOPIC, DataType::KeyedSample, &durable())?;
    writer.wait_matched("w", 1, LIMIT)?;
    reader.wait_matched("r", 1, LIMIT)?;
    writer.write("w", &sample(1, 5000))?;
    expect(&mut reader, "r", &[(1, 5000)])?;
    Ok([writer, reader])
}

/// Takes exactly these samples, in order and intact.
fn expect(reader: &mut Peer, name: &str, expected: &[(u32, u32)]) -> Result<()> {
    let taken = reader.take(name, u32::try_from(expected.len()).unwrap_or(u32::MAX), LIMIT)?;
    let is_right = |(sample, (seq, size)): (&peregrine_interop::Received, &(u32, u32))| {
        sample.intact && sample.valid && sample.seq == *seq && sample.size_bytes == *size as usize
    };
    if taken.len() == expected.len() && taken.iter().zip(expected).all(is_right) {
        return Ok(());
    }
    Err(Error::Violated(format!("{name} took other samples than {expected:?}: {taken:?}")))
}

/// A late joiner gets the history, and then what is written later. At last, instances end.
fn exchange(host: &NetNs, [writer, reader]: [&Program; 2], [of_writer, of_reader]: [&Participant; 2]) -> Result<()> {
    let mut writer = join(writer, host, of_writer)?;
    writer.writer("w", TOPIC, DataType::KeyedSample, &durable())?;
    let samples = |first: u32| (first..).zip(SIZES).collect::<Vec<_>>();
    for (seq, size) in samples(1) {
        writer.write("w", &sample(seq, size))?;
    }
    let mut reader = join(reader, host, of_reader)?;
    reader.reader("r", TOPIC, DataType::KeyedSample, &durable())?;
    expect(&mut reader, "r", &samples(1))?;
    writer.wait_matched("w", 1, LIMIT)?;
    reader.wait_matched("r", 1, LIMIT)?;
    for (seq, size) in samples(4) {
        writer.write("w", &sample(seq, size))?;
        expect(&mut reader, "r", &[(seq, size)])?;
    }
    writer.write("w", &Write { key: 2, ..sample(7, 100) })?;
    expect(&mut reader, "r", &[(7, 100)])?;
    ends_and_sample(&mut writer, &mut reader, &sample(8, 100))?;
    writer.wait_acknowledged("w", LIMIT)
}

/// With each governance, and with each of the two sides as the one that begins the handshake.
fn check(pair: &str, writer: Maker, reader: Maker) {
    let programs = [&writer().unwrap(), &reader().unwrap()];
    let orders = [["Anna", "Bert"], ["Bert", "Anna"]];
    let cases: Vec<_> = GOVERNANCES.iter().flat_map(|governance| orders.map(|names| (governance, names))).collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORLDS {
            scope.spawn(|| {
                while let Some(((name, levels), names)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let realm = Realm::new(&format!("{pair}-{name}-{}", names[0]));
                    let parts = names.map(|name| realm.participant(&Rules::of(*levels), &Member::named(name)));
                    let run = || exchange(&NetNs::isolated()?, programs, [&parts[0], &parts[1]]);
                    if let Err(failure) = run() {
                        failures.lock().unwrap().push(format!("{name}, writer {}: {failure}", names[0]));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{pair}: {failures:#?}");
}

#[test]
fn peregrine_to_cyclone() {
    check("peregrine_to_cyclone", Program::peregrine, Program::cyclone_dds);
}

#[test]
fn cyclone_to_peregrine() {
    check("cyclone_to_peregrine", Program::cyclone_dds, Program::peregrine);
}

#[test]
fn peregrine_to_fast() {
    check("peregrine_to_fast", Program::peregrine, Program::fast_dds);
}

#[test]
fn fast_to_peregrine() {
    check("fast_to_peregrine", Program::fast_dds, Program::peregrine);
}

#[test]
fn peregrine_to_peregrine() {
    check("peregrine_to_peregrine", Program::peregrine, Program::peregrine);
}

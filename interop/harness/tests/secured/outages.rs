//! Outages of pairs with DDS Security that are longer than the lease, side by side.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use peregrine_interop::outage::{Figures, Flow, Kind, Outage, Setup, Stalls, Watch, observe_awake};
use peregrine_interop::{Program, Qos, Result};
use peregrine_rtps::protection::ProtectionKind::{Encrypt, None as Plain, Sign};

use super::documents::{Levels, Member, Realm, Rules};
use super::{Maker, durable};

/// Short, so that a test takes seconds. Each peer announces itself more often than once per lease.
const LEASE_MS: u32 = 2000;
const OUTAGE: Duration = Duration::from_secs(6);
/// A killed process is started again after so long, while the other side still knows it.
const DOWN: Duration = Duration::from_secs(1);
/// Long enough that a participant which is forgotten after the outage is seen, and patient with a slow machine.
const WATCH: Watch = Watch { at_least: Duration::from_secs(4), at_most: Duration::from_secs(30) };
/// Far beyond two leases, and the goodbyes to Fast DDS (1 to 4.6 s): a machine may be slow.
const FLOW_LIMIT: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 5;
/// Pairs at the same time. They mostly wait.
const WORLDS: usize = 6;

const SIGNED: Levels = [Sign, Plain, Plain, Plain];
const ENCRYPTED: Levels = [Encrypt, Encrypt, Plain, Plain];
const KINDS: [Kind; 5] = [Kind::StopWriter, Kind::StopReader, Kind::Link, Kind::KillWriter, Kind::KillReader];

/// A pair, its documents and its outage. The names decide which side begins the handshake.
#[derive(Debug)]
struct Case {
    writer: Program,
    reader: Program,
    names: [&'static str; 2],
    levels: Levels,
    qos: Qos,
    kind: Kind,
}

fn observe(case: &Case, place: usize, pair: &str, stalls: &Stalls) -> Result<Figures> {
    let realm = Realm::new(&format!("outage-{pair}-{place}"));
    let documents = case.names.map(|name| realm.participant(&Rules::of(case.levels), &Member::named(name)).security);
    let [Some(of_writer), Some(of_reader)] = documents else { panic!("participants with documents") };
    let is_killed = case.kind.ends_writer() || case.kind.ends_reader();
    let setup = Setup {
        writer: case.writer.clone(),
        reader: case.reader.clone(),
        lease_ms: Some(LEASE_MS),
        security: Some([of_writer, of_reader]),
        qos: case.qos.clone(),
        watch: WATCH,
    };
    let outage = Outage { kind: case.kind, length: if is_killed { DOWN } else { OUTAGE } };
    observe_awake(&setup, outage, stalls, ATTEMPTS)
}

/// Data must flow again after one handshake at most. A simulation checks more exactly when they do, without Fast DDS
/// (`crates/sim/tests/secure_outages.rs`).
fn judge(case: &Case, figures: &Figures) -> std::result::Result<(), String> {
    let is_durable = case.qos == durable();
    let conditions = [
        ("data flow again", matches!(figures.flow, Flow::After(time) if time < FLOW_LIMIT)),
        ("one handshake is enough", figures.writer_authentications.max(figures.reader_authentications) <= 1),
        ("each side matches at most once", figures.writer.new_matches.max(figures.reader.new_matches) <= 1),
        ("each side has one match", [figures.writer.at_end, figures.reader.at_end] == [1, 1]),
        // A reader with history that has lost its writer gets the history again, as each late joiner.
        ("each sample arrives once", is_durable || figures.repeated == 0),
        ("samples arrive in order", is_durable || figures.reordered == 0),
        // A writer of another vendor may report the match before the reader does.
        ("no sample for a matched reader is lost", case.writer != case.reader || figures.lost_outside == 0),
        ("no sample that the writer holds is lost", !is_durable || figures.lost == 0),
    ];
    let broken: Vec<&str> = conditions.iter().filter(|(_, holds)| !holds).map(|(what, _)| *what).collect();
    if broken.is_empty() { Ok(()) } else { Err(format!("not so: {broken:?}")) }
}

fn check(pair: &str, cases: &[Case]) {
    let stalls = Stalls::watch();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        let place = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|place| *place < cases.len());
        for place in std::iter::from_fn(place) {
            let case = &cases[place];
            let result = observe(case, place, pair, &stalls);
            println!("{pair}, {case:?}: {result:?}");
            let verdict = result.as_ref().map_err(ToString::to_string).and_then(|figures| judge(case, figures));
            if let Err(why) = verdict {
                failures.lock().unwrap().push(format!("{case:?}: {why}: {result:?}"));
            }
        }
    };
    thread::scope(|scope| (0..WORLDS).for_each(|_| _ = scope.spawn(work)));
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{pair}: {failures:#?}");
}

const NAMES: [[&str; 2]; 2] = [["Anna", "Bert"], ["Bert", "Anna"]];

#[test]
fn secured_pair_of_peregrine_is_matched_again_and_gets_each_sample_once_after_each_outage() {
    let mut cases = Vec::new();
    for (at, kind) in KINDS.into_iter().enumerate() {
        for (turn, levels) in [SIGNED, ENCRYPTED].into_iter().enumerate() {
            let names = NAMES[(at + turn) % 2];
            let [writer, reader] = [(); 2].map(|()| Program::peregrine().unwrap());
            cases.push(Case { writer, reader, names, levels, qos: Qos::default(), kind });
        }
    }
    // A reader with history: after an outage without the end of a process, the writer still has all.
    for (kind, levels) in [(Kind::StopWriter, ENCRYPTED), (Kind::StopReader, SIGNED), (Kind::Link, ENCRYPTED)] {
        let [writer, reader] = [(); 2].map(|()| Program::peregrine().unwrap());
        cases.push(Case { writer, reader, names: NAMES[0], levels, qos: durable(), kind });
    }
    check("peregrine", &cases);
}

/// Peregrine with a peer of another vendor, in both directions. With the vendor as the one that is stopped, each side
/// begins the handshake in one case.
fn with_vendor(vendor: Maker) -> Vec<Case> {
    let mut cases = Vec::new();
    let (own, vendor) = (Program::peregrine().unwrap(), vendor().unwrap());
    for (at, kind) in KINDS.into_iter().enumerate() {
        for (turn, levels) in [SIGNED, ENCRYPTED].into_iter().enumerate() {
            let [writer, reader] = if turn == 0 { [&own, &vendor] } else { [&vendor, &own] }.map(Clone::clone);
            let names = NAMES[(at + turn) % 2];
            cases.push(Case { writer, reader, names, levels, qos: Qos::default(), kind });
        }
    }
    for (kind, programs) in [(Kind::StopWriter, [&vendor, &own]), (Kind::StopReader, [&own, &vendor])] {
        for names in NAMES {
            let [writer, reader] = programs.map(Clone::clone);
            cases.push(Case { writer, reader, names, levels: SIGNED, qos: Qos::default(), kind });
        }
    }
    cases
}

#[test]
fn secured_pair_of_peregrine_and_cyclone_is_matched_again_after_each_outage() {
    check("cyclone", &with_vendor(Program::cyclone_dds));
}

#[test]
fn secured_pair_of_peregrine_and_fast_is_matched_again_after_each_outage() {
    let mut cases = with_vendor(Program::fast_dds);
    // A stop of a Peregrine that begins the handshake, as the writer and as the reader.
    let [own, vendor] = [Program::peregrine().unwrap(), Program::fast_dds().unwrap()];
    for (kind, [writer, reader], names) in
        [(Kind::StopWriter, [&own, &vendor], ["Bert", "Anna"]), (Kind::StopReader, [&vendor, &own], ["Anna", "Bert"])]
    {
        let [writer, reader] = [writer, reader].map(Clone::clone);
        cases.push(Case { writer, reader, names, levels: ENCRYPTED, qos: Qos::default(), kind });
    }
    check("fast", &cases);
}

//! A host with a participant of Peregrine gets another address while peers of other vendors are authenticated.

use std::time::{Duration, Instant};

use peregrine_interop::{Error, Link, Program, Result, TwoHosts};

use super::documents::{ALL, Levels, Member, OPEN, Realm, Rules};
use super::{LIMIT, Maker, matched, sample};

/// The host of Peregrine, which writes or reads, gets an address in another network in place of its own.
fn exchange_around_a_move(
    vendor: &str,
    peer: Maker,
    writes: bool,
    names: [&'static str; 2],
    levels: Levels,
) -> Result<Duration> {
    let realm = Realm::new(&format!("rejoin-{vendor}-{}", names[0]));
    let hosts = TwoHosts::joined_by(&Link::default())?;
    let parts = names.map(|name| realm.participant(&Rules::of(levels), &Member::named(name)));
    let programs: [Maker; 2] = if writes { [Program::peregrine, peer] } else { [peer, Program::peregrine] };
    let [mut writer, mut reader] = matched(&hosts, programs, &parts)?;

    hosts.move_to_other_network(if writes { &hosts.a } else { &hosts.b })?;
    let start = Instant::now();
    let (moved, name) = if writes { (&mut writer, "w") } else { (&mut reader, "r") };
    // The end of the former match may be too short to be seen.
    moved.wait(name, "matched_total >= 2", LIMIT)?;
    moved.wait_matched(name, 1, LIMIT)?;
    let elapsed = start.elapsed();
    writer.wait_matched("w", 1, LIMIT)?;
    reader.wait_matched("r", 1, LIMIT)?;
    writer.write("w", &sample(2, 5000))?;
    // The reader may get the history again.
    let mut last = None;
    while last != Some(2) {
        let taken = reader.take("r", 1, LIMIT)?;
        last = taken.last().map(|sample| sample.seq);
        if last.is_none() {
            return Err(Error::Violated("no sample since the move".to_owned()));
        }
    }
    writer.wait_acknowledged("w", LIMIT)?;
    Ok(elapsed)
}

fn check(vendor: &str, peer: Maker) {
    for levels in [OPEN, ALL] {
        for names in [["Anna", "Bert"], ["Bert", "Anna"]] {
            for writes in [true, false] {
                let result = exchange_around_a_move(vendor, peer, writes, names, levels);
                println!("Peregrine writes: {writes}, writer {}, {levels:?}: {result:?}", names[0]);
                assert!(result.is_ok(), "Peregrine writes: {writes}, writer {}, {levels:?}: {result:?}", names[0]);
            }
        }
    }
}

#[test]
fn secured_cyclone_reaches_a_participant_that_has_moved() {
    check("cyclone", Program::cyclone_dds);
}

#[test]
fn secured_fast_dds_reaches_a_participant_that_has_moved() {
    check("fast", Program::fast_dds);
}

//! Hosts that get another address while their participants are authenticated, or are about to be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use peregrine_interop::{Error, Link, Program, Result, TwoHosts};

use super::documents::{ALL, Levels, Member, OPEN, Realm, Rules};
use super::{LIMIT, Maker, expect, matched, sample};

/// Changes addresses of hosts.
type Moves = fn(&TwoHosts) -> Result<()>;

/// Samples arrive before and after a move of one host or both.
fn exchange_around_a_move(names: [&'static str; 2], levels: Levels, moves: Moves) -> Result<()> {
    let realm = Realm::new(&format!("move-{}", names[0]));
    let hosts = TwoHosts::joined_by(&Link::default())?;
    let parts = names.map(|name| realm.participant(&Rules::of(levels), &Member::named(name)));
    let [mut writer, mut reader] = matched(&hosts, [Program::peregrine; 2], &parts)?;

    moves(&hosts)?;
    for seq in 2..12 {
        writer.write("w", &sample(seq, 5000))?;
        expect(&mut reader, "r", &[(seq, 5000)])?;
    }
    writer.wait_acknowledged("w", LIMIT)
}

/// Both hosts get addresses in another network.
fn renumber(hosts: &TwoHosts) -> Result<()> {
    for (host, address) in [(&hosts.a, "10.85.0.1/24"), (&hosts.b, "10.85.0.2/24")] {
        host.ip(&["-4", "address", "flush", "dev", TwoHosts::INTERFACE])?;
        host.ip(&["address", "add", address, "dev", TwoHosts::INTERFACE])?;
        host.ip(&["route", "replace", "224.0.0.0/4", "dev", TwoHosts::INTERFACE])?;
    }
    Ok(())
}

#[test]
fn secured_participants_follow_each_other_to_new_addresses() {
    let all: [(&str, Moves); 3] = [
        ("of the writer", |hosts| hosts.move_to_other_network(&hosts.a)),
        ("of the reader", |hosts| hosts.move_to_other_network(&hosts.b)),
        ("of both", renumber),
    ];
    for levels in [ALL, OPEN] {
        for names in [["Anna", "Bert"], ["Bert", "Anna"]] {
            for (which, moves) in all {
                let result = exchange_around_a_move(names, levels, moves);
                assert!(result.is_ok(), "move {which}, {levels:?}, writer {}: {result:?}", names[0]);
            }
        }
    }
}

/// The host of the writer gets a second address and loses it, time and again, until the flag is set. Returns how often.
fn change_addresses(hosts: &TwoHosts, is_over: &AtomicBool) -> Result<u32> {
    let mut changes = 0;
    while !is_over.load(Ordering::Relaxed) {
        for action in ["add", "del"] {
            hosts.a.ip(&["address", action, "10.86.0.1/24", "dev", TwoHosts::INTERFACE])?;
            changes += 1;
        }
    }
    Ok(changes)
}

/// A participant of Peregrine and a peer match while the addresses of the former change. Then they stay the same.
fn match_while_addresses_change(peer: Maker, names: [&'static str; 2]) -> Result<()> {
    let realm = Realm::new(&format!("restless-{}", names[0]));
    let hosts = TwoHosts::joined_by(&Link::default())?;
    let parts = names.map(|name| realm.participant(&Rules::of(ALL), &Member::named(name)));
    let is_over = AtomicBool::new(false);
    let [mut writer, mut reader] = thread::scope(|scope| {
        let changes = scope.spawn(|| change_addresses(&hosts, &is_over));
        let peers = matched(&hosts, [Program::peregrine, peer], &parts);
        is_over.store(true, Ordering::Relaxed);
        let changes = changes.join().expect("no panic")?;
        if changes < 4 { Err(Error::Violated(format!("{changes} changes of addresses"))) } else { peers }
    })?;
    for seq in 2..12 {
        writer.write("w", &sample(seq, 5000))?;
    }
    // The reader may get the history again, if the participant was discovered anew.
    let mut last = 0;
    while last < 11 {
        let taken = reader.take("r", 1, LIMIT)?;
        last = taken.last().map(|sample| sample.seq).ok_or_else(|| Error::Violated(format!("nothing after {last}")))?;
    }
    writer.wait_acknowledged("w", LIMIT)
}

#[test]
fn handshake_is_completed_while_the_addresses_of_the_host_change() {
    let peers: [(&str, Maker); 3] =
        [("Peregrine", Program::peregrine), ("Cyclone DDS", Program::cyclone_dds), ("Fast DDS", Program::fast_dds)];
    for (name, peer) in peers {
        for names in [["Anna", "Bert"], ["Bert", "Anna"]] {
            let result = match_while_addresses_change(peer, names);
            assert!(result.is_ok(), "{name}, writer {}: {result:?}", names[0]);
        }
    }
}

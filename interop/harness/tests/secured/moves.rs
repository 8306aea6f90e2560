//! Hosts that get another address while their participants are authenticated.

use peregrine_interop::{Link, Program, Result, TwoHosts};

use super::documents::{ALL, Levels, Member, OPEN, Realm, Rules};
use super::{LIMIT, expect, matched, sample};

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

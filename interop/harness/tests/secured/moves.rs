//! Hosts that get another address while their participants are authenticated.

use peregrine_interop::{DataType, Link, NetNs, Program, Result, TwoHosts};

use super::documents::{ALL, Levels, Member, OPEN, Realm, Rules};
use super::{LIMIT, TOPIC, durable, expect, join, sample};

/// The host of the writer or of the reader gets an address in another network in place of its own.
fn exchange_around_a_move(names: [&'static str; 2], levels: Levels, moving: fn(&TwoHosts) -> &NetNs) -> Result<()> {
    let realm = Realm::new(&format!("move-{}", names[0]));
    let hosts = TwoHosts::joined_by(&Link::default())?;
    let [of_writer, of_reader] = names.map(|name| realm.participant(&Rules::of(levels), &Member::named(name)));
    let program = Program::peregrine()?;
    let mut writer = join(&program, &hosts.a, &of_writer)?;
    let mut reader = join(&program, &hosts.b, &of_reader)?;
    writer.writer("w", TOPIC, DataType::KeyedSample, &durable())?;
    reader.reader("r", TOPIC, DataType::KeyedSample, &durable())?;
    writer.wait_matched("w", 1, LIMIT)?;
    reader.wait_matched("r", 1, LIMIT)?;
    writer.write("w", &sample(1, 5000))?;
    expect(&mut reader, "r", &[(1, 5000)])?;

    hosts.move_to_other_network(moving(&hosts))?;
    for seq in 2..12 {
        writer.write("w", &sample(seq, 5000))?;
        expect(&mut reader, "r", &[(seq, 5000)])?;
    }
    writer.wait_acknowledged("w", LIMIT)
}

#[test]
fn secured_participants_follow_each_other_to_new_addresses() {
    for levels in [ALL, OPEN] {
        for names in [["Anna", "Bert"], ["Bert", "Anna"]] {
            let moves: [fn(&TwoHosts) -> &NetNs; 2] = [|hosts| &hosts.a, |hosts| &hosts.b];
            for (number, moving) in moves.into_iter().enumerate() {
                let result = exchange_around_a_move(names, levels, moving);
                assert!(result.is_ok(), "writer {}, {levels:?}, host {number}: {result:?}", names[0]);
            }
        }
    }
}

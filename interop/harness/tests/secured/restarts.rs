//! Processes that are killed and started again at the same address, with the same identity.

use std::time::{Duration, Instant};

use peregrine_interop::{DataType, Error, NetNs, Participant, Peer, Program, Result};

use super::documents::{ALL, Member, Realm, Rules};
use super::{LIMIT, Maker, TOPIC, durable, expect, join, sample};

const LEASE_MS: u32 = 4000;
/// From the start of the new process until its first sample has arrived. No lease has to end for that.
const AGAIN_LIMIT: Duration = Duration::from_millis(3500);

struct Side {
    program: Program,
    documents: Participant,
}

impl Side {
    fn writer(&self, host: &NetNs) -> Result<Peer> {
        let mut peer = join(&self.program, host, &self.documents)?;
        peer.writer("w", TOPIC, DataType::KeyedSample, &durable())?;
        Ok(peer)
    }

    fn reader(&self, host: &NetNs) -> Result<Peer> {
        let mut peer = join(&self.program, host, &self.documents)?;
        peer.reader("r", TOPIC, DataType::KeyedSample, &durable())?;
        Ok(peer)
    }
}

/// Kills the reader and starts it again, and then the writer. The one that stays matches the new process at once, and
/// forgets the old one when its lease ends.
fn kill_and_restart(writer: &Side, reader: &Side) -> Result<()> {
    let host = NetNs::isolated()?;
    let (mut w, mut r) = (writer.writer(&host)?, reader.reader(&host)?);
    w.wait_matched("w", 1, LIMIT)?;
    w.write("w", &sample(1, 5000))?;
    expect(&mut r, "r", &[(1, 5000)])?;

    r.kill()?;
    let start = Instant::now();
    let mut r = reader.reader(&host)?;
    expect(&mut r, "r", &[(1, 5000)])?;
    in_time("the reader", start)?;
    w.write("w", &sample(2, 5000))?;
    expect(&mut r, "r", &[(2, 5000)])?;
    w.wait_matched("w", 1, LIMIT)?;
    w.wait_acknowledged("w", LIMIT)?;

    w.kill()?;
    let start = Instant::now();
    let mut w = writer.writer(&host)?;
    w.write("w", &sample(10, 5000))?;
    expect(&mut r, "r", &[(10, 5000)])?;
    in_time("the writer", start)?;
    r.wait_matched("r", 1, LIMIT)?;
    w.wait_acknowledged("w", LIMIT)
}

fn in_time(what: &str, start: Instant) -> Result<()> {
    let elapsed = start.elapsed();
    println!("{what} is back after {elapsed:?}");
    if elapsed <= AGAIN_LIMIT {
        return Ok(());
    }
    Err(Error::Violated(format!("{what} is back after {elapsed:?}")))
}

/// In each order of the names, which decide the side that begins the handshake.
fn check(name: &str, writer: Maker, reader: Maker) {
    for names in [["Anna", "Bert"], ["Bert", "Anna"]] {
        let realm = Realm::new(&format!("restart-{name}-{}", names[0]));
        let documents = names.map(|name| Participant {
            lease_ms: Some(LEASE_MS),
            ..realm.participant(&Rules::of(ALL), &Member::named(name))
        });
        let [of_writer, of_reader] = documents;
        let writer = Side { program: writer().unwrap(), documents: of_writer };
        let reader = Side { program: reader().unwrap(), documents: of_reader };
        kill_and_restart(&writer, &reader).unwrap_or_else(|error| panic!("writer {}: {error}", names[0]));
    }
}

#[test]
fn killed_process_of_peregrine_and_cyclone_is_back_in_time() {
    check("peregrine-cyclone", Program::peregrine, Program::cyclone_dds);
    check("cyclone-peregrine", Program::cyclone_dds, Program::peregrine);
}

#[test]
fn killed_process_of_peregrine_and_fast_is_back_in_time() {
    check("peregrine-fast", Program::peregrine, Program::fast_dds);
    check("fast-peregrine", Program::fast_dds, Program::peregrine);
}

#[test]
fn killed_process_of_peregrine_is_back_in_time() {
    check("peregrine-peregrine", Program::peregrine, Program::peregrine);
}

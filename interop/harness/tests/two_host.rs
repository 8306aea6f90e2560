//! Two hosts joined by a link that drops packets, is slow, or both.

#![forbid(unsafe_code)]

#[path = "two_host/outages.rs"]
mod outages;

use std::time::{Duration, Instant};

use peregrine_interop::scenario::{Load, Pair, Side, exchange};
use peregrine_interop::{
    Capture, DataType, Link, NetNs, Participant, Peer, Program, Qos, Rate, Result, TwoHosts, Write,
};

/// A message that fits into one Ethernet packet, so that a lost packet is one lost message.
const MESSAGE_SIZE_MAX_BYTES: u32 = 1400;

type Maker = fn() -> Result<Program>;

/// Samples of one packet and of many, with a time limit that repair at 20 % of loss in both directions needs.
const LOADS: [Load; 3] = [
    Load { size_bytes: 32, count: 200, period_us: 1000, limit: Duration::from_secs(60) },
    Load { size_bytes: 4096, count: 50, period_us: 1000, limit: Duration::from_secs(60) },
    Load { size_bytes: 1_000_000, count: 2, period_us: 0, limit: Duration::from_secs(120) },
];

/// Reliable exchange from host a to host b while this share of the packets is lost in each direction.
fn exchange_with_loss(writer: Maker, reader: Maker, permille: u32, loads: &[Load]) -> Result<()> {
    let hosts = TwoHosts::joined_by(&Link::default())?;
    hosts.drop_randomly(permille)?;
    exchange_between(&hosts, writer, reader, loads)
}

fn exchange_between(hosts: &TwoHosts, writer: Maker, reader: Maker, loads: &[Load]) -> Result<()> {
    let participant = || Participant { message_size_max_bytes: Some(MESSAGE_SIZE_MAX_BYTES), ..Participant::default() };
    let [writer, reader] = [writer()?, reader()?];
    let pair = Pair {
        writer: Side { program: &writer, host: &hosts.a, participant: participant() },
        reader: Side { program: &reader, host: &hosts.b, participant: participant() },
    };
    exchange(&pair, DataType::KeyedSample, &Qos::default(), loads)
}

macro_rules! pairs {
    ($($pair:ident: $writer:ident => $reader:ident;)*) => {
        $(mod $pair {
            use super::*;

            #[test]
            fn every_sample_arrives_with_1_percent_lost() {
                exchange_with_loss(Program::$writer, Program::$reader, 10, &LOADS).unwrap();
            }

            #[test]
            fn every_sample_arrives_with_5_percent_lost() {
                exchange_with_loss(Program::$writer, Program::$reader, 50, &LOADS).unwrap();
            }

            #[test]
            fn every_sample_arrives_with_20_percent_lost() {
                exchange_with_loss(Program::$writer, Program::$reader, 200, &LOADS).unwrap();
            }
        })*
    };
}

pairs! {
    cyclone_to_fast: cyclone_dds => fast_dds;
    fast_to_cyclone: fast_dds => cyclone_dds;
    cyclone_to_cyclone_11: cyclone_dds => cyclone_dds_11;
    cyclone_11_to_cyclone: cyclone_dds_11 => cyclone_dds;
    peregrine_to_cyclone: peregrine => cyclone_dds;
    cyclone_to_peregrine: cyclone_dds => peregrine;
    peregrine_to_fast: peregrine => fast_dds;
    fast_to_peregrine: fast_dds => peregrine;
    peregrine_to_cyclone_11: peregrine => cyclone_dds_11;
    cyclone_11_to_peregrine: cyclone_dds_11 => peregrine;
    peregrine_to_peregrine: peregrine => peregrine;
}

fn a_slow_link_carries_everything_and_decodes(writer: Maker, reader: Maker) {
    let rate = Rate { bits_per_second: 100_000_000, burst_bytes: 64 << 10, queue_bytes: 16 << 20 };
    let hosts = TwoHosts::joined_by(&Link { rate: Some(rate), ..Link::default() }).unwrap();
    let capture = Capture::start(&hosts.b, TwoHosts::INTERFACE).unwrap();
    exchange_between(&hosts, writer, reader, &LOADS).unwrap();
    let decoded = capture.stop().unwrap();
    assert!(decoded.rtps_packets().unwrap() > 0);
    assert_eq!(decoded.complaints().unwrap(), []);
}

#[test]
fn samples_arrive_over_slow_link_between_cyclones() {
    a_slow_link_carries_everything_and_decodes(Program::cyclone_dds, Program::cyclone_dds);
}

#[test]
fn samples_arrive_over_slow_link_between_peregrines() {
    a_slow_link_carries_everything_and_decodes(Program::peregrine, Program::peregrine);
}

/// An announcement is one message, which only IP can fragment.
fn assert_fragmented_announcement_is_understood(reader: Maker, by_unicast: bool) {
    let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
    let [a, b] = TwoHosts::ADDRESSES.map(|address| if by_unicast { vec![address.to_owned()] } else { vec![] });
    let large = Participant {
        message_size_max_bytes: None,
        user_data_bytes: Some(4000),
        unicast_peers: b,
        ..Participant::default()
    };
    let [writer, reader] = [Program::peregrine().unwrap(), reader().unwrap()];
    let pair = Pair {
        writer: Side { program: &writer, host: &hosts.a, participant: large },
        reader: Side {
            program: &reader,
            host: &hosts.b,
            participant: Participant { unicast_peers: a, ..Participant::default() },
        },
    };
    exchange(&pair, DataType::KeyedSample, &Qos::default(), &LOADS[..1]).unwrap();
}

#[test]
fn large_multicast_announcement_is_understood() {
    assert_fragmented_announcement_is_understood(Program::cyclone_dds, false);
    assert_fragmented_announcement_is_understood(Program::peregrine, false);
}

#[test]
fn large_unicast_announcement_is_understood() {
    assert_fragmented_announcement_is_understood(Program::cyclone_dds, true);
    assert_fragmented_announcement_is_understood(Program::peregrine, true);
}

/// The longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(30);
const DOMAIN: u32 = 5;

/// A writer on one host and a reader on the other.
struct Stream {
    writer: Peer,
    reader: Peer,
    next_seq: u32,
}

impl Stream {
    fn start(hosts: &TwoHosts, programs: [Maker; 2], participant: &Participant) -> Result<Self> {
        Self::start_with(hosts, programs, [participant; 2])
    }

    fn start_with(hosts: &TwoHosts, programs: [Maker; 2], participants: [&Participant; 2]) -> Result<Self> {
        let peer = |side: usize, host| {
            let mut peer = Peer::start(&programs[side]()?, host)?;
            peer.participant(DOMAIN, participants[side])?;
            Result::Ok(peer)
        };
        let (mut writer, mut reader) = (peer(0, &hosts.a)?, peer(1, &hosts.b)?);
        writer.writer("w", "moving", DataType::KeyedSample, &Qos::default())?;
        reader.reader("r", "moving", DataType::KeyedSample, &Qos::default())?;
        Ok(Self { writer, reader, next_seq: 1 })
    }

    /// Writes until a sample arrives. Samples that are written before the new match are lost.
    fn wait_for_sample(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < end, "{} to {}: no sample since the move", self.writer.name(), self.reader.name());
            let write = Write { key: 1, first_seq: self.next_seq, size_bytes: 3000, count: 1, period_us: 0 };
            self.writer.write("w", &write).unwrap();
            self.next_seq += 1;
            if !self.reader.take("r", 1, Duration::from_millis(100)).unwrap().is_empty() {
                break;
            }
        }
        self.writer.wait_acknowledged("w", PATIENCE).unwrap();
    }

    /// Writes ten samples and checks that all arrive.
    fn exchange(&mut self) -> Result<()> {
        const COUNT: u32 = 10;
        let first_seq = self.next_seq;
        self.next_seq += COUNT;
        self.writer.write("w", &Write { key: 1, first_seq, size_bytes: 3000, count: COUNT, period_us: 0 })?;
        self.writer.wait_acknowledged("w", PATIENCE)?;
        let samples = self.reader.take("r", COUNT, PATIENCE)?;
        let numbers: Vec<u32> = samples.iter().map(|sample| sample.seq).collect();
        let pair = format!("{} to {}", self.writer.name(), self.reader.name());
        assert_eq!(numbers, (first_seq..self.next_seq).collect::<Vec<_>>(), "{pair}");
        assert!(samples.iter().all(|sample| sample.intact), "{samples:?}");
        Ok(())
    }
}

/// Both hosts begin with loopback only. Then a link is added; then the host of the writer or of the reader gets an
/// address in another network in place of its own; then the link is removed for a while.
fn peers_follow_the_addresses_of(moving: fn(&TwoHosts) -> &NetNs, participant: &Participant) -> Result<()> {
    let hosts = TwoHosts::apart()?;
    let mut stream = Stream::start(&hosts, [Program::peregrine; 2], participant)?;
    hosts.join(&Link::default())?;
    stream.writer.wait_matched("w", 1, PATIENCE)?;
    stream.reader.wait_matched("r", 1, PATIENCE)?;
    stream.exchange()?;

    hosts.move_to_other_network(moving(&hosts))?;
    stream.exchange()?;

    hosts.a.ip(&["link", "delete", TwoHosts::INTERFACE])?;
    hosts.join(&Link::default())?;
    stream.exchange()
}

#[test]
fn writer_with_new_address_is_followed() {
    peers_follow_the_addresses_of(|hosts| &hosts.a, &Participant::default()).unwrap();
}

#[test]
fn reader_with_new_address_is_followed() {
    peers_follow_the_addresses_of(|hosts| &hosts.b, &Participant::default()).unwrap();
}

/// The peer of another vendor keeps the first addresses of a participant as long as it knows the participant.
fn assert_peer_reaches_moved_peregrine(programs: [Maker; 2], moving: fn(&TwoHosts) -> &NetNs) {
    let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
    let mut stream = Stream::start(&hosts, programs, &Participant::default()).unwrap();
    stream.writer.wait_matched("w", 1, PATIENCE).unwrap();
    stream.reader.wait_matched("r", 1, PATIENCE).unwrap();
    stream.exchange().unwrap();
    hosts.move_to_other_network(moving(&hosts)).unwrap();
    stream.wait_for_sample();
}

#[test]
fn writer_of_other_vendor_reaches_reader_that_has_moved() {
    for writer in [Program::cyclone_dds, Program::cyclone_dds_11, Program::fast_dds] {
        assert_peer_reaches_moved_peregrine([writer, Program::peregrine], |hosts| &hosts.b);
    }
}

#[test]
fn reader_of_other_vendor_acknowledges_to_writer_that_has_moved() {
    for reader in [Program::cyclone_dds, Program::cyclone_dds_11, Program::fast_dds] {
        assert_peer_reaches_moved_peregrine([Program::peregrine, reader], |hosts| &hosts.a);
    }
}

/// The lease of the other vendor's participant ends during an outage of the network, that of ours does not. Meanwhile
/// our host gets another address; the other vendor still has the former one.
#[test]
fn peers_that_were_forgotten_before_a_move_are_reached() {
    let short = Participant { lease_ms: Some(2000), ..Participant::default() };
    for reader in [Program::cyclone_dds, Program::cyclone_dds_11, Program::fast_dds] {
        let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
        let programs = [Program::peregrine, reader];
        let mut stream = Stream::start_with(&hosts, programs, [&Participant::default(), &short]).unwrap();
        stream.writer.wait_matched("w", 1, PATIENCE).unwrap();
        stream.reader.wait_matched("r", 1, PATIENCE).unwrap();
        stream.exchange().unwrap();
        hosts.drop_randomly(1000).unwrap();
        stream.writer.wait_matched("w", 0, PATIENCE).unwrap();
        hosts.move_to_other_network(&hosts.a).unwrap();
        hosts.drop_randomly(0).unwrap();
        let matched = stream.writer.wait_matched("w", 1, PATIENCE);
        assert!(matched.is_ok(), "{} to {}: {matched:?}", stream.writer.name(), stream.reader.name());
        stream.wait_for_sample();
    }
}

#[test]
fn polled_participant_follows_and_is_followed() {
    let polled = Participant { is_polled: true, ..Participant::default() };
    peers_follow_the_addresses_of(|hosts| &hosts.a, &polled).unwrap();
    peers_follow_the_addresses_of(|hosts| &hosts.b, &polled).unwrap();
}

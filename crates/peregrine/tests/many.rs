//! Many participants on one host, with sockets of their own, without multicast.

mod common;

use common::{PATIENCE, Reading, config, eventually};
use peregrine::DomainParticipant;

/// Participants that share neither sockets nor threads, because their configurations differ.
fn participants(domain: u16, count: usize, peer: &str) -> Vec<DomainParticipant> {
    (0..count)
        .map(|n| {
            let mut config = config();
            config.receive_buffers = 16 + n;
            config.receive_buffer_bytes = 1 << 17;
            config.multicast = false;
            config.peers = vec![peer.parse().unwrap()];
            DomainParticipant::builder(u32::from(domain)).config(config).build().unwrap()
        })
        .collect()
}

fn exchange(from: &DomainParticipant, to: &DomainParticipant) {
    let writer = from.topic::<Reading>("readings").unwrap().writer_builder().reliable().build().unwrap();
    let reader = to.topic::<Reading>("readings").unwrap().reader_builder().reliable().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 1)));
}

#[test]
fn twenty_participants_discover_each_other() {
    let all = participants(93, 20, "19@127.0.0.1");
    eventually("all participants have discovered each other", || {
        all.iter().all(|p| p.discovered_participants().len() == 19)
    });
    exchange(&all[0], &all[19]);
}

#[test]
fn participants_past_last_port_index_are_discovered() {
    const DOMAIN: u16 = 94;
    // There are 120 indices; plain sockets take all but the last two.
    let ports = (0..118).map(|index| 7400 + 250 * DOMAIN + 10 + 2 * index);
    let taken: Vec<_> = ports.filter_map(|port| std::net::UdpSocket::bind(("0.0.0.0", port)).ok()).collect();
    assert_eq!(taken.len(), 118);
    let all = participants(DOMAIN, 5, "119@127.0.0.1");
    let (indexed, past) = all.split_at(2);
    eventually("those with an index know everyone", || indexed.iter().all(|p| p.discovered_participants().len() == 4));
    eventually("those past it know them", || past.iter().all(|p| p.discovered_participants().len() >= 2));
    exchange(&past[2], &indexed[0]);
}

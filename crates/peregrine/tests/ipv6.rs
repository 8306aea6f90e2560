//! IPv4 and IPv6 together, and IPv6 alone.

mod common;

use common::{PATIENCE, Reading, config, eventually};
use peregrine::{DomainConfig, DomainParticipant};

fn start(domain: u32, number: usize, mut config: DomainConfig) -> DomainParticipant {
    // Separate sockets: no other participant has the same configuration.
    config.receive_buffers = 100 + number;
    config.shared_memory = false;
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

fn dual() -> DomainConfig {
    let mut config = config();
    config.udp_v6 = true;
    config.peers = vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
    config
}

/// Datagrams that the sockets of the participant have sent, IPv4 first.
fn sent(participant: &DomainParticipant) -> [u64; 2] {
    let statistics = participant.transport_statistics();
    [true, false]
        .map(|v4| statistics.iter().filter(|(address, _)| address.is_ipv4() == v4).map(|(_, s)| s.datagrams_sent).sum())
}

/// Sends samples from one participant to the other, and returns the number of datagrams sent per address family.
fn exchange(from: &DomainParticipant, to: &DomainParticipant) -> [u64; 2] {
    let topic = from.topic::<Reading>("families").unwrap();
    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
    let reader = to.topic::<Reading>("families").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    let before = sent(from);
    for value in 0..200 {
        writer.write(&Reading::new(1, value)).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let after = sent(from);
    let mut taken = 0;
    eventually("samples", || {
        taken += reader.take().unwrap().len();
        taken == 200
    });
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn dual_stack_participant_announces_both_and_is_reached_by_one() {
    let (here, there) = (start(49, 0, dual()), start(49, 1, dual()));
    let [v4, v6] = exchange(&here, &there);
    let (most, least) = (v4.max(v6), v4.min(v6));
    // Announcements to all configured peers are included.
    assert!((200..280).contains(&most) && least < 50, "{v4} over IPv4, {v6} over IPv6");
    let found = here.discovered_participants();
    let data = found.iter().find(|p| p.prefix == there.guid().prefix).unwrap();
    let kinds: Vec<bool> =
        data.default_unicast.iter().filter_map(|l| l.to_socket_addr()).map(|a| a.is_ipv4()).collect();
    assert!(kinds.contains(&true) && kinds.contains(&false), "{:?}", data.default_unicast);
}

#[test]
fn ipv6_participant_discovers_dual_stack_participant() {
    let mut only = dual();
    only.udp_v4 = false;
    only.peers = vec!["::1".parse().unwrap()];
    let (here, there) = (start(50, 0, only), start(50, 1, dual()));
    assert_eq!(exchange(&here, &there)[0], 0);
    let [v4, v6] = exchange(&there, &here);
    assert!(v6 >= 200 && v4 < 50, "{v4} over IPv4, {v6} over IPv6");
}

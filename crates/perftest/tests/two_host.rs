//! Publisher and subscriber on two hosts: lossy links, multicast groups, and the lab. `slow_link` tests how well a slow
//! link is filled, with no other load.

mod common;
#[path = "two_host/lab.rs"]
mod lab;
#[path = "two_host/pair.rs"]
mod pair;
#[path = "two_host/plans.rs"]
mod plans;
#[path = "two_host/remaining.rs"]
mod remaining;
#[path = "two_host/ssh.rs"]
mod ssh;

use common::{Outcome, PROGRAM, columns, start_command};
use pair::{QUICK, pair};
use peregrine_interop::{Link, TwoHosts};

/// Sizes of one packet and of many, batched if two fit, with this share of the packets lost in each direction.
fn assert_nothing_is_missing(permille: u32, samples: u32) {
    let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
    hosts.drop_randomly(permille).unwrap();
    for (both, options) in [
        ("", format!("-scan 32:1024:16384 -numIter {samples} -latencyCount {samples}")),
        ("-dataLen 63000", format!("-numIter {} -latencyCount 10", samples / 10)),
        ("-dataLen 1000000", format!("-numIter {} -latencyCount 1", samples / 100)),
    ] {
        let (_, subscriber) = pair(&hosts, both, &options);
        let sent: f64 =
            options.split("-numIter ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
        for row in &subscriber.stdout {
            let row = columns(row);
            assert_eq!((row[1], row[4]), (sent, 0.0), "{subscriber:?}");
        }
        // Printed for duplicate or reordered samples.
        assert!(!subscriber.stderr.contains("Duplicate samples"), "{}", subscriber.stderr);
    }
}

#[test]
fn every_sample_arrives_once_and_in_order_with_1_percent_lost() {
    assert_nothing_is_missing(10, 5000);
}

#[test]
fn every_sample_arrives_once_and_in_order_with_5_percent_lost() {
    assert_nothing_is_missing(50, 2000);
}

#[test]
fn every_sample_arrives_once_and_in_order_with_20_percent_lost() {
    assert_nothing_is_missing(200, 500);
}

/// Starts the subscribers on host b, runs the publisher on host a, and returns all outcomes; all must succeed.
fn one_to_many(hosts: &TwoHosts, subscribers: usize, both: &str, publisher: &str) -> Vec<Outcome> {
    let interface = TwoHosts::INTERFACE;
    let subscriber = |number| {
        let line = format!("-sub {QUICK} {both} -nic {interface} -sidMultiSubTest {number}");
        start_command(hosts.b.command(PROGRAM), &line)
    };
    let started: Vec<_> = (0..subscribers).map(subscriber).collect();
    let line = format!("-pub {QUICK} {both} -nic {interface} -numSubscribers {subscribers} {publisher}");
    let mut outcomes = vec![start_command(hosts.a.command(PROGRAM), &line).finish()];
    outcomes.extend(started.into_iter().map(|subscriber| subscriber.finish()));
    assert!(outcomes.iter().all(|outcome| outcome.code == 0), "{outcomes:?}");
    outcomes
}

/// Every subscriber has received every sample. Returns how many packets the publisher's host put on the link.
fn packets_for(hosts: &TwoHosts, subscribers: usize, both: &str, samples: u32) -> u64 {
    let before = TwoHosts::packets_sent(&hosts.a).unwrap();
    let options = format!("-dataLen 1000 -batchSize 0 -numIter {samples} -latencyCount 1000");
    let outcomes = one_to_many(hosts, subscribers, both, &options);
    for subscriber in &outcomes[1..] {
        let row = columns(&subscriber.stdout[0]);
        assert_eq!((row[1], row[4]), (samples.into(), 0.0), "{subscriber:?}");
        assert!(!subscriber.stderr.contains("Duplicate samples"), "{}", subscriber.stderr);
    }
    TwoHosts::packets_sent(&hosts.a).unwrap() - before
}

#[test]
fn multicast_data_needs_same_datagrams_for_four_readers() {
    let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
    let samples = 5000;
    for groups in
        ["-multicast", "-multicastAddr 239.255.9.1", "-transport UDPv6 -multicastAddr ff02::9:1,ff02::9:2,ff02::9:3"]
    {
        let one = packets_for(&hosts, 1, groups, samples);
        let four = packets_for(&hosts, 4, groups, samples);
        // Discovery, heartbeats and the initial burst are added; each further copy would add one packet per sample.
        assert!(four < one + u64::from(samples) / 2, "{groups}: {one} packets for one, {four} for four");
    }
    let unicast = packets_for(&hosts, 4, "", samples);
    assert!(unicast > 4 * u64::from(samples), "{unicast}");
}

#[test]
fn multicast_data_arrives_with_5_percent_lost() {
    let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
    hosts.drop_randomly(50).unwrap();
    packets_for(&hosts, 3, "-multicast", 2000);
}

#[test]
fn multicast_data_reaches_peers_discovered_by_address() {
    let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
    let [a, b] = TwoHosts::ADDRESSES;
    packets_for(&hosts, 3, &format!("-multicast -peer {a} -peer {b}"), 1000);
}

#[test]
fn hosts_discover_each_other_over_ipv6() {
    let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
    let [a, b] = TwoHosts::ADDRESSES_V6;
    for peers in [String::new(), format!("-peer {a} -peer {b}")] {
        packets_for(&hosts, 1, &format!("-transport UDPv6 {peers}"), 2000);
    }
}

/// Link-local addresses, discovered by multicast, and named with the interface.
#[test]
fn hosts_discover_each_other_by_link_local_addresses() {
    let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
    let interface = TwoHosts::INTERFACE;
    for (host, address) in [(&hosts.a, TwoHosts::ADDRESSES_V6[0]), (&hosts.b, TwoHosts::ADDRESSES_V6[1])] {
        host.ip(&["address", "del", &format!("{address}/64"), "dev", interface]).unwrap();
    }
    let [a, b] = [&hosts.a, &hosts.b].map(|host| TwoHosts::link_local(host).unwrap());
    for peers in [String::new(), format!("-peer {a}%{interface} -peer [{b}%{interface}]:7660")] {
        packets_for(&hosts, 1, &format!("-transport UDPv6 {peers}"), 2000);
    }
}

/// Two hosts with the interface and the addresses of the tutorial.
fn hosts_of_the_tutorial() -> TwoHosts {
    let hosts = TwoHosts::joined_by(&Link::default()).unwrap();
    for (host, address) in [(&hosts.a, "10.45.3.120/24"), (&hosts.b, "10.45.3.119/24")] {
        host.ip(&["link", "set", TwoHosts::INTERFACE, "down"]).unwrap();
        host.ip(&["link", "set", TwoHosts::INTERFACE, "name", "eth0"]).unwrap();
        host.ip(&["address", "flush", "dev", "eth0"]).unwrap();
        host.ip(&["address", "add", address, "dev", "eth0"]).unwrap();
        host.ip(&["link", "set", "eth0", "up"]).unwrap();
        host.ip(&["route", "add", "224.0.0.0/4", "dev", "eth0"]).unwrap();
    }
    hosts
}

/// The lines of the tutorial on characterizing two machines, unchanged except for their duration, each pair in turn.
#[test]
fn tutorial_command_lines_run_unchanged() {
    let hosts = hosts_of_the_tutorial();
    for (publisher, subscriber, sizes) in [
        (
            "-pub -peer 10.45.3.119 -nic eth0 -raw -noPrint -exec 20 -datalen 1024 -batchSize 0",
            "-sub -peer 10.45.3.120 -nic eth0 -raw -noPrint -datalen 1024",
            1,
        ),
        (
            "-pub -peer 10.45.3.119 -nic eth0 -raw -noPrint -exec 20 -datalen 63000 -latencyTest",
            "-sub -peer 10.45.3.120 -nic eth0 -raw -noPrint -datalen 63000",
            1,
        ),
        ("-pub -nic eth0 -noPrint -exec 20 -scan -batchSize 0", "-sub -nic eth0 -noPrint", 12),
        ("-pub -nic eth0 -noPrint -exec 20 -scan -latencyTest", "-sub -nic eth0 -noPrint", 12),
        ("-pub -nic eth0 -noPrint -exec 20 -scan", "-sub -nic eth0 -noPrint", 12),
    ] {
        let started = start_command(hosts.b.command(PROGRAM), subscriber);
        let line = format!("{publisher} -exec 300ms");
        let publisher = start_command(hosts.a.command(PROGRAM), &line).finish();
        let subscriber = started.finish();
        assert_eq!((publisher.code, subscriber.code), (0, 0), "{line}: {publisher:?} {subscriber:?}");
        for outcome in [&publisher, &subscriber] {
            assert_eq!(outcome.stdout.len(), sizes + 1, "{line}: {outcome:?}");
        }
        assert!(subscriber.stdout[1..].iter().all(|row| columns(row)[1] > 0.0), "{line}: {subscriber:?}");
    }
}

//! Attacks on live participants with what was recorded before.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use peregrine_interop::{Capture, DataType, Decoded, NetNs, Peer, Program, Qos};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::documents::{ALL, GOVERNANCES, Levels, Member, OPEN, Realm, Rules};
use super::{LIMIT, TOPIC, expect, join, sample};

const SIGNED: Levels = GOVERNANCES[1].1;
/// Only announcements of participants.
const ANNOUNCEMENTS: &str = "rtps.sm.wrEntityId == 0x000100c2";
/// Only messages of handshakes.
const HANDSHAKES: &str = "rtps.sm.wrEntityId == 0x000201c3";
/// The fewest strangers of a flood, which goes on until the participant has matched.
const STRANGERS: u32 = 10_000;
/// The end of a flood during which no participant matches.
const STRANGERS_MAX: u32 = 20 * STRANGERS;
/// The strangers of one address.
const STRANGERS_PER_ADDRESS: u32 = 100;
/// How much a flood may delay a participant.
const DELAY_MAX: Duration = Duration::from_secs(1);
/// The memory that a flood may cost a process: places for participants and for handshakes are bounded.
const GROWTH_MAX_KIB: u64 = 64 << 10;

/// Runs this on another thread, whose sockets are in the namespace.
fn within<R: Send>(host: &NetNs, run: impl FnOnce() -> R + Send) -> R {
    let enter = || {
        let namespace = File::open(format!("/var/run/netns/{}", host.name())).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        run()
    };
    thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

fn writer(host: &NetNs, realm: &Realm, levels: Levels, name: &'static str) -> Peer {
    let documents = realm.participant(&Rules::of(levels), &Member::named(name));
    let mut peer = join(&Program::peregrine().unwrap(), host, &documents).unwrap();
    peer.writer("w", TOPIC, DataType::KeyedSample, &Qos::default()).unwrap();
    peer
}

fn reader(host: &NetNs, realm: &Realm, levels: Levels, name: &'static str) -> Peer {
    let documents = realm.participant(&Rules::of(levels), &Member::named(name));
    let mut peer = join(&Program::peregrine().unwrap(), host, &documents).unwrap();
    peer.reader("r", TOPIC, DataType::KeyedSample, &Qos::default()).unwrap();
    peer
}

/// A pair that exchanges a few samples, and its recording.
fn recorded(host: &NetNs, realm: &Realm, levels: Levels) -> (Peer, Peer, Decoded) {
    let capture = Capture::start(host, "lo").unwrap();
    let (mut w, mut r) = (writer(host, realm, levels, "Anna"), reader(host, realm, levels, "Bert"));
    w.wait_matched("w", 1, LIMIT).unwrap();
    r.wait_matched("r", 1, LIMIT).unwrap();
    for seq in 1..=3 {
        w.write("w", &sample(seq, 500)).unwrap();
    }
    expect(&mut r, "r", &[(1, 500), (2, 500), (3, 500)]).unwrap();
    (w, r, capture.stop().unwrap())
}

#[test]
fn recorded_session_has_no_effect_on_a_restarted_participant() {
    for (name, levels) in [("replay-open", OPEN), ("replay-all", ALL)] {
        let (host, realm) = (NetNs::isolated().unwrap(), Realm::new(name));
        let (w, r, decoded) = recorded(&host, &realm, levels);
        w.kill().unwrap();
        r.kill().unwrap();
        let datagrams = decoded.datagrams("rtps").unwrap();
        assert!(datagrams.len() > 20, "a whole session was recorded");
        let mut r = reader(&host, &realm, levels, "Bert");
        within(&host, || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            for (port, octets) in datagrams.iter().chain(&datagrams) {
                socket.send_to(octets, (Ipv4Addr::LOCALHOST, *port)).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        assert!(r.take("r", 1, Duration::from_secs(1)).unwrap().is_empty(), "{name}: a recorded sample was accepted");
        assert_eq!(r.status("r").unwrap().matched_total, 0, "{name}");
        let mut w = writer(&host, &realm, levels, "Anna");
        w.wait_matched("w", 1, LIMIT).unwrap();
        r.wait_matched("r", 1, LIMIT).unwrap();
        w.write("w", &sample(9, 500)).unwrap();
        expect(&mut r, "r", &[(9, 500)]).unwrap();
        assert_eq!(r.status("r").unwrap().matched_total, 1, "{name}");
    }
}

/// An SPDP message by which this participant says goodbye.
fn goodbye(head: &[u8], number: u32) -> Vec<u8> {
    let prefix = &head[8..20];
    let guid = [prefix, &[0, 0, 1, 0xc1]].concat();
    let parameter = |id: u16, value: &[u8]| [&id.to_le_bytes(), &(value.len() as u16).to_le_bytes(), value].concat();
    let body = [
        &[0, 0, 16, 0, 0, 1, 0, 0xc7, 0, 1, 0, 0xc2, 0, 0, 0, 0][..],
        &number.to_le_bytes(),
        &parameter(0x70, &guid),
        &parameter(0x71, &[0, 0, 0, 3]),
        &parameter(1, &[]),
        &[0, 3, 0, 0],
        &parameter(0x50, &guid),
        &parameter(1, &[]),
    ]
    .concat();
    // Little endian, with inline QoS and a key.
    [&head[..20], &[0x15, 0x0b], &(body.len() as u16).to_le_bytes(), &body].concat()
}

#[test]
fn goodbye_in_the_name_of_a_secured_participant_has_no_effect() {
    for (name, levels) in [("goodbye-open", OPEN), ("goodbye-signed", SIGNED), ("goodbye-all", ALL)] {
        let (host, realm) = (NetNs::isolated().unwrap(), Realm::new(name));
        let (mut w, mut r, decoded) = recorded(&host, &realm, levels);
        let datagrams = decoded.datagrams("rtps").unwrap();
        let ports: BTreeSet<u16> = datagrams.iter().map(|(port, _)| *port).collect();
        let heads: BTreeSet<&[u8]> = datagrams.iter().map(|(_, octets)| &octets[..20]).collect();
        assert_eq!(heads.len(), 2, "two participants");
        let capture = Capture::start(&host, "lo").unwrap();
        within(&host, || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            for (number, head) in (2..50).flat_map(|number| heads.iter().map(move |head| (number * 10, head))) {
                for port in &ports {
                    socket.send_to(&goodbye(head, number), (Ipv4Addr::LOCALHOST, *port)).unwrap();
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let sent = capture.stop().unwrap();
        assert!(sent.datagrams("rtps.param.status_info == 3").unwrap().len() >= 96, "{name}");
        w.write("w", &sample(4, 500)).unwrap();
        expect(&mut r, "r", &[(4, 500)]).unwrap();
        for status in [w.status("w").unwrap(), r.status("r").unwrap()] {
            assert_eq!((status.matched, status.matched_total), (1, 1), "{name}");
        }
    }
}

fn resident_kib(peer: &Peer) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", peer.pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The time from the creation of a participant until its reader matches.
fn time_to_match(host: &NetNs, realm: &Realm, name: &'static str) -> (Duration, Peer) {
    let start = Instant::now();
    let mut peer = reader(host, realm, SIGNED, name);
    peer.wait_matched("r", 1, LIMIT).unwrap();
    (start.elapsed(), peer)
}

/// The datagram in the name of another participant, whose certificate has the same name.
fn renamed(octets: &[u8], prefix: &[u8], stranger: u32) -> Vec<u8> {
    let mut octets = octets.to_vec();
    for at in 0..octets.len().saturating_sub(prefix.len()) {
        if octets[at..].starts_with(prefix) {
            octets[at + 6..at + 8].fill(0xee);
            octets[at + 8..at + 12].copy_from_slice(&stranger.to_be_bytes());
        }
    }
    octets
}

/// Strangers announce themselves and send the messages of a recorded handshake, in 10,000 names or more, until a
/// participant that starts meanwhile has matched.
#[test]
fn flood_of_handshakes_does_not_delay_a_participant() {
    let (host, realm) = (NetNs::isolated().unwrap(), Realm::new("flood"));
    let (mut w, r, decoded) = recorded(&host, &realm, SIGNED);
    let port = 7410;
    let of = |filter: &str| decoded.datagrams(filter).unwrap();
    // The messages of the reader to the writer, which started first.
    let handshakes: Vec<Vec<u8>> =
        of(HANDSHAKES).into_iter().filter(|(to, _)| *to == port).map(|(_, octets)| octets).collect();
    let prefix = handshakes[0][8..20].to_vec();
    let announcement =
        of(ANNOUNCEMENTS).into_iter().map(|(_, octets)| octets).find(|octets| octets[8..20] == prefix).unwrap();
    assert!(handshakes.iter().any(|octets| octets.len() > 500), "the certificate is among the messages");
    r.leave();
    let (usual, friend) = time_to_match(&host, &realm, "Cora");
    drop(friend);
    w.wait_matched("w", 0, LIMIT).unwrap();
    let before = resident_kib(&w);

    let has_matched = AtomicBool::new(false);
    let flood = || {
        within(&host, || {
            let goes_on = |stranger: &u32| *stranger < STRANGERS || !has_matched.load(Ordering::Relaxed);
            for stranger in (0..STRANGERS_MAX).take_while(goes_on) {
                let [.., b, c] = (stranger / STRANGERS_PER_ADDRESS).to_be_bytes();
                let socket = UdpSocket::bind((Ipv4Addr::new(127, 7, b, c), 0)).unwrap();
                for octets in std::iter::once(&announcement).chain(&handshakes) {
                    socket.send_to(&renamed(octets, &prefix, stranger), (Ipv4Addr::LOCALHOST, port)).unwrap();
                }
                if stranger % 10 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
    };
    thread::scope(|scope| {
        let flood = scope.spawn(flood);
        thread::sleep(Duration::from_millis(300));
        let (delayed, mut friend) = time_to_match(&host, &realm, "Dora");
        let is_during = !flood.is_finished();
        has_matched.store(true, Ordering::Relaxed);
        w.wait_matched("w", 1, LIMIT).unwrap();
        w.write("w", &sample(9, 500)).unwrap();
        expect(&mut friend, "r", &[(9, 500)]).unwrap();
        flood.join().unwrap();
        let growth = resident_kib(&w).saturating_sub(before);
        println!("usual {usual:?}, in the flood {delayed:?}, memory {before} + {growth} KiB");
        assert!(is_during, "the flood had ended before the participant matched, after {delayed:?}");
        assert!(delayed <= usual + DELAY_MAX, "{delayed:?} instead of {usual:?}");
        assert!(growth <= GROWTH_MAX_KIB, "{growth} KiB");
        // The strangers match nothing.
        assert_eq!(w.status("w").unwrap().matched, 1);
    });
}

//! Shared memory and two network namespaces of one host: abstract sockets do not connect them, so samples are sent in
//! messages, and the reason is reported. Needs root. This binary starts itself again as the processes in the
//! namespaces.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use peregrine::{
    DataReader, DdsType, DeliveryPath, DiscoveryEvent, DomainConfig, DomainParticipant, InterfaceSelection,
};

const PATIENCE: Duration = Duration::from_secs(30);
const ROLE: &str = "PEREGRINE_TEST_ROLE";
const SAMPLES: u32 = 10;
/// RTPS 2.5 §9.6.2.4.1.
const SPDP_GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 0, 1);
const SPDP_PORT: u16 = 7400;

/// A quarter of a mebibyte.
const IMAGE_BYTES: usize = 1 << 18;
const BLOCKING_MAX: Duration = Duration::from_secs(1);
/// For how long a thread of a busy machine may wait for a core.
const SCHEDULING_MAX: Duration = Duration::from_millis(400);
/// Threads of the fast writer, and how long they write.
const THREADS: usize = 16;
const WRITING: Duration = Duration::from_secs(5);
/// The steady writer writes for five seconds: longer than the kernel looks for a host, and shorter than a lease.
const STEADY_PERIOD: Duration = Duration::from_millis(1);
const STEADY_SAMPLES: u32 = 5_000;
/// Images that the local pair exchanges; the send queue has room for all of them.
const IMAGES: u8 = 3;
/// The time of one image over the slow link, which carries 1 Mbit/s.
const IMAGE_TIME: Duration = Duration::from_millis(8 * IMAGE_BYTES as u64 / 1000);

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Image {
    pixels: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Number {
    value: u32,
}

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("writer") => roles::writer(),
        Ok("reader") => roles::reader(),
        Ok("announcer") => roles::announcer(),
        Ok("group member") => roles::group_member(),
        Ok("fast writer") => roles::fast_writer(),
        Ok("image reader") => roles::image_reader(),
        Ok("local pair") => roles::local_pair(),
        Ok("steady writer") => roles::steady_writer(),
        Ok("steady reader") => roles::steady_reader(),
        Ok(role) => panic!("{ROLE}={role} is not a role"),
        Err(_) => {
            two_network_namespaces_get_messages();
            println!("test two network namespaces get messages ... ok");
            one_network_namespace_shares_memory();
            println!("test one network namespace shares memory ... ok");
            loopback_without_the_multicast_flag_carries_discovery();
            println!("test loopback without the multicast flag carries discovery ... ok");
            writes_over_a_slow_link_end_in_time_and_take_little_memory();
            println!("test writes over a slow link end in time and take little memory ... ok");
            local_reader_does_not_wait_for_a_slow_link();
            println!("test local reader does not wait for a slow link ... ok");
            let longest = host_that_is_switched_off_delays_no_samples_to_another_host();
            println!("test host that is switched off delays no samples to another host ... ok, a gap of {longest}");
        }
    }
}

mod roles {
    use super::*;

    fn participant() -> DomainParticipant {
        DomainParticipant::builder(0).config(DomainConfig::default()).build().unwrap()
    }

    pub(super) fn writer() {
        let participant = participant();
        let topic = participant.topic::<Number>("numbers").unwrap();
        let writer = topic.writer_builder().reliable().transient_local().keep_all().build().unwrap();
        for value in 0..SAMPLES {
            writer.write(&Number { value }).unwrap();
        }
        println!("written");
        // Until the process is killed or the reader is deleted.
        writer.wait_for_readers(1, PATIENCE).unwrap();
        while writer.publication_matched_status().current_count > 0 {
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }

    /// Prints the path of the samples, and that they arrive.
    pub(super) fn reader() {
        let participant = participant();
        let mut events = participant.discovery_events();
        let topic = participant.topic::<Number>("numbers").unwrap();
        let reader = topic.reader_builder().reliable().transient_local().keep_all().build().unwrap();
        let path = loop {
            if let DiscoveryEvent::PathChanged { path, .. } = events.wait_next(PATIENCE).expect("a path is reported") {
                break path;
            }
        };
        assert_eq!(take_all(&reader), (0..SAMPLES).collect::<Vec<_>>());
        match path {
            DeliveryPath::SharedMemory => println!("shared memory"),
            DeliveryPath::Messages(reason) => println!("messages: {reason}"),
            other => panic!("{other:?}"),
        }
    }

    /// A participant on the loopback interface that runs until the process is killed.
    pub(super) fn announcer() {
        let mut config = DomainConfig::default();
        config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
        let participant = DomainParticipant::builder(0).config(config).build().unwrap();
        println!("announces");
        std::thread::park_timeout(2 * PATIENCE);
        drop(participant);
    }

    /// Receives announcements by multicast only, and prints a line for the first one.
    pub(super) fn group_member() {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        let address = SocketAddrV4::new(SPDP_GROUP, SPDP_PORT);
        socket.bind(&address.into()).unwrap();
        socket.join_multicast_v4(&SPDP_GROUP, &Ipv4Addr::LOCALHOST).unwrap();
        println!("joined");
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut datagram = [0; 2048];
        let len = socket.recv(&mut datagram).expect("an announcement reaches the group");
        assert_eq!(datagram[..len].get(..4), Some(&b"RTPS"[..]));
        println!("announcement by multicast");
    }

    /// Many threads write with one best-effort writer, much faster than the link. Prints the duration of the longest
    /// write and the growth of the memory of the process.
    pub(super) fn fast_writer() {
        let participant = participant();
        let topic = participant.topic::<Image>("images").unwrap();
        let writer = topic.writer_builder().best_effort().max_blocking_time(BLOCKING_MAX).build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        let image = Image { pixels: vec![7; IMAGE_BYTES] };
        let before = resident_kib();
        let end = Instant::now() + WRITING;
        let write = || {
            let (mut longest, mut largest) = (Duration::ZERO, 0);
            while Instant::now() < end {
                let begin = Instant::now();
                match writer.write(&image) {
                    Ok(_) | Err(peregrine::Error::Timeout(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                longest = longest.max(begin.elapsed());
                largest = largest.max(resident_kib());
            }
            (longest, largest)
        };
        let threads = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(write)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let longest = threads.iter().map(|(longest, _)| longest.as_millis()).max().unwrap();
        let largest = threads.iter().map(|(_, largest)| *largest).max().unwrap();
        println!("{longest} ms, {} KiB", largest.saturating_sub(before));
    }

    /// A writer with a reader in its own process and one behind the link. Prints the time in which the local reader got
    /// all images.
    pub(super) fn local_pair() {
        let participant = participant();
        let topic = participant.topic::<Image>("images").unwrap();
        let blocking = Duration::from_millis(100);
        let writer = topic.writer_builder().best_effort().max_blocking_time(blocking).build().unwrap();
        let reader = topic.reader_builder().best_effort().keep_all().build().unwrap();
        writer.wait_for_readers(2, PATIENCE).unwrap();
        reader.wait_for_writers(1, PATIENCE).unwrap();
        let begin = Instant::now();
        for number in 0..IMAGES {
            let image = Image { pixels: vec![number; IMAGE_BYTES] };
            writer.write(&image).unwrap();
            assert_eq!(reader.wait_and_take(PATIENCE).unwrap().value(), Some(&image));
        }
        println!("{} ms", begin.elapsed().as_millis());
        std::thread::park_timeout(PATIENCE);
    }

    pub(super) fn image_reader() {
        let participant = participant();
        let topic = participant.topic::<Image>("images").unwrap();
        let reader = topic.reader_builder().best_effort().build().unwrap();
        reader.wait_and_take(PATIENCE).unwrap();
        println!("an image has come");
        std::thread::park_timeout(PATIENCE);
    }

    /// Writes at a fixed rate to two readers. Prints a line when both are matched. At the end prints how often a thread
    /// waited for room in a send buffer, and how many datagrams were not sent because their host was not found.
    pub(super) fn steady_writer() {
        let participant = participant();
        let topic = participant.topic::<Number>("numbers").unwrap();
        let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
        writer.wait_for_readers(2, PATIENCE).unwrap();
        println!("matched");
        let begin = Instant::now();
        for value in 0..STEADY_SAMPLES {
            let due = begin + STEADY_PERIOD * value;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            writer.write(&Number { value }).unwrap();
        }
        let errors = participant.transport_statistics().into_iter().map(|(_, statistics)| statistics.send_errors);
        let (waits, unresolved) =
            errors.fold((0, 0), |sum, error| (sum.0 + error.would_block, sum.1 + error.unresolved));
        println!("{waits} waits, {unresolved} unresolved");
        std::thread::park_timeout(PATIENCE);
    }

    /// Prints a line when the reader is matched. When it has got every sample in order, prints the longest time between
    /// two samples.
    pub(super) fn steady_reader() {
        let participant = participant();
        let topic = participant.topic::<Number>("numbers").unwrap();
        let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
        reader.wait_for_writers(1, PATIENCE).unwrap();
        println!("matched");
        let (mut longest, mut last) = (Duration::ZERO, None::<Instant>);
        for value in 0..STEADY_SAMPLES {
            assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value }));
            longest = longest.max(last.replace(Instant::now()).map_or(Duration::ZERO, |last| last.elapsed()));
        }
        println!("{} ms", longest.as_millis());
        std::thread::park_timeout(PATIENCE);
    }

    fn resident_kib() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    fn take_all(reader: &DataReader<Number>) -> Vec<u32> {
        let values = (0..SAMPLES).map(|_| reader.wait_and_take(PATIENCE).unwrap().into_value().unwrap().value);
        values.collect()
    }
}

/// A network namespace. The drop deletes it and ends the processes in it.
struct Host(String);

impl Host {
    fn new(name: &str) -> Self {
        let host = Self::stock(name);
        ip(&["-n", &host.0, "link", "set", "lo", "multicast", "on"]);
        host
    }

    /// The loopback interface does not have the flag MULTICAST, as on every Linux.
    fn stock(name: &str) -> Self {
        let host = Self(format!("peregrine-shm-{}-{name}", std::process::id()));
        ip(&["netns", "add", &host.0]);
        ip(&["-n", &host.0, "link", "set", "lo", "up"]);
        host
    }

    /// Two namespaces, connected by a veth pair.
    fn pair() -> [Self; 2] {
        let hosts = ["a", "b"].map(Self::new);
        let [a, b] = &hosts;
        ip(&["-n", &a.0, "link", "add", "link0", "type", "veth", "peer", "name", "link0", "netns", &b.0]);
        for (host, address) in [(a, "10.84.0.1/24"), (b, "10.84.0.2/24")] {
            ip(&["-n", &host.0, "address", "add", address, "dev", "link0"]);
            ip(&["-n", &host.0, "link", "set", "link0", "up"]);
            ip(&["-n", &host.0, "route", "add", "224.0.0.0/4", "dev", "link0"]);
        }
        hosts
    }

    /// Three namespaces behind a switch, which is the last one.
    fn behind_a_switch() -> [Self; 4] {
        let hosts = ["a", "b", "c", "switch"].map(Self::new);
        let [.., switch] = &hosts;
        ip(&["-n", &switch.0, "link", "add", "bridge", "type", "bridge"]);
        ip(&["-n", &switch.0, "link", "set", "bridge", "up"]);
        for (number, host) in (1..).zip(&hosts[..3]) {
            let (port, address) = (format!("port{number}"), format!("10.84.0.{number}/24"));
            ip(&["-n", &host.0, "link", "add", "link0", "type", "veth", "peer", "name", &port, "netns", &switch.0]);
            ip(&["-n", &switch.0, "link", "set", &port, "master", "bridge", "up"]);
            ip(&["-n", &host.0, "address", "add", &address, "dev", "link0"]);
            ip(&["-n", &host.0, "link", "set", "link0", "up"]);
            ip(&["-n", &host.0, "route", "add", "224.0.0.0/4", "dev", "link0"]);
        }
        hosts
    }

    /// Starts this binary in a role.
    fn start(&self, role: &str) -> Other {
        let own = std::env::current_exe().unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(own).env(ROLE, role).stdout(Stdio::piped());
        Other(command.spawn().unwrap())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // A failure is harmless: the test run ends, and the name contains the id of this process.
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).output();
    }
}

/// A process in a namespace. The drop kills it and waits for its end.
struct Other(Child);

impl Other {
    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output().expect("the command ip (Debian package iproute2)");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {text} (this needs root)", words.join(" "));
}

/// The path of samples from a writer on one host to a reader on the other.
fn path(from: &Host, to: &Host) -> String {
    let mut writer = from.start("writer");
    assert_eq!(writer.line(), "written");
    to.start("reader").line()
}

fn two_network_namespaces_get_messages() {
    let [a, b] = Host::pair();
    assert_eq!(path(&a, &b), "messages: the two processes are in different network namespaces");
}

/// Peers that are bound to the loopback interface send announcements to the group there, and receive them.
fn loopback_without_the_multicast_flag_carries_discovery() {
    let host = Host::stock("lo");
    let mut member = host.start("group member");
    assert_eq!(member.line(), "joined");
    let mut announcer = host.start("announcer");
    assert_eq!(announcer.line(), "announces");
    assert_eq!(member.line(), "announcement by multicast");
}

/// Two hosts. The link from the first to the second is slow: see [`IMAGE_TIME`].
fn slow_pair() -> [Host; 2] {
    let hosts = Host::pair();
    let shaped = Command::new("ip")
        .args(["netns", "exec", &hosts[0].0, "tc", "qdisc", "add", "dev", "link0", "root", "tbf"])
        .args(["rate", "1mbit", "burst", "16kb", "limit", "4mb"])
        .status();
    assert!(shaped.expect("the commands ip and tc (Debian package iproute2)").success());
    hosts
}

/// A write lasts no longer than `max_blocking_time`, even if other samples wait before its own; the assertion leaves
/// room for a busy machine, and is below the time of an image.
fn writes_over_a_slow_link_end_in_time_and_take_little_memory() {
    const { assert!(BLOCKING_MAX.as_millis() + SCHEDULING_MAX.as_millis() < IMAGE_TIME.as_millis()) };
    let [a, b] = slow_pair();
    let mut reader = b.start("image reader");
    let mut writer = a.start("fast writer");
    assert_eq!(reader.line(), "an image has come");
    let told = writer.line();
    let (longest, grown) = told.split_once(" ms, ").expect("two numbers");
    let longest = Duration::from_millis(longest.parse().unwrap());
    let grown: u64 = grown.trim_end_matches(" KiB").parse().unwrap();
    assert!(longest < BLOCKING_MAX + SCHEDULING_MAX, "a write took {longest:?}");
    assert!(grown < 32 << 10, "the process has grown by {grown} KiB");
}

/// A thread that sends to the far reader does not hold up the near one.
fn local_reader_does_not_wait_for_a_slow_link() {
    let [a, b] = slow_pair();
    let mut reader = b.start("image reader");
    let mut pair = a.start("local pair");
    let told = pair.line();
    let took = Duration::from_millis(told.trim_end_matches(" ms").parse().unwrap());
    assert!(took < IMAGE_TIME, "{IMAGES} images took {took:?}");
    assert_eq!(reader.line(), "an image has come");
}

/// The kernel of the writer's host keeps datagrams for the missing host, whose link-layer address it does not find.
/// Returns the longest time between two samples at the other host.
fn host_that_is_switched_off_delays_no_samples_to_another_host() -> String {
    let [a, b, c, switch] = Host::behind_a_switch();
    let mut readers = [&b, &c].map(|host| host.start("steady reader"));
    let mut writer = a.start("steady writer");
    assert_eq!(writer.line(), "matched");
    readers.iter_mut().for_each(|reader| assert_eq!(reader.line(), "matched"));
    ip(&["-n", &switch.0, "link", "set", "port2", "down"]);
    ip(&["-n", &a.0, "neighbour", "flush", "to", "10.84.0.2"]);
    let told = writer.line();
    let (waits, unresolved) = told.split_once(" waits, ").expect("two numbers");
    assert_eq!(waits, "0", "threads waited for room in a send buffer ({told})");
    assert_ne!(unresolved, "0 unresolved", "the kernel kept no datagrams for the missing host: nothing is tested");
    let [off, on] = &mut readers;
    let longest = on.line();
    assert!(longest.ends_with(" ms"), "the reader has all samples: {longest}");
    ip(&["-n", &switch.0, "link", "set", "port2", "up"]);
    assert!(off.line().ends_with(" ms"), "the reader on the host that has returned has all samples");
    longest
}

/// The control: processes in one namespace share memory.
fn one_network_namespace_shares_memory() {
    let [a, _b] = Host::pair();
    assert_eq!(path(&a, &a), "shared memory");
}

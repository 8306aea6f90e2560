//! Shared memory between processes that end at any time, are in other namespaces, or run as other users. This binary
//! starts itself again as the other process. Creating namespaces and changing users needs root.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::holdings::Holdings;
use common::{PATIENCE, config, eventually};
use peregrine::qos::{Limit, ResourceLimits};
use peregrine::{
    DataReader, DataWriter, DdsType, DeliveryPath, DiscoveryEvent, DomainParticipant, LostReason, NoSharedMemory,
};

const ROLE: &str = "PEREGRINE_TEST_ROLE";
const DOMAIN: u32 = 51;
const LEASE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Block {
    number: u64,
    octets: Vec<u8>,
}

impl Block {
    fn new(number: u64, len: usize) -> Self {
        Self { number, octets: vec![number as u8; len] }
    }

    fn is_whole(&self) -> bool {
        self.octets.iter().all(|octet| *octet == self.number as u8)
    }
}

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("writer") => return roles::writer(),
        Ok("stale writer") => return roles::stale_writer(),
        Ok("reader") => return roles::reader(),
        Ok("stale reader") => return roles::stale_reader(),
        Ok("silent writer") => return roles::silent_writer(2),
        Ok("silent writer to one reader") => return roles::silent_writer(1),
        Ok("teller of the path") => return println!("{:?}", path_to(&["env"])),
        Ok(role) => panic!("{ROLE}={role} is not a role"),
        Err(_) => {}
    }
    let scenarios: [(&str, fn()); 14] = [
        ("samples of every size arrive from another process", samples_of_every_size_arrive),
        ("writers killed in mid-stream leave nothing behind", writers_killed_in_mid_stream_leave_nothing_behind),
        ("readers killed in mid-stream leave nothing behind", readers_killed_in_mid_stream_leave_nothing_behind),
        ("a killed reader holds up neither the writer nor other readers", killed_reader_holds_up_no_other),
        ("killed processes are lost long before their lease ends", killed_processes_are_lost_before_their_lease_ends),
        ("a killed process is lost while another one keeps writing", killed_process_is_lost_beside_a_busy_one),
        ("a participant that ends leaves nothing behind", ended_participant_leaves_nothing_behind),
        ("another IPC namespace gets messages", another_ipc_namespace_gets_messages),
        ("another user namespace gets messages", another_user_namespace_gets_messages),
        ("another PID namespace gets messages", another_pid_namespace_gets_messages),
        ("another user gets messages", another_user_gets_messages),
        ("a process of the user nobody gets messages from its own user", process_of_user_nobody_gets_messages),
        ("an ended peer is reported, and the next one is reached", ended_peer_is_reported),
        ("a read-only /dev/shm does not matter", read_only_dev_shm_is_no_obstacle),
    ];
    for (name, scenario) in scenarios {
        let start = Instant::now();
        scenario();
        println!("test {name} ... ok ({:?})", start.elapsed());
    }
}

/// The other process. The drop kills it and waits for its end.
struct Other(Child);

impl Other {
    /// This binary, started by `wrapper`, in this role.
    fn start(wrapper: &[&str], role: &str) -> Self {
        let own = std::env::current_exe().unwrap();
        let mut words = wrapper.iter().map(std::ffi::OsStr::new).chain([own.as_os_str()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self(command.spawn().unwrap_or_else(|error| panic!("{wrapper:?} (Debian package util-linux): {error}")))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

mod roles {
    use super::*;

    /// Writes samples of all sizes until it is killed.
    pub(super) fn writer() {
        let participant = participant();
        let writer = super::writer(&participant);
        writer.wait_for_readers(1, PATIENCE).unwrap();
        println!("matched");
        for number in 0.. {
            // If the process is not killed, it ends with its only reader.
            let has_reader = writer.publication_matched_status().current_count > 0;
            if !has_reader || writer.write(&Block::new(number, length(number))).is_err() {
                return;
            }
        }
    }

    /// Takes a sample, with a lease longer than a test, and is killed.
    pub(super) fn stale_reader() {
        let participant = DomainParticipant::builder(DOMAIN).config(config()).lease(5 * PATIENCE).build().unwrap();
        let reader = super::reader(&participant);
        reader.wait_and_take(PATIENCE).unwrap();
        println!("taken");
        let _ = std::io::stdin().read_line(&mut String::new());
    }

    /// Announces itself with a lease longer than a test, and is killed. It ends with the process that has started it.
    pub(super) fn stale_writer() {
        let participant = DomainParticipant::builder(DOMAIN).config(config()).lease(5 * PATIENCE).build().unwrap();
        let _writer = super::writer(&participant);
        let _ = std::io::stdin().read_line(&mut String::new());
    }

    /// Writes a sample, with a lease longer than a test, and is killed.
    pub(super) fn silent_writer(readers: usize) {
        let participant = DomainParticipant::builder(DOMAIN).config(config()).lease(5 * PATIENCE).build().unwrap();
        let writer = super::writer(&participant);
        writer.wait_for_readers(readers, PATIENCE).unwrap();
        eventually("shared memory is used", || participant.shared_memory_statistics().readers == readers as u64);
        writer.write(&Block::new(0, 100)).unwrap();
        println!("written");
        let _ = std::io::stdin().read_line(&mut String::new());
    }

    /// Takes until it is killed, and prints a line after the first sample.
    pub(super) fn reader() {
        let participant = participant();
        let reader = super::reader(&participant);
        let mut is_first = true;
        while reader.wait_for_data(PATIENCE).is_ok() {
            for block in reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()) {
                assert!(block.is_whole(), "sample {} is torn", block.number);
                if std::mem::take(&mut is_first) {
                    println!("first");
                }
            }
        }
    }
}

fn length(number: u64) -> usize {
    [32, 1000, 5000, 63_000, 1 << 20][number as usize % 5]
}

fn participant() -> DomainParticipant {
    DomainParticipant::builder(DOMAIN).config(config()).lease(LEASE).build().unwrap()
}

fn writer(participant: &DomainParticipant) -> DataWriter<Block> {
    let topic = participant.topic::<Block>("blocks").unwrap();
    topic.writer_builder().reliable().keep_last(32).max_blocking_time(PATIENCE).build().unwrap()
}

fn reader(participant: &DomainParticipant) -> DataReader<Block> {
    participant.topic::<Block>("blocks").unwrap().reader_builder().reliable().keep_last(8).build().unwrap()
}

/// Takes `count` samples and checks that they are intact.
fn take_some(reader: &DataReader<Block>, count: usize) {
    let mut taken = 0;
    while taken < count {
        let sample = reader.wait_and_take(PATIENCE).unwrap();
        if let Some(block) = sample.into_value() {
            assert!(block.is_whole() && block.octets.len() == length(block.number), "sample {} is torn", block.number);
            taken += 1;
        }
    }
}

fn samples_of_every_size_arrive() {
    let participant = participant();
    let reader = reader(&participant);
    let _other = Other::start(&["env"], "writer");
    eventually("shared memory is used", || participant.shared_memory_statistics().writers == 1);
    let before = participant.shared_memory_statistics().received;
    take_some(&reader, 50);
    eventually("the samples use shared memory", || participant.shared_memory_statistics().received >= before + 50);
}

/// The resources of this process without channels.
fn without_channels(participant: &DomainParticipant) -> Holdings {
    let statistics = participant.shared_memory_statistics();
    assert_eq!((statistics.readers, statistics.writers), (0, 0));
    Holdings::now()
}

/// Waits until this process holds no more than at the beginning.
fn await_nothing_left(participant: &DomainParticipant, at_first: &Holdings) {
    eventually("the channel ends", || participant.shared_memory_statistics().writers == 0);
    eventually("the channel ends", || participant.shared_memory_statistics().readers == 0);
    Holdings::await_no_more_than(at_first);
}

fn writers_killed_in_mid_stream_leave_nothing_behind() {
    let participant = participant();
    let reader = reader(&participant);
    let at_first = without_channels(&participant);
    for round in 0..4 {
        let mut other = Other::start(&["env"], "writer");
        assert_eq!(other.line(), "matched");
        eventually("shared memory is used", || participant.shared_memory_statistics().writers == 1);
        take_some(&reader, 5 + 7 * round);
        other.kill();
        eventually("the channel ends", || participant.shared_memory_statistics().writers == 0);
        eventually("the reader has unmatched the dead writer", || {
            reader.subscription_matched_status().current_count == 0
        });
        // The samples of the dead writer are still available, and are freed when they are released.
        for block in reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value()) {
            assert!(block.is_whole());
        }
        await_nothing_left(&participant, &at_first);
    }
}

fn readers_killed_in_mid_stream_leave_nothing_behind() {
    let participant = participant();
    let writer = writer(&participant);
    let at_first = without_channels(&participant);
    for _ in 0..4 {
        let mut other = Other::start(&["env"], "reader");
        eventually("shared memory is used", || participant.shared_memory_statistics().readers == 1);
        let mut number = 0;
        let mut write = || {
            writer.write(&Block::new(number, length(number))).unwrap();
            number += 1;
        };
        (0..50).for_each(|_| write());
        assert_eq!(other.line(), "first");
        (0..20).for_each(|_| write());
        other.kill();
        // The writer has not noticed the end of the process yet and continues to write.
        (0..20).for_each(|_| write());
        eventually("the writer has unmatched the dead reader", || {
            writer.publication_matched_status().current_count == 0
        });
        (0..20).for_each(|_| write());
        await_nothing_left(&participant, &at_first);
    }
}

/// While samples are in transit, with channels in both directions.
/// The system reports the end of the process; the lease and unanswered requests would take longer than a write may.
fn killed_reader_holds_up_no_other() {
    const HELD: u32 = 8;
    const SAMPLES: u64 = 10 * HELD as u64;
    let participants = [participant(), participant()];
    let topic = participants[0].topic::<Block>("blocks").unwrap();
    let limits = ResourceLimits { max_samples: Limit::At(HELD), ..ResourceLimits::default() };
    let builder = topic.writer_builder().reliable().keep_all().resource_limits(limits);
    let writer = builder.max_blocking_time(Duration::from_secs(5)).build().unwrap();
    let survivor = participants[1].topic::<Block>("blocks").unwrap().reader_builder().reliable().keep_all().build();
    let survivor = survivor.unwrap();
    let mut other = Other::start(&[], "stale reader");
    writer.wait_for_readers(2, PATIENCE).unwrap();
    eventually("the reader has a channel", || participants[0].shared_memory_statistics().readers > 0);
    writer.write(&Block::new(0, 100)).unwrap();
    assert_eq!(other.line(), "taken");
    other.kill();
    for number in 1..SAMPLES {
        writer.write(&Block::new(number, 100)).unwrap_or_else(|error| panic!("sample {number}: {error}"));
    }
    for number in 0..SAMPLES {
        let block = survivor.wait_and_take(PATIENCE).unwrap().into_value().unwrap();
        assert_eq!(block, Block::new(number, 100));
    }
    assert_eq!(writer.reliable_reader_activity_changed_status().inactive_count, 1);
}

fn killed_processes_are_lost_before_their_lease_ends() {
    let participants = [participant(), participant()];
    let mut events = participants.each_ref().map(DomainParticipant::discovery_events);
    let (reader, writer) = (reader(&participants[0]), writer(&participants[1]));
    let mut others = ["silent writer", "stale reader"].map(|role| Other::start(&[], role));
    assert_eq!(others[0].line(), "written");
    eventually("shared memory is used", || participants[1].shared_memory_statistics().readers > 0);
    writer.write(&Block::new(0, 100)).unwrap();
    assert_eq!(others[1].line(), "taken");
    others.into_iter().for_each(Other::kill);
    for events in &mut events {
        let reason = loop {
            let event = events.wait_next(PATIENCE).expect("the end of a process is reported");
            if let DiscoveryEvent::ParticipantLost(_, reason) = event {
                break reason;
            }
        };
        assert_eq!(reason, LostReason::ProcessEnded);
    }
    // The endpoints of this process are left.
    eventually("the dead writer is unmatched", || reader.subscription_matched_status().current_count == 1);
    eventually("the dead reader is unmatched", || writer.publication_matched_status().current_count == 1);
}

/// The thread that takes the samples of the busy process has to look for the end of the other one meanwhile.
fn killed_process_is_lost_beside_a_busy_one() {
    let participant = participant();
    let mut events = participant.discovery_events();
    let reader = reader(&participant);
    let mut killed = Other::start(&[], "silent writer to one reader");
    assert_eq!(killed.line(), "written");
    let _busy = Other::start(&[], "writer");
    eventually("both writers use shared memory", || participant.shared_memory_statistics().writers == 2);
    killed.kill();
    let end = Instant::now() + PATIENCE;
    loop {
        reader.wait_and_take(PATIENCE).unwrap();
        while let Some(event) = events.try_next() {
            if let DiscoveryEvent::ParticipantLost(_, reason) = event {
                assert_eq!(reason, LostReason::ProcessEnded);
                return;
            }
        }
        assert!(Instant::now() < end, "the end of the process is not reported");
    }
}

fn ended_participant_leaves_nothing_behind() {
    let before = Holdings::now();
    for _ in 0..3 {
        let participant = participant();
        let (reader, writer) = (reader(&participant), writer(&participant));
        let others = ["writer", "reader"].map(|role| Other::start(&["env"], role));
        eventually("shared memory is used", || {
            let statistics = participant.shared_memory_statistics();
            statistics.writers >= 1 && statistics.readers >= 1
        });
        take_some(&reader, 20);
        writer.write(&Block::new(0, 5000)).unwrap();
        drop((reader, writer, participant));
        drop(others);
    }
    Holdings::await_no_more_than(&before);
}

/// Starts a writer with `wrapper` in another process, and returns the path that this participant reports.
fn path_to(wrapper: &[&str]) -> DeliveryPath {
    let participant = participant();
    let mut events = participant.discovery_events();
    let reader = reader(&participant);
    let _other = Other::start(wrapper, "writer");
    let path = loop {
        if let DiscoveryEvent::PathChanged { path, local, .. } = events.wait_next(PATIENCE).expect("a path is reported")
        {
            assert_eq!(local, reader.guid());
            break path;
        }
    };
    // Samples arrive on any path.
    take_some(&reader, 10);
    let is_shared = path == DeliveryPath::SharedMemory;
    assert_eq!(participant.shared_memory_statistics().writers, u64::from(is_shared));
    assert_eq!(participant.shared_memory_statistics().fallbacks, u64::from(!is_shared));
    path
}

fn reason(path: &DeliveryPath) -> String {
    match path {
        DeliveryPath::Messages(reason @ NoSharedMemory::NotColocated(_)) => reason.to_string(),
        other => panic!("{other:?}"),
    }
}

fn another_ipc_namespace_gets_messages() {
    assert!(reason(&path_to(&["unshare", "--ipc"])).contains("IPC namespaces"));
}

/// In the other user namespace the same user has another id.
fn another_user_namespace_gets_messages() {
    assert!(reason(&path_to(&["unshare", "--user", "--map-root-user"])).contains("user namespaces"));
}

fn another_pid_namespace_gets_messages() {
    let path = path_to(&["unshare", "--pid", "--fork", "--kill-child"]);
    assert!(reason(&path).contains("PID namespaces"), "{path:?}");
}

fn another_user_gets_messages() {
    assert!(reason(&path_to(&["setpriv", "--reuid", "4321", "--clear-groups"])).contains("different users"));
}

/// The kernel shows users that are unknown in a user namespace as `nobody`, so two such users need not be the same.
fn process_of_user_nobody_gets_messages() {
    let nobody = ["setpriv", "--reuid", "65534", "--clear-groups"];
    assert!(reason(&path_to(&nobody)).contains("different users"));
    let told = Other::start(&nobody, "teller of the path").line();
    assert!(told.contains("stands for every user unknown in this user namespace"), "{told}");
}

/// The announcement of the ended peer is still valid when a reader requests its memory.
fn ended_peer_is_reported() {
    let participant = participant();
    let mut events = participant.discovery_events();
    let other = Other::start(&["env"], "stale writer");
    eventually("the writer is known", || !participant.discovered_publications().is_empty());
    other.kill();
    let reader = reader(&participant);
    let mut next_path = || loop {
        match events.wait_next(PATIENCE).expect("a path is reported") {
            DiscoveryEvent::PathChanged { path, .. } => return path,
            DiscoveryEvent::ParticipantLost(_, reason) => assert_eq!(reason, LostReason::ProcessEnded),
            _ => {}
        }
    };
    let path = next_path();
    assert!(
        matches!(&path, DeliveryPath::Messages(NoSharedMemory::NotConnected(text)) if !text.is_empty()),
        "{path:?}"
    );
    assert_eq!(participant.shared_memory_statistics().fallbacks, 1);
    let _other = Other::start(&["env"], "writer");
    assert_eq!(next_path(), DeliveryPath::SharedMemory);
    take_some(&reader, 10);
    // No process has listened at the address of the ended one, whose lease is longer than the test.
    eventually("the ended peer is lost", || participant.discovered_participants().len() == 1);
}

fn read_only_dev_shm_is_no_obstacle() {
    let mount = "mount -t tmpfs -o ro tmpfs /dev/shm && exec \"$0\"";
    assert_eq!(path_to(&["unshare", "--mount", "sh", "-c", mount]), DeliveryPath::SharedMemory);
}

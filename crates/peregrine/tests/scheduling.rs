//! The scheduling policy of receive threads, as the kernel reports it. The only test of its process.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use peregrine::{DdsType, DomainConfig, DomainParticipant, InterfaceSelection};

const PATIENCE: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(60);

/// Kernel numbers of `SCHED_OTHER` and `SCHED_BATCH`.
const OTHER: u32 = 0;
const BATCH: u32 = 3;
/// Place of the policy in `/proc/self/task/*/stat`, counted from the state, which follows the name.
const POLICY_PLACE: usize = 38;

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Sample {
    number: u32,
}

/// The policies of the threads whose names begin so.
fn policies(prefix: &str) -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    stats
        .filter_map(|stat| {
            let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
            let policy = rest.split_whitespace().nth(POLICY_PLACE)?;
            name.starts_with(prefix).then(|| policy.parse().unwrap())
        })
        .collect()
}

#[test]
fn receive_threads_interrupt_others_unless_application_threads_receive() {
    let sides = [255, 256].map(|receive_buffers| {
        let mut config = DomainConfig::default();
        config.same_process = false;
        config.shared_memory = false;
        config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
        config.receive_buffers = receive_buffers;
        DomainParticipant::builder(74).config(config).build().unwrap()
    });
    let end = Instant::now() + LIMIT;
    // No application thread has waited yet: the receive threads receive. Each sets its name when it starts.
    while policies("pg-data").len() < sides.len() {
        assert!(Instant::now() < end, "a receive thread has not started");
        std::thread::yield_now();
    }
    assert_eq!(policies("pg-data"), [OTHER, OTHER]);
    let topic = |side: usize| sides[side].topic::<Sample>("samples").unwrap();
    let writer = topic(0).writer_builder().keep_last(1).reliable().build().unwrap();
    let reader = topic(1).reader_builder().keep_last(1).reliable().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let mut number = 0;
    let mut write = || {
        number += 1;
        writer.write(&Sample { number }).unwrap();
        number
    };
    while !policies("pg-data").contains(&BATCH) {
        assert!(Instant::now() < end, "no receive thread follows");
        let number = write();
        while reader.wait_and_take(PATIENCE).unwrap().into_value() != Some(Sample { number }) {}
    }
    assert!(policies("pg-ctrl").iter().all(|policy| *policy == OTHER));
    // The application does not wait any more: the receive thread leads.
    while policies("pg-data").contains(&BATCH) {
        assert!(Instant::now() < end, "the receive thread does not lead again");
        write();
        while reader.take().unwrap().is_empty() && Instant::now() < end {
            std::thread::yield_now();
        }
    }
}

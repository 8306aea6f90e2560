use super::*;
use crate::cli::option::WaitMethod;
use crate::cli::{Invocation, UsageError, parse};

fn try_plan(line: &str) -> Result<TestPlan, UsageError> {
    let words: Vec<_> = line.split_whitespace().collect();
    match parse(&words)? {
        Invocation::Run(options) => resolve(&options),
        Invocation::Help => panic!("{line} asks for help"),
    }
}

fn plan(line: &str) -> TestPlan {
    try_plan(line).unwrap()
}

fn publisher(line: &str) -> PublisherPlan {
    match plan(line).role {
        Role::Publisher(publisher) => publisher,
        Role::Subscriber(_) => panic!("{line} is a subscriber"),
    }
}

fn error(line: &str) -> String {
    try_plan(line).unwrap_err().lines.join("\n")
}

#[test]
fn defaults_are_those_of_rti_perftest() {
    let plan = plan("-pub");
    assert_eq!(plan.data.domain, 1);
    assert_eq!(plan.data.max_len, 100);
    assert_eq!(plan.data.send_queue_len, 50);
    assert_eq!(plan.data.receive_queue_len, 128);
    assert!(plan.data.reliable);
    let publisher = publisher("-pub");
    assert_eq!(publisher.latency_count, 10_000);
    assert_eq!(publisher.max_samples, 100_000_000);
    assert_eq!(publisher.batching, Batching::Implicit(8192));
    assert_eq!(publisher.sizes, [100]);
}

#[test]
fn process_without_pub_or_sub_subscribes() {
    assert!(matches!(plan("-latencyTest").role, Role::Subscriber(_)));
}

#[test]
fn flow_controller_without_asynchronous_is_reported() {
    let asynchronous = |line: &str| plan(line).data.asynchronous;
    assert_eq!(asynchronous("-pub"), None);
    assert_eq!(asynchronous("-pub -asynchronous"), Some(FlowController::Default));
    assert_eq!(asynchronous("-sub -asynchronous -flowController default"), Some(FlowController::Default));
    for (name, rate) in [("1Gbps", 1_000_000_000), ("10Gbps", 10_000_000_000)] {
        let flow = asynchronous(&format!("-pub -asynchronous -flowController {name}")).unwrap();
        assert_eq!((flow, flow.name()), (FlowController::BitsPerSecond { name, rate }, name));
    }
    assert!(error("-pub -flowController 1Gbps").contains("-flowController needs -asynchronous"));
}

#[test]
fn latency_test_pings_each_sample_and_does_not_batch() {
    let publisher = publisher("-pub -latencyTest");
    assert_eq!(publisher.latency_count, 1);
    assert_eq!(publisher.max_samples, 10_000_000);
    assert_eq!(publisher.batching, Batching::Off);
    assert!(error("-pub -latencyTest -batchSize 8192").contains("-batchSize cannot go with -latencyTest"));
    assert!(error("-pub -latencyTest -pidMultiPubTest 1").contains("publisher 0 only"));
}

#[test]
fn batches_hold_at_least_two_samples() {
    let batching = Batching::Implicit(8192);
    assert_eq!(batching.bytes_for(4096), 8192);
    assert_eq!(batching.bytes_for(4097), 0);
    assert_eq!(batching.samples_for(100), 81);
    assert_eq!(batching.samples_for(8192), 1);
    assert_eq!(Batching::Off.samples_for(32), 1);
    assert_eq!(plan("-pub -batchSize 8192 -dataLen 5000").notes.len(), 1);
    assert!(error("-pub -batchSize 1M -dataLen 100k").contains("64969"));
}

#[test]
fn rate_turns_implicit_batching_off_and_keeps_an_explicit_one() {
    assert_eq!(publisher("-pub -pubRate 1000").batching, Batching::Off);
    assert_eq!(publisher("-pub -pubRate 1000 -batchSize 4096").batching, Batching::Explicit(4096));
    let raw = publisher("-pub -raw");
    assert_eq!(raw.batching, Batching::Off);
}

#[test]
fn rates_replace_sleep_and_spin() {
    let plan = plan("-pub -pubRatebps 8M:sleep -sleep 5 -dataLen 1000");
    let Role::Publisher(publisher) = &plan.role else { panic!() };
    assert_eq!(publisher.pace, Pace::Bits(RateLimit { per_second: 8_000_000, method: WaitMethod::Sleep }));
    assert_eq!(publisher.pace.samples_per_second(1000), Some(1000));
    assert_eq!(publisher.pace.samples_per_second(2_000_000), Some(1));
    assert_eq!(plan.notes.len(), 1);
    assert!(error("-pub -pubRate 5 -pubRatebps 5").contains("exclude each other"));
}

#[test]
fn sentinel_lengths_are_refused() {
    assert!(error("-pub -dataLen 1262").contains("INITIALIZE"));
    assert!(error("-sub -dataLen 1263").contains("FINISHED"));
    assert_eq!(plan("-pub -dataLen 1264").data.max_len, 1264);
    assert!(error("-pub -scan 1264").contains("LENGTH_CHANGED"));
    assert!(error("-sub -dataLen 1264 -keyed -instances 100000").contains("LENGTH_CHANGED"));
}

#[test]
fn scan_has_its_sizes_and_its_time() {
    let default = publisher("-pub -scan -raw");
    assert_eq!(default.sizes, SCAN_SIZES);
    assert_eq!(default.execution_time, Some(Duration::from_secs(60)));
    let own = publisher("-pub -scan 64:32 -exec 2");
    assert_eq!(own.sizes, [32, 64]);
    assert_eq!(own.execution_time, Some(Duration::from_secs(2)));
    assert_eq!(own.max_samples, u64::MAX);
    assert_eq!(plan("-pub -scan").data.max_len, 63_000);
}

#[test]
fn contradicting_counts_and_instances_are_refused() {
    assert!(error("-pub -numIter 10").contains("-latencyCount 10000"));
    assert_eq!(publisher("-pub -numIter 10 -latencyCount 10").max_samples, 10);
    assert!(error("-pub -instances 4 -writeInstance 4").contains("below -instances"));
    assert_eq!(publisher("-pub -instances 4 -writeInstance 3").write_instance, Some(3));
}

#[test]
fn options_without_change_are_noted() {
    for (line, option) in [
        ("-sub -waitsetDelayUsec 50", "-waitsetDelayUsec has no effect"),
        ("-sub -waitsetEventCount 1", "-waitsetEventCount has no effect"),
        ("-sub -useReadThread -waitStrategy poll -waitsetDelayUsec 50", "-waitsetDelayUsec has no effect"),
        ("-pub -instances 4 -writeInstance 3", "-writeInstance has no effect"),
    ] {
        let notes = plan(line).notes;
        assert_eq!(notes.len(), 1, "{line}: {notes:?}");
        assert!(notes[0].starts_with(option), "{line}: {notes:?}");
    }
    for line in [
        "-sub -useReadThread -waitsetDelayUsec 50",
        "-sub -useReadThread -waitsetEventCount 1",
        "-sub -useReadThread -waitsetEventCount 5",
        "-pub -keyed -instances 4 -writeInstance 3",
    ] {
        assert_eq!(plan(line).notes, Vec::<String>::new(), "{line}");
    }
}

#[test]
fn large_samples_use_the_unbounded_type() {
    assert_eq!(plan("-pub -dataLen 65470").data.unbounded, None);
    let large = plan("-pub -dataLen 65471");
    assert_eq!(large.data.unbounded, Some(65_470));
    assert_eq!(large.notes.len(), 1);
    assert_eq!(plan("-pub -unbounded -dataLen 1000").data.unbounded, Some(2000));
    assert_eq!(plan("-pub -unbounded 500 -dataLen 1000").data.unbounded, Some(500));
}

#[test]
fn raw_sample_longer_than_datagram_is_refused() {
    assert_eq!(plan("-pub -raw -dataLen 65503").data.max_len, 65_503);
    assert!(error("-pub -raw -dataLen 65504").contains("up to 65503 bytes"));
    assert!(error("-pub -raw -batchSize 65508").contains("one datagram"));
    assert!(!plan("-pub -raw").data.reliable);
    assert!(error("-pub -noBlockingSockets").contains("needs -rawTransport"));
}

#[test]
fn raw_shared_memory_takes_samples_of_any_size_and_waits_for_room() {
    let large = plan("-pub -raw -transport SHMEM -dataLen 52428800");
    assert_eq!((large.data.max_len, large.data.unbounded, large.notes.len()), (52_428_800, None, 0));
    assert_eq!(large.transport.kind, TransportKind::SharedMemory);
    assert!(large.transport.raw && large.data.reliable);
    assert!(!plan("-pub -raw -enableSharedMemory -noBlockingSockets").data.reliable);
    assert_eq!(publisher("-pub -raw -transport SHMEM -batchSize 100000").batching, Batching::Explicit(100_000));
    assert_eq!(publisher("-pub -raw -transport SHMEM").batching, Batching::Off);
    assert!(error("-pub -raw -transport SHMEM -batchSize 9000 -dataLen 65000").contains("64969"));
    assert_eq!(plan("-sub -raw -transport SHMEM -domain 232").data.domain, 232);
    let addressed = plan("-sub -raw -transport SHMEM -nic lo,eth0 -peer 127.0.0.1 -multicast");
    assert_eq!((addressed.transport.interfaces.len(), addressed.transport.peers.len()), (0, 0));
    assert_eq!(addressed.transport.multicast, None);
    for name in ["-nic has no effect", "-peer has no effect", "-multicast has no effect"] {
        assert!(addressed.notes.iter().any(|note| note.starts_with(name)), "{:?}", addressed.notes);
    }
}

#[test]
fn multicast_groups_follow_from_one_address_or_three() {
    assert_eq!(plan("-sub").transport.multicast, None);
    let built_in = plan("-sub -multicast").transport.multicast.unwrap();
    assert_eq!(built_in.announcement.to_string(), "239.255.1.100");
    let one = plan("-sub -multicastAddr 239.255.3.255").transport.multicast.unwrap();
    assert_eq!(one.latency.to_string(), "239.255.4.0");
    assert_eq!(one.announcement.to_string(), "239.255.4.1");
    let three = plan("-sub -transport UDPv6 -multicastAddr ff02::1:1,ff02::1:2,ff02::1:9").transport.multicast.unwrap();
    assert_eq!(three.announcement.to_string(), "ff02::1:9");
    assert!(error("-sub -multicast -transport UDPv6").contains("-multicastAddr"));
    assert!(error("-sub -multicastAddr 239.255.255.254").contains("must not be above"));
    assert!(error("-sub -multicastAddr 10.0.0.1").contains("not a multicast address"));
    assert!(error("-sub -multicastAddr ff02::1").contains("of this transport"));
    assert!(error("-sub -multicastAddr 239.0.0.1,239.0.0.2").contains("one address or three"));
    assert!(error("-sub -multicastAddr here").contains("not an IP address"));
}

#[test]
fn address_after_multicast_names_the_groups() {
    let groups = plan("-sub -multicast 239.255.3.1 -nic lo").transport.multicast.unwrap();
    assert_eq!(groups.announcement.to_string(), "239.255.3.3");
    assert!(error("-sub -nomulticast -multicast").contains("-nomulticast contradicts"));
    assert_eq!(plan("-sub -nomulticast").transport.multicast, None);
}

#[test]
fn old_names_work_and_are_noted() {
    let old = plan("-sub -enableUDPv6 -debug");
    assert_eq!((old.transport.kind, old.verbosity), (TransportKind::UdpV6, 3));
    assert!(old.notes[0].contains("-transport UDPv6") && old.notes[1].contains("-verbosity 3"), "{:?}", old.notes);
    assert_eq!(plan("-sub -debug -verbosity 0").verbosity, 0);
    assert!(error("-sub -enableUDPv6 -transport UDPv4").contains("contradicts"));
    let old = plan("-sub -enableSharedMemory");
    assert_eq!(old.transport.kind, TransportKind::SharedMemory);
    assert!(old.notes[0].contains("-transport SHMEM"), "{:?}", old.notes);
    assert!(error("-sub -enableSharedMemory -transport UDPv4").contains("contradicts"));
    assert!(error("-sub -enableSharedMemory -enableUDPv6").contains("-enableSharedMemory contradicts"));
}

#[test]
fn options_without_effect_are_reported() {
    let notes = |line: &str| plan(line).notes;
    assert_eq!(notes("-latencyTest"), ["-latencyTest has no effect: without -pub this process is a subscriber."]);
    assert_eq!(notes("-sub -threadCPUAffinity 0:1").len(), 0);
    assert!(notes("-sub -threadCPUAffinity 0:1:2")[0].contains("the first two lists"));
    assert!(notes("-sub -threadPriorities h:n:l")[0].contains("the first two have"));
    assert_eq!(notes("-sub -threadPriorities h:n:n").len(), 0);
}

#[test]
fn low_resolution_clock_times_round_trips_only() {
    assert!(publisher("-pub -latencyTest -lowResolutionClock").low_resolution_clock);
    assert!(error("-pub -lowResolutionClock").contains("needs -latencyTest"));
    assert!(error("-pub -latencyTest -latencyCount 2 -lowResolutionClock").contains("needs -latencyCount 1"));
    for pause in ["-sleep 1", "-spin 1", "-pubRate 1", "-pubRatebps 1"] {
        let line = format!("-pub -latencyTest -lowResolutionClock {pause}");
        assert!(error(&line).contains(pause.split(' ').next().unwrap()), "{line}");
    }
}

#[test]
fn payload_file_is_capped() {
    let file = publisher("-pub -loadDataFromFile f -maximumAllocableBufferSize 1Ki").payload_file.unwrap();
    assert_eq!((file.path.to_str(), file.max_bytes), (Some("f"), 1024));
    assert_eq!(publisher("-pub -loadDataFromFile f").payload_file.unwrap().max_bytes, 1 << 30);
    assert!(error("-pub -maximumAllocableBufferSize 5").contains("needs -loadDataFromFile"));
}

#[test]
fn diagnostics_follow_the_options() {
    assert_eq!(plan("-sub").diagnostics, Diagnostics::default());
    let all = Diagnostics { resource_limits: true, counters: true, resent: true };
    assert_eq!(plan("-pub -showResourceLimits -cacheStats -writerStats").diagnostics, all);
    assert_eq!(publisher("-pub -showSerializationTime").serialization_rounds, 1000);
}

#[test]
fn allow_interfaces_overrides_nic() {
    assert_eq!(plan("-sub -nic eth0 -allowInterfaces lo").transport.interfaces, ["lo"]);
}

#[test]
fn interfaces_are_listed_with_commas() {
    assert!(plan("-sub").transport.interfaces.is_empty());
    assert_eq!(plan("-sub -nic eth0,10.0.0.1").transport.interfaces, ["eth0", "10.0.0.1"]);
    assert!(error("-sub -nic eth0,").contains("empty name"));
    assert!(error("-sub -raw -nic eth0,eth1").contains("one interface, not 2"));
}

#[test]
fn wait_set_gathers_up_to_the_count_or_the_delay() {
    let gather = |line: &str| plan(line).receive.gather.map(|gather| (gather.delay.as_micros(), gather.count));
    assert_eq!(gather("-sub -useReadThread"), None);
    assert_eq!(gather("-sub -useReadThread -waitsetEventCount 1 -waitsetDelayUsec 9"), None);
    assert_eq!(gather("-sub -useReadThread -waitsetEventCount 5"), Some((100, 5)));
    assert_eq!(gather("-sub -useReadThread -waitsetDelayUsec 50"), Some((50, u64::MAX)));
    assert_eq!(gather("-sub -useReadThread -waitsetEventCount 7 -waitsetDelayUsec 50"), Some((50, 7)));
    assert_eq!(gather("-sub -useReadThread -waitsetEventCount 7 -waitsetDelayUsec 0"), None);
}

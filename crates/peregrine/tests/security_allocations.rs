//! Allocations per sample between two secured participants in a steady state: none, at every level of the plan
//! `security` of perftest.

mod realm;

use std::time::{Duration, Instant};

use peregrine::security::{ProtectionKind, SecurityConfig};
use peregrine::{
    DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, FlowController, PublishMode, Selector,
    WaitStrategy,
};
use realm::{Levels, PATIENCE, Realm};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SAMPLES_PER_ROUND: u64 = 200;
const WARM_UP: u64 = 600;
/// The turn of each side while both discover each other: participants that poll have no threads.
const TURN: Duration = Duration::from_millis(1);

const fn levels(messages: ProtectionKind, submessages: ProtectionKind, payloads: ProtectionKind) -> Levels {
    Levels { messages, discovery: ProtectionKind::None, submessages, payloads }
}

/// Name and protection of each level; without protection, the participants have no security.
fn all_levels() -> [(&'static str, Option<Levels>); 7] {
    use ProtectionKind::{
        Encrypt, EncryptWithOriginAuthentication as EncryptFrom, None as Plain, Sign,
        SignWithOriginAuthentication as SignFrom,
    };
    [
        ("no security", None),
        ("security without protection", Some(levels(Plain, Plain, Plain))),
        ("RTPSSign", Some(levels(Sign, Plain, Plain))),
        ("RTPSEncrypt", Some(levels(Encrypt, Plain, Plain))),
        ("RTPSSignWithOrigAuthEncryptData", Some(levels(SignFrom, Plain, Encrypt))),
        ("RTPSSignEncryptSubmessageWithOrigAuthEncryptData", Some(levels(Sign, EncryptFrom, Encrypt))),
        ("SignEncryptSubmessage", Some(levels(Sign, Encrypt, Plain))),
    ]
}

/// Samples go through sockets, as between two processes without shared memory.
fn config(wait: WaitStrategy, name_prefix: &str) -> DomainConfig {
    let mut config = realm::config();
    config.shared_memory = false;
    config.wait = wait;
    // Participants with different settings share neither sockets nor threads.
    config.threads.name_prefix = name_prefix.to_owned();
    config
}

fn participant(domain: u32, config: DomainConfig, security: Option<SecurityConfig>) -> DomainParticipant {
    let builder = DomainParticipant::builder(domain).config(config);
    security.into_iter().fold(builder, |builder, security| builder.security(security)).build().unwrap()
}

/// The side that matches first goes on polling, because the other one still needs its answers.
fn wait_for_match<T: DdsType>(sides: [&DomainParticipant; 2], writer: &DataWriter<T>, reader: &DataReader<T>) {
    let end = Instant::now() + PATIENCE;
    while writer.wait_for_readers(1, TURN).is_err() | reader.wait_for_writers(1, TURN).is_err() {
        assert!(Instant::now() < end, "the participants do not match within {PATIENCE:?}");
        sides.iter().for_each(|participant| participant.poll(Duration::ZERO));
    }
}

/// Blocks allocated in the round with the fewest, while samples of `N` words pass between two participants.
fn exchange<const N: usize>(domain: u32, wait: WaitStrategy, mode: PublishMode, levels: Option<Levels>) -> u64 {
    let realm = levels.map(Realm::new);
    let of = |name: &str, serial| {
        participant(domain, config(wait, name), realm.as_ref().map(|realm| realm.member(name, serial)))
    };
    let (a, b) = (of("a", 2), of("b", 3));
    let [topic, other] = [&a, &b].map(|participant| participant.topic::<[u64; N]>("open").unwrap());
    let writer = topic.writer_builder().reliable().keep_last(16).publish_mode(mode).build().unwrap();
    let reader = other.reader_builder().reliable().keep_last(16).build().unwrap();
    wait_for_match([&a, &b], &writer, &reader);
    let round = |numbers: std::ops::Range<u64>| {
        let before = dhat::HeapStats::get().total_blocks;
        for number in numbers {
            writer.write(&[number; N]).unwrap();
            reader.wait_for_data(PATIENCE).unwrap();
            let mut seen = None;
            reader.take_each(&Selector::ANY, |sample| seen = Some(sample.decode().unwrap() == [number; N])).unwrap();
            assert_eq!(seen, Some(true), "sample {number}");
            a.poll(Duration::ZERO);
        }
        dhat::HeapStats::get().total_blocks - before
    };
    round(0..WARM_UP);
    // Discovery and timers may allocate, on a busy machine in many rounds.
    let (mut fewest, end) = (u64::MAX, Instant::now() + PATIENCE);
    while fewest > 0 && Instant::now() < end {
        fewest = fewest.min(round(0..SAMPLES_PER_ROUND));
    }
    fewest
}

/// A single test, because allocations of other tests would count.
#[test]
fn secured_steady_state_allocates_nothing_per_sample() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let asynchronous = PublishMode::Asynchronous { flow: FlowController::fast() };
    for (domain, wait, mode) in [
        (94, WaitStrategy::default(), PublishMode::Synchronous),
        (95, WaitStrategy::Poll, PublishMode::Synchronous),
        (96, WaitStrategy::default(), asynchronous),
    ] {
        for (name, levels) in all_levels() {
            // 32 and 63,000 bytes.
            let small = exchange::<4>(domain, wait, mode.clone(), levels);
            let large = exchange::<7_875>(domain, wait, mode.clone(), levels);
            assert_eq!((small, large), (0, 0), "{name}, {wait:?}, {mode:?}: blocks for {SAMPLES_PER_ROUND} samples");
        }
    }
}

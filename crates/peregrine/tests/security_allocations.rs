//! Allocations per sample between secured participants in a steady state: none, at every level of the plan `security`
//! of perftest, also with batches, best effort, keys of 128 bits, and two readers with origin authentication.

mod realm;

use std::time::{Duration, Instant};

use peregrine::security::{KeyLength, ProtectionKind, SecurityConfig};
use peregrine::{
    DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, FlowController, PublishMode, Selector,
    WaitStrategy,
};
use realm::{Levels, PATIENCE, Realm};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const SAMPLES_PER_ROUND: u64 = 200;
const WARM_UP: u64 = 600;
/// Samples of a batch that are sent together, and the bytes of a batch, which hold more of them.
const SAMPLES_TOGETHER: u64 = 20;
const BATCH_BYTES: usize = 4096;
/// The depth of the history, which holds a batch.
const SAMPLES_HELD: u32 = 32;
/// The turn of each side while both discover each other: participants that poll have no threads.
const TURN: Duration = Duration::from_millis(1);

const fn levels(messages: ProtectionKind, submessages: ProtectionKind, payloads: ProtectionKind) -> Levels {
    Levels { messages, discovery: ProtectionKind::None, submessages, payloads }
}

/// Messages and submessages have a MAC for each receiver.
const ALL_WITH_ORIGIN: Levels = levels(
    ProtectionKind::EncryptWithOriginAuthentication,
    ProtectionKind::EncryptWithOriginAuthentication,
    ProtectionKind::Encrypt,
);

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

/// How samples pass.
#[derive(Clone, Debug)]
struct Flow {
    wait: WaitStrategy,
    mode: PublishMode,
    is_reliable: bool,
    /// Samples that are written together, in a batch if there are several.
    together: u64,
    /// Readers, each of a participant of its own.
    readers: u8,
    key_length: KeyLength,
}

impl Flow {
    /// One reliable reader, and a message for each sample.
    fn new(wait: WaitStrategy, mode: PublishMode) -> Self {
        Self { wait, mode, is_reliable: true, together: 1, readers: 1, key_length: KeyLength::Aes256 }
    }
}

/// The side that matches first goes on polling, because the other one still needs its answers.
fn wait_for_match<T: DdsType>(sides: &[&DomainParticipant], writer: &DataWriter<T>, readers: &[DataReader<T>]) {
    let end = Instant::now() + PATIENCE;
    loop {
        let lacking = readers.iter().filter(|reader| reader.wait_for_writers(1, TURN).is_err()).count();
        if writer.wait_for_readers(readers.len(), TURN).is_ok() && lacking == 0 {
            return;
        }
        assert!(Instant::now() < end, "the participants do not match within {PATIENCE:?}");
        sides.iter().for_each(|participant| participant.poll(Duration::ZERO));
    }
}

/// Blocks allocated in the round with the fewest, while samples of `N` words pass between participants.
fn exchange<const N: usize>(domain: u32, flow: &Flow, levels: Option<Levels>) -> u64 {
    let realm = levels.map(Realm::new);
    let of = |name: &str, serial| {
        let security = realm.as_ref().map(|realm| realm.member(name, serial).key_length(flow.key_length));
        participant(domain, config(flow.wait, name), security)
    };
    let a = of("a", 2);
    let others: Vec<_> = (3..3 + flow.readers).map(|serial| of(&format!("b{serial}"), serial)).collect();
    let topic = |participant: &DomainParticipant| participant.topic::<[u64; N]>("open").unwrap();
    let (to, reliable) = (topic(&a), flow.is_reliable);
    let writer = if reliable { to.writer_builder().reliable() } else { to.writer_builder().best_effort() };
    let writer = writer.keep_last(SAMPLES_HELD).publish_mode(flow.mode.clone());
    let is_batched = flow.together > 1;
    let writer = if is_batched { writer.batching(BATCH_BYTES, Duration::MAX) } else { writer }.build().unwrap();
    let reader = |participant| {
        let from = topic(participant);
        let reader = if reliable { from.reader_builder().reliable() } else { from.reader_builder().best_effort() };
        reader.keep_last(SAMPLES_HELD).build().unwrap()
    };
    let readers: Vec<_> = others.iter().map(reader).collect();
    let sides: Vec<_> = std::iter::once(&a).chain(&others).collect();
    wait_for_match(&sides, &writer, &readers);
    let round = |numbers: std::ops::Range<u64>| {
        let before = dhat::HeapStats::get().total_blocks;
        for first in numbers.step_by(flow.together as usize) {
            let end = first + flow.together;
            for number in first..end {
                writer.write(&[number; N]).unwrap();
            }
            if is_batched {
                writer.flush().unwrap();
            }
            for reader in &readers {
                let mut next = first;
                while next < end {
                    reader.wait_for_data(PATIENCE).unwrap();
                    let taken = reader.take_each(&Selector::ANY, |sample| {
                        assert!(sample.decode().unwrap() == [next; N], "sample {next}");
                        next += 1;
                    });
                    taken.unwrap();
                }
            }
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
        let flow = Flow::new(wait, mode);
        for (name, levels) in all_levels() {
            // 32 and 63,000 bytes.
            let counts = (exchange::<4>(domain, &flow, levels), exchange::<7_875>(domain, &flow, levels));
            assert_eq!(counts, (0, 0), "{name}, {flow:?}: blocks for {SAMPLES_PER_ROUND} samples");
        }
    }
    for (domain, wait) in [(94, WaitStrategy::default()), (95, WaitStrategy::Poll)] {
        let usual = Flow::new(wait, PublishMode::Synchronous);
        let flows = [
            Flow { together: SAMPLES_TOGETHER, ..usual.clone() },
            Flow { is_reliable: false, ..usual.clone() },
            Flow { key_length: KeyLength::Aes128, ..usual.clone() },
            Flow { readers: 2, ..usual.clone() },
            Flow { readers: 2, together: SAMPLES_TOGETHER, ..usual },
        ];
        let levels = all_levels().into_iter().chain([("all with origin authentication", Some(ALL_WITH_ORIGIN))]);
        for ((name, levels), flow) in levels.flat_map(|level| flows.iter().map(move |flow| (level, flow))) {
            let count = exchange::<4>(domain, flow, levels);
            assert_eq!(count, 0, "{name}, {flow:?}: blocks for {SAMPLES_PER_ROUND} samples");
        }
    }
}

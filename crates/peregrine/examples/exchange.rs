//! Samples from a reliable writer to a reader, each taken before the next is written. `cargo xtask bench instructions`
//! profiles this program; its parts are separate functions, so that the profile distinguishes them.
//!
//! `exchange each|flow|fragments|batch COUNT`: samples of 32 bytes of which each requests an acknowledgement, or as
//! many as usual do; samples of 63000 bytes in messages for an Ethernet MTU; samples of 32 bytes in batches of 128.
//!
//! `exchange memory|loan|same-process COUNT`: samples of 32 bytes by shared memory between two participants, as between
//! processes, encoded or built in place; and built in place for a listener of the same participant.
//!
//! `exchange protected none|sign|encrypt|sign-encrypt|costliest COUNT`, with the feature `security`: as `each`, between
//! participants with DDS Security.

#![forbid(unsafe_code)]

#[cfg(feature = "security")]
#[path = "../tests/realm/mod.rs"]
mod realm;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use peregrine::qos::{Limit, ResourceLimits};
use peregrine::{
    DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, InterfaceSelection, Selector, WaitStrategy,
    WriteLoan,
};

const DOMAIN: u32 = 120;
const TOPIC: &str = "open samples";
/// So long that no periodic announcement is due during a run.
const LEASE: Duration = Duration::from_secs(24 * 3600);
/// Exchanges before anything is counted, so that every pool has its buffers.
const ROUNDS_BEFORE: u32 = 2000;
const LARGE_BYTES: usize = 63_000;
/// Samples of 32 bytes in a batch of [`BATCH_BYTES`].
const BATCH_SAMPLES: u64 = 128;
const BATCH_BYTES: usize = 4096;
/// UDP payload of an IPv4 packet of 1500 bytes.
const ETHERNET_MESSAGE_BYTES: usize = 1472;
/// The longest duration of a run, also under callgrind.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Blob {
    number: u64,
    octets: [u8; 24],
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Large {
    number: u64,
    octets: Vec<u8>,
}

/// A plain type, which can be built in the memory from which it is sent.
type Plain = [u64; 4];

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let blob = |number| Blob { number, octets: [7; 24] };
    let plain = |number| [number, 7, 7, 7];
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["each", count] => exchange(&sides(None)?, true, count.parse()?, blob),
        ["flow", count] => exchange(&sides(None)?, false, count.parse()?, blob),
        #[cfg(feature = "security")]
        ["protected", kinds, count] => exchange(&protected_sides(kinds)?, true, count.parse()?, blob),
        ["fragments", count] => {
            let octets = vec![7; LARGE_BYTES];
            let large = |number| Large { number, octets: octets.clone() };
            exchange(&sides(Some(ETHERNET_MESSAGE_BYTES))?, false, count.parse()?, large)
        }
        ["batch", count] => exchange_batches(count.parse()?, blob),
        ["memory", count] => exchange_by_memory(false, count.parse()?, plain),
        ["loan", count] => exchange_by_memory(true, count.parse()?, plain),
        ["same-process", count] => exchange_within(count.parse()?, plain),
        _ => Err("usage: exchange each|flow|fragments|batch|memory|loan|same-process|protected KINDS COUNT".into()),
    }
}

fn exchange<T: DdsType + PartialEq>(
    [a, b]: &[DomainParticipant; 2],
    asks_each: bool,
    count: u64,
    sample: impl Fn(u64) -> T,
) -> Result<()> {
    let writer = a.topic::<T>(TOPIC)?.writer_builder().reliable().keep_all();
    // A writer that may hold only two samples requests an acknowledgement with each.
    let limits = ResourceLimits { max_samples: Limit::At(2), ..ResourceLimits::default() };
    let writer = if asks_each { writer.resource_limits(limits) } else { writer }.build()?;
    let reader = b.topic::<T>(TOPIC)?.reader_builder().reliable().keep_all().build()?;
    let end = Instant::now() + LIMIT;
    find_each_other(a, &writer, b, &reader, end)?;
    for number in 0..u64::from(ROUNDS_BEFORE) + count {
        let written = sample(number);
        write(&writer, &written)?;
        receive(b);
        let mut taken = take(&reader)?;
        while taken.is_none() {
            if Instant::now() >= end {
                return Err("a sample that was written does not come".into());
            }
            receive(b);
            taken = take(&reader)?;
        }
        if taken != Some(written) {
            return Err("a sample came that was not written".into());
        }
        hear_acknowledgement(a);
    }
    println!("{} {}", writer.counters().samples_sent, writer.counters().acknowledgements);
    Ok(())
}

/// Exchanges whole batches of at least `count` samples in total.
fn exchange_batches<T: DdsType + PartialEq>(count: u64, sample: impl Fn(u64) -> T) -> Result<()> {
    let [a, b] = sides(None)?;
    let writer = a.topic::<T>(TOPIC)?.writer_builder().reliable().keep_all();
    let writer = writer.batching(BATCH_BYTES, Duration::MAX).build()?;
    let reader = b.topic::<T>(TOPIC)?.reader_builder().reliable().keep_all().build()?;
    let end = Instant::now() + LIMIT;
    find_each_other(&a, &writer, &b, &reader, end)?;
    let mut number = 0;
    while number < u64::from(ROUNDS_BEFORE) + count {
        for number in number..number + BATCH_SAMPLES {
            write(&writer, &sample(number))?;
        }
        writer.flush()?;
        let batch_end = number + BATCH_SAMPLES;
        while number < batch_end {
            if Instant::now() >= end {
                return Err("a batch that was written does not come".into());
            }
            receive(&b);
            number = take_batch(&reader, number, &sample)?;
        }
        hear_acknowledgement(&a);
    }
    println!("{} {}", writer.counters().samples_sent, writer.counters().acknowledgements);
    Ok(())
}

/// By shared memory, as between two processes.
fn exchange_by_memory(is_lent: bool, count: u64, sample: impl Fn(u64) -> Plain) -> Result<()> {
    let [a, b] = [side_by(255, None, true)?, side_by(256, None, true)?];
    let writer = a.topic::<Plain>(TOPIC)?.writer_builder().reliable().keep_all().build()?;
    let reader = b.topic::<Plain>(TOPIC)?.reader_builder().reliable().keep_all().build()?;
    let end = Instant::now() + LIMIT;
    find_each_other(&a, &writer, &b, &reader, end)?;
    while writer.shared_memory_readers() == 0 {
        if Instant::now() >= end {
            return Err("the two sides do not share memory".into());
        }
        a.poll(Duration::from_millis(1));
        b.poll(Duration::from_millis(1));
    }
    for number in 0..u64::from(ROUNDS_BEFORE) + count {
        let written = sample(number);
        if is_lent {
            let mut lent = lend(&writer)?;
            *lent = written;
            write_lent(&writer, lent)?;
        } else {
            write(&writer, &written)?;
        }
        let mut taken = receive_in_place(&reader);
        while taken.is_none() {
            if Instant::now() >= end {
                return Err("a sample that was written does not come".into());
            }
            taken = receive_in_place(&reader);
        }
        if taken != Some(written) {
            return Err("a sample came that was not written".into());
        }
    }
    // No datagram is sent.
    println!("{} 0", writer.counters().samples_sent);
    Ok(())
}

/// Exchanges samples with a listener, which has returned when the write returns.
fn exchange_within(count: u64, sample: impl Fn(u64) -> Plain) -> Result<()> {
    let mut config = config(255, None, false)?;
    config.same_process = true;
    let participant = participant(config)?;
    let topic = participant.topic::<Plain>(TOPIC)?;
    let seen = Arc::new(AtomicU64::new(0));
    let (writer, by_listener) = (topic.writer_builder().reliable().keep_all().build()?, Arc::clone(&seen));
    let reader = topic.reader_builder().reliable().keep_all().on_data(move |reader: &DataReader<Plain>| {
        if let Some(taken) = take_in_place(reader) {
            by_listener.store(taken[0], Ordering::Relaxed);
        }
    });
    let _reader = reader.build()?;
    let end = Instant::now() + LIMIT;
    while writer.matched_subscriptions().is_empty() {
        if Instant::now() >= end {
            return Err("the writer does not find its reader".into());
        }
        participant.poll(Duration::from_millis(1));
    }
    for number in 1..=u64::from(ROUNDS_BEFORE) + count {
        let mut lent = lend(&writer)?;
        *lent = sample(number);
        write_lent(&writer, lent)?;
        if seen.load(Ordering::Relaxed) != number {
            return Err("the listener has not seen the sample when the write returns".into());
        }
    }
    println!("{} 0", writer.counters().samples_sent);
    Ok(())
}

fn find_each_other<T: DdsType>(
    a: &DomainParticipant,
    writer: &DataWriter<T>,
    b: &DomainParticipant,
    reader: &DataReader<T>,
    end: Instant,
) -> Result<()> {
    while writer.matched_subscriptions().is_empty() || reader.matched_publications().is_empty() {
        if Instant::now() >= end {
            return Err("the two sides do not find each other".into());
        }
        a.poll(Duration::from_millis(1));
        b.poll(Duration::from_millis(1));
    }
    Ok(())
}

fn sides(message_bytes: Option<usize>) -> Result<[DomainParticipant; 2]> {
    Ok([side(255, message_bytes)?, side(256, message_bytes)?])
}

/// Participants with DDS Security, whose messages, submessages and payloads have this protection.
#[cfg(feature = "security")]
fn protected_sides(kinds: &str) -> Result<[DomainParticipant; 2]> {
    use peregrine_rtps::protection::ProtectionKind::{Encrypt, EncryptWithOriginAuthentication, None as No, Sign};
    let (messages, submessages, payloads) = match kinds {
        "none" => (No, No, No),
        "sign" => (Sign, No, No),
        "encrypt" => (Encrypt, No, No),
        "sign-encrypt" => (Sign, Encrypt, No),
        "costliest" => (Sign, EncryptWithOriginAuthentication, Encrypt),
        _ => return Err("the kinds of protection are none, sign, encrypt, sign-encrypt and costliest".into()),
    };
    let levels = realm::Levels { messages, discovery: No, submessages, payloads };
    let realm = realm::Realm::new(levels);
    let side = |name, serial, receive_buffers| -> Result<DomainParticipant> {
        // The governance has no tagged domain.
        let builder = DomainParticipant::builder(DOMAIN).config(config(receive_buffers, None, false)?);
        Ok(builder.lease(LEASE).security(realm.member(name, serial)).build()?)
    };
    Ok([side("A", 2, 255)?, side("B", 3, 256)?])
}

/// Participants with different settings share nothing, as two processes do.
fn side(receive_buffers: usize, message_bytes: Option<usize>) -> Result<DomainParticipant> {
    side_by(receive_buffers, message_bytes, false)
}

fn side_by(receive_buffers: usize, message_bytes: Option<usize>, shared_memory: bool) -> Result<DomainParticipant> {
    participant(config(receive_buffers, message_bytes, shared_memory)?)
}

fn config(receive_buffers: usize, message_bytes: Option<usize>, shared_memory: bool) -> Result<DomainConfig> {
    let mut config = DomainConfig::default();
    // The example measures RTPS over UDP, or shared memory, although both participants are in one process.
    config.same_process = false;
    config.shared_memory = shared_memory;
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    config.multicast = false;
    config.peers = vec!["3@127.0.0.1".parse()?];
    config.wait = WaitStrategy::Poll;
    config.receive_buffers = receive_buffers;
    config.message_bytes = message_bytes;
    Ok(config)
}

fn participant(config: DomainConfig) -> Result<DomainParticipant> {
    let tag = format!("exchange-{}", std::process::id());
    Ok(DomainParticipant::builder(DOMAIN).config(config).domain_tag(tag).lease(LEASE).build()?)
}

#[inline(never)]
fn write<T: DdsType>(writer: &DataWriter<T>, sample: &T) -> Result<()> {
    writer.write(black_box(sample))?;
    Ok(())
}

#[inline(never)]
fn lend(writer: &DataWriter<Plain>) -> Result<WriteLoan<Plain>> {
    Ok(writer.loan()?)
}

#[inline(never)]
fn write_lent(writer: &DataWriter<Plain>, sample: WriteLoan<Plain>) -> Result<()> {
    writer.write_loan(black_box(sample))?;
    Ok(())
}

/// Takes the only sample of the reader.
#[inline(never)]
fn take_in_place(reader: &DataReader<Plain>) -> Option<Plain> {
    let mut taken = None;
    reader.take_each(&Selector::ANY, |sample| taken = sample.borrow().copied()).unwrap();
    black_box(taken)
}

/// Receives and takes the only sample.
#[inline(never)]
fn receive_in_place(reader: &DataReader<Plain>) -> Option<Plain> {
    let mut taken = None;
    reader.poll_each(&Selector::ANY, |sample| taken = sample.borrow().copied()).unwrap();
    black_box(taken)
}

#[inline(never)]
fn receive(participant: &DomainParticipant) {
    participant.poll(Duration::ZERO);
}

#[inline(never)]
fn take<T: DdsType>(reader: &DataReader<T>) -> Result<Option<T>> {
    Ok(reader.take_next()?.and_then(|sample| black_box(sample.into_value())))
}

/// Takes a batch; `number` is the number of the next expected sample.
#[inline(never)]
fn take_batch<T: DdsType + PartialEq>(
    reader: &DataReader<T>,
    mut number: u64,
    sample: impl Fn(u64) -> T,
) -> Result<u64> {
    let mut is_right = true;
    reader
        .take_each(&Selector::ANY, |taken| {
            is_right &= taken.value().is_ok_and(|value| *value == sample(number));
            number += 1;
        })
        .unwrap();
    if is_right { Ok(number) } else { Err("a sample came that was not written".into()) }
}

/// Different code from [`receive`], so that the compiler does not merge the two functions.
#[inline(never)]
fn hear_acknowledgement(participant: &DomainParticipant) {
    participant.poll(black_box(Duration::ZERO));
}

//! Scenarios for a pair of peers of any vendors.
//!
//! A scenario starts a writing and a reading peer. It returns [`Error::Violated`] with its observation if they do not
//! behave as the standard demands. Scenarios wait for events, not for fixed times.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use crate::error::{Error, Result};
use crate::lab::NetNs;
use crate::peer::{InstanceState, Participant, Peer, Program, Received, Write};
use crate::qos::{DataType, Durability, History, Liveliness, Ownership, PolicyId, Qos, Reliability, Representation};

/// The time limit of one event that needs discovery or repair.
const LIMIT: Duration = Duration::from_secs(20);
/// The participant lease in scenarios with a killed peer.
const LEASE_MS: u32 = 2000;
const TOPIC: &str = "Topic";
/// The first sequence number of samples that probe a connection, distinct from all other samples.
const FIRST_PROBE_SEQ: u32 = 1_000_000;
const PROBES: u32 = 20;

/// Fails the scenario, with a message, unless the condition holds.
macro_rules! demand {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(Error::Violated(format!($($message)+)));
        }
    };
}

/// One of the two peers: its program and host.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// The program of the peer.
    pub program: &'a Program,
    /// The host on which the peer runs.
    pub host: &'a NetNs,
    /// The options of its participant in domain 0.
    pub participant: Participant,
}

/// The two peers of a scenario.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    /// The peer that writes.
    pub writer: Side<'a>,
    /// The peer that reads.
    pub reader: Side<'a>,
}

/// The samples of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The length of `data`.
    pub size_bytes: u32,
    /// How many samples.
    pub count: u32,
    /// Pause after each.
    pub period_us: u32,
    /// The time limit of the reader for all samples.
    pub limit: Duration,
}

impl Load {
    /// Small samples, samples of some fragments, and samples of a thousand fragments.
    pub const ALL: [Self; 3] = [
        Self { size_bytes: 32, count: 100, period_us: 0, limit: LIMIT },
        Self { size_bytes: 4096, count: 50, period_us: 0, limit: LIMIT },
        Self { size_bytes: 1_000_000, count: 5, period_us: 20_000, limit: LIMIT },
    ];
}

impl<'a> Pair<'a> {
    /// Both peers on one host, discovered by multicast.
    pub fn on_one_host(writer: &'a Program, reader: &'a Program, host: &'a NetNs) -> Self {
        let side = |program| Side { program, host, participant: Participant::default() };
        Self { writer: side(writer), reader: side(reader) }
    }

    /// Starts both peers and creates their participants.
    fn start(&self) -> Result<(Peer, Peer)> {
        Ok((self.writer.start()?, self.reader.start()?))
    }

    fn with_lease(&self, lease_ms: u32) -> Self {
        let mut pair = self.clone();
        pair.writer.participant.lease_ms = Some(lease_ms);
        pair.reader.participant.lease_ms = Some(lease_ms);
        pair
    }
}

impl Side<'_> {
    fn start(&self) -> Result<Peer> {
        let mut peer = Peer::start(self.program, self.host)?;
        peer.participant(0, &self.participant)?;
        Ok(peer)
    }
}

/// Reliable, without a key: every load arrives complete, in order, each byte right.
pub fn reliable_unkeyed(pair: &Pair<'_>) -> Result<()> {
    exchange(pair, DataType::Sample, &Qos::default(), &Load::ALL)
}

/// Reliable, with a key.
pub fn reliable_keyed(pair: &Pair<'_>) -> Result<()> {
    exchange(pair, DataType::KeyedSample, &Qos::default(), &Load::ALL)
}

/// Best effort, without a key: received samples are intact, in order and unique.
pub fn best_effort_unkeyed(pair: &Pair<'_>) -> Result<()> {
    exchange(pair, DataType::Sample, &best_effort(), &Load::ALL)
}

/// Best effort, with a key.
pub fn best_effort_keyed(pair: &Pair<'_>) -> Result<()> {
    exchange(pair, DataType::KeyedSample, &best_effort(), &Load::ALL)
}

/// Reliable, of an appendable type in XCDR2; for pairs that both have it.
pub fn reliable_appendable_xcdr2(pair: &Pair<'_>) -> Result<()> {
    exchange(pair, DataType::AppendableSample, &xcdr2(), &Load::ALL)
}

/// Found by unicast at the loopback address, without multicast.
pub fn unicast_discovery(pair: &Pair<'_>) -> Result<()> {
    let mut pair = pair.clone();
    pair.writer.participant.unicast_peers = vec!["127.0.0.1".to_owned()];
    pair.reader.participant.unicast_peers = vec!["127.0.0.1".to_owned()];
    exchange(&pair, DataType::KeyedSample, &Qos::default(), &Load::ALL[..1])
}

/// Writes each load and checks the guarantee of the reliability: all samples in order, or no corruption, duplicate or
/// change of order.
pub fn exchange(pair: &Pair<'_>, data_type: DataType, qos: &Qos, loads: &[Load]) -> Result<()> {
    let (mut writer, mut reader) = pair.start()?;
    writer.writer("w", TOPIC, data_type, qos)?;
    reader.reader("r", TOPIC, data_type, qos)?;
    connect_with(&mut writer, &mut reader, qos.reliability)?;
    let mut first_seq = 1;
    for load in loads {
        let Load { size_bytes, count, period_us, limit } = *load;
        writer.write("w", &Write { key: 7, first_seq, size_bytes, count, period_us })?;
        let received = match qos.reliability {
            Reliability::Reliable => reader.take("r", count, limit)?,
            Reliability::BestEffort => take_best_effort(&mut reader, count)?,
        };
        check_octets(&received, size_bytes)?;
        let seqs: Vec<u32> = received.iter().map(|sample| sample.seq).collect();
        let all: Vec<u32> = (first_seq..first_seq + count).collect();
        if qos.reliability == Reliability::Reliable {
            demand!(seqs == all, "{count} samples of {size_bytes} B: of {first_seq}.. the reader got {seqs:?}");
            writer.wait_acknowledged("w", limit)?;
        } else {
            demand!(!seqs.is_empty(), "none of {count} samples of {size_bytes} B arrived");
            demand!(seqs.is_sorted_by(|a, b| a < b), "duplicates or another order: {seqs:?}");
            demand!(seqs.iter().all(|seq| all.contains(seq)), "of {first_seq}.. the reader got {seqs:?}");
        }
        first_seq += count;
    }
    Ok(())
}

/// The reader gets the states of disposed and unregistered instances, other instances are unaffected, and a disposed
/// instance can be written again.
pub fn end_of_instances(pair: &Pair<'_>) -> Result<()> {
    end_of_instances_of(pair, DataType::KeyedSample, &Qos::default())
}

/// [`end_of_instances`] with an appendable type in XCDR2, whose serialized key differs; for pairs that both support it.
pub fn end_of_instances_xcdr2(pair: &Pair<'_>) -> Result<()> {
    end_of_instances_of(pair, DataType::AppendableSample, &xcdr2())
}

fn end_of_instances_of(pair: &Pair<'_>, data_type: DataType, qos: &Qos) -> Result<()> {
    let (mut writer, mut reader) = pair.start()?;
    writer.writer("w", TOPIC, data_type, qos)?;
    reader.reader("r", TOPIC, data_type, qos)?;
    connect(&mut writer, &mut reader)?;
    for key in 1..=3 {
        writer.write("w", &one(key, key))?;
    }
    let born = reader.take("r", 3, LIMIT)?;
    demand!(born.iter().all(|sample| sample.instance == InstanceState::Alive && sample.valid), "at first: {born:?}");
    writer.dispose("w", 1)?;
    writer.unregister("w", 2)?;
    let ends = [(1, InstanceState::Disposed), (2, InstanceState::NoWriters)];
    let seen = take_until(&mut reader, |states| ends.iter().all(|(key, state)| states.get(key) == Some(state)))?;
    demand!(seen == BTreeMap::from(ends), "disposed 1 and unregistered 2, but the reader saw {seen:?}");
    writer.write("w", &one(1, 9))?;
    let reborn = reader.take("r", 1, LIMIT)?;
    demand!(
        matches!(reborn[..], [Received { key: 1, seq: 9, valid: true, instance: InstanceState::Alive, .. }]),
        "written again after its disposal: {reborn:?}"
    );
    Ok(())
}

/// The writer `w` disposes instance 1 and unregisters instance 2, of which the reader `r` has taken all samples: the
/// reader sees both ends, and then a sample of instance 3, which the writer writes last.
///
/// # Errors
/// [`Error::Violated`] with the states that the reader saw before that sample, or without the sample.
pub fn ends_and_sample(writer: &mut Peer, reader: &mut Peer, last: &Write) -> Result<()> {
    let last = Write { key: 3, ..*last };
    writer.dispose("w", 1)?;
    writer.unregister("w", 2)?;
    writer.write("w", &last)?;
    let is_last = |sample: &Received| sample.key == last.key && sample.seq == last.first_seq;
    let mut taken = Vec::new();
    while !taken.iter().any(is_last) {
        let next = reader.take("r", 1, LIMIT)?;
        demand!(!next.is_empty(), "the sample behind the ends of 1 and 2 did not arrive, only {taken:?}");
        taken.extend(next);
    }
    // A take returns instance after instance: the ends may stand behind the last sample.
    taken.extend(reader.take("r", 3, Duration::ZERO)?);
    let states: BTreeMap<u32, InstanceState> =
        taken.iter().filter(|sample| !is_last(sample)).map(|sample| (sample.key, sample.instance)).collect();
    let ends = BTreeMap::from([(1, InstanceState::Disposed), (2, InstanceState::NoWriters)]);
    demand!(states == ends, "disposed 1 and unregistered 2, but the reader saw {states:?}");
    Ok(())
}

/// A late joiner of a transient-local writer gets the last samples of each instance, in order, and then later samples.
pub fn late_joiner(pair: &Pair<'_>) -> Result<()> {
    let (mut writer, mut reader) = pair.start()?;
    let offered = Qos { durability: Durability::TransientLocal, history: History::KeepLast(3), ..Qos::default() };
    let requested = Qos { durability: Durability::TransientLocal, ..Qos::default() };
    writer.writer("w", TOPIC, DataType::KeyedSample, &offered)?;
    writer.write("w", &Write { count: 5, ..one(1, 1) })?;
    writer.write("w", &Write { count: 2, ..one(2, 11) })?;
    reader.reader("r", TOPIC, DataType::KeyedSample, &requested)?;
    let history = reader.take("r", 5, LIMIT)?;
    let seqs_of = |key| history.iter().filter(|s| s.key == key).map(|s| s.seq).collect::<Vec<_>>();
    demand!(seqs_of(1) == [3, 4, 5] && seqs_of(2) == [11, 12], "the last 3 of each instance: {history:?}");
    writer.write("w", &one(1, 6))?;
    let live = reader.take("r", 1, LIMIT)?;
    demand!(matches!(live[..], [Received { seq: 6, .. }]), "written after the reader came: {live:?}");
    Ok(())
}

/// A late joiner of a volatile writer gets no earlier samples.
pub fn late_joiner_of_volatile(pair: &Pair<'_>) -> Result<()> {
    let (mut writer, mut reader) = pair.start()?;
    writer.writer("w", TOPIC, DataType::Sample, &Qos::default())?;
    writer.write("w", &Write { count: 5, ..one(0, 1) })?;
    reader.reader("r", TOPIC, DataType::Sample, &Qos::default())?;
    connect(&mut writer, &mut reader)?;
    writer.write("w", &one(0, 6))?;
    let received = reader.take("r", 1, LIMIT)?;
    demand!(matches!(received[..], [Received { seq: 6, .. }]), "only what came after: {received:?}");
    Ok(())
}

/// A new writer, whose reader exists already, writes as soon as it has matched, perhaps before the reader knows of the
/// writer. Each sample arrives.
pub fn first_samples_of_new_writer(pair: &Pair<'_>) -> Result<()> {
    const WRITERS: u32 = 20;
    const SAMPLES: u32 = 10;
    let (mut writer, mut reader) = pair.start()?;
    let reliable = Qos { history: History::KeepAll, ..Qos::default() };
    for index in 0..WRITERS {
        let (topic, r) = (format!("Topic{index}"), format!("r{index}"));
        let (first, w) = (format!("first{index}"), format!("w{index}"));
        reader.reader(&r, &topic, DataType::Sample, &reliable)?;
        // The writer's participant knows the reader when a first writer has matched it.
        writer.writer(&first, &topic, DataType::Sample, &reliable)?;
        writer.wait_matched(&first, 1, LIMIT)?;
        writer.writer(&w, &topic, DataType::Sample, &reliable)?;
        writer.wait_matched(&w, 1, LIMIT)?;
        writer.write(&w, &Write { count: SAMPLES, ..one(0, 1) })?;
        let received = reader.take(&r, SAMPLES, LIMIT)?;
        let seqs: Vec<u32> = received.iter().map(|sample| sample.seq).collect();
        demand!(seqs.iter().copied().eq(1..=SAMPLES), "writer {index}: of {SAMPLES} samples, {seqs:?} arrived");
    }
    Ok(())
}

/// The process of a reader is stopped, so that a volatile writer keeps what that reader has not acknowledged. A reader
/// that joins gets what is written from then on, and nothing older.
pub fn late_joiner_beside_stopped_reader(pair: &Pair<'_>) -> Result<()> {
    let (mut writer, mut reader) = pair.start()?;
    let reliable = Qos { history: History::KeepAll, ..Qos::default() };
    writer.writer("w", TOPIC, DataType::Sample, &reliable)?;
    reader.reader("r", TOPIC, DataType::Sample, &reliable)?;
    connect(&mut writer, &mut reader)?;
    let signal = |signal| {
        let cause =
            |error: rustix::io::Errno| Error::Start { command: format!("kill {signal:?}"), cause: error.into() };
        kill_process(reader.pid(), signal).map_err(cause)
    };
    signal(Signal::STOP)?;
    let mut join = || {
        writer.write("w", &Write { count: 5, ..one(0, 1) })?;
        let mut joiner = pair.reader.start()?;
        joiner.reader("r", TOPIC, DataType::Sample, &reliable)?;
        writer.wait_matched("w", 2, LIMIT)?;
        joiner.wait_matched("r", 1, LIMIT)?;
        writer.write("w", &Write { count: 3, ..one(0, 6) })?;
        let received = joiner.take("r", 3, LIMIT)?;
        let seqs: Vec<u32> = received.iter().map(|sample| sample.seq).collect();
        demand!(seqs == [6, 7, 8], "written after the reader came: 6 to 8, received: {seqs:?}");
        Ok(())
    };
    let joined = join();
    signal(Signal::CONT)?;
    joined
}

/// Each incompatible policy prevents the match, and both sides report the policy.
pub fn incompatible_qos(pair: &Pair<'_>) -> Result<()> {
    let (mut writer, mut reader) = pair.start()?;
    let plain = Qos::default;
    let cases = [
        (best_effort(), plain(), PolicyId::RELIABILITY),
        (plain(), Qos { durability: Durability::TransientLocal, ..plain() }, PolicyId::DURABILITY),
        (Qos { deadline_ms: Some(2000), ..plain() }, Qos { deadline_ms: Some(1000), ..plain() }, PolicyId::DEADLINE),
        (plain(), Qos { ownership: Ownership::Exclusive(0), ..plain() }, PolicyId::OWNERSHIP),
        (plain(), Qos { liveliness: Liveliness::ManualByTopic, ..plain() }, PolicyId::LIVELINESS),
    ];
    for (index, (offered, requested, policy)) in cases.iter().enumerate() {
        let [topic, w, r] = [format!("Topic{index}"), format!("w{index}"), format!("r{index}")];
        writer.writer(&w, &topic, DataType::Sample, offered)?;
        reader.reader(&r, &topic, DataType::Sample, requested)?;
        for (peer, endpoint) in [(&mut writer, &w), (&mut reader, &r)] {
            let status = peer.wait(endpoint, "incompatible_qos >= 1", LIMIT)?;
            demand!(
                status.incompatible_policy() == *policy,
                "{endpoint} blames another policy than {policy:?}: {status:?}"
            );
            demand!(status.matched_total == 0, "{endpoint} matched in spite of {policy:?}: {status:?}");
        }
    }
    Ok(())
}

/// Partitions match by name and by pattern; endpoints of other partitions do not match.
pub fn partitions(pair: &Pair<'_>) -> Result<()> {
    let (mut writer, mut reader) = pair.start()?;
    let within = |name: &str| Qos { partitions: vec![name.to_owned()], ..Qos::default() };
    writer.writer("apart", "Apart", DataType::Sample, &within("alpha"))?;
    reader.reader("apart", "Apart", DataType::Sample, &within("beta"))?;
    // Announced after the other endpoints: once this one matches, the others have been processed.
    writer.writer("w", TOPIC, DataType::Sample, &within("alpha"))?;
    reader.reader("r", TOPIC, DataType::Sample, &within("al*"))?;
    connect(&mut writer, &mut reader)?;
    for peer in [&mut writer, &mut reader] {
        let status = peer.status("apart")?;
        demand!(status.matched_total == 0, "matched across partitions: {status:?}");
    }
    writer.write("w", &one(0, 1))?;
    let received = reader.take("r", 1, LIMIT)?;
    demand!(received.len() == 1, "partition matched by pattern, but got {received:?}");
    Ok(())
}

/// The other side unmatches a deleted reader, and then a deleted writer, at once.
pub fn deleted_endpoints(pair: &Pair<'_>) -> Result<()> {
    let (mut writer, mut reader) = pair.start()?;
    writer.writer("w", TOPIC, DataType::Sample, &Qos::default())?;
    reader.reader("r", TOPIC, DataType::Sample, &Qos::default())?;
    connect(&mut writer, &mut reader)?;
    reader.delete("r")?;
    writer.wait_matched("w", 0, before_lease())?;
    reader.reader("r", TOPIC, DataType::Sample, &Qos::default())?;
    connect(&mut writer, &mut reader)?;
    writer.delete("w")?;
    reader.wait_matched("r", 0, before_lease())
}

/// The other side removes a participant at once that announces its end, in both roles.
pub fn clean_leave(pair: &Pair<'_>) -> Result<()> {
    let (mut writer, mut reader) = pair.start()?;
    writer.writer("w", TOPIC, DataType::Sample, &Qos::default())?;
    reader.reader("r", TOPIC, DataType::Sample, &Qos::default())?;
    connect(&mut writer, &mut reader)?;
    reader.leave();
    writer.wait_matched("w", 0, before_lease())?;
    let mut second = pair.reader.start()?;
    second.reader("r", TOPIC, DataType::Sample, &Qos::default())?;
    connect(&mut writer, &mut second)?;
    writer.leave();
    second.wait_matched("r", 0, before_lease())
}

/// The writer unmatches a killed reader when its lease ends, and continues with other readers.
pub fn killed_reader(pair: &Pair<'_>) -> Result<()> {
    let pair = pair.with_lease(LEASE_MS);
    let (mut writer, mut reader) = pair.start()?;
    writer.writer("w", TOPIC, DataType::KeyedSample, &Qos::default())?;
    reader.reader("r", TOPIC, DataType::KeyedSample, &Qos::default())?;
    connect(&mut writer, &mut reader)?;
    reader.kill()?;
    writer.wait_matched("w", 0, LIMIT)?;
    let mut second = pair.reader.start()?;
    second.reader("r", TOPIC, DataType::KeyedSample, &Qos::default())?;
    connect(&mut writer, &mut second)?;
    writer.write("w", &one(1, 1))?;
    let received = second.take("r", 1, LIMIT)?;
    demand!(received.len() == 1, "written after a reader was killed: {received:?}");
    Ok(())
}

/// The reader unmatches a killed writer when its lease ends.
pub fn killed_writer(pair: &Pair<'_>) -> Result<()> {
    reader_of_killed_writer(pair).map(drop)
}

/// When the lease of a killed writer ends, its instances have no writer any more.
pub fn instances_of_killed_writer(pair: &Pair<'_>) -> Result<()> {
    let mut reader = reader_of_killed_writer(pair)?;
    let states = take_until(&mut reader, |states| states.get(&1) == Some(&InstanceState::NoWriters))?;
    demand!(states.get(&1) == Some(&InstanceState::NoWriters), "after its writer was killed: {states:?}");
    Ok(())
}

/// A reader that has taken one sample of instance 1 and then unmatched its only, killed writer.
fn reader_of_killed_writer(pair: &Pair<'_>) -> Result<Peer> {
    let pair = pair.with_lease(LEASE_MS);
    let (mut writer, mut reader) = pair.start()?;
    writer.writer("w", TOPIC, DataType::KeyedSample, &Qos::default())?;
    reader.reader("r", TOPIC, DataType::KeyedSample, &Qos::default())?;
    connect(&mut writer, &mut reader)?;
    writer.write("w", &one(1, 1))?;
    let received = reader.take("r", 1, LIMIT)?;
    demand!(received.len() == 1, "before the writer was killed: {received:?}");
    writer.kill()?;
    reader.wait_matched("r", 0, LIMIT)?;
    Ok(reader)
}

fn xcdr2() -> Qos {
    Qos { representation: Some(Representation::Xcdr2), ..Qos::default() }
}

fn best_effort() -> Qos {
    Qos { reliability: Reliability::BestEffort, ..Qos::default() }
}

fn one(key: u32, seq: u32) -> Write {
    Write { key, first_seq: seq, size_bytes: 32, count: 1, period_us: 0 }
}

/// Well below the default lease of 10 s, so that the end of the lease is not the cause.
fn before_lease() -> Duration {
    Duration::from_secs(6)
}

/// [`connect_with`] both reliable.
fn connect(writer: &mut Peer, reader: &mut Peer) -> Result<()> {
    connect_with(writer, reader, Reliability::Reliable)
}

/// Waits until `w` and `r` have each matched exactly one endpoint, and until samples of `w` arrive.
///
/// A match is not enough: Cyclone DDS counts a reliable writer as matched before its first HEARTBEAT, and treats it as
/// best effort until then. An acknowledgement shows that a HEARTBEAT was received.
fn connect_with(writer: &mut Peer, reader: &mut Peer, reliability: Reliability) -> Result<()> {
    writer.wait_matched("w", 1, LIMIT)?;
    reader.wait_matched("r", 1, LIMIT)?;
    for seq in FIRST_PROBE_SEQ..FIRST_PROBE_SEQ + PROBES {
        writer.write("w", &one(0, seq))?;
        let mut received = reader.take("r", 1, Duration::from_millis(500))?;
        // A reliable reader gets every sample from the first received one on.
        while let Some(sample) = received.pop() {
            demand!(sample.seq >= FIRST_PROBE_SEQ, "written before the reader came: {sample:?}");
            if sample.seq == seq {
                return match reliability {
                    Reliability::Reliable => writer.wait_acknowledged("w", LIMIT),
                    Reliability::BestEffort => Ok(()),
                };
            }
            received = reader.take("r", 1, Duration::from_millis(500))?;
        }
    }
    Err(Error::Violated(format!("matched, but {PROBES} samples in a row did not arrive")))
}

/// Takes until no more samples arrive. The call waits only after a loss.
fn take_best_effort(reader: &mut Peer, count: u32) -> Result<Vec<Received>> {
    let mut received = Vec::new();
    while received.len() < count as usize {
        let more = reader.take("r", 1, Duration::from_secs(1))?;
        if more.is_empty() {
            break;
        }
        received.extend(more);
    }
    Ok(received)
}

fn check_octets(received: &[Received], size_bytes: u32) -> Result<()> {
    let is_right = |sample: &Received| sample.valid && sample.intact && sample.size_bytes == size_bytes as usize;
    let wrong: Vec<&Received> = received.iter().filter(|sample| !is_right(sample)).collect();
    demand!(wrong.is_empty(), "not what was written, {size_bytes} B: {wrong:?}");
    Ok(())
}

/// Takes until the last seen states of the instances are as wanted, or time is over; returns them.
fn take_until(
    reader: &mut Peer,
    is_wanted: impl Fn(&BTreeMap<u32, InstanceState>) -> bool,
) -> Result<BTreeMap<u32, InstanceState>> {
    let deadline = Instant::now() + LIMIT;
    let mut states = BTreeMap::new();
    while !is_wanted(&states) {
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(sample) = reader.take("r", 1, left)?.pop() else { break };
        states.insert(sample.key, sample.instance);
    }
    Ok(states)
}

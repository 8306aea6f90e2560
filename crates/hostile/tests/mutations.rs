//! A participant under attack continues to work, in bounded memory.
//!
//! Without security, a sender that forges the GUID of a matched writer can make the reader skip samples of that writer.
//! The test therefore distinguishes two kinds of attackers. Strangers and hostile members of the domain must not
//! disturb other participants. Impostors may disturb only the participants that they imitate.
#![cfg(target_os = "linux")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use peregrine::qos::{Limit, ResourceLimits};
use peregrine::{
    DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, Guid, GuidPrefix, InterfaceSelection, PeerDrops,
};
use peregrine_hostile::forge::Forge;
use peregrine_hostile::mutate::{captured, mutate};
use peregrine_rtps::id::{DomainId, EntityId};
use peregrine_rtps::vendor::VendorId;

const DOMAIN: u32 = 65;
const PATIENCE: Duration = Duration::from_secs(30);

/// Packets sent by strangers and hostile members, and by impostors.
const STRANGE_PACKETS: u64 = 800_000;
const IMPOSTOR_PACKETS: u64 = 200_000;

/// Maximum growth of the process during the attack, in bytes. An attacker can fill: 512 unverified participants with
/// their announcements, 16 MiB of discovery data of each hostile member, samples within the limits of the reader
/// (10,000 of up to 1,500 bytes, twice), out-of-order samples behind a missing one (4,096 per writer), 64 samples under
/// reassembly per writer, and the pools of receive buffers (16 MiB per socket). Measured: 9 MiB.
const GROWTH_MAX_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Counter {
    #[dds(key)]
    id: u32,
    value: u64,
    octets: Vec<u8>,
}

/// Participants with different settings share no sockets.
fn participant(receive_buffers: usize) -> DomainParticipant {
    let mut config = DomainConfig::default();
    config.same_process = false;
    config.shared_memory = false;
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    config.receive_buffers = receive_buffers;
    DomainParticipant::builder(DOMAIN).config(config).build().unwrap()
}

/// A reader and a writer that exchange samples with their counterparts: one side sends, the other returns the sample.
struct Side {
    reader: DataReader<Counter>,
    writer: DataWriter<Counter>,
}

impl Side {
    fn new(participant: &DomainParticipant, heard: &str, said: &str) -> Self {
        let limits = ResourceLimits {
            max_samples: Limit::At(10_000),
            max_instances: Limit::At(1_000),
            max_samples_per_instance: Limit::At(10_000),
        };
        let heard = participant.topic::<Counter>(heard).unwrap();
        let said = participant.topic::<Counter>(said).unwrap();
        Self {
            reader: heard.reader_builder().reliable().keep_all().resource_limits(limits).build().unwrap(),
            writer: said.writer_builder().reliable().keep_last(4).build().unwrap(),
        }
    }

    /// The next value of this writer; skips samples of other writers.
    fn hear(&self, from: Guid, patience: Duration) -> Option<Counter> {
        let end = Instant::now() + patience;
        while Instant::now() < end {
            let Ok(sample) = self.reader.wait_and_take(Duration::from_millis(100)) else { continue };
            if sample.info().writer == from
                && let Some(counter) = sample.into_value()
            {
                return Some(counter);
            }
        }
        None
    }

    /// Sends a value and waits until it is returned.
    fn exchange(&self, from: Guid, value: u64) {
        let sent = Counter { id: (value % 4) as u32, value, octets: vec![value as u8; (value * 37 % 4000) as usize] };
        self.writer.write(&sent).unwrap();
        let back = self.hear(from, PATIENCE);
        assert_eq!(back.as_ref(), Some(&sent), "the exchange has come to an end");
    }
}

/// Returns the samples of `from` until `stop` is set.
fn echo(side: &Side, from: Guid, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if let Some(counter) = side.hear(from, Duration::from_millis(200)) {
            side.writer.write(&counter).unwrap();
        }
    }
}

/// Ends the echo, also after a failed check.
struct StopsOnDrop<'a>(&'a AtomicBool);

impl Drop for StopsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// The addresses at which a participant listens.
fn targets(victim: &DomainParticipant) -> Vec<SocketAddr> {
    let listening = victim.transport_statistics();
    // The ports of discovery, its multicast group, and user data. The group's port receives unicast as well.
    listening.iter().map(|(address, _)| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port())).collect()
}

fn received(victim: &DomainParticipant) -> u64 {
    victim.transport_statistics().iter().map(|(_, s)| s.datagrams_received + s.kernel_drops).sum()
}

/// Sends mutated messages to the victim, at a rate at which the kernel does not drop most of them.
fn attack(victim: &DomainParticipant, seed: u64, packets: u64, forges: &[Forge], peak: &AtomicU64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let targets = targets(victim);
    let known: Vec<Vec<u8>> = forges.iter().flat_map(Forge::messages).chain(captured()).collect();
    for packet in 0..packets {
        let bytes = if rng.u8(0..20) == 0 {
            let mut newcomer = forges[rng.usize(0..forges.len())].clone();
            newcomer.prefix = GuidPrefix::new(VendorId::CYCLONE, std::array::from_fn(|_| rng.u8(..)));
            newcomer.domain = if rng.u8(0..10) == 0 { DomainId(0) } else { newcomer.domain };
            let to = (rng.u8(0..10) == 0).then_some(newcomer.victim);
            newcomer.announcement(to)
        } else {
            mutate(&mut rng, &known)
        };
        // A datagram that the kernel refuses counts as lost.
        drop(socket.send_to(&bytes, targets[rng.usize(0..targets.len())]));
        if packet % 64 == 63 {
            let before = received(victim);
            let end = Instant::now() + Duration::from_millis(1);
            while received(victim) < before + 48 && Instant::now() < end {
                std::thread::yield_now();
            }
        }
        if packet % 4096 == 0 {
            peak.fetch_max(resident_bytes(), Ordering::Relaxed);
        }
    }
    peak.fetch_max(resident_bytes(), Ordering::Relaxed);
}

fn forge(victim: &DomainParticipant, side: &Side, prefix: GuidPrefix, ids: (EntityId, EntityId)) -> (Forge, UdpSocket) {
    // The test never reads from this socket.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut sample = vec![0, 1, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    sample.extend_from_slice(&7_u64.to_le_bytes());
    sample.extend_from_slice(&[4, 0, 0, 0, 1, 2, 3, 4]);
    let forge = Forge {
        prefix,
        victim: victim.guid().prefix,
        domain: DomainId(DOMAIN),
        domain_tag: String::new(),
        address: socket.local_addr().unwrap(),
        topics: [side.reader.topic().name().to_owned(), side.writer.topic().name().to_owned()],
        type_name: Counter::TYPE_NAME.to_owned(),
        writer: ids.0,
        reader: ids.1,
        victim_reader: side.reader.guid().entity,
        victim_writer: side.writer.guid().entity,
        sample,
    };
    (forge, socket)
}

#[test]
fn million_hostile_packets_leave_other_traffic_intact() {
    let (victim, partner) = (participant(96), participant(95));
    let at_victim = Side::new(&victim, "question", "answer");
    let at_partner = Side::new(&partner, "answer", "question");
    at_partner.writer.wait_for_readers(1, PATIENCE).unwrap();
    at_victim.writer.wait_for_readers(1, PATIENCE).unwrap();

    let stop = AtomicBool::new(false);
    let peak = Arc::new(AtomicU64::new(0));
    let exchanges = std::thread::scope(|scope| {
        scope.spawn(|| echo(&at_victim, at_partner.writer.guid(), &stop));
        let _stops = StopsOnDrop(&stop);
        (0..100).for_each(|n| at_partner.exchange(at_victim.writer.guid(), n));
        let (before, resident) = (received(&victim), resident_bytes());

        let attackers: Vec<_> = (0..2_u8)
            .map(|attacker| {
                let forges: Vec<(Forge, UdpSocket)> = (0..2)
                    .map(|member| {
                        let prefix = GuidPrefix::new(VendorId::PEREGRINE, [attacker * 2 + member + 1; 10]);
                        let ids = (EntityId::user_writer(9, true), EntityId::user_reader(10, true));
                        forge(&victim, &at_victim, prefix, ids)
                    })
                    .collect();
                let (victim, peak) = (victim.clone(), Arc::clone(&peak));
                scope.spawn(move || {
                    let (forges, _sockets): (Vec<Forge>, Vec<UdpSocket>) = forges.into_iter().unzip();
                    attack(&victim, u64::from(attacker), STRANGE_PACKETS / 2, &forges, &peak);
                })
            })
            .collect();
        let mut value = 100;
        while attackers.iter().any(|a| !a.is_finished()) {
            at_partner.exchange(at_victim.writer.guid(), value);
            value += 1;
        }
        (0..100).for_each(|n| at_partner.exchange(at_victim.writer.guid(), value + n));
        attackers.into_iter().for_each(|a| a.join().unwrap());

        let arrived = received(&victim) - before;
        // A busy machine drops many datagrams before they are received.
        assert!(arrived > STRANGE_PACKETS / 4, "only {arrived} packets reached the victim");
        let growth = peak.load(Ordering::Relaxed).saturating_sub(resident);
        println!("{arrived} packets, {value} exchanges, {} KiB more, {:?}", growth >> 10, victim.counters());
        assert!(growth < GROWTH_MAX_BYTES, "the process grew by {growth} bytes");
        value
    });
    assert!(exchanges > 200, "only {exchanges} exchanges during the attack");
    let counters = victim.counters();
    for (reason, count) in [
        ("not RTPS", counters.not_rtps),
        ("malformed", counters.drops.malformed),
        ("header extension", counters.drops.header_extension),
        ("inline QoS", counters.drops.inline_qos),
        ("protected", counters.drops.protected),
        ("discovery data", counters.drops.discovery_malformed),
        ("foreign domain", counters.drops.foreign_domain),
        ("forged", counters.drops.forged),
    ] {
        assert!(count > 0, "nothing was dropped for this reason: {reason}; {counters:?}");
    }
    // All forged identities share one entry.
    let (drops, known) = (victim.drops(), victim.discovered_participants().len());
    assert!(drops.len() <= known + 1, "{} entries, {known} participants", drops.len());
    let malformed = |peers: &[PeerDrops]| peers.iter().map(|peer| peer.drops.malformed).sum::<u64>();
    assert!(
        malformed(&drops) >= counters.drops.malformed && drops[0].participant.is_none() && malformed(&drops[..1]) > 0
    );

    impostors(&victim, &partner, &at_victim, &at_partner);
}

#[test]
fn repeated_disposals_keep_reader_within_limits() {
    let (victim, attacker) = (participant(93), participant(92));
    let limits = ResourceLimits { max_samples: Limit::At(3), ..ResourceLimits::default() };
    let heard = victim.topic::<Counter>("disposed").unwrap();
    let reader = heard.reader_builder().reliable().keep_all().resource_limits(limits).build().unwrap();
    let said = attacker.topic::<Counter>("disposed").unwrap();
    let writer = said.writer_builder().reliable().keep_last(1).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let counter = |id| Counter { id, value: 0, octets: Vec::new() };
    writer.write(&counter(0)).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    for _ in 0..1_000 {
        writer.dispose(&counter(0)).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(reader.read().unwrap().len(), 2, "a repeated disposal is not a new sample");
    for id in 1..100 {
        writer.dispose(&counter(id)).unwrap();
    }
    let end = Instant::now() + PATIENCE;
    while reader.counters().rejected == 0 {
        assert!(Instant::now() < end, "nothing was rejected: {:?}", reader.counters());
        std::thread::yield_now();
    }
    assert_eq!(reader.read().unwrap().len(), 3);
}

/// An impostor of the partner may end the partner's exchange with the victim, but no other exchange, and cannot grow
/// the victim process.
fn impostors(victim: &DomainParticipant, partner: &DomainParticipant, at_victim: &Side, at_partner: &Side) {
    let ids = (at_partner.writer.guid().entity, at_partner.reader.guid().entity);
    let (impostor, _socket) = forge(victim, at_victim, partner.guid().prefix, ids);
    let resident = resident_bytes();
    let peak = AtomicU64::new(0);
    let before = (received(victim), victim.counters());
    attack(victim, 99, IMPOSTOR_PACKETS, &[impostor], &peak);
    let (arrived, counters) = (received(victim) - before.0, victim.counters());
    assert!(arrived > IMPOSTOR_PACKETS / 4, "only {arrived} packets of impostors reached the victim");
    // Damaged messages of impostors are dropped with the same reasons as those of strangers.
    for (reason, count, earlier) in [
        ("not RTPS", counters.not_rtps, before.1.not_rtps),
        ("malformed", counters.drops.malformed, before.1.drops.malformed),
        ("discovery data", counters.drops.discovery_malformed, before.1.drops.discovery_malformed),
    ] {
        assert!(count > earlier, "nothing of impostors was dropped for this reason: {reason}; {counters:?}");
    }
    let growth = peak.load(Ordering::Relaxed).saturating_sub(resident);
    println!("impostors: {} KiB more, {:?}", growth >> 10, victim.counters());
    assert!(growth < GROWTH_MAX_BYTES, "the process grew by {growth} bytes");

    let newcomer = participant(94);
    let (at_victim, at_newcomer) = (Side::new(victim, "ask", "tell"), Side::new(&newcomer, "tell", "ask"));
    at_newcomer.writer.wait_for_readers(1, PATIENCE).unwrap();
    at_victim.writer.wait_for_readers(1, PATIENCE).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(&at_victim, at_newcomer.writer.guid(), &stop));
        let _stops = StopsOnDrop(&stop);
        (0..100).for_each(|n| at_newcomer.exchange(at_victim.writer.guid(), n));
    });
}

//! One attack on a fresh victim, from start to end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use crate::attacks::Attack;
use crate::clock::now_ns;
use crate::conditions::Conditions;
use crate::control::{Question, State};
use crate::field::{Field, Traffic};
use crate::flow::LATE_NS;
use crate::limits::{FREE_BYTES, GIVE_UP_AFTER, entitled_of_hearers, entitled_of_places};
use crate::newcomer::{Arrival, Newcomer, NewcomerPlan};
use crate::processes::{Process, resident_bytes};

/// How long the flow runs before the attack.
const WARM_UP: Duration = Duration::from_millis(200);
/// How long victim and peer may take to find each other.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// How long a measurement may last after the attack, with pauses of the machine.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Time between two samples of the victim's memory.
const SAMPLE_EVERY: Duration = Duration::from_millis(5);
/// A pause of the measuring thread beyond this counts as a pause of the machine.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// One direction of the flow.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Direction {
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) longest_gap_ns: u64,
    /// From the end of the attack to the last late sample, less pauses of the machine. `None` if the flow stayed late.
    pub(crate) whole_after_ns: Option<u64>,
    /// Whether the reader acknowledged everything at the end.
    pub(crate) is_acknowledged: bool,
    /// Calls of `write` that timed out.
    pub(crate) refused: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) sent_bytes: u64,
    /// Bytes at the attacker's sockets.
    pub(crate) back_bytes: u64,
    /// Bytes at the honest peer beyond its usual rate.
    pub(crate) to_peer_bytes: u64,
    pub(crate) entitled_bytes: u64,
    pub(crate) resident_before_bytes: u64,
    pub(crate) resident_peak_bytes: u64,
    pub(crate) resident_after_bytes: u64,
    /// Processor time of the victim during the attack and after it.
    pub(crate) cpu_ms: u64,
    /// Length of the attack and the time after it.
    pub(crate) watched_ms: u64,
    /// Forged counts, claims and acknowledgements that the victim has noticed in the flow and dropped.
    pub(crate) healed: u64,
    /// Samples at the readers of the flow that came again, or that the honest pair did not write.
    pub(crate) foreign: u64,
    /// Most endpoints of others than the honest peer that the victim had matched at the end of the attack or later.
    pub(crate) strange_matches: usize,
    /// Fewest endpoints of the honest peer, of two, that the victim had matched then.
    pub(crate) peer_matches: usize,
    /// Datagrams that the kernel dropped at the victim's sockets.
    pub(crate) kernel_drops: u64,
    /// With attacks that a newcomer meets: its times.
    pub(crate) newcomer: Option<Arrival>,
    /// From the peer to the victim.
    pub(crate) up: Direction,
    /// From the victim to the peer.
    pub(crate) down: Direction,
}

impl Measured {
    /// Bytes back for each byte sent, beyond what comes back in any case and, if wanted, what the victim owes.
    pub(crate) fn ratio(&self, deducts_entitled: bool) -> f64 {
        let deducted = if deducts_entitled { FREE_BYTES + self.entitled_bytes } else { 0 };
        let back = (self.back_bytes + self.to_peer_bytes).saturating_sub(deducted);
        back as f64 / self.sent_bytes.max(1) as f64
    }

    pub(crate) fn growth_bytes(&self) -> u64 {
        self.resident_peak_bytes.max(self.resident_after_bytes).saturating_sub(self.resident_before_bytes)
    }

    pub(crate) fn whole_after(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.up.whole_after_ns?.max(self.down.whole_after_ns?)))
    }

    pub(crate) fn lost(&self) -> u64 {
        self.up.lost + self.down.lost
    }

    pub(crate) fn longest_gap(&self) -> Duration {
        Duration::from_nanos(self.up.longest_gap_ns.max(self.down.longest_gap_ns))
    }

    pub(crate) fn is_acknowledged(&self) -> bool {
        self.up.is_acknowledged && self.down.is_acknowledged
    }

    /// A measurement without any damage.
    #[cfg(test)]
    pub(crate) fn quiet() -> Self {
        let way = Direction {
            received: 1000,
            lost: 0,
            longest_gap_ns: 3_000_000,
            whole_after_ns: Some(0),
            is_acknowledged: true,
            refused: 0,
        };
        Self {
            sent_bytes: 1 << 20,
            back_bytes: 1 << 20,
            to_peer_bytes: 0,
            entitled_bytes: 1000,
            resident_before_bytes: 8 << 20,
            resident_peak_bytes: 9 << 20,
            resident_after_bytes: 9 << 20,
            cpu_ms: 100,
            watched_ms: 2000,
            healed: 0,
            foreign: 0,
            strange_matches: 0,
            peer_matches: 2,
            kernel_drops: 0,
            newcomer: None,
            up: way,
            down: way,
        }
    }
}

/// Observations of the measuring thread beside the attack.
#[derive(Default)]
struct Watch {
    resident_peak_bytes: AtomicU64,
    /// Pauses of the machine since the end of the attack, in nanoseconds.
    paused_ns: AtomicU64,
    stops: AtomicBool,
}

impl Watch {
    /// Drains the attacker's sockets and samples the victim's memory until `stops` is set.
    fn run(&self, traffic: &Traffic, victim: u32) {
        while !self.stops.load(Ordering::Relaxed) {
            let before = Instant::now();
            thread::sleep(SAMPLE_EVERY);
            let pause = before.elapsed().saturating_sub(SAMPLE_EVERY);
            if pause > PAUSE_MIN {
                self.paused_ns.fetch_add(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
            traffic.drain();
            let resident = resident_bytes(victim).unwrap_or(0);
            self.resident_peak_bytes.fetch_max(resident, Ordering::Relaxed);
        }
    }
}

/// Starts a victim and a peer, attacks the victim, and waits until the flow between them is whole again.
pub(crate) fn measure(attack: &Attack, conditions: &Conditions) -> Result<Measured> {
    let run = now_ns();
    // Other runs on this host have other tags and do not take part.
    let tag = Conditions::tag(run);
    let mut victim = conditions.start("victim", &tag, run)?;
    let mut peer = conditions.start("peer", &tag, run)?;
    wait_for_flow(&mut victim, &mut peer)?;
    let newcomer_plan = attack.meets_newcomer.then(|| NewcomerPlan::new(conditions, &tag));
    let alone = newcomer_plan.as_ref().map(NewcomerPlan::time_alone).transpose()?;
    let usual = usual_rate(&mut peer)?;

    let (traffic, watch) = (Traffic::default(), Watch::default());
    thread::scope(|scope| {
        let (watch, traffic, id) = (&watch, &traffic, victim.id());
        scope.spawn(move || watch.run(traffic, id));
        let _stops = StopsOnDrop(&watch.stops);
        Site { victim, peer, usual, traffic, watch, run, newcomer_plan, alone }.attack(attack, conditions)
    })
}

/// Ends the thread that watches, also when the attack panics.
struct StopsOnDrop<'a>(&'a AtomicBool);

impl Drop for StopsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The two processes, and what is measured beside them.
struct Site<'a> {
    victim: Process,
    peer: Process,
    /// Bytes per second that the peer receives without an attack.
    usual: f64,
    traffic: &'a Traffic,
    watch: &'a Watch,
    run: u64,
    newcomer_plan: Option<NewcomerPlan>,
    /// The time of a newcomer before the attack.
    alone: Option<Duration>,
}

impl Site<'_> {
    fn attack(&mut self, attack: &Attack, conditions: &Conditions) -> Result<Measured> {
        let Self { victim, peer, usual, traffic, watch, run, newcomer_plan, alone } = self;
        let (resident_before_bytes, cpu_before) = (resident_bytes(victim.id())?, victim.cpu_ms()?);
        let (victim_before, peer_before) = (victim.ask(Question::Mark)?, peer.ask(Question::Mark)?);
        let start = Instant::now();
        let mut field = Field::new(victim, peer.identity.clone(), traffic, *run, conditions);
        field.newcomer_plan = newcomer_plan.take();
        (attack.run)(&mut field)?;
        let newcomer = field.newcomer.take();
        let (entitled_bytes, hearers, places) = (field.entitled_bytes, field.hearers, field.places);
        let end_ns = now_ns();
        let at_end = victim.ask(Question::State)?;
        watch.paused_ns.store(0, Ordering::Relaxed);
        let beside = newcomer.map(Newcomer::times).transpose()?;
        let newcomer = alone.zip(beside).map(|(alone, (beside, after))| Arrival { alone, beside, after });
        let (up_whole, down_whole) = wait_until_whole(victim, peer, end_ns, watch, conditions.after)?;
        let watched = start.elapsed();
        let (at_victim, at_peer) = (victim.ask(Question::State)?, peer.ask(Question::State)?);
        let cpu_ms = victim.cpu_ms()? - cpu_before;
        let resident_after_bytes = resident_bytes(victim.id())?;
        let (victim_end, peer_end) = (victim.ask(Question::Finish)?, peer.ask(Question::Finish)?);
        let usual_bytes = (*usual * watched.as_secs_f64()) as u64;
        let direction = |reader: &State, writer: &State, reader_end: &State, writer_end: &State, whole| Direction {
            received: reader_end.flow.received,
            lost: reader_end.flow.lost,
            longest_gap_ns: reader.flow.longest_gap_ns,
            whole_after_ns: whole,
            is_acknowledged: writer_end.is_acknowledged,
            refused: writer.flow.refused,
        };
        Ok(Measured {
            sent_bytes: traffic.sent_bytes(),
            back_bytes: traffic.back_bytes(),
            to_peer_bytes: (at_peer.bytes_received - peer_before.bytes_received).saturating_sub(usual_bytes),
            entitled_bytes: entitled_bytes
                + entitled_of_hearers(hearers, watched)
                + entitled_of_places(places, watched),
            resident_before_bytes,
            resident_peak_bytes: watch.resident_peak_bytes.load(Ordering::Relaxed),
            resident_after_bytes,
            cpu_ms,
            watched_ms: u64::try_from(watched.as_millis())?,
            healed: at_victim.healed - victim_before.healed,
            foreign: at_victim.flow.foreign + at_peer.flow.foreign,
            strange_matches: at_end.strange_matches(&peer.identity).max(at_victim.strange_matches(&peer.identity)),
            peer_matches: at_end.peer_matches(&peer.identity).min(at_victim.peer_matches(&peer.identity)),
            kernel_drops: at_victim.kernel_drops - victim_before.kernel_drops,
            newcomer,
            up: direction(&at_victim, &at_peer, &victim_end, &peer_end, up_whole),
            down: direction(&at_peer, &at_victim, &peer_end, &victim_end, down_whole),
        })
    }
}

fn wait_for_flow(victim: &mut Process, peer: &mut Process) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < START_PATIENCE {
        let (at_victim, at_peer) = (victim.ask(Question::State)?.flow, peer.ask(Question::State)?.flow);
        if at_victim.received > 10 && at_peer.received > 10 {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(5));
    }
    bail!("victim and honest peer have not found each other within {START_PATIENCE:?}")
}

/// Bytes per second that the peer receives without an attack.
fn usual_rate(peer: &mut Process) -> Result<f64> {
    let (before, start) = (peer.ask(Question::State)?.bytes_received, Instant::now());
    thread::sleep(WARM_UP);
    let after = peer.ask(Question::State)?.bytes_received;
    Ok((after - before) as f64 / start.elapsed().as_secs_f64())
}

/// The time from the end of the attack to the last late sample, for the flow to the victim and for that to the peer.
/// `None` for a flow that stays late.
fn wait_until_whole(
    victim: &mut Process,
    peer: &mut Process,
    end_ns: u64,
    watch: &Watch,
    after: Duration,
) -> Result<(Option<u64>, Option<u64>)> {
    let start = Instant::now();
    loop {
        let states = [victim.ask(Question::State)?.flow, peer.ask(Question::State)?.flow];
        let paused = watch.paused_ns.load(Ordering::Relaxed);
        let whole = states.map(|flow| {
            let is_current = flow.now_ns.saturating_sub(flow.due_ns) <= LATE_NS;
            is_current.then(|| flow.late_at_ns.saturating_sub(end_ns).saturating_sub(paused))
        });
        let is_whole = whole.iter().all(Option::is_some);
        let has_given_up = start.elapsed().saturating_sub(Duration::from_nanos(paused)) >= after.max(GIVE_UP_AFTER);
        if (is_whole && start.elapsed() >= after) || has_given_up || start.elapsed() >= PAUSE_MAX {
            return Ok((whole[0], whole[1]));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

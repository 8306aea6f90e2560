//! Values with the shape of measured ones. They come from formulas, so that every test sees the same.

use crate::record::{
    Interval, Measurement, ProbeOutcome, ResourceUse, SendResult, Side, SideResult, Test, ThroughputResult, WireUse,
};
use crate::stats::{LatencyResult, Moments};

const SECOND_NS: u64 = 1_000_000_000;

/// Behaviour of a series at one size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behaviour {
    /// Median one-way latency.
    pub(super) p50_ns: f64,
    /// Factor by which slow samples take longer; about 1.
    pub(super) tail: f64,
    pub(super) samples_per_s: f64,
    pub(super) lost_percent: f64,
    /// Processor time for each sample on each side.
    pub(super) cpu_ns: f64,
    pub(super) rss_bytes: u64,
}

/// Deterministic variation between repetitions, around 1.
pub(super) fn wobble(seed: u64) -> f64 {
    // The golden ratio spreads neighbours evenly.
    let share = (seed as f64 * 0.618_033_988_75 + 0.31).fract();
    1.0 + (share - 0.5) * 0.06
}

/// A distribution with a steep foot and a long tail.
pub(super) fn latency(p50_ns: f64, tail: f64, count: u64) -> LatencyResult {
    let mut moments = Moments::default();
    let mut histogram: Vec<(u64, u64)> = Vec::new();
    let value = |share: f64| {
        let nines = -(1.0 - share).ln();
        (p50_ns * (0.9 + 0.12 * share + 0.0115 * tail * nines.powf(1.9))) as u64
    };
    for index in 0..count {
        let value = value((index as f64 + 0.5) / count as f64);
        moments.add(value);
        // Buckets of about a 256th, as in the recorder.
        let bucket =
            value - value % (1 << value.ilog2().saturating_sub(8)) + (1 << value.ilog2().saturating_sub(8)) - 1;
        match histogram.last_mut() {
            Some((last, values)) if *last == bucket => *values += 1,
            _ => histogram.push((bucket, 1)),
        }
    }
    LatencyResult::new(&moments, histogram)
}

fn resources(cpu_ns: f64, samples: f64, rss_bytes: u64) -> ResourceUse {
    let busy = (cpu_ns * samples) as u64;
    let total = Interval {
        wall_ns: SECOND_NS,
        user_ns: busy / 3,
        system_ns: busy - busy / 3,
        rss_bytes: Some(rss_bytes),
        rss_peak_bytes: Some(rss_bytes + rss_bytes / 10),
        voluntary_switches: 1_000,
        ..Interval::default()
    };
    ResourceUse { total, intervals: Vec::new() }
}

/// A ping-pong or a throughput run of one second.
pub(super) fn unpaced(series: &str, test: Test, data_len: u64, repetition: u32, how: Behaviour) -> Measurement {
    let wobble = wobble(data_len / 16 + u64::from(repetition) * 7 + series.len() as u64);
    let is_latency = test == Test::Latency;
    let rate = if is_latency { SECOND_NS as f64 / how.p50_ns / 2.0 } else { how.samples_per_s / wobble };
    let lost = if is_latency { 0.0 } else { rate * how.lost_percent / 100.0 };
    let cpu_ns = how.cpu_ns * wobble;
    let latency = is_latency.then(|| latency(how.p50_ns * wobble, how.tail, 3_000));
    Measurement {
        publisher: SideResult {
            latency,
            send: Some(SendResult { samples: (rate + lost) as u64, duration_ns: SECOND_NS, ..SendResult::default() }),
            ..side(Side::Publisher, data_len, resources(cpu_ns, rate, how.rss_bytes))
        },
        subscriber: SideResult {
            throughput: Some(received(rate, lost, data_len)),
            ..side(Side::Subscriber, data_len, resources(cpu_ns, rate, how.rss_bytes))
        },
        ..empty(series, test, data_len, repetition)
    }
}

/// Samples on a schedule, for one second.
pub(super) fn paced(
    series: &str,
    data_len: u64,
    repetition: u32,
    (rate_per_s, subscribers): (f64, u32),
    how: Behaviour,
) -> Measurement {
    let wobble = wobble(data_len / 16 + u64::from(repetition) * 5 + rate_per_s as u64 + series.len() as u64);
    let lost = rate_per_s * how.lost_percent / 100.0;
    let round_trip = |factor: f64| latency(how.p50_ns * 2.0 * wobble * factor, how.tail, rate_per_s as u64 * 3);
    let cpu_ns = how.cpu_ns * wobble;
    let subscriber = SideResult {
        throughput: Some(received(rate_per_s - lost, lost, data_len)),
        ..side(Side::Subscriber, data_len, resources(cpu_ns, rate_per_s, how.rss_bytes))
    };
    Measurement {
        publisher: SideResult {
            send: Some(SendResult { samples: rate_per_s as u64, duration_ns: SECOND_NS, ..SendResult::default() }),
            probes: Some(ProbeOutcome {
                offered_per_s: rate_per_s,
                achieved_per_s: rate_per_s,
                probe_every: 1,
                sent: rate_per_s as u64,
                answered: (rate_per_s - lost) as u64,
                stale: 0,
                from_intended: round_trip(1.04),
                from_actual: round_trip(1.0),
            }),
            ..side(Side::Publisher, data_len, resources(cpu_ns * f64::from(subscribers), rate_per_s, how.rss_bytes))
        },
        others: vec![subscriber.clone(); subscribers.saturating_sub(1) as usize],
        subscriber,
        ..empty(series, Test::OpenLoop, data_len, repetition)
    }
}

fn received(rate: f64, lost: f64, data_len: u64) -> ThroughputResult {
    let samples = rate as u64;
    ThroughputResult {
        samples,
        bytes: samples * data_len,
        duration_ns: SECOND_NS,
        lost: lost as u64,
        ..ThroughputResult::default()
    }
}

fn side(side: Side, data_len: u64, resources: ResourceUse) -> SideResult {
    SideResult {
        side,
        data_len,
        resources: Some(resources),
        wire: Some(WireUse { path: vec!["UDPv4 192.0.2.1".into()], ..WireUse::default() }),
        ..SideResult::default()
    }
}

fn empty(series: &str, test: Test, data_len: u64, repetition: u32) -> Measurement {
    Measurement {
        series: series.into(),
        test,
        data_len,
        repetition,
        block: None,
        case: None,
        publisher: SideResult::default(),
        subscriber: SideResult::default(),
        others: Vec::new(),
    }
}

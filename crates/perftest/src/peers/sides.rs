//! Converts the results of two processes of a peer for a record.

use peregrine_report::record::{Interval, ResourceUse, SendResult, Side, SideResult, ThroughputResult};
use peregrine_report::stats::{LatencyResult, Moments};

use super::protocol::{PeerResult, Setup, Used};
use crate::clock::{scheduled_span_ns, with_one_interval_more};
use crate::threads::online_cores;

/// Results of publisher and subscriber; `None` unless they are the two sides of one test.
pub(crate) fn side_results(
    setup: &Setup,
    initiator: &PeerResult,
    responder: &PeerResult,
) -> Option<(SideResult, SideResult)> {
    let side = |side, used: &Used, wall_ns| SideResult {
        side,
        data_len: setup.size as u64,
        cpu_percent: cpu_percent(used.cpu_ns, wall_ns),
        resources: Some(resources(used, wall_ns)),
        ..SideResult::default()
    };
    match (initiator, responder) {
        (
            PeerResult::Ping { sent, unanswered, used, round_trip_ns, .. },
            PeerResult::Pong { received, used: pong_used },
        ) => {
            let wall_ns = setup.warmup_ms.saturating_add(setup.duration_ms).saturating_mul(1_000_000);
            let publisher = SideResult {
                latency: Some(latencies(round_trip_ns, 2)),
                send: Some(SendResult { samples: *sent, unanswered_pings: *unanswered, ..SendResult::default() }),
                ..side(Side::Publisher, used, wall_ns)
            };
            let subscriber = SideResult {
                throughput: Some(throughput(setup, *sent, *received, 0, wall_ns)),
                ..side(Side::Subscriber, pong_used, wall_ns)
            };
            Some((publisher, subscriber))
        }
        (
            PeerResult::Pub { sent, duration_ns, used },
            PeerResult::Sub {
                received, out_of_order, duration_ns: received_in_ns, used: sub_used, scheduled_ns, ..
            },
        ) => {
            let scheduled = (!scheduled_ns.is_empty()).then(|| latencies(scheduled_ns, 1));
            let send = SendResult { samples: *sent, duration_ns: *duration_ns, ..SendResult::default() };
            let publisher = SideResult {
                send: Some(send),
                scheduled_latency: scheduled.clone(),
                ..side(Side::Publisher, used, *duration_ns)
            };
            let subscriber = SideResult {
                scheduled_latency: scheduled,
                throughput: Some(throughput(
                    setup,
                    *sent,
                    *received,
                    *out_of_order,
                    match setup.rate {
                        0 => with_one_interval_more(*received_in_ns, *received),
                        rate => scheduled_span_ns(*received_in_ns, *sent, rate as f64),
                    },
                )),
                ..side(Side::Subscriber, sub_used, *duration_ns)
            };
            Some((publisher, subscriber))
        }
        _ => None,
    }
}

/// Sent samples that did not arrive are lost, even if no later sample shows the gap.
fn throughput(setup: &Setup, sent: u64, received: u64, reordered: u64, duration_ns: u64) -> ThroughputResult {
    ThroughputResult {
        samples: received,
        bytes: received.saturating_mul(setup.size as u64),
        duration_ns,
        lost: sent.saturating_sub(received),
        duplicate: 0,
        reordered,
    }
}

/// Each bucket counts as its lower bound, at most 1/1024 too small, divided by the number of one-way paths of the
/// value.
fn latencies(buckets: &[(u64, u64)], ways: u64) -> LatencyResult {
    let mut moments = Moments::default();
    let mut histogram: Vec<(u64, u64)> = Vec::new();
    for &(value_ns, count) in buckets {
        let one_way_ns = value_ns / ways;
        add_many(&mut moments, one_way_ns, count);
        match histogram.last_mut() {
            Some((last, values)) if *last == one_way_ns => *values = values.saturating_add(count),
            _ => histogram.push((one_way_ns, count)),
        }
    }
    LatencyResult::new(&moments, histogram)
}

/// Adds a value `count` times, in as many steps as `count` has binary digits.
fn add_many(moments: &mut Moments, value: u64, mut count: u64) {
    let mut power = Moments::default();
    power.add(value);
    while count > 0 {
        if count % 2 == 1 {
            moments.merge(&power);
        }
        count /= 2;
        if count > 0 {
            let half = power;
            power.merge(&half);
        }
    }
}

/// Processor time, which peers do not divide into user and system, and peak memory.
fn resources(used: &Used, wall_ns: u64) -> ResourceUse {
    let total = Interval { wall_ns, user_ns: used.cpu_ns, rss_peak_bytes: used.peak_rss_bytes, ..Interval::default() };
    ResourceUse { total, ..ResourceUse::default() }
}

/// As a share of all cores.
fn cpu_percent(cpu_ns: u64, wall_ns: u64) -> f64 {
    if wall_ns == 0 { 0.0 } else { cpu_ns as f64 * 100.0 / wall_ns as f64 / online_cores() as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{Publish, Reliability, Role, Transport, Wait};
    use super::*;

    fn setup() -> Setup {
        Setup {
            role: Role::Ping,
            size: 100,
            reliability: Reliability::Reliable,
            wait: Wait::Listener,
            transport: Transport::Udp,
            publish: Publish::Sync,
            batch: false,
            rate: 0,
            duration_ms: 9,
            warmup_ms: 1,
            domain: 0,
            core: None,
            security: None,
        }
    }

    #[test]
    fn latencies_are_half_round_trips() {
        let round_trip_ns = vec![(2000, 3), (2001, 1), (6000, 2)];
        let ping = PeerResult::Ping { sent: 7, received: 6, unanswered: 1, used: Used::default(), round_trip_ns };
        let pong = PeerResult::Pong { received: 7, used: Used::default() };
        let (publisher, _) = side_results(&setup(), &ping, &pong).unwrap();
        let latency = publisher.latency.unwrap();
        assert_eq!(latency.histogram, [(1000, 4), (3000, 2)]);
        assert_eq!((latency.count, latency.min_ns, latency.max_ns, latency.p50_ns), (6, 1000, 3000, 1000));
        assert!((latency.mean_ns - 10_000.0 / 6.0).abs() < 1e-9);
        let send = publisher.send.unwrap();
        assert_eq!((send.samples, send.unanswered_pings), (7, 1));
    }

    #[test]
    fn samples_sent_and_not_received_are_lost() {
        let sent = PeerResult::Pub {
            sent: 200,
            duration_ns: 1_000_000_000,
            used: Used { cpu_ns: 500_000_000, peak_rss_bytes: Some(4096) },
        };
        let sub = PeerResult::Sub {
            received: 150,
            lost: 20,
            out_of_order: 2,
            // From the first sample to the last.
            duration_ns: 149_000_000,
            used: Used::default(),
            scheduled_ns: vec![(2000, 100), (3001, 50)],
        };
        let (publisher, subscriber) = side_results(&setup(), &sent, &sub).unwrap();
        let throughput = subscriber.throughput.unwrap();
        assert_eq!((throughput.samples, throughput.lost, throughput.bytes), (150, 50, 15_000));
        assert_eq!((throughput.samples_per_s(), throughput.lost_percent()), (1000.0, 25.0));
        let scheduled = publisher.scheduled_latency.unwrap();
        assert_eq!((scheduled.count, scheduled.p50_ns, scheduled.max_ns), (150, 2000, 3001), "one way already");
        assert_eq!((subscriber.scheduled_latency, publisher.latency), (Some(scheduled), None));
        assert!((publisher.cpu_percent - 50.0 / online_cores() as f64).abs() < 1e-9);
        let total = publisher.resources.unwrap().total;
        assert_eq!((total.cpu_percent_of_core(), total.rss_peak_bytes), (50.0, Some(4096)));
    }

    #[test]
    fn received_rate_of_few_samples_is_at_most_the_schedule() {
        let setup = Setup { role: Role::Pub, rate: 30, ..setup() };
        let sent = PeerResult::Pub { sent: 8, duration_ns: 250_000_000, used: Used::default() };
        let sub = PeerResult::Sub {
            received: 8,
            lost: 0,
            out_of_order: 0,
            duration_ns: 198_000_000,
            used: Used::default(),
            scheduled_ns: vec![(2000, 8)],
        };
        let (_, subscriber) = side_results(&setup, &sent, &sub).unwrap();
        let rate = subscriber.throughput.unwrap().samples_per_s();
        assert!((29.9..=30.0).contains(&rate), "{rate}");
    }

    #[test]
    fn sides_of_different_tests_are_refused() {
        let sent = PeerResult::Pub { sent: 1, duration_ns: 1, used: Used::default() };
        assert_eq!(side_results(&setup(), &sent, &PeerResult::Pong { received: 1, used: Used::default() }), None);
    }

    #[test]
    fn many_values_count_as_if_added_one_by_one() {
        for count in [0, 1, 2, 7, 1000] {
            let (mut one_by_one, mut at_once) = (Moments::default(), Moments::default());
            (0..count).for_each(|_| one_by_one.add(35));
            add_many(&mut at_once, 35, count);
            assert_eq!(at_once, one_by_one);
        }
        let mut most = Moments::default();
        add_many(&mut most, 1, u64::MAX);
        assert_eq!(most.count(), u64::MAX);
    }
}

//! The results of an open loop as text for a terminal.

use std::fmt::Write;

use peregrine_report::record::{OneWay, PayloadUse, ResourceUse, SearchResult, SearchStep, SideResult, WireUse};
use peregrine_report::stats::LatencyResult;

use crate::wording::percentile_us;

/// Fraction of a one-way time above which the uncertainty of the clock offset makes it doubtful.
const DOUBTFUL_SHARE: f64 = 0.1;

/// Results of one run.
pub(super) fn of_run(publisher: &SideResult, subscriber: &SideResult) -> String {
    let mut text = String::new();
    let received = subscriber.throughput.clone().unwrap_or_default();
    if let (Some(probes), Some(send)) = (&publisher.probes, &publisher.send) {
        let _ = writeln!(
            text,
            "{} B, {:.0} samples/s offered, {:.0} sent; sent {}, received {}, lost {}, duplicate {}, out of order {}",
            publisher.data_len,
            probes.offered_per_s,
            probes.achieved_per_s,
            send.samples,
            received.samples,
            received.lost,
            received.duplicate,
            received.reordered,
        );
        let _ = writeln!(
            text,
            "one sample in {} is a probe: {} sent, {} answered, {} answers late or duplicate",
            probes.probe_every, probes.sent, probes.answered, probes.stale
        );
        let _ = writeln!(
            text,
            "\n{:<38} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "microseconds", "min", "p50", "p99", "p99.9", "max"
        );
        line(&mut text, "round trip from the intended send", &probes.from_intended);
        line(&mut text, "round trip from the actual send", &probes.from_actual);
        if let Some(delay) = &send.delay {
            line(&mut text, "send behind schedule", delay);
        }
    }
    if let Some(ways) = &publisher.one_way {
        one_way(&mut text, ways);
    }
    if text.contains('*') {
        text.push_str("* fewer than ten values lie above this percentile: it depends on single values.\n");
    }
    text.push('\n');
    for (name, side) in [("sender", publisher), ("responder", subscriber)] {
        if let Some(resources) = &side.resources {
            resources_line(&mut text, name, resources);
        }
        if let Some(wire) = &side.wire {
            wire_line(&mut text, wire);
        }
    }
    payload_line(&mut text, publisher.payload, subscriber.payload);
    text
}

/// Result of one try of a search; `round_trips` are from the intended send.
pub(super) fn of_step(step: &SearchStep, round_trips: &LatencyResult) -> String {
    let verdict = if step.refused.is_empty() { "sustained" } else { &step.refused };
    let p99 = percentile_us(round_trips, 0.99, 1);
    format!("{:>10.0} samples/s: p99 {p99} us, {verdict}", step.offered_per_s)
}

/// Result of a search.
pub(super) fn of_search(found: &SearchResult) -> String {
    let limit_us = found.p99_limit_ns as f64 / 1e3;
    let tries = match found.steps.len() {
        1 => "1 try".to_owned(),
        count => format!("{count} tries"),
    };
    let bytes = found.data_len;
    if found.rate_per_s == 0.0 {
        let lowest = found.steps.iter().map(|step| step.offered_per_s).reduce(f64::min).unwrap_or_default();
        return format!(
            "No rate met p99 <= {limit_us:.0} us; the lowest tried was {lowest:.0}/s ({bytes} B, {tries}).\n"
        );
    }
    let bound = match found.failed_per_s {
        Some(failed) => format!("the lowest rate that failed was {failed:.0}/s"),
        None => "no rate tried failed".into(),
    };
    format!(
        "{:.0}/s ({:.1} Mbit/s) is the highest rate without loss and with p99 <= {limit_us:.0} us; {bound} ({bytes} B, {tries}).\n",
        found.rate_per_s,
        found.rate_per_s * found.data_len as f64 * 8.0 / 1e6,
    )
}

/// Marks a percentile with fewer than ten values above it; `-` without any value.
fn line(text: &mut String, name: &str, latency: &LatencyResult) {
    let us = |value_ns: u64| format!("{:.1}", value_ns as f64 / 1e3);
    let percentile = |fraction: f64| {
        if latency.count == 0 {
            return "-".to_owned();
        }
        let mark = if latency.supports(fraction) { "" } else { "*" };
        format!("{}{mark}", us(latency.value_at(fraction)))
    };
    let extreme = |value_ns: u64| if latency.count == 0 { "-".to_owned() } else { us(value_ns) };
    let _ = writeln!(
        text,
        "{name:<38} {:>9} {:>9} {:>9} {:>9} {:>9}",
        extreme(latency.min_ns),
        percentile(0.5),
        percentile(0.99),
        percentile(0.999),
        extreme(latency.max_ns)
    );
}

fn one_way(text: &mut String, ways: &OneWay) {
    line(text, "one way to the responder", &ways.forward);
    line(text, "in the responder", &ways.service);
    line(text, "one way back", &ways.back);
    let clock = &ways.clock;
    if clock.same_clock {
        text.push_str("Both processes share a clock, so one-way times are exact.\n");
        return;
    }
    let uncertainty_us = clock.uncertainty_ns as f64 / 1e3;
    let _ = writeln!(
        text,
        "The responder's clock is ahead by {:.1} us ± {uncertainty_us:.1} us, drifting by {:.1} us/s; one-way times have the same uncertainty.",
        clock.offset_ns as f64 / 1e3,
        clock.drift_ns_per_s / 1e3,
    );
    if clock.uncertainty_ns as f64 > ways.forward.p50_ns as f64 * DOUBTFUL_SHARE {
        text.push_str("This uncertainty is too large for one-way times; only the round trip is exact.\n");
    }
}

fn resources_line(text: &mut String, name: &str, resources: &ResourceUse) {
    let total = &resources.total;
    let mib = |bytes: Option<u64>| {
        bytes.map_or_else(|| "?".into(), |bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 20)))
    };
    let _ = writeln!(
        text,
        "{name}: processor {:.1} % of a core ({:.1} ms user, {:.1} ms system), memory {} MiB (peak {}, share {}), switches \
         {} voluntary {} forced, faults {} minor {} major",
        total.cpu_percent_of_core(),
        total.user_ns as f64 / 1e6,
        total.system_ns as f64 / 1e6,
        mib(total.rss_bytes),
        mib(total.rss_peak_bytes),
        mib(total.pss_bytes),
        total.voluntary_switches,
        total.involuntary_switches,
        total.minor_faults,
        total.major_faults,
    );
}

fn wire_line(text: &mut String, wire: &WireUse) {
    let repairs = wire.repairs.map_or_else(|| "not reported by the middleware".into(), |repairs| repairs.to_string());
    let _ = writeln!(
        text,
        "  {} sends of {} datagrams ({} B), {} receives of {} ({} B), kernel drops {}, failed sends {}, repairs {repairs}\n  \
         over {}",
        wire.send_calls,
        wire.datagrams_sent,
        wire.bytes_sent,
        wire.receive_calls,
        wire.datagrams_received,
        wire.bytes_received,
        wire.kernel_drops,
        wire.send_errors,
        wire.path.join("; "),
    );
}

fn payload_line(text: &mut String, sender: Option<PayloadUse>, responder: Option<PayloadUse>) {
    let (sender, responder) = (sender.unwrap_or_default(), responder.unwrap_or_default());
    match (sender.written, responder.checked) {
        (true, true) => {
            let _ = writeln!(
                text,
                "payloads written ({:.0} ns a sample) and checked ({:.0} ns): {} corrupt at the responder, {} corrupt answers",
                sender.write_ns, sender.check_ns, responder.corrupt, sender.corrupt
            );
        }
        (true, false) => text.push_str("payloads written and not checked\n"),
        (false, _) => text.push_str("payloads neither written nor checked\n"),
    }
}

#[cfg(test)]
mod tests {
    use peregrine_report::record::{ClockOffset, ProbeOutcome, SendResult, ThroughputResult};

    use super::*;

    fn latency(value_ns: u64) -> LatencyResult {
        LatencyResult {
            count: 100,
            min_ns: value_ns,
            max_ns: value_ns,
            histogram: vec![(value_ns, 100)],
            p50_ns: value_ns,
            ..LatencyResult::default()
        }
    }

    fn run(clock: ClockOffset) -> String {
        let publisher = SideResult {
            data_len: 64,
            send: Some(SendResult { samples: 100, delay: Some(latency(500)), ..SendResult::default() }),
            probes: Some(ProbeOutcome {
                probe_every: 1,
                sent: 100,
                answered: 99,
                from_intended: latency(90_000),
                from_actual: latency(30_000),
                ..ProbeOutcome::default()
            }),
            one_way: Some(OneWay { clock, forward: latency(14_000), service: latency(100), back: latency(16_000) }),
            resources: Some(ResourceUse::default()),
            wire: Some(WireUse { path: vec!["UdpV4".into()], ..WireUse::default() }),
            payload: Some(PayloadUse { written: true, checked: true, ..PayloadUse::default() }),
            ..SideResult::default()
        };
        let subscriber = SideResult {
            throughput: Some(ThroughputResult { samples: 98, lost: 2, ..ThroughputResult::default() }),
            payload: Some(PayloadUse { checked: true, corrupt: 7, ..PayloadUse::default() }),
            ..SideResult::default()
        };
        of_run(&publisher, &subscriber)
    }

    #[test]
    fn round_trips_from_the_intended_and_the_actual_send_are_printed() {
        let text = run(ClockOffset { same_clock: true, ..ClockOffset::default() });
        for expected in [
            "sent 100, received 98, lost 2",
            "round trip from the intended send           90.0      90.0     90.0*     90.0*      90.0",
            "round trip from the actual send             30.0      30.0",
            "one-way times are exact",
            "7 corrupt at the responder",
            "repairs not reported",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn large_clock_uncertainty_is_reported() {
        let clock = |uncertainty_ns| ClockOffset { offset_ns: 5_000_000, uncertainty_ns, ..ClockOffset::default() };
        let text = run(clock(1_000));
        assert!(
            text.contains("ahead by 5000.0 us ± 1.0 us") && !text.contains("too large for one-way times"),
            "{text}"
        );
        assert!(run(clock(9_000)).contains("too large for one-way times"));
    }

    #[test]
    fn result_of_a_search_names_its_bound() {
        let found = SearchResult {
            data_len: 125,
            rate_per_s: 40_000.0,
            failed_per_s: Some(42_000.0),
            p99_limit_ns: 1_000_000,
            ..SearchResult::default()
        };
        let highest = "40000/s (40.0 Mbit/s) is the highest rate without loss and with p99 <= 1000 us; ";
        assert!(of_search(&found).starts_with(highest));
        assert!(of_search(&found).contains("the lowest rate that failed was 42000/s (125 B, 0 tries)."));
        let steps = vec![SearchStep { offered_per_s: 100.0, ..SearchStep::default() }];
        assert_eq!(
            of_search(&SearchResult { rate_per_s: 0.0, steps, ..found }),
            "No rate met p99 <= 1000 us; the lowest tried was 100/s (125 B, 1 try).\n"
        );
        let step = SearchStep { offered_per_s: 10.0, refused: "3 samples were lost".into(), ..SearchStep::default() };
        assert!(of_step(&step, &latency(5_000)).ends_with("10 samples/s: p99 - us, 3 samples were lost"));
        let many = LatencyResult { count: 1100, histogram: vec![(5_000, 1100)], ..latency(5_000) };
        assert!(of_step(&step, &many).ends_with("10 samples/s: p99 5.0 us, 3 samples were lost"));
    }
}

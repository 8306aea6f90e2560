//! The times of a participant's announcements.

use super::*;

fn times(host: u32) -> Vec<u64> {
    let mut domain = Domain::of(&[host]);
    domain.run(Span::from_secs(60));
    domain.sent.iter().map(|m| m.at.0).collect()
}

#[test]
fn announcements_start_with_burst_and_continue_with_jitter() {
    let times = times(1);
    assert_eq!(times[0], 1_000_000_000, "the first announcement is sent at once");
    let waits: Vec<u64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    let burst = ANNOUNCEMENT_BURST as usize - 1;
    for (index, wait) in waits.iter().enumerate() {
        let planned = if index < burst { ANNOUNCEMENT_BURST_INTERVAL.times(1 << index) } else { PERIOD };
        assert!(*wait <= planned.0 && *wait >= planned.0 - planned.0 / 10, "wait {index}: {wait} ns");
    }
    assert!(waits.len() > burst + 15, "{waits:?}");
}

#[test]
fn participants_started_together_announce_at_different_times() {
    assert_ne!(times(1)[10..], times(2)[10..]);
}

#[test]
fn announcement_on_request_is_sent_at_once() {
    let mut domain = Domain::of(&[1]);
    domain.run(Span::from_secs(4));
    let (before, now) = (domain.sent.len(), domain.now);
    domain.at(1).announce_soon(now);
    domain.tick();
    assert_eq!(domain.sent.len(), before + 1);
}

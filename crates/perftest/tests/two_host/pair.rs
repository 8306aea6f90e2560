//! A publisher and a subscriber, each on its host.

use peregrine_interop::TwoHosts;

use crate::common::{Outcome, PROGRAM, start_command};

/// Settings that keep a test short.
pub(crate) const QUICK: &str =
    "-domain 1 -startDelay 100ms -discoveryTimeout 40 -partnerTimeout 20 -noPrintIntervals -noOutputHeaders";

/// Runs the publisher on host a and the subscriber on host b to their end; both must succeed.
pub(crate) fn pair(hosts: &TwoHosts, both: &str, publisher: &str) -> (Outcome, Outcome) {
    let [a, b] = TwoHosts::ADDRESSES;
    let started = start_command(hosts.b.command(PROGRAM), &format!("-sub {QUICK} {both} -nic {b} -peer {a}"));
    let line = format!("-pub {QUICK} {both} -nic {a} -peer {b} {publisher}");
    let publisher = start_command(hosts.a.command(PROGRAM), &line).finish();
    let subscriber = started.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    (publisher, subscriber)
}

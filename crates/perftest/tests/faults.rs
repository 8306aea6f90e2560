//! Wrong command lines, missing and dying partners, Ctrl-C: a clear message, the right status, in time.

mod common;

use std::net::UdpSocket;

use common::{columns, run, start};

const QUICK: &str = "-raw -startDelay 0 -discoveryTimeout 20";

#[test]
fn wrong_command_line_ends_with_255_and_names_every_mistake() {
    let outcome = run("-pub -nonsense -dataLen 5 -transportWanServerAddress host");
    assert_eq!((outcome.code, outcome.stdout.len()), (255, 0), "{outcome:?}");
    for expected in
        ["Cannot parse '-nonsense'", "-dataLen: 5 is out of range", "-transportWanServerAddress is not available yet"]
    {
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
}

#[test]
fn help_goes_to_stdout_with_status_0() {
    let outcome = run("-pub -help");
    assert_eq!(outcome.code, 0);
    assert!(outcome.stdout.iter().any(|line| line.contains("-latencyTest")));
    assert_eq!(run("--help").code, 0);
    assert_eq!(run("--nonsense").code, 255);
}

#[test]
fn unavailable_core_or_priority_is_named() {
    let outcome = run("-sub -raw -nic nowhere0");
    assert_eq!(outcome.code, 255);
    assert!(outcome.stderr.contains("nowhere0") && outcome.stderr.contains("lo (127.0.0.1)"), "{}", outcome.stderr);

    let _holder = UdpSocket::bind("127.0.0.1:24912").unwrap();
    let outcome = run("-sub -raw -domain 70");
    assert_eq!(outcome.code, 255);
    assert!(outcome.stderr.contains("127.0.0.1:24912") && outcome.stderr.contains("in use"), "{}", outcome.stderr);

    let outcome = run("-sub -raw -domain 75 -outputFile /nowhere/at/all");
    assert_eq!(outcome.code, 255);
    assert!(outcome.stderr.contains("/nowhere/at/all"), "{}", outcome.stderr);
}

#[test]
fn missing_partner_ends_the_wait() {
    let outcome = run("-pub -raw -domain 71 -discoveryTimeout 100ms");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(
        outcome.stderr.contains("Subscribers [0] have not announced themselves within 0.1 s"),
        "{}",
        outcome.stderr
    );

    let outcome = run("-sub -raw -domain 71 -discoveryTimeout 100ms -noPrint -noOutputHeaders");
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("1 publishers have not appeared within 0.1 s"), "{}", outcome.stderr);
    assert_eq!(columns(&outcome.stdout[0]), [100.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn killed_subscriber_ends_publisher_with_results() {
    let subscriber = start(&format!("-sub {QUICK} -domain 72"));
    let publisher = start(&format!("-pub {QUICK} -domain 72 -latencyTest -noOutputHeaders -partnerTimeout 1"));
    publisher.wait_for_stdout(|line| line.contains(','));
    subscriber.kill();
    let outcome = publisher.finish();
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert_eq!(columns(outcome.stdout.last().unwrap()).len(), 10);
    assert_eq!(subscriber.finish().code, -1);
}

#[test]
fn killed_publisher_ends_subscriber_with_results() {
    let subscriber = start(&format!("-sub {QUICK} -domain 73 -noPrint -noOutputHeaders -partnerTimeout 1"));
    let publisher = start(&format!("-pub {QUICK} -domain 73 -latencyTest -noOutputHeaders"));
    publisher.wait_for_stdout(|line| line.contains(','));
    publisher.kill();
    let outcome = subscriber.finish();
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(outcome.stderr.contains("No publisher has sent anything"), "{}", outcome.stderr);
    assert!(columns(&outcome.stdout[0])[1] > 0.0);
    assert_eq!(publisher.finish().code, -1);
}

#[test]
fn ctrl_c_at_the_publisher_ends_both_with_their_results() {
    let subscriber = start(&format!("-sub {QUICK} -domain 74 -noPrint -noOutputHeaders"));
    let publisher = start(&format!("-pub {QUICK} -domain 74 -latencyTest -noOutputHeaders"));
    publisher.wait_for_stdout(|line| line.contains(','));
    publisher.interrupt();
    let (publisher, subscriber) = (publisher.finish(), subscriber.finish());
    assert_eq!((publisher.code, subscriber.code), (130, 0), "{} {}", publisher.stderr, subscriber.stderr);
    assert_eq!(columns(publisher.stdout.last().unwrap()).len(), 10);
    assert!(publisher.stderr.contains("Interrupted"));
    assert!(columns(&subscriber.stdout[0])[1] > 0.0);
}

#[test]
fn ctrl_c_at_the_subscriber_ends_both_with_their_results() {
    let subscriber = start(&format!("-sub {QUICK} -domain 76 -noPrint -noOutputHeaders"));
    let publisher = start(&format!("-pub {QUICK} -domain 76 -latencyTest -noOutputHeaders"));
    publisher.wait_for_stdout(|line| line.contains(','));
    subscriber.interrupt();
    let (publisher, subscriber) = (publisher.finish(), subscriber.finish());
    assert_eq!((publisher.code, subscriber.code), (1, 130), "{} {}", publisher.stderr, subscriber.stderr);
    assert!(publisher.stderr.contains("Every subscriber has left") || publisher.stderr.contains("No process receives"));
    assert!(columns(&subscriber.stdout[0])[1] > 0.0);
    assert_eq!(columns(publisher.stdout.last().unwrap()).len(), 10);
}

/// A short test, or one on a slow link, sends only one ping.
#[test]
fn only_answer_of_a_short_test_is_its_latency() {
    let subscriber = start(&format!("-sub {QUICK} -domain 77 -noPrint -noOutputHeaders"));
    let publisher = run(&format!(
        "-pub {QUICK} -domain 77 -numIter 20 -latencyCount 20 -pubRate 1000:sleep -nsResolution -noPrint -noOutputHeaders"
    ));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    let row = columns(&publisher.stdout[0]);
    assert!(row[3] > 0.0 && row[3] == row[4], "{row:?}");
    assert!(publisher.stderr.contains("The latency is that of one ping"), "{}", publisher.stderr);
    assert_eq!(columns(&subscriber.stdout[0])[1], 20.0);
}

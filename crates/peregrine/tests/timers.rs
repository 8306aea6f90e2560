//! Timers of the kernel during an exchange of samples, counted in this process. The only test of its process.

use std::time::Duration;

use peregrine::{DdsType, DomainConfig, DomainParticipant, InterfaceSelection};
use peregrine_transport::event::Timer;

const PATIENCE: Duration = Duration::from_secs(20);
/// So long that no periodic announcement is due during the test.
const LEASE: Duration = Duration::from_secs(24 * 3600);

/// Round trips before the flows are lasting, with room for late threads, and those of one round.
const BEFORE: u32 = 1_000;
const ROUND: u32 = 500;
/// Settings that a round may have: far fewer than one for each sample. A busy machine lets threads wait, and each wait
/// sets some timers: on a core shared with a busy loop, about a third of the rounds have at most these.
const SETTINGS_MAX: u64 = ROUND as u64 / 5;
/// The last of these rounds counts, or the first one with few settings.
const ROUNDS_MAX: u32 = 40;

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Ping {
    number: u32,
}

/// Two participants with separate sockets, as in two processes.
fn sides() -> [DomainParticipant; 2] {
    [255, 256].map(|receive_buffers| {
        let mut config = DomainConfig::default();
        config.same_process = false;
        config.shared_memory = false;
        config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
        config.receive_buffers = receive_buffers;
        DomainParticipant::builder(73).config(config).lease(LEASE).build().unwrap()
    })
}

/// Two calls that set and cancel a timer took longer than all else in a round trip of 32 bytes, and callgrind does not
/// see time in the kernel.
#[test]
fn lasting_exchange_sets_no_timer_per_sample() {
    let [here, there] = sides();
    let topic = |side: &DomainParticipant, name| side.topic::<Ping>(name).unwrap();
    let writer = |side, name| topic(side, name).writer_builder().keep_all().reliable().build().unwrap();
    let reader = |side, name| topic(side, name).reader_builder().keep_all().reliable().build().unwrap();
    let (pings, pongs) = (writer(&here, "pings"), reader(&here, "pongs"));
    let (received, returned) = (reader(&there, "pings"), writer(&there, "pongs"));
    pings.wait_for_readers(1, PATIENCE).unwrap();
    returned.wait_for_readers(1, PATIENCE).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(ping) = received.wait_and_take(PATIENCE).unwrap().into_value().filter(|ping| ping.number > 0)
            {
                returned.write(&ping).unwrap();
            }
        });
        let exchange = |number| {
            pings.write(&Ping { number }).unwrap();
            assert_eq!(pongs.wait_and_take(PATIENCE).unwrap().value(), Some(&Ping { number }));
        };
        (1..BEFORE).for_each(exchange);
        let round = || {
            let before = Timer::settings_of_process();
            (1..=ROUND).for_each(exchange);
            Timer::settings_of_process() - before
        };
        let mut settings = round();
        for _ in 1..ROUNDS_MAX {
            if settings <= SETTINGS_MAX {
                break;
            }
            settings = round();
        }
        // Ends the other thread.
        pings.write(&Ping { number: 0 }).unwrap();
        assert!(settings <= SETTINGS_MAX, "{settings} settings of timers in {ROUND} round trips, not {SETTINGS_MAX}");
    });
}

//! Timers of the kernel during an exchange of samples, counted in this process. The only test of its process.

use std::time::{Duration, Instant};

use peregrine::{DdsType, DomainConfig, DomainParticipant, InterfaceSelection};
use peregrine_transport::event::Timer;

const PATIENCE: Duration = Duration::from_secs(20);
/// So long that no periodic announcement is due during the test.
const LEASE: Duration = Duration::from_secs(24 * 3600);

/// Round trips before the flows are lasting, with room for late threads, and those that are counted.
const BEFORE: u32 = 1_000;
const COUNTED: u32 = 10_000;
/// A lasting exchange sets a timer at most once in this time, on each side for requests and for acknowledgements that
/// wait for a sample.
const SET_EVERY: Duration = Duration::from_millis(20);
const TIMERS: u64 = 4;

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
            for _ in 0..BEFORE + COUNTED {
                let ping = received.wait_and_take(PATIENCE).unwrap();
                returned.write(ping.value().unwrap()).unwrap();
            }
        });
        let exchange = |number| {
            pings.write(&Ping { number }).unwrap();
            assert_eq!(pongs.wait_and_take(PATIENCE).unwrap().value(), Some(&Ping { number }));
        };
        (0..BEFORE).for_each(exchange);
        let (begun, before) = (Instant::now(), Timer::settings_of_process());
        (BEFORE..BEFORE + COUNTED).for_each(exchange);
        let (lasted, settings) = (begun.elapsed(), Timer::settings_of_process() - before);
        // A machine that lets threads wait ends the steadiness of a flow now and then.
        let allowed = TIMERS * (lasted.as_millis() / SET_EVERY.as_millis()) as u64 + u64::from(COUNTED) / 50;
        assert!(settings <= allowed, "{settings} settings of timers in {COUNTED} round trips, {lasted:?}");
    });
}

//! Example records of campaigns.

use super::plain::{REPETITIONS, SIZES, behaviour, empty, plain_series};
use super::shape::{Behaviour, paced, unpaced};
use crate::record::{
    Case, Delivery, Measurement, PeerFacts, PlanFacts, Publishing, Record, Reliability, Skipped, Test,
};

/// Three middlewares over rates, sizes, numbers of subscribers, reliability and delivery.
pub fn campaign() -> Record {
    let mut record = empty("perftest run tsc-2021.toml");
    record.header.plan = Some(plan("tsc-2021", "Latency and throughput by size, rate and number of subscribers"));
    record.header.repetitions = 2;
    let peers = [
        ("peregrine", "Peregrine", "0.1.0", vec![]),
        (
            "cyclonedds",
            "Cyclone DDS",
            "0.10.2",
            vec!["SocketReceiveBufferSize 8 MiB: its default drops large samples".into()],
        ),
        ("fastdds", "Fast DDS", "2.9.1", vec!["UDPv4 only, receive buffers of 8 MiB".into()]),
    ];
    for (id, name, version, settings) in peers {
        let mut series = plain_series(id, name, "");
        series.peer = Some(Box::new(PeerFacts { name: name.into(), version: version.into(), settings }));
        record.header.series.push(series);
    }
    for repetition in 0..record.header.repetitions {
        for delivery in [Delivery::SameHost, Delivery::SameProcess] {
            for reliability in [Reliability::Reliable, Reliability::BestEffort] {
                push_matrix(&mut record, repetition, delivery, reliability);
            }
        }
    }
    record
}

fn push_matrix(record: &mut Record, repetition: u32, delivery: Delivery, reliability: Reliability) {
    for rate in [30.0, 300.0, 1_000.0] {
        for (data_type, data_len) in [("Struct256", 528), ("Array4k", 4_096), ("Array2m", 2_097_152)] {
            for subscribers in [1, 3, 10] {
                for (place, publishing) in [
                    (0, Publishing::Synchronous),
                    (0, Publishing::Asynchronous),
                    (1, Publishing::Synchronous),
                    (2, Publishing::Synchronous),
                ] {
                    let case = Case {
                        rate_per_s: Some(rate),
                        publishers: 1,
                        subscribers,
                        topics: 1,
                        reliability,
                        publishing,
                        delivery,
                        data_type: data_type.into(),
                        wait: None,
                    };
                    let series = ["peregrine", "cyclonedds", "fastdds"][place];
                    if place == 1 && delivery == Delivery::SameProcess && subscribers == 10 {
                        if repetition == 0 {
                            let reason = "ten readers in one process do not fit its default resource limits".into();
                            record.skipped.push(Skipped {
                                series: series.into(),
                                test: Some(Test::OpenLoop),
                                data_len,
                                repetition: None,
                                case,
                                reason,
                            });
                        }
                        continue;
                    }
                    let how = loaded(place, data_len, subscribers, &case);
                    let measurement = paced(series, data_len, repetition, (rate, subscribers), how);
                    record.measurements.push(Measurement { case: Some(Box::new(case)), ..measurement });
                }
            }
        }
    }
}

fn loaded(place: usize, data_len: u64, subscribers: u32, case: &Case) -> Behaviour {
    let plain = behaviour(place, data_len);
    let fan_out = 1.0 + f64::from(subscribers - 1) * 0.09;
    let by_process = if case.delivery == Delivery::SameProcess { 0.35 } else { 1.0 };
    let hand_over = if case.publishing == Publishing::Asynchronous { 2_600.0 } else { 0.0 };
    let surer = if case.reliability == Reliability::Reliable { 350.0 } else { 0.0 };
    let middleware = [1.0, 1.7, 2.9][place];
    let overload = case.rate_per_s.unwrap_or(0.0) * data_len as f64 * f64::from(subscribers) > 5e9;
    Behaviour {
        p50_ns: (plain.p50_ns * middleware + hand_over + surer)
            * fan_out
            * by_process
            * if overload { 6.0 } else { 1.0 },
        tail: plain.tail + if overload { 4.0 } else { 0.6 },
        lost_percent: if overload && place > 0 { 12.0 } else { 0.0 },
        cpu_ns: plain.cpu_ns * middleware * by_process * 2.0,
        rss_bytes: [8, 11, 32][place] * (1 << 20) + data_len * 6,
        ..plain
    }
}

/// Plain sockets, two ways to send and two middlewares between two hosts, unpaced.
pub fn raspberry_pi() -> Record {
    let mut record = empty("perftest run raspberry-pi.toml --out raspberry-pi");
    record.header.plan = Some(plan("raspberry-pi", "Latency and throughput between two hosts"));
    let series = [
        ("raw-udp", "raw UDP"),
        ("peregrine", "Peregrine"),
        ("peregrine-batched", "Peregrine, batches"),
        ("cyclonedds", "Cyclone DDS"),
    ];
    record.header.series = series.iter().map(|(id, label)| plain_series(id, label, "-nic veth0")).collect();
    record.header.series[0].floor = true;
    record.header.series[3].peer =
        Some(Box::new(PeerFacts { name: "Cyclone DDS".into(), version: "0.10.2".into(), settings: vec![] }));
    for repetition in 0..REPETITIONS {
        for (place, (id, _)) in series.iter().enumerate() {
            for data_len in SIZES {
                let plain = behaviour([0, 1, 3, 2][place], data_len);
                // A link of 100 Mbit/s: nothing is faster than it.
                let limit = 97e6 / 8.0 / (data_len as f64 + 60.0);
                let how = Behaviour {
                    p50_ns: 40_000.0 + plain.p50_ns * 6.0 + data_len as f64 * 82.0,
                    samples_per_s: plain.samples_per_s.min(limit),
                    ..plain
                };
                let tests: &[Test] = if place == 2 { &[Test::Throughput] } else { &[Test::Latency, Test::Throughput] };
                for test in tests {
                    let case = Some(Box::new(two_hosts()));
                    record.measurements.push(Measurement { case, ..unpaced(id, *test, data_len, repetition, how) });
                }
            }
        }
    }
    record
}

/// One path without protection and with each kind of it.
pub fn security() -> Record {
    let mut record = empty("perftest run security.toml --out security");
    record.header.plan = Some(plan("security", "What each kind of protection costs"));
    let kinds = [
        ("unsecured", "no security", "", 0.0, 0.0),
        ("security-sign", "RTPS sign", "-secureGovernanceFile sign.p7s", 900.0, 0.05),
        ("security-encrypt", "RTPS encrypt", "-secureGovernanceFile encrypt.p7s", 1_000.0, 0.09),
        ("security-data", "RTPS sign, data encrypt", "-secureGovernanceFile data.p7s", 1_700.0, 0.13),
    ];
    let floors = [
        ("sealing-sign", "seal and open only: RTPS sign", 200.0, 0.04),
        ("sealing-encrypt", "seal and open only: RTPS encrypt", 250.0, 0.08),
    ];
    record.header.series = kinds.iter().map(|(id, label, options, ..)| plain_series(id, label, options)).collect();
    record.header.series.extend(floors.iter().map(|(id, label, ..)| plain_series(id, label, "cipher=aes-256-gcm")));
    for repetition in 0..REPETITIONS {
        for (id, _, _, fixed, by_byte) in kinds {
            for data_len in SIZES {
                let plain = behaviour(2, data_len);
                let how = Behaviour { p50_ns: plain.p50_ns + fixed + by_byte * data_len as f64, ..plain };
                let case = Some(Box::new(two_hosts()));
                record.measurements.push(Measurement { case, ..unpaced(id, Test::Latency, data_len, repetition, how) });
            }
        }
        for (id, _, fixed, by_byte) in floors {
            for data_len in SIZES {
                let how = Behaviour { p50_ns: fixed + by_byte * data_len as f64, ..behaviour(2, data_len) };
                let case = Some(Box::new(two_hosts()));
                record.measurements.push(Measurement { case, ..unpaced(id, Test::Latency, data_len, repetition, how) });
            }
        }
    }
    record
}

/// Rates with and without batches: unsecured, secured, and of sealing alone.
pub fn secured_rates() -> Record {
    let mut record = empty("perftest run security.toml --out security");
    record.header.plan = Some(plan("security", "What each kind of protection costs"));
    let levels = [("rtps-sign", "RTPS sign", 0.93, 60.0), ("rtps-encrypt", "RTPS encrypt", 0.88, 40.0)];
    let mut rates: Vec<(String, String, f64)> = Vec::new();
    for (suffix, way, factor) in [("", "", 1.0), ("-batched", ", batched", 8.0)] {
        rates.push((format!("peregrine{suffix}"), format!("Peregrine{way}"), factor));
        let none = format!("Peregrine{way}, security without protection");
        rates.push((format!("peregrine-security-none{suffix}"), none, 0.99 * factor));
        for (level, label, share, sealing) in levels {
            rates.push((
                format!("peregrine-security-{level}{suffix}"),
                format!("Peregrine{way}, {label}"),
                share * factor,
            ));
            let alone = format!("seal and open only{way}: {label}");
            rates.push((format!("sealing-{level}{suffix}"), alone, sealing * factor));
        }
    }
    record.header.series = rates.iter().map(|(id, label, _)| plain_series(id, label, "")).collect();
    for repetition in 0..REPETITIONS {
        for (id, _, factor) in &rates {
            for data_len in SIZES {
                let plain = behaviour(2, data_len);
                let how = Behaviour { samples_per_s: plain.samples_per_s * factor, ..plain };
                let case = Some(Box::new(Case { delivery: Delivery::SameHost, ..two_hosts() }));
                let run = unpaced(id, Test::Throughput, data_len, repetition, how);
                record.measurements.push(Measurement { case, ..run });
            }
        }
    }
    record
}

fn two_hosts() -> Case {
    Case {
        publishers: 1,
        subscribers: 1,
        topics: 1,
        delivery: Delivery::TwoHosts,
        data_type: "Array".into(),
        ..Case::default()
    }
}

fn plan(name: &str, title: &str) -> Box<PlanFacts> {
    Box::new(PlanFacts {
        name: name.into(),
        title: title.into(),
        publication: "the reference document of that name".into(),
        source: format!("title = \"{title}\"\n\n[[matrix]]\nsizes = [32, 64, 128]\nrates = [\"unpaced\"]\n"),
        place: "two network namespaces, 100 Mbit/s".into(),
    })
}

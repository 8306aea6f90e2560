//! What a plan may compare: every series that is known by name, and who moves its samples.

use peregrine_report::record::{PeerFacts, Series};
use serde::{Deserialize, Serialize};

/// One way of moving samples, known by its name.
#[derive(Debug, PartialEq, Eq)]
pub struct SeriesSpec {
    /// Name in plans and records.
    pub id: &'static str,
    /// Name for readers.
    pub label: &'static str,
    /// Who moves the samples.
    pub runner: SeriesRunner,
}

/// Who moves the samples of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesRunner {
    /// The parties of `super::party`, over this carrier.
    Own(Carrier),
    /// Nobody in this build.
    Missing(&'static str),
}

/// What this program itself moves samples with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// A datagram per sample and reader on plain sockets.
    RawUdp,
    /// DDS.
    Peregrine,
}

const NO_SECURITY: SeriesRunner = SeriesRunner::Missing("security is not available yet");
const NO_SHARED_MEMORY: SeriesRunner = SeriesRunner::Missing("shared memory is not available yet");
const NOT_HERE: SeriesRunner =
    SeriesRunner::Missing("plans cannot drive this middleware yet; 'perftest peers' measures those it knows");

/// Every series, in the order of tables.
pub const SERIES: &[SeriesSpec] = &[
    own("raw-udp", "raw UDP", Carrier::RawUdp),
    own("peregrine", "Peregrine", Carrier::Peregrine),
    missing("peregrine-shared-memory", "Peregrine, shared memory", NO_SHARED_MEMORY),
    missing("peregrine-security-none", "Peregrine, security without protection", NO_SECURITY),
    missing("peregrine-security-rtps-sign", "Peregrine, RTPS sign", NO_SECURITY),
    missing("peregrine-security-rtps-encrypt", "Peregrine, RTPS encrypt", NO_SECURITY),
    missing(
        "peregrine-security-rtps-sign-origin-data-encrypt",
        "Peregrine, RTPS sign with origin authentication, data encrypt",
        NO_SECURITY,
    ),
    missing(
        "peregrine-security-rtps-sign-submessage-encrypt-origin-data-encrypt",
        "Peregrine, RTPS sign, submessage encrypt with origin authentication, data encrypt",
        NO_SECURITY,
    ),
    missing("peregrine-security-rtps-sign-submessage-encrypt", "Peregrine, RTPS sign, submessage encrypt", NO_SECURITY),
    missing("cyclonedds", "Cyclone DDS", NOT_HERE),
    missing("fastdds", "Fast DDS", NOT_HERE),
    missing("iceoryx2", "iceoryx2", NOT_HERE),
    missing("zenoh", "Zenoh", NOT_HERE),
    missing("rustdds", "RustDDS", NOT_HERE),
    missing("dustdds", "Dust DDS", NOT_HERE),
];

const fn own(id: &'static str, label: &'static str, carrier: Carrier) -> SeriesSpec {
    SeriesSpec { id, label, runner: SeriesRunner::Own(carrier) }
}

const fn missing(id: &'static str, label: &'static str, runner: SeriesRunner) -> SeriesSpec {
    SeriesSpec { id, label, runner }
}

impl SeriesSpec {
    /// The series of this name.
    pub fn named(id: &str) -> Option<&'static Self> {
        SERIES.iter().find(|series| series.id == id)
    }

    /// Whether the others are compared with it.
    pub fn is_floor(&self) -> bool {
        self.runner == SeriesRunner::Own(Carrier::RawUdp)
    }

    /// As a record has it.
    pub fn describe(&self) -> Series {
        let peer = match self.runner {
            SeriesRunner::Own(Carrier::Peregrine) => Some(Box::new(peregrine_facts())),
            SeriesRunner::Own(Carrier::RawUdp) | SeriesRunner::Missing(_) => None,
        };
        Series { id: self.id.into(), label: self.label.into(), floor: self.is_floor(), options: Vec::new(), peer }
    }
}

fn peregrine_facts() -> PeerFacts {
    PeerFacts {
        name: "Peregrine".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        settings: vec![
            "one interface: what the case runs on".into(),
            "without a history depth, KEEP_ALL with 64 samples or 64 MiB at the writer, so that reliable writers block"
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_there_is_one_floor() {
        let mut names: Vec<_> = SERIES.iter().map(|series| series.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SERIES.len());
        assert_eq!(SERIES.iter().filter(|series| series.is_floor()).count(), 1);
        assert_eq!(SeriesSpec::named("peregrine").map(|series| series.label), Some("Peregrine"));
        assert_eq!(SeriesSpec::named("nobody"), None);
    }
}

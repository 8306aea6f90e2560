//! What a plan may compare: every series that is known by name, and who moves its samples.

use std::sync::LazyLock;

use peregrine_report::record::{PeerFacts, Series};
use serde::{Deserialize, Serialize};

use super::spec::Wait;
use crate::peers::VARIANTS;
pub use crate::peers::Variant;
use crate::peers::catalog;
use crate::peers::protocol::Publish;

/// One way of moving samples, known by its name.
#[derive(Debug, PartialEq, Eq)]
pub struct SeriesSpec {
    /// Name in plans and records.
    pub id: String,
    /// Name for readers.
    pub label: String,
    /// Who moves the samples.
    pub runner: SeriesRunner,
}

/// Who moves the samples of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesRunner {
    /// The parties of `super::party`, over this carrier.
    Own(Carrier),
    /// The program of a peer, in this way.
    Peer(&'static Variant),
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
    /// DDS whose writers gather samples.
    PeregrineBatched,
}

const NO_SECURITY: SeriesRunner = SeriesRunner::Missing("security is not available yet");
const NO_SHARED_MEMORY: SeriesRunner = SeriesRunner::Missing("shared memory is not available yet");

const OWN: &[(&str, &str, SeriesRunner)] = &[
    ("raw-udp", "raw UDP", SeriesRunner::Own(Carrier::RawUdp)),
    ("peregrine", "Peregrine", SeriesRunner::Own(Carrier::Peregrine)),
    ("peregrine-batched", "Peregrine, batched", SeriesRunner::Own(Carrier::PeregrineBatched)),
    ("peregrine-shared-memory", "Peregrine, shared memory", NO_SHARED_MEMORY),
    ("peregrine-security-none", "Peregrine, security without protection", NO_SECURITY),
    ("peregrine-security-rtps-sign", "Peregrine, RTPS sign", NO_SECURITY),
    ("peregrine-security-rtps-encrypt", "Peregrine, RTPS encrypt", NO_SECURITY),
    (
        "peregrine-security-rtps-sign-origin-data-encrypt",
        "Peregrine, RTPS sign with origin authentication, data encrypt",
        NO_SECURITY,
    ),
    (
        "peregrine-security-rtps-sign-submessage-encrypt-origin-data-encrypt",
        "Peregrine, RTPS sign, submessage encrypt with origin authentication, data encrypt",
        NO_SECURITY,
    ),
    ("peregrine-security-rtps-sign-submessage-encrypt", "Peregrine, RTPS sign, submessage encrypt", NO_SECURITY),
];

/// Every series, in the order of tables: our own, then each way of each peer. Which thread sends is varied by the case, so
/// that the ways that differ from another in that only are none of their own.
static SERIES: LazyLock<Vec<SeriesSpec>> = LazyLock::new(|| {
    let own =
        OWN.iter().map(|(id, label, runner)| SeriesSpec { id: (*id).into(), label: (*label).into(), runner: *runner });
    let peers = VARIANTS.iter().filter(|variant| variant.publish == Publish::Sync).map(|variant| SeriesSpec {
        id: variant.series_id(),
        label: variant.series_label(),
        runner: SeriesRunner::Peer(variant),
    });
    own.chain(peers).collect()
});

impl SeriesSpec {
    /// All of them.
    pub fn all() -> &'static [Self] {
        &SERIES
    }

    /// The series of this name.
    pub fn named(id: &str) -> Option<&'static Self> {
        SERIES.iter().find(|series| series.id == id)
    }

    /// Every series of the peer of this name; `None` when there is no such peer.
    pub fn of_peer(name: &str) -> Option<Vec<&'static Self>> {
        let peer = catalog::find(name)?;
        let is_of_peer =
            |series: &&Self| matches!(series.runner, SeriesRunner::Peer(variant) if variant.peer == peer.name);
        Some(SERIES.iter().filter(is_of_peer).collect())
    }

    /// Whether the others are compared with it.
    pub fn is_floor(&self) -> bool {
        self.runner == SeriesRunner::Own(Carrier::RawUdp)
    }

    /// Whether it gathers samples, for which there have to be some.
    pub fn is_batched(&self) -> bool {
        match self.runner {
            SeriesRunner::Own(carrier) => carrier == Carrier::PeregrineBatched,
            SeriesRunner::Peer(variant) => variant.batch,
            SeriesRunner::Missing(_) => false,
        }
    }

    /// As a record has it. `peer` is what the program of a peer says of itself.
    pub fn describe(&self, waits: &[Wait], peer: Option<PeerFacts>) -> Series {
        let peer = match self.runner {
            SeriesRunner::Own(Carrier::Peregrine) => Some(peregrine_facts(waits, false)),
            SeriesRunner::Own(Carrier::PeregrineBatched) => Some(peregrine_facts(waits, true)),
            SeriesRunner::Own(Carrier::RawUdp) | SeriesRunner::Missing(_) => None,
            SeriesRunner::Peer(variant) => Some(peer.unwrap_or_else(|| variant.unknown_facts())),
        };
        let options = match self.runner {
            SeriesRunner::Peer(variant) => variant.options(),
            SeriesRunner::Own(_) | SeriesRunner::Missing(_) => Vec::new(),
        };
        let (id, label) = (self.id.clone(), self.label.clone());
        Series { id, label, floor: self.is_floor(), options, peer: peer.map(Box::new) }
    }
}

fn peregrine_facts(waits: &[Wait], batched: bool) -> PeerFacts {
    let waits: Vec<String> = waits.iter().map(Wait::to_string).collect();
    let mut settings = vec![
        "one interface: what the case runs on".into(),
        "without a history depth, KEEP_ALL with 64 samples or 64 MiB at the writer, so that reliable writers block"
            .into(),
        format!("wait: {}", waits.join(", ")),
    ];
    if batched {
        settings.push(format!("batches of {} bytes", super::BATCH_LEN));
    }
    PeerFacts { name: "Peregrine".into(), version: env!("CARGO_PKG_VERSION").into(), settings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::catalog::PEERS;

    #[test]
    fn names_are_unique_and_there_is_one_floor() {
        let mut names: Vec<_> = SERIES.iter().map(|series| &series.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SERIES.len());
        assert_eq!(SERIES.iter().filter(|series| series.is_floor()).count(), 1);
        assert_eq!(SeriesSpec::named("peregrine").map(|series| &*series.label), Some("Peregrine"));
        assert_eq!(SeriesSpec::named("nobody"), None);
    }

    #[test]
    fn every_peer_has_a_series() {
        for peer in PEERS {
            let series = SeriesSpec::of_peer(peer.name).unwrap();
            assert!(
                !series.is_empty() && series.iter().all(|series| series.id.starts_with(peer.name)),
                "{}",
                peer.name
            );
        }
        assert_eq!(SeriesSpec::of_peer("peregrine"), None);
        let described = SeriesSpec::of_peer("cyclonedds").unwrap()[0].describe(&[Wait::Block], None);
        assert_eq!((described.id.as_str(), described.floor), ("cyclonedds-udp", false));
        assert_eq!(described.peer.unwrap().name, "Cyclone DDS");
    }
}

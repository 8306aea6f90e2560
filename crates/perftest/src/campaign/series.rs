//! The series that a plan may compare, by name, and the programs that move their samples.

use std::sync::LazyLock;

use peregrine_report::record::{Delivery, PeerFacts, Series, Wait};
use serde::{Deserialize, Serialize};

use super::types::DataType;
pub use crate::peers::Variant;
use crate::peers::catalog;
use crate::peers::protocol::Publish;
use crate::peers::{SECURED_VARIANTS, VARIANTS};
use crate::protection::Protection;

/// A named way to move samples.
#[derive(Debug, PartialEq, Eq)]
pub struct SeriesSpec {
    /// Name in plans and records.
    pub id: String,
    /// Name for readers.
    pub label: String,
    /// Name for the legend of charts; empty if the label is short.
    pub short_label: String,
    /// The program that moves the samples.
    pub runner: SeriesRunner,
}

/// The program that moves the samples of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesRunner {
    /// The parties of `super::party`, over this carrier.
    Own(Carrier),
    /// The program of a peer, with this variant.
    Peer(&'static Variant),
    /// This program seals and opens bytes, and moves none.
    Sealing(Sealing),
    /// Not part of this build, with the reason.
    Missing(&'static str),
}

/// How bytes are sealed and opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealing {
    /// The level of protection.
    pub protection: Protection,
    /// Whether a message has as many samples as fit into 8,192 bytes, or one.
    pub batched: bool,
}

/// The transports of this program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// A datagram per sample and reader on plain sockets.
    RawUdp,
    /// DDS.
    Peregrine(Dds),
}

/// A way in which Peregrine moves samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dds {
    /// The only path by which samples reach readers.
    pub path: Path,
    /// The form of samples.
    pub form: Form,
    /// Whether writers batch samples.
    pub batched: bool,
    /// The level of protection; `None` without security.
    pub protection: Option<Protection>,
}

/// A path of samples to readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// In messages, even between entities of one process.
    Udp,
    /// In memory that processes of one host share.
    SharedMemory,
    /// By reference, within a process.
    SameProcess,
}

/// How applications make and read samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As values, which are written and taken.
    Values,
    /// FlatData: the writer copies all bytes into loaned memory, and the reader reads them in place.
    Flat,
    /// In loaned memory: the writer writes and the reader reads only the checked bytes.
    InPlace,
}

impl Carrier {
    /// Why it cannot deliver samples of this type to these readers; `None` if it can.
    pub fn obstacle(self, delivery: Delivery, data_type: DataType) -> Option<String> {
        let Self::Peregrine(dds) = self else { return None };
        Some(match (dds.path, dds.form, delivery) {
            (Path::SharedMemory, _, Delivery::SameProcess) => {
                "shared memory is between processes; within one samples go by reference: name peregrine-same-process"
                    .into()
            }
            (Path::SharedMemory, _, Delivery::TwoHosts) => "shared memory does not leave a host".into(),
            (Path::SameProcess, _, Delivery::SameHost | Delivery::TwoHosts) => {
                "samples go by reference within a process only".into()
            }
            (_, Form::Flat, _) if data_type != DataType::Octets => "FlatData is measured with the type octets".into(),
            (_, Form::InPlace, _) if !data_type.can_be_made_in_place() => {
                format!("{data_type} is neither plain nor flat, so that it cannot be made in memory on loan")
            }
            _ => return None,
        })
    }
}

impl Path {
    /// Name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::SharedMemory => "shared-memory",
            Self::SameProcess => "same-process",
        }
    }
}

impl Form {
    /// Name in records.
    fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Flat => "flat-data",
            Self::InPlace => "zero-copy",
        }
    }
}

/// Bytes of a batch: RTI Perftest's default.
pub(super) const BATCH_LEN: usize = 8_192;

/// Under KEEP_ALL: most samples in a writer.
pub(super) const WRITER_SAMPLES: u64 = 64;
/// Under KEEP_ALL: most batches in a writer that batches. With fewer samples than a batch holds, the writer would send
/// parts of a batch and wait for each acknowledgement.
pub(super) const WRITER_BATCHES: u64 = 32;

/// The number of samples whose data fill a batch.
pub(super) fn samples_per_batch(data_len: usize) -> usize {
    (BATCH_LEN / data_len.max(1)).max(1)
}

const fn dds(path: Path, form: Form) -> SeriesRunner {
    SeriesRunner::Own(Carrier::Peregrine(Dds { path, form, batched: false, protection: None }))
}

const BATCHED: SeriesRunner =
    SeriesRunner::Own(Carrier::Peregrine(Dds { path: Path::Udp, form: Form::Values, batched: true, protection: None }));

const fn secured(protection: Protection, batched: bool) -> SeriesRunner {
    let dds = Dds { path: Path::Udp, form: Form::Values, batched, protection: Some(protection) };
    if cfg!(feature = "security") { SeriesRunner::Own(Carrier::Peregrine(dds)) } else { NO_SECURITY }
}

const fn sealing(protection: Protection, batched: bool) -> SeriesRunner {
    if cfg!(feature = "security") { SeriesRunner::Sealing(Sealing { protection, batched }) } else { NO_SECURITY }
}

const NO_SECURITY: SeriesRunner = SeriesRunner::Missing("this program was built without the feature security");

/// Name in plans, label, short label for charts (empty where the label is short), runner.
const OWN: &[(&str, &str, &str, SeriesRunner)] = &[
    ("raw-udp", "raw UDP", "", SeriesRunner::Own(Carrier::RawUdp)),
    ("peregrine", "Peregrine", "", dds(Path::Udp, Form::Values)),
    ("peregrine-batched", "Peregrine, batched", "P. batched", BATCHED),
    ("peregrine-udp-flat-data", "Peregrine, FlatData", "P. FlatData", dds(Path::Udp, Form::Flat)),
    ("peregrine-shared-memory", "Peregrine, shared memory", "P. shm", dds(Path::SharedMemory, Form::Values)),
    ("peregrine-flat-data", "Peregrine, shared memory, FlatData", "P. shm Flat", dds(Path::SharedMemory, Form::Flat)),
    (
        "peregrine-zero-copy",
        "Peregrine, shared memory, zero copy",
        "P. zero copy",
        dds(Path::SharedMemory, Form::InPlace),
    ),
    ("peregrine-same-process", "Peregrine, same process", "P. same proc.", dds(Path::SameProcess, Form::Values)),
];

/// Every series, in the order of tables: first this program's, then each variant of each peer. The sending thread is a
/// setting of the case, so variants that differ only in the thread are not separate series.
static SERIES: LazyLock<Vec<SeriesSpec>> = LazyLock::new(|| {
    let own = OWN.iter().map(|(id, label, short_label, runner)| SeriesSpec {
        id: (*id).into(),
        label: (*label).into(),
        short_label: (*short_label).into(),
        runner: *runner,
    });
    let secured = |batched| Protection::ALL.into_iter().map(move |protection| secured_series(protection, batched));
    // Without protection there is nothing to seal.
    let is_protected = |protection: &Protection| *protection != Protection::Unprotected;
    let sealing = |batched| {
        Protection::ALL.into_iter().filter(is_protected).map(move |protection| sealing_series(protection, batched))
    };
    let variants = VARIANTS.iter().chain(&SECURED_VARIANTS).filter(|variant| variant.publish == Publish::Sync);
    let peers = variants.map(|variant| SeriesSpec {
        id: variant.series_id(),
        label: variant.series_label(),
        short_label: variant.short_label(),
        runner: SeriesRunner::Peer(variant),
    });
    let ways = [false, true];
    own.chain(ways.into_iter().flat_map(secured)).chain(ways.into_iter().flat_map(sealing)).chain(peers).collect()
});

/// The end of the name of a batched series.
fn batched_suffix(batched: bool) -> &'static str {
    if batched { "-batched" } else { "" }
}

fn secured_series(protection: Protection, batched: bool) -> SeriesSpec {
    let (way, short_way) = if batched { (", batched", " batched") } else { ("", "") };
    SeriesSpec {
        id: format!("peregrine-security-{}{}", protection.id(), batched_suffix(batched)),
        label: format!("Peregrine{way}, {}", protection.label()),
        short_label: format!("P.{short_way} {}", protection.short_label()),
        runner: secured(protection, batched),
    }
}

fn sealing_series(protection: Protection, batched: bool) -> SeriesSpec {
    let (way, short_way) = if batched { (", batched", " batched") } else { ("", "") };
    SeriesSpec {
        id: format!("sealing-{}{}", protection.id(), batched_suffix(batched)),
        label: format!("seal and open only{way}: {}", protection.label()),
        short_label: format!("seal{short_way} {}", protection.short_label()),
        runner: sealing(protection, batched),
    }
}

impl SeriesSpec {
    /// All series.
    pub fn all() -> &'static [Self] {
        &SERIES
    }

    /// The series with this name.
    pub fn named(id: &str) -> Option<&'static Self> {
        SERIES.iter().find(|series| series.id == id)
    }

    /// Every series without security of the peer with this name; `None` if there is no such peer.
    pub fn of_peer(name: &str) -> Option<Vec<&'static Self>> {
        let peer = catalog::find(name)?;
        let is_of_peer = |series: &&Self| match series.runner {
            SeriesRunner::Peer(variant) => variant.peer == peer.name && variant.protection.is_none(),
            _ => false,
        };
        Some(SERIES.iter().filter(is_of_peer).collect())
    }

    /// Whether the other series are compared with this one.
    pub fn is_floor(&self) -> bool {
        self.runner == SeriesRunner::Own(Carrier::RawUdp)
    }

    /// Whether it batches samples, which requires several in flight.
    pub fn is_batched(&self) -> bool {
        match self.runner {
            SeriesRunner::Own(carrier) => matches!(carrier, Carrier::Peregrine(dds) if dds.batched),
            SeriesRunner::Peer(variant) => variant.batch,
            SeriesRunner::Sealing(sealing) => sealing.batched,
            SeriesRunner::Missing(_) => false,
        }
    }

    /// The series as a record stores it. `peer` is the description that the program of a peer gives of itself.
    pub fn describe(&self, waits: &[Wait], peer: Option<PeerFacts>) -> Series {
        let peer = match self.runner {
            SeriesRunner::Own(Carrier::Peregrine(dds)) => Some(peregrine_facts(waits, dds)),
            SeriesRunner::Own(Carrier::RawUdp) | SeriesRunner::Sealing(_) | SeriesRunner::Missing(_) => None,
            SeriesRunner::Peer(variant) => Some(peer.unwrap_or_else(|| variant.unknown_facts())),
        };
        let options = match self.runner {
            SeriesRunner::Peer(variant) => variant.options(),
            SeriesRunner::Own(Carrier::Peregrine(dds)) => {
                let own = [format!("transport={}", dds.path.name()), format!("form={}", dds.form.name())];
                own.into_iter().chain(dds.protection.map(governance_option)).collect()
            }
            SeriesRunner::Sealing(sealing) => vec!["cipher=aes-256-gcm".into(), governance_option(sealing.protection)],
            SeriesRunner::Own(Carrier::RawUdp) | SeriesRunner::Missing(_) => Vec::new(),
        };
        let (id, label, short_label) = (self.id.clone(), self.label.clone(), self.short_label.clone());
        Series { id, label, short_label, floor: self.is_floor(), options, peer: peer.map(Box::new) }
    }
}

/// The governance document of a level, as records store it.
fn governance_option(protection: Protection) -> String {
    format!("governance={}", protection.document())
}

fn peregrine_facts(waits: &[Wait], dds: Dds) -> PeerFacts {
    let waits: Vec<String> = waits.iter().map(Wait::to_string).collect();
    let path = match dds.path {
        Path::Udp => "in messages over UDP",
        Path::SharedMemory => "by shared memory; a case whose samples take another path fails",
        Path::SameProcess => "by reference within the process; a case whose samples take another path fails",
    };
    let form = match dds.form {
        Form::Values => "values are written, and read in place or decoded",
        Form::Flat => "FlatData: the writer copies every byte into loaned memory, and the reader reads it in place",
        Form::InPlace => {
            "zero copy: the checked bytes are written into loaned memory and read in place; a case with a copy fails"
        }
    };
    let mut settings = vec![
        path.into(),
        form.into(),
        "one interface: what the case runs on".into(),
        format!(
            "without a history depth, KEEP_ALL with {} or 64 MiB at the writer, so that reliable writers block",
            if dds.batched { format!("{WRITER_BATCHES} full batches") } else { format!("{WRITER_SAMPLES} samples") }
        ),
        format!("wait: {}", waits.join(" or ")),
    ];
    if dds.batched {
        settings.push(format!("batches of {BATCH_LEN} bytes"));
    }
    if let Some(protection) = dds.protection {
        settings.push(format!("DDS Security: {}, AES-256-GCM, identities on the curve P-256", protection.label()));
    }
    PeerFacts { name: "Peregrine".into(), version: env!("CARGO_PKG_VERSION").into(), settings }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::catalog::PEERS;

    #[test]
    fn series_have_unique_names_and_one_floor() {
        let mut names: Vec<_> = SERIES.iter().map(|series| &series.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SERIES.len());
        assert_eq!(SERIES.iter().filter(|series| series.is_floor()).count(), 1);
        assert_eq!(SeriesSpec::named("peregrine").map(|series| &*series.label), Some("Peregrine"));
        assert_eq!(SeriesSpec::named("nobody"), None);
        let named = |id| SeriesSpec::named(id).unwrap().describe(&[Wait::Block], None);
        assert_eq!(named("peregrine-zero-copy").options, ["transport=shared-memory", "form=zero-copy"]);
        let secured = named("peregrine-security-rtps-sign-origin-data-encrypt");
        assert_eq!(secured.options[2], "governance=RTPSSignWithOrigAuthEncryptData");
        assert!(
            secured.peer.unwrap().settings.iter().any(|setting| setting.starts_with("DDS Security: RTPS sign with"))
        );
        let batched = SeriesSpec::named("peregrine-security-rtps-encrypt-batched").unwrap();
        assert_eq!((&*batched.label, batched.is_batched()), ("Peregrine, batched, RTPS encrypt", true));
        assert!(SeriesSpec::named("sealing-rtps-encrypt-batched").unwrap().is_batched());
        assert!(!SeriesSpec::named("sealing-rtps-encrypt").unwrap().is_batched());
        let sealing = named("sealing-rtps-sign");
        assert_eq!(
            (sealing.options, sealing.peer),
            (vec!["cipher=aes-256-gcm".into(), "governance=RTPSSign".into()], None)
        );
        assert_eq!(named("peregrine-udp-flat-data").options, ["transport=udp", "form=flat-data"]);
        let settings = named("peregrine-same-process").peer.unwrap().settings;
        assert!(settings[0].starts_with("by reference within the process"), "{settings:?}");
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

//! Data types and QoS as the peers' line protocol names them.

use std::fmt;

/// A type of `interop/types.idl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// Final, without a key.
    Sample,
    /// Final, keyed by `key`.
    KeyedSample,
    /// Appendable, keyed by `key`; only for peers that have XCDR2.
    AppendableSample,
}

impl DataType {
    /// The type name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sample => "Sample",
            Self::KeyedSample => "KeyedSample",
            Self::AppendableSample => "AppendableSample",
        }
    }
}

/// RELIABILITY (DDS 1.4 §2.2.3.14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// BEST_EFFORT.
    BestEffort,
    /// RELIABLE.
    #[default]
    Reliable,
}

/// DURABILITY (DDS 1.4 §2.2.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// VOLATILE.
    #[default]
    Volatile,
    /// TRANSIENT_LOCAL.
    TransientLocal,
}

/// HISTORY (DDS 1.4 §2.2.3.18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum History {
    /// KEEP_LAST with this depth.
    KeepLast(u32),
    /// KEEP_ALL without resource limits.
    #[default]
    KeepAll,
}

/// LIVELINESS kind (DDS 1.4 §2.2.3.11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveliness {
    /// AUTOMATIC.
    #[default]
    Automatic,
    /// MANUAL_BY_PARTICIPANT.
    ManualByParticipant,
    /// MANUAL_BY_TOPIC.
    ManualByTopic,
}

/// OWNERSHIP (DDS 1.4 §2.2.3.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// SHARED.
    #[default]
    Shared,
    /// EXCLUSIVE; on a writer with this OWNERSHIP_STRENGTH.
    Exclusive(u32),
}

/// DATA_REPRESENTATION (XTYPES 1.3 §7.6.3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// XCDR version 1.
    Xcdr1,
    /// XCDR version 2.
    Xcdr2,
}

/// The number by which an incompatible policy is reported (DDS 1.4 §2.3.3, `QosPolicyId_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyId(pub u32);

impl PolicyId {
    /// DURABILITY.
    pub const DURABILITY: Self = Self(2);
    /// DEADLINE.
    pub const DEADLINE: Self = Self(4);
    /// OWNERSHIP.
    pub const OWNERSHIP: Self = Self(6);
    /// LIVELINESS.
    pub const LIVELINESS: Self = Self(8);
    /// RELIABILITY.
    pub const RELIABILITY: Self = Self(11);
}

/// The QoS of a writer or reader. The default of each field is that of the absent option in the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// RELIABILITY.
    pub reliability: Reliability,
    /// DURABILITY; the durability service's history follows [`Qos::history`].
    pub durability: Durability,
    /// HISTORY.
    pub history: History,
    /// DEADLINE; `None` is infinite.
    pub deadline_ms: Option<u32>,
    /// The kind of LIVELINESS.
    pub liveliness: Liveliness,
    /// The lease of LIVELINESS; `None` is infinite.
    pub liveliness_ms: Option<u32>,
    /// OWNERSHIP.
    pub ownership: Ownership,
    /// PARTITION of the publisher or subscriber.
    pub partitions: Vec<String>,
    /// Data tags for the permissions of DDS Security; only Peregrine's peer supports them.
    pub tags: Vec<(&'static str, &'static str)>,
    /// DATA_REPRESENTATION; `None` is the peer's default, which every peer reads.
    pub representation: Option<Representation>,
}

/// As the options of a `writer` or `reader` command, each with a space before it.
impl fmt::Display for Qos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reliability {
            Reliability::BestEffort => " reliability=best_effort",
            Reliability::Reliable => " reliability=reliable",
        })?;
        f.write_str(match self.durability {
            Durability::Volatile => " durability=volatile",
            Durability::TransientLocal => " durability=transient_local",
        })?;
        match self.history {
            History::KeepLast(depth) => write!(f, " history=keep_last depth={depth}")?,
            History::KeepAll => f.write_str(" history=keep_all")?,
        }
        if let Some(deadline_ms) = self.deadline_ms {
            write!(f, " deadline_ms={deadline_ms}")?;
        }
        f.write_str(match self.liveliness {
            Liveliness::Automatic => " liveliness=automatic",
            Liveliness::ManualByParticipant => " liveliness=manual_by_participant",
            Liveliness::ManualByTopic => " liveliness=manual_by_topic",
        })?;
        if let Some(liveliness_ms) = self.liveliness_ms {
            write!(f, " liveliness_ms={liveliness_ms}")?;
        }
        if let Ownership::Exclusive(strength) = self.ownership {
            write!(f, " ownership=exclusive strength={strength}")?;
        }
        if !self.partitions.is_empty() {
            write!(f, " partition={}", self.partitions.join(","))?;
        }
        for (at, (name, value)) in self.tags.iter().enumerate() {
            write!(f, "{}{name}:{value}", if at == 0 { " tags=" } else { "," })?;
        }
        match self.representation {
            None => Ok(()),
            Some(Representation::Xcdr1) => f.write_str(" representation=xcdr1"),
            Some(Representation::Xcdr2) => f.write_str(" representation=xcdr2"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{History, Ownership, Qos, Representation};

    #[test]
    fn default_qos_is_written_as_explicit_options() {
        let words = " reliability=reliable durability=volatile history=keep_all liveliness=automatic";
        assert_eq!(Qos::default().to_string(), words);
    }

    #[test]
    fn every_policy_is_written_as_its_option() {
        let qos = Qos {
            history: History::KeepLast(3),
            deadline_ms: Some(100),
            liveliness_ms: Some(500),
            ownership: Ownership::Exclusive(7),
            partitions: vec!["a".to_owned(), "b*".to_owned()],
            tags: vec![("n", "v"), ("m", "w")],
            representation: Some(Representation::Xcdr2),
            ..Qos::default()
        };
        let text = qos.to_string();
        for words in [
            " history=keep_last depth=3",
            " deadline_ms=100",
            " liveliness_ms=500",
            " ownership=exclusive strength=7",
            " partition=a,b*",
            " tags=n:v,m:w",
            " representation=xcdr2",
        ] {
            assert!(text.contains(words), "{words} in {text}");
        }
    }
}

//! The options of a `writer` or `reader` command as policies.

use std::time::Duration;

use anyhow::{Context, Result};
use peregrine::qos::{
    DataReaderQos, DataRepresentation, DataWriterQos, Deadline, Durability, History, Liveliness, LivelinessKind,
    Ownership, OwnershipStrength, Partition, PublisherQos, Reliability, ReliabilityKind, RepresentationId, Span,
    SubscriberQos, WriterDataLifecycle,
};

use crate::command::Command;

/// The `max_blocking_time` of writers; the peers of other vendors use the same.
const MAX_BLOCKING_TIME: Duration = Duration::from_secs(10);

/// The policies that writers and readers have in common.
pub(crate) struct EndpointQos {
    durability: Durability,
    deadline: Deadline,
    liveliness: Liveliness,
    reliability: Reliability,
    history: History,
    ownership: Ownership,
    strength: OwnershipStrength,
    partition: Partition,
    representation: DataRepresentation,
    tags: Vec<(String, String)>,
}

impl EndpointQos {
    pub(crate) fn parse(command: &Command<'_>) -> Result<Self> {
        let span = |time: Option<Duration>| time.map_or(Span::INFINITE, Span::from);
        let reliability = [("reliable", ReliabilityKind::Reliable), ("best_effort", ReliabilityKind::BestEffort)];
        let durability = [("volatile", Durability::Volatile), ("transient_local", Durability::TransientLocal)];
        let depth = command.option_number("depth")?.unwrap_or(1);
        let history = [("keep_all", History::KeepAll), ("keep_last", History::KeepLast { depth })];
        let liveliness = [
            ("automatic", LivelinessKind::Automatic),
            ("manual_by_participant", LivelinessKind::ManualByParticipant),
            ("manual_by_topic", LivelinessKind::ManualByTopic),
        ];
        let ownership = [("shared", Ownership::Shared), ("exclusive", Ownership::Exclusive)];
        let representation =
            [("", None), ("xcdr1", Some(RepresentationId::XCDR1)), ("xcdr2", Some(RepresentationId::XCDR2))];
        let partitions = command.option("partition").into_iter().flat_map(|names| names.split(','));
        let tags = command.option("tags").into_iter().flat_map(|tags| tags.split(','));
        Ok(Self {
            durability: command.choice("durability", &durability)?,
            deadline: Deadline { period: span(command.option_millis("deadline_ms")?) },
            liveliness: Liveliness {
                kind: command.choice("liveliness", &liveliness)?,
                lease_duration: span(command.option_millis("liveliness_ms")?),
            },
            reliability: Reliability {
                kind: command.choice("reliability", &reliability)?,
                max_blocking_time: MAX_BLOCKING_TIME.into(),
            },
            history: command.choice("history", &history)?,
            ownership: command.choice("ownership", &ownership)?,
            strength: OwnershipStrength(command.option_number("strength")?.unwrap_or(0)),
            partition: Partition(partitions.map(str::to_owned).collect()),
            representation: DataRepresentation(
                command.choice("representation", &representation)?.into_iter().collect(),
            ),
            tags: tags.map(tag).collect::<Result<_>>()?,
        })
    }

    /// The data tags, for the permissions of DDS Security.
    pub(crate) fn tags(&self) -> Vec<(String, String)> {
        self.tags.clone()
    }

    pub(crate) fn publisher(&self) -> PublisherQos {
        PublisherQos { partition: self.partition.clone(), ..PublisherQos::default() }
    }

    pub(crate) fn subscriber(&self) -> SubscriberQos {
        SubscriberQos { partition: self.partition.clone(), ..SubscriberQos::default() }
    }

    pub(crate) fn writer(self) -> DataWriterQos {
        DataWriterQos {
            durability: self.durability,
            deadline: self.deadline,
            liveliness: self.liveliness,
            reliability: self.reliability,
            history: self.history,
            ownership: self.ownership,
            ownership_strength: self.strength,
            writer_data_lifecycle: WriterDataLifecycle { autodispose_unregistered_instances: false },
            data_representation: self.representation,
            ..DataWriterQos::default()
        }
    }

    pub(crate) fn reader(self) -> DataReaderQos {
        DataReaderQos {
            durability: self.durability,
            deadline: self.deadline,
            liveliness: self.liveliness,
            reliability: self.reliability,
            history: self.history,
            ownership: self.ownership,
            data_representation: self.representation,
            ..DataReaderQos::default()
        }
    }
}

/// `NAME:VALUE`
fn tag(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once(':').with_context(|| format!("tag {text} has no value"))?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{Command, EndpointQos, History, ReliabilityKind, RepresentationId};

    #[test]
    fn absent_options_have_defaults_of_the_protocol() {
        let qos = EndpointQos::parse(&Command::parse("writer w Topic Sample")).unwrap().writer();
        assert_eq!(qos.reliability.kind, ReliabilityKind::Reliable);
        assert_eq!(qos.history, History::KeepAll);
        assert!(qos.data_representation.0.is_empty());
        assert!(!qos.writer_data_lifecycle.autodispose_unregistered_instances);
    }

    #[test]
    fn options_become_policies() {
        let line = "reader r Topic Sample history=keep_last depth=3 partition=a,b* representation=xcdr2";
        let qos = EndpointQos::parse(&Command::parse(line)).unwrap();
        assert_eq!(qos.subscriber().partition.0, ["a", "b*"]);
        let qos = qos.reader();
        assert_eq!(qos.history, History::KeepLast { depth: 3 });
        assert_eq!(qos.data_representation.0, [RepresentationId::XCDR2]);
        assert!(EndpointQos::parse(&Command::parse("reader r Topic Sample history=keep_some")).is_err());
    }
}

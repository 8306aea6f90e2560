//! Endpoints as access control sees them.

use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};

use crate::documents::{Action, DomainRule, EndpointRequest, SecurityMasks, TopicRule};
use crate::limits::{DATA_TAG_BYTES, DATA_TAGS, NAME_BYTES, PARTITIONS};

/// A domain.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Domain {
    /// Its number.
    pub id: u32,
    /// Its tag, empty by default.
    pub tag: String,
}

/// The use of a topic by a writer or reader.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointDescription {
    /// The name of the topic.
    pub topic: String,
    /// Its partitions; none means the empty partition.
    pub partitions: Vec<String>,
    /// Names and values of its data tags.
    pub tags: Vec<(String, String)>,
}

/// An endpoint of a peer, as discovery received it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteEndpoint {
    /// Its GUID.
    pub guid: Guid,
    /// Its use of a topic.
    pub description: EndpointDescription,
    /// The value of PID_ENDPOINT_SECURITY_INFO; `None` if the parameter is absent.
    pub masks: Option<SecurityMasks>,
    /// Whether it was announced by the protected topics of discovery.
    pub is_announced_securely: bool,
}

/// The protection of the endpoints of a topic, by the governance (EndpointSecurityConfig of DDS Security 1.2 §9.4.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointSecurity {
    /// The value of PID_ENDPOINT_SECURITY_INFO.
    pub masks: SecurityMasks,
    /// The protection of its traffic.
    pub levels: ProtectionLevels,
    /// Whether it is announced by the protected topics of discovery only.
    pub is_discovery_protected: bool,
    /// Whether its liveliness is asserted by the protected topic for liveliness only.
    pub is_liveliness_protected: bool,
    /// Whether readers need a permission.
    pub is_read_controlled: bool,
    /// Whether writers need a permission.
    pub is_write_controlled: bool,
}

impl EndpointDescription {
    /// The use of a topic in the empty partition, without tags.
    #[must_use]
    pub fn of_topic(topic: &str) -> Self {
        Self { topic: topic.to_owned(), ..Self::default() }
    }

    /// Whether all names are within the bounds of DDS and of this crate.
    pub(super) fn is_bounded(&self) -> bool {
        let is_name = |name: &String| name.len() <= NAME_BYTES;
        let is_tag = |(name, value): &(String, String)| name.len() <= DATA_TAG_BYTES && value.len() <= DATA_TAG_BYTES;
        let is_few = self.partitions.len() <= PARTITIONS && self.tags.len() <= DATA_TAGS;
        is_few && is_name(&self.topic) && self.partitions.iter().all(is_name) && self.tags.iter().all(is_tag)
    }

    /// Calls `decide` with the request of an endpoint with this use of the topic.
    pub(super) fn with_request<R>(&self, endpoint: EntityId, decide: impl FnOnce(EndpointRequest<'_>) -> R) -> R {
        let partitions: Vec<&str> = self.partitions.iter().map(String::as_str).collect();
        let tags: Vec<(&str, &str)> = self.tags.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let action = if endpoint.is_writer() { Action::Publish } else { Action::Subscribe };
        decide(EndpointRequest { action, topic: &self.topic, partitions: &partitions, tags: &tags })
    }
}

impl EndpointSecurity {
    /// The protection by these rules.
    pub(super) fn of(domain: &DomainRule, topic: &TopicRule) -> Self {
        let levels =
            ProtectionLevels { message: domain.messages, submessage: topic.submessages, payload: topic.payloads };
        Self {
            masks: topic.masks(),
            levels,
            is_discovery_protected: topic.enable_discovery_protection,
            is_liveliness_protected: topic.enable_liveliness_protection,
            is_read_controlled: topic.enable_read_access_control,
            is_write_controlled: topic.enable_write_access_control,
        }
    }

    /// The protection of a built-in endpoint whose submessages are protected in this way.
    pub(super) fn of_builtin(message: ProtectionKind, submessage: ProtectionKind) -> Self {
        let valid = 1 << 31;
        let is_set = |bit: u32, is_set: bool| if is_set { 1 << bit } else { 0 };
        let masks = SecurityMasks {
            standard: valid | is_set(3, !submessage.is_none()),
            plugin: valid | is_set(0, submessage.encrypts()) | is_set(2, submessage.authenticates_origin()),
        };
        Self {
            masks,
            levels: ProtectionLevels { message, submessage, payload: ProtectionKind::None },
            is_discovery_protected: false,
            is_liveliness_protected: false,
            is_read_controlled: false,
            is_write_controlled: false,
        }
    }

    /// Whether participants without authentication may have such endpoints of this kind. Returns what requires
    /// authentication if they may not.
    pub(super) fn open_to_all(&self, endpoint: EntityId) -> Result<(), &'static str> {
        let is_controlled = if endpoint.is_writer() { self.is_write_controlled } else { self.is_read_controlled };
        let ProtectionLevels { message, submessage, payload } = self.levels;
        let is_kind = |kind: ProtectionKind| !kind.is_none();
        let causes = [
            (is_kind(message), "rtps_protection_kind"),
            (is_kind(submessage), "metadata_protection_kind"),
            (is_kind(payload), "data_protection_kind"),
            (self.is_discovery_protected, "enable_discovery_protection"),
            (self.is_liveliness_protected, "enable_liveliness_protection"),
            (is_controlled && endpoint.is_writer(), "enable_write_access_control"),
            (is_controlled && !endpoint.is_writer(), "enable_read_access_control"),
        ];
        causes.into_iter().find(|(applies, _)| *applies).map_or(Ok(()), |(_, cause)| Err(cause))
    }
}

//! The governance document: how domains and topics are protected (DDS Security 1.2 §10.4.1.2).

use peregrine_rtps::protection::ProtectionKind;

use super::algorithms::AllowedAlgorithms;
use super::domains::DomainSet;
use super::error::{Document, DocumentError, Position, Warning};
use super::xml::{self, Element, not_empty};
use crate::pattern::Pattern;

/// A governance document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Governance {
    /// In the order of the document. The first that contains a domain applies.
    pub domain_rules: Vec<DomainRule>,
    /// Parts that other implementations understand differently.
    pub warnings: Vec<Warning>,
}

/// The protection of a set of domains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DomainRule {
    /// The domains.
    pub domains: DomainSet,
    /// Whether participants without authentication may take part, with topics that are not protected.
    pub allow_unauthenticated_participants: bool,
    /// Whether remote participants need a permission for the domain.
    pub enable_join_access_control: bool,
    /// Protection of secure discovery.
    pub discovery: ProtectionKind,
    /// Protection of secure liveliness.
    pub liveliness: ProtectionKind,
    /// Protection of messages.
    pub messages: ProtectionKind,
    /// Protection of messages with a pre-shared key, where no other key applies.
    pub pre_shared: ProtectionKind,
    /// The algorithms that are permitted; `None` for all.
    pub algorithms: Option<AllowedAlgorithms>,
    /// In the order of the document. The first that matches a topic applies.
    pub topic_rules: Vec<TopicRule>,
    /// Where the rule is.
    pub at: Position,
}

/// The protection of the topics whose names match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicRule {
    /// The names.
    pub topic: Pattern,
    /// Whether endpoints are announced by secure discovery only.
    pub enable_discovery_protection: bool,
    /// Whether the liveliness of writers is asserted by secure liveliness only.
    pub enable_liveliness_protection: bool,
    /// Whether readers need a permission.
    pub enable_read_access_control: bool,
    /// Whether writers need a permission.
    pub enable_write_access_control: bool,
    /// Protection of submessages.
    pub submessages: ProtectionKind,
    /// Protection of payloads: none, sign or encrypt.
    pub payloads: ProtectionKind,
    /// Where the rule is.
    pub at: Position,
}

/// The masks by which participants and endpoints announce their protection: of the standard, and of the plug-in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SecurityMasks {
    /// Bits of ParticipantSecurityProtectionInfo or EndpointSecurityProtectionInfo.
    pub standard: u32,
    /// Bits of the built-in plug-in.
    pub plugin: u32,
}

const KIND: &str = "NONE, SIGN, ENCRYPT, SIGN_WITH_ORIGIN_AUTHENTICATION or ENCRYPT_WITH_ORIGIN_AUTHENTICATION";
const BASIC_KIND: &str = "NONE, SIGN or ENCRYPT";
const NO_KEY_REVISION: &str = "<enable_key_revision> is true, and this implementation has no revisions of keys; set it \
                               to false";

impl Governance {
    /// Reads the XML of the document.
    ///
    /// # Errors
    /// The first part that is unknown or not permitted, with its place.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let (domain_rules, warnings) = xml::read(Document::Governance, text, |root| {
            let root = root.named("dds")?.fields(&["domain_access_rules"])?;
            let rules = root.required("domain_access_rules")?;
            let list: Result<Vec<_>, _> = rules.children(&["domain_rule"])?.into_iter().map(DomainRule::read).collect();
            not_empty(rules, "domain_rule", list?)
        })?;
        Ok(Self { domain_rules, warnings })
    }

    /// The rule for a domain.
    #[must_use]
    pub fn domain_rule(&self, domain_id: u32, domain_tag: &str) -> Option<&DomainRule> {
        self.domain_rules.iter().find(|rule| rule.domains.contains(domain_id, domain_tag))
    }
}

impl DomainRule {
    fn read(element: Element<'_, '_>) -> Result<Self, DocumentError> {
        let fields = element.fields(&[
            "domains",
            "allow_unauthenticated_participants",
            "enable_join_access_control",
            "enable_key_revision",
            "discovery_protection_kind",
            "liveliness_protection_kind",
            "rtps_protection_kind",
            "rtps_psk_protection_kind",
            "allowed_crypto_algorithms",
            "topic_access_rules",
        ])?;
        if let Some(revision) = fields.optional("enable_key_revision").filter(|field| field.boolean() != Ok(false)) {
            revision.boolean()?;
            return Err(revision.error(NO_KEY_REVISION));
        }
        let kind_of = |name| fields.required(name).and_then(kind);
        let topics = fields.required("topic_access_rules")?;
        let rules: Result<Vec<_>, _> = topics.children(&["topic_rule"])?.into_iter().map(TopicRule::read).collect();
        Ok(Self {
            domains: DomainSet::read(fields.required("domains")?)?,
            allow_unauthenticated_participants: fields.required("allow_unauthenticated_participants")?.boolean()?,
            enable_join_access_control: fields.required("enable_join_access_control")?.boolean()?,
            discovery: kind_of("discovery_protection_kind")?,
            liveliness: kind_of("liveliness_protection_kind")?,
            messages: kind_of("rtps_protection_kind")?,
            pre_shared: fields.optional("rtps_psk_protection_kind").map_or(Ok(ProtectionKind::None), basic_kind)?,
            algorithms: fields.optional("allowed_crypto_algorithms").map(AllowedAlgorithms::read).transpose()?,
            topic_rules: not_empty(topics, "topic_rule", rules?)?,
            at: element.at(),
        })
    }

    /// The rule for a topic.
    #[must_use]
    pub fn topic_rule(&self, topic: &str) -> Option<&TopicRule> {
        self.topic_rules.iter().find(|rule| rule.topic.matches(topic))
    }

    /// The masks that a participant announces (DDS Security 1.2 §7.3.22, §10.4.2.4).
    #[must_use]
    pub fn masks(&self) -> SecurityMasks {
        let standard = bits(&[
            (0, !self.messages.is_none()),
            (1, !self.discovery.is_none()),
            (2, !self.liveliness.is_none()),
            (4, !self.pre_shared.is_none()),
        ]);
        let plugin = bits(&[
            (0, self.messages.encrypts()),
            (1, self.discovery.encrypts()),
            (2, self.liveliness.encrypts()),
            (3, self.messages.authenticates_origin()),
            (4, self.discovery.authenticates_origin()),
            (5, self.liveliness.authenticates_origin()),
            (6, self.pre_shared.encrypts()),
        ]);
        SecurityMasks { standard, plugin }
    }
}

impl TopicRule {
    fn read(element: Element<'_, '_>) -> Result<Self, DocumentError> {
        let fields = element.fields(&[
            "topic_expression",
            "enable_discovery_protection",
            "enable_liveliness_protection",
            "enable_read_access_control",
            "enable_write_access_control",
            "metadata_protection_kind",
            "data_protection_kind",
        ])?;
        let boolean = |name| fields.required(name).and_then(|field| field.boolean());
        let liveliness = match fields.optional("enable_liveliness_protection") {
            Some(field) => field.boolean()?,
            None => {
                element
                    .warn("<topic_rule> has no <enable_liveliness_protection>: false; some implementations refuse it");
                false
            }
        };
        Ok(Self {
            topic: Pattern::new(&fields.required("topic_expression")?.text()?),
            enable_discovery_protection: boolean("enable_discovery_protection")?,
            enable_liveliness_protection: liveliness,
            enable_read_access_control: boolean("enable_read_access_control")?,
            enable_write_access_control: boolean("enable_write_access_control")?,
            submessages: kind(fields.required("metadata_protection_kind")?)?,
            payloads: basic_kind(fields.required("data_protection_kind")?)?,
            at: element.at(),
        })
    }

    /// The masks that an endpoint announces (DDS Security 1.2 §7.3.23, §10.4.2.6).
    #[must_use]
    pub fn masks(&self) -> SecurityMasks {
        let standard = bits(&[
            (0, self.enable_read_access_control),
            (1, self.enable_write_access_control),
            (2, self.enable_discovery_protection),
            (3, !self.submessages.is_none()),
            (4, !self.payloads.is_none()),
            (5, self.payloads.encrypts()),
            (6, self.enable_liveliness_protection),
        ]);
        let plugin = bits(&[
            (0, self.submessages.encrypts()),
            (1, self.payloads.encrypts()),
            (2, self.submessages.authenticates_origin()),
        ]);
        SecurityMasks { standard, plugin }
    }
}

/// The name of a kind in the document.
#[must_use]
pub const fn kind_name(kind: ProtectionKind) -> &'static str {
    match kind {
        ProtectionKind::None => "NONE",
        ProtectionKind::Sign => "SIGN",
        ProtectionKind::Encrypt => "ENCRYPT",
        ProtectionKind::SignWithOriginAuthentication => "SIGN_WITH_ORIGIN_AUTHENTICATION",
        ProtectionKind::EncryptWithOriginAuthentication => "ENCRYPT_WITH_ORIGIN_AUTHENTICATION",
    }
}

fn kind(element: Element<'_, '_>) -> Result<ProtectionKind, DocumentError> {
    element.value(KIND, |text| match text {
        "SIGN_WITH_ORIGIN_AUTHENTICATION" => Some(ProtectionKind::SignWithOriginAuthentication),
        "ENCRYPT_WITH_ORIGIN_AUTHENTICATION" => Some(ProtectionKind::EncryptWithOriginAuthentication),
        text => basic(text),
    })
}

fn basic_kind(element: Element<'_, '_>) -> Result<ProtectionKind, DocumentError> {
    element.value(BASIC_KIND, basic)
}

fn basic(text: &str) -> Option<ProtectionKind> {
    match text {
        "NONE" => Some(ProtectionKind::None),
        "SIGN" => Some(ProtectionKind::Sign),
        "ENCRYPT" => Some(ProtectionKind::Encrypt),
        _ => None,
    }
}

/// These bits, and the one that states that the mask is valid.
fn bits(set: &[(u32, bool)]) -> u32 {
    set.iter().filter(|(_, is_set)| *is_set).fold(1 << 31, |mask, (bit, _)| mask | 1 << bit)
}

//! Decisions by both documents (DDS Security 1.2 §10.4.3).

use core::fmt;
use std::sync::LazyLock;

use peregrine_rtps::protection::ProtectionKind;

use super::algorithms::{AllowedAlgorithms, ForbiddenAlgorithm};
use super::error::{Document, Position};
use super::governance::{DomainRule, Governance, TopicRule};
use super::permissions::{Criterion, Effect, Grant, Rule, Validity};
use super::signed::SignedText;
use crate::identity::Certificate;
use crate::pattern::Pattern;
use crate::wall_time::WallTime;

/// The use of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Writes samples.
    Publish,
    /// Reads samples.
    Subscribe,
    /// Passes samples on without reading their payloads.
    Relay,
}

/// How the partitions of an endpoint are compared with those of a rule that allows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PartitionMatching {
    /// All partitions of the endpoint must be in the rule.
    #[default]
    All,
    /// One of them must be, as in versions of DDS Security before 1.1 (DDS Security 1.2 §10.4.1.5.3.4.1.4).
    Any,
}

/// An endpoint for which permission is requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointRequest<'a> {
    /// Its use of the topic.
    pub action: Action,
    /// Its topic.
    pub topic: &'a str,
    /// Its partitions; none means the empty partition.
    pub partitions: &'a [&'a str],
    /// Names and values of its data tags.
    pub tags: &'a [(&'a str, &'a str)],
}

/// The rights of one participant in one domain.
#[derive(Clone, Copy, Debug)]
pub struct AccessControl<'a> {
    domain_id: u32,
    domain_tag: &'a str,
    governance: &'a DomainRule,
    grant: &'a Grant,
    matching: PartitionMatching,
}

/// The topic of the log.
pub const LOG_TOPIC: &str = "DDS:Security:LogTopicV2";
/// The topic of the log in versions of DDS Security before 1.2.
pub const LEGACY_LOG_TOPIC: &str = "DDS:Security:LogTopic";

/// The rule for the topic of the log (DDS Security 1.2 §10.6): all may write, and readers need a permission.
static LOG_RULE: LazyLock<TopicRule> = LazyLock::new(|| TopicRule {
    topic: Pattern::new(LOG_TOPIC),
    enable_discovery_protection: false,
    enable_liveliness_protection: false,
    enable_read_access_control: true,
    enable_write_access_control: false,
    submessages: ProtectionKind::Sign,
    payloads: ProtectionKind::Encrypt,
    // The rule is in no document.
    at: Position { line: 0, column: 0 },
});

/// Why something is permitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grounds {
    /// The governance requires no permission for it; the place of the rule.
    NotControlled(Position),
    /// A rule allows it; the place of the rule or criterion.
    Allowed(Position),
    /// No rule of the grant matches, and its default allows it; the place of the grant.
    Default(Position),
}

/// Why something is not permitted: the document, the rule, and what to add.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denial {
    /// The document that decided.
    pub document: Document,
    /// The name of the grant, if the permissions decided.
    pub grant: Option<String>,
    /// The index of the rule in its grant, from 1, if a rule decided.
    pub rule: Option<usize>,
    /// The place of the rule, grant or domain rule that decided.
    pub at: Option<Position>,
    /// The denied request, and the reason.
    pub what: String,
    /// A change of the document that would permit it.
    pub remedy: String,
}

impl<'a> AccessControl<'a> {
    /// The rights by a grant, in a domain with this id and tag.
    ///
    /// # Errors
    /// The governance has no rule for the domain.
    pub fn new(
        governance: &'a Governance,
        grant: &'a Grant,
        domain_id: u32,
        domain_tag: &'a str,
        matching: PartitionMatching,
    ) -> Result<Self, Denial> {
        let governance = governance.domain_rule(domain_id, domain_tag).ok_or_else(|| Denial {
            document: Document::Governance,
            grant: None,
            rule: None,
            at: None,
            what: format!("no <domain_rule> contains domain {domain_id}{}", with_tag(domain_tag)),
            remedy: remedy_without_rule(governance, domain_id, domain_tag),
        })?;
        Ok(Self { domain_id, domain_tag, governance, grant, matching })
    }

    /// The rule of the governance for this domain.
    #[must_use]
    pub const fn domain_rule(&self) -> &'a DomainRule {
        self.governance
    }

    /// Whether the participant may take part in the domain at this time.
    ///
    /// # Errors
    /// Why not.
    pub fn may_join(&self, now: WallTime) -> Result<Grounds, Denial> {
        self.check_validity(now)?;
        if !self.governance.enable_join_access_control {
            return Ok(Grounds::NotControlled(self.governance.at));
        }
        let rules = self.grant.rules.iter().enumerate();
        let mut rules = rules.filter(|(_, rule)| rule.domains.contains(self.domain_id, self.domain_tag));
        let what = format!("participants in domain {}{}", self.domain_id, with_tag(self.domain_tag));
        let domains = format!("<id>{}</id>{}", self.domain_id, tag_element(self.domain_tag));
        let remedy = format!("add an <allow_rule> with <domains>{domains}</domains>");
        let first = rules.next();
        if let Some((_, rule)) = first.filter(|(_, rule)| rule.effect == Effect::Allow) {
            return Ok(Grounds::Allowed(rule.at));
        }
        // Rules that deny topics leave the domain to the next rule that denies it, or to the default.
        let denying = first.into_iter().chain(rules).take_while(|(_, rule)| rule.effect == Effect::Deny);
        match denying.into_iter().find(|(_, rule)| rule.is_about_the_domain()) {
            Some((index, rule)) => Err(self.denied_by(index, rule, &what, remedy)),
            None => self.by_default(&what, remedy),
        }
    }

    /// Whether an endpoint of the participant may exist at this time.
    ///
    /// # Errors
    /// Why not.
    pub fn may(&self, request: EndpointRequest<'_>, now: WallTime) -> Result<Grounds, Denial> {
        self.check_validity(now)?;
        let topic_rule = self.topic_rule(request.topic)?;
        let is_controlled = match request.action {
            Action::Publish => topic_rule.enable_write_access_control,
            Action::Subscribe | Action::Relay => topic_rule.enable_read_access_control,
        };
        if !is_controlled {
            return Ok(Grounds::NotControlled(topic_rule.at));
        }
        let what = self.described(request);
        for (index, rule) in self.grant.rules.iter().enumerate() {
            if !rule.domains.contains(self.domain_id, self.domain_tag) {
                continue;
            }
            let criteria = match request.action {
                Action::Publish => &rule.publish,
                Action::Subscribe => &rule.subscribe,
                Action::Relay => &rule.relay,
            };
            let Some(criterion) = criteria.iter().find(|c| self.matches(rule.effect, c, request)) else { continue };
            return match rule.effect {
                Effect::Allow => Ok(Grounds::Allowed(criterion.at)),
                Effect::Deny => Err(self.denied_by(index, rule, &what, self.remedy(request))),
            };
        }
        self.by_default(&what, self.remedy(request))
    }

    /// Whether the participant may write or read a topic in some partition with some tags, so that the topic may exist
    /// at this time.
    ///
    /// # Errors
    /// Why not: the denial of the writer, without partitions and tags.
    pub fn may_use_topic(&self, topic: &str, now: WallTime) -> Result<Grounds, Denial> {
        self.check_validity(now)?;
        let request = |action| EndpointRequest { action, topic, partitions: &[], tags: &[] };
        let rule = self.topic_rule(topic)?;
        if !rule.enable_read_access_control || !rule.enable_write_access_control {
            return Ok(Grounds::NotControlled(rule.at));
        }
        let allows =
            |rule: &&Rule| rule.effect == Effect::Allow && rule.domains.contains(self.domain_id, self.domain_tag);
        let criteria =
            self.grant.rules.iter().filter(allows).flat_map(|rule| rule.publish.iter().chain(&rule.subscribe));
        let mut naming = criteria.filter(|criterion| criterion.topics.iter().any(|pattern| pattern.matches(topic)));
        match naming.next() {
            Some(criterion) => Ok(Grounds::Allowed(criterion.at)),
            None => self
                .may(request(Action::Publish), now)
                .or_else(|denial| self.may(request(Action::Subscribe), now).map_err(|_| denial)),
        }
    }

    /// The rule of the governance for a topic. That for the topic of the log is the same under each governance.
    ///
    /// # Errors
    /// There is none.
    pub fn topic_rule(&self, topic: &str) -> Result<&'a TopicRule, Denial> {
        if matches!(topic, LOG_TOPIC | LEGACY_LOG_TOPIC) {
            return Ok(&LOG_RULE);
        }
        self.governance.topic_rule(topic).ok_or_else(|| Denial {
            document: Document::Governance,
            grant: None,
            rule: None,
            at: Some(self.governance.at),
            what: format!("no <topic_rule> of the <domain_rule> matches topic `{topic}`"),
            remedy: format!("add a <topic_rule> with <topic_expression>{topic}</topic_expression>"),
        })
    }

    /// Nothing is permitted by a grant outside its validity, not even what needs no permission.
    fn check_validity(&self, now: WallTime) -> Result<(), Denial> {
        let Grant { validity, name, at, .. } = self.grant;
        if validity.includes(now) {
            return Ok(());
        }
        let Validity { not_before, not_after } = validity;
        Err(Denial {
            document: Document::Permissions,
            grant: Some(name.clone()),
            rule: None,
            at: Some(*at),
            what: format!("valid from {not_before} to {not_after}, not at {now}"),
            remedy: "let the authority sign a new <validity>".to_owned(),
        })
    }

    fn matches(&self, effect: Effect, criterion: &Criterion, request: EndpointRequest<'_>) -> bool {
        let EndpointRequest { topic, partitions, tags, .. } = request;
        let empty = [""];
        let partitions = if partitions.is_empty() { &empty } else { partitions };
        let is_listed = |tag: &(&str, &str)| {
            criterion.data_tags.iter().flatten().any(|(name, value)| (name.as_str(), value.as_str()) == *tag)
        };
        if !criterion.topics.iter().any(|pattern| pattern.matches(topic)) {
            return false;
        }
        match effect {
            Effect::Allow => {
                let covered = |partition: &&str| match &criterion.partitions {
                    Some(patterns) => patterns.iter().any(|pattern| pattern.covers(partition)),
                    None => partition.is_empty(),
                };
                let has_partitions = match self.matching {
                    PartitionMatching::All => partitions.iter().all(covered),
                    PartitionMatching::Any => partitions.iter().any(covered),
                };
                has_partitions && tags.iter().all(is_listed)
            }
            Effect::Deny => {
                let concerned = |partition: &&str| match &criterion.partitions {
                    Some(patterns) => patterns.iter().any(|pattern| pattern.intersects(partition)),
                    None => true,
                };
                partitions.iter().any(concerned) && (criterion.data_tags.is_none() || tags.iter().any(is_listed))
            }
        }
    }

    fn by_default(&self, what: &str, remedy: String) -> Result<Grounds, Denial> {
        match self.grant.default {
            Effect::Allow => Ok(Grounds::Default(self.grant.at)),
            Effect::Deny => Err(Denial {
                document: Document::Permissions,
                grant: Some(self.grant.name.clone()),
                rule: None,
                at: Some(self.grant.at),
                what: format!("no rule allows {what}, and the default is DENY"),
                remedy,
            }),
        }
    }

    fn denied_by(&self, index: usize, rule: &Rule, what: &str, remedy: String) -> Denial {
        Denial {
            document: Document::Permissions,
            grant: Some(self.grant.name.clone()),
            rule: Some(index + 1),
            at: Some(rule.at),
            what: format!("a <deny_rule> denies {what}"),
            remedy: format!("{remedy}, ahead of this rule"),
        }
    }

    fn described(&self, EndpointRequest { action, topic, partitions, tags }: EndpointRequest<'_>) -> String {
        let verb = match action {
            Action::Publish => "publishing",
            Action::Subscribe => "subscribing to",
            Action::Relay => "relaying",
        };
        let mut out = format!("{verb} topic `{topic}`");
        let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        if !partitions.is_empty() {
            out += &format!(" in partitions {}", quoted(partitions));
        }
        if !tags.is_empty() {
            let tags: Vec<String> = tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
            out += &format!(" with tags {}", tags.join(", "));
        }
        out + &format!(" in domain {}{}", self.domain_id, with_tag(self.domain_tag))
    }

    fn remedy(&self, EndpointRequest { action, topic, partitions, tags }: EndpointRequest<'_>) -> String {
        let element = match action {
            Action::Publish => "publish",
            Action::Subscribe => "subscribe",
            Action::Relay => "relay",
        };
        let mut criterion = format!("<topics><topic>{}</topic></topics>", escaped(topic));
        if !partitions.is_empty() {
            let list: String =
                partitions.iter().map(|name| format!("<partition>{}</partition>", escaped(name))).collect();
            criterion += &format!("<partitions>{list}</partitions>");
        }
        if !tags.is_empty() {
            let tag = |(name, value): &(&str, &str)| {
                format!("<tag><name>{}</name><value>{}</value></tag>", escaped(name), escaped(value))
            };
            criterion += &format!("<data_tags>{}</data_tags>", tags.iter().map(tag).collect::<String>());
        }
        let domain = self.domain_id;
        format!("add <{element}>{criterion}</{element}> to an <allow_rule> for domain {domain}")
    }
}

fn with_tag(tag: &str) -> String {
    if tag.is_empty() { String::new() } else { format!(" with tag `{tag}`") }
}

/// The element of a set of domains that names the tag of the domain.
fn tag_element(tag: &str) -> String {
    if tag.is_empty() { String::new() } else { format!("<tag>{}</tag>", escaped(tag)) }
}

/// The change of a governance without a rule for the domain that adds one.
fn remedy_without_rule(governance: &Governance, domain_id: u32, domain_tag: &str) -> String {
    let element = tag_element(domain_tag);
    let with_id = governance.domain_rules.iter().find(|rule| rule.domains.has_id(domain_id));
    match with_id.map(|rule| rule.at.line) {
        None => format!("add <id>{domain_id}</id>{element} to the <domains> of a <domain_rule>"),
        Some(line) if element.is_empty() => format!(
            "the rule in line {line} is for domains with a tag: add a <domain_rule> with \
             <domains><id>{domain_id}</id></domains>"
        ),
        Some(line) => format!("add {element} to the <domains> of the <domain_rule> in line {line}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Whether the governance permits the key of a participant's certificate.
///
/// # Errors
/// The element that does not list its algorithm, and what to add.
pub fn check_certificate(algorithms: &AllowedAlgorithms, leaf: &Certificate) -> Result<(), Denial> {
    let key = leaf.public_key().kind();
    algorithms
        .check_key(key)
        .map_err(|forbidden| denied(forbidden, &format!("the certificate has a key that is {key}")))
}

/// Whether the governance permits the signature of a document.
///
/// # Errors
/// The element that does not list its algorithm, and what to add.
pub fn check_document(algorithms: &AllowedAlgorithms, document: Document, signed: &SignedText) -> Result<(), Denial> {
    let SignedText { key, algorithm, .. } = signed;
    let subject = format!("the {document} document is signed by {algorithm} with a key that is {key}");
    algorithms.check_trust_chain(*key, *algorithm).map_err(|forbidden| denied(forbidden, &subject))
}

fn denied(forbidden: ForbiddenAlgorithm, subject: &str) -> Denial {
    let ForbiddenAlgorithm { algorithm, element, at } = forbidden;
    Denial {
        document: Document::Governance,
        grant: None,
        rule: None,
        at: Some(at),
        what: format!("{subject}, which <{element}> does not permit"),
        remedy: format!("add {algorithm} to <{element}> of <allowed_crypto_algorithms>, or use another key"),
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.document)?;
        if let Some(at) = self.at {
            write!(f, ":{at}")?;
        }
        if let Some(grant) = &self.grant {
            write!(f, ": grant `{grant}`")?;
        }
        if let Some(rule) = self.rule {
            write!(f, ", rule {rule}")?;
        }
        write!(f, ": {}; {}", self.what, self.remedy)
    }
}

impl core::error::Error for Denial {}

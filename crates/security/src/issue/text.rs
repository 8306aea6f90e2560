//! The XML of governance and permissions documents, in the form that all known implementations accept: all elements in
//! the order of the schema, ranges with both ends, and names as RFC 4514 has them.

use core::fmt::Write;

use peregrine_rtps::protection::ProtectionKind;

use crate::documents::{Effect, kind_name};
use crate::wall_time::WallTime;

/// A governance document with one rule for a range of domains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GovernanceText {
    /// The domains.
    pub domains: DomainText,
    /// Whether participants without authentication may take part in what is not protected.
    pub allow_unauthenticated_participants: bool,
    /// Whether participants need a permission for the domain.
    pub enable_join_access_control: bool,
    /// Protection of secure discovery.
    pub discovery: ProtectionKind,
    /// Protection of secure liveliness.
    pub liveliness: ProtectionKind,
    /// Protection of messages.
    pub messages: ProtectionKind,
    /// The first that matches a topic applies.
    pub topics: Vec<TopicText>,
}

/// A range of domains, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainText {
    /// The first domain.
    pub first: u32,
    /// The last domain.
    pub last: u32,
}

/// The protection of topics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicText {
    /// The names: a pattern.
    pub topic: String,
    /// Whether endpoints are announced by secure discovery only.
    pub enable_discovery_protection: bool,
    /// Whether liveliness is asserted by secure liveliness only.
    pub enable_liveliness_protection: bool,
    /// Whether readers need a permission.
    pub enable_read_access_control: bool,
    /// Whether writers need a permission.
    pub enable_write_access_control: bool,
    /// Protection of submessages.
    pub submessages: ProtectionKind,
    /// Protection of payloads. Origin authentication does not exist there, and is left out.
    pub payloads: ProtectionKind,
}

/// A permissions document.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PermissionsText {
    /// One for each participant.
    pub grants: Vec<GrantText>,
}

/// The rights of one participant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantText {
    /// Its name in the document.
    pub name: String,
    /// The name of the certificate, as RFC 4514 has it: the text of
    /// [`Certificate::subject`](crate::identity::Certificate::subject).
    pub subject: String,
    /// The first second of the validity.
    pub from: WallTime,
    /// The last second.
    pub until: WallTime,
    /// The first that matches decides.
    pub rules: Vec<RuleText>,
    /// The decision if no rule matches.
    pub default: Effect,
}

/// A rule of a grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleText {
    /// Whether matches are allowed or denied.
    pub effect: Effect,
    /// The domains.
    pub domains: DomainText,
    /// Patterns of topics to write; none for no such element.
    pub publish: Vec<String>,
    /// Patterns of topics to read; none for no such element.
    pub subscribe: Vec<String>,
    /// Patterns of partitions; none for the default.
    pub partitions: Vec<String>,
}

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

impl GovernanceText {
    /// The document, without a signature.
    #[must_use]
    pub fn to_xml(&self) -> String {
        let mut xml = Xml(format!("{HEAD}<dds>\n  <domain_access_rules>\n    <domain_rule>\n"));
        xml.domains(6, self.domains);
        xml.value(6, "allow_unauthenticated_participants", self.allow_unauthenticated_participants);
        xml.value(6, "enable_join_access_control", self.enable_join_access_control);
        xml.value(6, "discovery_protection_kind", kind_name(self.discovery));
        xml.value(6, "liveliness_protection_kind", kind_name(self.liveliness));
        xml.value(6, "rtps_protection_kind", kind_name(self.messages));
        xml.line(6, "<topic_access_rules>");
        for topic in &self.topics {
            xml.line(8, "<topic_rule>");
            xml.value(10, "topic_expression", escaped(&topic.topic));
            xml.value(10, "enable_discovery_protection", topic.enable_discovery_protection);
            xml.value(10, "enable_liveliness_protection", topic.enable_liveliness_protection);
            xml.value(10, "enable_read_access_control", topic.enable_read_access_control);
            xml.value(10, "enable_write_access_control", topic.enable_write_access_control);
            xml.value(10, "metadata_protection_kind", kind_name(topic.submessages));
            xml.value(10, "data_protection_kind", kind_name(without_origin(topic.payloads)));
            xml.line(8, "</topic_rule>");
        }
        xml.line(6, "</topic_access_rules>");
        xml.0 + "    </domain_rule>\n  </domain_access_rules>\n</dds>\n"
    }
}

impl PermissionsText {
    /// The document, without a signature.
    #[must_use]
    pub fn to_xml(&self) -> String {
        let mut xml = Xml(format!("{HEAD}<dds>\n  <permissions>\n"));
        for grant in &self.grants {
            xml.line(4, &format!("<grant name=\"{}\">", escaped(&grant.name)));
            xml.value(6, "subject_name", escaped(&grant.subject));
            xml.line(6, "<validity>");
            for (name, at) in [("not_before", grant.from), ("not_after", grant.until)] {
                xml.value(8, name, at);
            }
            xml.line(6, "</validity>");
            for rule in &grant.rules {
                xml.rule(rule);
            }
            xml.value(6, "default", if grant.default == Effect::Allow { "ALLOW" } else { "DENY" });
            xml.line(4, "</grant>");
        }
        xml.0 + "  </permissions>\n</dds>\n"
    }
}

struct Xml(String);

impl Xml {
    fn line(&mut self, indent: usize, text: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{:indent$}{text}", "");
    }

    fn value(&mut self, indent: usize, name: &str, value: impl core::fmt::Display) {
        self.line(indent, &format!("<{name}>{value}</{name}>"));
    }

    fn domains(&mut self, indent: usize, DomainText { first, last }: DomainText) {
        let range = format!("<id_range><min>{first}</min><max>{last}</max></id_range>");
        self.line(indent, &format!("<domains>{range}</domains>"));
    }

    fn rule(&mut self, rule: &RuleText) {
        let name = if rule.effect == Effect::Allow { "allow_rule" } else { "deny_rule" };
        self.line(6, &format!("<{name}>"));
        self.domains(8, rule.domains);
        for (element, topics) in [("publish", &rule.publish), ("subscribe", &rule.subscribe)] {
            if topics.is_empty() {
                continue;
            }
            self.line(8, &format!("<{element}>"));
            self.list(10, "topics", "topic", topics);
            if !rule.partitions.is_empty() {
                self.list(10, "partitions", "partition", &rule.partitions);
            }
            self.line(8, &format!("</{element}>"));
        }
        self.line(6, &format!("</{name}>"));
    }

    fn list(&mut self, indent: usize, name: &str, item: &str, values: &[String]) {
        self.line(indent, &format!("<{name}>"));
        values.iter().for_each(|value| self.value(indent.saturating_add(2), item, escaped(value)));
        self.line(indent, &format!("</{name}>"));
    }
}

const fn without_origin(kind: ProtectionKind) -> ProtectionKind {
    match kind {
        ProtectionKind::SignWithOriginAuthentication => ProtectionKind::Sign,
        ProtectionKind::EncryptWithOriginAuthentication => ProtectionKind::Encrypt,
        kind => kind,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

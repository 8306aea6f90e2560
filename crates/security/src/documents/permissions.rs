//! The permissions document: the rights of participants (DDS Security 1.2 §10.4.1.5).

use super::date_time;
use super::domains::DomainSet;
use super::error::{Document, DocumentError, Position, Warning};
use super::xml::{self, Element, not_empty};
use crate::identity::{DistinguishedName, NameExpression};
use crate::pattern::Pattern;
use crate::wall_time::WallTime;

/// A permissions document.
#[derive(Clone, Debug)]
pub struct Permissions {
    /// In the order of the document.
    pub grants: Vec<Grant>,
    /// Parts that other implementations understand differently.
    pub warnings: Vec<Warning>,
}

/// The rights of one participant.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Its name in the document.
    pub name: String,
    /// The participant.
    pub subject: Subject,
    /// When the grant is valid.
    pub validity: Validity,
    /// In the order of the document. The first that matches a request decides.
    pub rules: Vec<Rule>,
    /// The decision if no rule matches.
    pub default: Effect,
    /// Where the grant is.
    pub at: Position,
}

/// The names of participants.
#[derive(Clone, Debug)]
pub enum Subject {
    /// One name.
    Name(DistinguishedName),
    /// All names that match.
    Expression(NameExpression),
}

/// A period of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// The first second.
    pub not_before: WallTime,
    /// The last second.
    pub not_after: WallTime,
}

/// The decision that follows from a match.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// The request is granted.
    Allow,
    /// The request is denied.
    Deny,
}

/// A rule of a grant.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Whether its matches are allowed or denied.
    pub effect: Effect,
    /// The domains for which it is.
    pub domains: DomainSet,
    /// Topics to write.
    pub publish: Vec<Criterion>,
    /// Topics to read.
    pub subscribe: Vec<Criterion>,
    /// Topics to pass on without reading their payloads.
    pub relay: Vec<Criterion>,
    /// Where the rule is.
    pub at: Position,
}

/// Topics with their partitions and tags.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Criterion {
    /// Names of topics.
    pub topics: Vec<Pattern>,
    /// Partitions; `None` for the default: the empty partition in a rule that allows, all in one that denies.
    pub partitions: Option<Vec<Pattern>>,
    /// Names and values of tags; `None` for the default: none in a rule that allows, any in one that denies.
    pub data_tags: Option<Vec<(String, String)>>,
    /// Where the criterion is.
    pub at: Position,
}

impl Permissions {
    /// Reads the XML of the document.
    ///
    /// # Errors
    /// The first part that is unknown or not permitted, with its place.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        let (grants, warnings) = xml::read(Document::Permissions, text, |root| {
            let permissions = root.named("dds")?.fields(&["permissions"])?.required("permissions")?;
            let grants: Result<Vec<_>, _> = permissions.children(&["grant"])?.into_iter().map(Grant::read).collect();
            not_empty(permissions, "grant", grants?)
        })?;
        Ok(Self { grants, warnings })
    }

    /// The first grant for a participant with this name that is valid at `now`.
    ///
    /// # Errors
    /// There is no grant for the name, or it is not valid at this time.
    pub fn grant_for(&self, subject: &DistinguishedName, now: WallTime) -> Result<&Grant, DocumentError> {
        let mut of_subject = self.grants.iter().filter(|grant| grant.subject.includes(subject));
        let Some(first) = of_subject.clone().next() else {
            let what = format!("no <grant> has the <subject_name> {subject}; add one");
            return Err(DocumentError::whole(Document::Permissions, what));
        };
        of_subject.find(|grant| grant.validity.includes(now)).ok_or_else(|| {
            let Validity { not_before, not_after } = first.validity;
            let what = format!("grant `{}` is valid from {not_before} to {not_after}, not at {now}", first.name);
            DocumentError { document: Document::Permissions, at: Some(first.at), what }
        })
    }
}

impl Grant {
    fn read(element: Element<'_, '_>) -> Result<Self, DocumentError> {
        let known = ["subject_name", "subject_name_expression", "validity", "allow_rule", "deny_rule", "default"];
        let (name, children) = element.named_children("name", &known)?;
        let mut subject = None;
        let mut validity = None;
        let mut default = None;
        let mut rules = Vec::new();
        for child in children {
            let is_repeated = match child.name() {
                "allow_rule" => {
                    rules.push(Rule::read(Effect::Allow, child)?);
                    false
                }
                "deny_rule" => {
                    rules.push(Rule::read(Effect::Deny, child)?);
                    false
                }
                "validity" => validity.replace(Validity::read(child)?).is_some(),
                "default" => default.replace(effect(child)?).is_some(),
                _ => subject.replace(Subject::read(child)?).is_some(),
            };
            if is_repeated {
                return Err(child.error(format!("a second <{}> in <grant>", child.name())));
            }
        }
        let missing = |what| element.error(format!("<grant> has no <{what}>"));
        let default = default.unwrap_or_else(|| {
            element.warn("<grant> has no <default>: DENY");
            Effect::Deny
        });
        Ok(Self {
            name: name.to_owned(),
            subject: subject.ok_or_else(|| missing("subject_name"))?,
            validity: validity.ok_or_else(|| missing("validity"))?,
            rules,
            default,
            at: element.at(),
        })
    }
}

impl Subject {
    fn read(element: Element<'_, '_>) -> Result<Self, DocumentError> {
        let text = element.text()?;
        let subject = if element.name() == "subject_name" {
            DistinguishedName::parse(&text).map(Self::Name)
        } else {
            NameExpression::parse(&text).map(Self::Expression)
        };
        subject.map_err(|error| element.error(format!("<{}>: {error}", element.name())))
    }

    /// Whether this is the name of a participant.
    #[must_use]
    pub fn includes(&self, name: &DistinguishedName) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Expression(expression) => expression.matches(name),
        }
    }
}

impl Validity {
    fn read(element: Element<'_, '_>) -> Result<Self, DocumentError> {
        let fields = element.fields(&["not_before", "not_after"])?;
        let time = |name| {
            let expected = "a time such as 2030-01-31T12:00:00Z";
            fields.required(name)?.value(expected, date_time::parse)
        };
        let (not_before, not_after) = (time("not_before")?, time("not_after")?);
        if not_before > not_after {
            return Err(element.error(format!("<validity> is empty: {not_before} is after {not_after}")));
        }
        Ok(Self { not_before, not_after })
    }

    /// Whether an instant is in the period.
    #[must_use]
    pub fn includes(&self, now: WallTime) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }
}

impl Rule {
    /// Whether the rule names no topic, and so decides about participants in its domains.
    #[must_use]
    pub fn is_about_the_domain(&self) -> bool {
        self.publish.is_empty() && self.subscribe.is_empty() && self.relay.is_empty()
    }

    fn read(effect: Effect, element: Element<'_, '_>) -> Result<Self, DocumentError> {
        let mut domains = None;
        let mut rule = (Vec::new(), Vec::new(), Vec::new());
        for child in element.children(&["domains", "publish", "subscribe", "relay"])? {
            match child.name() {
                "domains" if domains.is_some() => return Err(child.error("a second <domains> in one rule")),
                "domains" => domains = Some(DomainSet::read(child)?),
                "publish" => rule.0.push(Criterion::read(child)?),
                "subscribe" => rule.1.push(Criterion::read(child)?),
                _ => rule.2.push(Criterion::read(child)?),
            }
        }
        let domains = domains.ok_or_else(|| element.error(format!("<{}> has no <domains>", element.name())))?;
        let (publish, subscribe, relay) = rule;
        Ok(Self { effect, domains, publish, subscribe, relay, at: element.at() })
    }
}

impl Criterion {
    fn read(element: Element<'_, '_>) -> Result<Self, DocumentError> {
        let fields = element.fields(&["topics", "partitions", "data_tags"])?;
        let patterns = |list: Element<'_, '_>, name| {
            let patterns: Result<Vec<_>, DocumentError> =
                list.children(&[name])?.into_iter().map(|child| Ok(Pattern::new(&child.text()?))).collect();
            not_empty(list, name, patterns?)
        };
        let partitions = fields.optional("partitions").map(|list| patterns(list, "partition")).transpose()?;
        Ok(Self {
            topics: patterns(fields.required("topics")?, "topic")?,
            partitions,
            data_tags: fields.optional("data_tags").map(tags).transpose()?,
            at: element.at(),
        })
    }
}

fn tags(element: Element<'_, '_>) -> Result<Vec<(String, String)>, DocumentError> {
    let tag = |tag: Element<'_, '_>| {
        let fields = tag.fields(&["name", "value"])?;
        Ok((fields.required("name")?.text()?, fields.required("value")?.text()?))
    };
    let tags: Result<Vec<_>, DocumentError> = element.children(&["tag"])?.into_iter().map(tag).collect();
    not_empty(element, "tag", tags?)
}

fn effect(element: Element<'_, '_>) -> Result<Effect, DocumentError> {
    element.value("ALLOW or DENY", |text| match text {
        "ALLOW" => Some(Effect::Allow),
        "DENY" => Some(Effect::Deny),
        _ => None,
    })
}

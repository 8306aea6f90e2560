//! The rights that the six files of a participant give, and the faults of these files: one page of text.

use core::fmt;

use crate::documents::{
    AccessControl, AllowedAlgorithms, Criterion, Document, DocumentError, DomainRule, Effect, Governance, Grant,
    PartitionMatching, Permissions, Position, Rule, TopicRule, Warning, check_certificate, check_document, kind_name,
    open_signed, open_signed_text,
};
use crate::identity::{
    Certificate, ChainFault, MalformedCertificate, PrivateKey, PrivateKeyError, RevocationList, TrustAnchors,
};
use crate::limits::{LOCAL_DOCUMENT_BYTES, REMOTE_DOCUMENT_BYTES};
use crate::secret::Secret;
use crate::wall_time::WallTime;

/// Rules that the page shows of each document. The page states the number of the others.
const RULES_SHOWN: usize = 12;
/// An end of validity within this many seconds is worth a warning.
const SOON_SECONDS: i64 = 30 * 24 * 3600;

/// A file, as it was read. `Debug` states its length only.
#[derive(Clone, Copy)]
pub struct File<'a> {
    /// Its name, for the page.
    pub name: &'a str,
    /// Its bytes.
    pub octets: &'a [u8],
}

/// The files of a participant.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// Certificates of the authorities of identities, as PEM.
    pub identity_authorities: File<'a>,
    /// Certificates of the authorities of documents, as PEM.
    pub permissions_authorities: File<'a>,
    /// The certificate of the participant, as PEM.
    pub certificate: File<'a>,
    /// Its private key, as PEM. The page shows nothing of it.
    pub key: File<'a>,
    /// The signed governance document.
    pub governance: File<'a>,
    /// The signed permissions document.
    pub permissions: File<'a>,
    /// Revocation lists, as PEM.
    pub revocations: Option<File<'a>>,
    /// The password of the private key.
    pub password: Option<&'a Secret>,
}

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// The participant can be started; other implementations may refuse it, or it ends soon.
    Warning,
    /// The participant cannot be started.
    Error,
}

/// A fault of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The name of the file.
    pub file: String,
    /// The place in the file; `None` if the finding concerns all of it.
    pub at: Option<Position>,
    /// The fault, and what to change.
    pub what: String,
}

/// The result of a check. [`fmt::Display`] gives the page.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order of the files.
    pub findings: Vec<Finding>,
    lines: Vec<(String, String)>,
}

/// Checks the files of a participant for a domain at a time. All files are read, also when one of them is at fault.
#[must_use]
pub fn check(files: &Files<'_>, domain_id: u32, domain_tag: &str, now: WallTime) -> Report {
    let mut report = Report::default();
    let identities = report.certificates(files.identity_authorities);
    let authorities = report.certificates(files.permissions_authorities);
    let leaf = report.identity(files, identities.clone(), now);
    if identities.iter().any(|one| authorities.contains(one)) {
        report.warn(
            files.permissions_authorities,
            None,
            "the authority of documents issues identities too; older implementations then accept permissions that a \
             participant has signed itself",
        );
    }
    let governance = report.document(Document::Governance, files.governance, &authorities, Governance::parse);
    let permissions = report.document(Document::Permissions, files.permissions, &authorities, Permissions::parse);
    if files.permissions.octets.len() > REMOTE_DOCUMENT_BYTES {
        let what = format!("longer than {REMOTE_DOCUMENT_BYTES} bytes: peers may refuse it");
        report.error(files.permissions, None, what);
    }
    if let Some((governance, start)) = &governance
        && let Some(rule) = governance.domain_rule(domain_id, domain_tag)
    {
        report.governance(rule);
        if let Some(algorithms) = &rule.algorithms {
            report.algorithms(files, *start, algorithms, (&TrustAnchors::from_list(identities), &authorities), now);
        }
    }
    let grant = permissions
        .as_ref()
        .zip(leaf.as_ref())
        .and_then(|((permissions, start), leaf)| report.grant(files.permissions, permissions, *start, leaf, now));
    if let Some((governance, start)) = &governance
        && let Some(grant) = &grant
    {
        let access = AccessControl::new(governance, grant, domain_id, domain_tag, PartitionMatching::All);
        match access.and_then(|access| access.may_join(now)) {
            Ok(_) => report.line(&format!("domain {domain_id}"), "the participant may join"),
            Err(denial) => {
                let permissions_start = permissions.as_ref().and_then(|(_, start)| *start);
                let (file, start) = match denial.document {
                    Document::Governance => (files.governance, *start),
                    Document::Permissions => (files.permissions, permissions_start),
                };
                report.error(file, in_file(denial.at, start), format!("{}; {}", denial.what, denial.remedy));
            }
        }
    }
    report
}

impl Report {
    /// Whether the participant can be started.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }

    /// The lines of the page without the findings: a name, which is empty if the line continues the one before, and a
    /// text.
    pub fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    fn certificates(&mut self, file: File<'_>) -> Vec<Certificate> {
        match text(file.octets).and_then(Certificate::from_pem) {
            Ok(certificates) => certificates,
            Err(error) => {
                self.malformed(file, error);
                Vec::new()
            }
        }
    }

    fn malformed(&mut self, file: File<'_>, error: MalformedCertificate) {
        let at = match error {
            MalformedCertificate::Pem(line) => Some(beginning_of(line)),
            _ => None,
        };
        self.error(file, at, error.to_string());
    }

    /// The certificate of the participant, with its chain and its key.
    fn identity(&mut self, files: &Files<'_>, identities: Vec<Certificate>, now: WallTime) -> Option<Certificate> {
        let mut certificates = self.certificates(files.certificate);
        let key = text(files.key.octets).map_err(|_| PrivateKeyError::NoKey);
        let key = key.and_then(|key| PrivateKey::from_pem(key, files.password));
        if let Err(error) = &key {
            let at = if let PrivateKeyError::Pem(line) = error { Some(beginning_of(*line)) } else { None };
            self.error(files.key, at, error.to_string());
        }
        if certificates.is_empty() {
            return None;
        }
        let issuers = certificates.split_off(1);
        let leaf = certificates.pop()?;
        self.line("subject", &leaf.subject().to_string());
        self.line("certificate", &format!("valid from {} to {}", leaf.not_before(), leaf.not_after()));
        if key.is_ok_and(|key| !key.is_of(&leaf)) {
            self.error(files.key, None, "the key is not that of the certificate");
        }
        let mut anchors = TrustAnchors::from_list(identities);
        if let Some(file) = files.revocations {
            match text(file.octets).and_then(RevocationList::from_pem) {
                Ok(lists) => anchors.revocations = lists,
                Err(error) => self.malformed(file, error),
            }
        }
        match anchors.verify(&leaf, &issuers, now) {
            Ok(until) => self.ends(files.certificate, None, "the chain of the certificate", until, now),
            Err(error) => self.error(files.certificate, None, error.to_string()),
        }
        Some(leaf)
    }

    /// A document, and the line of the file before its text.
    fn document<D: HasWarnings>(
        &mut self,
        document: Document,
        file: File<'_>,
        authorities: &[Certificate],
        parse: impl FnOnce(&str) -> Result<D, DocumentError>,
    ) -> Option<(D, Option<u32>)> {
        let start = line_before_text(file.octets);
        let text = match open_signed(document, file.octets, authorities, LOCAL_DOCUMENT_BYTES) {
            Ok(text) => text,
            Err(error) => {
                self.error(file, error.at, error.what);
                return None;
            }
        };
        match parse(&text) {
            Ok(parsed) => {
                for warning in parsed.warnings() {
                    self.warn(file, in_file(Some(warning.at), start), &warning.what);
                }
                Some((parsed, start))
            }
            Err(error) => {
                self.error(file, in_file(error.at, start), error.what);
                None
            }
        }
    }

    fn governance(&mut self, rule: &DomainRule) {
        let DomainRule { messages, discovery, liveliness, .. } = rule;
        let [messages, discovery, liveliness] = [messages, discovery, liveliness].map(|kind| kind_name(*kind));
        self.line("protection", &format!("messages {messages}, discovery {discovery}, liveliness {liveliness}"));
        let strangers = match (rule.allow_unauthenticated_participants, rule.messages.is_none()) {
            (false, _) => "are refused",
            (true, true) => "take part in what is not protected",
            (true, false) => "are allowed, and take part in nothing, since all messages are protected",
        };
        self.line("", &format!("participants without authentication {strangers}"));
        for (index, topic) in rule.topic_rules.iter().take(RULES_SHOWN).enumerate() {
            self.line(if index == 0 { "topics" } else { "" }, &topic_line(topic));
        }
        self.more(rule.topic_rules.len());
    }

    /// Whether the governance permits the algorithms of the files. `start` is the line before its text.
    fn algorithms(
        &mut self,
        files: &Files<'_>,
        start: Option<u32>,
        algorithms: &AllowedAlgorithms,
        (identities, authorities): (&TrustAnchors, &[Certificate]),
        now: WallTime,
    ) {
        let AllowedAlgorithms { digital_signature, trust_chain, key_establishment, symmetric_cipher, .. } = algorithms;
        let lists = [
            ("keys of participants", digital_signature),
            ("signatures of authorities", trust_chain),
            ("key agreement", key_establishment),
            ("ciphers", symmetric_cipher),
        ];
        for (subject, names) in lists {
            if let Some(names) = names {
                self.line("", &format!("{subject}: {} only", names.join(", ")));
            }
        }
        let mut denials = Vec::new();
        let certificates = text(files.certificate.octets).and_then(Certificate::from_pem).unwrap_or_default();
        if let Some((leaf, issuers)) = certificates.split_first() {
            denials.extend(check_certificate(algorithms, leaf).err());
            // Other faults of the chain are in the report already.
            if let Err(error) = algorithms.verify_chain(identities, leaf, issuers, now)
                && matches!(error.fault, ChainFault::Algorithm(..))
            {
                self.error(files.certificate, None, error.to_string());
            }
        }
        for (document, file) in [(Document::Governance, files.governance), (Document::Permissions, files.permissions)] {
            let signed = open_signed_text(document, file.octets, authorities, LOCAL_DOCUMENT_BYTES);
            denials.extend(signed.ok().and_then(|signed| check_document(algorithms, document, &signed).err()));
        }
        for denial in denials {
            let what = format!("{}; {}", denial.what, denial.remedy);
            self.error(files.governance, in_file(denial.at, start), what);
        }
    }

    fn grant(
        &mut self,
        file: File<'_>,
        permissions: &Permissions,
        start: Option<u32>,
        leaf: &Certificate,
        now: WallTime,
    ) -> Option<Grant> {
        let grant = match permissions.grant_for(leaf.subject(), now) {
            Ok(grant) => grant,
            Err(error) => {
                self.error(file, in_file(error.at, start), error.what);
                return None;
            }
        };
        let validity = grant.validity;
        self.line("grant", &format!("`{}`, valid from {} to {}", grant.name, validity.not_before, validity.not_after));
        self.ends(file, in_file(Some(grant.at), start), "the grant", validity.not_after, now);
        for (index, rule) in grant.rules.iter().take(RULES_SHOWN).enumerate() {
            self.rule(index.saturating_add(1), rule);
        }
        self.more(grant.rules.len());
        self.line("", if grant.default == Effect::Allow { "all else is allowed" } else { "all else is denied" });
        Some(grant.clone())
    }

    fn rule(&mut self, number: usize, rule: &Rule) {
        let verb = if rule.effect == Effect::Allow { "allows" } else { "denies" };
        self.line("", &format!("rule {number} {verb}, in domains {}:", rule.domains));
        for (action, criteria) in [("publish", &rule.publish), ("subscribe", &rule.subscribe), ("relay", &rule.relay)] {
            for criterion in criteria.iter().take(RULES_SHOWN) {
                self.line("", &format!("  {action} {}", criterion_line(criterion)));
            }
            self.more(criteria.len());
        }
    }

    fn more(&mut self, count: usize) {
        if count > RULES_SHOWN {
            self.line("", &format!("and {} more", count.saturating_sub(RULES_SHOWN)));
        }
    }

    fn ends(&mut self, file: File<'_>, at: Option<Position>, subject: &str, until: WallTime, now: WallTime) {
        if until.0.saturating_sub(now.0) < SOON_SECONDS {
            self.warn(file, at, &format!("{subject} is valid until {until} only"));
        }
    }

    fn line(&mut self, name: &str, text: &str) {
        self.lines.push((name.to_owned(), text.to_owned()));
    }

    fn error(&mut self, file: File<'_>, at: Option<Position>, what: impl Into<String>) {
        self.find(Severity::Error, file, at, what.into());
    }

    fn warn(&mut self, file: File<'_>, at: Option<Position>, what: &str) {
        self.find(Severity::Warning, file, at, what.to_owned());
    }

    fn find(&mut self, severity: Severity, file: File<'_>, at: Option<Position>, what: String) {
        self.findings.push(Finding { severity, file: file.name.to_owned(), at, what });
    }
}

impl fmt::Debug for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({:?}, {} bytes)", self.name, self.octets.len())
    }
}

/// A document with parts that other implementations understand differently.
trait HasWarnings {
    fn warnings(&self) -> &[Warning];
}

impl HasWarnings for Governance {
    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl HasWarnings for Permissions {
    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

fn text(octets: &[u8]) -> Result<&str, MalformedCertificate> {
    core::str::from_utf8(octets).map_err(|_| MalformedCertificate::NoCertificate)
}

fn beginning_of(line: usize) -> Position {
    Position { line: u32::try_from(line).unwrap_or(u32::MAX), column: 1 }
}

/// The number of lines of a file before the text that was signed: its first line has the next number. `None` if the
/// text is not readable in the file.
fn line_before_text(octets: &[u8]) -> Option<u32> {
    let mut lines = octets.split(|octet| *octet == b'\n').map(<[u8]>::trim_ascii).enumerate();
    lines.find(|(_, line)| line.to_ascii_lowercase().starts_with(b"content-type: text/plain"))?;
    let (empty, _) = lines.find(|(_, line)| line.is_empty())?;
    u32::try_from(empty).ok()?.checked_add(1)
}

/// A place in the file, from a place in the text that was signed.
fn in_file(at: Option<Position>, start: Option<u32>) -> Option<Position> {
    at.map(|at| Position { line: at.line.saturating_add(start.unwrap_or(0)), ..at })
}

fn topic_line(rule: &TopicRule) -> String {
    let controlled = match (rule.enable_write_access_control, rule.enable_read_access_control) {
        (true, true) => "writers and readers need",
        (true, false) => "writers need",
        (false, true) => "readers need",
        (false, false) => "no endpoint needs",
    };
    let discovery = if rule.enable_discovery_protection { ", announced securely" } else { "" };
    let [submessages, payloads] = [rule.submessages, rule.payloads].map(kind_name);
    let topic = rule.topic.as_str();
    format!("`{topic}`: submessages {submessages}, payloads {payloads}{discovery}; {controlled} a permission")
}

fn criterion_line(criterion: &Criterion) -> String {
    let list = |patterns: &[crate::Pattern]| {
        let shown = patterns.iter().take(RULES_SHOWN).map(|pattern| format!("`{}`", pattern.as_str()));
        let more = patterns.len().saturating_sub(RULES_SHOWN);
        let rest = (more > 0).then(|| format!("{more} more"));
        shown.chain(rest).collect::<Vec<_>>().join(", ")
    };
    let mut out = list(&criterion.topics);
    if let Some(partitions) = &criterion.partitions {
        out += &format!(" in partitions {}", list(partitions));
    }
    if let Some(tags) = &criterion.data_tags {
        let tags = tags.iter().take(RULES_SHOWN).map(|(name, value)| format!("{name}={value}"));
        out += &format!(" with tags {}", tags.collect::<Vec<_>>().join(", "));
    }
    out
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.severity == Severity::Error { "error" } else { "warning" };
        write!(f, "{severity}: {}", self.file)?;
        if let Some(at) = self.at {
            write!(f, ":{at}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, text) in &self.lines {
            writeln!(f, "{name:12} {text}")?;
        }
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))
    }
}

#[cfg(test)]
mod tests;

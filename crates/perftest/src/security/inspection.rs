//! A page about files of DDS Security: what participants with them may do where, and what is wrong with each file.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use peregrine_security::check::{File, Files, Finding, Report, Severity, check};
use peregrine_security::identity::Certificate;
use peregrine_security::secret::Secret;

use super::{now, read};
use crate::error::Error;

/// The most files of one check.
const FILES_MAX: usize = 256;
/// More governance documents than this have fewer lines each.
const GOVERNANCES_IN_FULL: usize = 3;
/// Width of the names in the page.
const NAME_WIDTH: usize = 12;

/// In place of a file that is not there. Findings about it are left out.
const MISSING: File<'static> = File { name: "", octets: b"" };

/// The page.
pub(super) struct Page {
    pub(super) text: String,
    /// Faults that prevent the use of a file.
    pub(super) errors: usize,
}

/// A file that was read.
struct Item {
    /// Its path as the user gave it, or below the folder that the user gave.
    path: String,
    /// May be a private key.
    octets: Secret,
}

/// The kind of a file, from its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Authority,
    Certificate,
    Key,
    Revocations,
    Governance,
    Permissions,
    /// XML without a signature.
    Unsigned,
    Other,
}

#[derive(Default)]
struct Sorted {
    authorities: Vec<Item>,
    certificates: Vec<Item>,
    keys: Vec<Item>,
    revocations: Vec<Item>,
    governances: Vec<Item>,
    permissions: Vec<Item>,
    /// The password of encrypted keys.
    password: Option<Secret>,
}

/// A file of a choice.
type Field = fn(&mut Choice) -> &mut usize;

/// The files of one participant, as numbers in the lists of [`Sorted`].
#[derive(Clone, Copy, Default)]
struct Choice {
    identity_authority: usize,
    permissions_authority: usize,
    key: usize,
    permissions: usize,
}

/// Reads and checks files, and the files of folders. A file that cannot be used is part of the page. `password` is that
/// of the encrypted keys among them.
///
/// # Errors
/// A path does not exist or cannot be read, or there are too many files.
pub(super) fn inspect(paths: &[PathBuf], domain: u32, password: Option<Secret>) -> Result<Page, Error> {
    let mut findings = Findings::default();
    let mut sorted = Sorted { password, ..Sorted::default() };
    let mut unknown = Vec::new();
    for (path, is_named) in files_of(paths)? {
        let octets = match read(&path) {
            Ok(octets) => octets,
            Err(error) => {
                findings.error(&path, &error.to_string());
                continue;
            }
        };
        let kind = kind_of(octets.expose());
        let item = Item { path, octets };
        let list = match kind {
            Kind::Authority => &mut sorted.authorities,
            Kind::Certificate => &mut sorted.certificates,
            Kind::Key => &mut sorted.keys,
            Kind::Revocations => &mut sorted.revocations,
            Kind::Governance => &mut sorted.governances,
            Kind::Permissions => &mut sorted.permissions,
            Kind::Unsigned => {
                findings.error(&item.path, "the document is not signed; sign it with `openssl smime -sign -text`");
                continue;
            }
            Kind::Other if is_named => {
                findings.error(&item.path, "it is no certificate, key, revocation list or signed document");
                continue;
            }
            Kind::Other => {
                unknown.push(item.path);
                continue;
            }
        };
        list.push(item);
    }
    let mut text = format!("Domain {domain}\n");
    sorted.missing(&mut findings);
    let choices = sorted.participants(domain, &mut text, &mut findings);
    sorted.rules(domain, &choices, &mut text, &mut findings);
    if !unknown.is_empty() {
        let _ = writeln!(text, "\nNot of DDS Security: {}", unknown.join(", "));
    }
    if findings.lines.is_empty() {
        text += "\nNo fault was found.\n";
    } else {
        let _ = writeln!(text, "\n{}", findings.lines.join("\n"));
    }
    Ok(Page { text, errors: findings.errors })
}

/// The named files, and those in named folders; whether each was named itself.
fn files_of(paths: &[PathBuf]) -> Result<Vec<(String, bool)>, Error> {
    let failed = |path: &Path, error: std::io::Error| Error::Setup(format!("{}: {error}", path.display()));
    let mut files = Vec::new();
    for path in paths {
        if !std::fs::metadata(path).map_err(|error| failed(path, error))?.is_dir() {
            files.push((path.display().to_string(), true));
            continue;
        }
        let mut below = Vec::new();
        for entry in std::fs::read_dir(path).map_err(|error| failed(path, error))? {
            let entry = entry.map_err(|error| failed(path, error))?;
            if entry.path().is_file() {
                below.push((entry.path().display().to_string(), false));
            }
        }
        below.sort();
        files.append(&mut below);
    }
    if files.len() > FILES_MAX {
        return Err(Error::Setup(format!("{} files are too many to check; the limit is {FILES_MAX}.", files.len())));
    }
    Ok(files)
}

pub(super) fn kind_of(octets: &[u8]) -> Kind {
    let text = String::from_utf8_lossy(octets);
    if text.contains("PRIVATE KEY-----") {
        return Kind::Key;
    }
    if text.contains("-----BEGIN X509 CRL-----") {
        return Kind::Revocations;
    }
    if text.contains("-----BEGIN CERTIFICATE-----") {
        let first = Certificate::from_pem(&text).ok().and_then(|certificates| certificates.into_iter().next());
        let is_authority = first.is_some_and(|first| first.subject() == first.issuer());
        return if is_authority { Kind::Authority } else { Kind::Certificate };
    }
    let is_signed = text.contains("multipart/signed") || text.contains("pkcs7-mime");
    let kind = match (text.contains("<domain_access_rules"), text.contains("<permissions")) {
        (true, _) => Kind::Governance,
        (_, true) => Kind::Permissions,
        _ => return Kind::Other,
    };
    if is_signed { kind } else { Kind::Unsigned }
}

impl Sorted {
    fn missing(&self, findings: &mut Findings) {
        for (list, what) in [
            (&self.authorities, "certificate of an authority, which has issued itself"),
            (&self.certificates, "certificate of a participant"),
            (&self.keys, "private key"),
            (&self.governances, "signed governance document"),
            (&self.permissions, "signed permissions document"),
        ] {
            if list.is_empty() {
                findings.errors += 1;
                findings.lines.push(format!("error: no {what} is among the files"));
            }
        }
    }

    /// The participants, with their rights.
    fn participants(&self, domain: u32, text: &mut String, findings: &mut Findings) -> Vec<Choice> {
        let mut choices = Vec::new();
        for (number, certificate) in self.certificates.iter().enumerate() {
            let choice = self.choose(number, domain);
            let report = self.report(Some(number), choice, 0, domain);
            let name =
                |list: &[Item], index: usize| list.get(index).map_or("none".to_owned(), |item| item.path.clone());
            let _ = writeln!(
                text,
                "\n{}, key {}, permissions {}",
                certificate.path,
                name(&self.keys, choice.key),
                name(&self.permissions, choice.permissions)
            );
            write_lines(text, &report, &["subject", "certificate", "grant"], usize::MAX);
            findings.add(&report);
            choices.push(choice);
        }
        choices
    }

    /// The governance documents, each with the participants that may join the domain under it.
    fn rules(&self, domain: u32, choices: &[Choice], text: &mut String, findings: &mut Findings) {
        for (number, governance) in self.governances.iter().enumerate() {
            let _ = writeln!(text, "\n{}", governance.path);
            let lines = if self.governances.len() > GOVERNANCES_IN_FULL { 1 } else { usize::MAX };
            if choices.is_empty() {
                let choice = self.best(Choice::default(), None, number, domain);
                let report = self.report(None, choice, number, domain);
                write_lines(text, &report, &["protection", "topics"], lines);
                findings.add(&report);
            }
            let mut refused = Vec::new();
            for (participant, choice) in choices.iter().enumerate() {
                let report = self.report(Some(participant), *choice, number, domain);
                if participant == 0 {
                    write_lines(text, &report, &["protection", "topics"], lines);
                }
                if !report.is_usable() {
                    refused.push(self.certificates[participant].path.as_str());
                }
                findings.add(&report);
            }
            if !refused.is_empty() {
                let _ = writeln!(text, "  {:NAME_WIDTH$} {}", "not usable by", refused.join(", "));
            }
        }
    }

    /// The key, authorities and permissions that belong to a certificate.
    fn choose(&self, certificate: usize, domain: u32) -> Choice {
        let stem = Path::new(&self.certificates[certificate].path).file_stem();
        let stem = stem.map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
        let of_name = |list: &[Item]| {
            let is_same = |item: &Item| {
                Path::new(&item.path)
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().to_lowercase().contains(&stem))
            };
            list.iter().position(is_same).unwrap_or(0)
        };
        let first = Choice { key: of_name(&self.keys), permissions: of_name(&self.permissions), ..Choice::default() };
        self.best(first, Some(certificate), 0, domain)
    }

    /// The choice with the fewest faults: each file is replaced by the one of its kind with which fewer remain.
    fn best(&self, first: Choice, certificate: Option<usize>, governance: usize, domain: u32) -> Choice {
        let errors = |choice| {
            let report = self.report(certificate, choice, governance, domain);
            report.findings.iter().filter(|finding| finding.severity == Severity::Error).count()
        };
        let mut best = (errors(first), first);
        let fields: [(usize, Field); 4] = [
            (self.authorities.len(), |choice| &mut choice.identity_authority),
            (self.keys.len(), |choice| &mut choice.key),
            (self.authorities.len(), |choice| &mut choice.permissions_authority),
            (self.permissions.len(), |choice| &mut choice.permissions),
        ];
        for (count, field) in fields {
            for number in 0..count {
                let mut choice = best.1;
                *field(&mut choice) = number;
                let errors = errors(choice);
                if errors < best.0 {
                    best = (errors, choice);
                }
            }
        }
        best.1
    }

    fn report(&self, certificate: Option<usize>, choice: Choice, governance: usize, domain: u32) -> Report {
        fn file(list: &[Item], index: usize) -> File<'_> {
            list.get(index).map_or(MISSING, |item| File { name: &item.path, octets: item.octets.expose() })
        }
        let files = Files {
            identity_authorities: file(&self.authorities, choice.identity_authority),
            permissions_authorities: file(&self.authorities, choice.permissions_authority),
            certificate: certificate.map_or(MISSING, |number| file(&self.certificates, number)),
            key: file(&self.keys, choice.key),
            governance: file(&self.governances, governance),
            permissions: file(&self.permissions, choice.permissions),
            revocations: self.revocations.first().map(|item| File { name: &item.path, octets: item.octets.expose() }),
            password: self.password.as_ref(),
        };
        check(&files, domain, "", now())
    }
}

/// Lines of the report with these names, and up to `most` lines of each.
fn write_lines(text: &mut String, report: &Report, names: &[&str], most: usize) {
    let mut shown = usize::MAX;
    for (name, line) in report.lines() {
        shown = match name {
            "" => shown.saturating_add(1),
            name if names.contains(&name) => 1,
            _ => usize::MAX,
        };
        if shown <= most && shown < usize::MAX {
            let _ = writeln!(text, "  {name:NAME_WIDTH$} {line}");
        }
    }
}

/// Findings without repetitions.
#[derive(Default)]
struct Findings {
    lines: Vec<String>,
    errors: usize,
}

impl Findings {
    fn error(&mut self, file: &str, what: &str) {
        self.push(&Finding { severity: Severity::Error, file: file.to_owned(), at: None, what: what.to_owned() });
    }

    /// A finding without a file concerns one that is missing, which is reported already.
    fn add(&mut self, report: &Report) {
        report.findings.iter().filter(|finding| !finding.file.is_empty()).for_each(|finding| self.push(finding));
    }

    fn push(&mut self, finding: &Finding) {
        let line = finding.to_string();
        if !self.lines.contains(&line) {
            self.errors += usize::from(finding.severity == Severity::Error);
            self.lines.push(line);
        }
    }
}

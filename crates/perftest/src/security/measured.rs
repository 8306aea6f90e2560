//! The documents of measurements with DDS Security, and what a participant makes of them.

use peregrine::security::{ProtectionKind, SecurityConfig};
use peregrine_report::record::SecurityUse;
use peregrine_security::documents::kind_name;
use peregrine_security::issue::KeyChoice;

use super::PERMISSIONS_AUTHORITY;
use super::governances::GovernanceSpec;
use super::identities::{Issue, Member, issue, members};
use crate::cli::option::SecretText;
use crate::error::Error;
use crate::plan::Cipher;
use crate::protection::{Documents, Protection};

/// The documents of a measurement: of its publisher, and of its subscriber. Both may write and read these topics.
///
/// # Errors
/// The library made no key or signature.
pub(crate) fn issued(protection: Protection, topics: &[&str]) -> Result<[Documents; 2], Error> {
    let failed = |text: &str| Error::Setup(format!("The documents of a measurement cannot be made: {text}"));
    let governance =
        GovernanceSpec::named(protection.document()).copied().ok_or_else(|| failed("there is no such governance"))?;
    let topics: Vec<String> = topics.iter().map(|&topic| topic.to_owned()).collect();
    let members = members().map(|member| Member { publish: topics.clone(), subscribe: topics.clone(), ..member });
    // The clocks of two hosts may differ by hours.
    let settings = Issue { keys: KeyChoice::P256, one_authority: false, days: 2 };
    let files = issue(settings, &members, &[governance]).map_err(|error| failed(&error.to_string()))?;
    let file = |name: &str| files.iter().find(|file| file.name == name).ok_or_else(|| failed(name));
    let text = |name: &str| Ok::<String, Error>(file(name)?.text().into_owned());
    let kind = |kind| kind_name(kind).to_owned();
    let used = SecurityUse {
        governance: governance.file_name(),
        cipher: Cipher::Aes256.name().into(),
        pre_shared: kind(ProtectionKind::None),
        messages: kind(governance.messages),
        submessages: kind(governance.submessages),
        payloads: kind(governance.payloads),
        discovery: kind(governance.discovery()),
        liveliness: kind(governance.discovery()),
    };
    let own = |member: &Member| {
        Ok::<Documents, Error>(Documents {
            identity_ca: text("cacert.pem")?,
            permissions_ca: text(PERMISSIONS_AUTHORITY)?,
            certificate: text(&format!("{}.pem", member.name))?,
            private_key: SecretText::from(&*file(&format!("{}key.pem", member.name))?.text()),
            governance: text(&governance.file_name())?,
            permissions: text(&format!("signed_PerftestPermissions{}.xml", member.document))?,
            used: used.clone(),
        })
    };
    let [publisher, subscriber] = &members;
    Ok([own(publisher)?, own(subscriber)?])
}

/// The security of a participant with these documents.
pub(crate) fn config_of(documents: &Documents) -> SecurityConfig {
    let data = |text: &str| format!("data:,{text}");
    SecurityConfig::new()
        .identity_ca(data(&documents.identity_ca))
        .permissions_ca(data(&documents.permissions_ca))
        .identity_certificate(data(&documents.certificate))
        .private_key(data(documents.private_key.expose()))
        .governance(data(&documents.governance))
        .permissions(data(&documents.permissions))
}

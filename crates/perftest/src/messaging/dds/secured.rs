//! Participants with DDS Security.

use peregrine::ParticipantBuilder;
use peregrine_report::record::SecurityUse;

use crate::error::Error;
use crate::plan::TestPlan;
#[cfg(feature = "security")]
use crate::plan::{DocumentFiles, TransportKind};

/// The kind of protection of what is not protected.
#[cfg(feature = "security")]
const NO_PROTECTION: &str = "NONE";

/// The security of a participant, for the user and for the record. Contains no secret.
#[derive(Debug, Default)]
pub(super) struct Secured {
    /// How samples are protected; `None` without security.
    pub(super) used: Option<SecurityUse>,
    /// Lines of the configuration block.
    pub(super) lines: Vec<(String, String)>,
}

/// Secures the participant as the plan requests.
///
/// # Errors
/// A file cannot be used; the error names it, and what is wrong.
#[cfg(feature = "security")]
pub(super) fn secure(builder: ParticipantBuilder, plan: &TestPlan) -> Result<(ParticipantBuilder, Secured), Error> {
    let Some(own) = &plan.security else { return Ok((builder, Secured::default())) };
    let loaded = crate::security::load(own, plan.data.domain)?;
    let mut lines = own.documents.as_ref().map(lines_of).unwrap_or_default();
    let other = |authority: &String| own.documents.as_ref().is_some_and(|files| files.authority != *authority);
    if let Some(authority) = loaded.permissions_authority.filter(other) {
        lines.push(("Permissions authority file".into(), authority));
    }
    let SecurityUse { cipher, pre_shared, messages, submessages, payloads, discovery, liveliness, .. } = &loaded.used;
    lines.push(("Encryption algorithm".into(), cipher.clone()));
    let is_protected = [pre_shared, messages, submessages, payloads].into_iter().any(|kind| kind != NO_PROTECTION);
    if is_protected && plan.transport.kind == TransportKind::SharedMemory {
        let by = own.documents.as_ref().map_or("a pre-shared key", |files| &files.governance);
        let text = "samples in shared memory are not protected, and this requires that they are";
        return Err(Error::Setup(format!("-transport SHMEM cannot go with {by}: {text}")));
    }
    if own.pre_shared.is_some() {
        lines.push(("Pre-shared key".into(), pre_shared.clone()));
    }
    for (label, value) in [
        ("Messages", messages),
        ("Submessages", submessages),
        ("Payloads", payloads),
        ("Discovery", discovery),
        ("Liveliness", liveliness),
    ] {
        lines.push((label.into(), value.clone()));
    }
    lines.push(("Debug level".into(), own.debug.to_string()));
    Ok((builder.security(loaded.config), Secured { used: Some(loaded.used), lines }))
}

/// The files of a participant.
#[cfg(feature = "security")]
fn lines_of(files: &DocumentFiles) -> Vec<(String, String)> {
    [
        ("Governance file", &files.governance),
        ("Permissions file", &files.permissions),
        ("Private key file", &files.private_key),
        ("Certificate file", &files.certificate),
        ("Certificate authority file", &files.authority),
    ]
    .map(|(label, value)| (label.to_owned(), value.clone()))
    .into()
}

/// Refuses security, which this build does not have.
#[cfg(not(feature = "security"))]
pub(super) fn secure(builder: ParticipantBuilder, plan: &TestPlan) -> Result<(ParticipantBuilder, Secured), Error> {
    if plan.security.is_some() {
        let text = "DDS Security: this program was built without security; build it with the feature security";
        return Err(Error::Setup(text.into()));
    }
    Ok((builder, Secured::default()))
}

//! Participants with DDS Security.

use peregrine::ParticipantBuilder;
use peregrine_report::record::SecurityUse;

use crate::error::Error;
use crate::plan::TestPlan;
#[cfg(feature = "security")]
use crate::plan::TransportKind;

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
    let mut lines: Vec<(String, String)> = [
        ("Governance file", own.governance.clone()),
        ("Permissions file", own.permissions.clone()),
        ("Private key file", own.private_key.clone()),
        ("Certificate file", own.certificate.clone()),
        ("Certificate authority file", own.authority.clone()),
    ]
    .map(|(label, value)| (label.to_owned(), value))
    .into();
    if loaded.permissions_authority != own.authority {
        lines.push(("Permissions authority file".into(), loaded.permissions_authority));
    }
    lines.push(("Encryption algorithm".into(), own.cipher.name().into()));
    let SecurityUse { messages, submessages, payloads, discovery, liveliness, .. } = &loaded.used;
    let is_protected = [messages, submessages, payloads].into_iter().any(|kind| kind != NO_PROTECTION);
    if is_protected && plan.transport.kind == TransportKind::SharedMemory {
        let text = "samples in shared memory are not protected, and this document requires that they are";
        return Err(Error::Setup(format!("-transport SHMEM cannot go with {}: {text}", own.governance)));
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

/// Refuses security, which this build does not have.
#[cfg(not(feature = "security"))]
pub(super) fn secure(builder: ParticipantBuilder, plan: &TestPlan) -> Result<(ParticipantBuilder, Secured), Error> {
    if plan.security.is_some() {
        let text = "-secureGovernanceFile: this program was built without security; build it with the feature security";
        return Err(Error::Setup(text.into()));
    }
    Ok((builder, Secured::default()))
}

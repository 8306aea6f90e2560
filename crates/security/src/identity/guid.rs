//! The GUID prefix that a certificate implies (DDS Security 1.2 §10.3.4.1).

use aws_lc_rs::digest::{SHA256, digest};
use peregrine_rtps::id::{Guid, GuidPrefix};

use super::certificate::Certificate;

/// Half of the prefix is of the subject, half of the candidate.
const HALF: usize = 6;

/// The prefix of a participant with this certificate that would otherwise have the GUID `candidate`.
///
/// A one and 47 bits of the hash of the subject's name, then 48 bits of the hash of the candidate. A participant cannot
/// so take the GUID of a participant with another subject.
#[must_use]
pub fn adjusted_prefix(certificate: &Certificate, candidate: Guid) -> GuidPrefix {
    let hash = digest(&SHA256, &candidate.to_bytes());
    let mut prefix = [0; 12];
    let halves = subject_half(certificate).into_iter().chain(hash.as_ref().iter().copied().take(HALF));
    prefix.iter_mut().zip(halves).for_each(|(to, from)| *to = from);
    GuidPrefix(prefix)
}

/// Whether a participant with this certificate may have this prefix.
#[must_use]
pub fn is_prefix_of(certificate: &Certificate, prefix: GuidPrefix) -> bool {
    prefix.0.starts_with(&subject_half(certificate))
}

fn subject_half(certificate: &Certificate) -> [u8; HALF] {
    let hash = digest(&SHA256, certificate.subject_der());
    let mut half = [0; HALF];
    let mut before = 1;
    for (to, from) in half.iter_mut().zip(hash.as_ref()) {
        *to = before << 7 | from >> 1;
        before = *from;
    }
    half
}

//! Chains of certificates up to an authority that is trusted (RFC 5280 §6, as far as DDS Security uses it).

use core::fmt;

use super::certificate::{Authority, Certificate};
use super::public_key::{BadSignature, KeyKind, SignatureAlgorithm};
use super::revocation::RevocationList;
use crate::limits::{CHAIN_LENGTH, CHAIN_SIGNATURES};
use crate::wall_time::WallTime;

/// Authorities that are trusted, and their revocations.
#[derive(Clone, Debug, Default)]
pub struct TrustAnchors {
    /// Certificates of trusted authorities.
    pub authorities: Vec<Certificate>,
    /// Certificates of further authorities, which are trusted only through a chain to a trusted one.
    pub intermediates: Vec<Certificate>,
    /// Revocation lists of any of these authorities.
    pub revocations: Vec<RevocationList>,
}

/// Why a certificate is not accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainError {
    /// The subject of the certificate that is at fault.
    pub subject: String,
    /// Its fault.
    pub fault: ChainFault,
}

/// The fault of a certificate in a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChainFault {
    /// None of the known authorities has the name of its issuer.
    UnknownIssuer(String),
    /// Authorities with the name of its issuer are known; none of them has signed it.
    Signature(BadSignature),
    /// Its validity begins later.
    NotYetValid(WallTime),
    /// Its validity has ended.
    Expired(WallTime),
    /// The certificate issued another one, and is not that of an authority.
    NoAuthority,
    /// There are more authorities below it than it permits.
    PathLength(u8),
    /// Its key must not be used for this.
    KeyUsage(&'static str),
    /// The certificate has a critical extension that is not known.
    CriticalExtension(String),
    /// Its key is of a kind that participants do not have.
    Key(KeyKind),
    /// Its signature is of an algorithm, with a key of this kind, that the governance does not permit.
    Algorithm(KeyKind, SignatureAlgorithm),
    /// The certificate is revoked.
    Revoked,
    /// The revocation list of its issuer cannot be used.
    RevocationList(&'static str),
    /// The chain is longer than [`CHAIN_LENGTH`], or has too many candidates.
    TooLong,
}

/// Why revocation lists cannot replace the present ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnusableRevocations {
    /// There is no list. An authority that has revoked nothing issues an empty list.
    NoList,
    /// A list is not signed by its authority, or not valid.
    List {
        /// Its place among the lists, from 1.
        number: usize,
        /// Its fault, and the subject of its authority.
        error: ChainError,
    },
    /// None of the lists is by an authority that is known here.
    OtherAuthority,
}

impl TrustAnchors {
    /// Verifies the certificate of a participant: its chain to a trusted authority, all validities at `now`,
    /// revocations, and the kind of its key (RSA with 2048 bits, or EC P-256). `sent` are further certificates, which
    /// came with it. Returns the last second at which the chain is valid.
    ///
    /// # Errors
    /// The first fault of the certificate that comes nearest to acceptance.
    pub fn verify(&self, leaf: &Certificate, sent: &[Certificate], now: WallTime) -> Result<WallTime, ChainError> {
        self.verify_with(leaf, sent, now, &|_, _| true)
    }

    /// As [`Self::verify`], by signatures that `permits` the key of the issuer and the algorithm.
    pub(crate) fn verify_with(
        &self,
        leaf: &Certificate,
        sent: &[Certificate],
        now: WallTime,
        permits: &Permits<'_>,
    ) -> Result<WallTime, ChainError> {
        let key = leaf.public_key().kind();
        if !matches!(key, KeyKind::P256 | KeyKind::Rsa(2048)) {
            return Err(fault(leaf, ChainFault::Key(key)));
        }
        if leaf.key_usage().is_some_and(|usage| !usage.digital_signature()) {
            return Err(fault(leaf, ChainFault::KeyUsage("signatures")));
        }
        let mut search = Search { anchors: self, sent, now, permits, signatures: 0 };
        search.path(leaf, 0, 0)
    }

    /// Whether these revocation lists can replace the present ones: each that is by a known authority is signed by that
    /// authority and valid at `now`, and at least one is. Others may be by authorities that only peers state, and are
    /// verified together with a certificate of such a peer.
    ///
    /// # Errors
    /// The fault of the first unusable list.
    pub fn check_revocations(&self, lists: &[RevocationList], now: WallTime) -> Result<(), UnusableRevocations> {
        if lists.is_empty() {
            return Err(UnusableRevocations::NoList);
        }
        let known = || self.authorities.iter().chain(&self.intermediates);
        let mut is_concerned = false;
        for (place, list) in lists.iter().enumerate() {
            let mut verdict = Ok(());
            // Authorities may have several certificates with one name.
            for authority in known().filter(|authority| list.is_of(authority)) {
                is_concerned = true;
                verdict = check_list(list, authority, now);
                if verdict.is_ok() {
                    break;
                }
            }
            verdict.map_err(|error| UnusableRevocations::List { number: place + 1, error })?;
        }
        if is_concerned { Ok(()) } else { Err(UnusableRevocations::OtherAuthority) }
    }

    /// Certificates of authorities in a list: those that are trusted, and the ones that are only issued by them.
    ///
    /// All are trusted if none of them is self-issued.
    #[must_use]
    pub fn from_list(certificates: Vec<Certificate>) -> Self {
        let (roots, others): (Vec<_>, Vec<_>) = certificates.into_iter().partition(Certificate::is_self_issued);
        let (authorities, intermediates) = if roots.is_empty() { (others, roots) } else { (roots, others) };
        Self { authorities, intermediates, revocations: Vec::new() }
    }
}

/// Whether a signature with a key of this kind by this algorithm counts.
pub(crate) type Permits<'a> = dyn Fn(KeyKind, SignatureAlgorithm) -> bool + 'a;

struct Search<'a> {
    anchors: &'a TrustAnchors,
    sent: &'a [Certificate],
    now: WallTime,
    permits: &'a Permits<'a>,
    signatures: usize,
}

impl<'a> Search<'a> {
    /// The end of the validity of the chain from `certificate` on. There are `depth` certificates below it;
    /// `authorities` of them are of authorities and not self-issued.
    fn path(&mut self, certificate: &Certificate, depth: usize, authorities: u8) -> Result<WallTime, ChainError> {
        self.check_alone(certificate)?;
        let not_after = certificate.not_after();
        if depth > 0 && self.anchors.authorities.contains(certificate) {
            return Ok(not_after);
        }
        if depth >= CHAIN_LENGTH {
            return Err(fault(certificate, ChainFault::TooLong));
        }
        let mut error = fault(certificate, ChainFault::UnknownIssuer(certificate.issuer().to_string()));
        let TrustAnchors { authorities: trusted, intermediates, .. } = self.anchors;
        let sent: &'a [Certificate] = self.sent;
        for issuer in trusted.iter().chain(intermediates).chain(sent) {
            if issuer.subject_der() != certificate.issuer_der() || issuer == certificate {
                continue;
            }
            if self.signatures >= CHAIN_SIGNATURES {
                return Err(fault(certificate, ChainFault::TooLong));
            }
            self.signatures += 1;
            let algorithm = match certificate.verify_signed_by(issuer) {
                Ok(algorithm) => algorithm,
                Err(bad) => {
                    error = prefer(error, fault(certificate, ChainFault::Signature(bad)));
                    continue;
                }
            };
            let key = issuer.public_key().kind();
            if !(self.permits)(key, algorithm) {
                error = prefer(error, fault(certificate, ChainFault::Algorithm(key, algorithm)));
                continue;
            }
            let is_anchor = trusted.contains(issuer);
            let below = authorities.saturating_add(u8::from(depth > 0 && !certificate.is_self_issued()));
            let above = self
                .check_issuer(issuer, is_anchor, below)
                .and_then(|()| self.check_revocation(certificate, issuer))
                .and_then(|()| self.path(issuer, depth + 1, below));
            match above {
                Ok(end) => return Ok(end.min(not_after)),
                Err(found) => error = prefer(error, found),
            }
        }
        Err(error)
    }

    fn check_alone(&self, certificate: &Certificate) -> Result<(), ChainError> {
        let found = if self.now < certificate.not_before() {
            ChainFault::NotYetValid(certificate.not_before())
        } else if self.now > certificate.not_after() {
            ChainFault::Expired(certificate.not_after())
        } else if let Some(extension) = certificate.unknown_critical() {
            ChainFault::CriticalExtension(extension.to_owned())
        } else {
            return Ok(());
        };
        Err(fault(certificate, found))
    }

    fn check_issuer(&self, issuer: &Certificate, is_anchor: bool, below: u8) -> Result<(), ChainError> {
        let found = match issuer.authority() {
            // Authorities that were chosen by configuration may be of version 1, which cannot state it.
            Authority::Unstated if is_anchor => None,
            Authority::No | Authority::Unstated => Some(ChainFault::NoAuthority),
            Authority::Yes(Some(max)) if below > max => Some(ChainFault::PathLength(max)),
            Authority::Yes(_) => None,
        };
        let signs = issuer.key_usage().is_none_or(|usage| usage.key_cert_sign());
        let found = found.or_else(|| (!signs).then_some(ChainFault::KeyUsage("certificates")));
        found.map_or(Ok(()), |found| Err(fault(issuer, found)))
    }

    fn check_revocation(&self, certificate: &Certificate, issuer: &Certificate) -> Result<(), ChainError> {
        for list in self.anchors.revocations.iter().filter(|list| list.is_of(issuer)) {
            check_list(list, issuer, self.now)?;
            if list.revokes(certificate) {
                return Err(fault(certificate, ChainFault::Revoked));
            }
        }
        Ok(())
    }
}

/// Whether a revocation list is by the issuer whose name it has, and valid.
fn check_list(list: &RevocationList, issuer: &Certificate, now: WallTime) -> Result<(), ChainError> {
    if issuer.key_usage().is_some_and(|usage| !usage.crl_sign()) {
        return Err(fault(issuer, ChainFault::KeyUsage("revocation lists")));
    }
    list.check(issuer, now).map_err(|what| fault(issuer, ChainFault::RevocationList(what)))
}

/// The error of the candidate that came further.
fn prefer(old: ChainError, new: ChainError) -> ChainError {
    let rank = |error: &ChainError| match error.fault {
        ChainFault::UnknownIssuer(_) => 0,
        ChainFault::Signature(_) => 1,
        _ => 2,
    };
    if rank(&new) > rank(&old) { new } else { old }
}

fn fault(certificate: &Certificate, fault: ChainFault) -> ChainError {
    ChainError { subject: certificate.subject().to_string(), fault }
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "certificate of {}: {}", self.subject, self.fault)
    }
}

impl core::error::Error for ChainError {}

impl fmt::Display for UnusableRevocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoList => f.write_str("there is no `X509 CRL` block; state an empty list if nothing is revoked"),
            Self::List { number, error } => write!(f, "list {number}: {error}"),
            Self::OtherAuthority => f.write_str("no list is by an authority of the identity CA"),
        }
    }
}

impl core::error::Error for UnusableRevocations {}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownIssuer(issuer) => write!(f, "its issuer {issuer} is not among the authorities"),
            Self::Signature(bad) => write!(f, "not signed by the authority that it names: {bad}"),
            Self::NotYetValid(from) => write!(f, "not valid before {from}"),
            Self::Expired(end) => write!(f, "expired at {end}"),
            Self::NoAuthority => f.write_str("not that of an authority, and it issued another certificate"),
            Self::PathLength(max) => write!(f, "permits only {max} authorities below it"),
            Self::KeyUsage(what) => write!(f, "its key usage does not include {what}"),
            Self::CriticalExtension(id) => write!(f, "the critical extension {id} is not known"),
            Self::Key(kind) => write!(f, "its key is {kind}; participants have RSA with 2048 bits or EC P-256"),
            Self::Algorithm(key, algorithm) => write!(
                f,
                "signed by {algorithm} with a key that is {key}, which <allowed_crypto_algorithms> of the governance \
                 does not permit"
            ),
            Self::Revoked => f.write_str("revoked"),
            Self::RevocationList(what) => write!(f, "its revocation list {what}"),
            Self::TooLong => f.write_str("the chain of its issuers is too long"),
        }
    }
}

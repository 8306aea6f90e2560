//! The costly steps of a handshake, apart from its state: they run on any thread, and change nothing.
//!
//! | job | operations | when |
//! |---|---|---|
//! | begin | one private key | this participant begins |
//! | answer | certificate chain, document; then one private key, one signature | a request came |
//! | conclude | certificate chain, document, signature; then the agreement, one signature | a reply came |
//! | accept | one signature; then the agreement | the last message came |
//! | review | certificate chain | the revocations changed |
//! | plug-in | of the application's own authentication | its authentication asks for it |

use core::any::Any;
use core::fmt;
use std::sync::Arc;

use peregrine_rtps::id::GuidPrefix;

use super::agreement::{Coding, KeyAgreement, PrivateShare};
use super::contents::{Challenge, Credentials, Final, Hash, Reply, Request, Transcript};
use super::credential::PeerCredential;
use super::local::SharedLocal;
use super::refusal::Refusal;
use super::trust::Trust;
use crate::crypto::{KeyMaterial, exchange_key};
use crate::secret::Secret;
use crate::wall_time::WallTime;

/// A costly step of a handshake, for the thread for jobs. One of the built-in authentication takes between 10 µs and
/// some milliseconds, and draws random numbers from the operating system for its signature. An authentication of the
/// application makes its own by [`Self::of_plugin`].
pub struct Job {
    pub(super) id: JobId,
    pub(super) work: Work,
}

/// The result of a [`Job`]. There is no way to make one but to run or to drop the job, and a session takes one for each
/// job that it handed out.
pub struct JobDone {
    pub(super) id: JobId,
    pub(super) outcome: Result<Outcome, Refusal>,
}

/// Stands for a job on another thread, which may panic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobTicket(JobId);

/// Why there is no result of a job of a plug-in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NoJobResult {
    /// The job panicked, or was dropped before it ran, for example because the participant has too many jobs.
    Failed,
    /// The result is of another type, or the job is one of the built-in authentication.
    OtherType,
}

/// Which job of which peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JobId {
    pub(super) peer: GuidPrefix,
    /// Of all jobs of the authentication that made it.
    pub(super) number: u64,
    pub(super) maker: Maker,
    /// Of all jobs that a session handed out; 0 before.
    serial: u64,
}

/// The authentication that made a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Maker {
    Builtin,
    Plugin,
}

pub(super) enum Work {
    Begin { local: SharedLocal, challenge1: Challenge, seed: Secret },
    Answer(Box<Answer>),
    Conclude { local: SharedLocal, check: Check, sent: Arc<Sent>, reply: Box<Reply> },
    Accept { check: Check, candidates: Vec<ToConfirm>, last: Box<Final> },
    Review { check: Check, credential: Arc<PeerCredential> },
    Plugin(Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>),
}

/// The trust and the time by which a peer is checked.
pub(super) struct Check {
    pub(super) trust: Arc<Trust>,
    pub(super) now: WallTime,
}

pub(super) struct Answer {
    pub(super) local: SharedLocal,
    pub(super) check: Check,
    pub(super) request: Request,
    pub(super) digest: Hash,
    pub(super) challenge2: Challenge,
    pub(super) seed: Secret,
}

pub(super) enum Outcome {
    Begun(Box<Sent>),
    Answered(Box<Candidate>),
    Concluded(Box<Concluded>),
    Accepted(Box<Accepted>),
    Reviewed,
    Plugin(Box<dyn Any + Send>),
}

/// A request of this participant.
pub(super) struct Sent {
    pub(super) request: Request,
    hash1: Hash,
    share: PrivateShare,
}

impl Sent {
    /// Whether a reply may answer this request, and not an earlier one with the same challenge.
    pub(super) fn is_answered_by(&self, reply: &Reply) -> bool {
        let Request { challenge1, dh1, .. } = &self.request;
        reply.challenge1 == *challenge1 && reply.repeated.is_of(dh1, None)
    }
}

/// A request of a peer whose certificate was accepted, and the reply to it.
pub(super) struct Candidate {
    /// Of the request, as it was received.
    pub(super) digest: Hash,
    pub(super) transcript: Transcript,
    pub(super) credential: Arc<PeerCredential>,
    /// The statements of this participant in the reply and in its repetitions.
    pub(super) local: SharedLocal,
    /// How the peer names the algorithm of the agreement.
    pub(super) agreement_algorithm: Vec<u8>,
    pub(super) signature: Vec<u8>,
    share: PrivateShare,
}

/// A candidate that a last message may complete.
pub(super) struct ToConfirm {
    pub(super) candidate: Arc<Candidate>,
    /// Whether its certificate is to be verified again.
    pub(super) review: bool,
}

/// A handshake that the peer began, at its end.
pub(super) struct Accepted {
    /// The digest of the request.
    pub(super) request: Hash,
    pub(super) exchange_key: KeyMaterial,
}

/// A handshake that this participant began, at its end.
pub(super) struct Concluded {
    pub(super) credential: Arc<PeerCredential>,
    pub(super) transcript: Transcript,
    pub(super) signature: Vec<u8>,
    pub(super) exchange_key: KeyMaterial,
}

impl JobId {
    /// A job of the built-in authentication.
    pub(super) const fn of_builtin(peer: GuidPrefix, number: u64) -> Self {
        Self { peer, number, maker: Maker::Builtin, serial: 0 }
    }
}

impl Job {
    /// A costly step of an authentication of the application. The thread for jobs calls `work` once, after those of
    /// other participants that wait, and under no lock. Its result comes back in
    /// [`Authentication::handle_job_done`](crate::session::Authentication::handle_job_done), exactly once for each job
    /// that the authentication handed out by [`poll_job`](crate::session::Authentication::poll_job):
    /// [`JobDone::into_plugin_result`] returns it. A job whose `work` panics, or that cannot run, comes back without a
    /// result. `number` is returned with either; the authentication chooses it to find the handshake of the job.
    ///
    /// ```
    /// # use peregrine_rtps::id::GuidPrefix;
    /// use peregrine_security::authentication::Job;
    ///
    /// let peer = GuidPrefix([1; 12]);
    /// let job = Job::of_plugin(peer, 7, || "computed".to_owned());
    /// let done = job.run();
    /// assert_eq!((done.peer(), done.plugin_number()), (peer, Some(7)));
    /// assert_eq!(done.into_plugin_result(), Ok("computed".to_owned()));
    /// ```
    #[must_use]
    pub fn of_plugin<R: Any + Send>(peer: GuidPrefix, number: u64, work: impl FnOnce() -> R + Send + 'static) -> Self {
        let id = JobId { peer, number, maker: Maker::Plugin, serial: 0 };
        Self { id, work: Work::Plugin(Box::new(|| Box::new(work()))) }
    }

    /// The same job with its number among those that a session hands out.
    pub(crate) const fn with_serial(mut self, serial: u64) -> Self {
        self.id.serial = serial;
        self
    }

    /// The peer of the handshake.
    #[must_use]
    pub const fn peer(&self) -> GuidPrefix {
        self.id.peer
    }

    /// Does the work.
    #[must_use]
    pub fn run(self) -> JobDone {
        let peer = self.id.peer;
        let outcome = match self.work {
            Work::Begin { local, challenge1, seed } => {
                begin(&local, challenge1, &seed).map(|sent| Outcome::Begun(Box::new(sent)))
            }
            Work::Answer(answer) => answer.run(peer).map(|answered| Outcome::Answered(Box::new(answered))),
            Work::Conclude { local, check, sent, reply } => {
                conclude(&local, &check, &sent, &reply, peer).map(|done| Outcome::Concluded(Box::new(done)))
            }
            Work::Accept { check, candidates, last } => {
                accept_any(&check, &candidates, &last).map(|accepted| Outcome::Accepted(Box::new(accepted)))
            }
            Work::Review { check, credential } => {
                credential.review(&check.trust, check.now).map(|()| Outcome::Reviewed)
            }
            Work::Plugin(work) => Ok(Outcome::Plugin(work())),
        };
        JobDone { id: self.id, outcome }
    }

    /// Stands for the job while another thread has it.
    #[must_use]
    pub const fn ticket(&self) -> JobTicket {
        JobTicket(self.id)
    }

    const fn name(&self) -> &'static str {
        match self.work {
            Work::Begin { .. } => "begin",
            Work::Answer(_) => "answer",
            Work::Conclude { .. } => "conclude",
            Work::Accept { .. } => "accept",
            Work::Review { .. } => "review",
            Work::Plugin(_) => "plug-in",
        }
    }
}

impl JobDone {
    /// The peer of the handshake.
    #[must_use]
    pub const fn peer(&self) -> GuidPrefix {
        self.id.peer
    }

    /// The number that [`Job::of_plugin`] got. `None` for a job of the built-in authentication: an authentication that
    /// wraps the built-in one hands these back to it.
    #[must_use]
    pub const fn plugin_number(&self) -> Option<u64> {
        match self.id.maker {
            Maker::Plugin => Some(self.id.number),
            Maker::Builtin => None,
        }
    }

    /// The result of a job of [`Job::of_plugin`].
    ///
    /// # Errors
    /// The job has no result, or none of this type.
    pub fn into_plugin_result<R: Any>(self) -> Result<R, NoJobResult> {
        match self.outcome {
            Ok(Outcome::Plugin(result)) => result.downcast().map(|result| *result).map_err(|_| NoJobResult::OtherType),
            Ok(_) => Err(NoJobResult::OtherType),
            Err(_) if self.id.maker == Maker::Plugin => Err(NoJobResult::Failed),
            Err(_) => Err(NoJobResult::OtherType),
        }
    }

    /// The number of the job among those that a session handed out.
    pub(crate) const fn serial(&self) -> u64 {
        self.id.serial
    }
}

impl JobTicket {
    /// The result of a job that panicked: its message is refused, or its peer let go.
    #[must_use]
    pub const fn failed(self) -> JobDone {
        JobDone { id: self.0, outcome: Err(Refusal::JobFailed) }
    }
}

fn begin(local: &SharedLocal, challenge1: Challenge, seed: &Secret) -> Result<Sent, Refusal> {
    let generated = PrivateShare::generate(KeyAgreement::EcdhP256, Coding::Plain, seed);
    let (share, dh1) = generated.ok_or(Refusal::PublicKey)?;
    let credentials = local.own_credentials();
    let hash1 = credentials.hash();
    Ok(Sent { request: Request { credentials, dh1, challenge1 }, hash1, share })
}

impl Answer {
    fn run(self, peer: GuidPrefix) -> Result<Candidate, Refusal> {
        let Self { local, check, request, digest, challenge2, seed } = self;
        let Request { credentials, dh1, challenge1 } = request;
        let agreement = KeyAgreement::from_name(&credentials.agreement_algorithm).ok_or(Refusal::AgreementAlgorithm)?;
        if let Some(algorithms) = &check.trust.algorithms {
            algorithms.check_key_establishment(agreement.registered_name()).map_err(Refusal::Algorithm)?;
        }
        // Nothing below happens for a peer without an accepted certificate.
        let credential = PeerCredential::verify(&credentials, peer, &check.trust, check.now)?;
        let (share, dh2) = PrivateShare::generate(agreement, Coding::of(&dh1), &seed).ok_or(Refusal::PublicKey)?;
        let hash2 = local.credentials(&credentials.agreement_algorithm).hash();
        let transcript = Transcript { hash1: credentials.hash(), challenge1, dh1, hash2, challenge2, dh2 };
        let signature = local.sign(&credential, &transcript.reply_text())?;
        let Credentials { agreement_algorithm, .. } = credentials;
        let credential = Arc::new(credential);
        Ok(Candidate { digest, transcript, credential, local, agreement_algorithm, signature, share })
    }
}

fn conclude(
    local: &SharedLocal,
    check: &Check,
    sent: &Sent,
    reply: &Reply,
    peer: GuidPrefix,
) -> Result<Concluded, Refusal> {
    if KeyAgreement::from_name(&reply.credentials.agreement_algorithm) != Some(sent.share.agreement()) {
        return Err(Refusal::AgreementAlgorithm);
    }
    let transcript = Transcript {
        hash1: sent.hash1,
        challenge1: sent.request.challenge1,
        dh1: sent.request.dh1.clone(),
        hash2: reply.credentials.hash(),
        challenge2: reply.challenge2,
        dh2: reply.dh2.clone(),
    };
    reply.repeated.check(&transcript)?;
    let credential = PeerCredential::verify(&reply.credentials, peer, &check.trust, check.now)?;
    credential.verify_signature(&transcript.reply_text(), &reply.signature)?;
    let exchange_key = derive(&sent.share, &transcript.dh2, &transcript)?;
    let signature = local.sign(&credential, &transcript.final_text())?;
    Ok(Concluded { credential: Arc::new(credential), transcript, signature, exchange_key })
}

/// The first candidate that the message completes. Any host can repeat a request with another public key, and a last
/// message need not name the key that it is for.
fn accept_any(check: &Check, candidates: &[ToConfirm], last: &Final) -> Result<Accepted, Refusal> {
    let mut refusal = None;
    for ToConfirm { candidate, review } in candidates {
        let reviewed = if *review { candidate.credential.review(&check.trust, check.now) } else { Ok(()) };
        match reviewed.and_then(|()| accept(check.now, candidate, last)) {
            Ok(exchange_key) => return Ok(Accepted { request: candidate.digest, exchange_key }),
            Err(why) => refusal = refusal.or(Some(why)),
        }
    }
    Err(refusal.unwrap_or(Refusal::Signature))
}

fn accept(now: WallTime, candidate: &Candidate, last: &Final) -> Result<KeyMaterial, Refusal> {
    let Candidate { transcript, credential, share, .. } = candidate;
    last.repeated.check(transcript)?;
    if now > credential.valid_until() {
        return Err(Refusal::Expired);
    }
    credential.verify_signature(&transcript.final_text(), &last.signature)?;
    derive(share, &transcript.dh1, transcript)
}

fn derive(share: &PrivateShare, public: &[u8], transcript: &Transcript) -> Result<KeyMaterial, Refusal> {
    let secret = share.agree(public).ok_or(Refusal::PublicKey)?;
    Ok(exchange_key(&transcript.challenge1, &transcript.challenge2, &secret))
}

impl Candidate {
    /// Whether this may be the last message of its handshake. Several handshakes may have the same challenges.
    pub(super) fn confirms(&self, last: &Final) -> bool {
        let Transcript { challenge1, challenge2, dh1, dh2, .. } = &self.transcript;
        *challenge1 == last.challenge1 && *challenge2 == last.challenge2 && last.repeated.is_of(dh1, Some(dh2))
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").field("share", &self.share).finish_non_exhaustive()
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").field("share", &self.share).finish_non_exhaustive()
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({}, {:?})", self.name(), self.id.peer)
    }
}

impl fmt::Debug for JobDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobDone({:?}, {})", self.id.peer, if self.outcome.is_ok() { "accepted" } else { "refused" })
    }
}

impl fmt::Display for NoJobResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "the job panicked, or did not run",
            Self::OtherType => "the result of the job is of another type, or of the built-in authentication",
        })
    }
}

impl core::error::Error for NoJobResult {}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: GuidPrefix = GuidPrefix([1; 12]);

    #[test]
    fn result_of_a_plug_in_comes_back_with_its_type_only() {
        let job = || Job::of_plugin(PEER, 3, || vec![1_u8, 2]);
        assert_eq!(job().run().into_plugin_result(), Ok(vec![1_u8, 2]));
        assert_eq!(job().run().into_plugin_result::<String>(), Err(NoJobResult::OtherType));
        let failed = job().ticket().failed();
        assert_eq!((failed.peer(), failed.plugin_number()), (PEER, Some(3)));
        assert_eq!(failed.into_plugin_result::<Vec<u8>>(), Err(NoJobResult::Failed));
    }

    #[test]
    fn job_of_the_built_in_authentication_has_no_number_and_no_result_of_a_plug_in() {
        let done = |outcome| JobDone { id: JobId::of_builtin(PEER, 3), outcome };
        assert_eq!(done(Ok(Outcome::Reviewed)).plugin_number(), None);
        for outcome in [Ok(Outcome::Reviewed), Err(Refusal::JobFailed)] {
            assert_eq!(done(outcome).into_plugin_result::<()>(), Err(NoJobResult::OtherType));
        }
    }
}

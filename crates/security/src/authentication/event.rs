//! Reports of authentication, and messages to send.

use core::fmt;
use std::sync::Arc;

use peregrine_rtps::id::GuidPrefix;

use super::credential::PeerCredential;
use super::refusal::Refusal;
use crate::crypto::{ExchangeRole, KeyMaterial};
use crate::wall_time::WallTime;

/// A report of authentication.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A peer is authenticated, for the first time or again.
    Authenticated(Box<AuthenticatedPeer>),
    /// A message of a peer was refused. The handshake goes on: others may have sent it. Reported once for each attempt.
    Refused {
        /// The peer that the message names as its sender.
        peer: GuidPrefix,
        /// Why.
        refusal: Refusal,
    },
    /// A peer could not be authenticated. It is tried again when it is announced or sends a request.
    Failed {
        /// The peer.
        peer: GuidPrefix,
        /// Why.
        failure: Failure,
        /// Whether the peer may take part in what is not protected. Without effect unless the governance allows it.
        unauthenticated_allowed: bool,
    },
    /// An authenticated peer must be let go: its keys no longer count.
    Expelled {
        /// The peer.
        peer: GuidPrefix,
        /// Why.
        cause: Expulsion,
    },
}

/// The result of a handshake.
#[derive(Debug)]
pub struct AuthenticatedPeer {
    /// The peer.
    pub peer: GuidPrefix,
    /// The role of this participant.
    pub role: ExchangeRole,
    /// The key of the channel for the exchange of other keys.
    pub exchange_key: KeyMaterial,
    /// The certificate, permissions and discovery data of the peer.
    pub credential: Arc<PeerCredential>,
    /// Whether the peer was authenticated before: it has been restarted, or has a new certificate. Its other keys are
    /// those of the earlier handshake. The session replaces them in any case if it knows the peer as authenticated.
    pub replaces: bool,
}

/// Why a peer could not be authenticated.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The peer announces no identity of this plug-in.
    NoIdentity,
    /// The handshake took too long; the refusal of a message of the peer, if there was one.
    TimedOut(Option<Refusal>),
    /// The authentication refused the peer before the time of the handshake was over. The built-in one does not: others
    /// may have sent the message that it refuses.
    Refused(Refusal),
}

/// Why an authenticated peer is let go.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Expulsion {
    /// A certificate or the permissions were valid until this second.
    Expired(WallTime),
    /// Its certificate is no longer accepted.
    Refused(Refusal),
}

/// A message to one participant, for the writer of stateless messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The receiver.
    pub to: GuidPrefix,
    /// The payload of the sample, with its encapsulation.
    pub payload: Vec<u8>,
}

/// Counters, since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Messages that are malformed, or of a class or sender that is not possible.
    pub malformed: u64,
    /// Messages for other participants.
    pub for_others: u64,
    /// Messages that were received before, or that do not belong to the state of their handshake.
    pub ignored: u64,
    /// Messages that a job refused.
    pub refused: u64,
    /// Messages that were not examined, or not by all requests that may have led to them, since their sender had sent
    /// too many, or there was no room.
    pub not_examined: u64,
    /// Handshakes that did not begin, since there was no room.
    pub no_room: u64,
    /// Handshakes that gave way to others.
    pub gave_way: u64,
    /// Messages that were to be sent and were not, since they exceeded what strangers may receive.
    pub not_sent: u64,
    /// Reports that were dropped, since too many waited.
    pub reports_dropped: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoIdentity => f.write_str("the participant announces no identity DDS:Auth:PKI-DH:1"),
            Self::TimedOut(None) => f.write_str("the handshake took too long; no message of the peer was refused"),
            Self::TimedOut(Some(refusal)) => write!(f, "the handshake took too long; refused: {refusal}"),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for Expulsion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired(until) => write!(f, "the certificate or the permissions were valid until {until}"),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

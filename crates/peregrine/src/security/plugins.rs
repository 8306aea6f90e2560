//! Plug-ins of applications: authentication, access control or cryptography in place of the built-in ones.
//!
//! [`Plugins`] has a function for each of the three that makes the plug-in of a participant from the built-in one. The
//! function wraps the built-in one, takes from it what it knows about the participant, or drops it. The modules contain
//! each trait, the built-in implementation, and all types that an implementation needs:
//!
//! - [`authentication`]: [`Authentication`](authentication::Authentication), built in as
//!   [`Authenticator`](authentication::Authenticator)
//! - [`access_control`]: [`AccessControl`](access_control::AccessControl), built in as
//!   [`Rights`](access_control::Rights)
//! - [`cryptography`]: [`Cryptographic`](cryptography::Cryptographic), built in as
//!   [`KeyFactory`](cryptography::KeyFactory)
//!
//! The example `own_plugins` of this crate has an authentication and a cryptography that use nothing of the built-in
//! ones, the example `access_control` an access control that keeps the governance.
//!
//! Calls of a plug-in are made under a lock of the participant, by one thread at a time but for those of
//! [`AccessControl`](access_control::AccessControl), and do not wait. A call must not call an entity (a participant, a
//! reader, a writer): it would wait for itself. Debug builds panic at the attempt. A panic of a call is caught, logged
//! and counted ([`user_code_panics`](crate::user_code_panics)), and the call counts as a refusal: access is denied, a
//! message of a handshake is lost, keys are not taken. Panics of a cryptography during the creation of the participant,
//! and those of its [`Protection`](cryptography::Protection), pass on to the caller. A computation that takes long is a
//! [`Job`](authentication::Job). An authentication that others do not understand announces a token of its own
//! ([`Plugins::identity_token`]).
//!
//! A plug-in decides in place of the standard: its application answers for these decisions. The session keeps the order
//! of handshake, keys and matches, whatever a plug-in reports.

pub use peregrine_security::WallTime;
pub use peregrine_security::session::Plugins;

pub mod authentication {
    //! How participants prove who they are: the handshake of two participants.
    //!
    //! Discovery announces the participant, and hands announcements of newcomers to an implementation
    //! ([`Authentication::handle_announcement`]). The implementation then sends messages ([`GenericMessage`]) by
    //! [`Authentication::poll_transmit`], which are lost at times, and gets those of the peer in
    //! [`Authentication::handle_message`]. Signatures and other long computations are [`Job`]s. In the end it reports
    //! [`Event::Authenticated`] with the certificate of the peer ([`PeerCredential::of_plugin`]), its permissions
    //! ([`PeerCredential::with_permissions`]) and a key that both participants have ([`exchange_key`]).

    pub use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
    pub use peregrine_rtps::time::{Instant, Span};
    pub use peregrine_security::authentication::{
        AuthenticatedPeer, AuthenticationConfig, Authenticator, Event, Expulsion, Failure, Input, Job, JobDone,
        JobTicket, LocalParticipant, NoJobResult, PeerCredential, Refusal, Statistics, Transmit, Trust, Usage,
    };
    pub use peregrine_security::crypto::secure_entity::STATELESS_WRITER;
    pub use peregrine_security::crypto::{Algorithm, ExchangeRole, KeyLength, KeyMaterial, exchange_key};
    pub use peregrine_security::documents::{AllowedAlgorithms, DocumentError, ForbiddenAlgorithm, Grant};
    pub use peregrine_security::identity::{
        Certificate, ChainError, ChainFault, DistinguishedName, MalformedCertificate, TrustAnchors,
    };
    pub use peregrine_security::message::{
        BinaryProperty, DataHolder, GenericMessage, MalformedMessage, MessageHead, MessageIdentity, Property,
    };
    pub use peregrine_security::secret::Secret;
    pub use peregrine_security::session::Authentication;

    pub use super::WallTime;
}

pub mod access_control {
    //! The rights of participants, and the protection of topics.
    //!
    //! Discovery asks while it changes, so that all calls are look-ups. An implementation that keeps the governance
    //! gets the protection of the participant and of topics from [`Rights`].

    pub use peregrine_rtps::id::EntityId;
    pub use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
    pub use peregrine_security::Pattern;
    pub use peregrine_security::authentication::PeerCredential;
    pub use peregrine_security::documents::{
        AllowedAlgorithms, Denial, Document, DomainRule, DomainSet, Grant, Position, SecurityMasks, TopicRule,
    };
    pub use peregrine_security::session::{
        AccessControl, Domain, EndpointDescription, EndpointSecurity, PeerRefusal, Rights,
    };

    pub use super::WallTime;
}

pub mod cryptography {
    //! The keys of a participant, and the transformations with them.
    //!
    //! An implementation has two parts. [`Cryptographic`] makes keys and takes those of peers, as endpoints come and
    //! go. [`Protection`], which any number of threads call at the same time, seals and opens with them. Keys travel as
    //! [`KeyMaterial`], the form of AES-GCM-GMAC: a salt and a key of 16 or 32 bytes each, which another algorithm uses
    //! as it likes. Both participants need the same plug-in.

    pub use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
    pub use peregrine_rtps::payload::Wipe;
    pub use peregrine_rtps::protection::{
        OpenError, Protection, ProtectionKind, ProtectionLevels, Scope, Seal, SealError, Text,
    };
    pub use peregrine_rtps::time::Instant;
    pub use peregrine_rtps::wire::{CryptoFooter, CryptoHeader, Header, ReceiverMac};
    pub use peregrine_security::crypto::secure_entity::{is_key_channel, unregistered_levels};
    pub use peregrine_security::crypto::{
        Algorithm, ExchangeRole, KeyFactory, KeyLength, KeyMaterial, MalformedKeyMaterial, PreSharedKeys, ReceiverKey,
        RefusedKeys,
    };
    pub use peregrine_security::secret::Secret;
    pub use peregrine_security::session::Cryptographic;
}

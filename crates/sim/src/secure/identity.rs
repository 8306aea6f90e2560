//! Authorities, certificates and documents of the participants of simulated worlds.

use std::sync::{Arc, LazyLock};

use peregrine_rtps::id::GuidPrefix;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_security::WallTime;
use peregrine_security::documents::{Effect, PartitionMatching};
use peregrine_security::identity::{Certificate, PrivateKey, TrustAnchors};
use peregrine_security::issue::{
    Authority, DomainText, GovernanceText, GrantText, IssuedKey, KeyChoice, PermissionsText, RuleText, SubjectName,
    Terms, TopicText,
};
use peregrine_security::session::{Credential, CredentialParts, Domain};

/// The participants that an authority knows. Further nodes have the identity of an earlier one.
pub const IDENTITIES: u32 = 8;
/// The validity of everything: it contains the times of all worlds.
const VALIDITY: (WallTime, WallTime) = (WallTime(1_600_000_000), WallTime(1_900_000_000));
const DOMAINS: DomainText = DomainText { first: 0, last: 9 };

/// The authority whose participants meet.
pub static HOME: LazyLock<Arc<Realm>> = LazyLock::new(|| Arc::new(Realm::new("Home")));
/// An authority that no participant of another one trusts.
pub static ABROAD: LazyLock<Arc<Realm>> = LazyLock::new(|| Arc::new(Realm::new("Abroad")));

/// An authority with its participants.
#[derive(Debug)]
pub struct Realm {
    authority: Authority,
    identities: Vec<Identity>,
}

#[derive(Debug)]
struct Identity {
    certificate: Certificate,
    key: IssuedKey,
    permissions: Vec<u8>,
}

/// The governance of a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Messages, submessages and payloads.
    pub levels: ProtectionLevels,
    /// Discovery and liveliness.
    pub discovery: ProtectionKind,
    /// Whether participants without authentication may use what is not protected.
    pub allows_unauthenticated: bool,
    /// Whether endpoints need a permission.
    pub is_controlled: bool,
}

fn terms(serial: u8) -> Terms {
    Terms { serial: [serial; 16], from: VALIDITY.0, until: VALIDITY.1 }
}

impl Realm {
    /// # Panics
    /// The library of cryptography makes no keys or signatures.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let key = || IssuedKey::generate(KeyChoice::P256).expect("a key is generated");
        let authority = Authority::self_signed(&SubjectName::new(name, "Authority"), key(), terms(1));
        let authority = authority.expect("an authority signs its certificate");
        let identity = |index: u32| {
            let (key, serial) = (key(), u8::try_from(index + 2).unwrap_or(u8::MAX));
            let subject = SubjectName::new(name, &format!("Participant {index}"));
            let certificate = authority.issue(&subject, &key, terms(serial)).expect("an authority signs");
            let permissions = PermissionsText { grants: vec![grant(certificate.subject().to_string())] };
            let permissions = authority.sign_document(&permissions.to_xml()).expect("an authority signs");
            Identity { certificate, key, permissions }
        };
        let identities = (0..IDENTITIES).map(identity).collect();
        Self { authority, identities }
    }

    /// A new credential of a participant of this authority.
    ///
    /// # Panics
    /// The documents are not those that this module issues.
    #[must_use]
    pub fn credential(&self, owner: u32, rules: &Rules, candidate: GuidPrefix, now: WallTime) -> Credential {
        let identity = &self.identities[(owner % IDENTITIES) as usize];
        let pem = core::str::from_utf8(identity.key.pem().expose()).expect("PEM is text").to_owned();
        let parts = CredentialParts {
            certificates: vec![identity.certificate.clone()],
            key: PrivateKey::from_pem(&pem, None).expect("the key was written by this process"),
            identity_authorities: TrustAnchors {
                authorities: vec![self.authority.certificate().clone()],
                ..TrustAnchors::default()
            },
            permissions_authorities: vec![self.authority.certificate().clone()],
            governance: self.authority.sign_document(&governance(rules)).expect("an authority signs"),
            permissions: identity.permissions.clone(),
            domain: Domain::default(),
            matching: PartitionMatching::All,
            candidate,
        };
        Credential::new(parts, now).expect("documents of this process are accepted")
    }
}

fn grant(subject: String) -> GrantText {
    let all = || vec!["*".to_owned()];
    let rule =
        RuleText { effect: Effect::Allow, domains: DOMAINS, publish: all(), subscribe: all(), partitions: Vec::new() };
    let (from, until) = VALIDITY;
    GrantText { name: "All".to_owned(), subject, from, until, rules: vec![rule], default: Effect::Deny }
}

fn governance(rules: &Rules) -> String {
    let is_discovery_protected = rules.discovery != ProtectionKind::None;
    let topic = TopicText {
        topic: "*".to_owned(),
        enable_discovery_protection: is_discovery_protected,
        enable_liveliness_protection: is_discovery_protected,
        enable_read_access_control: rules.is_controlled,
        enable_write_access_control: rules.is_controlled,
        submessages: rules.levels.submessage,
        payloads: rules.levels.payload,
    };
    let governance = GovernanceText {
        domains: DOMAINS,
        allow_unauthenticated_participants: rules.allows_unauthenticated,
        enable_join_access_control: true,
        discovery: rules.discovery,
        liveliness: rules.discovery,
        messages: rules.levels.message,
        topics: vec![topic],
    };
    governance.to_xml()
}

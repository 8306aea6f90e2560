//! An access control of the application: all participants with a certificate of the authority may write and read the
//! topics that begin with a prefix, and no others, whatever the permissions documents say. The governance still says
//! how topics are protected.
//!
//! ```text
//! cargo run --features security --example access_control
//! ```

#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use peregrine::security::plugins::Plugins;
use peregrine::security::plugins::access_control::{
    AccessControl, Denial, Document, DomainRule, EndpointDescription, EndpointSecurity, PeerCredential, PeerRefusal,
    Rights, WallTime,
};
use peregrine::security::{ProtectionKind, SecurityConfig};
use peregrine::{DdsType, DomainParticipant, EntityId};
use peregrine_security::documents::Effect;
use peregrine_security::issue::{
    Authority, DomainText, GovernanceText, GrantText, IssuedKey, KeyChoice, PermissionsText, SubjectName, Terms,
    TopicText,
};

const DOMAIN: u32 = 112;
const PATIENCE: Duration = Duration::from_secs(20);

/// Permits topics by the beginning of their names.
#[derive(Debug)]
struct ByPrefix {
    builtin: Rights,
    prefix: &'static str,
}

impl ByPrefix {
    fn decide(&self, topic: &str) -> Result<EndpointSecurity, Denial> {
        if topic.starts_with(self.prefix) {
            return self.builtin.security_of(topic);
        }
        Err(Denial {
            document: Document::Permissions,
            grant: None,
            rule: None,
            at: None,
            what: format!("topic `{topic}` does not begin with `{}`", self.prefix),
            remedy: format!("choose a name that begins with `{}`", self.prefix),
        })
    }
}

impl AccessControl for ByPrefix {
    fn domain_rule(&self) -> &DomainRule {
        self.builtin.domain_rule()
    }

    fn allow_unauthenticated(&self) -> bool {
        false
    }

    fn security_of(&self, topic: &str) -> Result<EndpointSecurity, Denial> {
        self.decide(topic)
    }

    fn endpoint(
        &self,
        _: EntityId,
        description: &EndpointDescription,
        _: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        self.decide(&description.topic)
    }

    fn remote_participant(&self, _: &PeerCredential, _: WallTime) -> Result<(), PeerRefusal> {
        Ok(())
    }

    fn remote_endpoint(
        &self,
        _: &PeerCredential,
        _: EntityId,
        description: &EndpointDescription,
        _: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        self.decide(&description.topic)
    }
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Pose {
    x: f64,
    y: f64,
}

/// The results of the example.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The text of the error for a topic with another name.
    pub(crate) denial: String,
    /// The sum of the received coordinates.
    pub(crate) sum: f64,
}

/// A participant with a certificate of the authority, and with permissions that permit nothing.
fn participant(authority: &Authority, name: &str, serial: u8) -> Result<DomainParticipant, Box<dyn Error>> {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let (from, until) = (WallTime(now - 3600), WallTime(now + 86_400));
    let key = IssuedKey::generate(KeyChoice::P256)?;
    let terms = Terms { serial: [serial; 16], from, until };
    let certificate = authority.issue(&SubjectName::new("Example", name), &key, terms)?;
    let domains = DomainText { first: 0, last: 230 };
    let governance = GovernanceText {
        domains,
        allow_unauthenticated_participants: false,
        enable_join_access_control: false,
        discovery: ProtectionKind::Encrypt,
        liveliness: ProtectionKind::Encrypt,
        messages: ProtectionKind::None,
        topics: vec![TopicText {
            topic: "*".to_owned(),
            enable_discovery_protection: true,
            enable_liveliness_protection: true,
            enable_read_access_control: true,
            enable_write_access_control: true,
            submessages: ProtectionKind::None,
            payloads: ProtectionKind::Encrypt,
        }],
    };
    let subject = certificate.subject().to_string();
    let (rules, default) = (Vec::new(), Effect::Deny);
    let grant = GrantText { name: name.to_owned(), subject, from, until, rules, default };
    let permissions = PermissionsText { grants: vec![grant] };
    let data = |octets: &[u8]| String::from_utf8(octets.to_vec()).map(|text| format!("data:,{text}"));
    let ca = data(Authority::to_pem(authority.certificate()).as_bytes())?;
    let security = SecurityConfig::new()
        .identity_ca(&ca)
        .permissions_ca(&ca)
        .identity_certificate(data(Authority::to_pem(&certificate).as_bytes())?)
        .private_key(data(key.pem().expose())?)
        .governance(data(&authority.sign_document(&governance.to_xml())?)?)
        .permissions(data(&authority.sign_document(&permissions.to_xml())?)?)
        .plugins(Plugins::new().access_control(|builtin| Arc::new(ByPrefix { builtin, prefix: "robot/" })));
    Ok(DomainParticipant::builder(DOMAIN).security(security).build()?)
}

/// Two participants exchange a sample of a permitted topic, and cannot write another one.
pub(crate) fn run() -> Result<Seen, Box<dyn Error>> {
    let key = IssuedKey::generate(KeyChoice::P256)?;
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let terms = Terms { serial: [1; 16], from: WallTime(now - 3600), until: WallTime(now + 86_400) };
    let authority = Authority::self_signed(&SubjectName::new("Example", "Authority"), key, terms)?;
    let (a, b) = (participant(&authority, "A", 2)?, participant(&authority, "B", 3)?);

    let writer = a.topic::<Pose>("robot/pose")?.writer_builder().reliable().build()?;
    let reader = b.topic::<Pose>("robot/pose")?.reader_builder().reliable().build()?;
    writer.wait_for_readers(1, PATIENCE)?;
    writer.write(&Pose { x: 1.0, y: 2.0 })?;
    let pose = reader.wait_and_take(PATIENCE)?.into_value().ok_or("a sample has a value")?;

    let denied = a.topic::<Pose>("payroll").and_then(|topic| topic.writer()).map(drop);
    let denial = denied.err().ok_or("the topic is denied")?.to_string();
    Ok(Seen { denial, sum: pose.x + pose.y })
}

#[allow(dead_code, reason = "a test runs the example without it")]
fn main() -> Result<(), Box<dyn Error>> {
    let Seen { denial, sum } = run()?;
    println!("received a pose whose coordinates have the sum {sum}");
    println!("denied: {denial}");
    Ok(())
}

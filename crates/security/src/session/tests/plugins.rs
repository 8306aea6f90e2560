//! Plug-ins of applications.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use peregrine_rtps::id::EntityId;
use peregrine_rtps::time::Instant;

use super::world::{OWNERS, Rules, Start, participant_data};
use crate::authentication::{Input, PeerCredential};
use crate::documents::{Denial, Document, DomainRule};
use crate::session::{
    AccessControl, EndpointDescription, EndpointSecurity, PeerRefusal, Plugins, Rights, Session, SessionConfig,
    UnusableEndpoint,
};
use crate::testing::{EC_AUTHORITY, NOW};
use crate::wall_time::WallTime;

const WRITER: EntityId = EntityId([0, 0, 1, 0x02]);

/// Denies all endpoints.
#[derive(Debug)]
struct Closed(Rights);

fn denial() -> Denial {
    let (what, remedy) = ("closed".to_owned(), "none".to_owned());
    Denial { document: Document::Permissions, grant: None, rule: None, at: None, what, remedy }
}

impl AccessControl for Closed {
    fn domain_rule(&self) -> &DomainRule {
        self.0.domain_rule()
    }

    fn allow_unauthenticated(&self) -> bool {
        false
    }

    fn security_of(&self, _: &str) -> Result<EndpointSecurity, Denial> {
        Err(denial())
    }

    fn endpoint(&self, _: EntityId, _: &EndpointDescription, _: WallTime) -> Result<EndpointSecurity, Denial> {
        Err(denial())
    }

    fn remote_participant(&self, _: &PeerCredential, _: WallTime) -> Result<(), PeerRefusal> {
        Err(PeerRefusal::NoPermissions)
    }

    fn remote_endpoint(
        &self,
        _: &PeerCredential,
        _: EntityId,
        _: &EndpointDescription,
        _: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        Err(denial())
    }
}

#[test]
fn session_uses_the_plug_ins_that_were_made_from_the_built_in_ones() {
    let credential = Start::with(Rules::strict()).credential(&OWNERS[0], &EC_AUTHORITY, NOW).unwrap();
    let data = participant_data(&credential);
    let made = Arc::new(AtomicUsize::new(0));
    let (of_authentication, of_cryptography) = (Arc::clone(&made), Arc::clone(&made));
    let plugins = Plugins::new()
        .access_control(|builtin| Arc::new(Closed(builtin)))
        .authentication(move |builtin| {
            of_authentication.fetch_add(1, Ordering::Relaxed);
            Box::new(builtin)
        })
        .cryptographic(move |builtin| {
            of_cryptography.fetch_add(10, Ordering::Relaxed);
            Box::new(builtin)
        });
    let access = plugins.make_access_control(credential.rights().clone());
    let mut random = |octets: &mut [u8]| octets.fill(7);
    let mut input = Input { now: Instant(0), wall: NOW, random: &mut random };
    let config = SessionConfig::default();
    let mut session = Session::with_plugins(credential, data, config, (access, &plugins), &mut input).unwrap();
    assert_eq!(made.load(Ordering::Relaxed), 11);
    let refused = session.endpoint_made(&mut input, WRITER, EndpointDescription::of_topic("Square"));
    assert_eq!(refused, Err(UnusableEndpoint::Denied(denial())));
    assert!(session.rights().security_of("Square").is_err());
}

//! Peers that are made by hand: they choose what other implementations choose.

use super::*;
use crate::authentication::agreement::{Coding, KeyAgreement, PrivateShare};
use crate::authentication::contents::{Credentials, Reply, Request, Transcript};
use crate::crypto::exchange_key;
use crate::documents::AllowedAlgorithms;
use crate::identity::{ChainFault, Digest, KeyKind, SignatureAlgorithm};
use crate::limits::VERIFICATIONS_PER_PEER;
use crate::message::{DataHolder, GenericMessage, MessageHead, MessageIdentity, names};
use crate::secret::Secret;
use crate::testing::RSA_AUTHORITY;

/// Choices in which implementations differ.
#[derive(Clone, Copy, Debug)]
struct Style {
    agreement: KeyAgreement,
    coding: Coding,
    /// Names of algorithms have the end of a C string.
    with_nul: bool,
    /// Properties that may be absent are there.
    repeats: bool,
}

const CYCLONE: Style =
    Style { agreement: KeyAgreement::EcdhP256, coding: Coding::Plain, with_nul: true, repeats: false };
const FAST_DDS: Style =
    Style { agreement: KeyAgreement::Modp2048, coding: Coding::Plain, with_nul: false, repeats: true };
const CYCLONE_MODP: Style =
    Style { agreement: KeyAgreement::Modp2048, coding: Coding::Der, with_nul: true, repeats: false };

struct Peer<'a> {
    owner: &'a Owner,
    style: Style,
    challenge: [u8; 32],
}

impl Peer<'_> {
    fn credentials(&self) -> Credentials {
        let name = |name: &[u8]| if self.style.with_nul { [name, &[0]].concat() } else { name.to_vec() };
        let algorithm: &[u8] = match self.owner.identity.key.private.message_algorithm() {
            SignatureAlgorithm::Ecdsa(_) => b"ECDSA-SHA256",
            _ => b"RSASSA-PSS-SHA256",
        };
        Credentials {
            certificate: self.owner.identity.pem().into_bytes(),
            permissions: self.owner.permissions.clone(),
            participant_data: participant_data(self.owner.prefix),
            signature_algorithm: name(algorithm),
            agreement_algorithm: name(self.style.agreement.name().as_bytes()),
        }
    }

    fn share(&self) -> (PrivateShare, Vec<u8>) {
        PrivateShare::generate(self.style.agreement, self.style.coding, &Secret::copy_of(&[9; 32])).unwrap()
    }

    fn sign(&self, text: &[u8]) -> Vec<u8> {
        let key = &self.owner.identity.key.private;
        key.sign(key.message_algorithm(), text).unwrap()
    }

    /// Drops what may be absent if this peer does.
    fn styled(&self, mut token: DataHolder) -> DataHolder {
        let optional: &[&str] = match token.class_id.as_str() {
            names::HANDSHAKE_REQUEST => &[names::HASH_1],
            names::HANDSHAKE_REPLY => &[names::HASH_1, names::HASH_2, names::DH_1],
            _ => &[names::HASH_1, names::HASH_2, names::DH_1, names::DH_2],
        };
        if !self.style.repeats {
            token.binary_properties.retain(|property| !optional.contains(&property.name.as_str()));
        }
        // Peers have other orders.
        token.binary_properties.reverse();
        token
    }
}

pub(super) fn payload(from: GuidPrefix, to: GuidPrefix, token: DataHolder) -> Vec<u8> {
    let source = Guid::new(from, EntityId([0, 2, 1, 0xc3]));
    let head = MessageHead {
        identity: MessageIdentity { source, sequence_number: 7 },
        destination_participant: Guid::new(to, EntityId::PARTICIPANT),
        ..MessageHead::default()
    };
    GenericMessage { head, class_id: names::AUTH_MESSAGE.to_owned(), data: vec![token] }.to_bytes()
}

fn last_token(world: &World, class_id: &str) -> DataHolder {
    let sent = world.sent(0, class_id);
    GenericMessage::parse(sent.last().expect("a message of this class")).unwrap().data.remove(0)
}

/// A world with one participant, which knows a peer.
fn world_of(local: &Owner, peer: &Owner) -> World {
    let mut world = World::new(1, PERFECT);
    world.add(local, trusting(&EC_AUTHORITY));
    world.call(0, |authenticator, input| {
        authenticator.handle_announcement(input, peer.prefix, address(1), Some(&identity_token()));
    });
    world.run_for(Span::from_millis(1));
    world
}

#[test]
fn peers_of_all_styles_that_begin_are_authenticated() {
    for style in [CYCLONE, FAST_DDS, CYCLONE_MODP, Style { repeats: true, ..CYCLONE }] {
        let mut world = world_of(&PAIR[1], &PAIR[0]);
        let peer = Peer { owner: &PAIR[0], style, challenge: [3; 32] };
        let (share, dh1) = peer.share();
        let request = Request { credentials: peer.credentials(), dh1: dh1.clone(), challenge1: peer.challenge };
        let token = peer.styled(request.token());
        world.receive(0, address(1), PAIR[0].prefix, &payload(PAIR[0].prefix, PAIR[1].prefix, token));
        world.run_for(Span::from_millis(1));
        let reply = last_token(&world, names::HANDSHAKE_REPLY);
        // Some peers compare the name of the algorithm with theirs.
        assert_eq!(reply.binary("c.kagree_algo"), Some(request.credentials.agreement_algorithm.as_slice()));
        let reply = Reply::parse(&reply).unwrap();
        let transcript = Transcript {
            hash1: request.credentials.hash(),
            challenge1: peer.challenge,
            dh1,
            hash2: reply.credentials.hash(),
            challenge2: reply.challenge2,
            dh2: reply.dh2.clone(),
        };
        assert_eq!(reply.repeated.check(&transcript), Ok(()), "{style:?}");
        assert_eq!(Coding::of(&reply.dh2), style.coding);
        let public = PAIR[1].identity.certificate.public_key();
        let algorithm = PAIR[1].identity.key.private.message_algorithm();
        assert_eq!(public.verify_message(algorithm, &transcript.reply_text(), &reply.signature), Ok(()));
        let last = peer.styled(transcript.final_token(&peer.sign(&transcript.final_text())));
        world.receive(0, address(1), PAIR[0].prefix, &payload(PAIR[0].prefix, PAIR[1].prefix, last));
        world.run_for(Span::from_millis(1));
        let secret = share.agree(&reply.dh2).unwrap();
        let expected = exchange_key(&peer.challenge, &reply.challenge2, &secret);
        assert_eq!(world.nodes[0].keys.get(&PAIR[0].prefix), Some(&expected), "{style:?}");
    }
}

/// A participant with three requests of one peer with the same challenge, of which one is true: any host can repeat a
/// request with another public key. This peer does not name its key in the last message.
struct Contested {
    world: World,
    last: DataHolder,
    /// The key of the session.
    key: KeyMaterial,
}

impl Contested {
    fn new(true_at: usize) -> Self {
        let mut world = world_of(&PAIR[1], &PAIR[0]);
        let peer = Peer { owner: &PAIR[0], style: CYCLONE, challenge: [3; 32] };
        let shares = [7, 8, 9].map(|seed| {
            PrivateShare::generate(peer.style.agreement, peer.style.coding, &Secret::copy_of(&[seed; 32])).unwrap()
        });
        for (_, dh1) in &shares {
            let request = Request { credentials: peer.credentials(), dh1: dh1.clone(), challenge1: peer.challenge };
            let token = peer.styled(request.token());
            world.receive(0, address(1), PAIR[0].prefix, &payload(PAIR[0].prefix, PAIR[1].prefix, token));
            world.run_for(Span::from_millis(1));
        }
        let (share, dh1) = &shares[true_at];
        let replies = world.sent(0, names::HANDSHAKE_REPLY);
        let mut replies = replies.iter().map(|reply| GenericMessage::parse(reply).unwrap().data.remove(0));
        let reply = replies.find(|reply| reply.binary(names::DH_1) == Some(dh1.as_slice())).unwrap();
        let reply = Reply::parse(&reply).unwrap();
        let transcript = Transcript {
            hash1: peer.credentials().hash(),
            challenge1: peer.challenge,
            dh1: dh1.clone(),
            hash2: reply.credentials.hash(),
            challenge2: reply.challenge2,
            dh2: reply.dh2.clone(),
        };
        let last = peer.styled(transcript.final_token(&peer.sign(&transcript.final_text())));
        assert_eq!(last.binary(names::DH_1), None);
        let key = exchange_key(&peer.challenge, &reply.challenge2, &share.agree(&reply.dh2).unwrap());
        Self { world, last, key }
    }

    fn receive(&mut self, from: usize, last: DataHolder) {
        let prefix = PAIR[0].prefix;
        self.world.receive(0, address(from), prefix, &payload(prefix, PAIR[1].prefix, last));
        self.world.run_for(Span::from_millis(1));
    }

    /// Receives last messages with as many false signatures.
    fn receive_forged(&mut self, from: usize, count: u8) {
        for number in 0..count {
            let mut forged = self.last.clone();
            let signature = forged.binary_properties.iter_mut().find(|property| property.name == names::SIGNATURE);
            *signature.unwrap().value.last_mut().unwrap() ^= number + 1;
            self.receive(from, forged);
        }
    }

    /// Verifications of last messages.
    fn checks(&self) -> u64 {
        let pair = &self.world.nodes[0].authenticator.pairs[&PAIR[0].prefix];
        pair.attempt.as_ref().unwrap().candidates().iter().map(|open| u64::from(open.checks)).sum()
    }

    fn is_authenticated(&self) -> bool {
        let key = self.world.nodes[0].keys.get(&PAIR[0].prefix);
        assert!(key.is_none_or(|key| *key == self.key));
        key.is_some()
    }
}

#[test]
fn repeated_requests_with_other_keys_do_not_hide_the_true_one() {
    for true_at in 0..3 {
        let mut contested = Contested::new(true_at);
        contested.receive(1, contested.last.clone());
        assert!(contested.is_authenticated(), "request {true_at}");
    }
}

#[test]
fn forged_last_messages_use_up_no_more_than_half_of_the_verifications_by_further_requests() {
    for true_at in 0..3 {
        let mut contested = Contested::new(true_at);
        contested.receive_forged(66, 100);
        let checks = contested.checks();
        assert!((100..=100 + VERIFICATIONS_PER_PEER / 2).contains(&checks), "{checks}");
        assert!(contested.world.nodes[0].authenticator.statistics().not_examined >= 98);
        contested.receive(1, contested.last.clone());
        assert!(contested.is_authenticated(), "request {true_at}");
    }
}

#[test]
fn true_last_message_is_accepted_by_the_third_repetition_if_the_verifications_are_used_up() {
    for true_at in 0..3 {
        let mut contested = Contested::new(true_at);
        contested.receive_forged(1, 100);
        assert!(contested.checks() <= 100 + VERIFICATIONS_PER_PEER, "{}", contested.checks());
        let received = (0..3).take_while(|_| {
            contested.receive(1, contested.last.clone());
            !contested.is_authenticated()
        });
        assert!(received.count() < 3, "request {true_at}");
    }
}

#[test]
fn peers_of_all_styles_that_reply_are_authenticated() {
    for style in [CYCLONE, Style { with_nul: false, repeats: true, ..CYCLONE }] {
        let mut world = world_of(&PAIR[0], &PAIR[1]);
        let request = Request::parse(&last_token(&world, names::HANDSHAKE_REQUEST)).unwrap();
        let peer = Peer { owner: &PAIR[1], style, challenge: [4; 32] };
        let (share, dh2) = peer.share();
        let transcript = Transcript {
            hash1: request.credentials.hash(),
            challenge1: request.challenge1,
            dh1: request.dh1.clone(),
            hash2: peer.credentials().hash(),
            challenge2: peer.challenge,
            dh2,
        };
        let reply = transcript.reply_token(&peer.credentials(), &peer.sign(&transcript.reply_text()));
        let reply = payload(PAIR[1].prefix, PAIR[0].prefix, peer.styled(reply));
        world.receive(0, address(1), PAIR[1].prefix, &reply);
        world.run_for(Span::from_millis(1));
        let last = last_token(&world, names::HANDSHAKE_FINAL);
        let public = PAIR[0].identity.certificate.public_key();
        let algorithm = PAIR[0].identity.key.private.message_algorithm();
        let signature = last.binary(names::SIGNATURE).unwrap();
        assert_eq!(public.verify_message(algorithm, &transcript.final_text(), signature), Ok(()));
        let secret = share.agree(&request.dh1).unwrap();
        let expected = exchange_key(&request.challenge1, &peer.challenge, &secret);
        assert_eq!(world.nodes[0].keys.get(&PAIR[1].prefix), Some(&expected), "{style:?}");
    }
}

/// A change that a forger makes to a request.
type Change = fn(&mut Request);

#[test]
fn forged_requests_are_refused_with_their_cause_and_without_an_answer() {
    static OTHER: LazyLock<Vec<u8>> = LazyLock::new(|| PAIR[1].identity.pem().into_bytes());
    let cases: [(Change, Refusal); 9] = [
        (|request| request.credentials.participant_data = participant_data(PAIR[1].prefix), Refusal::ParticipantData),
        (|request| request.credentials.participant_data.clear(), Refusal::ParticipantData),
        (|request| request.credentials.certificate = OTHER.clone(), Refusal::Guid),
        (
            |request| request.credentials.certificate.clear(),
            Refusal::Certificate(crate::identity::MalformedCertificate::NoCertificate),
        ),
        (
            |request| request.credentials.certificate = OTHER.repeat(crate::limits::CHAIN_LENGTH + 1),
            Refusal::Certificate(crate::identity::MalformedCertificate::TooMany),
        ),
        (
            |request| request.credentials.signature_algorithm = b"RSASSA-PSS-SHA256".to_vec(),
            Refusal::SignatureAlgorithm,
        ),
        (|request| request.credentials.signature_algorithm = b"none".to_vec(), Refusal::SignatureAlgorithm),
        (|request| request.credentials.agreement_algorithm = b"none".to_vec(), Refusal::AgreementAlgorithm),
        (
            |request| {
                let data = &mut request.credentials.participant_data;
                let guid = data[..20].to_vec();
                data.splice(0..0, guid);
            },
            Refusal::ParticipantData,
        ),
    ];
    for (change, expected) in cases {
        let mut world = world_of(&PAIR[1], &PAIR[0]);
        let peer = Peer { owner: &PAIR[0], style: CYCLONE, challenge: [3; 32] };
        let (_, dh1) = peer.share();
        let mut request = Request { credentials: peer.credentials(), dh1, challenge1: peer.challenge };
        change(&mut request);
        let forged = payload(PAIR[0].prefix, PAIR[1].prefix, request.token());
        world.receive(0, address(1), PAIR[0].prefix, &forged);
        world.run_for(Span::from_millis(1));
        assert_eq!(world.refusals(0), std::slice::from_ref(&expected));
        assert!(world.sent(0, names::HANDSHAKE_REPLY).is_empty(), "{expected:?}");
        // The same again costs no job.
        let jobs = world.nodes[0].jobs;
        world.receive(0, address(1), PAIR[0].prefix, &forged);
        world.run_for(Span::from_millis(1));
        assert_eq!(world.nodes[0].jobs, jobs);
    }
}

#[test]
fn public_keys_that_are_not_valid_end_no_handshake_with_a_key() {
    let modp = |last: u8| {
        let mut public = vec![0; 256];
        public[255] = last;
        public
    };
    let mut off_curve = Peer { owner: &PAIR[0], style: CYCLONE, challenge: [0; 32] }.share().1;
    off_curve[64] ^= 1;
    for (style, dh1) in [
        (CYCLONE, off_curve),
        (CYCLONE, vec![0; 65]),
        (CYCLONE, vec![0]),
        (FAST_DDS, modp(0)),
        (FAST_DDS, modp(1)),
        (FAST_DDS, modp(2)),
        (FAST_DDS, vec![0xff; 256]),
    ] {
        let mut world = world_of(&PAIR[1], &PAIR[0]);
        let peer = Peer { owner: &PAIR[0], style, challenge: [3; 32] };
        let request = Request { credentials: peer.credentials(), dh1: dh1.clone(), challenge1: peer.challenge };
        world.receive(0, address(1), PAIR[0].prefix, &payload(PAIR[0].prefix, PAIR[1].prefix, request.token()));
        world.run_for(Span::from_millis(1));
        let reply = Reply::parse(&last_token(&world, names::HANDSHAKE_REPLY)).unwrap();
        let transcript = Transcript {
            hash1: request.credentials.hash(),
            challenge1: peer.challenge,
            dh1,
            hash2: reply.credentials.hash(),
            challenge2: reply.challenge2,
            dh2: reply.dh2,
        };
        let last = transcript.final_token(&peer.sign(&transcript.final_text()));
        world.receive(0, address(1), PAIR[0].prefix, &payload(PAIR[0].prefix, PAIR[1].prefix, last));
        world.run_for(Span::from_millis(1));
        assert_eq!(world.refusals(0), [Refusal::PublicKey], "{style:?}");
        assert!(world.nodes[0].keys.is_empty());
    }
}

#[test]
fn permissions_of_peers_are_verified_when_they_are_required() {
    let document = |subject: &str, until: &str| {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<dds><permissions><grant name=\"g\">\
             <subject_name>{subject}</subject_name><validity><not_before>2020-01-01T00:00:00</not_before>\
             <not_after>{until}</not_after></validity><allow_rule><domains><id>0</id></domains><publish><topics>\
             <topic>*</topic></topics></publish></allow_rule><default>DENY</default></grant></permissions></dds>\n"
        )
    };
    let authority = Identity::self_signed(&Draft::authority("Permissions CA"), TestKey::ec());
    let subject = PAIR[0].identity.certificate.subject().to_string();
    let far = "2034-01-01T00:00:00";
    let signed = |by: &Identity, subject: &str, until: &str| by.sign(&document(subject, until));
    let until = |world: &World| match world.nodes[0].events.as_slice() {
        [Event::Authenticated(peer)] => {
            assert_eq!(peer.credential.grant().map(|grant| grant.name.as_str()), Some("g"));
            Some(peer.credential.valid_until())
        }
        _ => None,
    };
    let run_with = |permissions: Vec<u8>, algorithms: Option<AllowedAlgorithms>| {
        let mut world = World::new(1, PERFECT);
        let authorities = Some(vec![authority.certificate.clone(), RSA_AUTHORITY.certificate.clone()]);
        let trust = Trust { permissions: authorities, algorithms, ..trusting(&EC_AUTHORITY) };
        world.add(&PAIR[1], trust);
        world.add(&PAIR[0], trusting(&EC_AUTHORITY));
        let local = {
            let key = PrivateKey::from_pem(&PAIR[0].identity.key.pem, None).unwrap();
            let certificates = core::slice::from_ref(&PAIR[0].identity.certificate);
            LocalParticipant::new(PAIR[0].prefix, certificates, key, permissions, participant_data(PAIR[0].prefix))
        };
        let config = AuthenticationConfig::default();
        world.nodes[1].authenticator = Authenticator::new(local.unwrap(), trusting(&EC_AUTHORITY), config, world.now);
        world.announce(0, 1);
        world.announce(1, 1);
        world.run_for(Span::from_millis(50));
        world
    };
    let run = |permissions: Vec<u8>| run_with(permissions, None);
    // Some peers send the document with the end of a C string.
    let good = signed(&authority, &subject, far);
    for permissions in [good.clone(), [&good[..], &[0]].concat()] {
        assert!(until(&run(permissions)).is_some());
    }
    // The grant ends before the certificate.
    let soon = run(signed(&authority, &subject, "2025-06-15T12:00:30"));
    assert_eq!(until(&soon), Some(WallTime(NOW.0 + 30)));
    for bad in [
        Vec::new(),
        b"text".to_vec(),
        signed(&EC_AUTHORITY, &subject, far),
        // The peer signs its own rights, with a certificate of the authority of identities.
        signed(&PAIR[0].identity, &subject, far),
        signed(&authority, "CN=somebody,O=Test,C=ES", far),
        signed(&authority, &subject, "2025-06-15T11:59:59"),
    ] {
        let world = run(bad);
        assert!(matches!(world.refusals(0).as_slice(), [Refusal::Permissions(_)]), "{:?}", world.nodes[0].events);
        assert!(world.sent(0, names::HANDSHAKE_REPLY).is_empty());
    }
    // The governance may permit only some of the algorithms of authorities.
    let at = crate::documents::Position { line: 9, column: 3 };
    let trust_chain = Some(vec!["ECDSA+P256+SHA256".to_owned()]);
    let (digital_signature, key_establishment, symmetric_cipher) = (None, None, None);
    let algorithms = AllowedAlgorithms { digital_signature, trust_chain, key_establishment, symmetric_cipher, at };
    let by_rsa = signed(&RSA_AUTHORITY, &subject, far);
    assert!(until(&run(by_rsa.clone())).is_some());
    let refusals = run_with(by_rsa, Some(algorithms.clone())).refusals(0);
    let [Refusal::Algorithm(forbidden)] = refusals.as_slice() else { panic!("{refusals:?}") };
    assert_eq!(forbidden.algorithm, "RSASSA-PKCS1-V1_5+2048+SHA256");
    assert!(until(&run_with(good, Some(algorithms))).is_some());
}

#[test]
fn algorithms_that_the_governance_does_not_permit_are_refused_without_an_answer() {
    let permitting = |key_establishment: &[&str], trust_chain: &[&str]| {
        let names = |list: &[&str]| Some(list.iter().map(|name| (*name).to_owned()).collect());
        let at = crate::documents::Position { line: 9, column: 3 };
        let (key_establishment, trust_chain) = (names(key_establishment), names(trust_chain));
        AllowedAlgorithms { digital_signature: None, trust_chain, key_establishment, symmetric_cipher: None, at }
    };
    let (p256, modp, ecdsa) = ("ECDHE-CEUM+P256", "DHE+MODP-2048-256", "ECDSA+P256+SHA256");
    let (rsa, ec) = ("RSASSA-PKCS1-V1_5+2048+SHA256", SignatureAlgorithm::Ecdsa(Digest::Sha256));
    let run = |algorithms: AllowedAlgorithms, style: Style| {
        let mut world = World::new(1, PERFECT);
        world.add(&PAIR[1], Trust { algorithms: Some(algorithms), ..trusting(&EC_AUTHORITY) });
        world.call(0, |authenticator, input| {
            authenticator.handle_announcement(input, PAIR[0].prefix, address(1), Some(&identity_token()));
        });
        let peer = Peer { owner: &PAIR[0], style, challenge: [3; 32] };
        let (_, dh1) = peer.share();
        let request = Request { credentials: peer.credentials(), dh1, challenge1: peer.challenge };
        let token = peer.styled(request.token());
        world.receive(0, address(1), PAIR[0].prefix, &payload(PAIR[0].prefix, PAIR[1].prefix, token));
        world.run_for(Span::from_millis(1));
        (world.refusals(0), world.sent(0, names::HANDSHAKE_REPLY).len())
    };
    assert_eq!(run(permitting(&[p256, modp], &[ecdsa]), FAST_DDS), (Vec::new(), 1));
    let (refusals, replies) = run(permitting(&[p256], &[ecdsa]), FAST_DDS);
    let [Refusal::Algorithm(forbidden)] = refusals.as_slice() else { panic!("{refusals:?}") };
    assert_eq!((forbidden.algorithm, forbidden.element, replies), (modp, "key_establishment", 0));
    let (refusals, replies) = run(permitting(&[p256], &[rsa]), CYCLONE);
    let [Refusal::Chain(error)] = refusals.as_slice() else { panic!("{refusals:?}") };
    assert_eq!((&error.fault, replies), (&ChainFault::Algorithm(KeyKind::P256, ec), 0));
    assert!(error.to_string().contains("signed by ECDSA with SHA-256 with a key that is EC P-256"), "{error}");
}

mod keys;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};

use super::*;
use crate::secret::Secret;
use crate::testing::{
    CN, Draft, EC_AUTHORITY, Identity, NOW, RSA_AUTHORITY, TestKey, basic_constraints, der, extension, hex, key_usage,
    name, pem,
};
use crate::wall_time::WallTime;

fn trusting(authority: &Identity) -> TrustAnchors {
    TrustAnchors { authorities: vec![authority.certificate.clone()], ..TrustAnchors::default() }
}

fn fault_of(result: Result<WallTime, ChainError>) -> (String, ChainFault) {
    let ChainError { subject, fault } = result.unwrap_err();
    (subject, fault)
}

#[test]
fn certificate_states_names_key_and_validity() {
    let leaf = EC_AUTHORITY.issue(&Draft::participant("P_a"), TestKey::ec());
    let [read] = &Certificate::from_pem(&format!("comment\n{}", leaf.pem())).unwrap()[..] else { panic!("one") };
    assert_eq!(read, &leaf.certificate);
    assert_eq!(read.subject().to_string(), "CN=P_a,O=Test,C=ES");
    assert_eq!(read.issuer(), EC_AUTHORITY.certificate.subject());
    assert_eq!(read.not_before().to_string(), "2020-01-01T00:00:00Z");
    assert_eq!(read.not_after().to_string(), "2035-01-01T00:00:00Z");
    assert_eq!(read.public_key().kind(), KeyKind::P256);
    assert_eq!(RSA_AUTHORITY.certificate.public_key().kind(), KeyKind::Rsa(2048));
    assert_eq!(format!("{read:?}"), "Certificate(CN=P_a,O=Test,C=ES)");
}

#[test]
fn malformed_certificates_are_refused() {
    let leaf = EC_AUTHORITY.issue(&Draft::participant("P_a"), TestKey::ec());
    let octets = leaf.certificate.as_der();
    for len in 0..octets.len() {
        assert_eq!(Certificate::from_der(&octets[..len]), Err(MalformedCertificate::Der(0)));
    }
    assert_eq!(Certificate::from_der(&[octets, &[0]].concat()), Err(MalformedCertificate::Der(0)));
    assert_eq!(Certificate::from_der(&vec![0x30; 1 << 20]), Err(MalformedCertificate::TooLong));
    assert_eq!(Certificate::from_pem("nothing"), Err(MalformedCertificate::NoCertificate));
    assert_eq!(Certificate::from_pem(&leaf.key.pem), Err(MalformedCertificate::NoCertificate));
    let broken = leaf.pem() + &pem("CERTIFICATE", &octets[..100]);
    assert_eq!(Certificate::from_pem(&broken), Err(MalformedCertificate::Der(1)));
    assert_eq!(Certificate::from_pem(&leaf.pem().repeat(100)), Err(MalformedCertificate::TooMany));
    let negative = Draft { serial: vec![0x80], ..Draft::participant("P_a") };
    let negative = EC_AUTHORITY.issue_der(&negative, &leaf.key);
    assert_eq!(Certificate::from_der(&negative), Err(MalformedCertificate::Der(0)));
    let twice = vec![key_usage(&[0]), key_usage(&[5])];
    let twice = EC_AUTHORITY.issue_der(&Draft { extensions: Some(twice), ..Draft::new("P_a") }, &leaf.key);
    assert_eq!(Certificate::from_der(&twice), Err(MalformedCertificate::Der(0)));
}

#[test]
fn issued_certificates_of_all_kinds_are_accepted() {
    for authority in [&*EC_AUTHORITY, &*RSA_AUTHORITY] {
        let anchors = trusting(authority);
        for draft in [
            Draft::participant("P_a"),
            Draft::new("no extensions"),
            Draft { extensions: None, ..Draft::new("version 1") },
            Draft { extensions: Some(vec![basic_constraints(true, None)]), ..Draft::new("authority too") },
        ] {
            let leaf = authority.issue(&draft, TestKey::ec());
            assert_eq!(anchors.verify(&leaf.certificate, &[], NOW), Ok(leaf.certificate.not_after()), "{draft:?}");
        }
    }
    let rsa = EC_AUTHORITY.issue(&Draft::participant("P_r"), TestKey::rsa());
    assert!(trusting(&EC_AUTHORITY).verify(&rsa.certificate, &[], NOW).is_ok());
}

#[test]
fn certificates_of_others_are_refused_with_the_cause() {
    let anchors = trusting(&EC_AUTHORITY);
    let subject = || "CN=P_a,O=Test,C=ES".to_owned();
    let draft = Draft::participant("P_a");
    let verified = |leaf: &Identity| fault_of(anchors.verify(&leaf.certificate, &[], NOW));
    let other = RSA_AUTHORITY.issue(&draft, TestKey::ec());
    let unknown = ChainFault::UnknownIssuer("CN=RSA CA,O=Test,C=ES".to_owned());
    assert_eq!(verified(&other), (subject(), unknown.clone()));
    // An authority with the same name and another key.
    let twin = Identity::self_signed(&Draft::authority("EC CA"), TestKey::ec());
    let forged = twin.issue(&draft, TestKey::ec());
    assert_eq!(verified(&forged), (subject(), ChainFault::Signature(BadSignature::Wrong)));
    // The stranger sends the authority as well.
    let result = anchors.verify(&forged.certificate, core::slice::from_ref(&twin.certificate), NOW);
    assert_eq!(fault_of(result), (subject(), ChainFault::Signature(BadSignature::Wrong)));
    let self_signed = Identity::self_signed(&draft, TestKey::ec());
    assert_eq!(verified(&self_signed), (subject(), ChainFault::UnknownIssuer(subject())));
    // A participant as the issuer of another.
    let leaf = EC_AUTHORITY.issue(&draft, TestKey::ec());
    let child = leaf.issue(&Draft::participant("P_c"), TestKey::ec());
    let result = anchors.verify(&child.certificate, core::slice::from_ref(&leaf.certificate), NOW);
    assert_eq!(fault_of(result), (subject(), ChainFault::NoAuthority));
    let unstated = EC_AUTHORITY.issue(&Draft::new("P_a"), TestKey::ec());
    let child = unstated.issue(&Draft::participant("P_c"), TestKey::ec());
    let result = anchors.verify(&child.certificate, core::slice::from_ref(&unstated.certificate), NOW);
    assert_eq!(fault_of(result), (subject(), ChainFault::NoAuthority));
}

#[test]
fn validity_usage_and_extensions_are_checked() {
    let anchors = trusting(&EC_AUTHORITY);
    let fault = |draft: Draft| {
        let leaf = EC_AUTHORITY.issue(&draft, TestKey::ec());
        fault_of(anchors.verify(&leaf.certificate, &[], NOW)).1
    };
    let draft = Draft::participant("P_a");
    let expired = fault(Draft { until: "20250615115959Z", ..draft.clone() });
    assert_eq!(expired, ChainFault::Expired(WallTime(NOW.0 - 1)));
    let early = fault(Draft { from: "20250615120001Z", ..draft.clone() });
    assert_eq!(early, ChainFault::NotYetValid(WallTime(NOW.0 + 1)));
    let usage = fault(Draft { extensions: Some(vec![key_usage(&[2])]), ..draft.clone() });
    assert_eq!(usage, ChainFault::KeyUsage("signatures"));
    let unknown = extension("1.2.3.4", true, &[5, 0]);
    let critical = fault(Draft { extensions: Some(vec![unknown]), ..draft.clone() });
    assert_eq!(critical, ChainFault::CriticalExtension("1.2.3.4".to_owned()));
    let harmless = extension("1.2.3.4", false, &[5, 0]);
    let leaf = EC_AUTHORITY.issue(&Draft { extensions: Some(vec![harmless]), ..draft.clone() }, TestKey::ec());
    assert!(anchors.verify(&leaf.certificate, &[], NOW).is_ok());
    // Both ends of the validity belong to it.
    let edge = Draft { from: "20250615120000Z", until: "20250615120000Z", ..draft };
    let edge = EC_AUTHORITY.issue(&edge, TestKey::ec());
    assert_eq!(anchors.verify(&edge.certificate, &[], NOW), Ok(NOW));
    // The authority expires before the participant.
    let short = Draft { until: "20300101000000Z", ..Draft::authority("Short CA") };
    let short = Identity::self_signed(&short, TestKey::ec());
    let leaf = short.issue(&Draft::participant("P_a"), TestKey::ec());
    let end = short.certificate.not_after();
    assert_eq!(trusting(&short).verify(&leaf.certificate, &[], NOW), Ok(end));
    let result = trusting(&short).verify(&leaf.certificate, &[], WallTime(end.0 + 1));
    assert_eq!(fault_of(result), ("CN=Short CA,O=Test,C=ES".to_owned(), ChainFault::Expired(end)));
}

#[test]
fn chains_over_intermediate_authorities_are_found() {
    let draft = |extensions| Draft { extensions: Some(extensions), ..Draft::new("Sub CA") };
    let intermediate = EC_AUTHORITY.issue(&draft(vec![basic_constraints(true, Some(0))]), TestKey::ec());
    let leaf = intermediate.issue(&Draft::participant("P_a"), TestKey::ec());
    let anchors = trusting(&EC_AUTHORITY);
    let sent = [leaf.certificate.clone(), intermediate.certificate.clone()];
    assert!(anchors.verify(&leaf.certificate, &sent, NOW).is_ok());
    assert!(matches!(fault_of(anchors.verify(&leaf.certificate, &[], NOW)).1, ChainFault::UnknownIssuer(_)));
    let list = vec![intermediate.certificate.clone(), EC_AUTHORITY.certificate.clone()];
    let from_list = TrustAnchors::from_list(list);
    assert_eq!((from_list.authorities.len(), from_list.intermediates.len()), (1, 1));
    assert!(from_list.verify(&leaf.certificate, &[], NOW).is_ok());
    assert!(
        TrustAnchors::from_list(vec![intermediate.certificate.clone()]).verify(&leaf.certificate, &[], NOW).is_ok()
    );
    // The intermediate authority must not issue further ones.
    let below = intermediate.issue(&Draft::authority("Below CA"), TestKey::ec());
    let deep = below.issue(&Draft::participant("P_d"), TestKey::ec());
    let sent = [intermediate.certificate.clone(), below.certificate.clone()];
    let found = fault_of(anchors.verify(&deep.certificate, &sent, NOW));
    assert_eq!(found, ("CN=Sub CA,O=Test,C=ES".to_owned(), ChainFault::PathLength(0)));
    for (extensions, expected) in [
        (vec![basic_constraints(false, None)], ChainFault::NoAuthority),
        (vec![basic_constraints(true, None), key_usage(&[0])], ChainFault::KeyUsage("certificates")),
    ] {
        let intermediate = EC_AUTHORITY.issue(&draft(extensions), TestKey::ec());
        let leaf = intermediate.issue(&Draft::participant("P_a"), TestKey::ec());
        let sent = core::slice::from_ref(&intermediate.certificate);
        assert_eq!(fault_of(anchors.verify(&leaf.certificate, sent, NOW)).1, expected);
    }
}

#[test]
fn intermediate_authority_that_has_expired_is_refused_and_limits_the_validity_of_the_chain() {
    let extensions = Some(vec![basic_constraints(true, Some(0))]);
    let draft = Draft { until: "20300101000000Z", extensions, ..Draft::new("Sub CA") };
    let intermediate = EC_AUTHORITY.issue(&draft, TestKey::ec());
    let leaf = intermediate.issue(&Draft::participant("P_a"), TestKey::ec());
    let end = intermediate.certificate.not_after();
    assert!(end < leaf.certificate.not_after() && end < EC_AUTHORITY.certificate.not_after());
    let sent = core::slice::from_ref(&intermediate.certificate);
    let configured = TrustAnchors { intermediates: sent.to_vec(), ..trusting(&EC_AUTHORITY) };
    for (anchors, sent) in [(trusting(&EC_AUTHORITY), sent), (configured, &[][..])] {
        assert_eq!(anchors.verify(&leaf.certificate, sent, end), Ok(end));
        let late = anchors.verify(&leaf.certificate, sent, WallTime(end.0 + 1));
        assert_eq!(fault_of(late), ("CN=Sub CA,O=Test,C=ES".to_owned(), ChainFault::Expired(end)));
    }
}

#[test]
fn search_for_a_chain_is_bounded() {
    let mut chain = vec![Identity::self_signed(&Draft::authority("Root"), TestKey::ec())];
    for _ in 0..20 {
        let next = chain.last().unwrap().issue(&Draft::authority("Link"), TestKey::ec());
        chain.push(next);
    }
    let leaf = chain.last().unwrap().issue(&Draft::participant("P_a"), TestKey::ec());
    let certificates: Vec<_> = chain.iter().map(|identity| identity.certificate.clone()).collect();
    let anchors = TrustAnchors { authorities: certificates[..1].to_vec(), ..TrustAnchors::default() };
    let fault = fault_of(anchors.verify(&leaf.certificate, &certificates[1..], NOW)).1;
    assert_eq!(fault, ChainFault::TooLong);
    // Many authorities of one name that sign each other.
    let twins: Vec<Identity> =
        (0..100).map(|_| Identity::self_signed(&Draft::authority("Link"), TestKey::ec())).collect();
    let twins: Vec<_> = twins.into_iter().map(|identity| identity.certificate).collect();
    assert_eq!(fault_of(anchors.verify(&leaf.certificate, &twins, NOW)).1, ChainFault::TooLong);
}

#[test]
fn revoked_certificates_are_refused() {
    let serial = |serial: u8| Draft { serial: vec![serial], ..Draft::participant("P_a") };
    let good = EC_AUTHORITY.issue(&serial(1), TestKey::ec());
    let bad = EC_AUTHORITY.issue(&serial(2), TestKey::ec());
    let verify = |list: &[u8], leaf: &Identity| {
        let text = EC_AUTHORITY.pem() + &pem("X509 CRL", list);
        let mut anchors = TrustAnchors::from_list(Certificate::from_pem(&text).unwrap());
        anchors.revocations = RevocationList::from_pem(&text).unwrap();
        assert_eq!(anchors.revocations.len(), 1);
        anchors.verify(&leaf.certificate, &[], NOW)
    };
    let (from, until) = ("20200101000000Z", "20350101000000Z");
    let list = EC_AUTHORITY.revocation_list(&[&[2], &[9]], from, until, &[]);
    assert!(verify(&list, &good).is_ok());
    assert_eq!(fault_of(verify(&list, &bad)).1, ChainFault::Revoked);
    let empty = EC_AUTHORITY.revocation_list(&[], from, until, &[]);
    assert!(verify(&empty, &bad).is_ok());
    let expired = EC_AUTHORITY.revocation_list(&[&[2]], from, "20240101000000Z", &[]);
    assert_eq!(fault_of(verify(&expired, &good)).1, ChainFault::RevocationList("has expired"));
    let early = EC_AUTHORITY.revocation_list(&[&[2]], "20300101000000Z", until, &[]);
    assert_eq!(fault_of(verify(&early, &good)).1, ChainFault::RevocationList("is not valid yet"));
    let twin = Identity::self_signed(&Draft::authority("EC CA"), TestKey::ec());
    let forged = twin.revocation_list(&[], from, until, &[]);
    let expected = ChainFault::RevocationList("is not signed by its authority");
    assert_eq!(fault_of(verify(&forged, &bad)).1, expected);
    let delta = extension("2.5.29.27", true, &der(2, &[&[1]]));
    let delta = EC_AUTHORITY.revocation_list(&[], from, until, &[delta]);
    let expected = ChainFault::RevocationList("has a critical extension that is not known");
    assert_eq!(fault_of(verify(&delta, &bad)).1, expected);
    // The list of another authority does not concern this one.
    let other = RSA_AUTHORITY.revocation_list(&[&[2]], from, until, &[]);
    assert!(verify(&other, &bad).is_ok());
    for len in 0..list.len() {
        assert!(RevocationList::from_der(&list[..len]).is_err());
    }
}

#[test]
fn revocation_lists_that_would_refuse_all_peers_or_none_are_not_usable() {
    let anchors = TrustAnchors::from_list(vec![EC_AUTHORITY.certificate.clone()]);
    let (from, until) = ("20200101000000Z", "20350101000000Z");
    let made = |lists: &[Vec<u8>]| lists.iter().map(|list| RevocationList::from_der(list).unwrap()).collect::<Vec<_>>();
    let check = |lists: &[Vec<u8>]| anchors.check_revocations(&made(lists), NOW);
    let good = EC_AUTHORITY.revocation_list(&[&[2]], from, until, &[]);
    let empty = EC_AUTHORITY.revocation_list(&[], from, until, &[]);
    let other = RSA_AUTHORITY.revocation_list(&[&[2]], from, until, &[]);
    for usable in [vec![good.clone()], vec![empty.clone()], vec![other.clone(), good.clone()]] {
        assert_eq!(check(&usable), Ok(()));
    }
    assert_eq!(check(&[]), Err(UnusableRevocations::NoList));
    assert_eq!(check(&[other]), Err(UnusableRevocations::OtherAuthority));
    let expired = EC_AUTHORITY.revocation_list(&[], from, "20240101000000Z", &[]);
    let twin = Identity::self_signed(&Draft::authority("EC CA"), TestKey::ec());
    let forged = twin.revocation_list(&[], from, until, &[]);
    for (list, what) in [(expired, "has expired"), (forged, "is not signed by its authority")] {
        let Err(UnusableRevocations::List { number: 2, error }) = check(&[good.clone(), list]) else {
            panic!("{what}: not refused")
        };
        assert_eq!(error.fault, ChainFault::RevocationList(what));
    }
}

#[test]
fn prefix_of_a_captured_participant_is_computed() {
    let subject = "302a310b3009060355040613024553310d300b060355040a0c0454657374310c300a06035504030c03505f61";
    let draft = Draft::participant("P_a");
    assert_eq!(name(&draft.subject), hex(subject));
    let leaf = EC_AUTHORITY.issue(&draft, TestKey::ec());
    let candidate = GuidPrefix(hex("0110bdcf4d430d061e7924c0").try_into().unwrap());
    let prefix = adjusted_prefix(&leaf.certificate, Guid::new(candidate, EntityId::PARTICIPANT));
    assert_eq!(prefix.0[..], hex("a2111b8410fd c25896676fb3"));
    assert!(is_prefix_of(&leaf.certificate, prefix));
    // The participant of the capture hashes its candidate otherwise, which no peer can notice.
    assert!(is_prefix_of(&leaf.certificate, GuidPrefix(hex("a2111b8410fd7f99db0657de").try_into().unwrap())));
    let other = EC_AUTHORITY.issue(&Draft::participant("P_b"), TestKey::ec());
    assert!(!is_prefix_of(&other.certificate, prefix));
    assert_ne!(adjusted_prefix(&leaf.certificate, Guid::new(prefix, EntityId::PARTICIPANT)), prefix);
}

#[test]
fn names_with_several_values_and_string_types_are_compared() {
    let printable = der(0x30, &[&der(0x31, &[&der(0x30, &[&crate::testing::oid("2.5.4.3"), &der(0x13, &[b"a"])])])]);
    let parse = |octets: &[u8]| {
        DistinguishedName::from_der(&crate::asn1::Element::only(octets).unwrap()).map(|name| name.to_string())
    };
    assert_eq!(parse(&printable), parse(&name(&[(CN, "a")])));
    let wide = der(0x30, &[&der(0x31, &[&der(0x30, &[&crate::testing::oid("2.5.4.3"), &der(0x1e, &[&[0, b'a']])])])]);
    assert_eq!(parse(&wide), Ok("CN=a".to_owned()));
    let odd = der(0x30, &[&der(0x31, &[&der(0x30, &[&crate::testing::oid("2.5.4.3"), &der(0x1e, &[&[0]])])])]);
    assert!(parse(&odd).is_err());
    assert_eq!(parse(&name(&[(CN, "a,O=b")])), Ok("CN=a\\,O\\=b".to_owned()));
}

#[test]
fn private_keys_belong_to_their_certificates_and_sign() {
    let ec = EC_AUTHORITY.issue(&Draft::participant("P_a"), TestKey::ec());
    for identity in [&ec, &*RSA_AUTHORITY] {
        let key = PrivateKey::from_pem(&(identity.pem() + &identity.key.pem), None).unwrap();
        assert!(key.is_of(&identity.certificate));
        assert!(!key.is_of(&EC_AUTHORITY.certificate));
        for algorithm in [key.message_algorithm(), key.document_algorithm()] {
            let signature = key.sign(algorithm, b"message").unwrap();
            let public = identity.certificate.public_key();
            assert_eq!(public.verify(algorithm, b"message", &signature), Ok(()));
            assert_eq!(public.verify(algorithm, b"other", &signature), Err(BadSignature::Wrong));
            let longer = [&signature[..], &[0]].concat();
            assert_eq!(public.verify(algorithm, b"message", &longer), Err(BadSignature::Wrong));
            assert_eq!(public.verify(algorithm, b"message", &[]), Err(BadSignature::Wrong));
        }
    }
    let wrong = SignatureAlgorithm::RsaPss(Digest::Sha256);
    assert_eq!(ec.key.private.sign(wrong, b"message"), None);
    assert_eq!(ec.certificate.public_key().verify(wrong, b"", b""), Err(BadSignature::Algorithm));
    assert_eq!(format!("{:?}", ec.key.private), "PrivateKey(EC)");
}

#[test]
fn private_keys_that_cannot_be_read_are_refused_with_the_cause() {
    let read = |text: &str, password: Option<&[u8]>| {
        PrivateKey::from_pem(text, password.map(Secret::copy_of).as_ref()).unwrap_err()
    };
    assert_eq!(read("nothing", None), PrivateKeyError::NoKey);
    assert_eq!(read("-----BEGIN PRIVATE KEY-----\nAQID\n", None), PrivateKeyError::Pem(1));
    assert_eq!(read(&pem("PRIVATE KEY", &[1, 2, 3]), None), PrivateKeyError::Key);
    let legacy = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAQID\n\
                  -----END RSA PRIVATE KEY-----\n";
    assert_eq!(read(legacy, None), PrivateKeyError::LegacyEncryption);
    assert_eq!(read(&pem("ENCRYPTED PRIVATE KEY", &[1, 2, 3]), None), PrivateKeyError::PasswordMissing);
    assert_eq!(read(&pem("ENCRYPTED PRIVATE KEY", &[1, 2, 3]), Some(b"x")), PrivateKeyError::Key);
}

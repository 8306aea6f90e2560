//! Certificates, revocation lists, keys and names may consist of any bytes: nothing panics, and names that are printed
//! parse to the same name.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_security::WallTime;
use peregrine_security::identity::{
    Certificate, DistinguishedName, NameExpression, PrivateKey, RevocationList, TrustAnchors,
};

fuzz_target!(|octets: &[u8]| {
    let mut certificates: Vec<Certificate> = Certificate::from_der(octets).into_iter().collect();
    let mut revocations: Vec<RevocationList> = RevocationList::from_der(octets).into_iter().collect();
    if let Ok(text) = core::str::from_utf8(octets) {
        certificates.extend(Certificate::from_pem(text).unwrap_or_default());
        revocations.extend(RevocationList::from_pem(text).unwrap_or_default());
        let _ = (PrivateKey::from_pem(text, None), NameExpression::parse(text));
        if let Ok(name) = DistinguishedName::parse(text) {
            assert_eq!(DistinguishedName::parse(&name.to_string()), Ok(name));
        }
    }
    for certificate in &certificates {
        let anchors = TrustAnchors {
            authorities: certificates.clone(),
            intermediates: Vec::new(),
            revocations: revocations.clone(),
        };
        let _ = anchors.verify(certificate, &certificates, WallTime(1_750_000_000));
        let subject = certificate.subject();
        assert_eq!(DistinguishedName::parse(&subject.to_string()).as_ref().ok(), Some(subject));
    }
});

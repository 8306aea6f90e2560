//! Shared by the tests of this crate: bytes, keys, certificates, revocation lists and signed documents.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::identity::{Certificate, PrivateKey};

/// The bytes of hexadecimal digits; blanks are ignored.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

pub(crate) fn zeros(len: usize) -> Vec<u8> {
    vec![0; len]
}

/// A source of bytes that do not repeat, the same for each seed.
pub(crate) fn random(seed: u8) -> impl FnMut(&mut [u8]) {
    let mut count = 0u64;
    move |out| {
        for chunk in out.chunks_mut(32) {
            count += 1;
            let input = [&[seed][..], &count.to_be_bytes()].concat();
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &input);
            chunk.copy_from_slice(&digest.as_ref()[..chunk.len()]);
        }
    }
}

/// An element of DER.
pub(crate) fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    let len = value.len().to_be_bytes();
    let significant = &len[len.iter().position(|octet| *octet != 0).unwrap_or(7)..];
    let long = [&[0x80 | significant.len() as u8][..], significant].concat();
    let length = if value.len() < 128 { vec![value.len() as u8] } else { long };
    [&[tag][..], &length, &value].concat()
}

fn integer(octets: &[u8]) -> Vec<u8> {
    der(2, &[octets])
}

pub(crate) fn oid(text: &str) -> Vec<u8> {
    der(6, &[const_oid::ObjectIdentifier::new_unwrap(text).as_bytes()])
}

/// A key with its SubjectPublicKeyInfo.
pub(crate) struct TestKey {
    pub(crate) private: PrivateKey,
    pub(crate) pem: String,
    info: Vec<u8>,
    signature_algorithm: Vec<u8>,
}

impl TestKey {
    pub(crate) fn ec() -> Self {
        use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let algorithm = der(0x30, &[&oid("1.2.840.10045.2.1"), &oid("1.2.840.10045.3.1.7")]);
        let info = der(0x30, &[&algorithm, &der(3, &[&[0], key.public_key().as_ref()])]);
        let signature_algorithm = der(0x30, &[&oid("1.2.840.10045.4.3.2")]);
        Self::new(key.to_pkcs8v1().unwrap().as_ref(), info, signature_algorithm)
    }

    pub(crate) fn rsa() -> Self {
        use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
        use aws_lc_rs::signature::KeyPair;
        let key = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
        let null = der(5, &[]);
        let algorithm = der(0x30, &[&oid("1.2.840.113549.1.1.1"), &null]);
        let info = der(0x30, &[&algorithm, &der(3, &[&[0], key.public_key().as_ref()])]);
        let signature_algorithm = der(0x30, &[&oid("1.2.840.113549.1.1.11"), &null]);
        let pkcs8: Pkcs8V1Der<'_> = key.as_der().unwrap();
        Self::new(pkcs8.as_ref(), info, signature_algorithm)
    }

    /// An EC key whose certificates state another public key.
    pub(crate) fn claiming(info: Vec<u8>) -> Self {
        Self { info, ..Self::ec() }
    }

    fn new(pkcs8: &[u8], info: Vec<u8>, signature_algorithm: Vec<u8>) -> Self {
        let pem = pem("PRIVATE KEY", pkcs8);
        Self { private: PrivateKey::from_pem(&pem, None).unwrap(), pem, info, signature_algorithm }
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.private.sign(self.private.document_algorithm(), message).unwrap()
    }

    fn signed(&self, tbs: &[u8]) -> Vec<u8> {
        der(0x30, &[tbs, &self.signature_algorithm, &der(3, &[&[0], &self.sign(tbs)])])
    }
}

pub(crate) fn pem(label: &str, octets: &[u8]) -> String {
    let base64 = STANDARD.encode(octets);
    let lines: Vec<&str> = base64.as_bytes().chunks(64).map(|line| core::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// The content of a test certificate.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// Short OIDs below 2.5.4 with their values, in the order of the certificate.
    pub(crate) subject: Vec<(u8, &'static str)>,
    pub(crate) serial: Vec<u8>,
    pub(crate) from: &'static str,
    pub(crate) until: &'static str,
    /// Version 1 has no extensions.
    pub(crate) extensions: Option<Vec<Vec<u8>>>,
}

pub(crate) const C: u8 = 6;
pub(crate) const O: u8 = 10;
pub(crate) const CN: u8 = 3;

/// 2025-06-15T12:00:00Z: within the validity of drafts.
pub(crate) const NOW: crate::WallTime = crate::WallTime(1_749_988_800);

impl Draft {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            subject: vec![(C, "ES"), (O, "Test"), (CN, name)],
            serial: vec![name.len() as u8],
            from: "20200101000000Z",
            until: "20350101000000Z",
            extensions: Some(Vec::new()),
        }
    }

    pub(crate) fn authority(name: &'static str) -> Self {
        Self { extensions: Some(vec![basic_constraints(true, None), key_usage(&[5, 6])]), ..Self::new(name) }
    }

    pub(crate) fn participant(name: &'static str) -> Self {
        Self { extensions: Some(vec![basic_constraints(false, None), key_usage(&[0])]), ..Self::new(name) }
    }
}

pub(crate) fn name(attributes: &[(u8, &str)]) -> Vec<u8> {
    let rdn = |(kind, value): &(u8, &str)| {
        let tag = if *kind == C { 0x13 } else { 0x0c };
        let attribute = der(0x30, &[&oid(&format!("2.5.4.{kind}")), &der(tag, &[value.as_bytes()])]);
        der(0x31, &[&attribute])
    };
    der(0x30, &[&attributes.iter().map(rdn).collect::<Vec<_>>().concat()])
}

pub(crate) fn extension(id: &str, critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if critical { der(1, &[&[0xff]]) } else { Vec::new() };
    der(0x30, &[&oid(id), &critical, &der(4, &[value])])
}

pub(crate) fn basic_constraints(is_authority: bool, path: Option<u8>) -> Vec<u8> {
    let flag = if is_authority { der(1, &[&[0xff]]) } else { Vec::new() };
    let path = path.map_or(Vec::new(), |path| integer(&[path]));
    extension("2.5.29.19", true, &der(0x30, &[&flag, &path]))
}

/// The bits are counted from the highest of the first byte.
pub(crate) fn key_usage(bits: &[u8]) -> Vec<u8> {
    let octet = bits.iter().fold(0u8, |octet, bit| octet | 0x80 >> bit);
    extension("2.5.29.15", true, &der(3, &[&[octet.trailing_zeros() as u8, octet]]))
}

/// A certificate with its key.
pub(crate) struct Identity {
    pub(crate) certificate: Certificate,
    pub(crate) key: TestKey,
    subject: Vec<u8>,
}

impl Identity {
    pub(crate) fn self_signed(draft: &Draft, key: TestKey) -> Self {
        let subject = name(&draft.subject);
        let certificate = key.signed(&tbs_certificate(draft, &subject, &key, &key));
        Self { certificate: Certificate::from_der(&certificate).unwrap(), key, subject }
    }

    pub(crate) fn issue(&self, draft: &Draft, key: TestKey) -> Self {
        let certificate = self.key.signed(&tbs_certificate(draft, &self.subject, &key, &self.key));
        let subject = name(&draft.subject);
        Self { certificate: Certificate::from_der(&certificate).unwrap(), key, subject }
    }

    /// As [`Self::issue`], as bytes that need not be a certificate.
    pub(crate) fn issue_der(&self, draft: &Draft, key: &TestKey) -> Vec<u8> {
        self.key.signed(&tbs_certificate(draft, &self.subject, key, &self.key))
    }

    pub(crate) fn pem(&self) -> String {
        pem("CERTIFICATE", self.certificate.as_der())
    }

    pub(crate) fn revocation_list(
        &self,
        serials: &[&[u8]],
        from: &str,
        until: &str,
        extensions: &[Vec<u8>],
    ) -> Vec<u8> {
        let entries: Vec<Vec<u8>> =
            serials.iter().map(|serial| der(0x30, &[&integer(serial), &der(0x18, &[from.as_bytes()])])).collect();
        let entries = if entries.is_empty() { Vec::new() } else { der(0x30, &[&entries.concat()]) };
        let extensions =
            if extensions.is_empty() { Vec::new() } else { der(0xa0, &[&der(0x30, &[&extensions.concat()])]) };
        let tbs = der(
            0x30,
            &[
                &integer(&[1]),
                &self.key.signature_algorithm,
                &self.subject,
                &der(0x18, &[from.as_bytes()]),
                &der(0x18, &[until.as_bytes()]),
                &entries,
                &extensions,
            ],
        );
        self.key.signed(&tbs)
    }

    /// Signs a document as `openssl smime -sign -text` does.
    pub(crate) fn sign(&self, xml: &str) -> Vec<u8> {
        self.sign_with(&text_part(xml), true)
    }

    /// Signs a part. Without attributes, the signature is over the part itself.
    pub(crate) fn sign_with(&self, part: &str, with_attributes: bool) -> Vec<u8> {
        multipart(part, &self.signed_data(part.as_bytes(), None, with_attributes))
    }

    /// The text within the signature.
    pub(crate) fn sign_opaque(&self, part: &str) -> Vec<u8> {
        let signed = self.signed_data(part.as_bytes(), Some(part.as_bytes()), true);
        let head = "MIME-Version: 1.0\nContent-Disposition: attachment; filename=\"smime.p7m\"\n\
                    Content-Type: application/x-pkcs7-mime; smime-type=signed-data; name=\"smime.p7m\"\n\
                    Content-Transfer-Encoding: base64\n\n";
        format!("{head}{}\n\n", STANDARD.encode(signed)).into_bytes()
    }

    pub(crate) fn signed_data(&self, part: &[u8], content: Option<&[u8]>, with_attributes: bool) -> Vec<u8> {
        let signer = self.signer_info(part, with_attributes);
        signed_data(&[&signer], content, self.certificate.as_der())
    }

    pub(crate) fn signer_info(&self, part: &[u8], with_attributes: bool) -> Vec<u8> {
        let sha256 = der(0x30, &[&oid("2.16.840.1.101.3.4.2.1")]);
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, part);
        let attribute = |kind: &str, value: &[u8]| der(0x30, &[&oid(kind), &der(0x31, &[value])]);
        let attributes = [
            attribute("1.2.840.113549.1.9.3", &oid("1.2.840.113549.1.7.1")),
            attribute("1.2.840.113549.1.9.4", &der(4, &[digest.as_ref()])),
        ]
        .concat();
        let signature = if with_attributes { self.key.sign(&der(0x31, &[&attributes])) } else { self.key.sign(part) };
        let attributes = if with_attributes { der(0xa0, &[&attributes]) } else { Vec::new() };
        let signer = der(0x30, &[&self.subject, &integer(self.certificate.serial())]);
        let algorithm = &self.key.signature_algorithm;
        der(0x30, &[&integer(&[1]), &signer, &sha256, &attributes, algorithm, &der(4, &[&signature])])
    }
}

pub(crate) fn signed_data(signers: &[&[u8]], content: Option<&[u8]>, certificate: &[u8]) -> Vec<u8> {
    let sha256 = der(0x30, &[&oid("2.16.840.1.101.3.4.2.1")]);
    let content = content.map_or(Vec::new(), |content| der(0xa0, &[&der(4, &[content])]));
    let data = der(0x30, &[&oid("1.2.840.113549.1.7.1"), &content]);
    let certificates = der(0xa0, &[certificate]);
    let signers = der(0x31, &[&signers.concat()]);
    let signed = der(0x30, &[&integer(&[1]), &der(0x31, &[&sha256]), &data, &certificates, &signers]);
    der(0x30, &[&oid("1.2.840.113549.1.7.2"), &der(0xa0, &[&signed])])
}

/// The part that is signed.
pub(crate) fn text_part(xml: &str) -> String {
    format!("Content-Type: text/plain\r\n\r\n{}", xml.replace("\r\n", "\n").replace('\n', "\r\n"))
}

pub(crate) fn multipart(part: &str, signature: &[u8]) -> Vec<u8> {
    let boundary = "----0123456789ABCDEF0123456789ABCDEF";
    let base64 = STANDARD.encode(signature);
    let lines: Vec<&str> = base64.as_bytes().chunks(64).map(|line| core::str::from_utf8(line).unwrap()).collect();
    let lines = lines.join("\n");
    format!(
        "MIME-Version: 1.0\nContent-Type: multipart/signed; protocol=\"application/x-pkcs7-signature\"; \
         micalg=\"sha-256\"; boundary=\"{boundary}\"\n\nThis is an S/MIME signed message\n\n--{boundary}\n{part}\n\
         --{boundary}\nContent-Type: application/x-pkcs7-signature; name=\"smime.p7s\"\n\
         Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename=\"smime.p7s\"\n\n{lines}\n\n\
         --{boundary}--\n\n"
    )
    .into_bytes()
}

fn tbs_certificate(draft: &Draft, issuer: &[u8], key: &TestKey, signer: &TestKey) -> Vec<u8> {
    let validity = der(0x30, &[&time(draft.from), &time(draft.until)]);
    let version = if draft.extensions.is_some() { der(0xa0, &[&integer(&[2])]) } else { Vec::new() };
    let extensions = draft.extensions.iter().filter(|list| !list.is_empty());
    let extensions: Vec<u8> = extensions.flat_map(|list| der(0xa3, &[&der(0x30, &[&list.concat()])])).collect();
    der(
        0x30,
        &[
            &version,
            &integer(&draft.serial),
            &signer.signature_algorithm,
            issuer,
            &validity,
            &name(&draft.subject),
            &key.info,
            &extensions,
        ],
    )
}

fn time(text: &str) -> Vec<u8> {
    // Up to 2049, certificates have two digits of the year.
    der(0x17, &[&text.as_bytes()[2..]])
}

/// An RSA key takes some 100 ms to generate, so that the tests share one.
pub(crate) static RSA_AUTHORITY: LazyLock<Identity> =
    LazyLock::new(|| Identity::self_signed(&Draft::authority("RSA CA"), TestKey::rsa()));

pub(crate) static EC_AUTHORITY: LazyLock<Identity> =
    LazyLock::new(|| Identity::self_signed(&Draft::authority("EC CA"), TestKey::ec()));

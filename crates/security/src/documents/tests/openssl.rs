//! The program `openssl`, where it is installed, opens what this crate's tests sign, and signs what this crate opens.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::*;
use super::{governance, topic_rule};
use crate::identity::{Certificate, PrivateKey, PrivateKeyError, TrustAnchors};
use crate::secret::Secret;
use crate::testing::{EC_AUTHORITY, Identity, NOW, RSA_AUTHORITY};

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("peregrine-security-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, octets: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, octets).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// Whether the program accepts; `None` if it is not installed.
    fn openssl(&self, arguments: &str) -> Option<bool> {
        let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(&self.0).output();
        match output {
            Ok(output) => Some(output.status.success()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn with_identity(folder: &Folder, identity: &Identity) -> Option<()> {
    folder.write("ca.pem", identity.pem());
    folder.write("ca.key", &identity.key.pem);
    folder.openssl("version").map(|_| ())
}

#[test]
fn openssl_opens_documents_that_are_signed_here() {
    for (name, identity) in [("open-ec", &*EC_AUTHORITY), ("open-rsa", &*RSA_AUTHORITY)] {
        let folder = Folder::new(name);
        let Some(()) = with_identity(&folder, identity) else { return };
        let xml = governance(&topic_rule("*", false));
        folder.write("signed", identity.sign(&xml));
        let accepted = folder.openssl("smime -verify -purpose any -text -in signed -CAfile ca.pem -out xml");
        assert_eq!(accepted, Some(true));
        assert_eq!(folder.read("xml").replace("\r\n", "\n"), xml);
        folder.write("signed", String::from_utf8(identity.sign(&xml)).unwrap().replace("false", "true"));
        assert_eq!(folder.openssl("smime -verify -purpose any -text -in signed -CAfile ca.pem -out xml"), Some(false));
    }
}

#[test]
fn documents_that_openssl_signs_are_opened_here() {
    for (name, identity) in [("sign-ec", &*EC_AUTHORITY), ("sign-rsa", &*RSA_AUTHORITY)] {
        let folder = Folder::new(name);
        let Some(()) = with_identity(&folder, identity) else { return };
        let xml = governance(&topic_rule("*", false));
        folder.write("xml", &xml);
        let common = "-sign -in xml -out signed -signer ca.pem -inkey ca.key";
        for (options, is_accepted) in [
            ("smime -text", true),
            ("smime -text -nodetach", true),
            ("smime -text -md sha512", true),
            ("smime -text -nocerts", true),
            ("smime -text -crlfeol", true),
            ("smime -text -noattr", true),
            ("cms -text", true),
            ("smime", false),
            ("smime -text -md sha1", false),
        ] {
            assert_eq!(folder.openssl(&format!("{options} {common}")), Some(true), "{options}");
            let signed = fs::read(folder.0.join("signed")).unwrap();
            let authorities = core::slice::from_ref(&identity.certificate);
            let opened = open_signed(Document::Governance, &signed, authorities, 1 << 20);
            assert_eq!(opened.is_ok(), is_accepted, "{name} {options}: {opened:?}");
            if let Ok(text) = opened {
                assert_eq!(text.replace("\r\n", "\n").trim_end(), xml.trim_end(), "{options}");
                assert!(Governance::parse(&text).is_ok());
            }
        }
    }
}

#[test]
fn certificates_and_keys_of_openssl_are_read() {
    let folder = Folder::new("keys");
    let Some(()) = with_identity(&folder, &EC_AUTHORITY) else { return };
    let run = |arguments: &str| assert_eq!(folder.openssl(arguments), Some(true), "{arguments}");
    run("ecparam -name prime256v1 -genkey -noout -out sec1.key");
    run("pkcs8 -topk8 -nocrypt -in sec1.key -out pkcs8.key");
    run("pkcs8 -topk8 -in sec1.key -v2 aes-256-cbc -passout pass:secret -out encrypted.key");
    run("genrsa -traditional -out pkcs1.key 2048");
    run("rsa -traditional -aes256 -passout pass:secret -in pkcs1.key -out legacy.key");
    let issue = |key: &str| {
        run(&format!("req -new -key {key} -sha256 -subj /C=ES/O=Test/CN=P_a -out csr"));
        // Without extensions, some versions of the program issue certificates of version 1.
        run("x509 -req -in csr -CA ca.pem -CAkey ca.key -CAcreateserial -sha256 -days 3650 -out leaf.pem");
        Certificate::from_pem(&folder.read("leaf.pem")).unwrap().remove(0)
    };
    let read = |file: &str, password: Option<&str>| {
        let password = password.map(|password| Secret::copy_of(password.as_bytes()));
        PrivateKey::from_pem(&folder.read(file), password.as_ref())
    };
    let leaf = issue("sec1.key");
    for (file, password) in [("sec1.key", None), ("pkcs8.key", None), ("encrypted.key", Some("secret"))] {
        assert!(read(file, password).unwrap().is_of(&leaf), "{file}");
    }
    assert_eq!(read("encrypted.key", Some("wrong")).unwrap_err(), PrivateKeyError::Password);
    assert_eq!(read("encrypted.key", None).unwrap_err(), PrivateKeyError::PasswordMissing);
    assert_eq!(read("legacy.key", Some("secret")).unwrap_err(), PrivateKeyError::LegacyEncryption);
    run("genrsa -out short.key 1024");
    run("ecparam -name secp384r1 -genkey -noout -out p384.key");
    run("genpkey -algorithm ed25519 -out ed25519.key");
    for file in ["short.key", "p384.key", "ed25519.key"] {
        assert_eq!(read(file, None).unwrap_err(), PrivateKeyError::Key, "{file}");
    }
    let rsa = issue("pkcs1.key");
    assert!(read("pkcs1.key", None).unwrap().is_of(&rsa));
    let anchors = TrustAnchors::from_list(vec![EC_AUTHORITY.certificate.clone()]);
    for certificate in [&leaf, &rsa] {
        let now = certificate.not_before();
        assert!(anchors.verify(certificate, &[], now).is_ok());
        assert!(now > NOW, "the program issues with the time of this machine");
    }
    assert!(Path::new(&folder.0).exists());
}

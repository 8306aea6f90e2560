//! Documents of DDS Security for measurements, in builds with and without security.

use crate::error::Error;
use crate::protection::{Documents, Protection};

/// The documents of publisher and subscriber, each of which may write and read these topics.
///
/// # Errors
/// The library made no key, or this build has no security.
pub(crate) fn documents(protection: Protection, topics: &[&str]) -> Result<[Documents; 2], Error> {
    #[cfg(feature = "security")]
    return crate::security::measured::issued(protection, topics);
    #[cfg(not(feature = "security"))]
    {
        let _ = (protection, topics);
        Err(Error::Setup("This program was built without security; build it with the feature security.".into()))
    }
}

#[cfg(all(test, feature = "security"))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::protection::DocumentFolder;

    #[test]
    fn levels_have_different_names_and_a_governance_document_each() {
        for (index, level) in Protection::ALL.into_iter().enumerate() {
            for other in &Protection::ALL[index + 1..] {
                assert_ne!((level.id(), level.label()), (other.id(), other.label()));
                assert_ne!(level.document(), other.document());
                assert_ne!(level.short_label(), other.short_label());
            }
            let [publisher, subscriber] = documents(level, &["a topic"]).unwrap();
            assert_ne!(publisher.certificate, subscriber.certificate);
            assert_eq!(publisher.governance, subscriber.governance);
            assert!(publisher.used.governance.ends_with(&format!("_{}.xml", level.document())));
        }
        let [all, _] = documents(Protection::SignSubmessageEncryptOriginDataEncrypt, &[]).unwrap();
        let used = all.used;
        assert_eq!(
            (&*used.messages, &*used.submessages, &*used.payloads),
            ("SIGN", "ENCRYPT_WITH_ORIGIN_AUTHENTICATION", "ENCRYPT")
        );
    }

    #[test]
    fn debug_output_contains_no_key() {
        let [publisher, _] = documents(Protection::Sign, &["a topic"]).unwrap();
        let text = publisher.private_key.expose();
        let key = text.lines().nth(1).unwrap();
        assert!(text.contains("PRIVATE KEY") && !format!("{publisher:?}").contains(key));
    }

    #[test]
    fn folder_of_documents_is_private_and_removed_by_its_drop() {
        let folder = DocumentFolder::write(&documents(Protection::Encrypt, &["a topic"]).unwrap()).unwrap();
        let path = folder.path().to_owned();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("sub")), mode(&path.join("pub/identity.key"))), (0o700, 0o700, 0o600));
        assert_eq!(fs::read_dir(path.join("sub")).unwrap().count(), 6);
        drop(folder);
        assert!(!path.exists());
    }
}

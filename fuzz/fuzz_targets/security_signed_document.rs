//! A signed document may consist of any bytes: nothing panics, and a text is accepted only if the authority has signed
//! this text.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use peregrine_security::documents::{Document, open_signed};
use peregrine_security::identity::Certificate;

static AUTHORITY: LazyLock<Vec<Certificate>> = LazyLock::new(|| {
    Certificate::from_pem(include_str!("../corpus/security_certificate/authority")).expect("a certificate")
});

/// The only text that the authority has signed, in the corpus.
const TEXT: &str = "<dds/>";

fuzz_target!(|octets: &[u8]| {
    if let Ok(text) = open_signed(Document::Permissions, octets, &AUTHORITY, 1 << 16) {
        assert_eq!(text.trim_end(), TEXT);
    }
});

use super::super::*;
use crate::limits::LOCAL_DOCUMENT_BYTES;
use crate::testing::{
    Draft, EC_AUTHORITY, Identity, RSA_AUTHORITY, TestKey, extension, key_usage, multipart, oid, signed_data, text_part,
};

const XML: &str = "<?xml version=\"1.0\"?>\n<dds>\n  <!-- ä -->\n</dds>\n";

fn open(octets: &[u8]) -> Result<String, DocumentError> {
    let authorities = [RSA_AUTHORITY.certificate.clone(), EC_AUTHORITY.certificate.clone()];
    open_signed(Document::Permissions, octets, &authorities, LOCAL_DOCUMENT_BYTES)
}

fn crlf(text: &str) -> String {
    text.replace('\n', "\r\n")
}

#[test]
fn documents_of_both_kinds_of_authorities_are_opened() {
    for authority in [&*EC_AUTHORITY, &*RSA_AUTHORITY] {
        let expected = Ok(crlf(XML));
        let signed = authority.sign(XML);
        assert_eq!(open(&signed), expected);
        assert_eq!(open(&authority.sign_with(&text_part(XML), false)), expected, "without signed attributes");
        assert_eq!(open(&authority.sign_opaque(&text_part(XML))), expected, "within the signature");
        let text = String::from_utf8(signed).unwrap();
        let unix = text.replace("\r\n", "\n");
        assert_eq!(open(unix.as_bytes()), expected, "converted to LF");
        assert_eq!(open(unix.replace('\n', "\r\n").as_bytes()), expected, "converted to CRLF");
        assert_eq!(open(format!("{text}\0").as_bytes()), expected, "with the end of a C string");
        assert!(open(format!("{text}\0\0").as_bytes()).is_err());
        let cms = text.replace("x-pkcs7-signature", "pkcs7-signature");
        assert_eq!(open(cms.as_bytes()), expected, "with the newer names of types");
    }
}

#[test]
fn document_without_a_last_line_end_is_opened() {
    assert_eq!(open(&EC_AUTHORITY.sign("<dds/>")), Ok("<dds/>".to_owned()));
    let whole = open(&EC_AUTHORITY.sign("<dds/>\n\n\n"));
    assert_eq!(whole, Ok("<dds/>\r\n\r\n\r\n".to_owned()));
}

fn refused(octets: &[u8]) -> String {
    open(octets).unwrap_err().to_string()
}

#[test]
fn signatures_of_others_do_not_count() {
    let expected = "permissions: none of the configured permissions authorities has signed the document";
    // A participant whose certificate is of the same authority, and is in the document.
    let usage = vec![
        key_usage(&[0, 1]),
        extension("2.5.29.37", false, &crate::testing::der(0x30, &[&oid("1.3.6.1.5.5.7.3.4")])),
    ];
    let leaf = EC_AUTHORITY.issue(&Draft { extensions: Some(usage), ..Draft::new("P_a") }, TestKey::ec());
    assert_eq!(refused(&leaf.sign(XML)), expected);
    // Another authority of the same name.
    let twin = Identity::self_signed(&Draft::authority("EC CA"), TestKey::ec());
    assert_eq!(refused(&twin.sign(XML)), expected);
    assert_eq!(
        open_signed(Document::Permissions, &EC_AUTHORITY.sign(XML), &[], 1 << 20).unwrap_err().to_string(),
        expected
    );
}

#[test]
fn changed_text_and_changed_signatures_are_refused() {
    let signed = String::from_utf8(EC_AUTHORITY.sign(XML)).unwrap();
    let changed = signed.replace("<dds>", "<dDs>");
    assert_eq!(refused(changed.as_bytes()), "permissions: the text was changed after it was signed");
    let part = text_part(XML);
    let data = EC_AUTHORITY.signed_data(part.as_bytes(), None, true);
    for at in 0..data.len() {
        let mut data = data.clone();
        data[at] ^= 1;
        // Bytes of the certificate and the name of the signer are not looked at.
        if let Ok(text) = open(&multipart(&part, &data)) {
            assert_eq!(text, crlf(XML));
        }
    }
    let at_end = data.len() - 1;
    let mut wrong = data.clone();
    wrong[at_end] ^= 1;
    assert!(refused(&multipart(&part, &wrong)).contains("none of the configured"));
    for len in 0..data.len() {
        assert!(open(&multipart(&part, &data[..len])).is_err());
    }
}

#[test]
fn signature_needs_exactly_one_signer() {
    let part = text_part(XML);
    let one = EC_AUTHORITY.signer_info(part.as_bytes(), true);
    let certificate = EC_AUTHORITY.certificate.as_der();
    for signers in [&[][..], &[&one[..], &one[..]]] {
        let octets = multipart(&part, &signed_data(signers, None, certificate));
        assert_eq!(refused(&octets), "permissions: the signature does not have exactly one signer");
    }
    let both = multipart(&part, &EC_AUTHORITY.signed_data(part.as_bytes(), Some(part.as_bytes()), true));
    assert!(refused(&both).contains("not well-formed"), "text inside and outside");
}

#[test]
fn signed_part_must_be_plain_text() {
    for part in [crlf(XML), format!("Content-Type: text/html\r\n\r\n{}", crlf(XML))] {
        let message = refused(&EC_AUTHORITY.sign_with(&part, true));
        assert_eq!(message, "permissions: the signed part is not text/plain; sign it with `openssl smime -sign -text`");
    }
    let nested = format!("Content-Type: text/plain\r\nX: y\r\n\r\n{XML}");
    assert!(open(&EC_AUTHORITY.sign_with(&nested, true)).is_err());
}

#[test]
fn envelopes_with_other_parts_are_refused_with_their_line() {
    let signed = String::from_utf8(EC_AUTHORITY.sign(XML)).unwrap();
    let boundary = "------0123456789ABCDEF0123456789ABCDEF";
    let count = signed.lines().count();
    let no_mime = "this is no S/MIME message; sign the document with `openssl smime -sign -text`";
    let cases = [
        (XML.to_owned(), format!("1:1: {no_mime}")),
        (signed.replace("multipart/signed", "multipart/mixed"), format!("1:1: {no_mime}")),
        (
            signed.replacen("x-pkcs7-signature", "pgp", 1),
            "3:1: the protocol of multipart/signed is not application/x-pkcs7-signature".to_owned(),
        ),
        (signed.clone() + "more", format!("{}:1: nothing may follow the signature", count + 1)),
        (signed.replace(&format!("{boundary}--"), ""), format!("{}:1: the signature has no end", count + 1)),
        (signed.replace("Encoding: base64", "Encoding: 7bit"), "18:1: the signature is not in base64".to_owned()),
        // A part ahead of the signed one is taken for the signed one, and the signed one for the signature.
        (
            signed.replacen(boundary, &format!("{boundary}\nContent-Type: text/plain\n\nother\n{boundary}"), 1),
            "12:1: the second part is not the signature".to_owned(),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text.as_bytes()), format!("permissions:{expected}"));
    }
    let preamble = signed.replace("This is an S/MIME signed message", "Content-Type: text/plain\n\n<dds>other</dds>");
    assert_eq!(open(preamble.as_bytes()), Ok(crlf(XML)), "text ahead of the first part is ignored");
}

#[test]
fn longer_document_than_permitted_is_refused() {
    let signed = EC_AUTHORITY.sign(XML);
    let authorities = [EC_AUTHORITY.certificate.clone()];
    let open = |max| open_signed(Document::Governance, &signed, &authorities, max);
    assert!(open(signed.len()).is_ok());
    let expected = format!("governance: longer than {} bytes", signed.len() - 1);
    assert_eq!(open(signed.len() - 1).unwrap_err().to_string(), expected);
}

#[test]
fn text_in_utf_16_is_refused() {
    let xml = super::governance(&super::topic_rule("*", false));
    let head = b"Content-Type: text/plain\r\n\r\n";
    let signed = |text: &[u8]| {
        let part = [&head[..], text].concat();
        let signature = EC_AUTHORITY.signed_data(&part, Some(&part), true);
        let head = "MIME-Version: 1.0\nContent-Type: application/x-pkcs7-mime; smime-type=signed-data\n\
                    Content-Transfer-Encoding: base64\n\n";
        format!("{head}{}\n\n", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, signature))
    };
    let read = |text: &[u8]| open(signed(text).as_bytes()).and_then(|xml| Governance::parse(&xml)).map(drop);
    assert_eq!(read(xml.as_bytes()), Ok(()));
    let utf_16 = |order: fn(u16) -> [u8; 2], mark: &str| -> Vec<u8> {
        (mark.to_owned() + &xml.replace("UTF-8", "UTF-16")).encode_utf16().flat_map(order).collect()
    };
    for order in [u16::to_le_bytes, u16::to_be_bytes] {
        let marked = read(&utf_16(order, "\u{feff}")).unwrap_err();
        assert!(marked.to_string().contains("the text is not UTF-8"), "{marked}");
        // Without the mark, the bytes are UTF-8 with zeros, which XML does not have.
        let unmarked = read(&utf_16(order, "")).unwrap_err();
        assert!(unmarked.to_string().contains("not well-formed XML"), "{unmarked}");
    }
}

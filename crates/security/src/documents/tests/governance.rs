use peregrine_rtps::protection::ProtectionKind;

use super::super::*;
use super::{governance, topic_rule};
use crate::limits::ELEMENT_ATTRIBUTES;

#[test]
fn governance_is_read_with_all_its_values() {
    let text = governance(&(topic_rule("Square*", true) + &topic_rule("*", false)));
    let governance = Governance::parse(&text).unwrap();
    let [rule] = &governance.domain_rules[..] else { panic!("one rule") };
    assert!(governance.warnings.is_empty());
    assert!(!rule.allow_unauthenticated_participants && rule.enable_join_access_control);
    assert_eq!(rule.discovery, ProtectionKind::Encrypt);
    assert_eq!(rule.liveliness, ProtectionKind::Sign);
    assert_eq!(rule.messages, ProtectionKind::SignWithOriginAuthentication);
    assert_eq!((rule.pre_shared, &rule.algorithms), (ProtectionKind::None, &None));
    assert_eq!(rule.at, Position { line: 4, column: 5 });
    assert_eq!(governance.domain_rule(230, ""), Some(rule));
    assert_eq!(governance.domain_rule(231, ""), None);
    assert_eq!(governance.domain_rule(0, "tag"), None);
    let square = rule.topic_rule("Square1").unwrap();
    assert!(square.enable_discovery_protection && !square.enable_liveliness_protection);
    assert!(square.enable_read_access_control && square.enable_write_access_control);
    assert_eq!((square.submessages, square.payloads), (ProtectionKind::Encrypt, ProtectionKind::None));
    assert!(!rule.topic_rule("Circle").unwrap().enable_read_access_control);
}

#[test]
fn all_kinds_of_protection_are_read() {
    let kinds = [
        ("NONE", ProtectionKind::None),
        ("SIGN", ProtectionKind::Sign),
        ("ENCRYPT", ProtectionKind::Encrypt),
        ("SIGN_WITH_ORIGIN_AUTHENTICATION", ProtectionKind::SignWithOriginAuthentication),
        ("ENCRYPT_WITH_ORIGIN_AUTHENTICATION", ProtectionKind::EncryptWithOriginAuthentication),
    ];
    for (text, kind) in kinds {
        let rule = topic_rule("*", false).replace("_kind>ENCRYPT<", &format!("_kind> {text}\n<"));
        let read = Governance::parse(&governance(&rule)).unwrap();
        assert_eq!(read.domain_rules[0].topic_rules[0].submessages, kind);
        let rule = topic_rule("*", false).replace("_kind>NONE<", &format!("_kind>{text}<"));
        let read = Governance::parse(&governance(&rule));
        assert_eq!(read.is_ok(), !kind.authenticates_origin(), "payloads have no origin authentication");
    }
}

#[test]
fn extensions_of_version_1_2_are_read() {
    let text = governance(&topic_rule("*", false))
        .replace(
            "<topic_access_rules>",
            "
            <enable_key_revision>false</enable_key_revision>
            <rtps_psk_protection_kind>ENCRYPT</rtps_psk_protection_kind>
            <allowed_crypto_algorithms>
                <digital_signature><algorithm>ECDSA+P256+SHA256</algorithm></digital_signature>
                <symmetric_cipher><algorithm>AES128+GCM</algorithm><algorithm>AES256+GCM</algorithm></symmetric_cipher>
            </allowed_crypto_algorithms>
            <topic_access_rules>",
        )
        .replace("<id_range>", "<id>500</id><id_range>")
        .replace("</domains>", "<tag>Robot15</tag><tag_expression>AGV/*</tag_expression></domains>");
    let read = Governance::parse(&text).unwrap();
    let rule = read.domain_rule(500, "AGV/7").unwrap();
    assert_eq!(read.domain_rule(3, "Robot15"), Some(rule));
    assert_eq!(read.domain_rule(3, ""), None, "the empty tag is not listed");
    assert_eq!(rule.pre_shared, ProtectionKind::Encrypt);
    let algorithms = rule.algorithms.as_ref().unwrap();
    assert_eq!(algorithms.symmetric_cipher.as_ref().unwrap(), &["AES128+GCM", "AES256+GCM"]);
    assert_eq!((&algorithms.trust_chain, &algorithms.key_establishment), (&None, &None));
    assert_eq!(rule.domains.to_string(), "500, 0 to 230, tag `Robot15`, tags `AGV/*`");
}

#[test]
fn restrictions_that_are_not_enforced_are_refused_with_their_place() {
    let with = |element: &str| {
        let text = governance(&topic_rule("*", false))
            .replace("<topic_access_rules>", &format!("{element}<topic_access_rules>"));
        Governance::parse(&text).map(drop).map_err(|error| error.to_string())
    };
    let revision = |value: &str| with(&format!("<enable_key_revision>{value}</enable_key_revision>"));
    assert_eq!([revision("false"), revision("0")], [Ok(()), Ok(())]);
    let expected = "governance:11:7: <enable_key_revision> is true, and this implementation has no revisions of keys; \
                    set it to false";
    for value in ["true", "TRUE", "1"] {
        assert_eq!(revision(value), Err(expected.to_owned()));
    }
    assert!(revision("no").is_err_and(|error| error.contains("expected true or false")));
    let listing = |element: &str, algorithms: &[&str]| {
        let list: String = algorithms.iter().map(|name| format!("<algorithm>{name}</algorithm>")).collect();
        with(&format!("<allowed_crypto_algorithms><{element}>{list}</{element}></allowed_crypto_algorithms>"))
    };
    for (element, refused, why) in [
        ("symmetric_cipher", "AES128+GCM", "does not list AES256+GCM, with which keys are exchanged"),
        ("key_establishment", "DHE+MODP-2048-256", "does not list ECDHE-CEUM+P256, the only one with which"),
        ("key_establishment", "ECDHE-CEUM+P384", "does not list ECDHE-CEUM+P256, the only one with which"),
        ("symmetric_cipher", "AES512+GCM", "<algorithm> is `AES512+GCM`; expected AES128+GCM, AES256+GCM"),
        ("digital_signature", "ECDSA+P521+SHA512", "expected RSASSA-PSS-MGF1SHA256+2048+SHA256"),
        ("digital_signatures", "ECDSA+P256+SHA256", "unknown element <digital_signatures>"),
    ] {
        let error = listing(element, &[refused]).unwrap_err();
        assert!(error.starts_with("governance:11:") && error.contains(why), "{error}");
    }
    assert!(listing("symmetric_cipher", &[]).unwrap_err().contains("<symmetric_cipher> has no <algorithm>"));
    for (element, accepted) in [
        ("symmetric_cipher", &["AES128+GCM", "AES256+GCM"][..]),
        ("key_establishment", &["ECDHE-CEUM+P256"]),
        ("digital_signature", &["ECDSA+P384+SHA384"]),
        ("digital_signature_identity_trust_chain", &["RSASSA-PKCS1-V1_5+2048+SHA256"]),
    ] {
        assert_eq!(listing(element, accepted), Ok(()), "{element}");
    }
}

#[test]
fn algorithms_are_permitted_by_their_use_and_key() {
    use crate::identity::{Digest, KeyKind, SignatureAlgorithm};
    let read = |lists: &str| {
        let element = format!("<allowed_crypto_algorithms>{lists}</allowed_crypto_algorithms><topic_access_rules>");
        let text = governance(&topic_rule("*", false)).replace("<topic_access_rules>", &element);
        Governance::parse(&text).unwrap().domain_rules.remove(0).algorithms.unwrap()
    };
    let list = |element: &str, name: &str| format!("<{element}><algorithm>{name}</algorithm></{element}>");
    let ecdsa = SignatureAlgorithm::Ecdsa(Digest::Sha256);
    let pkcs1 = SignatureAlgorithm::RsaPkcs1(Digest::Sha256);
    let none = read("");
    assert!(none.check_key(KeyKind::P256).is_ok() && none.check_trust_chain(KeyKind::Rsa(4096), pkcs1).is_ok());
    assert!(none.check_symmetric_cipher("AES128+GCM").is_ok() && none.check_key_establishment("any").is_ok());
    // Without a list for the chain, the one for messages holds.
    let messages = read(&list("digital_signature", "ECDSA+P256+SHA256"));
    assert!(messages.check_key(KeyKind::P256).is_ok() && messages.check_trust_chain(KeyKind::P256, ecdsa).is_ok());
    assert!(messages.check_key(KeyKind::Rsa(2048)).is_err());
    let forbidden = messages.check_trust_chain(KeyKind::Rsa(2048), pkcs1).unwrap_err();
    assert_eq!(forbidden.at, Position { line: 11, column: 7 });
    assert_eq!(
        forbidden.to_string(),
        "the governance does not permit RSASSA-PKCS1-V1_5+2048+SHA256: <digital_signature> lists other algorithms"
    );
    // Names include the length of the key and the digest.
    let chain = read(&list("digital_signature_identity_trust_chain", "RSASSA-PKCS1-V1_5+2048+SHA256"));
    assert!(chain.check_trust_chain(KeyKind::Rsa(2048), pkcs1).is_ok() && chain.check_key(KeyKind::P256).is_ok());
    for (key, algorithm) in [
        (KeyKind::Rsa(4096), pkcs1),
        (KeyKind::Rsa(2048), SignatureAlgorithm::RsaPkcs1(Digest::Sha512)),
        (KeyKind::Rsa(2048), SignatureAlgorithm::RsaPss(Digest::Sha256)),
        (KeyKind::P256, ecdsa),
    ] {
        assert_eq!(
            chain.check_trust_chain(key, algorithm).map_err(|forbidden| forbidden.element),
            Err("digital_signature_identity_trust_chain"),
            "{key} {algorithm}"
        );
    }
    let cipher = read(&list("symmetric_cipher", "AES256+GCM"));
    assert!(
        cipher.check_symmetric_cipher("AES256+GCM").is_ok() && cipher.check_symmetric_cipher("AES128+GCM").is_err()
    );
    let agreement = read(&list("key_establishment", "ECDHE-CEUM+P256"));
    assert!(agreement.check_key_establishment("ECDHE-CEUM+P256").is_ok());
    assert!(agreement.check_key_establishment("DHE+MODP-2048-256").is_err());
}

#[test]
fn masks_equal_those_that_other_implementations_announce() {
    // Kinds of messages, submessages and payloads; the masks seen from Cyclone DDS and Fast DDS.
    let cases = [
        ("NONE", "NONE", "NONE", [0x8000_0000, 0x8000_0000], [0x8000_0000, 0x8000_0000]),
        ("SIGN", "NONE", "NONE", [0x8000_0001, 0x8000_0000], [0x8000_0000, 0x8000_0000]),
        ("ENCRYPT", "NONE", "NONE", [0x8000_0001, 0x8000_0001], [0x8000_0000, 0x8000_0000]),
        ("SIGN_WITH_ORIGIN_AUTHENTICATION", "NONE", "ENCRYPT", [0x8000_0001, 0x8000_0008], [0x8000_0030, 0x8000_0002]),
        ("SIGN", "ENCRYPT", "NONE", [0x8000_0001, 0x8000_0000], [0x8000_0008, 0x8000_0001]),
        (
            "SIGN",
            "ENCRYPT_WITH_ORIGIN_AUTHENTICATION",
            "ENCRYPT",
            [0x8000_0001, 0x8000_0000],
            [0x8000_0038, 0x8000_0007],
        ),
    ];
    for (messages, submessages, payloads, participant, endpoint) in cases {
        let rule = topic_rule("*", false)
            .replace("<enable_discovery_protection>true", "<enable_discovery_protection>false")
            .replace("metadata_protection_kind>ENCRYPT", &format!("metadata_protection_kind>{submessages}"))
            .replace("<data_protection_kind>NONE", &format!("<data_protection_kind>{payloads}"));
        let text = governance(&rule)
            .replace("discovery_protection_kind>ENCRYPT", "discovery_protection_kind>NONE")
            .replace("liveliness_protection_kind>SIGN", "liveliness_protection_kind>NONE")
            .replace("SIGN_WITH_ORIGIN_AUTHENTICATION</rtps", &format!("{messages}</rtps"));
        let read = Governance::parse(&text).unwrap();
        let as_array = |SecurityMasks { standard, plugin }| [standard, plugin];
        assert_eq!(as_array(read.domain_rules[0].masks()), participant, "{messages}");
        assert_eq!(as_array(read.domain_rules[0].topic_rules[0].masks()), endpoint, "{submessages} {payloads}");
    }
}

#[test]
fn errors_name_the_element_with_line_and_column() {
    let valid = governance(&topic_rule("*", false));
    let replaced = |from: &str, to: &str| {
        assert!(valid.contains(from), "{from}");
        Governance::parse(&valid.replacen(from, to, 1)).unwrap_err().to_string()
    };
    let kinds = "NONE, SIGN, ENCRYPT, SIGN_WITH_ORIGIN_AUTHENTICATION or ENCRYPT_WITH_ORIGIN_AUTHENTICATION";
    for (from, to, expected) in [
        (
            "<max>230</max>",
            "<maximum>2</maximum>",
            "5:38: unknown element <maximum> in <id_range>; expected <min>, <max>".to_owned(),
        ),
        ("<max>230</max>", "<max>-1</max>", "5:38: <max> is `-1`; expected a number from 0 to 4294967295".to_owned()),
        (
            "<max>230</max>",
            "<max>4294967296</max>",
            "5:38: <max> is `4294967296`; expected a number from 0 to 4294967295".to_owned(),
        ),
        ("<min>0</min>", "<min>300</min>", "5:16: <id_range> is empty: <min> 300 exceeds <max> 230".to_owned()),
        ("<min>0</min><max>230</max>", "", "5:16: <id_range> has neither <min> nor <max>".to_owned()),
        ("<id_range><min>0</min><max>230</max></id_range>", "", "5:7: <domains> has no <id> or <id_range>".to_owned()),
        (
            "false</allow",
            "no</allow",
            "6:7: <allow_unauthenticated_participants> is `no`; expected true or false".to_owned(),
        ),
        (
            "ENCRYPT</disc",
            "ENCRYPT_WITH_ORIGINAL_AUTHENTICATION</disc",
            format!("8:7: <discovery_protection_kind> is `ENCRYPT_WITH_ORIGINAL_AUTHENTICATION`; expected {kinds}"),
        ),
        (
            "<enable_join_access_control>true</enable_join_access_control>",
            "",
            "4:5: <domain_rule> has no <enable_join_access_control>".to_owned(),
        ),
        (
            "<enable_join_access_control>",
            "<enable_join_access_control a=\"b\">",
            "7:7: unknown attribute `a` of <enable_join_access_control>".to_owned(),
        ),
        ("<domains>", "text<domains>", "4:18: text is not permitted in <domain_rule>".to_owned()),
        (
            "true</enable_join",
            "<b/>true</enable_join",
            "7:35: element <b> is not permitted in <enable_join_access_control>".to_owned(),
        ),
        (
            "<domain_access_rules>",
            "<domain_rules/><domain_access_rules>",
            "3:3: unknown element <domain_rules> in <dds>; expected <domain_access_rules>".to_owned(),
        ),
        ("<dds ", "<DDS ", "14:3: not well-formed XML: expected 'DDS' tag, not 'dds' at 20:1".to_owned()),
    ] {
        if from == "<dds " {
            assert!(replaced(from, to).contains("not well-formed XML"));
            continue;
        }
        assert_eq!(replaced(from, to), format!("governance:{expected}"));
    }
    let twice = "<domains><id>1</id></domains><domains>";
    assert_eq!(replaced("<domains>", twice), "governance:5:36: <domains> occurs twice in <domain_rule>");
    let other_root = Governance::parse("<permissions/>").unwrap_err().to_string();
    assert_eq!(other_root, "governance:1:1: expected <dds>, not <permissions>");
    let empty = Governance::parse(&governance("")).unwrap_err().to_string();
    assert_eq!(empty, "governance:11:7: <topic_access_rules> has no <topic_rule>");
}

#[test]
fn extensions_are_ignored_where_the_document_permits_it() {
    let with = |extension: &str| {
        Governance::parse(&governance(&topic_rule("*", false)).replace("<domains>", &format!("{extension}<domains>")))
    };
    assert!(with("<vendor must_interpret=\"false\"><a b=\"c\">text</a></vendor>").is_ok());
    assert!(with("<v:vendor xmlns:v=\"urn:v\" must_interpret=\"FALSE\"/>").is_ok());
    for refused in [
        "<vendor/>",
        "<vendor must_interpret=\"true\"/>",
        "<v:domains xmlns:v=\"urn:v\"/>",
        "<vendor must_interpret=\"no\"/>",
    ] {
        assert!(with(refused).is_err(), "{refused}");
    }
    let attribute =
        governance(&topic_rule("*", false)).replace("<topic_rule>", "<topic_rule must_interpret=\"false\" x=\"y\">");
    assert!(Governance::parse(&attribute).is_ok());
}

#[test]
fn lenient_forms_are_read_with_a_warning() {
    let text = governance(&topic_rule("*", false))
        .replace("<max>230</max>", "")
        .replace("<enable_liveliness_protection>false</enable_liveliness_protection>", "");
    let read = Governance::parse(&text).unwrap();
    assert!(read.domain_rule(231, "").is_some() && read.domain_rule(u32::MAX, "").is_some());
    let warnings: Vec<_> = read.warnings.iter().map(|warning| warning.at).collect();
    assert_eq!(warnings, [Position { line: 11, column: 27 }, Position { line: 5, column: 16 }]);
    let upper = governance(&topic_rule("*", false)).replace("true<", "TRUE<").replace("false<", "0<");
    assert!(Governance::parse(&upper).is_ok());
    let spaced = format!("\u{feff}{}", governance(&topic_rule("<!-- c --><![CDATA[ A* ]]>", false)));
    assert!(Governance::parse(&spaced).unwrap().domain_rules[0].topic_rule("AB").is_some());
}

#[test]
fn xml_that_costs_much_is_refused() {
    let entities = "<!DOCTYPE dds [<!ENTITY a \"aaaa\">]><dds>&a;</dds>";
    assert!(Governance::parse(entities).unwrap_err().to_string().contains("DTD"));
    let deep = format!("{}{}", "<dds>".repeat(5000), "</dds>".repeat(5000));
    assert!(Governance::parse(&deep).unwrap_err().to_string().contains("nested in more than 16 levels"));
    let many = format!("<dds>{}</dds>", "<a/>".repeat(200_000));
    assert!(Governance::parse(&many).unwrap_err().to_string().contains("not well-formed XML"));
}

#[test]
fn element_with_more_attributes_than_the_bound_is_refused_with_its_place() {
    let with = |count: usize| {
        let attributes: String = (0..count).map(|index| format!(" a{index}=\"\"")).collect();
        let rule = topic_rule("*", false);
        governance(&rule.replace("<topic_rule>", &format!("<topic_rule must_interpret=\"false\"{attributes}>")))
    };
    // One is `must_interpret`.
    assert!(Governance::parse(&with(ELEMENT_ATTRIBUTES - 1)).is_ok());
    let signs = "=".repeat(2 * ELEMENT_ATTRIBUTES);
    let rule = topic_rule("*", false);
    let commented = rule.replace("<topic_rule>", &format!("<!-- {signs} --><topic_rule must_interpret='>{signs}'>"));
    let read = Governance::parse(&governance(&commented));
    assert!(read.as_ref().err().is_none_or(|refused| !refused.what.contains("attributes")), "{read:?}");
    for count in [ELEMENT_ATTRIBUTES, 1_000_000] {
        let text = with(count);
        let refused = Governance::parse(&text).unwrap_err();
        assert_eq!(refused.what, format!("an element has more than {ELEMENT_ATTRIBUTES} attributes"));
        let line = text.lines().position(|line| line.contains("must_interpret")).unwrap();
        let column = text.lines().nth(line).unwrap().find("<topic_rule m").unwrap();
        let [line, column] = [line, column].map(|index| u32::try_from(index + 1).unwrap());
        assert_eq!(refused.at, Some(Position { line, column }));
    }
}

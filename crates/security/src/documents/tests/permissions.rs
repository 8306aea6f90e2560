use super::super::*;
use super::permissions;
use crate::WallTime;
use crate::identity::DistinguishedName;
use crate::testing::NOW;

const RULE: &str = "<allow_rule>
        <domains><id>0</id></domains>
        <publish>
          <topics><topic>Square</topic><topic>C*</topic></topics>
          <partitions><partition>A</partition><partition></partition></partitions>
          <data_tags><tag><name>n</name><value>v</value></tag></data_tags>
        </publish>
        <subscribe><topics><topic>*</topic></topics></subscribe>
        <relay><topics><topic>R</topic></topics></relay>
      </allow_rule>
      <deny_rule><domains><id>1</id></domains></deny_rule>
      <default>DENY</default>";

fn name(text: &str) -> DistinguishedName {
    DistinguishedName::parse(text).unwrap()
}

#[test]
fn permissions_are_read_with_all_their_values() {
    let read = Permissions::parse(&permissions(RULE)).unwrap();
    assert!(read.warnings.is_empty());
    let grant = read.grant_for(&name("CN=P_a,O=Test,C=ES"), NOW).unwrap();
    assert_eq!(
        (grant.name.as_str(), grant.default, grant.at),
        ("first", Effect::Deny, Position { line: 3, column: 5 })
    );
    assert_eq!(grant.validity.not_after.to_string(), "2030-01-01T00:00:00Z");
    let [allow, deny] = &grant.rules[..] else { panic!("two rules") };
    assert_eq!((allow.effect, deny.effect), (Effect::Allow, Effect::Deny));
    assert_eq!(deny.at, Position { line: 16, column: 7 });
    let [publish] = &allow.publish[..] else { panic!("one criterion") };
    let texts = |patterns: &[crate::Pattern]| patterns.iter().map(|p| p.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(texts(&publish.topics), ["Square", "C*"]);
    assert_eq!(texts(publish.partitions.as_ref().unwrap()), ["A", ""]);
    assert_eq!(publish.data_tags.as_ref().unwrap(), &[("n".to_owned(), "v".to_owned())]);
    assert_eq!((allow.subscribe.len(), allow.relay.len()), (1, 1));
    assert_eq!((&allow.subscribe[0].partitions, &allow.subscribe[0].data_tags), (&None, &None));
}

#[test]
fn grant_is_chosen_by_name_and_time() {
    let [first, second] = ["first", "second"].map(|name| {
        permissions("<default>ALLOW</default>")
            .replace("\"first\"", &format!("\"{name}\""))
            .replace("\n  </permissions>\n</dds>", "")
    });
    let second = second.replace("2020-", "2030-").replace("2030-01-01T00:00:00Z", "2040-01-01T00:00:00Z");
    let grants = second.split_once("<permissions>").unwrap().1;
    let text = format!("{first}{grants}</permissions></dds>");
    let read = Permissions::parse(&text).unwrap();
    let at = |seconds| read.grant_for(&name("C=ES,O=Test,CN=P_a"), WallTime(seconds)).map(|grant| grant.name.clone());
    let (start, middle, end) = (1_577_836_800, 1_893_456_000, 2_208_988_800);
    assert_eq!(at(start), Ok("first".to_owned()));
    assert_eq!(at(middle), Ok("first".to_owned()), "the first of the valid ones");
    assert_eq!(at(middle + 1), Ok("second".to_owned()));
    assert_eq!(at(end), Ok("second".to_owned()));
    let expired = at(end + 1).unwrap_err().to_string();
    assert_eq!(
        expired,
        "permissions:3:5: grant `first` is valid from 2020-01-01T00:00:00Z to 2030-01-01T00:00:00Z, not at \
         2040-01-01T00:00:01Z"
    );
    assert!(at(start - 1).is_err());
    let other = read.grant_for(&name("CN=P_b,O=Test,C=ES"), NOW).unwrap_err().to_string();
    assert_eq!(other, "permissions: no <grant> has the <subject_name> CN=P_b,O=Test,C=ES; add one");
}

#[test]
fn subjects_may_be_expressions() {
    let text = permissions("<default>DENY</default>")
        .replace("<subject_name>CN=P_a", "<subject_name_expression>CN=P_*")
        .replace("</subject_name>", "</subject_name_expression>");
    let read = Permissions::parse(&text).unwrap();
    assert!(read.grant_for(&name("CN=P_xyz,O=Test,C=ES"), NOW).is_ok());
    assert!(read.grant_for(&name("CN=Q_xyz,O=Test,C=ES"), NOW).is_err());
}

#[test]
fn errors_name_the_element_with_line_and_column() {
    let valid = permissions(RULE);
    for (from, to, expected) in [
        (" name=\"first\"", "", "3:5: <grant> has no attribute `name`"),
        (" name=\"first\"", " name=\"first\" x=\"\"", "3:5: unknown attribute `x` of <grant>"),
        ("CN=P_a,O=Test,C=ES", "P_a", "4:7: <subject_name>: `P_a` is not of the form type=value"),
        ("<subject_name>CN=P_a,O=Test,C=ES</subject_name>", "", "3:5: <grant> has no <subject_name>"),
        (
            "2020-01-01T00:00:00",
            "yesterday",
            "5:17: <not_before> is `yesterday`; expected a time such as 2030-01-31T12:00:00Z",
        ),
        ("2020-01", "2031-01", "5:7: <validity> is empty: 2031-01-01T00:00:00Z is after 2030-01-01T00:00:00Z"),
        ("<topic>Square</topic><topic>C*</topic>", "", "9:11: <topics> has no <topic>"),
        ("<topics><topic>Square</topic><topic>C*</topic></topics>", "", "8:9: <publish> has no <topics>"),
        ("<value>v</value>", "", "11:22: <tag> has no <value>"),
        ("<default>DENY", "<default>deny", "17:7: <default> is `deny`; expected ALLOW or DENY"),
        ("<default>", "<default>DENY</default><default>", "17:30: a second <default> in <grant>"),
        ("<deny_rule><domains><id>1</id></domains>", "<deny_rule>", "16:7: <deny_rule> has no <domains>"),
        (
            "<relay>",
            "<replay/><relay>",
            "14:9: unknown element <replay> in <allow_rule>; expected <domains>, <publish>, <subscribe>, <relay>",
        ),
    ] {
        assert!(valid.contains(from), "{from}");
        let error = Permissions::parse(&valid.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), format!("permissions:{expected}"));
    }
    let none = Permissions::parse("<dds><permissions/></dds>").unwrap_err().to_string();
    assert_eq!(none, "permissions:1:6: <permissions> has no <grant>");
}

#[test]
fn absent_default_denies_with_a_warning() {
    let read = Permissions::parse(&permissions("")).unwrap();
    assert_eq!(read.grants[0].default, Effect::Deny);
    assert_eq!(read.warnings.len(), 1);
    assert_eq!(read.warnings[0].at, Position { line: 3, column: 5 });
}

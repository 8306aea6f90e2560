use peregrine_rtps::protection::ProtectionKind;

use super::super::*;
use super::{governance, permissions, topic_rule};
use crate::WallTime;
use crate::identity::DistinguishedName;
use crate::testing::NOW;

/// The decision of both documents about an endpoint of `CN=P_a,O=Test,C=ES` in domain 0.
struct Case<'a> {
    rules: &'a str,
    matching: PartitionMatching,
}

impl Case<'_> {
    fn with<R>(&self, domain: u32, decide: impl FnOnce(AccessControl<'_>) -> R) -> R {
        let governance = topic_rule("Open*", false) + &topic_rule("[!N]*", true);
        let governance = Governance::parse(&super::governance(&governance)).unwrap();
        let permissions = Permissions::parse(&permissions(self.rules)).unwrap();
        let subject = DistinguishedName::parse("CN=P_a,O=Test,C=ES").unwrap();
        let grant = permissions.grant_for(&subject, NOW).unwrap();
        decide(AccessControl::new(&governance, grant, domain, "", self.matching).unwrap())
    }

    fn decide(&self, request: EndpointRequest<'_>) -> Result<Grounds, Denial> {
        self.with(0, |access| access.may(request, NOW))
    }

    fn allows(&self, action: Action, topic: &str, partitions: &[&str], tags: &[(&str, &str)]) -> bool {
        self.decide(EndpointRequest { action, topic, partitions, tags }).is_ok()
    }

    fn publishes(&self, topic: &str, partitions: &[&str]) -> bool {
        self.allows(Action::Publish, topic, partitions, &[])
    }
}

fn case(rules: &str) -> Case<'_> {
    Case { rules, matching: PartitionMatching::All }
}

fn rule(effect: &str, content: &str) -> String {
    format!("<{effect}_rule><domains><id_range><min>0</min><max>9</max></id_range></domains>{content}</{effect}_rule>")
}

fn publish(topic: &str, more: &str) -> String {
    format!("<publish><topics><topic>{topic}</topic></topics>{more}</publish>")
}

fn partitions(names: &[&str]) -> String {
    let names: String = names.iter().map(|name| format!("<partition>{name}</partition>")).collect();
    format!("<partitions>{names}</partitions>")
}

#[test]
fn first_matching_rule_decides() {
    let rules = rule("deny", &publish("Square1", ""))
        + &rule("allow", &publish("Square*", ""))
        + &rule("deny", &publish("Square2", ""));
    for default in ["DENY", "ALLOW"] {
        let rules = format!("{rules}<default>{default}</default>");
        let case = case(&rules);
        assert!(!case.publishes("Square1", &[]));
        assert!(case.publishes("Square2", &[]), "the later rule does not matter");
        assert_eq!(case.publishes("Circle", &[]), default == "ALLOW");
        assert_eq!(case.allows(Action::Subscribe, "Square2", &[], &[]), default == "ALLOW");
    }
}

#[test]
fn criteria_of_one_rule_are_examined_in_turn() {
    let rules = rule("allow", &(publish("T", &partitions(&["A"])) + &publish("T", &partitions(&["B"]))));
    let case = case(&rules);
    assert!(case.publishes("T", &["A"]) && case.publishes("T", &["B"]));
    assert!(!case.publishes("T", &["A", "B"]), "neither criterion has both");
}

#[test]
fn rules_of_other_domains_do_not_count() {
    let rules = rule("allow", &publish("*", "")) + "<default>DENY</default>";
    let request = EndpointRequest { action: Action::Publish, topic: "T", partitions: &[], tags: &[] };
    for domain in [0, 9, 10, 230] {
        let allowed = case(&rules).with(domain, |access| access.may(request, NOW).is_ok());
        assert_eq!(allowed, domain <= 9);
    }
}

#[test]
fn allowed_partitions_must_include_all_of_the_endpoint() {
    let none = rule("allow", &publish("T", ""));
    assert!(case(&none).publishes("T", &[]) && case(&none).publishes("T", &[""]));
    assert!(!case(&none).publishes("T", &["A"]), "without partitions, only the empty one");
    let some = rule("allow", &publish("T", &partitions(&["A", "B*"])));
    let case_of = case(&some);
    for (names, expected) in [
        (&["A"][..], true),
        (&["B1", "A"], true),
        (&["A", "C"], false),
        (&[], false),
        (&["B*"], true),
        (&["B?"], false),
        (&["*"], false),
    ] {
        assert_eq!(case_of.publishes("T", names), expected, "{names:?}");
    }
    let all = rule("allow", &publish("T", &partitions(&["*"])));
    assert!(["", "A", "A*"].iter().all(|name| case(&all).publishes("T", &[name])));
    let legacy = Case { rules: &some, matching: PartitionMatching::Any };
    assert!(legacy.publishes("T", &["A", "C"]) && !legacy.publishes("T", &["C"]));
}

#[test]
fn denied_partitions_need_one_of_the_endpoint() {
    let rules = rule("deny", &publish("T", &partitions(&["A", "B*"]))) + "<default>ALLOW</default>";
    let case_of = case(&rules);
    for (names, expected) in [
        (&["C"][..], true),
        (&[], true),
        (&["A"], false),
        (&["C", "B1"], false),
        (&["A?"], true),
        (&["?1"], false),
        (&["*"], false),
    ] {
        assert_eq!(case_of.publishes("T", names), expected, "{names:?}");
    }
    let all = rule("deny", &publish("T", "")) + "<default>ALLOW</default>";
    assert!(!case(&all).publishes("T", &["A"]) && !case(&all).publishes("T", &[]), "without partitions, all");
}

#[test]
fn tags_are_compared_by_name_and_value() {
    let tags = |list: &[(&str, &str)]| {
        let tag = |(n, v): &(&str, &str)| format!("<tag><name>{n}</name><value>{v}</value></tag>");
        format!("<data_tags>{}</data_tags>", list.iter().map(tag).collect::<String>())
    };
    let allow = rule("allow", &publish("T", &tags(&[("a", "1"), ("b", "2")])));
    let deny = rule("deny", &publish("T", &tags(&[("a", "1")]))) + "<default>ALLOW</default>";
    let without = rule("allow", &publish("T", ""));
    let deny_all = rule("deny", &publish("T", "")) + "<default>ALLOW</default>";
    for (list, expected) in [
        (&[][..], [true, true, true, false]),
        (&[("a", "1")], [true, false, false, false]),
        (&[("a", "1"), ("b", "2")], [true, false, false, false]),
        (&[("a", "2")], [false, true, false, false]),
        (&[("a", "1"), ("c", "3")], [false, false, false, false]),
    ] {
        let found =
            [&allow, &deny, &without, &deny_all].map(|rules| case(rules).allows(Action::Publish, "T", &[], list));
        assert_eq!(found, expected, "{list:?}");
    }
}

#[test]
fn topics_without_access_control_need_no_permission() {
    let case = case("<default>DENY</default>");
    for action in [Action::Publish, Action::Subscribe] {
        let request = EndpointRequest { action, topic: "OpenTopic", partitions: &["A"], tags: &[] };
        assert!(matches!(case.decide(request), Ok(Grounds::NotControlled(_))));
    }
    let unknown = EndpointRequest { action: Action::Publish, topic: "NoRule", partitions: &[], tags: &[] };
    let denial = case.decide(unknown).unwrap_err();
    assert_eq!(denial.document, Document::Governance);
    assert_eq!(
        denial.to_string(),
        "governance:4:5: no <topic_rule> of the <domain_rule> matches topic `NoRule`; add a <topic_rule> with \
         <topic_expression>NoRule</topic_expression>"
    );
}

#[test]
fn relay_has_rules_of_its_own() {
    let rules = rule("allow", "<relay><topics><topic>T</topic></topics></relay>");
    assert!(case(&rules).allows(Action::Relay, "T", &[], &[]));
    assert!(!case(&rules).allows(Action::Subscribe, "T", &[], &[]));
}

#[test]
fn denial_names_document_rule_place_and_remedy() {
    let rules = rule("allow", "") + &rule("deny", &publish("T&amp;*", "")) + "<default>DENY</default>";
    let request = EndpointRequest { action: Action::Publish, topic: "T&1", partitions: &["A"], tags: &[("n", "v")] };
    let denial = case(&rules).decide(request).unwrap_err();
    assert_eq!((denial.grant.as_deref(), denial.rule), (Some("first"), Some(2)));
    let remedy = "add <publish><topics><topic>T&amp;1</topic></topics><partitions><partition>A</partition></partitions>\
                  <data_tags><tag><name>n</name><value>v</value></tag></data_tags></publish> to an <allow_rule> for \
                  domain 0";
    assert_eq!(
        denial.to_string(),
        format!(
            "permissions:6:{}: grant `first`, rule 2: a <deny_rule> denies publishing topic `T&1` in partitions `A` \
             with tags n=v in domain 0; {remedy}, ahead of this rule",
            7 + rule("allow", "").len()
        )
    );
    let default = EndpointRequest { topic: "U", partitions: &[], tags: &[], action: Action::Subscribe };
    assert_eq!(
        case(&rules).decide(default).unwrap_err().to_string(),
        "permissions:3:5: grant `first`: no rule allows subscribing to topic `U` in domain 0, and the default is DENY; \
         add <subscribe><topics><topic>U</topic></topics></subscribe> to an <allow_rule> for domain 0"
    );
    // The remedy is a rule that the document accepts, and that permits the request.
    let element = remedy.strip_prefix("add ").unwrap().split_once(" to an ").unwrap().0;
    let rules = rule("allow", element) + &rules;
    assert!(case(&rules).decide(request).is_ok());
}

#[test]
fn joining_a_domain_needs_the_first_rule_for_it() {
    let joins = |rules: &str, domain| case(rules).with(domain, |access| access.may_join(NOW));
    let allow = rule("allow", "");
    let deny = rule("deny", "");
    let deny_topic = rule("deny", &publish("T", ""));
    assert!(joins(&allow, 3).is_ok());
    assert!(joins(&allow, 10).is_err());
    assert!(joins(&(deny.clone() + &allow), 3).is_err());
    assert!(joins(&(deny_topic.clone() + &allow), 3).is_err(), "the default decides");
    assert!(joins(&(deny_topic + "<default>ALLOW</default>"), 3).is_ok());
    let deny_relay = rule("deny", "<relay><topics><topic>T</topic></topics></relay>");
    assert!(joins(&(deny_relay.clone() + "<default>ALLOW</default>"), 3).is_ok());
    assert!(joins(&(deny_relay + &deny + "<default>ALLOW</default>"), 3).is_err(), "a later rule denies the domain");
    assert!(joins(&(deny + "<default>ALLOW</default>"), 3).is_err());
    assert!(joins("<default>ALLOW</default>", 3).is_ok());
    let denial = joins("<default>DENY</default>", 3).unwrap_err().to_string();
    assert_eq!(
        denial,
        "permissions:3:5: grant `first`: no rule allows participants in domain 3, and the default is DENY; add an \
         <allow_rule> with <domains><id>3</id></domains>"
    );
}

#[test]
fn topic_may_exist_if_it_may_be_written_or_read() {
    let may = |rules: &str, topic: &str| case(rules).with(0, |access| access.may_use_topic(topic, NOW).is_ok());
    let writes = rule("allow", &publish("T", &partitions(&["A"])));
    assert!(may(&writes, "T") && may(&writes, "Open") && !may(&writes, "U"));
    let reads = rule("allow", "<subscribe><topics><topic>T</topic></topics></subscribe>");
    assert!(may(&reads, "T"));
    assert!(may("<default>ALLOW</default>", "T"));
}

#[test]
fn grant_outside_its_validity_permits_nothing() {
    let case = case("<default>ALLOW</default>");
    let end = WallTime(1_893_456_000);
    let request = EndpointRequest { action: Action::Publish, topic: "OpenTopic", partitions: &[], tags: &[] };
    for (now, expected) in [(NOW, true), (end, true), (WallTime(end.0 + 1), false), (WallTime(0), false)] {
        let decisions = case.with(0, |access| {
            [access.may(request, now), access.may_join(now), access.may_use_topic("OpenTopic", now)].map(|d| d.is_ok())
        });
        assert_eq!(decisions, [expected; 3], "{now}");
    }
    let denial = case.with(0, |access| access.may_join(WallTime(end.0 + 1)).unwrap_err().to_string());
    assert_eq!(
        denial,
        "permissions:3:5: grant `first`: valid from 2020-01-01T00:00:00Z to 2030-01-01T00:00:00Z, not at \
         2030-01-01T00:00:01Z; let the authority sign a new <validity>"
    );
}

#[test]
fn domain_without_a_rule_of_the_governance_is_refused() {
    let read = Governance::parse(&governance(&topic_rule("*", true))).unwrap();
    let permissions = Permissions::parse(&permissions("<default>ALLOW</default>")).unwrap();
    let refusal = |governance: &Governance, id, tag| {
        let access = AccessControl::new(governance, &permissions.grants[0], id, tag, PartitionMatching::All);
        access.unwrap_err().to_string()
    };
    assert_eq!(
        refusal(&read, 231, "a"),
        "governance: no <domain_rule> contains domain 231 with tag `a`; add <id>231</id><tag>a</tag> to the <domains> \
         of a <domain_rule>"
    );
    let line = read.domain_rules[0].at.line;
    assert_eq!(
        refusal(&read, 1, "a&b"),
        format!(
            "governance: no <domain_rule> contains domain 1 with tag `a&b`; add <tag>a&amp;b</tag> to the <domains> of \
             the <domain_rule> in line {line}"
        )
    );
    let tagged = governance(&topic_rule("*", true)).replace("</domains>", "<tag>a</tag></domains>");
    assert_eq!(
        refusal(&Governance::parse(&tagged).unwrap(), 1, ""),
        format!(
            "governance: no <domain_rule> contains domain 1; the rule in line {line} is for domains with a tag: add a \
             <domain_rule> with <domains><id>1</id></domains>"
        )
    );
}

#[test]
fn topic_of_the_log_is_written_by_all_and_read_with_permission_under_each_governance() {
    let subscribe = |topic: &str| format!("<subscribe><topics><topic>{topic}</topic></topics></subscribe>");
    let (with, without) = (rule("allow", &subscribe("DDS:Security:LogTopicV2")), rule("allow", &subscribe("T")));
    for topic in [LOG_TOPIC, LEGACY_LOG_TOPIC] {
        assert!(case(&without).publishes(topic, &[]));
        assert!(!case(&without).allows(Action::Subscribe, topic, &[], &[]));
        case(&without).with(0, |access| {
            let rule = access.topic_rule(topic).unwrap();
            assert_eq!((rule.submessages, rule.payloads), (ProtectionKind::Sign, ProtectionKind::Encrypt));
        });
    }
    assert!(case(&with).allows(Action::Subscribe, LOG_TOPIC, &[], &[]));
    assert!(!case(&with).allows(Action::Subscribe, LEGACY_LOG_TOPIC, &[], &[]));
}

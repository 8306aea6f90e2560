//! Governance and permissions may be any text: nothing panics, and each request for a right has a decision.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peregrine_security::WallTime;
use peregrine_security::documents::{
    AccessControl, Action, EndpointRequest, Governance, PartitionMatching, Permissions,
};

const NOW: WallTime = WallTime(1_750_000_000);

/// Permits all by the other document, so that this one decides.
const GOVERNANCE: &str = include_str!("../corpus/security_document/governance");

fuzz_target!(|text: &str| {
    let governance = Governance::parse(text);
    if let Ok(governance) = &governance {
        for rule in &governance.domain_rules {
            let _ = (rule.masks(), rule.domains.to_string());
            for topic_rule in &rule.topic_rules {
                let _ = topic_rule.masks();
            }
        }
    }
    let Ok(permissions) = Permissions::parse(text) else { return };
    let governance = Governance::parse(GOVERNANCE).expect("a valid document");
    for grant in &permissions.grants {
        for matching in [PartitionMatching::All, PartitionMatching::Any] {
            let Ok(access) = AccessControl::new(&governance, grant, 0, "", matching) else { continue };
            let _ = (access.may_join(NOW), access.may_use_topic("Square", NOW));
            for action in [Action::Publish, Action::Subscribe, Action::Relay] {
                for partitions in [&[][..], &["A"], &["A*", "[B"]] {
                    let request = EndpointRequest { action, topic: "Square", partitions, tags: &[("name", "value")] };
                    let decision = access.may(request, NOW);
                    assert_eq!(decision, access.may(request, NOW), "decisions depend on nothing else");
                    let _ = decision.map_err(|denial| denial.to_string());
                }
            }
        }
    }
});

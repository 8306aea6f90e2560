use super::*;
use crate::cli::option::{SecretText, WaitMethod};

fn run(line: &str) -> ParsedOptions {
    let words: Vec<_> = line.split_whitespace().collect();
    match parse(&words) {
        Ok(Invocation::Run(options)) => options,
        other => panic!("{line}: {other:?}"),
    }
}

fn errors(line: &str) -> Vec<String> {
    let words: Vec<_> = line.split_whitespace().collect();
    match parse(&words) {
        Err(error) => error.lines,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn names_are_unique_and_sorted_ranges_are_not_empty() {
    for (index, option) in OPTIONS.iter().enumerate() {
        let twin = OPTIONS[index + 1..].iter().find(|other| other.name.eq_ignore_ascii_case(option.name));
        assert_eq!(twin, None, "-{} is listed twice", option.name);
        assert!(!option.help.is_empty(), "-{} has no help", option.name);
        if let Argument::Integer { min, max, .. } | Argument::OptionalInteger { min, max, .. } = option.argument {
            assert!(min < max, "-{} permits nothing", option.name);
        }
    }
}

#[test]
fn every_option_is_found_by_its_full_name_in_any_case() {
    for option in OPTIONS {
        for spelling in [option.name.to_owned(), option.name.to_uppercase(), option.name.to_lowercase()] {
            assert_eq!(resolve(&format!("-{spelling}")).unwrap().name, option.name);
        }
    }
}

#[test]
fn abbreviations_of_existing_scripts_resolve() {
    for (typed, name) in [
        ("-exec", "executionTime"),
        ("-ex", "executionTime"),
        ("-raw", "rawTransport"),
        ("-noPrint", "noPrintIntervals"),
        ("-noPr", "noPrintIntervals"),
        ("-datalen", "dataLen"),
        ("-sendqueuesize", "sendQueueSize"),
        ("-sendQ", "sendQueueSize"),
        ("-receivequeue", "receiveQueueSize"),
        ("-latencytest", "latencyTest"),
        ("-zerocopy", "zeroCopy"),
        ("-be", "bestEffort"),
        ("-dom", "domain"),
        ("-key", "keyed"),
        ("-ni", "nic"),
        ("-pub", "pub"),
        ("-sub", "sub"),
        ("-instances", "instances"),
    ] {
        assert_eq!(resolve(typed).map(|option| option.name), Ok(name), "{typed}");
    }
}

/// Field by field as RTI Perftest 4.3 with security resolves them.
#[test]
fn abbreviations_of_options_of_security_resolve_to_the_first_in_ascii_order() {
    for (typed, name) in [
        ("-secure", "secureCertAuthority"),
        ("-secureC", "secureCertAuthority"),
        ("-secureCertF", "secureCertFile"),
        ("-secureD", "secureDebug"),
        ("-secureE", "secureEnableAAD"),
        ("-secureEnc", "secureEncryptionAlgorithm"),
        ("-secureG", "secureGovernanceFile"),
        ("-secureL", "secureLibrary"),
        ("-secureP", "securePSK"),
        ("-securep", "securePSK"),
        ("-securePSKA", "securePSKAlgorithm"),
        ("-securePe", "securePermissionsFile"),
        ("-securePr", "securePrivateKey"),
        ("-secureR", "secureRtpsHmacOnly"),
    ] {
        assert_eq!(resolve(typed).map(|option| option.name), Ok(name), "{typed}");
    }
}

#[test]
fn options_and_values_that_are_never_supported_are_refused_with_the_reason_and_what_to_use() {
    let hmac = errors("-sub -secureRtpsHmacOnly hidden").join("\n");
    assert!(hmac.contains("has no HMAC") && hmac.contains("-securePSKAlgorithm AES256+GMAC"), "{hmac}");
    assert!(!hmac.contains("hidden"), "{hmac}");
    assert_eq!(
        errors("-sub -secureEncryptionAlgorithm aes-192-gcm"),
        [
            "-secureEncryptionAlgorithm aes-192-gcm is not supported: DDS Security has AES-GCM with 128 and 256 bits only; \
          use aes-256-gcm"
        ]
    );
}

#[test]
fn secret_is_not_in_the_debug_output_of_options() {
    let options = run("-sub -securePSK data:,1:hidden");
    assert!(!format!("{options:?} {options:#?}").contains("hidden"));
}

#[test]
fn other_ambiguous_prefixes_list_their_candidates() {
    assert_eq!(errors("-latency"), ["'-latency' is ambiguous: -latencyCount, -latencyTest, -latencyFile"]);
    assert_eq!(errors("-send 10")[0], "'-send' is ambiguous: -sendQueueSize, -sendBufferSize");
    assert_eq!(errors("-instance 100")[0], "'-instance' is ambiguous: -instances, -instanceHashBuckets");
}

#[test]
fn raspberry_pi_scripts_parse() {
    let publisher = run("-pub -peer 10.45.3.119 -nic eth0 -raw -noPrint -exec 20 -datalen 64 -batchSize 0");
    assert!(publisher.has("pub") && publisher.has("rawTransport") && publisher.has("noPrintIntervals"));
    assert_eq!(publisher.texts("peer"), ["10.45.3.119"]);
    assert_eq!(publisher.text("nic"), Some("eth0"));
    assert_eq!(publisher.duration("executionTime"), Some(Duration::from_secs(20)));
    assert_eq!(publisher.integer("dataLen"), Some(64));
    assert_eq!(publisher.integer("batchSize"), Some(0));

    let subscriber = run("-sub -peer 10.45.3.120 -nic eth0 -raw -noPrint -datalen 64");
    assert!(subscriber.has("sub") && subscriber.has("rawTransport"));

    let scan = run("-pub -nic eth0 -noPrint -exec 20 -scan -latencyTest");
    assert!(scan.has("scan") && scan.has("latencyTest"));
    assert_eq!(scan.sizes("scan"), None);
    assert!(run("-pub -nic eth0 -noPrint -exec 20 -scan -batchSize 0").has("scan"));
}

#[test]
fn large_data_scripts_parse() {
    let zero_copy = run(
        "-pub -noPrint -transport SHMEM -exec 23 -zerocopy -datalen 63001 -sendqueuesize 5 -receivequeue 1 -latencytest",
    );
    assert!(zero_copy.has("zeroCopy") && zero_copy.choice("transport") == Some("SHMEM"));
    assert_eq!(zero_copy.integer("receiveQueueSize"), Some(1));
    assert!(run("-pub -nic eth0 -noPrint -exec 23 -flatData -datalen 63001 -sendqueuesize 5").has("flatData"));
    assert!(run("-sub -zeroCopy -checkConsistency").has("checkConsistency"));
}

#[test]
fn benchmark_page_scripts_parse() {
    let options =
        run("-pub -domain 55 -dataLen 1024 -transport UDPv4 -nic enp1s0 -noPrintIntervals -executionTime 20 \
         -latencyTest -bestEffort -keyed -instances 100000 -noOutputHeaders -outputFile tmp");
    assert_eq!(options.integer("domain"), Some(55));
    assert_eq!(options.choice("transport"), Some("UDPv4"));
    assert_eq!(options.integer("instances"), Some(100_000));
    assert_eq!(options.text("outputFile"), Some("tmp"));
    assert!(options.has("noOutputHeaders") && options.has("bestEffort") && options.has("keyed"));

    let tuned = run("-sub -threadCPUAffinity 0:1,2 -threadPriorities h:80:n");
    assert_eq!(tuned.affinity().unwrap().receive, [1, 2]);
    assert!(tuned.priorities().is_some());
    let secured =
        run("-sub -secureG g.xml -secureCertF c.pem -secureEnc aes-128-gcm -secureD 7 -securePe p.xml -securePr k.pem");
    assert_eq!(
        (secured.text("secureGovernanceFile"), secured.choice("secureEncryptionAlgorithm")),
        (Some("g.xml"), Some("aes-128-gcm"))
    );
    assert_eq!(
        (secured.text("securePermissionsFile"), secured.text("securePrivateKey")),
        (Some("p.xml"), Some("k.pem"))
    );
    assert_eq!((secured.text("secureCertFile"), secured.integer("secureDebug")), (Some("c.pem"), Some(7)));
    let key = run("-sub -lightW -securePSK data:,1:x -securePSKA AES128+GMAC");
    assert_eq!(
        (key.has("lightWeightSecurity"), key.secret("securePSK").map(SecretText::expose)),
        (true, Some("data:,1:x"))
    );
    assert_eq!(key.choice("securePSKAlgorithm"), Some("AES128+GMAC"));
    assert_eq!(errors("-sub -raw -secureSign"), ["-secureSign is not supported by raw sockets (-rawTransport)"]);
}

#[test]
fn values_are_checked_against_the_table() {
    assert_eq!(errors("-dataLen 27"), ["Bad value for -dataLen: 27 is out of range; permitted: 28 to 2147482620"]);
    assert_eq!(errors("-domain 251"), ["Bad value for -domain: 251 is out of range; permitted: 0 to 250"]);
    assert_eq!(
        errors("-transport udpv4"),
        ["Bad value for -transport: 'udpv4' is none of them; \
          permitted: UDPv4, UDPv6, SHMEM (not yet: TCP, TLS, DTLS, WAN, UDPv4_WAN)"]
    );
    assert_eq!(errors("-outputFormat CSV").len(), 1);
    assert!(errors("-numIter 12abc")[0].contains("'abc' after the number"));
    assert_eq!(errors("-pub -pubRate 0").len(), 1);
}

#[test]
fn rate_without_method_is_accepted() {
    let expected = RateLimit { per_second: 1000, method: WaitMethod::Spin };
    assert_eq!(run("-pub -pubRate 1000").rate("pubRate"), Some(expected));
    assert_eq!(run("-pub -pubRatebps 10M:sleep").rate("pubRatebps").unwrap().method, WaitMethod::Sleep);
}

#[test]
fn missing_argument_ends_parsing_at_once() {
    assert_eq!(errors("-dataLen"), ["Missing <bytes> after -dataLen"]);
    assert_eq!(errors("-dataLen -pub -nonsense"), ["Missing <bytes> after -dataLen"]);
}

#[test]
fn every_unknown_word_is_reported() {
    let lines = errors("-pub nonsense -alsoNonsense - -dataLen 1");
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].starts_with("Cannot parse 'nonsense'"));
    assert!(lines[2].starts_with("Cannot parse '-'"));
}

#[test]
fn help_anywhere_prints_the_help() {
    assert_eq!(parse(&["-pub", "-dataLen", "-help"]), Ok(Invocation::Help));
    assert_eq!(parse(&["-h"]), Ok(Invocation::Help));
    assert_eq!(errors("-HELPX").len(), 1);
}

#[test]
fn sides_exclude_each_other() {
    assert_eq!(errors("-pub -sub"), ["-pub is a publisher option; it cannot go with -sub"]);
    assert_eq!(errors("-sub -latencyTest"), ["-latencyTest is a publisher option; it cannot go with -sub"]);
    assert_eq!(errors("-pub -numPublishers 2"), ["-numPublishers is a subscriber option; it cannot go with -pub"]);
    // With neither flag the process is a subscriber, and the rule does not apply.
    assert!(run("-latencyTest").has("latencyTest"));
}

#[test]
fn raw_sockets_refuse_unsupported_options() {
    assert_eq!(errors("-pub -raw -keyed -bestEffort"), ["-bestEffort is not supported by raw sockets (-rawTransport)"]);
}

#[test]
fn scalars_keep_the_last_value_and_peers_add_up() {
    assert_eq!(run("-dataLen 64 -dataLen 128").integer("dataLen"), Some(128));
    assert_eq!(run("-peer b -peer a").texts("peer"), ["b", "a"]);
    let many = "-peer a ".repeat(1025);
    assert_eq!(errors(&many), vec!["-peer is given more than 1023 times"; 2]);
}

#[test]
fn unbounded_without_threshold_is_accepted() {
    assert!(run("-unbounded -pub").has("unbounded"));
    assert_eq!(run("-unbounded 1000 -pub").integer("unbounded"), Some(1000));
}

#[test]
fn multicast_with_address_is_accepted() {
    assert_eq!(run("-sub -multicast 239.255.1.1").text("multicast"), Some("239.255.1.1"));
    assert!(run("-sub -multicast -keyed").has("multicast"));
}

#[test]
fn content_filter_is_checked_before_it_is_refused() {
    for line in ["-sub -cft 1:5", "-pub -cft 1", "-sub -raw -cft 1"] {
        assert_eq!(errors(line), ["-cft is not available yet"], "{line}");
    }
    assert!(errors("-sub -cft 5:1")[0].contains("runs backwards"));
    assert!(errors("-sub -cft 65535")[0].contains("out of range"));
}

#[test]
fn unavailable_option_is_refused_in_one_line_with_its_value() {
    let is_refused = |option: &&OptionDescriptor| !matches!(option.availability, Availability::Now | Availability::Old);
    for option in OPTIONS.iter().filter(is_refused) {
        let value = match option.argument {
            Argument::Flag => String::new(),
            Argument::Integer { min, .. } => min.to_string(),
            Argument::Choice { permitted, .. } => permitted[0].to_owned(),
            _ => "1".to_owned(),
        };
        let lines = errors(&format!("-{} {value}", option.name));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with(&format!("-{} ", option.name)), "{lines:?}");
    }
    let Argument::Choice { not_yet, .. } = table::descriptor("transport").unwrap().argument else { panic!() };
    for transport in not_yet {
        assert_eq!(
            errors(&format!("-transport {transport}")),
            [format!("-transport {transport} is not available yet")]
        );
    }
}

#[test]
fn removed_option_matches_full_name_only() {
    assert!(run("-sub -nomulticast -debug").has("debug"));
    assert_eq!(errors("-sub -nomultica").len(), 1);
    assert_eq!(
        errors("-sub -heartbeatPeriod 0:1000000"),
        ["-heartbeatPeriod was removed from RTI Perftest; instead use: nothing"]
    );
    assert!(errors("-enableTCP")[0].contains("-transport TCP"));
    assert_eq!(resolve("-enableTu").unwrap().name, "enableTurboMode");
}

#[test]
fn options_of_both_sides_are_passed_unchanged() {
    let line = "-pub -DATALEN 64 -unbounded -scan 32:64 -outputFile x -best -numSubscribers 2 -nic lo";
    let words: Vec<_> = line.split_whitespace().collect();
    let taken = words_of_both_sides(&words, &["outputFile"]);
    assert_eq!(taken.join(" "), "-DATALEN 64 -unbounded -best -nic lo");
}

//! Pairs of processes with DDS Security, with the files of `perftest keys make`.
#![cfg(feature = "security")]

mod common;

use common::{Folder, Outcome, Process, columns, run, start};

const QUICK: &str = "-nic lo -startDelay 0 -discoveryTimeout 50 -partnerTimeout 30 -noPrint -noOutputHeaders";

fn identity(name: &str) -> Folder {
    let folder = Folder::new(name);
    let outcome = run(&format!("keys make {}", folder.0.display()));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let listed = |name: &str| outcome.stdout.iter().any(|line| line.trim() == name);
    assert!(listed("pubkey.pem") && listed("signed_PerftestGovernance_RTPSSign.xml"), "{outcome:?}");
    folder
}

#[test]
fn pair_with_one_governance_document_exchanges_samples_and_records_the_protection() {
    let folder = identity("pair");
    for (domain, name, messages, payloads) in [
        (60, "RTPSSign", "SIGN", "NONE"),
        (61, "DiscoverySignEncryptBoth", "SIGN", "ENCRYPT"),
        (62, "", "NONE", "NONE"),
    ] {
        let governance = folder.path(&format!("signed_PerftestGovernance_{name}.xml"));
        let record = folder.path(&format!("record-{domain}"));
        let line = format!("{QUICK} -domain {domain} -secureGovernanceFile {governance}");
        let subscriber = start(&format!("-sub {line} -secureEncryptionAlgorithm aes-128-gcm"));
        let publisher = run(&format!("-pub {line} -latencyTest -numIter 200 -recordFile {record}"));
        let subscriber = subscriber.finish();
        assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
        assert_eq!(
            columns(&subscriber.stdout[0])[1..],
            [200.0, columns(&subscriber.stdout[0])[2], columns(&subscriber.stdout[0])[3], 0.0, 0.0]
        );
        for expected in
            ["Secure Configuration:", &format!("Governance file: {governance}"), &format!("Messages: {messages}")]
        {
            assert!(publisher.stderr.contains(expected), "{}", publisher.stderr);
        }
        assert!(publisher.stderr.contains("Encryption algorithm: aes-256-gcm"), "{}", publisher.stderr);
        assert!(subscriber.stderr.contains("Encryption algorithm: aes-128-gcm"), "{}", subscriber.stderr);
        let record = std::fs::read_to_string(&record).unwrap();
        assert!(record.contains(&format!("\"messages\":\"{messages}\"")), "{record}");
        assert!(record.contains(&format!("\"payloads\":\"{payloads}\"")), "{record}");
        for secret in ["pubkey.pem", "subkey.pem"] {
            let key = std::fs::read_to_string(folder.path(secret)).unwrap();
            let line = key.lines().nth(1).unwrap();
            assert!(!record.contains(line) && !publisher.stderr.contains(line) && !subscriber.stderr.contains(line));
        }
    }
}

/// Pairs that run at the same time.
const PAIRS_AT_ONCE: usize = 3;

#[test]
fn pair_with_each_made_governance_document_exchanges_samples() {
    let folder = identity("each");
    let entries = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut documents: Vec<String> = entries.filter(|name| name.starts_with("signed_PerftestGovernance_")).collect();
    documents.sort();
    assert_eq!(documents.len(), 30);
    let exchange = |domain: usize, document: &str| {
        let line = format!("{QUICK} -domain {domain} -secureGovernanceFile {}", folder.path(document));
        let subscriber = start(&format!("-sub {line}"));
        let publisher = run(&format!("-pub {line} -latencyTest -numIter 20"));
        let subscriber = subscriber.finish();
        assert_eq!((publisher.code, subscriber.code), (0, 0), "{document}: {publisher:?} {subscriber:?}");
        let row = columns(&subscriber.stdout[0]);
        assert_eq!((row[1], row[4]), (20.0, 0.0), "{document}: {subscriber:?}");
    };
    let numbered: Vec<(usize, &String)> = (70..).zip(&documents).collect();
    std::thread::scope(|scope| {
        for lane in 0..PAIRS_AT_ONCE {
            let own = numbered.iter().skip(lane).step_by(PAIRS_AT_ONCE);
            scope.spawn(move || own.for_each(|(domain, document)| exchange(*domain, document)));
        }
    });
}

#[test]
fn debug_level_adds_authenticated_participants_and_then_keys() {
    let folder = identity("debug");
    let governance = folder.path("signed_PerftestGovernance_DiscoverySignEncryptBoth.xml");
    for (domain, level, shows_peers, shows_keys) in [(54, 5, false, false), (55, 6, true, false), (56, 7, true, true)] {
        let line = format!("{QUICK} -domain {domain} -secureGovernanceFile {governance} -secureDebug {level}");
        let subscriber = start(&format!("-sub {line}"));
        let publisher = run(&format!("-pub {line} -latencyTest -numIter 20"));
        let subscriber = subscriber.finish();
        assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
        for (outcome, peer) in [(&publisher, "CN=sub"), (&subscriber, "CN=pub")] {
            let has =
                |words: [&str; 2]| outcome.stderr.lines().any(|line| words.iter().all(|word| line.contains(word)));
            assert!(outcome.stderr.contains(&format!("Debug level: {level}")), "{}", outcome.stderr);
            assert_eq!(has([" is authenticated as ", peer]), shows_peers, "{level}: {}", outcome.stderr);
            assert_eq!(has(["the keys of ", " are exchanged"]), shows_keys, "{level}: {}", outcome.stderr);
        }
    }
}

/// The side whose certificate is that of the subscriber begins the handshake. The other side refuses its request with
/// the cause, and answers nothing: the two pairs have the certificates the other way round.
#[test]
fn participant_of_another_identity_is_refused_with_its_cause_by_each_side() {
    let (own, other) = (identity("own"), identity("other"));
    let line = |folder: &Folder, domain: u32, name: &str| {
        let document = if name == "pub" { "Pub" } else { "Sub" };
        let file = |option: &str, file: &str| format!(" -secure{option} {}", folder.path(file));
        [
            format!("{QUICK} -domain {domain}"),
            file("GovernanceFile", "signed_PerftestGovernance_RTPSSign.xml"),
            file("PermissionsFile", &format!("signed_PerftestPermissions{document}.xml")),
            file("CertFile", &format!("{name}.pem")),
            file("PrivateKey", &format!("{name}key.pem")),
        ]
        .concat()
    };
    let pairs = [(63, ["pub", "sub"]), (66, ["sub", "pub"])].map(|(domain, [publisher, subscriber])| {
        let subscriber = start(&format!("-sub {} -discoveryTimeout 6", line(&own, domain, subscriber)));
        let publisher = line(&other, domain, publisher);
        [start(&format!("-pub {publisher} -latencyTest -numIter 10 -discoveryTimeout 5")), subscriber]
    });
    let [[refusing, asking], [asking_too, refusing_too]] = pairs.map(|pair| pair.map(Process::finish));
    for outcome in [&refusing, &asking, &asking_too, &refusing_too] {
        assert_eq!(outcome.code, 1, "{outcome:?}");
    }
    let words = ["WARN", "a handshake message", "certificate of CN=sub,", "not signed by the authority that it names"];
    let names_cause = |outcome: &Outcome| outcome.stderr.lines().any(|line| words.iter().all(|w| line.contains(w)));
    for outcome in [&refusing, &refusing_too] {
        assert!(names_cause(outcome), "{outcome:?}");
    }
    // The side that got no answer does not learn of the other certificate.
    assert!(asking.stderr.contains("publishers have not appeared within 6 s"), "{asking:?}");
    assert!(asking_too.stderr.contains("have not announced themselves within 5 s"), "{asking_too:?}");
}

#[test]
fn shared_memory_is_for_documents_without_protection() {
    let folder = identity("shmem");
    let line = |name: &str| {
        let governance = folder.path(&format!("signed_PerftestGovernance_{name}.xml"));
        format!("{QUICK} -transport SHMEM -domain 65 -secureGovernanceFile {governance}")
    };
    let outcome = run(&format!("-pub {}", line("DataEncrypt")));
    assert_eq!((outcome.code, outcome.stdout.len()), (255, 0), "{outcome:?}");
    assert!(outcome.stderr.starts_with("-transport SHMEM cannot go with "), "{}", outcome.stderr);
    let subscriber = start(&format!("-sub {}", line("")));
    let publisher = run(&format!("-pub {} -latencyTest -numIter 100", line("")));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
}

#[test]
fn bad_file_ends_with_255_and_one_line_that_names_it() {
    let folder = identity("bad");
    let governance = folder.path("signed_PerftestGovernance_RTPSSign.xml");
    let text = std::fs::read_to_string(&governance).unwrap();
    std::fs::write(&governance, text.replace("<rtps_protection_kind>SIGN", "<rtps_protection_kind>NONE")).unwrap();
    let outcome = run(&format!("-pub {QUICK} -domain 64 -secureGovernanceFile {governance}"));
    assert_eq!((outcome.code, outcome.stdout.len()), (255, 0), "{outcome:?}");
    assert!(outcome.stderr.lines().count() == 1 && outcome.stderr.starts_with(&governance), "{}", outcome.stderr);
    let outcome = run(&format!("-pub {QUICK} -domain 64 -secureGovernanceFile /nowhere/g.xml"));
    assert_eq!((outcome.code, outcome.stderr.lines().count()), (255, 1), "{outcome:?}");
    assert!(outcome.stderr.starts_with("-secureGovernanceFile /nowhere/g.xml: "), "{}", outcome.stderr);
}

#[test]
fn check_ends_with_255_if_a_file_is_at_fault() {
    let folder = identity("check");
    let outcome = run(&format!("keys check {}", folder.0.display()));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.iter().any(|line| line == "No fault was found."), "{outcome:?}");
    let empty = folder.path("password.txt");
    std::fs::write(&empty, "").unwrap();
    let outcome = run(&format!("keys check {} --password-file {empty}", folder.0.display()));
    assert_eq!((outcome.code, outcome.stdout.len()), (255, 0), "{outcome:?}");
    assert!(outcome.stderr.starts_with(&format!("--password-file {empty}: ")), "{outcome:?}");
    std::fs::remove_file(folder.path("pubkey.pem")).unwrap();
    let outcome = run(&format!("keys check {}", folder.0.display()));
    assert_eq!(outcome.code, 255, "{outcome:?}");
    assert!(outcome.stdout.iter().any(|line| line.starts_with("error: ")), "{outcome:?}");
    let outcome = run(&format!("keys make {}", folder.0.display()));
    assert_eq!((outcome.code, outcome.stdout.len()), (255, 0), "{outcome:?}");
    assert!(outcome.stderr.contains("it exists already; nothing was written"), "{outcome:?}");
    assert_eq!(run(&format!("keys make {} --force --rsa --one-authority", folder.0.display())).code, 0);
}

#[test]
fn pair_with_a_pre_shared_key_exchanges_samples_and_shows_no_passphrase() {
    let folder = identity("psk");
    let record = folder.path("record-psk");
    std::fs::write(folder.path("psk.txt"), "7:hidden passphrase\n").unwrap();
    let by_file = format!("-securePSK file:{}", folder.path("psk.txt"));
    let subscriber = start(&format!("-sub {QUICK} -domain 66 -lightWeightSecurity {by_file}"));
    let line = format!("-pub {QUICK} -domain 66 -lightWeightSecurity {by_file} -securePSKAlgorithm AES128+GCM");
    let publisher = run(&format!("{line} -latencyTest -numIter 200 -recordFile {record}"));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (0, 0), "{publisher:?} {subscriber:?}");
    assert!(publisher.stderr.contains("Pre-shared key: ENCRYPT"), "{}", publisher.stderr);
    assert!(publisher.stderr.contains("Encryption algorithm: aes-128-gcm"), "{}", publisher.stderr);
    let record = std::fs::read_to_string(&record).unwrap();
    assert!(record.contains("\"pre_shared\":\"ENCRYPT\""), "{record}");
    assert!(!format!("{record}{publisher:?}{subscriber:?}").contains("hidden"));
    // Another passphrase of the same number.
    let subscriber = start(&format!("-sub {QUICK} -domain 67 -lightWeightSecurity {by_file} -discoveryTimeout 6"));
    let other = format!("-pub {QUICK} -domain 67 -lightWeightSecurity -securePSK data:,7:another -discoveryTimeout 5");
    let publisher = run(&format!("{other} -latencyTest -numIter 10"));
    let subscriber = subscriber.finish();
    assert_eq!((publisher.code, subscriber.code), (1, 1), "{publisher:?} {subscriber:?}");
    assert!(subscriber.stderr.contains("made without the key or passphrase"), "{subscriber:?}");
    let governance = folder.path("signed_PerftestGovernance_RTPSSign.xml");
    let unused = run(&format!("-pub {QUICK} -domain 67 -secureGovernanceFile {governance} {by_file}"));
    assert_eq!((unused.code, unused.stdout.len(), unused.stderr.lines().count()), (255, 0, 1), "{unused:?}");
    assert!(unused.stderr.starts_with(&format!("-securePSK cannot go with {governance}: ")), "{unused:?}");
    let unusable = run(&format!("-pub {QUICK} -domain 67 -lightWeightSecurity -securePSK data:,hidden"));
    assert_eq!((unusable.code, unusable.stdout.len()), (255, 0), "{unusable:?}");
    assert!(unusable.stderr.contains("passphrase") && !unusable.stderr.contains("hidden"), "{unusable:?}");
}

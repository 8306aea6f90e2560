//! The log of security events: as a topic, and as a file.

mod realm;

use std::time::{Duration, Instant};

use peregrine::security::{
    BuiltinLoggingTypeV2, LogCounters, LogLevel, LogOptions, LoggingLevel, ProtectionKind, SecurityLog,
};
use peregrine::{DataReader, DomainParticipant, Error};
use realm::{Levels, PATIENCE, Realm, config, exchange, participant, reader, writer};

const TOPIC: &str = "DDS:Security:LogTopicV2";

fn levels() -> Levels {
    let (messages, discovery) = (ProtectionKind::None, ProtectionKind::None);
    Levels { messages, discovery, submessages: ProtectionKind::None, payloads: ProtectionKind::None }
}

fn log_reader(participant: &DomainParticipant) -> Result<DataReader<BuiltinLoggingTypeV2>, Error> {
    participant.topic::<BuiltinLoggingTypeV2>(TOPIC)?.reader_builder().reliable().transient_local().keep_all().build()
}

/// Waits until the counters satisfy the condition.
fn wait_for(log: &SecurityLog, is_it: impl Fn(&LogCounters) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_it(&log.counters()) {
        assert!(Instant::now() < end, "{:?}", log.counters());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn events_are_samples_for_those_with_permission_and_lines_of_a_file() {
    let realm = Realm::new(levels());
    let path = std::env::temp_dir().join(format!("peregrine-security-log-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let of_a = realm.member("A", 2);
    let a = DomainParticipant::builder(110).config(config()).security(of_a).enabled(false).build().unwrap();
    let (level, file) = (LogLevel::Informational, Some(path.clone()));
    let options = LogOptions { level, distribute: true, file, ..LogOptions::default() };
    let log = a.security_log(options).unwrap();
    a.enable().unwrap();

    // Without permission for the topic, the error names the document.
    let c = participant(110, realm.member("C", 4));
    let error = log_reader(&c).map(drop).unwrap_err();
    assert!(error.to_string().contains("permissions") && error.to_string().contains(TOPIC), "{error}");

    let b = participant(110, realm.member_with("B", 3, &[TOPIC]));
    let entries = log_reader(&b).unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|entry: &BuiltinLoggingTypeV2| entry.message.contains("CN=B")) {
        seen.extend(entries.wait_and_take(PATIENCE).unwrap().into_value());
    }
    let entry = seen.iter().find(|entry| entry.message.contains("CN=B")).unwrap();
    assert_eq!((entry.facility, entry.severity, &*entry.msgid), (10, LoggingLevel::Informational, "Authenticated"));
    assert_eq!(entry.procid, std::process::id().to_string());
    let data = &entry.structured_data["DDS"];
    let value = |name: &str| data.iter().find(|pair| pair.name == name).map(|pair| pair.value.clone());
    assert_eq!(value("guid"), Some(a.guid().to_string()));
    assert_eq!((value("domain_id"), value("plugin_class")), (Some("110".into()), Some("Authentication".into())));

    // Keys are exchanged for the pairs above, and that is less severe than the log wants.
    wait_for(&log, |counters| counters.logged >= 2 && counters.filtered > 0);
    let counters = log.counters();
    assert_eq!((counters.lost, counters.not_in_file, counters.not_distributed), (0, 0, 0));
    drop(log);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().count() >= 2 && text.lines().all(|line| line.contains("plugin_class=")), "{text}");
    assert!(text.contains("CN=B") && text.contains("CN=C") && !text.contains("PRIVATE KEY"), "{text}");
    assert!(!text.contains("KeysExchanged"), "{text}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn events_without_a_reader_delay_nothing_and_the_participant_goes_on_after_the_log() {
    let realm = Realm::new(levels());
    let of_a = realm.member("A", 2);
    let a = DomainParticipant::builder(111).config(config()).security(of_a).enabled(false).build().unwrap();
    let options = LogOptions { level: LogLevel::Debug, distribute: true, ..LogOptions::default() };
    // Authentication is the only event, and may be over within a few milliseconds.
    let log = a.security_log(options.clone()).unwrap();
    a.enable().unwrap();
    let b = participant(111, realm.member("B", 3));
    let (writer, reader) = (writer(&a, "open"), reader(&b, "open"));
    exchange(&writer, &reader);
    wait_for(&log, |counters| counters.logged > 0);
    drop(log);
    exchange(&writer, &reader);
    let missing = LogOptions { file: Some("/nowhere/log".into()), ..LogOptions::default() };
    assert!(a.security_log(missing).is_err());
    drop(a.security_log(options).unwrap());
}

//! The log of security events: a topic, a file, or both (`DDS:Logging:DDS_LogTopic`, DDS Security 1.2 §10.6).

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use peregrine_rtps::id::Guid;
use peregrine_security::documents::LOG_TOPIC;
use peregrine_security::logging::LogEntry;
pub use peregrine_security::logging::{LogLevel, UnknownLogLevel};
use peregrine_security::session::SecurityEvent;
use peregrine_xtypes::DdsType;

use crate::DiscoveryEvent;
use crate::condition::{GuardCondition, WaitSet};
use crate::discovery::DiscoveryEvents;
use crate::driver::base::clock::wall;
use crate::entity::DomainParticipant;
use crate::error::{Error, SecurityError, SecurityPart};
use crate::writer::DataWriter;

/// Samples that a late reader of the log gets.
const DEPTH: u32 = 128;
/// The default of [`LogOptions::max_file_bytes`].
const FILE_BYTES: u64 = 64 << 20;
/// The names of its properties begin with this.
pub(super) const PROPERTIES: &str = "dds.sec.log.";
/// The value of the property that names the plug-in.
const PLUGIN: &str = "builtin.DDS_LogTopic";
/// Security and authorization messages, in syslog.
const FACILITY: u8 = 10;

/// The content of a log, and its places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// Less severe events are left out. The default is [`LogLevel::Warning`].
    pub level: LogLevel,
    /// Whether the events are samples of the topic `DDS:Security:LogTopicV2`, of type [`BuiltinLoggingTypeV2`]. Under a
    /// governance, samples are encrypted, and readers need a permission for the topic. The default is `false`.
    pub distribute: bool,
    /// A file to whose end the events are appended, each on a line. The default is none.
    pub file: Option<PathBuf>,
    /// The length of the file, in bytes, beyond which no event is appended. The default is 64 MiB.
    pub max_file_bytes: u64,
}

/// A sample of the log (DDS Security 1.2 §10.6).
#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(name = "DDSSecurity::BuiltinLoggingTypeV2", extensibility = "appendable")]
pub struct BuiltinLoggingTypeV2 {
    /// 10: messages of security.
    pub facility: u8,
    /// The severity.
    pub severity: LoggingLevel,
    /// When the event was logged.
    pub timestamp: LogTime,
    /// The name of the host.
    pub hostname: String,
    /// An address of the host by which the participant is reached; empty if there is none.
    pub hostip: String,
    /// The name of the program.
    pub appname: String,
    /// The id of the process.
    pub procid: String,
    /// The kind of the event.
    pub msgid: String,
    /// The event in words.
    pub message: String,
    /// Under `DDS`: `guid`, `domain_id`, `plugin_class` and `plugin_method`.
    pub structured_data: BTreeMap<String, Vec<NameValuePair>>,
}

/// The severity of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, DdsType)]
#[dds(name = "DDSSecurity::LoggingLevel")]
pub enum LoggingLevel {
    /// See [`LogLevel::Emergency`].
    Emergency = 0,
    /// See [`LogLevel::Alert`].
    Alert = 1,
    /// See [`LogLevel::Critical`].
    Critical = 2,
    /// See [`LogLevel::Error`].
    Error = 3,
    /// See [`LogLevel::Warning`].
    Warning = 4,
    /// See [`LogLevel::Notice`].
    Notice = 5,
    /// See [`LogLevel::Informational`].
    Informational = 6,
    /// See [`LogLevel::Debug`].
    Debug = 7,
}

/// A time since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, Debug, DdsType)]
#[dds(name = "DDSSecurity::Time_t", extensibility = "final", nested)]
pub struct LogTime {
    /// Seconds.
    pub sec: i64,
    /// Nanoseconds.
    pub nanosec: u32,
}

/// A datum of a sample.
#[derive(Clone, PartialEq, Eq, Debug, DdsType)]
#[dds(name = "DDSSecurity::NameValuePair", extensibility = "final", nested)]
pub struct NameValuePair {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Counters of a log, since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogCounters {
    /// Events that were logged.
    pub logged: u64,
    /// Events that are less severe than the log wants.
    pub filtered: u64,
    /// Events that were dropped because the log was slower than they came; 4,096 events of the participant wait.
    pub lost: u64,
    /// Events that are not in the file, because it was full or could not be written.
    pub not_in_file: u64,
    /// Events that are not samples, because the topic could not be written.
    pub not_distributed: u64,
}

/// A log of the security events of a participant. The log ends when this is dropped, and keeps the participant until
/// then.
#[derive(Debug)]
pub struct SecurityLog {
    stop: GuardCondition,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counters {
    logged: AtomicU64,
    filtered: AtomicU64,
    lost: AtomicU64,
    not_in_file: AtomicU64,
    not_distributed: AtomicU64,
}

/// The state of the thread of a log.
struct Log {
    options: LogOptions,
    events: DiscoveryEvents,
    file: Option<(File, u64)>,
    writer: Option<DataWriter<BuiltinLoggingTypeV2>>,
    counters: Arc<Counters>,
    origin: Origin,
}

/// The parts of samples that are the same for all.
struct Origin {
    guid: Guid,
    domain: u32,
    hostname: String,
    hostip: String,
    appname: String,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { level: LogLevel::Warning, distribute: false, file: None, max_file_bytes: FILE_BYTES }
    }
}

impl LogOptions {
    /// Sets an option by the name of its property, which begins with `dds.sec.log.builtin.DDS_LogTopic.`:
    ///
    /// | name | value |
    /// |---|---|
    /// | `logging_level` | `EMERGENCY_LEVEL` to `DEBUG_LEVEL`: [`Self::level`] |
    /// | `log_file` | a path: [`Self::file`] |
    /// | `distribute` | `true` or `false`: [`Self::distribute`] |
    ///
    /// The property `dds.sec.log.plugin` has the value `builtin.DDS_LogTopic`. DDS Security 1.2 has these options
    /// (§9.6, §10.6.1) and no names of properties for them; these are those of Fast DDS.
    ///
    /// # Errors
    /// The property is not known, or its value is not one of those above.
    pub fn property(mut self, name: &str, value: &str) -> Result<Self, SecurityError> {
        let fault = |fault: &dyn fmt::Display| {
            let fault = format!("{name} is `{value}`; {fault}");
            SecurityError::Malformed { part: SecurityPart::Log, path: None, fault }
        };
        let unknown = || SecurityError::Property(name.to_owned());
        match name.strip_prefix(PROPERTIES).ok_or_else(unknown)? {
            "plugin" if value == PLUGIN => {}
            "plugin" => return Err(fault(&format_args!("use {PLUGIN}"))),
            "builtin.DDS_LogTopic.logging_level" => self.level = value.parse().map_err(|error| fault(&error))?,
            "builtin.DDS_LogTopic.log_file" if value.is_empty() => return Err(fault(&"use a path")),
            "builtin.DDS_LogTopic.log_file" => self.file = Some(value.into()),
            "builtin.DDS_LogTopic.distribute" => {
                self.distribute = value.to_ascii_lowercase().parse().map_err(|_| fault(&"use true or false"))?;
            }
            _ => return Err(unknown()),
        }
        Ok(self)
    }
}

impl DomainParticipant {
    /// Begins a log of the security events of this participant. Earlier events are not in it: to have all, build the
    /// participant [without enabling it](crate::ParticipantBuilder::enabled), and enable it afterwards.
    ///
    /// # Errors
    /// The file cannot be opened, the topic cannot be written, or the system refuses a thread.
    pub fn security_log(&self, options: LogOptions) -> Result<SecurityLog, Error> {
        let file = match &options.file {
            None => None,
            Some(path) => {
                let file = OpenOptions::new().append(true).create(true).open(path).map_err(Error::system)?;
                let len = file.metadata().map_err(Error::system)?.len();
                Some((file, len))
            }
        };
        let writer = options.distribute.then(|| {
            let topic = self.topic::<BuiltinLoggingTypeV2>(LOG_TOPIC)?;
            let writer = topic.writer_builder().reliable();
            writer.keep_last(DEPTH).transient_local().build()
        });
        let (stop, counters) = (GuardCondition::new(), Arc::new(Counters::default()));
        let log = Log {
            events: self.discovery_events(),
            file,
            writer: writer.transpose()?,
            counters: Arc::clone(&counters),
            origin: Origin::of(self),
            options,
        };
        let stopped = stop.clone();
        let body = move || log.run(&stopped);
        let thread = thread::Builder::new().name("dds-log".to_owned()).spawn(body).map_err(Error::system)?;
        Ok(SecurityLog { stop, counters, thread: Some(thread) })
    }
}

impl SecurityLog {
    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> LogCounters {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { logged, filtered, lost, not_in_file, not_distributed } = &*self.counters;
        LogCounters {
            logged: of(logged),
            filtered: of(filtered),
            lost: of(lost),
            not_in_file: of(not_in_file),
            not_distributed: of(not_distributed),
        }
    }
}

impl Drop for SecurityLog {
    /// Waits until the events so far are logged.
    fn drop(&mut self) {
        self.stop.set_trigger_value(true);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has ended the log, and concerns nothing else.
            drop(thread.join());
        }
    }
}

impl Log {
    fn run(mut self, stop: &GuardCondition) {
        let set = WaitSet::new();
        set.attach(stop);
        set.attach(self.events.condition());
        loop {
            let is_last = stop.trigger_value();
            while let Some(event) = self.events.try_next() {
                if let DiscoveryEvent::Security(event) = event {
                    self.log(&event);
                }
            }
            self.counters.lost.store(self.events.missed(), Ordering::Relaxed);
            if is_last {
                return;
            }
            // The wait ends with an event, or with the end of the log.
            let _ = set.wait(Duration::MAX);
        }
    }

    fn log(&mut self, event: &SecurityEvent) {
        let entry = LogEntry::of(event);
        if entry.level > self.options.level {
            self.counters.filtered.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let sample = self.origin.sample(entry);
        if let Some((file, len)) = &mut self.file {
            let line = line_of(&sample);
            match append(file, len, &line, self.options.max_file_bytes) {
                Ok(true) => {}
                Ok(false) | Err(_) => drop(self.counters.not_in_file.fetch_add(1, Ordering::Relaxed)),
            }
        }
        if let Some(writer) = &self.writer
            && writer.write(&sample).is_err()
        {
            self.counters.not_distributed.fetch_add(1, Ordering::Relaxed);
        }
        self.counters.logged.fetch_add(1, Ordering::Relaxed);
    }
}

/// Appends a line. `false` if the file is full.
fn append(file: &mut File, len: &mut u64, line: &str, max: u64) -> io::Result<bool> {
    let after = len.saturating_add(line.len() as u64);
    if after > max {
        return Ok(false);
    }
    file.write_all(line.as_bytes())?;
    *len = after;
    Ok(true)
}

fn line_of(sample: &BuiltinLoggingTypeV2) -> String {
    let BuiltinLoggingTypeV2 { timestamp, severity, hostname, appname, procid, msgid, message, .. } = sample;
    let data = sample.structured_data.values().flatten();
    let data: Vec<String> = data.map(|pair| format!("{}={}", pair.name, pair.value)).collect();
    let LogTime { sec, nanosec } = timestamp;
    let data = data.join(" ");
    format!("{sec}.{nanosec:09} {severity:?} {hostname} {appname}[{procid}] {msgid} {data}: {message}\n")
}

impl Origin {
    fn of(participant: &DomainParticipant) -> Self {
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        let program = std::env::current_exe().ok();
        let appname = program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
        let locked = participant.inner.core.lock();
        let addresses = locked.rtps.config().addresses.default_unicast.first().and_then(|at| at.to_socket_addr());
        let hostip = addresses.map(|address| address.ip().to_string()).unwrap_or_default();
        drop(locked);
        let appname = appname.to_string_lossy().into_owned();
        Self { guid: participant.guid(), domain: participant.domain().0, hostname, hostip, appname }
    }

    fn sample(&self, entry: LogEntry) -> BuiltinLoggingTypeV2 {
        let nanos = wall().to_unix_nanos();
        let (sec, nanosec) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        let pair = |(name, value): (&str, String)| NameValuePair { name: name.to_owned(), value };
        let data = [
            ("guid", self.guid.to_string()),
            ("domain_id", self.domain.to_string()),
            ("plugin_class", entry.plugin_class.to_owned()),
            ("plugin_method", entry.plugin_method.to_owned()),
        ];
        BuiltinLoggingTypeV2 {
            facility: FACILITY,
            severity: entry.level.into(),
            timestamp: LogTime {
                sec: i64::try_from(sec).unwrap_or(i64::MAX),
                nanosec: u32::try_from(nanosec).unwrap_or(0),
            },
            hostname: self.hostname.clone(),
            hostip: self.hostip.clone(),
            appname: self.appname.clone(),
            procid: std::process::id().to_string(),
            msgid: entry.kind.to_owned(),
            message: entry.message,
            structured_data: BTreeMap::from([("DDS".to_owned(), data.map(pair).into())]),
        }
    }
}

impl From<LogLevel> for LoggingLevel {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Emergency => Self::Emergency,
            LogLevel::Alert => Self::Alert,
            LogLevel::Critical => Self::Critical,
            LogLevel::Error => Self::Error,
            LogLevel::Warning => Self::Warning,
            LogLevel::Notice => Self::Notice,
            LogLevel::Informational => Self::Informational,
            LogLevel::Debug => Self::Debug,
        }
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::id::{EntityId, GuidPrefix};

    use super::*;
    use crate::{DomainConfig, InterfaceSelection};

    #[test]
    fn properties_set_the_options_of_their_names() {
        let set = |name: &str, value: &str| LogOptions::default().property(name, value);
        let named = |name: &str, value: &str| set(&format!("dds.sec.log.builtin.DDS_LogTopic.{name}"), value);
        assert_eq!(set("dds.sec.log.plugin", "builtin.DDS_LogTopic").unwrap(), LogOptions::default());
        assert_eq!(named("logging_level", "DEBUG_LEVEL").unwrap().level, LogLevel::Debug);
        assert_eq!(named("log_file", "security.log").unwrap().file, Some("security.log".into()));
        assert!(named("distribute", "TRUE").unwrap().distribute && !named("distribute", "false").unwrap().distribute);
        for (refused, expected) in [
            (named("logging_level", "LOUD"), "is `LOUD`; use EMERGENCY_LEVEL"),
            (named("distribute", "perhaps"), "is `perhaps`; use true or false"),
            (named("log_file", ""), "use a path"),
            (set("dds.sec.log.plugin", "other"), "use builtin.DDS_LogTopic"),
            (named("colour", "red"), "DDS_LogTopic.colour is not known"),
            (set("dds.sec.auth.password", "hidden"), "dds.sec.auth.password is not known"),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn oldest_events_are_dropped_and_counted_when_the_log_is_slower() {
        const WAITING_MAX: u64 = 4096;
        const MORE: u64 = 100;
        let path = std::env::temp_dir().join(format!("peregrine-slow-log-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
        let config = DomainConfig { interfaces, ..DomainConfig::default() };
        let participant = DomainParticipant::builder(113).config(config).build().unwrap();
        let options = LogOptions { level: LogLevel::Debug, file: Some(path.clone()), ..LogOptions::default() };
        let log = participant.security_log(options).unwrap();
        let mut locked = participant.inner.core.lock();
        for number in 0..WAITING_MAX + MORE {
            let mut prefix = [0; 12];
            prefix[4..].copy_from_slice(&number.to_be_bytes());
            let remote = Guid::new(GuidPrefix(prefix), EntityId::PARTICIPANT);
            let event = SecurityEvent::KeysExchanged { local: EntityId::PARTICIPANT, remote };
            locked.observers.iter_mut().for_each(|observer| observer.push(DiscoveryEvent::Security(event.clone())));
        }
        drop(locked);
        let counters = Arc::clone(&log.counters);
        drop(log);
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!((of(&counters.lost), of(&counters.logged)), (MORE, WAITING_MAX));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text.lines().count() as u64, WAITING_MAX);
        assert!(text.lines().next().is_some_and(|line| line.contains("KeysExchanged")), "{:?}", text.lines().next());
    }

    #[test]
    fn file_is_not_longer_than_its_bound() {
        let path = std::env::temp_dir().join(format!("peregrine-log-{}", std::process::id()));
        let mut file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
        let mut len = 0;
        let appended: Vec<bool> = (0..5).map(|_| append(&mut file, &mut len, "0123456789", 25).unwrap()).collect();
        assert_eq!(appended, [true, true, false, false, false]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "01234567890123456789");
        std::fs::remove_file(&path).unwrap();
    }
}

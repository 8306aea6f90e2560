//! `DDS:Logging:DDS_LogTopic`: the words of a log for each event (DDS Security 1.2 §9.6, §10.6). The caller writes the
//! log.

use core::fmt;
use core::str::FromStr;

use crate::session::SecurityEvent;

/// How severe an entry is, as in syslog (RFC 5424): the first is the most severe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LogLevel {
    /// The system is unusable.
    Emergency,
    /// To be corrected at once.
    Alert,
    /// A failure in the primary application.
    Critical,
    /// An error.
    Error,
    /// May indicate an error in the future.
    Warning,
    /// Unusual, and no error.
    Notice,
    /// Normal operation.
    Informational,
    /// For developers.
    Debug,
}

/// The words of a log for an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// How severe it is.
    pub level: LogLevel,
    /// The kind of the event.
    pub kind: &'static str,
    /// The plug-in that has reported it.
    pub plugin_class: &'static str,
    /// The operation of the plug-in.
    pub plugin_method: &'static str,
    /// The event in words, on one line. Texts of peers are part of it, secrets are not.
    pub message: String,
}

/// A text that is the name of no level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownLogLevel;

const AUTHENTICATION: &str = "Authentication";
const ACCESS_CONTROL: &str = "AccessControl";
const CRYPTOGRAPHY: &str = "Cryptography";

impl LogLevel {
    const ALL: [Self; 8] = [
        Self::Emergency,
        Self::Alert,
        Self::Critical,
        Self::Error,
        Self::Warning,
        Self::Notice,
        Self::Informational,
        Self::Debug,
    ];

    /// Its name in properties, as in `WARNING_LEVEL`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Emergency => "EMERGENCY_LEVEL",
            Self::Alert => "ALERT_LEVEL",
            Self::Critical => "CRITICAL_LEVEL",
            Self::Error => "ERROR_LEVEL",
            Self::Warning => "WARNING_LEVEL",
            Self::Notice => "NOTICE_LEVEL",
            Self::Informational => "INFORMATIONAL_LEVEL",
            Self::Debug => "DEBUG_LEVEL",
        }
    }
}

impl FromStr for LogLevel {
    type Err = UnknownLogLevel;

    fn from_str(name: &str) -> Result<Self, UnknownLogLevel> {
        Self::ALL.into_iter().find(|level| level.name() == name).ok_or(UnknownLogLevel)
    }
}

impl LogEntry {
    /// The words of a log for this event.
    #[must_use]
    pub fn of(event: &SecurityEvent) -> Self {
        use LogLevel::{Critical, Debug, Error, Informational, Notice, Warning};
        let (level, kind, plugin_class, plugin_method) = match event {
            SecurityEvent::Authenticated { .. } => {
                (Informational, "Authenticated", AUTHENTICATION, "process_handshake")
            }
            SecurityEvent::MessageRefused { .. } => (Warning, "MessageRefused", AUTHENTICATION, "process_handshake"),
            SecurityEvent::Refused { .. } => (Error, "Refused", ACCESS_CONTROL, "validate_remote_permissions"),
            SecurityEvent::Unauthenticated { .. } => {
                (Notice, "Unauthenticated", AUTHENTICATION, "validate_remote_identity")
            }
            SecurityEvent::AnnouncementContradicted { .. } => {
                (Warning, "AnnouncementContradicted", ACCESS_CONTROL, "check_remote_participant")
            }
            SecurityEvent::PacketsRefused { .. } => (Warning, "PacketsRefused", CRYPTOGRAPHY, "decode_rtps_message"),
            SecurityEvent::KeysExchanged { .. } => {
                (Debug, "KeysExchanged", CRYPTOGRAPHY, "set_remote_participant_crypto_tokens")
            }
            SecurityEvent::KeysRefused { .. } => {
                (Error, "KeysRefused", CRYPTOGRAPHY, "set_remote_participant_crypto_tokens")
            }
            SecurityEvent::KeysMissing { .. } => {
                (Warning, "KeysMissing", CRYPTOGRAPHY, "set_remote_participant_crypto_tokens")
            }
            SecurityEvent::Revoked { .. } => (Warning, "Revoked", AUTHENTICATION, "on_revoke_identity"),
            SecurityEvent::Expired { .. } => (Warning, "Expired", AUTHENTICATION, "on_revoke_identity"),
            SecurityEvent::PermissionsExpired { .. } => {
                (Warning, "PermissionsExpired", ACCESS_CONTROL, "on_revoke_permissions")
            }
            SecurityEvent::LocalExpired { .. } => (Critical, "LocalExpired", AUTHENTICATION, "on_revoke_identity"),
            SecurityEvent::KeysRenewed { .. } => {
                (Informational, "KeysRenewed", CRYPTOGRAPHY, "revise_local_entity_keys")
            }
        };
        Self { level, kind, plugin_class, plugin_method, message: on_one_line(&event.to_string()) }
    }
}

/// Texts of peers, such as names of certificates, cannot begin a line of their own.
fn on_one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl fmt::Display for UnknownLogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("use EMERGENCY_LEVEL, ALERT_LEVEL, CRITICAL_LEVEL, ERROR_LEVEL, WARNING_LEVEL, NOTICE_LEVEL, ")?;
        f.write_str("INFORMATIONAL_LEVEL or DEBUG_LEVEL")
    }
}

impl core::error::Error for UnknownLogLevel {}

#[cfg(test)]
mod tests {
    use peregrine_rtps::id::GuidPrefix;
    use peregrine_rtps::participant::MessageRefusal;

    use super::*;
    use crate::wall_time::WallTime;

    #[test]
    fn names_of_levels_are_parsed_and_their_order_is_that_of_syslog() {
        for (severity, level) in LogLevel::ALL.into_iter().enumerate() {
            assert_eq!((level as usize, level.name().parse()), (severity, Ok(level)));
        }
        assert_eq!("warning".parse::<LogLevel>(), Err(UnknownLogLevel));
    }

    #[test]
    fn entry_names_plugin_and_event_and_is_one_line() {
        let peer = GuidPrefix([7; 12]);
        let subject = "CN=a\n2026 forged line\u{1b}[2J".to_owned();
        let entry =
            LogEntry::of(&SecurityEvent::Authenticated { peer, subject, again: false, valid_until: WallTime(0) });
        assert_eq!(
            (entry.level, entry.kind, entry.plugin_class),
            (LogLevel::Informational, "Authenticated", "Authentication")
        );
        assert!(entry.message.contains("CN=a 2026 forged line") && !entry.message.contains(['\n', '\u{1b}']));
        let entry =
            LogEntry::of(&SecurityEvent::PacketsRefused { peer, refusal: MessageRefusal::Unprotected, count: 3 });
        assert_eq!((entry.level, entry.plugin_method), (LogLevel::Warning, "decode_rtps_message"));
        assert!(entry.message.starts_with("3 messages"), "{}", entry.message);
    }
}

//! Description of a command-line option: the vocabulary of [`super::table`].

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// Heading of an option in `-help` and in the compatibility document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Options that both sides take.
    General,
    /// Options that only a publisher takes.
    Publisher,
    /// Options that only a subscriber takes.
    Subscriber,
    /// Network and addresses.
    Transport,
    /// Plain sockets instead of middleware.
    RawTransport,
    /// DDS Security.
    Security,
    /// Options that RTI Perftest does not have.
    Own,
}

impl Group {
    /// Every group, in the order in which help lists them.
    pub const ALL: [Self; 7] = [
        Self::General,
        Self::Publisher,
        Self::Subscriber,
        Self::Transport,
        Self::RawTransport,
        Self::Own,
        Self::Security,
    ];

    /// Text of the heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::General => "General (both sides)",
            Self::Publisher => "Publisher only",
            Self::Subscriber => "Subscriber only",
            Self::Transport => "Transport (both sides)",
            Self::RawTransport => "Raw sockets",
            Self::Security => "Security (both sides)",
            Self::Own => "Not in RTI Perftest",
        }
    }
}

/// The side of a test to which an option applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Publisher and subscriber.
    Both,
    /// Refused together with `-sub`.
    Publisher,
    /// Refused together with `-pub`.
    Subscriber,
}

/// The value of an option, and its permitted values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// No value.
    Flag,
    /// A whole number in `min..=max`, with optional suffix k, M, G, Ki, Mi or Gi.
    Integer {
        /// Name of the value in help.
        label: &'static str,
        /// Smallest permitted value.
        min: u64,
        /// Largest permitted value.
        max: u64,
    },
    /// As `Integer`; the value is optional.
    OptionalInteger {
        /// Name of the value in help.
        label: &'static str,
        /// Smallest permitted value.
        min: u64,
        /// Largest permitted value.
        max: u64,
    },
    /// Seconds, or a number with the suffix `ms` or `s`; at least `min_ms` milliseconds.
    Seconds {
        /// Smallest permitted value in milliseconds.
        min_ms: u64,
    },
    /// One of a fixed set of words, case-sensitive as in RTI Perftest.
    Choice {
        /// Name of the value in help.
        label: &'static str,
        /// Supported words.
        permitted: &'static [&'static str],
        /// Known words that are not supported yet.
        not_yet: &'static [&'static str],
        /// Known words that are refused, each with the reason and what to use.
        refused: &'static [(&'static str, &'static str)],
    },
    /// Any text that does not begin with a dash.
    Text {
        /// Name of the value in help.
        label: &'static str,
    },
    /// As `Text`; the text is neither printed nor recorded, and is overwritten at its end.
    Secret {
        /// Name of the value in help.
        label: &'static str,
    },
    /// As `Text`; the text is optional.
    OptionalText {
        /// Name of the value in help.
        label: &'static str,
    },
    /// One number in `0..=max`, or the first and last of a range joined by a colon.
    Span {
        /// Name of the value in help.
        label: &'static str,
        /// Largest permitted number.
        max: u64,
    },
    /// As `Text`; the option may be given several times.
    Repeated {
        /// Name of the value in help.
        label: &'static str,
        /// Most occurrences.
        max: usize,
    },
    /// `n[:spin|sleep]` in `1..=max` per second.
    Rate {
        /// Name of the number in help.
        label: &'static str,
        /// Largest permitted value.
        max: u64,
    },
    /// `main:receive:event` scheduling priorities: numbers, or `h`, `n`, `l`.
    Priorities,
    /// `main:receive:event:database` core lists such as `0,2-4`.
    Affinity,
    /// Sizes joined by colons; optional.
    Sizes {
        /// Smallest permitted size in bytes.
        min: u64,
        /// Largest permitted size in bytes.
        max: u64,
    },
}

/// Whether an option works in this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// The option works.
    Now,
    /// Recognised, checked, and refused with a line that says that the option is not available yet.
    NotYet,
    /// Recognised, and refused with its help text, which states why and what to use.
    Refused,
    /// Removed by RTI Perftest. Works when written in full.
    Old,
    /// Removed by RTI Perftest. Recognised when written in full, and refused with its replacement.
    Removed,
}

/// One row of the option table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptionDescriptor {
    /// Official spelling without the dash.
    pub name: &'static str,
    /// Its value.
    pub argument: Argument,
    /// The value when the option is absent, as help prints it; empty if there is none.
    pub default: &'static str,
    /// Its heading.
    pub group: Group,
    /// The side to which it applies.
    pub side: Side,
    /// Whether it may be combined with `-rawTransport`.
    pub raw: bool,
    /// Whether it works in this version.
    pub availability: Availability,
    /// Help text: one sentence.
    pub help: &'static str,
}

/// How the publisher waits for the next scheduled send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMethod {
    /// Busy wait: exact, uses one core fully.
    Spin,
    /// `clock_nanosleep` to an absolute time: leaves the core free; the wake-up may be late.
    Sleep,
}

/// A rate limit from `-pubRate` or `-pubRatebps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Samples or bits per second, depending on the option.
    pub per_second: u64,
    /// How to wait.
    pub method: WaitMethod,
}

/// One thread's scheduling priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A `SCHED_FIFO` priority.
    Number(u8),
    /// `h`
    High,
    /// `n`
    Normal,
    /// `l`
    Low,
}

/// `-threadPriorities`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPriorities {
    /// Main (sending) thread.
    pub main: Priority,
    /// Receive threads.
    pub receive: Priority,
    /// Event and timer threads.
    pub event: Priority,
}

/// `-threadCPUAffinity`: core numbers per kind of thread. An empty list does not bind the thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadAffinity {
    /// Main (sending) thread.
    pub main: Vec<usize>,
    /// Receive threads.
    pub receive: Vec<usize>,
    /// Event and timer threads.
    pub event: Vec<usize>,
    /// Database thread of RTI Connext. Accepted; Peregrine has no such thread.
    pub database: Vec<usize>,
}

/// A secret from the command line. Its bytes are overwritten when it is dropped, and `Debug` does not show it.
///
/// Other users of the machine see the command line itself.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(Zeroizing<String>);

/// A checked value of an option.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A flag, or an option without its optional value.
    Present,
    /// From `Integer` and `OptionalInteger`.
    Integer(u64),
    /// From `Seconds`.
    Duration(Duration),
    /// From `Text`, `OptionalText` and `Repeated`.
    Text(String),
    /// From `Secret`.
    Secret(SecretText),
    /// From `Choice`.
    Choice(&'static str),
    /// From `Rate`.
    Rate(RateLimit),
    /// From `Priorities`.
    Priorities(ThreadPriorities),
    /// From `Affinity`.
    Affinity(ThreadAffinity),
    /// From `Sizes`.
    Sizes(Vec<u64>),
    /// From `Span`.
    Span(RangeInclusive<u64>),
}

impl SecretText {
    /// The text.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }
}

/// The text itself, for another process of this program.
impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

impl Argument {
    /// The value as help prints it: empty for a flag, `<label>` or `[<label>]` otherwise.
    pub fn placeholder(&self) -> String {
        match self {
            Self::Flag => String::new(),
            Self::Integer { label, .. }
            | Self::Text { label }
            | Self::Secret { label }
            | Self::Span { label, .. }
            | Self::Repeated { label, .. } => format!("<{label}>"),
            Self::OptionalInteger { label, .. } | Self::OptionalText { label } => format!("[<{label}>]"),
            Self::Seconds { .. } => "<seconds>".into(),
            Self::Choice { label, .. } => format!("<{label}>"),
            Self::Rate { label, .. } => format!("<{label}[:method]>"),
            Self::Priorities => "<X:Y:Z>".into(),
            Self::Affinity => "<A:B:C:D>".into(),
            Self::Sizes { .. } => "[<size:size:...>]".into(),
        }
    }

    /// The permitted values, as help, errors and the compatibility document print them.
    pub fn range(&self) -> String {
        match self {
            Self::Flag => "flag".into(),
            Self::Integer { min, max, .. } | Self::OptionalInteger { min, max, .. } => integer_range(*min, *max),
            Self::Seconds { min_ms } if min_ms.is_multiple_of(1000) => format!("at least {}", min_ms / 1000),
            Self::Seconds { min_ms } => format!("at least {min_ms}ms"),
            Self::Choice { permitted, not_yet: [], .. } => permitted.join(", "),
            Self::Choice { permitted, not_yet, .. } => {
                format!("{} (not yet: {})", permitted.join(", "), not_yet.join(", "))
            }
            Self::Text { .. } | Self::Secret { .. } => "text".into(),
            Self::OptionalText { label } => (*label).into(),
            Self::Span { max, .. } => format!("0 to {max}, the first not above the last"),
            Self::Repeated { max, .. } => format!("text, repeatable up to {max} times"),
            Self::Rate { max, .. } => format!("1 to {max}, method spin (default) or sleep"),
            Self::Priorities => "1 to 99, h, n or l, each".into(),
            Self::Affinity => "core, list or range, each".into(),
            Self::Sizes { min, max } => format!("{min} to {max}, each"),
        }
    }
}

fn integer_range(min: u64, max: u64) -> String {
    if max >= i64::MAX as u64 { format!("at least {min}") } else { format!("{min} to {max}") }
}

//! The line protocol of peers' programs, documented in agents/README.md.

use std::fmt;

/// Longest line of an answer in bytes; a result with every bucket in use takes about half of it.
pub const MAX_ANSWER_LEN: usize = 1 << 20;
/// Longest possible round trip: one day, longer than the wait for any answer.
const MAX_ROUND_TRIP_NS: u64 = 86_400_000_000_000;

/// Settings of one process of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Test and side.
    pub role: Role,
    /// Bytes of the serialized sample without its encapsulation header, as `-dataLen` counts.
    pub size: usize,
    /// Whether delivery is reliable.
    pub reliability: Reliability,
    /// How it waits for samples.
    pub wait: Wait,
    /// Transport of the samples.
    pub transport: Transport,
    /// The thread that sends.
    pub publish: Publish,
    /// Whether samples may share messages.
    pub batch: bool,
    /// Samples per second of a publisher; 0 for the highest rate.
    pub rate: u64,
    /// Length of the measurement in milliseconds.
    pub duration_ms: u64,
    /// Length of the warm-up of pings in milliseconds.
    pub warmup_ms: u64,
    /// DDS domain.
    pub domain: u32,
    /// Core that the process is bound to.
    pub core: Option<usize>,
    /// Folder with the documents of DDS Security, below `pub` and `sub`; `None` without security.
    pub security: Option<String>,
}

/// An enumeration with its words on the wire.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
        pub enum $name { $($(#[$variant_meta])* #[value(name = $word)] $variant),+ }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}

words! {
    /// Test and side.
    Role {
        /// Sends one sample, waits for its echo, and repeats.
        Ping = "ping",
        /// Echoes samples.
        Pong = "pong",
        /// Sends samples.
        Pub = "pub",
        /// Counts samples.
        Sub = "sub",
    }
}

words! {
    /// RELIABILITY.
    Reliability {
        /// Every sample arrives.
        Reliable = "reliable",
        /// Samples may be lost.
        BestEffort = "best-effort",
    }
}

words! {
    /// How a process waits for samples.
    Wait {
        /// In a listener, on a thread of the middleware.
        Listener = "listener",
        /// In a loop on a WaitSet.
        Waitset = "waitset",
        /// In a loop that never sleeps.
        Poll = "poll",
    }
}

words! {
    /// Transport of the samples.
    Transport {
        /// UDP on the loopback interface.
        Udp = "udp",
        /// TCP on the loopback interface.
        Tcp = "tcp",
        /// Shared memory, copied in and out.
        Shm = "shm",
        /// Shared memory in which samples are written and read in place.
        DataSharing = "data-sharing",
    }
}

words! {
    /// The thread that sends.
    Publish {
        /// The writing thread.
        Sync = "sync",
        /// A thread of the middleware.
        Async = "async",
    }
}

/// The keys and values after the word `setup` or `about`.
impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batch = if self.batch { "on" } else { "off" };
        let core = self.core.map_or_else(|| "none".into(), |core| core.to_string());
        write!(f, "role={} size={} reliability={}", self.role, self.size, self.reliability)?;
        write!(f, " wait={} transport={} publish={} batch={batch}", self.wait, self.transport, self.publish)?;
        write!(f, " rate={} duration_ms={} warmup_ms={}", self.rate, self.duration_ms, self.warmup_ms)?;
        write!(f, " domain={} core={core}", self.domain)?;
        // Only the programs of peers with DDS Security know the key.
        self.security.as_ref().map_or(Ok(()), |folder| write!(f, " security={folder}"))
    }
}

/// An answer of a peer's process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Its description.
    About(About),
    /// The process has found its partner.
    Ready,
    /// Its result.
    Result(PeerResult),
    /// The peer cannot do what the setup requests; the reason.
    Unsupported(String),
    /// The peer failed; the reason.
    Error(String),
}

/// Description of a peer and of its settings for a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Name of the peer.
    pub peer: String,
    /// Version of the middleware.
    pub version: String,
    /// Settings that differ from the middleware's defaults, separated by commas.
    pub settings: String,
}

/// Result of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerResult {
    /// The side that measures round trips.
    Ping {
        /// Samples sent, warm-up included.
        sent: u64,
        /// Answers after the warm-up.
        received: u64,
        /// Samples whose answer timed out.
        unanswered: u64,
        /// Processor time and memory of the process.
        used: Used,
        /// Lower bound of each bucket and number of its round trips, ascending, without empty buckets.
        round_trip_ns: Vec<(u64, u64)>,
    },
    /// The side that answers.
    Pong {
        /// Samples echoed.
        received: u64,
        /// Processor time and memory of the process.
        used: Used,
    },
    /// The side that sends.
    Pub {
        /// Samples written.
        sent: u64,
        /// From before the first write until after the last.
        duration_ns: u64,
        /// Processor time and memory of the process.
        used: Used,
    },
    /// The side that counts.
    Sub {
        /// Samples received.
        received: u64,
        /// Samples that were skipped: a later one was received.
        lost: u64,
        /// Samples that arrived after a later one.
        out_of_order: u64,
        /// From the first sample to the last.
        duration_ns: u64,
        /// Processor time and memory of the process.
        used: Used,
        /// With a rate, one-way times from the due time of each sample: lower bound of each bucket and its count,
        /// ascending, without empty buckets.
        scheduled_ns: Vec<(u64, u64)>,
    },
}

/// Resource use of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Processor time during the test.
    pub cpu_ns: u64,
    /// Peak resident memory; absent if the program of a peer does not report it.
    pub peak_rss_bytes: Option<u64>,
}

/// A malformed line, and its error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

impl Answer {
    /// Parses one line without its end. Unknown, missing and repeated keys are errors.
    pub fn parse(line: &str) -> Result<Self, Malformed> {
        if line.len() > MAX_ANSWER_LEN {
            return Err(Malformed(format!("an answer of {} bytes; {MAX_ANSWER_LEN} are allowed", line.len())));
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "about" => {
                let mut fields = Fields::of(rest)?;
                let mut text = |key| fields.take(key).map(String::from);
                let about = About { peer: text("peer")?, version: text("version")?, settings: text("settings")? };
                fields.finish().map(|()| Self::About(about))
            }
            "ready" => Fields::of(rest)?.finish().map(|()| Self::Ready),
            "result" => PeerResult::parse(rest).map(Self::Result),
            "unsupported" => Ok(Self::Unsupported(rest.into())),
            "error" => Ok(Self::Error(rest.into())),
            _ => Err(Malformed(format!("'{}' begins no answer", shortened(word)))),
        }
    }
}

impl PeerResult {
    /// The role that sends this result.
    pub fn role(&self) -> Role {
        match self {
            Self::Ping { .. } => Role::Ping,
            Self::Pong { .. } => Role::Pong,
            Self::Pub { .. } => Role::Pub,
            Self::Sub { .. } => Role::Sub,
        }
    }

    fn parse(text: &str) -> Result<Self, Malformed> {
        let mut fields = Fields::of(text)?;
        let result = match fields.take("role")? {
            "ping" => {
                let round_trip_ns = fields.buckets("round_trip_ns")?;
                let received = fields.number("received")?;
                if recorded(&round_trip_ns) != Some(received) {
                    return Err(Malformed(format!("received={received} is not the number of round trips")));
                }
                let (sent, unanswered) = (fields.number("sent")?, fields.number("unanswered")?);
                Self::Ping { sent, received, unanswered, used: fields.used()?, round_trip_ns }
            }
            "pong" => Self::Pong { received: fields.number("received")?, used: fields.used()? },
            "pub" => Self::Pub {
                sent: fields.number("sent")?,
                duration_ns: fields.number("duration_ns")?,
                used: fields.used()?,
            },
            "sub" => {
                let scheduled_ns = fields.buckets("scheduled_ns")?;
                let received = fields.number("received")?;
                if !scheduled_ns.is_empty() && recorded(&scheduled_ns) != Some(received) {
                    return Err(Malformed(format!("received={received} is not the number of times one way")));
                }
                Self::Sub {
                    received,
                    lost: fields.number("lost")?,
                    out_of_order: fields.number("out_of_order")?,
                    duration_ns: fields.number("duration_ns")?,
                    used: fields.used()?,
                    scheduled_ns,
                }
            }
            other => return Err(Malformed(format!("role={} does not exist", shortened(other)))),
        };
        fields.finish().map(|()| result)
    }
}

/// `key=value` words, each of which is taken once.
struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    fn of(text: &'a str) -> Result<Self, Malformed> {
        let mut fields: Vec<(&str, &str)> = Vec::new();
        for word in text.split_ascii_whitespace() {
            let Some((key, value)) = word.split_once('=') else {
                return Err(Malformed(format!("'{}' is not key=value", shortened(word))));
            };
            if fields.iter().any(|(known, _)| *known == key) {
                return Err(Malformed(format!("{} is given twice", shortened(key))));
            }
            fields.push((key, value));
        }
        Ok(Self(fields))
    }

    fn take(&mut self, key: &str) -> Result<&'a str, Malformed> {
        let at = self.0.iter().position(|(known, _)| *known == key);
        let at = at.ok_or_else(|| Malformed(format!("{key} is missing")))?;
        Ok(self.0.swap_remove(at).1)
    }

    fn number(&mut self, key: &str) -> Result<u64, Malformed> {
        let text = self.take(key)?;
        text.parse().map_err(|_| Malformed(format!("{key}={} is not a number", shortened(text))))
    }

    /// Processor time, and memory if the program reports it.
    fn used(&mut self) -> Result<Used, Malformed> {
        let cpu_ns = self.number("cpu_ns")?;
        let reports_memory = self.0.iter().any(|(key, _)| *key == "peak_rss_bytes");
        let peak_rss_bytes = if reports_memory { Some(self.number("peak_rss_bytes")?) } else { None };
        let peak_rss_bytes = peak_rss_bytes.filter(|bytes| *bytes > 0);
        Ok(Used { cpu_ns, peak_rss_bytes })
    }

    /// `VALUE:COUNT,VALUE:COUNT`, ascending; empty without values.
    fn buckets(&mut self, key: &str) -> Result<Vec<(u64, u64)>, Malformed> {
        parse_buckets(self.take(key)?).map_err(|bucket| Malformed(format!("{key}: '{bucket}' is no bucket here")))
    }

    fn finish(self) -> Result<(), Malformed> {
        match self.0.first() {
            None => Ok(()),
            Some((key, _)) => Err(Malformed(format!("{} is unknown", shortened(key)))),
        }
    }
}

/// Number of values; `None` on overflow.
fn recorded(buckets: &[(u64, u64)]) -> Option<u64> {
    buckets.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count))
}

/// The buckets, or the first invalid one.
fn parse_buckets(text: &str) -> Result<Vec<(u64, u64)>, String> {
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for bucket in text.split(',').filter(|_| !text.is_empty()) {
        let numbers =
            bucket.split_once(':').and_then(|(value, count)| Some((value.parse().ok()?, count.parse().ok()?)));
        let is_next = |value| buckets.last().is_none_or(|(last, _)| *last < value);
        match numbers {
            Some((value, count)) if value <= MAX_ROUND_TRIP_NS && count > 0 && is_next(value) => {
                buckets.push((value, count));
            }
            _ => return Err(shortened(bucket)),
        }
    }
    Ok(buckets)
}

/// As much of a foreign text as an error needs.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    text.chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PING: &str = "result role=ping sent=9 received=5 unanswered=1 cpu_ns=7 round_trip_ns=1000:2,1500:3";

    #[test]
    fn setup_is_one_line_with_every_key() {
        let setup = Setup {
            role: Role::Pub,
            size: 1024,
            reliability: Reliability::BestEffort,
            wait: Wait::Waitset,
            transport: Transport::DataSharing,
            publish: Publish::Async,
            batch: true,
            rate: 10,
            duration_ms: 200,
            warmup_ms: 20,
            domain: 181,
            core: Some(1),
            security: None,
        };
        let line = "role=pub size=1024 reliability=best-effort wait=waitset transport=data-sharing publish=async \
                    batch=on rate=10 duration_ms=200 warmup_ms=20 domain=181 core=1";
        assert_eq!(setup.to_string(), line);
        assert!(Setup { core: None, batch: false, ..setup }.to_string().contains(" batch=off "));
    }

    #[test]
    fn answers_are_parsed() {
        let about = About { peer: "a".into(), version: "1.2".into(), settings: "b=c,d".into() };
        assert_eq!(Answer::parse("about peer=a version=1.2 settings=b=c,d"), Ok(Answer::About(about)));
        assert_eq!(Answer::parse("ready"), Ok(Answer::Ready));
        let ping = PeerResult::Ping {
            sent: 9,
            received: 5,
            unanswered: 1,
            used: Used { cpu_ns: 7, peak_rss_bytes: None },
            round_trip_ns: vec![(1000, 2), (1500, 3)],
        };
        assert_eq!(Answer::parse(PING), Ok(Answer::Result(ping)));
        let line =
            "result role=sub received=1 lost=2 out_of_order=3 duration_ns=4 cpu_ns=5 peak_rss_bytes=6 scheduled_ns=";
        for (times, scheduled_ns) in [("", vec![]), ("6:1", vec![(6, 1)])] {
            let sub = PeerResult::Sub {
                received: 1,
                lost: 2,
                out_of_order: 3,
                duration_ns: 4,
                used: Used { cpu_ns: 5, peak_rss_bytes: Some(6) },
                scheduled_ns,
            };
            assert_eq!(Answer::parse(&format!("{line}{times}")), Ok(Answer::Result(sub)));
        }
        assert_eq!(Answer::parse("unsupported no batches"), Ok(Answer::Unsupported("no batches".into())));
        assert_eq!(Answer::parse("error it broke"), Ok(Answer::Error("it broke".into())));
    }

    #[test]
    fn malformed_answer_is_reported() {
        for (line, expected) in [
            ("", "'' begins no answer"),
            ("hello", "'hello' begins no answer"),
            ("about peer=a version=1", "settings is missing"),
            ("about peer=a version=1 settings=x more=1", "more is unknown"),
            ("about peer=a peer=b", "peer is given twice"),
            ("ready peer=a", "peer is unknown"),
            ("result role=king", "role=king does not exist"),
            ("result role=pong received=many cpu_ns=1", "received=many is not a number"),
            ("result role=pong received", "'received' is not key=value"),
            ("result role=sub received=3 scheduled_ns=5:1", "received=3 is not the number of times one way"),
            ("result role=sub received=3 scheduled_ns=5", "scheduled_ns: '5' is no bucket here"),
            ("result role=ping sent=1 received=2 unanswered=0 cpu_ns=0 round_trip_ns=5:1", "received=2 is not the"),
            ("result role=ping sent=1 received=2 unanswered=0 cpu_ns=0 round_trip_ns=5:1,4:1", "'4:1' is no bucket"),
            ("result role=ping sent=1 received=0 unanswered=0 cpu_ns=0 round_trip_ns=5:0", "'5:0' is no bucket"),
        ] {
            let error = Answer::parse(line).unwrap_err().to_string();
            assert!(error.contains(expected), "{line}: {error}");
        }
        let long = format!("error {}", "x".repeat(MAX_ANSWER_LEN));
        assert!(Answer::parse(&long).unwrap_err().to_string().contains("are allowed"));
    }

    proptest! {
        #[test]
        fn parser_accepts_or_refuses_every_line(line in "(result |about |ready |)(role=(ping|pong|pub|sub) )?[ -~]{0,80}") {
            let _ = Answer::parse(&line);
        }

        #[test]
        fn histogram_reads_back_unchanged(counts in proptest::collection::btree_map(0..MAX_ROUND_TRIP_NS, 1..1_u64 << 32, 0..200)) {
            let buckets: Vec<(u64, u64)> = counts.into_iter().collect();
            let received: u64 = buckets.iter().map(|(_, count)| count).sum();
            let text: Vec<_> = buckets.iter().map(|(value, count)| format!("{value}:{count}")).collect();
            let line = format!("result role=ping sent=0 received={received} unanswered=0 cpu_ns=0 round_trip_ns={}", text.join(","));
            let Ok(Answer::Result(PeerResult::Ping { round_trip_ns, .. })) = Answer::parse(&line) else {
                return Err(TestCaseError::fail(line));
            };
            prop_assert_eq!(round_trip_ns, buckets);
        }

        #[test]
        fn extra_key_is_refused(key in "[a-z]{1,12}", value in "[0-9]{1,4}") {
            let line = format!("{PING} {key}={value}");
            prop_assert!(Answer::parse(&line).is_err());
        }
    }
}

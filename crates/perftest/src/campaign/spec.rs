//! The text form of a plan: TOML, with the permitted values of each key. `docs/plans.md` describes the format.

use std::fmt;
use std::time::Duration;

pub use peregrine_report::record::Wait;
use peregrine_report::record::{Delivery, Publishing, Reliability};
use serde::Deserialize;

use super::series::SeriesSpec;
use super::types::DataType;
use crate::peers::catalog::PEERS;

/// A plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// One line for readers.
    pub title: String,
    /// Publication whose measurements are repeated.
    #[serde(default)]
    pub publication: String,
    /// Series to compare, unless a matrix has its own.
    pub series: List<SeriesName>,
    /// Other middleware to compare as well, with all variants of each.
    #[serde(default)]
    pub peers: Option<List<PeerName>>,
    /// Length of one measurement.
    pub duration_s: Seconds,
    /// Length of the warm-up, whose samples do not count.
    #[serde(default = "Seconds::one")]
    pub warm_up_s: Seconds,
    /// Number of measurements of each case.
    #[serde(default)]
    pub repetitions: Repetitions,
    /// How threads wait for samples, unless a matrix has its own.
    #[serde(default)]
    pub wait: Waits,
    /// Whether publishers are bound to one core and subscribers to another, where all are on one host.
    #[serde(default)]
    pub pinned: bool,
    /// Whether idle cores are kept out of deep idle states while the plan runs.
    #[serde(default = "yes")]
    pub keep_awake: bool,
    /// Whether publishers write payloads and subscribers check them.
    #[serde(default = "yes")]
    pub patterns: bool,
    /// Varied settings; the matrices are measured one after the other.
    pub matrix: List<Matrix>,
}

/// Lists whose combinations are measured.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Paces of samples.
    pub rates: List<Pace>,
    /// Types of samples.
    #[serde(default = "default_types")]
    pub types: List<DataType>,
    /// Sizes of types without a fixed size.
    #[serde(default)]
    pub sizes: Option<List<Size>>,
    /// Subscribing processes or readers.
    #[serde(default = "one")]
    pub subscribers: List<Count>,
    /// Publishing processes or writers.
    #[serde(default = "one")]
    pub publishers: List<Count>,
    /// Topics, each with all publishers and subscribers.
    #[serde(default = "one")]
    pub topics: List<Count>,
    /// Reliable or best effort.
    #[serde(default = "default_list")]
    pub reliability: List<Reliability>,
    /// The thread that sends.
    #[serde(default = "default_list")]
    pub publishing: List<Publishing>,
    /// The place of readers.
    #[serde(default = "default_list")]
    pub delivery: List<Delivery>,
    /// How threads wait for samples.
    #[serde(default)]
    pub wait: Option<Waits>,
    /// KEEP_LAST with this depth on both sides; KEEP_ALL without it.
    #[serde(default)]
    pub history_depth: Option<Depth>,
    /// Series to compare in this matrix.
    #[serde(default)]
    pub series: Option<List<SeriesName>>,
    /// Other middleware to compare as well in this matrix.
    #[serde(default)]
    pub peers: Option<List<PeerName>>,
    /// Combinations to exclude.
    #[serde(default)]
    pub exclude: Vec<Exclude>,
}

/// Excludes cases that match all of its keys.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclude {
    /// As in [`Matrix`].
    pub rates: Option<List<Pace>>,
    /// As in [`Matrix`].
    pub types: Option<List<DataType>>,
    /// As in [`Matrix`].
    pub sizes: Option<List<Size>>,
    /// As in [`Matrix`].
    pub subscribers: Option<List<Count>>,
    /// As in [`Matrix`].
    pub publishers: Option<List<Count>>,
    /// As in [`Matrix`].
    pub topics: Option<List<Count>>,
    /// As in [`Matrix`].
    pub reliability: Option<List<Reliability>>,
    /// As in [`Matrix`].
    pub publishing: Option<List<Publishing>>,
    /// As in [`Matrix`].
    pub delivery: Option<List<Delivery>>,
    /// As in [`Matrix`].
    pub wait: Option<Waits>,
    /// As in [`Matrix`].
    pub series: Option<List<SeriesName>>,
}

/// At least one value, without duplicates.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Vec<T>", bound(deserialize = "T: Deserialize<'de> + PartialEq + fmt::Debug"))]
pub struct List<T>(pub Vec<T>);

impl<T: PartialEq + fmt::Debug> TryFrom<Vec<T>> for List<T> {
    type Error = String;

    fn try_from(values: Vec<T>) -> Result<Self, String> {
        if values.is_empty() {
            return Err("the list is empty; name one value at least".into());
        }
        let is_twice = |(index, value): (usize, &T)| values.iter().skip(index + 1).any(|other| other == value);
        match values.iter().enumerate().find(|place| is_twice(*place)) {
            Some((_, value)) => Err(format!("{value:?} is named twice")),
            None => Ok(Self(values)),
        }
    }
}

/// The pace of samples.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "RateWord")]
pub enum Pace {
    /// The next sample is sent when the last one was answered.
    PingPong,
    /// The highest possible rate.
    Unpaced,
    /// Samples per second of each writer, on an absolute schedule.
    Rate(f64),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RateWord {
    Number(f64),
    Word(String),
}

/// Possible rates of a schedule, in samples per second.
const RATES: std::ops::RangeInclusive<f64> = 0.1..=1_000_000.0;

impl TryFrom<RateWord> for Pace {
    type Error = String;

    fn try_from(word: RateWord) -> Result<Self, String> {
        match word {
            RateWord::Word(word) if word == "ping-pong" => Ok(Self::PingPong),
            RateWord::Word(word) if word == "unpaced" => Ok(Self::Unpaced),
            RateWord::Number(rate) if RATES.contains(&rate) => Ok(Self::Rate(rate)),
            RateWord::Word(word) => {
                Err(format!("no rate \"{word}\": permitted are \"ping-pong\", \"unpaced\" and {RATE}"))
            }
            RateWord::Number(rate) => {
                Err(format!("no rate {rate}: permitted are \"ping-pong\", \"unpaced\" and {RATE}"))
            }
        }
    }
}

const RATE: &str = "samples per second from 0.1 to 1000000";

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PingPong => f.write_str("ping-pong"),
            Self::Unpaced => f.write_str("unpaced"),
            Self::Rate(rate) => write!(f, "{rate} Hz"),
        }
    }
}

/// A known series.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct SeriesName(pub &'static SeriesSpec);

impl TryFrom<String> for SeriesName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = || SeriesSpec::all().iter().map(|series| &*series.id).collect::<Vec<_>>().join(", ");
        SeriesSpec::named(&name).map(Self).ok_or_else(|| format!("no series \"{name}\": permitted are {}", known()))
    }
}

/// Every series of a peer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct PeerName(pub Vec<&'static SeriesSpec>);

impl TryFrom<String> for PeerName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = || PEERS.iter().map(|peer| peer.name).collect::<Vec<_>>().join(", ");
        SeriesSpec::of_peer(&name).map(Self).ok_or_else(|| format!("no peer \"{name}\": permitted are {}", known()))
    }
}

macro_rules! ranged {
    ($(#[$doc:meta])* $name:ident($type:ty), $range:expr, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
        #[serde(try_from = "f64")]
        pub struct $name(pub $type);

        impl TryFrom<f64> for $name {
            type Error = String;

            fn try_from(value: f64) -> Result<Self, String> {
                let range: std::ops::RangeInclusive<$type> = $range;
                let refused = || format!("{value} is not permitted: {} from {} to {}", $what, range.start(), range.end());
                if value.fract() != 0.0 || value < 0.0 {
                    return Err(refused());
                }
                let whole = value as $type;
                if range.contains(&whole) { Ok(Self(whole)) } else { Err(refused()) }
            }
        }
    };
}

ranged! {
    /// A number of entities.
    Count(u32), 1..=64, "a whole number"
}
ranged! {
    /// Number of kept samples.
    Depth(u32), 1..=10_000, "a whole number"
}
ranged! {
    /// Number of measurements of each case.
    Repetitions(u32), 1..=1_000, "a whole number"
}
ranged! {
    /// Bytes of a sample, without its encapsulation header.
    Size(u64), 32..=67_108_864, "a whole number of bytes"
}

impl Default for Repetitions {
    fn default() -> Self {
        Self(3)
    }
}

/// A time span.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Seconds(pub Duration);

impl Seconds {
    fn one() -> Self {
        Self(Duration::from_secs(1))
    }
}

impl TryFrom<f64> for Seconds {
    type Error = String;

    fn try_from(seconds: f64) -> Result<Self, String> {
        if (0.01..=86_400.0).contains(&seconds) {
            Ok(Self(Duration::from_secs_f64(seconds)))
        } else {
            Err(format!("{seconds} is not permitted: seconds from 0.01 to 86400"))
        }
    }
}

/// One way to wait, or a list of several.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "WaitWords")]
pub struct Waits(pub List<Wait>);

#[derive(Deserialize)]
#[serde(untagged)]
enum WaitWords {
    One(String),
    Several(Vec<String>),
}

impl Default for Waits {
    fn default() -> Self {
        Self(default_list())
    }
}

impl TryFrom<WaitWords> for Waits {
    type Error = String;

    fn try_from(words: WaitWords) -> Result<Self, String> {
        const ALL: [Wait; 4] = [Wait::Block, Wait::Spin, Wait::Poll, Wait::Listener];
        let words = match words {
            WaitWords::One(word) => vec![word],
            WaitWords::Several(words) => words,
        };
        let of = |word: &String| {
            let refused =
                || format!("no way to wait \"{word}\": permitted are \"block\", \"spin\", \"poll\" and \"listener\"");
            ALL.into_iter().find(|wait| wait.to_string() == *word).ok_or_else(refused)
        };
        let waits: Vec<Wait> = words.iter().map(of).collect::<Result<_, _>>()?;
        List::try_from(waits).map(Self)
    }
}

fn yes() -> bool {
    true
}

fn default_types() -> List<DataType> {
    List(vec![DataType::Octets])
}

fn one() -> List<Count> {
    List(vec![Count(1)])
}

fn default_list<T: Default>() -> List<T> {
    List(vec![T::default()])
}

impl Plan {
    /// Parses a plan. `file` is its name, for errors.
    ///
    /// # Errors
    /// The text is not a valid plan; the message names the file, line, key, and permitted values.
    pub fn read(file: &str, text: &str) -> Result<Self, String> {
        let plan: Self = toml::from_str(text).map_err(|mut error| {
            let line = error.span().map(|span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
            error.set_input(None);
            let place = line.map_or_else(|| file.to_owned(), |line| format!("{file}, line {line}"));
            format!("{place}: {}", error.to_string().trim_end().replace('\n', ", "))
        })?;
        plan.check().map_err(|reason| format!("{file}: {reason}"))?;
        Ok(plan)
    }

    /// Checks combinations of keys.
    fn check(&self) -> Result<(), String> {
        for (index, matrix) in self.matrix.0.iter().enumerate() {
            matrix.check().map_err(|reason| format!("matrix {}: {reason}", index + 1))?;
        }
        Ok(())
    }
}

impl Matrix {
    /// The compared series: those of the matrix, or else those of the plan.
    pub fn compared(&self, plan: &Plan) -> Vec<&'static SeriesSpec> {
        let series = self.series.as_ref().unwrap_or(&plan.series);
        let peers = self.peers.as_ref().or(plan.peers.as_ref());
        let mut compared: Vec<_> = series.0.iter().map(|name| name.0).collect();
        for series in peers.into_iter().flat_map(|peers| &peers.0).flat_map(|peer| &peer.0) {
            if !compared.contains(series) {
                compared.push(series);
            }
        }
        compared
    }

    fn check(&self) -> Result<(), String> {
        let takes_sizes = self.types.0.iter().any(|data_type| data_type.fixed_len().is_none());
        match (&self.sizes, takes_sizes) {
            (None, true) => return Err("the type \"octets\" has no size of its own: add the key sizes".into()),
            (Some(_), false) => return Err("sizes: every type named has a size of its own; leave the key out".into()),
            _ => {}
        }
        let is_single = |counts: &List<Count>| counts.0 == [Count(1)];
        if self.rates.0.contains(&Pace::PingPong) && !(is_single(&self.publishers) && is_single(&self.topics)) {
            return Err("rates: \"ping-pong\" takes one publisher and one topic; use a matrix of its own".into());
        }
        if self.exclude.contains(&Exclude::default()) {
            return Err("exclude: without a key it would leave out everything".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str =
        "title = \"t\"\nseries = [\"peregrine\"]\nduration_s = 1\n[[matrix]]\nrates = [30]\nsizes = [64]\n";

    fn refused(from: &str, to: &str) -> String {
        assert!(SHORT.contains(from), "{from}");
        Plan::read("p.toml", &SHORT.replace(from, to)).unwrap_err()
    }

    #[test]
    fn omitted_key_has_its_default() {
        let plan = Plan::read("p.toml", SHORT).unwrap();
        assert_eq!((plan.repetitions, plan.warm_up_s), (Repetitions(3), Seconds::one()));
        assert_eq!(plan.wait.0.0, [Wait::Block]);
        assert!(plan.patterns && plan.keep_awake);
        let matrix = &plan.matrix.0[0];
        assert_eq!(matrix.rates.0, [Pace::Rate(30.0)]);
        assert_eq!(matrix.types.0, [DataType::Octets]);
        assert_eq!(matrix.delivery.0, [Delivery::SameHost]);
        assert_eq!(matrix.reliability.0, [Reliability::Reliable]);
        assert_eq!(matrix.publishing.0, [Publishing::Synchronous]);
        assert_eq!((&matrix.subscribers.0[..], matrix.history_depth), (&[Count(1)][..], None));
    }

    #[test]
    fn words_and_numbers_are_read() {
        for (value, waits) in
            [("\"spin\"", &[Wait::Spin][..]), ("[\"poll\", \"listener\"]", &[Wait::Poll, Wait::Listener])]
        {
            let plan = Plan::read("p.toml", &format!("wait = {value}\n{SHORT}wait = {value}\n")).unwrap();
            assert_eq!((&plan.wait.0.0[..], &plan.matrix.0[0].wait.as_ref().unwrap().0.0[..]), (waits, waits));
        }
        let text =
            SHORT.replace("[30]", "[\"ping-pong\", \"unpaced\", 0.5]").replace("duration_s = 1", "duration_s = 0.25");
        let plan = Plan::read("p.toml", &text).unwrap();
        assert_eq!(plan.matrix.0[0].rates.0, [Pace::PingPong, Pace::Unpaced, Pace::Rate(0.5)]);
        assert_eq!(plan.duration_s.0, Duration::from_millis(250));
    }

    #[test]
    fn errors_name_file_line_key_and_permitted_values() {
        for (from, to, expected) in [
            ("rates = [30]", "rate = [30]", &["p.toml, line 5", "unknown field `rate`", "`rates`"][..]),
            ("[30]", "[\"fast\"]", &["p.toml, line 5", "no rate \"fast\"", "\"unpaced\"", "matrix.rates"]),
            ("[30]", "[0]", &["line 5", "no rate 0", "0.1 to 1000000"]),
            ("[30]", "[30, 30]", &["line 5", "Rate(30.0) is named twice"]),
            ("[30]", "[]", &["line 5", "the list is empty"]),
            ("[64]", "[64.5]", &["line 6", "64.5 is not permitted", "32 to 67108864"]),
            ("[64]", "[8]", &["line 6", "8 is not permitted"]),
            ("\"peregrine\"", "\"falcon\"", &["line 2", "no series \"falcon\"", "raw-udp, peregrine"]),
            ("duration_s = 1", "duration_s = 0", &["line 3", "seconds from 0.01 to 86400"]),
            ("sizes = [64]", "sizes = [64]\ntypes = [\"Array3\"]", &["line 7", "Array3", "Array4k"]),
            ("sizes = [64]", "sizes = [64]\ndelivery = [\"far\"]", &["line 7", "far", "two_hosts"]),
            ("title = \"t\"\n", "", &["missing field `title`"]),
            (
                "duration_s = 1",
                "duration_s = 1\nwait = \"long\"",
                &["line 4", "no way to wait \"long\"", "\"listener\""],
            ),
            ("duration_s = 1", "duration_s = 1\nwait = [\"poll\", \"poll\"]", &["line 4", "Poll is named twice"]),
            ("sizes = [64]", "", &["matrix 1", "add the key sizes"]),
            ("sizes = [64]", "sizes = [64]\ntypes = [\"Array4k\"]", &["matrix 1", "leave the key out"]),
            ("[30]", "[\"ping-pong\"]\ntopics = [2]", &["one topic"]),
            ("sizes = [64]", "sizes = [64]\n[[matrix.exclude]]", &["would leave out everything"]),
            ("[30]", "[30", &["p.toml, line 6", "missing comma"]),
        ] {
            let error = refused(from, to);
            for part in expected {
                assert!(error.contains(part), "{part}: {error}");
            }
            assert!(!error.contains('\n'), "{error}");
        }
    }
}

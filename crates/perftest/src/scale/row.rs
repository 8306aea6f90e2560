//! Rows of the table: kinds, sizes, and their names on the command line.

use std::fmt;
use std::str::FromStr;

/// Kind and size of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// Writers in one process and readers in another, all on one topic.
    Pairs {
        /// Writers of the one process.
        writers: u32,
        /// Readers of the other process.
        readers: u32,
    },
    /// One writer, and readers in one other process.
    FanOut {
        /// Readers of the other process.
        readers: u32,
    },
    /// Topics with one writer in one process and one reader in another.
    Topics {
        /// Number of the topics.
        topics: u32,
    },
    /// Memory of the shared-memory channels of as many pairs.
    Channels {
        /// Writers of the one process.
        writers: u32,
        /// Readers of the other process.
        readers: u32,
    },
    /// Processes that each have a writer and a reader on each topic.
    Processes {
        /// Number of the processes.
        processes: u32,
        /// Topics common to all.
        topics: u32,
    },
}

/// Most writers, and most readers, of one process on one topic.
const MAX_ENDPOINTS: u32 = 1_000;
const MAX_TOPICS: u32 = 50_000;
const MAX_PROCESSES: u32 = 100;
const MAX_TOPICS_OF_PROCESSES: u32 = 100;

/// Every row of the default run, in the order of the table.
pub(super) const ROWS: [Row; 7] = [
    Row::Pairs { writers: 200, readers: 200 },
    Row::Pairs { writers: 300, readers: 300 },
    Row::FanOut { readers: 100 },
    Row::Topics { topics: 4_000 },
    Row::Topics { topics: 20_000 },
    Row::Channels { writers: 100, readers: 100 },
    Row::Processes { processes: 40, topics: 10 },
];

impl Row {
    fn kind(self) -> &'static str {
        match self {
            Self::Pairs { .. } => "pairs",
            Self::FanOut { .. } => "fan-out",
            Self::Topics { .. } => "topics",
            Self::Channels { .. } => "channels",
            Self::Processes { .. } => "processes",
        }
    }

    /// Endpoints of the host.
    pub(super) fn endpoints(self) -> u32 {
        match self {
            Self::Pairs { writers, readers } | Self::Channels { writers, readers } => writers.saturating_add(readers),
            Self::FanOut { readers } => readers.saturating_add(1),
            Self::Topics { topics } => topics.saturating_mul(2),
            Self::Processes { processes, topics } => processes.saturating_mul(topics).saturating_mul(2),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::Pairs { writers, readers } | Self::Channels { writers, readers } => {
                write!(f, "{kind}:{writers}x{readers}")
            }
            Self::FanOut { readers } => write!(f, "{kind}:{readers}"),
            Self::Topics { topics } => write!(f, "{kind}:{topics}"),
            Self::Processes { processes, topics } => write!(f, "{kind}:{processes}x{topics}"),
        }
    }
}

/// One or several rows, as a word of the command line names them: a kind, or a kind and a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen(pub(super) Vec<Row>);

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((kind, size)) = text.split_once(':') else {
            let rows: Vec<Row> = ROWS.into_iter().filter(|row| row.kind() == text).collect();
            return if rows.is_empty() { Err(unknown(text)) } else { Ok(Self(rows)) };
        };
        let one = |what, limit| number(size, what, limit);
        let two = |what: [&'static str; 2], limits: [u32; 2]| {
            let (first, second) =
                size.split_once('x').ok_or_else(|| format!("the size '{size}' is not {} x {}", what[0], what[1]))?;
            Ok::<_, String>((number(first, what[0], limits[0])?, number(second, what[1], limits[1])?))
        };
        let endpoints = || two(["writers", "readers"], [MAX_ENDPOINTS, MAX_ENDPOINTS]);
        let row = match kind {
            "pairs" => endpoints().map(|(writers, readers)| Row::Pairs { writers, readers })?,
            "channels" => endpoints().map(|(writers, readers)| Row::Channels { writers, readers })?,
            "fan-out" => Row::FanOut { readers: one("readers", MAX_ENDPOINTS)? },
            "topics" => Row::Topics { topics: one("topics", MAX_TOPICS)? },
            "processes" => two(["processes", "topics"], [MAX_PROCESSES, MAX_TOPICS_OF_PROCESSES])
                .map(|(processes, topics)| Row::Processes { processes, topics })?,
            _ => return Err(unknown(kind)),
        };
        Ok(Self(vec![row]))
    }
}

fn unknown(kind: &str) -> String {
    format!("no row is called '{kind}'; the rows are {}", ROWS.map(|row| row.to_string()).join(", "))
}

fn number(text: &str, what: &str, limit: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=limit).contains(number));
    number.ok_or_else(|| format!("'{text}' is not a number of {what} from 1 to {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_each_row_reads_back() {
        for row in ROWS {
            assert_eq!(row.to_string().parse(), Ok(Chosen(vec![row])));
        }
        assert_eq!("processes:3x2".parse(), Ok(Chosen(vec![Row::Processes { processes: 3, topics: 2 }])));
    }

    #[test]
    fn kind_without_a_size_names_all_its_rows() {
        assert_eq!("pairs".parse(), Ok(Chosen(ROWS[..2].to_vec())));
        assert_eq!("topics".parse(), Ok(Chosen(ROWS[3..5].to_vec())));
        assert_eq!("fan-out".parse(), Ok(Chosen(vec![ROWS[2]])));
    }

    #[test]
    fn bad_row_is_refused_with_the_reason() {
        for (text, expected) in [
            ("pears", "no row is called 'pears'; the rows are pairs:200x200, "),
            ("pears:2", "no row is called 'pears'"),
            ("pairs:", "the size '' is not writers x readers"),
            ("pairs:200", "the size '200' is not writers x readers"),
            ("pairs:0x2", "'0' is not a number of writers from 1 to 1000"),
            ("channels:2x1001", "'1001' is not a number of readers from 1 to 1000"),
            ("fan-out:1x2", "'1x2' is not a number of readers"),
            ("topics:-3", "'-3' is not a number of topics from 1 to 50000"),
            ("topics:99999999999", "'99999999999' is not a number of topics"),
            ("processes:3x", "'' is not a number of topics from 1 to 100"),
        ] {
            let error = text.parse::<Chosen>().unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn endpoints_of_a_row_are_counted_on_both_sides() {
        assert_eq!(ROWS.map(Row::endpoints), [400, 600, 101, 8_000, 40_000, 200, 800]);
    }
}

//! The lines between this program and a process of a row; `agents/README.md` describes them for peers.

use std::fmt;
use std::str::FromStr;

/// Path of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// UDP on loopback.
    Udp,
    /// Shared memory; discovery uses UDP.
    Shm,
}

impl Transport {
    /// Its word on the command line and in orders.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Shm => "shm",
        }
    }
}

/// An order to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Answer at once.
    Ready,
    /// Create a participant.
    Open {
        /// DDS domain.
        domain: u32,
        /// Path of the samples.
        transport: Transport,
        /// Create all channels of shared memory at the match, not only when samples come.
        eager: bool,
    },
    /// Create the endpoints.
    Create {
        /// Writers on each topic.
        writers: u32,
        /// Readers on each topic.
        readers: u32,
        /// Topics.
        topics: u32,
    },
    /// Wait until each writer has matched so many readers, and each reader so many writers. Answer: the time.
    Match {
        /// Readers of each writer.
        readers: u32,
        /// Writers of each reader.
        writers: u32,
    },
    /// Wait until each writer sends to so many readers by the transport.
    Path {
        /// Readers of each writer.
        readers: u32,
    },
    /// Wait until each reader has taken so many samples. Answer: the time.
    Take {
        /// Samples of each reader.
        samples: u32,
    },
    /// Write with every writer in turn. Answer: the times of the beginning and of the end.
    Write {
        /// Samples of each writer.
        samples: u32,
    },
    /// Wait until each writer has all acknowledgements. Answer: the time.
    Acknowledge,
    /// Write with the first writer, with pauses. Answer: processor times of the writing thread in these calls, and of
    /// the process.
    Spend {
        /// Samples.
        samples: u32,
        /// Pause after each, in microseconds.
        pause_us: u32,
    },
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Open { domain, transport, eager } => {
                write!(f, "open {domain} {}{}", transport.word(), if *eager { " eager" } else { "" })
            }
            Self::Create { writers, readers, topics } => write!(f, "create {writers} {readers} {topics}"),
            Self::Match { readers, writers } => write!(f, "match {readers} {writers}"),
            Self::Path { readers } => write!(f, "path {readers}"),
            Self::Take { samples } => write!(f, "take {samples}"),
            Self::Write { samples } => write!(f, "write {samples}"),
            Self::Acknowledge => f.write_str("acknowledge"),
            Self::Spend { samples, pause_us } => write!(f, "spend {samples} {pause_us}"),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let open = |domain, transport: &str, eager| match transport {
            "udp" => Ok(Self::Open { domain, transport: Transport::Udp, eager }),
            "shm" => Ok(Self::Open { domain, transport: Transport::Shm, eager }),
            _ => Err(format!("'{line}' is no order")),
        };
        let number = |word: &str| word.parse::<u32>().map_err(|_| format!("'{word}' of '{line}' is not a number"));
        Ok(match words[..] {
            ["ready"] => Self::Ready,
            ["open", domain, transport] => open(number(domain)?, transport, false)?,
            ["open", domain, transport, "eager"] => open(number(domain)?, transport, true)?,
            ["create", writers, readers, topics] => {
                Self::Create { writers: number(writers)?, readers: number(readers)?, topics: number(topics)? }
            }
            ["match", readers, writers] => Self::Match { readers: number(readers)?, writers: number(writers)? },
            ["path", readers] => Self::Path { readers: number(readers)? },
            ["take", samples] => Self::Take { samples: number(samples)? },
            ["write", samples] => Self::Write { samples: number(samples)? },
            ["acknowledge"] => Self::Acknowledge,
            ["spend", samples, pause_us] => Self::Spend { samples: number(samples)?, pause_us: number(pause_us)? },
            _ => return Err(format!("'{line}' is no order")),
        })
    }
}

/// An answer: numbers, or the reason why the order failed.
pub(super) type Answer = Result<Vec<u64>, String>;

/// The line of an answer.
pub(super) fn answer_line(answer: &Answer) -> String {
    match answer {
        Ok(numbers) => {
            std::iter::once("done".to_owned()).chain(numbers.iter().map(u64::to_string)).collect::<Vec<_>>().join(" ")
        }
        Err(reason) => format!("error {}", reason.replace('\n', " ")),
    }
}

/// Parses the line of an answer.
///
/// # Errors
/// The line is no answer.
pub(super) fn parse_answer(line: &str) -> Result<Answer, String> {
    let no_answer = || format!("'{line}' is no answer");
    if let Some(reason) = line.strip_prefix("error ") {
        return Ok(Err(reason.to_owned()));
    }
    let numbers = line.strip_prefix("done").ok_or_else(no_answer)?;
    if !numbers.is_empty() && !numbers.starts_with(' ') {
        return Err(no_answer());
    }
    let numbers: Result<Vec<u64>, _> = numbers.split_whitespace().map(str::parse).collect();
    numbers.map(Ok).map_err(|_| no_answer())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_order_reads_back_unchanged() {
        for order in [
            Order::Ready,
            Order::Open { domain: 80, transport: Transport::Shm, eager: true },
            Order::Open { domain: 81, transport: Transport::Udp, eager: false },
            Order::Create { writers: 1, readers: 2, topics: 3 },
            Order::Match { readers: 4, writers: 5 },
            Order::Path { readers: 6 },
            Order::Take { samples: 7 },
            Order::Write { samples: 8 },
            Order::Acknowledge,
            Order::Spend { samples: 9, pause_us: 10 },
        ] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        assert_eq!("take many".parse::<Order>(), Err("'many' of 'take many' is not a number".into()));
        assert_eq!("open 1 tcp".parse::<Order>(), Err("'open 1 tcp' is no order".into()));
    }

    #[test]
    fn written_answer_reads_back_unchanged() {
        for answer in [Ok(vec![]), Ok(vec![5, 6]), Err("no memory".to_owned())] {
            assert_eq!(parse_answer(&answer_line(&answer)), Ok(answer));
        }
        for line in ["", "doner 1", "done x", "done -1", "finished"] {
            assert_eq!(parse_answer(line), Err(format!("'{line}' is no answer")));
        }
    }
}

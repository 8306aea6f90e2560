//! Messages between the process that runs a plan and the parties of a case, one line of JSON each.
//!
//! ```text
//! -> a Job                    the work of the party
//! <- Opened                   its endpoints are there; the addresses of its plain sockets
//! -> Join                     the addresses of all
//! <- Joined                   its endpoints have discovered all others
//! -> Go                       receivers first; the beginning of the warm-up
//! <- Sent                     sent and acknowledged samples of its writers
//! -> Finish                   sent samples of all writers
//! <- Results                  results of each of its publishers and subscribers
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use peregrine_report::record::{Publishing, Reliability, SideResult, Wait};
use serde::{Deserialize, Serialize};

use super::series::Carrier;
use super::types::DataType;
use crate::protection::Documents;

/// The work of one process in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) carrier: Carrier,
    /// Publishers and subscribers of this process. Each has an endpoint on every topic.
    pub(super) publishers_here: Vec<u32>,
    pub(super) subscribers_here: Vec<u32>,
    /// Their total numbers over all processes.
    pub(super) publishers: u32,
    pub(super) subscribers: u32,
    pub(super) topics: u32,
    pub(super) reliability: Reliability,
    pub(super) publishing: Publishing,
    pub(super) history_depth: Option<u32>,
    pub(super) data_type: DataType,
    pub(super) data_len: u64,
    pub(super) sending: Sending,
    /// Whether the first subscriber returns the samples of the first publisher.
    pub(super) echo: bool,
    pub(super) wait: Wait,
    /// Whether payloads are written and checked.
    pub(super) patterns: bool,
    /// The core to which every thread of the process is bound.
    pub(super) core: Option<usize>,
    pub(super) warm_up: Duration,
    pub(super) duration: Duration,
    /// DDS domain.
    pub(super) domain: u32,
    /// Own address.
    pub(super) address: IpAddr,
    /// The address of the other host, which multicast may not reach.
    pub(super) peer: Option<IpAddr>,
    /// Certificate, key and documents; `None` without security.
    pub(super) documents: Option<Documents>,
}

/// The pace of samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sending {
    PingPong,
    Unpaced,
    Rate(f64),
}

/// A path of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Channel {
    /// A topic of the case.
    Topic(u32),
    /// From the first subscriber back to the first publisher.
    Echo,
}

/// A message from the process that runs the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    Open(Box<Job>),
    Join {
        addresses: Vec<(Channel, SocketAddr)>,
    },
    /// The warm-up begins at this time of the clock that all processes of a host share, or at once without it.
    Go {
        start_ns: Option<u64>,
    },
    Finish {
        sent: Vec<Sent>,
    },
}

/// A message from a party.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Opened { addresses: Vec<(Channel, SocketAddr)> },
    Joined,
    Sent { sent: Vec<Sent> },
    Results { sides: Vec<SideResult> },
}

/// The number of samples that one writer has sent in the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) topic: u32,
    pub(super) publisher: u32,
    pub(super) samples: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_line_reads_back_unchanged() {
        let sent = vec![Sent { topic: 1, publisher: 2, samples: 3 }];
        let address = "127.0.0.1:5".parse().unwrap();
        for order in [
            Order::Join { addresses: vec![(Channel::Echo, address)] },
            Order::Go { start_ns: Some(5) },
            Order::Finish { sent: sent.clone() },
        ] {
            let line = serde_json::to_string(&order).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order);
        }
        let answer = Answer::Sent { sent };
        assert_eq!(serde_json::from_str::<Answer>(&serde_json::to_string(&answer).unwrap()).unwrap(), answer);
    }
}

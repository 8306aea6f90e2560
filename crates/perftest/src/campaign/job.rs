//! What the process that runs a plan and the parties of a case say to each other: a line of JSON each.
//!
//! ```text
//! -> a Job                    what it is to do
//! <- Opened                   its endpoints are there; the addresses of its plain sockets
//! -> Join                     the addresses of all
//! <- Joined                   its endpoints have found all others
//! -> Go                       receivers first
//! <- Sent                     what its writers have sent, and had acknowledged
//! -> Finish                   what all writers have sent
//! <- Results                  what each of its publishers and subscribers saw
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use peregrine_report::record::{Publishing, Reliability, SideResult, Wait};
use serde::{Deserialize, Serialize};

use super::series::Carrier;
use super::types::DataType;

/// What one process does in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) carrier: Carrier,
    /// Which of the publishers, and of the subscribers, are in this process. Each has an endpoint on every topic.
    pub(super) publishers_here: Vec<u32>,
    pub(super) subscribers_here: Vec<u32>,
    /// All of them.
    pub(super) publishers: u32,
    pub(super) subscribers: u32,
    pub(super) topics: u32,
    pub(super) reliability: Reliability,
    pub(super) publishing: Publishing,
    pub(super) history_depth: Option<u32>,
    pub(super) data_type: DataType,
    pub(super) data_len: u64,
    pub(super) sending: Sending,
    /// Whether the first subscriber sends the samples of the first publisher back.
    pub(super) echo: bool,
    pub(super) wait: Wait,
    /// Whether payloads are written and checked.
    pub(super) patterns: bool,
    /// The core that every thread of the process is bound to.
    pub(super) core: Option<usize>,
    pub(super) warm_up: Duration,
    pub(super) duration: Duration,
    /// DDS domain.
    pub(super) domain: u32,
    /// Own address.
    pub(super) address: IpAddr,
    /// Where others are that multicast may not reach.
    pub(super) peer: Option<IpAddr>,
}

/// When samples are sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sending {
    PingPong,
    Unpaced,
    Rate(f64),
}

/// What samples travel on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Channel {
    /// A topic of the case.
    Topic(u32),
    /// From the first subscriber back to the first publisher.
    Echo,
}

/// From the process that runs the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    Open(Box<Job>),
    Join { addresses: Vec<(Channel, SocketAddr)> },
    Go,
    Finish { sent: Vec<Sent> },
}

/// From a party.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Opened { addresses: Vec<(Channel, SocketAddr)> },
    Joined,
    Sent { sent: Vec<Sent> },
    Results { sides: Vec<SideResult> },
}

/// How many samples one writer has sent in the measurement.
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
    fn lines_are_read_as_they_were_written() {
        let sent = vec![Sent { topic: 1, publisher: 2, samples: 3 }];
        let address = "127.0.0.1:5".parse().unwrap();
        for order in
            [Order::Join { addresses: vec![(Channel::Echo, address)] }, Order::Go, Order::Finish { sent: sent.clone() }]
        {
            let line = serde_json::to_string(&order).unwrap();
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order);
        }
        let answer = Answer::Sent { sent };
        assert_eq!(serde_json::from_str::<Answer>(&serde_json::to_string(&answer).unwrap()).unwrap(), answer);
    }
}

//! Outages, and how they are applied to the two hosts.

use std::fmt;
use std::time::Duration;

use crate::error::Result;
use crate::lab::{NetNs, TwoHosts};

/// The failing part of the network or of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Multicast is lost in both directions; unicast passes.
    Multicast,
    /// Unicast to the host of the reader is lost.
    UnicastToReader,
    /// Unicast to the host of the writer is lost.
    UnicastToWriter,
    /// The link is down.
    Link,
    /// The process of the writer is stopped (SIGSTOP).
    StopWriter,
    /// The process of the reader is stopped.
    StopReader,
    /// The process of the writer is killed, and started again at the end.
    KillWriter,
    /// The process of the reader is killed, and started again at the end.
    KillReader,
    /// The host of the writer gets another address, for good.
    MoveWriter,
    /// The host of the reader gets another address, for good.
    MoveReader,
}

impl Kind {
    /// Every kind, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Multicast,
        Self::StopWriter,
        Self::StopReader,
        Self::UnicastToReader,
        Self::UnicastToWriter,
        Self::Link,
        Self::KillWriter,
        Self::KillReader,
        Self::MoveWriter,
        Self::MoveReader,
    ];

    /// Whether samples can pass during the outage.
    pub fn lets_samples_pass(self) -> bool {
        matches!(self, Self::Multicast | Self::UnicastToWriter)
    }

    /// Whether the process of the writer ends.
    pub fn ends_writer(self) -> bool {
        self == Self::KillWriter
    }

    /// Whether the process of the reader ends.
    pub fn ends_reader(self) -> bool {
        self == Self::KillReader
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Multicast => "Multicast lost in both directions, unicast passes",
            Self::UnicastToReader => "Unicast to the reader lost, everything else passes",
            Self::UnicastToWriter => "Unicast to the writer lost, everything else passes",
            Self::Link => "Link down",
            Self::StopWriter => "Writer process stopped (SIGSTOP)",
            Self::StopReader => "Reader process stopped (SIGSTOP)",
            Self::KillWriter => "Writer process killed (SIGKILL) and started again",
            Self::KillReader => "Reader process killed (SIGKILL) and started again",
            Self::MoveWriter => "Writer's host gets another address",
            Self::MoveReader => "Reader's host gets another address",
        })
    }
}

/// A failure of some length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outage {
    /// The failing part.
    pub kind: Kind,
    /// For how long; zero for a change of address.
    pub length: Duration,
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.length.is_zero() {
            write!(f, ", {} s", self.length.as_secs_f64())?;
        }
        Ok(())
    }
}

/// The network of both peers; the writer is on host `a`.
pub(super) struct Network(TwoHosts);

impl Network {
    pub(super) fn new(hosts: TwoHosts) -> Self {
        Self(hosts)
    }

    pub(super) fn hosts(&self) -> &TwoHosts {
        &self.0
    }

    /// Applies the network's part of the outage.
    pub(super) fn fail(&self, kind: Kind) -> Result<()> {
        let hosts = &self.0;
        match kind {
            Kind::Multicast => {
                drop_arriving(&hosts.a, Cast::Multicast)?;
                drop_arriving(&hosts.b, Cast::Multicast)
            }
            Kind::UnicastToReader => drop_arriving(&hosts.b, Cast::Unicast),
            Kind::UnicastToWriter => drop_arriving(&hosts.a, Cast::Unicast),
            Kind::Link => hosts.b.ip(&["link", "set", TwoHosts::INTERFACE, "down"]),
            Kind::MoveWriter => hosts.move_to_other_network(&hosts.a),
            Kind::MoveReader => hosts.move_to_other_network(&hosts.b),
            Kind::StopWriter | Kind::StopReader | Kind::KillWriter | Kind::KillReader => Ok(()),
        }
    }

    /// Ends the effect of `fail`, except a change of address.
    pub(super) fn heal(&self, kind: Kind) -> Result<()> {
        let hosts = &self.0;
        match kind {
            Kind::Multicast => {
                accept_all(&hosts.a)?;
                accept_all(&hosts.b)
            }
            Kind::UnicastToReader => accept_all(&hosts.b),
            Kind::UnicastToWriter => accept_all(&hosts.a),
            Kind::Link => {
                // The kernel has removed the routes and the IPv6 address of the interface.
                hosts.b.ip(&["link", "set", TwoHosts::INTERFACE, "up"])?;
                let address = format!("{}/64", TwoHosts::ADDRESSES_V6[1]);
                hosts.b.ip(&["address", "replace", &address, "dev", TwoHosts::INTERFACE, "nodad"])?;
                hosts.b.ip(&["route", "replace", "224.0.0.0/4", "dev", TwoHosts::INTERFACE])
            }
            _ => Ok(()),
        }
    }
}

enum Cast {
    Unicast,
    Multicast,
}

/// Drops UDP only, so that addresses of the link layer are still resolved.
fn drop_arriving(host: &NetNs, cast: Cast) -> Result<()> {
    let is = match cast {
        Cast::Unicast => "!=",
        Cast::Multicast => "==",
    };
    let matching = format!("add rule inet outage arriving iifname \"{}\" meta l4proto udp", TwoHosts::INTERFACE);
    let rules = format!(
        "add table inet outage; \
         add chain inet outage arriving {{ type filter hook prerouting priority -450; }}; \
         {matching} ip daddr {is} 224.0.0.0/4 drop; {matching} ip6 daddr {is} ff00::/8 drop"
    );
    host.tool(&["nft", &rules])
}

fn accept_all(host: &NetNs) -> Result<()> {
    host.tool(&["nft", "delete table inet outage"])
}

//! A network namespace of this run, with nothing but a loopback interface: no other program sends or receives there, so
//! its counters are those of the measured processes.
//!
//! The namespace exists while a process is in it. That process ends with its input, which ends with this process.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::tools::{self, IP, NSENTER, UNSHARE};
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;
use crate::host::System;
use crate::process::Process;

/// Time for the namespace to exist.
const PATIENCE: Duration = Duration::from_secs(5);
/// Sets up loopback, on which multicast works, and keeps the namespace until the input ends.
const SCRIPT: &str = "ip link set lo multicast on up && ip route add 224.0.0.0/4 dev lo && echo ready && exec cat";

/// Where the measured processes run.
#[derive(Debug)]
pub(crate) struct Isolated {
    /// Keeps the namespace; `None` if the processes share the network of this one.
    keeper: Option<Keeper>,
}

#[derive(Debug)]
struct Keeper {
    process: Process,
    /// Whether a user namespace gave the right to make the network namespace.
    has_user: bool,
}

/// UDP datagrams of a network namespace since its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Datagrams {
    /// Sent datagrams. A train of segments counts once.
    pub(crate) sent: u64,
    /// Datagrams that the kernel dropped because the buffer of their socket was full.
    pub(crate) dropped: u64,
}

impl Isolated {
    /// Makes a namespace, as root or in a user namespace.
    ///
    /// # Errors
    /// The system permits neither; the message names the reason.
    pub(crate) fn new(stop: &Stop) -> Result<Self, Error> {
        tools::require(&[UNSHARE, NSENTER, IP])?;
        let kinds = if rustix::process::geteuid().is_root() { &[false, true][..] } else { &[true][..] };
        let mut result = Err(Error::Interrupted);
        for has_user in kinds {
            result = Keeper::start(*has_user, stop).map(|keeper| Self { keeper: Some(keeper) });
            if matches!(result, Ok(_) | Err(Error::Interrupted)) {
                break;
            }
        }
        result
    }

    /// The network of this process, whose other programs count as well.
    pub(crate) fn shared() -> Self {
        Self { keeper: None }
    }

    /// A command that runs `program` there. The number of its process is that of the program.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let Some(keeper) = &self.keeper else { return Command::new(program) };
        let mut command = Command::new(NSENTER.name);
        if keeper.has_user {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["--net", "--target", &keeper.process.id().to_string(), "--"]).arg(program);
        command
    }

    /// Datagrams until now.
    ///
    /// # Errors
    /// The system does not report them.
    pub(crate) fn datagrams(&self) -> Result<Datagrams, Error> {
        let process = self.keeper.as_ref().map_or_else(|| "self".to_owned(), |keeper| keeper.process.id().to_string());
        let file = format!("proc/{process}/net/snmp");
        Datagrams::of_table(&System::this().text(&file))
            .ok_or_else(|| Error::Setup(format!("/{file} has no counts of UDP datagrams")))
    }
}

impl Keeper {
    fn start(has_user: bool, stop: &Stop) -> Result<Self, Error> {
        let mut command = Command::new(UNSHARE.name);
        if has_user {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--net", "--", "sh", "-c", SCRIPT]);
        let mut process = Process::start("the process that keeps the network namespace".into(), command)?;
        process.hear(MonotonicNs::now().plus(PATIENCE), stop)?;
        Ok(Self { process, has_user })
    }
}

impl Datagrams {
    /// From the text of `/proc/net/snmp`: two lines for each protocol, names and numbers.
    fn of_table(table: &str) -> Option<Self> {
        let mut lines = table.lines().filter_map(|line| line.strip_prefix("Udp: "));
        let (names, numbers) = (lines.next()?, lines.next()?);
        let column = |name: &str| {
            let mut columns = names.split_whitespace().zip(numbers.split_whitespace());
            columns.find(|(known, _)| *known == name)?.1.parse().ok()
        };
        Some(Self { sent: column("OutDatagrams")?, dropped: column("RcvbufErrors")? })
    }

    /// The difference to an earlier reading.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { sent: self.sent.saturating_sub(earlier.sent), dropped: self.dropped.saturating_sub(earlier.dropped) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_the_names_of_their_columns() {
        let table = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
            Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 9 1 2 30 4 5\n\
            UdpLite: InDatagrams OutDatagrams RcvbufErrors\nUdpLite: 0 0 0\n";
        let later = Datagrams::of_table(table).unwrap();
        assert_eq!(later, Datagrams { sent: 30, dropped: 4 });
        assert_eq!(later.since(Datagrams { sent: 10, dropped: 4 }), Datagrams { sent: 20, dropped: 0 });
        for damaged in ["", "Udp: OutDatagrams\n", "Udp: OutDatagrams RcvbufErrors\nUdp: 1\n"] {
            assert_eq!(Datagrams::of_table(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn datagrams_of_this_process_are_counted_in_the_shared_network() {
        let host = Isolated::shared();
        let before = host.datagrams().unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..5 {
            socket.send_to(&[0], socket.local_addr().unwrap()).unwrap();
        }
        assert!(host.datagrams().unwrap().since(before).sent >= 5);
    }
}

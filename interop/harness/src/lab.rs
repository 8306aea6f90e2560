//! Isolated networks: one host with loopback only, or two hosts joined by a link.

use std::path::Path;
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Error, Result};

/// The name of a namespace contains the id of the owning process, so that namespaces of a killed run can be recognized
/// and removed.
const PREFIX: &str = "peregrine-";

/// A network namespace. The drop deletes it and ends the processes in it.
#[derive(Debug)]
pub struct NetNs {
    name: String,
}

impl NetNs {
    /// A host with nothing but a loopback interface, on which multicast works.
    ///
    /// # Errors
    /// Without root, or without the `ip` command.
    pub fn isolated() -> Result<Self> {
        static STALE: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        STALE.call_once(remove_stale);
        let name = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        run(&["ip", "netns", "add", &name])?;
        let namespace = Self { name };
        namespace.ip(&["link", "set", "lo", "multicast", "on", "up"])?;
        namespace.ip(&["route", "add", "224.0.0.0/4", "dev", "lo"])?;
        Ok(namespace)
    }

    /// A command that will run in this namespace, as a direct child: its process id is that of `program`.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program.as_ref());
        command
    }

    /// The name of the namespace for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these words on this host.
    ///
    /// # Errors
    /// The standard error of `ip`.
    pub fn ip(&self, words: &[&str]) -> Result<()> {
        run(&[&["ip", "-n", &self.name], words].concat())
    }

    pub(crate) fn tool(&self, words: &[&str]) -> Result<()> {
        run(&[&["ip", "netns", "exec", &self.name], words].concat())
    }
}

impl Drop for NetNs {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// A rate limit of a host's end of the link: a token bucket.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Including link, network and transport headers.
    pub bits_per_second: u64,
    /// The bucket.
    pub burst_bytes: u32,
    /// The queue of packets that wait for tokens. Further packets are dropped silently, so a socket's send buffer must
    /// be smaller to block instead.
    pub queue_bytes: u32,
}

/// The properties of the link between two hosts.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The largest IP packet.
    pub mtu_bytes: u32,
    /// The rate limit in each direction; `None` for no limit.
    pub rate: Option<Rate>,
    /// Whether a UDP segmentation train crosses the link as one packet, as between real offloading interfaces. If
    /// `false`, the sender segments it first, so that each segment is lost independently, as on a real wire.
    pub segments_offloaded: bool,
}

impl Default for Link {
    /// Ethernet MTU, no rate limit, segmented trains.
    fn default() -> Self {
        Self { mtu_bytes: 1500, rate: None, segments_offloaded: false }
    }
}

/// Two hosts joined by a link.
#[derive(Debug)]
pub struct TwoHosts {
    /// The host whose address is [`TwoHosts::ADDRESSES`]`[0]`.
    pub a: NetNs,
    /// The host whose address is [`TwoHosts::ADDRESSES`]`[1]`.
    pub b: NetNs,
}

impl TwoHosts {
    /// The IPv4 addresses of the hosts, the same in each pair.
    pub const ADDRESSES: [&str; 2] = ["10.83.0.1", "10.83.0.2"];
    /// The IPv6 addresses of the hosts, likewise.
    pub const ADDRESSES_V6: [&str; 2] = ["fd83::1", "fd83::2"];
    /// The name of the link's interface on either host.
    pub const INTERFACE: &str = "link0";

    /// Creates both hosts and the link between them.
    ///
    /// # Errors
    /// Without root, or without the commands `ip` and `tc`.
    pub fn joined_by(link: &Link) -> Result<Self> {
        let hosts = Self::apart()?;
        hosts.join(link)?;
        Ok(hosts)
    }

    /// Creates both hosts without a link.
    ///
    /// # Errors
    /// Without root, or without the command `ip`.
    pub fn apart() -> Result<Self> {
        let hosts = Self { a: NetNs::isolated()?, b: NetNs::isolated()? };
        for host in [&hosts.a, &hosts.b] {
            // Of two hosts multicast goes over the link.
            host.ip(&["route", "del", "224.0.0.0/4", "dev", "lo"])?;
        }
        Ok(hosts)
    }

    /// Creates the link, with the addresses of both hosts. Their IPv6 addresses can be used at once.
    ///
    /// # Errors
    /// When there is a link already; without the commands `ip` and `tc`.
    pub fn join(&self, link: &Link) -> Result<()> {
        let other_end = ["peer", "name", Self::INTERFACE, "netns", self.b.name()];
        self.a.ip(&[&["link", "add", Self::INTERFACE, "type", "veth"], &other_end[..]].concat())?;
        let [v4, v6] = [Self::ADDRESSES, Self::ADDRESSES_V6];
        for (host, address, address_v6) in [(&self.a, v4[0], v6[0]), (&self.b, v4[1], v6[1])] {
            // Duplicate address detection would delay the use of the link-local addresses for a second or two.
            let detection = format!("net.ipv6.conf.{}.accept_dad=0", Self::INTERFACE);
            host.tool(&["sysctl", "-q", "-w", &detection])?;
            host.ip(&["address", "add", &format!("{address}/24"), "dev", Self::INTERFACE])?;
            host.ip(&["address", "add", &format!("{address_v6}/64"), "dev", Self::INTERFACE, "nodad"])?;
            host.ip(&["link", "set", Self::INTERFACE, "mtu", &link.mtu_bytes.to_string(), "up"])?;
            host.ip(&["route", "add", "224.0.0.0/4", "dev", Self::INTERFACE])?;
            if !link.segments_offloaded {
                host.ip(&["link", "set", Self::INTERFACE, "gso_max_segs", "1"])?;
            }
            if let Some(rate) = &link.rate {
                limit_rate(host, rate)?;
            }
        }
        Ok(())
    }

    /// The link-local IPv6 address of a host's end of the link.
    ///
    /// # Errors
    /// Without the command `ip`; when there is no link.
    pub fn link_local(host: &NetNs) -> Result<String> {
        let words = ["ip", "-n", host.name(), "-6", "-o", "address", "show", "dev", Self::INTERFACE, "scope", "link"];
        let text = output(&words)?;
        let address = text.split_whitespace().find(|word| word.starts_with("fe80")).and_then(|w| w.split('/').next());
        address.map(str::to_owned).ok_or_else(|| Error::Tool { command: words.join(" "), output: text.clone() })
    }

    /// The number of packets that a host has sent over the link.
    ///
    /// # Errors
    /// When there is no link.
    pub fn packets_sent(host: &NetNs) -> Result<u64> {
        let file = format!("/sys/class/net/{}/statistics/tx_packets", Self::INTERFACE);
        let words = ["ip", "netns", "exec", host.name(), "cat", &file];
        let text = output(&words)?;
        text.trim().parse().map_err(|_| Error::Tool { command: words.join(" "), output: text.clone() })
    }

    /// From now on, drops this share of the IP packets that arrive at either host, each drawn independently. Fragments
    /// of a datagram are packets of their own.
    ///
    /// # Errors
    /// Without the command `nft`.
    pub fn drop_randomly(&self, permille: u32) -> Result<()> {
        // Before reassembly, so that single packets of the wire are dropped. The table is created first, because
        // deleting a missing table is an error.
        // `numgen` knows no share of everything.
        let share = if permille < 1000 { format!("numgen random mod 1000 < {permille} ") } else { String::new() };
        let rules = format!(
            "add table inet loss; delete table inet loss; add table inet loss; \
             add chain inet loss arriving {{ type filter hook prerouting priority -450; }}; \
             add rule inet loss arriving iifname \"{}\" {share}drop",
            Self::INTERFACE
        );
        for host in [&self.a, &self.b] {
            host.tool(&["nft", &rules])?;
        }
        Ok(())
    }

    /// Gives one of the hosts an address in another network in place of its own. Both hosts can reach the new network,
    /// as after an announcement of a router.
    ///
    /// # Errors
    /// A tool fails.
    pub fn move_to_other_network(&self, moving: &NetNs) -> Result<()> {
        for host in [&self.a, &self.b] {
            host.ip(&["route", "add", "10.84.0.0/24", "dev", Self::INTERFACE])?;
        }
        moving.ip(&["-4", "address", "flush", "dev", Self::INTERFACE])?;
        moving.ip(&["address", "add", "10.84.0.7/24", "dev", Self::INTERFACE])?;
        moving.ip(&["route", "replace", "10.83.0.0/24", "dev", Self::INTERFACE])?;
        moving.ip(&["route", "replace", "224.0.0.0/4", "dev", Self::INTERFACE])
    }
}

fn limit_rate(host: &NetNs, rate: &Rate) -> Result<()> {
    let bits = format!("{}bit", rate.bits_per_second);
    let [burst, limit] = [rate.burst_bytes.to_string(), rate.queue_bytes.to_string()];
    host.tool(&[
        "tc",
        "qdisc",
        "add",
        "dev",
        TwoHosts::INTERFACE,
        "root",
        "tbf",
        "rate",
        &bits,
        "burst",
        &burst,
        "limit",
        &limit,
    ])
}

/// Removes the namespaces of processes that no longer exist.
fn remove_stale() {
    let Ok(output) = Command::new("ip").args(["netns", "list"]).output() else { return };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()) {
            remove(name);
        }
    }
}

/// Ends the processes in the namespace, by process id, and deletes it. Failures are left to the cleanup of the next
/// run.
fn remove(name: &str) {
    if let Ok(output) = Command::new("ip").args(["netns", "pids", name]).output() {
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if let Some(pid) = line.trim().parse().ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
    let _ = Command::new("ip").args(["netns", "delete", name]).output();
}

/// Runs a command that ends by itself at once.
fn run(words: &[&str]) -> Result<()> {
    output(words).map(drop)
}

/// Runs such a command and returns its standard output.
fn output(words: &[&str]) -> Result<String> {
    let command = words.join(" ");
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .map_err(|cause| Error::Start { command: command.clone(), cause })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Error::Tool { command, output: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}

//! `perftest lab`: two hosts on this machine, connected by a link with a given rate and loss.
//!
//! A host is an unnamed network namespace, which exists while a process is in it. All processes of the lab are in one
//! process namespace, whose first process is tethered to `perftest lab`. When `perftest lab` ends in any way, the first
//! process ends, the kernel kills the others, and removes the namespaces and the link with the last of them. There is
//! no cleanup handler that a signal could skip.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::link::{Link, QUEUE_LEN, UNSEEN_LEN};
use super::options::usage;
use super::tether::{Tether, tethered};
use super::tools::{self, IP, MOUNT, NFT, NSENTER, TC, Tool, UNSHARE};
use crate::campaign::placement::{Place, Placement};
use crate::control::Stop;
use crate::error::Error;
use crate::terminal::message;

/// Name of the command that runs inside the lab.
pub const INSIDE: &str = "lab-inside";
/// Name of the link's interface on either host.
const INTERFACE: &str = "link0";
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 83, 0, 2);
/// Commands that may run in a lab.
const COMMANDS: [&str; 5] = ["run", "characterize", "ab", "load", "search"];

/// `perftest lab`
#[derive(Debug, Clone, clap::Args)]
pub struct LabOptions {
    #[command(flatten)]
    link: Link,
    /// The command to run: run, characterize, ab, load or search with their options, or the command line of a publisher
    /// (-pub ...)
    #[arg(last = true, required = true, value_name = "WORDS", allow_hyphen_values = true)]
    words: Vec<String>,
}

impl LabOptions {
    /// The inner command line, without the program's name.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

/// Runs the command line in a temporary lab and returns its exit status. `line` contains this process's arguments after
/// `lab`.
///
/// # Errors
/// The process is not root, or the programs that make labs are missing.
pub fn enter(options: &LabOptions, line: &[String], stop: &Stop) -> Result<u8, Error> {
    check_words(&options.words)?;
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Setup("A lab needs root, for its network namespaces: run it with sudo.".into()));
    }
    let always = [UNSHARE, NSENTER, MOUNT, IP];
    let sometimes: [(bool, Tool); 2] = [(options.link.rate.0.is_some(), TC), (options.link.loss.0 > 0, NFT)];
    let needed = sometimes.iter().filter(|(is_needed, _)| *is_needed).map(|(_, tool)| *tool);
    tools::require(&always.into_iter().chain(needed).collect::<Vec<_>>())?;

    let failed = |error: std::io::Error| Error::Setup(format!("Cannot start the lab: {error}"));
    let mut words = vec![INSIDE.to_owned()];
    words.extend_from_slice(line);
    let mut command = Command::new(UNSHARE.name);
    command.args(["--net", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL", "--"]);
    command.arg(std::env::current_exe().map_err(failed)?).args(tethered(&words));
    let (mut tether, mut child) = Tether::start(&mut command).map_err(failed)?;
    match tether.wait(&mut child, None, stop).map_err(failed)?.and_then(|status| status.code()) {
        Some(code) => Ok(u8::try_from(code).unwrap_or(1)),
        None => Err(Error::Setup("The lab was killed.".into())),
    }
}

/// The two hosts of a lab; this process is on the near one.
#[derive(Debug)]
pub struct Lab {
    link: Link,
    /// Keeps the far host while its input is open.
    keeper: Child,
}

impl Lab {
    /// Makes the namespaces of this process the near host of a lab.
    ///
    /// # Errors
    /// This process is not the first one in new namespaces; or an error of the programs that make labs.
    pub fn build(options: &LabOptions) -> Result<Self, Error> {
        if std::process::id() != 1 {
            return Err(usage(&format!("'{INSIDE}' is for the first process of a lab; use: perftest lab")));
        }
        // The interfaces of the machine must not be mistaken for those of a host.
        if let Err(error) = show_own_interfaces() {
            message(format_args!(
                "Note: the record will hold facts about the machine's interfaces instead of the lab's: {error}"
            ));
        }
        let lab = Self { link: options.link, keeper: start_keeper()? };
        let mtu = lab.link.mtu.to_string();
        let far = lab.keeper.id().to_string();
        let pair = ["link", "add", INTERFACE, "mtu", &mtu, "type", "veth", "peer", "name", INTERFACE, "mtu", &mtu];
        tools::run(Command::new(IP.name).args(pair).args(["netns", &far]))?;
        for place in [Place::Near, Place::Far] {
            lab.set_up(place)?;
        }
        message(format_args!("Lab: hosts {NEAR} and {FAR}, joined by {INTERFACE}: {}", lab.link));
        Ok(lab)
    }

    /// Traffic and losses of the link, one line for each direction.
    ///
    /// # Errors
    /// An error of the programs that count.
    pub fn traffic(&self) -> Result<Vec<String>, Error> {
        let line = |from: Place, to: Place, names: &str| -> Result<String, Error> {
            let sent =
                self.counted(from, IP, &["-j", "-s", "link", "show", "dev", INTERFACE], "/0/stats64/tx/packets")?;
            let mut text = format!("Link {names}: {sent} packets sent");
            if self.link.rate.0.is_some() {
                let dropped = self.counted(from, TC, &["-j", "-s", "qdisc", "show", "dev", INTERFACE], "/0/drops")?;
                text += &format!(", {dropped} more dropped by its queue");
            }
            if self.link.loss.0 > 0 {
                let lost = self.counted(to, NFT, &["-j", "list", "counters", "table", "inet", "lab"], LOST)?;
                text += &format!(", {lost} of them lost");
            }
            Ok(text)
        };
        Ok(vec![line(Place::Near, Place::Far, "near to far")?, line(Place::Far, Place::Near, "far to near")?])
    }

    fn counted(&self, place: Place, tool: Tool, words: &[&str], pointer: &str) -> Result<u64, Error> {
        let text = self.tool(place, tool, words)?;
        let value: Option<Value> = serde_json::from_str(&text).ok();
        let number = value.as_ref().and_then(|value| value.pointer(pointer)).and_then(Value::as_u64);
        number.ok_or_else(|| Error::Setup(format!("'{} {}' does not report {pointer}", tool.name, words.join(" "))))
    }

    /// Sets up loopback, addresses, rate and loss.
    fn set_up(&self, place: Place) -> Result<(), Error> {
        let ip = |words: &str| self.tool(place, IP, &words.split(' ').collect::<Vec<_>>());
        let number = if place == Place::Near { 1 } else { 2 };
        ip("link set lo up")?;
        // With self-generated addresses, the kernel would spend a second or two on duplicate detection.
        ip(&format!("link set {INTERFACE} addrgenmode none"))?;
        ip(&format!("address add 10.83.0.{number}/24 dev {INTERFACE}"))?;
        ip(&format!("address add fd83::{number}/64 dev {INTERFACE} nodad"))?;
        ip(&format!("address add fe80::{number}/64 dev {INTERFACE} nodad"))?;
        // Trains of segments are cut before they are sent, so that rate and loss apply to the packets of a cable.
        ip(&format!("link set {INTERFACE} up gso_max_segs 1"))?;
        ip(&format!("route add 224.0.0.0/4 dev {INTERFACE}"))?;
        if let Some(bits_per_s) = self.link.rate.0 {
            self.limit_rate(place, bits_per_s)?;
        }
        if self.link.loss.0 > 0 {
            self.lose(place)?;
        }
        Ok(())
    }

    fn limit_rate(&self, place: Place, bits_per_s: u64) -> Result<(), Error> {
        let words = format!(
            "qdisc add dev {INTERFACE} root stab overhead {UNSEEN_LEN} tbf rate {bits_per_s}bit burst {} limit {QUEUE_LEN}",
            self.link.burst_len(bits_per_s)
        );
        self.tool(place, TC, &words.split(' ').collect::<Vec<_>>()).map(drop)
    }

    /// Drops arriving packets at random, before fragments are reassembled.
    fn lose(&self, place: Place) -> Result<(), Error> {
        let rules = format!(
            "add table inet lab; add counter inet lab lost; \
             add chain inet lab arriving {{ type filter hook prerouting priority -450; }}; \
             add rule inet lab arriving iifname \"{INTERFACE}\" numgen random mod 1000000 < {} counter name lost drop",
            self.link.loss.0
        );
        self.tool(place, NFT, &[&rules]).map(drop)
    }

    fn tool(&self, place: Place, tool: Tool, words: &[&str]) -> Result<String, Error> {
        tools::run(self.command_on(place, Path::new(tool.name)).args(words))
    }

    fn command_on(&self, place: Place, program: &Path) -> Command {
        match place {
            Place::Near => Command::new(program),
            Place::Far => {
                let mut command = Command::new(NSENTER.name);
                command.args(["--net", "--target", &self.keeper.id().to_string(), "--"]).arg(program);
                command
            }
        }
    }
}

const LOST: &str = "/nftables/1/counter/packets";

impl Placement for Lab {
    fn description(&self) -> String {
        format!("two hosts of a lab on one machine: {}", self.link)
    }

    fn command(&self, place: Place, words: &[String]) -> Result<Command, Error> {
        let program = std::env::current_exe()
            .map_err(|error| Error::Setup(format!("Cannot find the file of this program: {error}")))?;
        let mut command = self.command_on(place, &program);
        command.args(words);
        Ok(command)
    }

    fn address(&self, place: Place) -> Option<IpAddr> {
        Some(if place == Place::Near { NEAR } else { FAR }.into())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.keeper.stdin = None;
        let _ = self.keeper.wait();
    }
}

fn check_words(words: &[String]) -> Result<(), Error> {
    let first = words.first().map_or("", String::as_str);
    if first.starts_with('-') || COMMANDS.contains(&first) {
        return Ok(());
    }
    Err(usage(&format!(
        "'{first}' does not run in a lab; what does is {}, and the line of a publisher (-pub ...)",
        COMMANDS.join(", ")
    )))
}

/// A process alone in its own network namespace, until its input ends.
fn start_keeper() -> Result<Child, Error> {
    let failed = |error: std::io::Error| Error::Setup(format!("Cannot create the far host of the lab: {error}"));
    let mut child = Command::new(UNSHARE.name)
        .args(["--net", "--", "sh", "-c", "echo ready; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
    }
    if line == "ready\n" {
        return Ok(child);
    }
    let status = child.wait().map_err(failed)?;
    Err(Error::Setup(format!("Cannot create the far host of the lab: '{} --net' ended ({status}).", UNSHARE.name)))
}

/// `/sys` shows the interfaces of the namespace that mounted it. Its other parts, and the control groups, are
/// unchanged.
fn show_own_interfaces() -> Result<(), Error> {
    let mount = |words: &str| tools::run(Command::new(MOUNT.name).args(words.split(' '))).map(drop);
    if !Path::new("/sys/fs/cgroup").exists() {
        return mount("-t sysfs sysfs /sys");
    }
    mount("--rbind /sys/fs/cgroup /mnt")?;
    let mounted = mount("-t sysfs sysfs /sys");
    if mounted.is_ok() {
        mount("--rbind /mnt /sys/fs/cgroup")?;
    }
    tools::run(Command::new("umount").args(["-l", "/mnt"]))?;
    mounted
}

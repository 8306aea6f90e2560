//! Two hosts that are reached by `ssh`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use peregrine_report::record::{Line, Warning};

use super::options::usage;
use super::ssh::Host;
use super::tools::{self, SSH};

use crate::campaign::placement::{Place, Placement};
use crate::control::Stop;
use crate::error::Error;
use crate::host::IdleStates;
use crate::host_report::host_lines;
use crate::terminal::{message, print_text};

/// Name of the command that prints the facts of its host.
const HOST_LINES: &str = "host-lines";
/// Longest time for a host to report its facts.
const ANSWER: Duration = Duration::from_secs(30);
/// Upper bound of that report.
const MAX_LINES_LEN: u64 = 1 << 20;

/// The hosts of the two ends.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct HostOptions {
    /// Two hosts as ssh knows them: publishers run on the first, subscribers on the second
    #[arg(long, value_name = "NEAR,FAR", value_parser = two_names)]
    hosts: Option<Names>,
    /// Their addresses on the measured network [default: those by which ssh reaches them]
    #[arg(long, value_name = "NEAR,FAR", value_parser = two_addresses, requires = "hosts")]
    addresses: Option<Addresses>,
    /// Configuration file of ssh instead of the user's
    #[arg(long, value_name = "FILE", requires = "hosts")]
    ssh_config: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Names([String; 2]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Addresses([IpAddr; 2]);

impl HostOptions {
    /// Whether hosts are given.
    pub fn are_given(&self) -> bool {
        self.hosts.is_some()
    }
}

/// Two hosts, each with its own connection.
#[derive(Debug)]
pub struct Hosts {
    names: [String; 2],
    addresses: [IpAddr; 2],
    near: Host,
    far: Host,
    stop: Arc<Stop>,
}

impl Hosts {
    /// Connects to both hosts; `None` if none are given.
    ///
    /// # Errors
    /// One line with the host and the remedy.
    pub fn connect(options: &HostOptions, stop: &Arc<Stop>) -> Result<Option<Self>, Error> {
        let Some(Names(names)) = &options.hosts else { return Ok(None) };
        tools::require(&[SSH])?;
        let config = options.ssh_config.as_deref();
        if let Some(config) = config.filter(|config| !config.is_file()) {
            return Err(usage(&format!("--ssh-config {}: there is no such file", config.display())));
        }
        let near = Host::connect(&names[0], config, stop)?;
        let far = Host::connect(&names[1], config, stop)?;
        let reached = Addresses([near.address, far.address]);
        let Addresses(addresses) = options.addresses.unwrap_or(reached);
        for (name, address) in names.iter().zip(addresses) {
            message(format_args!("Host {name}: {address}"));
        }
        Ok(Some(Self { names: names.clone(), addresses, near, far, stop: Arc::clone(stop) }))
    }

    fn lines_of(&self, place: Place, name: &str) -> Result<Vec<Line>, Error> {
        let host = self.host(place);
        let mut command = host.command(&[HOST_LINES.to_owned()]);
        let output = host.ask(command.stdin(Stdio::null()), ANSWER, MAX_LINES_LEN, &self.stop)?;
        let wrong = |what: String| Error::Setup(format!("Host {name}: its facts {what}"));
        if !output.status.success() {
            return Err(wrong(format!("did not arrive: {}", String::from_utf8_lossy(&output.stderr).trim())));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let read = |line: &str| serde_json::from_str(line).map_err(|error| wrong(format!("cannot be read: {error}")));
        text.lines().map(read).collect()
    }

    pub(super) fn host(&self, place: Place) -> &Host {
        if place == Place::Near { &self.near } else { &self.far }
    }
}

impl Placement for Hosts {
    fn description(&self) -> String {
        format!("two hosts: {} and {}", self.names[0], self.names[1])
    }

    fn cannot_run_peers(&self) -> Option<&'static str> {
        Some("peers are measured on one machine or in a lab, and not on hosts that ssh reaches")
    }

    fn command(&self, place: Place, words: &[String]) -> Result<Command, Error> {
        Ok(self.host(place).command(words))
    }

    fn address(&self, place: Place) -> Option<IpAddr> {
        Some(self.addresses[usize::from(place == Place::Far)])
    }

    fn host_lines(&self) -> Result<Vec<Line>, Error> {
        let mut kept = Vec::new();
        for (place, name) in [(Place::Near, &self.names[0]), (Place::Far, &self.names[1])] {
            for line in self.lines_of(place, name)? {
                match line {
                    Line::Warning(warning) => {
                        let text = format!("{name}: {}", warning.text);
                        message(format_args!("Note: {text}"));
                        kept.push(Line::Warning(Warning { text }));
                    }
                    Line::Host(_) if place == Place::Far => {}
                    other => kept.push(other),
                }
            }
        }
        Ok(kept)
    }

    fn keep_awake(&self) -> IdleStates {
        IdleStates::Allowed("cores of other hosts are not kept awake from here".into())
    }

    fn two_cores(&self) -> Option<(usize, usize)> {
        None
    }
}

/// `perftest host-lines`
pub fn print_host_lines() -> Result<(), Error> {
    let mut text = Vec::new();
    for line in host_lines() {
        line.write_to(&mut text).map_err(|error| Error::Setup(format!("Cannot write about this host: {error}")))?;
    }
    print_text(&String::from_utf8_lossy(&text))
}

fn two_names(text: &str) -> Result<Names, String> {
    let [near, far] = two(text)?;
    if [near, far].iter().any(|name| name.starts_with('-') || name.contains(char::is_whitespace)) {
        return Err("the name of a host neither begins with a dash nor holds a space".into());
    }
    Ok(Names([near.into(), far.into()]))
}

fn two_addresses(text: &str) -> Result<Addresses, String> {
    let address = |text: &str| text.parse::<IpAddr>().map_err(|_| format!("'{text}' is not an IP address"));
    let [near, far] = two(text)?;
    Ok(Addresses([address(near)?, address(far)?]))
}

fn two(text: &str) -> Result<[&str; 2], String> {
    match text.split(',').collect::<Vec<_>>()[..] {
        [near, far] if !near.is_empty() && !far.is_empty() => Ok([near, far]),
        _ => Err("two are needed, with a comma between".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_host_or_address_is_refused() {
        assert_eq!(two_names("me@a,b"), Ok(Names(["me@a".into(), "b".into()])));
        for wrong in ["", "a", "a,", "a,b,c", "-oProxyCommand=x,b", "a,b c"] {
            assert!(two_names(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            two_addresses("10.0.0.1,fd00::2"),
            Ok(Addresses([[10, 0, 0, 1].into(), "fd00::2".parse().unwrap()]))
        );
        assert!(two_addresses("10.0.0.1,b").unwrap_err().contains("'b' is not"));
    }
}

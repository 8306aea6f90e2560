//! `perftest peers`: other middleware in the same run, as separate programs behind a small line protocol.

pub mod build;
pub mod catalog;
mod measure;
pub mod process;
pub mod protocol;
pub(crate) mod sides;

use std::path::PathBuf;
use std::time::Duration;

use self::catalog::{Environment, PEERS, Peer, install_command};
pub use self::measure::Variant;
pub(crate) use self::measure::{SECURED_VARIANTS, VARIANTS};
use self::protocol::{Reliability, Wait};
use crate::control::Stop;
use crate::error::Error;
use crate::terminal::print_text;

/// Default sizes in bytes.
const DEFAULT_SIZES: [usize; 3] = [32, 1024, 16384];

/// Actions and their settings.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Build the program of the peer, or of every peer that can be built here
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "all", conflicts_with = "measure")]
    build: Option<String>,
    /// Measure raw UDP, Peregrine and every built peer in turn, and write a record
    #[arg(long)]
    measure: bool,
    /// Sample sizes in bytes [default: 32,1024,16384]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', requires = "measure",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(28..=63_000))]
    size: Vec<usize>,
    /// One short repetition
    #[arg(long, requires = "measure")]
    quick: bool,
    /// Repetitions of every measurement [default: 3, with --quick 1]
    #[arg(long, value_name = "COUNT", requires = "measure", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Length of one measurement in milliseconds [default: 500, with --quick 200]
    #[arg(long, value_name = "MS", requires = "measure", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    time: Option<u64>,
    /// How every process except those of raw UDP waits for samples
    #[arg(long, value_enum, requires = "measure", default_value_t = Wait::Listener)]
    wait: Wait,
    /// RELIABILITY of all series except raw UDP
    #[arg(long, value_enum, requires = "measure", default_value_t = Reliability::Reliable)]
    reliability: Reliability,
    /// Write record.jsonl and report.html to this folder [default: perftest-results/ and the UTC time]
    #[arg(long, value_name = "DIR", requires = "measure")]
    out: Option<PathBuf>,
}

/// Lists the peers, builds them, or measures them.
pub fn run(options: &Options, command_line: Vec<String>, stop: &Stop) -> Result<(), Error> {
    let environment = Environment::of_process();
    match (&options.build, options.measure) {
        (Some(name), _) => build_named(name, &environment),
        (None, true) => measure::run(&options.plan(), command_line, &environment, stop),
        (None, false) => print_text(&list(PEERS, &environment)),
    }
}

impl Options {
    fn plan(&self) -> measure::Plan {
        let mut sizes = if self.size.is_empty() { DEFAULT_SIZES.to_vec() } else { self.size.clone() };
        sizes.sort_unstable();
        sizes.dedup();
        measure::Plan {
            sizes,
            repetitions: self.repetitions.unwrap_or(if self.quick { 1 } else { 3 }),
            time: Duration::from_millis(self.time.unwrap_or(if self.quick { 200 } else { 500 })),
            wait: self.wait,
            reliability: self.reliability,
            out: self.out.clone(),
        }
    }
}

fn build_named(name: &str, environment: &Environment) -> Result<(), Error> {
    if name != "all" {
        let names: Vec<_> = PEERS.iter().map(|peer| peer.name).collect();
        let peer = catalog::find(name).ok_or_else(|| {
            Error::Setup(format!("--build: no peer is called '{name}'; the peers are {}", names.join(", ")))
        })?;
        return build_one(peer, environment);
    }
    let failures: Vec<_> = PEERS.iter().filter_map(|peer| build_one(peer, environment).err()).collect();
    let texts: Vec<_> = failures.iter().map(Error::to_string).collect();
    if texts.is_empty() { Ok(()) } else { Err(Error::Setup(texts.join("\n"))) }
}

fn build_one(peer: &Peer, environment: &Environment) -> Result<(), Error> {
    let program = build::build(peer, environment)?;
    print_text(&format!("{}: built as {}\n", peer.name, program.display()))
}

/// One line for each peer, and one for its missing prerequisites.
fn list(peers: &[Peer], environment: &Environment) -> String {
    let mut text = String::new();
    for peer in peers {
        let missing = peer.missing(environment);
        let state = match build::built_program(peer, environment) {
            Some(program) => format!("built: {}", program.display()),
            None if missing.is_empty() => {
                format!("installed, not built; to build: perftest peers --build {}", peer.name)
            }
            None => "not installed".into(),
        };
        text += &format!("{:<14} {:<15} {state}\n", peer.name, peer.product);
        if !missing.is_empty() {
            let what: Vec<_> = missing.iter().map(|missing| missing.what.as_str()).collect();
            text += &format!("{:<14} lacks {}; on Debian: {}\n", "", what.join(", "), install_command(&missing));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_peers_are_listed_with_the_command_that_installs_them() {
        let nowhere = Environment { path: "/nowhere".into(), cache: None };
        let text = list(PEERS, &nowhere);
        for peer in PEERS {
            let line = text.lines().find(|line| line.starts_with(peer.name)).unwrap();
            assert!(line.contains("not installed"), "{line}");
            assert!(peer.missing(&nowhere).iter().all(|missing| text.contains(missing.package)), "{text}");
        }
        assert_eq!(text.matches("apt-get install").count(), PEERS.len(), "{text}");
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let nowhere = Environment { path: "/nowhere".into(), cache: None };
        let error = build_named("opendds", &nowhere).unwrap_err().to_string();
        assert!(error.contains("'opendds'") && error.contains("cyclonedds, cyclonedds-11, fastdds"), "{error}");
    }

    #[test]
    fn building_all_reports_each_failure() {
        let nowhere = Environment { path: "/nowhere".into(), cache: None };
        let error = build_named("all", &nowhere).unwrap_err().to_string();
        assert!(PEERS.iter().all(|peer| error.contains(peer.product)), "{error}");
    }
}

//! `perftest scale`: how the cost of Peregrine grows with the number of endpoints, with a peer beside.
//!
//! Every row starts its own processes, in a network namespace of this run if the system permits one. Peregrine and the
//! peer take turns. Only the public interfaces of either are used.

mod measure;
mod part;
mod party;
mod protocol;
mod quantity;
mod row;
mod subject;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use peregrine_report::record::{Line, ScaleResult, Warning};

use self::measure::{Ground, measure};
pub use self::part::take_part;
pub use self::protocol::Transport;
use self::row::ROWS;
pub use self::row::{Chosen, Row};
use self::subject::{NO_PEER, Subject};
use crate::campaign::placement::{Place, Placement, ThisMachine};
use crate::characterize::Keeper;
use crate::characterize::kept::{Comparison, keep};
use crate::characterize::progress::Progress;
use crate::control::Stop;
use crate::error::Error;
use crate::peers::catalog::Environment;
use crate::places::Isolated;
use crate::terminal::message;

/// Rows with more endpoints are measured once by default, the others this many times.
const MANY_ENDPOINTS: u32 = 500;
const REPETITIONS: u32 = 3;

/// Rows, series, and the folder of the record.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Rows: pairs:WRITERSxREADERS, fan-out:READERS, topics:COUNT, channels:WRITERSxREADERS, processes:COUNTxTOPICS, or
    /// one of these kinds with its default sizes [default: pairs:200x200 pairs:300x300 fan-out:100 topics:4000
    /// topics:20000 channels:100x100 processes:40x10]
    #[arg(value_name = "ROW", value_parser = clap::value_parser!(Chosen))]
    rows: Vec<Chosen>,
    /// Paths of the samples of Peregrine
    #[arg(long, value_enum, value_name = "PATH", value_delimiter = ',', default_value = "udp,shm")]
    transport: Vec<Transport>,
    /// Repetitions of every row [default: 3, and 1 for rows with more than 500 endpoints]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// The middleware beside Peregrine, which is built if its library is installed; none: Peregrine alone
    #[arg(long, value_name = "NAME", default_value = "cyclone",
          value_parser = ["cyclone", "cyclonedds", "cyclonedds-11", NO_PEER])]
    peer: String,
    /// Write record.jsonl and report.html to this folder [default: perftest-results/ and the UTC time]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Measures the rows, prints the table, and writes the record and the page.
///
/// # Errors
/// The series that failed; a stop request; errors of the system. The rest of the rows was measured.
pub fn run(options: &Options, command_line: Vec<String>, stop: &Stop) -> Result<(), Error> {
    let (subjects, mut notes) = subjects(options, stop)?;
    let (host, counted) = match Isolated::new(stop) {
        Ok(host) => (host, "namespace"),
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            notes.push(format!(
                "Datagrams are counted in the network of this machine, where other programs count as well, because this \
                 run has no network namespace of its own: {error}"
            ));
            (Isolated::shared(), "host")
        }
    };
    let plan = Plan { rows: options.rows(), repetitions: options.repetitions };
    let comparison = Comparison {
        out: options.out.as_deref(),
        placement: &AnyCore,
        command_line,
        series: subjects.iter().map(|subject| subject.describe(counted)).collect(),
        sizes: &[],
        repetitions: plan.most_repetitions(),
        time: Duration::ZERO,
    };
    keep(comparison, |_, keeper| {
        for text in notes {
            message(format_args!("Note: {text}"));
            keeper.keep(&Line::Warning(Warning { text }))?;
        }
        Turns { plan: &plan, subjects: &subjects, ground: Ground { host: &host, stop }, keeper }.take()
    })
}

impl Options {
    /// The chosen rows without duplicates, in the order of the command line; all without a choice.
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for row in self.rows.iter().flat_map(|chosen| &chosen.0) {
            if !rows.contains(row) {
                rows.push(*row);
            }
        }
        if rows.is_empty() { ROWS.to_vec() } else { rows }
    }
}

/// The series, and remarks about missing ones.
fn subjects(options: &Options, stop: &Stop) -> Result<(Vec<Subject>, Vec<String>), Error> {
    let (mut subjects, mut notes) = (Vec::new(), Vec::new());
    for transport in [Transport::Udp, Transport::Shm] {
        if options.transport.contains(&transport) {
            subjects.push(Subject::own(transport)?);
        }
    }
    if options.peer != NO_PEER {
        match Subject::peer(&options.peer, &Environment::of_process(), stop) {
            Ok(peer) => subjects.push(peer),
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => notes.push(format!("The peer {} is not measured: {error}", options.peer)),
        }
    }
    Ok((subjects, notes))
}

/// This machine, whose processes are not bound to cores.
struct AnyCore;

impl Placement for AnyCore {
    fn description(&self) -> String {
        ThisMachine.description()
    }

    fn command(&self, place: Place, words: &[String]) -> Result<Command, Error> {
        ThisMachine.command(place, words)
    }

    fn address(&self, place: Place) -> Option<std::net::IpAddr> {
        ThisMachine.address(place)
    }

    fn two_cores(&self) -> Option<(usize, usize)> {
        None
    }
}

/// Rows, and their repetitions.
struct Plan {
    rows: Vec<Row>,
    /// For all rows, if given.
    repetitions: Option<u32>,
}

impl Plan {
    fn repetitions_of(&self, row: Row) -> u32 {
        self.repetitions.unwrap_or(if row.endpoints() > MANY_ENDPOINTS { 1 } else { REPETITIONS })
    }

    fn most_repetitions(&self) -> u32 {
        self.rows.iter().map(|row| self.repetitions_of(*row)).max().unwrap_or(0)
    }

    fn total(&self) -> usize {
        self.rows.iter().map(|row| self.repetitions_of(*row) as usize).sum()
    }
}

struct Turns<'a> {
    plan: &'a Plan,
    subjects: &'a [Subject],
    ground: Ground<'a>,
    keeper: &'a mut Keeper,
}

impl Turns<'_> {
    /// In every repetition of a row each series runs once, starting with a different one each time, so that changes of
    /// the machine affect all of them. A failed run does not end the others.
    fn take(&mut self) -> Result<(), Error> {
        let progress = Progress::start(self.plan.total() * self.subjects.len());
        let mut failures: Vec<String> = Vec::new();
        for repetition in 0..self.plan.most_repetitions() {
            for row in self.plan.rows.iter().filter(|row| repetition < self.plan.repetitions_of(**row)) {
                let first = repetition as usize % self.subjects.len().max(1);
                for subject in self.subjects.iter().cycle().skip(first).take(self.subjects.len()) {
                    progress.announce(format!("{}, {row}, repetition {}", subject.label, repetition + 1));
                    let measured = measure(*row, subject, &self.ground);
                    if self.ground.stop.reason().is_some() {
                        progress.end();
                        return Err(Error::Interrupted);
                    }
                    match measured {
                        Ok(values) => self.keeper.keep(&Line::Scale(Box::new(ScaleResult {
                            series: subject.id.clone(),
                            row: row.to_string(),
                            repetition,
                            values,
                        })))?,
                        Err(error) => {
                            let text = format!("{row}, repetition {}: {error}", repetition + 1);
                            progress.message(&text);
                            self.keeper.keep(&Line::Warning(Warning { text: text.clone() }))?;
                            failures.push(text);
                        }
                    }
                    progress.step();
                }
            }
        }
        progress.end();
        if failures.is_empty() { Ok(()) } else { Err(Error::Transfer(failures.join("\n"))) }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(words: &str) -> Result<Options, String> {
        let words = std::iter::once("scale").chain(words.split_whitespace());
        Line::try_parse_from(words).map(|line| line.options).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_are_all_by_default_and_otherwise_the_chosen_ones() {
        assert_eq!(parsed("").unwrap().rows(), ROWS);
        let rows: Vec<String> =
            parsed("topics:3 pairs topics:3 pairs:200x200").unwrap().rows().iter().map(Row::to_string).collect();
        assert_eq!(rows, ["topics:3", "pairs:200x200", "pairs:300x300"]);
    }

    #[test]
    fn transports_select_series_and_no_peer_is_none() {
        let ids = |words: &str| {
            let (subjects, notes) = subjects(&parsed(words).unwrap(), &Stop::default()).unwrap();
            assert!(notes.is_empty(), "{notes:?}");
            subjects.into_iter().map(|subject| subject.id).collect::<Vec<_>>()
        };
        assert_eq!(ids("--peer none"), ["peregrine-udp", "peregrine-shm"]);
        assert_eq!(ids("--peer none --transport shm"), ["peregrine-shm"]);
        assert_eq!(ids("--peer none --transport shm,udp"), ["peregrine-udp", "peregrine-shm"]);
    }

    #[test]
    fn bad_arguments_are_named() {
        for (words, expected) in [
            ("pears", "no row is called 'pears'"),
            ("--transport tcp", "possible values: udp, shm"),
            ("--repetitions 0", "0 is not in 1..=1000"),
            ("--peer opendds", "possible values: cyclone, cyclonedds, cyclonedds-11, none"),
        ] {
            let error = parsed(words).unwrap_err();
            assert!(error.contains(expected), "{words}: {error}");
        }
    }

    #[test]
    fn rows_with_many_endpoints_are_measured_once_unless_repetitions_are_given() {
        let plan = |words: &str| {
            let options = parsed(words).unwrap();
            Plan { rows: options.rows(), repetitions: options.repetitions }
        };
        let usual = plan("pairs:200x200 topics:20000 processes:40x10");
        let counts = |plan: &Plan| plan.rows.iter().map(|row| plan.repetitions_of(*row)).collect::<Vec<_>>();
        assert_eq!((counts(&usual), usual.most_repetitions(), usual.total()), (vec![3, 1, 1], 3, 5));
        let asked = plan("pairs:200x200 topics:20000 --repetitions 2");
        assert_eq!((counts(&asked), asked.most_repetitions(), asked.total()), (vec![2, 2], 2, 4));
    }
}

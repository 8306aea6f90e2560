//! `perftest ab`: two alternatives in turn, and one of them against itself.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use peregrine_report::compare;
use peregrine_report::record::{
    BlockPlace, End, Header, Line, Measurement, Role, SCHEMA_VERSION, Series, Test, Warning,
};

use super::keeper::{self, Keeper, read_record};
use super::pair::{Case, Pair};
use super::programs::Program;
use super::progress::Progress;
use crate::campaign::placement::{Place, Placement};
use crate::control::Stop;
use crate::error::Error;
use crate::host::{self, IdleStates};
use crate::places::{Places, placed};
use crate::terminal::{message, print_text};

/// Two alternatives, and how to compare them.
#[derive(Debug, Clone, clap::Args)]
pub struct TurnsOptions {
    /// Options of alternative A for both sides, as RTI Perftest writes them, in quotes [default: -raw]
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    a: Option<String>,
    /// Options of alternative B [default: -nic 127.0.0.1]
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    b: Option<String>,
    /// Run A with another build of perftest, such as that of an earlier commit. Options that are given for one
    /// alternative only then hold for both
    #[arg(long, value_name = "FILE")]
    program_a: Option<PathBuf>,
    /// Run B with another build of perftest
    #[arg(long, value_name = "FILE")]
    program_b: Option<PathBuf>,
    /// The quantity to compare
    #[arg(long, value_enum, default_value = "latency")]
    test: Compared,
    /// Size of a sample in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(28..=63_000))]
    size: usize,
    /// Blocks of A, B, B, A, each followed by one of A, A, A, A
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    blocks: u32,
    /// Length of one measurement in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..=600_000))]
    time: u64,
    /// Write record.jsonl to this folder [default: perftest-results/ and the UTC time]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Compared {
    Latency,
    Throughput,
}

/// Measures the blocks, writes the record, and prints the comparison.
pub fn run_turns(options: &TurnsOptions, command_line: Vec<String>, places: &Places, stop: &Stop) -> Result<(), Error> {
    let alternatives = options.alternatives(places, stop)?;
    let created_utc = host::utc_text(SystemTime::now());
    let folder = keeper::folder(options.out.as_deref(), &created_utc);
    let mut keeper = Keeper::create(&folder)?;
    let host_lines = places.placement().host_lines()?;
    let idle_states = places.placement().keep_awake();
    message(&idle_states);
    let cores = places.placement().two_cores();
    keeper.keep(&Line::Header(Header {
        schema: SCHEMA_VERSION,
        tool: "perftest".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        created_utc,
        command_line,
        series: alternatives.iter().map(|one| one.series(places)).collect::<Result<_, _>>()?,
        data_lens: vec![options.size as u64],
        repetitions: options.blocks,
        measurement_ms: options.time,
        pinned_cores: cores.map_or_else(Vec::new, |(publisher, subscriber)| vec![publisher, subscriber]),
        idle_states_disabled: matches!(idle_states, IdleStates::Disabled { .. }),
        plan: None,
    }))?;
    for line in host_lines {
        keeper.keep(&line)?;
    }
    let result = Turns { options, alternatives: &alternatives, cores, places, stop }.run(&mut keeper);
    let reason = result.as_ref().err().map_or_else(String::new, Error::to_string);
    keeper.keep(&Line::End(End { complete: result.is_ok(), reason }))?;
    keeper.finish()?;
    let (record, path) = read_record(&folder)?;
    let text = compare::render(&compare::compare(&record, &record, None));
    print_text(&format!("{text}\nRecord: {}\n", path.display()))?;
    result
}

const A: &str = "A";
const B: &str = "B";
/// Default options of A, and of B and of two programs.
const RAW: &str = "-raw";
const LOOPBACK: &str = "-nic 127.0.0.1";

/// A or B.
struct Alternative {
    id: &'static str,
    words: Vec<String>,
    /// Replaces this program.
    program: Option<Program>,
}

impl TurnsOptions {
    fn alternatives(&self, places: &Places, stop: &Stop) -> Result<[Alternative; 2], Error> {
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
        if self.program_a.is_none() && self.program_b.is_none() {
            let of = |id, text: Option<&str>, default| Alternative {
                id,
                words: words(text.unwrap_or(default)),
                program: None,
            };
            return Ok([of(A, self.a.as_deref(), RAW), of(B, self.b.as_deref(), LOOPBACK)]);
        }
        if !matches!(places, Places::Here(_)) {
            return Err(Error::Setup(
                "--program-a and --program-b run on this machine: leave out --hosts and the lab.".into(),
            ));
        }
        let program = |option: &str, path: Option<&PathBuf>| match path {
            Some(path) => Program::examine(option, path, stop),
            None => Program::this(),
        };
        let (a, b) =
            (program("--program-a", self.program_a.as_ref())?, program("--program-b", self.program_b.as_ref())?);
        let of = |id, own: Option<&str>, other: Option<&str>, program: &Program, partner: &Program| {
            let mut words = words(own.or(other).unwrap_or(LOOPBACK));
            words.extend(program.levelling(partner).map(String::from));
            Alternative { id, words, program: Some(program.clone()) }
        };
        let texts = (self.a.as_deref(), self.b.as_deref());
        Ok([of(A, texts.0, texts.1, &a, &b), of(B, texts.1, texts.0, &b, &a)])
    }
}

impl Alternative {
    fn series(&self, places: &Places) -> Result<Series, Error> {
        let words = self.words.join(" ");
        let label = match &self.program {
            Some(program) => format!("{}: {} {words}", self.id, program.name()),
            None => format!("{}: {words}", self.id),
        };
        let options = placed(&self.words, places.placement(), Place::Near)?;
        let peer = self.program.as_ref().map(|program| Box::new(program.facts()));
        Ok(Series { id: self.id.into(), label, short_label: self.id.into(), floor: self.id == A, options, peer })
    }
}

/// The alternatives at the four positions of a block. Every second block starts with B, so that neither has the better
/// positions.
fn roles(number: u32) -> [Role; 4] {
    if number.is_multiple_of(2) { [Role::A, Role::B, Role::B, Role::A] } else { [Role::B, Role::A, Role::A, Role::B] }
}

struct Turns<'a> {
    options: &'a TurnsOptions,
    alternatives: &'a [Alternative; 2],
    cores: Option<(usize, usize)>,
    places: &'a Places,
    stop: &'a Stop,
}

impl Turns<'_> {
    /// A failed run spoils only its block.
    fn run(&self, keeper: &mut Keeper) -> Result<(), Error> {
        let progress = Progress::start(self.options.blocks as usize * 8);
        let mut result = Ok(());
        for number in 0..self.options.blocks {
            for control in [false, true] {
                for (place, role) in roles(number).into_iter().enumerate() {
                    let place = BlockPlace { number, place: place as u8, role, control };
                    let measured = self.measure(place, keeper, &progress);
                    if self.stop.reason().is_some() {
                        progress.end();
                        return Err(Error::Interrupted);
                    }
                    if let Err(error) = measured {
                        let text = format!("block {}, place {}: {error}", number + 1, place.place + 1);
                        progress.message(&text);
                        keeper.keep(&Line::Warning(Warning { text }))?;
                        result = Err(error);
                    }
                    progress.step();
                }
            }
        }
        progress.end();
        result
    }

    fn measure(&self, place: BlockPlace, keeper: &mut Keeper, progress: &Progress) -> Result<(), Error> {
        let alternative = &self.alternatives[usize::from(place.role == Role::B && !place.control)];
        let test = match self.options.test {
            Compared::Latency => Test::Latency,
            Compared::Throughput => Test::Throughput,
        };
        let case = Case { both: alternative.words.clone(), publisher: Vec::new() };
        progress.begin(if place.control { "control" } else { alternative.id }, test, place.number);
        let time = Duration::from_millis(self.options.time);
        let placement: &dyn Placement = match &alternative.program {
            Some(program) => program,
            None => self.places.placement(),
        };
        let mut pair = Pair::start(&case, test, &[self.options.size], time, self.cores, placement)?;
        while let Some((publisher, subscriber)) = pair.next_size(self.stop)? {
            keeper.keep(&Line::Measurement(Box::new(Measurement {
                series: alternative.id.into(),
                test,
                data_len: publisher.data_len,
                repetition: place.number,
                block: Some(place),
                case: None,
                others: Vec::new(),
                publisher,
                subscriber,
            })))?;
        }
        pair.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_have_each_position_equally_often() {
        for place in 0..4 {
            assert_ne!(roles(0)[place], roles(1)[place]);
        }
        for number in 0..2 {
            assert_eq!(roles(number).iter().filter(|role| **role == Role::A).count(), 2);
            assert_eq!(roles(number)[0], roles(number)[3], "a linear drift cancels only in a symmetric order");
        }
    }
}

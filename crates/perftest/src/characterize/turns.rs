//! `perftest ab`: two alternatives that take turns, and one of them against itself.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use peregrine_report::compare;
use peregrine_report::record::{
    BlockPlace, End, Header, Line, Measurement, Role, SCHEMA_VERSION, Series, Test, Warning,
};

use super::keeper::{self, Keeper};
use super::pair::{Case, Pair};
use super::progress::Progress;
use super::read_record;
use crate::campaign::placement::Place;
use crate::control::Stop;
use crate::error::Error;
use crate::host::{self, IdleStates};
use crate::output::print_text;
use crate::places::{Places, placed};

/// Two alternatives, and how to compare them.
#[derive(Debug, Clone, clap::Args)]
pub struct TurnsOptions {
    /// Options of alternative A, on both sides, as RTI Perftest writes them; in quotes
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, default_value = "-raw")]
    a: String,
    /// Options of alternative B
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, default_value = "-nic 127.0.0.1")]
    b: String,
    /// What is compared
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
    /// Keep record.jsonl here [default: perftest-results/ and the UTC time]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Compared {
    Latency,
    Throughput,
}

/// Measures the blocks, keeps the record, and prints the comparison.
pub fn run_turns(options: &TurnsOptions, command_line: Vec<String>, places: &Places, stop: &Stop) -> Result<(), Error> {
    let created_utc = host::utc_text(SystemTime::now());
    let folder = keeper::folder(options.out.as_deref(), &created_utc);
    let mut keeper = Keeper::create(&folder)?;
    let host_lines = places.placement().host_lines()?;
    let idle_states = places.placement().keep_awake();
    eprintln!("{idle_states}");
    let cores = places.placement().two_cores();
    let series = |id: &str, words: &str| -> Result<Series, Error> {
        let options: Vec<_> = words.split_whitespace().map(String::from).collect();
        let options = placed(&options, places.placement(), Place::Near)?;
        Ok(Series { id: id.into(), label: format!("{id}: {words}"), floor: id == A, options, peer: None })
    };
    keeper.keep(&Line::Header(Header {
        schema: SCHEMA_VERSION,
        tool: "perftest".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        created_utc,
        command_line,
        series: vec![series(A, &options.a)?, series(B, &options.b)?],
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
    let result = Turns { options, cores, places, stop }.run(&mut keeper);
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

/// Who runs at the four places of a block: every second block begins with B, so that neither has the better places.
fn roles(number: u32) -> [Role; 4] {
    if number.is_multiple_of(2) { [Role::A, Role::B, Role::B, Role::A] } else { [Role::B, Role::A, Role::A, Role::B] }
}

struct Turns<'a> {
    options: &'a TurnsOptions,
    cores: Option<(usize, usize)>,
    places: &'a Places,
    stop: &'a Stop,
}

impl Turns<'_> {
    /// A failing run spoils its block and not the others.
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
        let (series, words) =
            if place.role == Role::B && !place.control { (B, &self.options.b) } else { (A, &self.options.a) };
        let test = match self.options.test {
            Compared::Latency => Test::Latency,
            Compared::Throughput => Test::Throughput,
        };
        let case = Case { both: words.split_whitespace().map(String::from).collect(), publisher: Vec::new() };
        progress.begin(if place.control { "control" } else { series }, test, place.number);
        let time = Duration::from_millis(self.options.time);
        let mut pair = Pair::start(&case, test, &[self.options.size], time, self.cores, self.places.placement())?;
        while let Some((publisher, subscriber)) = pair.next_size(self.stop)? {
            keeper.keep(&Line::Measurement(Box::new(Measurement {
                series: series.into(),
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
    fn both_have_every_place_as_often() {
        for place in 0..4 {
            assert_ne!(roles(0)[place], roles(1)[place]);
        }
        for number in 0..2 {
            assert_eq!(roles(number).iter().filter(|role| **role == Role::A).count(), 2);
            assert_eq!(roles(number)[0], roles(number)[3], "a linear drift cancels only in a symmetric order");
        }
    }
}

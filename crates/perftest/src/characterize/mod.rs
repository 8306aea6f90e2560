//! `perftest` without a command: measures this machine with publishers and subscribers as real processes, and reports.

mod cell;
pub(crate) mod keeper;
pub(crate) mod kept;
pub(crate) mod pair;
mod programs;
pub(crate) mod progress;
mod series;
mod turns;

use std::path::PathBuf;
use std::time::Duration;

use peregrine_report::record::{Line, Measurement, Series, Test, Warning};

pub(crate) use self::cell::measure_cell;
pub use self::keeper::{Keeper, read_record};
use self::kept::{Comparison, Cores};
use self::pair::Pair;
use self::progress::Progress;
use self::series::{SERIES, SeriesSpec};
pub use self::turns::{TurnsOptions, run_turns};
use crate::campaign::placement::Place;
use crate::control::Stop;
use crate::error::Error;
use crate::places::{Places, placed};
use crate::plan::SCAN_SIZES;

/// Length of one measurement in milliseconds. All measurements, with the starts of their processes, take about a
/// minute.
const DEFAULT_MS: u64 = 100;
const QUICK_MS: u64 = 50;

/// Settings of the measurement.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Measure for half a minute instead of a minute
    #[arg(long)]
    quick: bool,
    /// Write record.jsonl and report.html to this folder [default: perftest-results/ and the UTC time]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Sample sizes in bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = SCAN_SIZES,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(28..=63_000))]
    sizes: Vec<usize>,
    /// Repetitions of every measurement
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Length of one measurement in milliseconds [default: 100, with --quick 50]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    time: Option<u64>,
}

/// Measures everything, prints a table, and writes the record and the page.
pub fn run(options: &Options, command_line: Vec<String>, places: &Places, stop: &Stop) -> Result<(), Error> {
    let mut sizes = options.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let time = Duration::from_millis(options.time.unwrap_or(if options.quick { QUICK_MS } else { DEFAULT_MS }));
    // Shared memory needs a single host.
    let is_one_host = places.placement().address(Place::Far).is_none();
    let series: Vec<_> = SERIES.iter().filter(|series| is_one_host || !series.within_host).collect();
    let comparison = Comparison {
        out: options.out.as_deref(),
        command_line,
        placement: places.placement(),
        series: series.iter().map(|series| series.describe(places)).collect::<Result<_, _>>()?,
        sizes: &sizes,
        repetitions: options.repetitions,
        time,
    };
    kept::keep(comparison, |cores, keeper| {
        Campaign { series: &series, sizes: &sizes, time, cores, places, stop, repetitions: options.repetitions }
            .run(keeper)
    })
}

/// The measurements of one record.
struct Campaign<'a> {
    series: &'a [&'static SeriesSpec],
    sizes: &'a [usize],
    time: Duration,
    cores: Cores,
    places: &'a Places,
    stop: &'a Stop,
    repetitions: u32,
}

impl Campaign<'_> {
    /// In every repetition each series runs once, starting with a different series each time, so that changes of the
    /// machine affect all of them. A failed series does not end the run.
    fn run(&self, keeper: &mut Keeper) -> Result<(), Error> {
        let tests: usize = self.series.iter().map(|series| series.tests.len()).sum();
        let total = self.repetitions as usize * tests * self.sizes.len();
        let progress = Progress::start(total);
        let mut result = Ok(());
        for repetition in 0..self.repetitions {
            let begun_by = repetition as usize % self.series.len().max(1);
            for series in self.series.iter().cycle().skip(begun_by).take(self.series.len()) {
                for test in series.tests {
                    let measured = self.measure(series, *test, repetition, keeper, &progress);
                    if self.stop.reason().is_some() {
                        progress.end();
                        return Err(Error::Interrupted);
                    }
                    if let Err(error) = measured {
                        progress.message(&format!("{}: {error}", series.label));
                        let text = format!("{}, repetition {}: {error}", series.label, repetition + 1);
                        keeper.keep(&Line::Warning(Warning { text }))?;
                        result = Err(error);
                    }
                }
            }
        }
        progress.end();
        result
    }

    /// Measures all sizes with one pair of processes.
    fn measure(
        &self,
        series: &SeriesSpec,
        test: Test,
        repetition: u32,
        keeper: &mut Keeper,
        progress: &Progress,
    ) -> Result<(), Error> {
        progress.begin(series.label, test, repetition);
        let mut pair = Pair::start(&series.case(), test, self.sizes, self.time, self.cores, self.places.placement())?;
        while let Some((publisher, subscriber)) = pair.next_size(self.stop)? {
            progress.step();
            keeper.keep(&Line::Measurement(Box::new(Measurement {
                series: series.id.into(),
                test,
                data_len: publisher.data_len,
                repetition,
                block: None,
                case: None,
                others: Vec::new(),
                publisher,
                subscriber,
            })))?;
        }
        pair.finish()
    }
}

impl SeriesSpec {
    fn describe(&self, places: &Places) -> Result<Series, Error> {
        let options: Vec<_> = self.options.iter().chain(self.publisher_options).map(|word| (*word).into()).collect();
        Ok(Series {
            id: self.id.into(),
            label: self.label.into(),
            short_label: self.short_label.into(),
            floor: self.floor,
            options: placed(&options, places.placement(), Place::Near)?,
            peer: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_have_one_floor_and_unique_names() {
        assert_eq!(SERIES.iter().filter(|series| series.floor).count(), 1);
        let mut names: Vec<_> = SERIES.iter().map(|series| series.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SERIES.len());
    }
}

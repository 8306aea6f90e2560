//! `perftest` alone: measures this machine with publishers and subscribers as real processes, and reports.

mod cell;
pub(crate) mod pair;
mod progress;
mod series;

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use peregrine_report::record::{End, Header, Line, Measurement, Record, SCHEMA_VERSION, Series, Test, Warning};
use peregrine_report::render;
use peregrine_report::table::Table;

pub(crate) use self::cell::measure_cell;
use self::pair::Pair;
use self::progress::Progress;
use self::series::{SERIES, SeriesSpec};
use crate::control::Stop;
use crate::error::Error;
use crate::host::{self, IdleStates};
use crate::output::print_text;
use crate::plan::SCAN_SIZES;
use crate::threads::allowed_cores;

/// A load above this, per core, disturbs a measurement.
const DISTURBING_LOAD: f64 = 0.3;

/// What to measure, and where to keep it.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Measure for a shorter time: ends within a minute
    #[arg(long)]
    quick: bool,
    /// Keep record.jsonl and report.html here [default: perftest-results/ and the UTC time]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Sample sizes in bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = SCAN_SIZES,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(28..=63_000))]
    sizes: Vec<usize>,
    /// Repetitions of every measurement
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    /// Length of one measurement in milliseconds [default: 200, with --quick 100]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    time: Option<u64>,
}

/// Measures everything, prints one table, and keeps the record and the page.
pub fn run(options: &Options, command_line: Vec<String>, stop: &Stop) -> Result<(), Error> {
    let mut sizes = options.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let time = Duration::from_millis(options.time.unwrap_or(if options.quick { 100 } else { 200 }));
    let created_utc = host::utc_text(SystemTime::now());
    let folder =
        options.out.clone().unwrap_or_else(|| Path::new("perftest-results").join(created_utc.replace(':', "-")));
    let mut keeper = Keeper::create(&folder)?;

    let idle_states = IdleStates::disable();
    let cores = two_cores(&allowed_cores());
    let header = Header {
        schema: SCHEMA_VERSION,
        tool: "perftest".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        created_utc,
        command_line,
        series: SERIES.iter().map(SeriesSpec::describe).collect(),
        data_lens: sizes.iter().map(|size| *size as u64).collect(),
        repetitions: options.repetitions,
        measurement_ms: time.as_millis() as u64,
        pinned_cores: cores.map_or_else(Vec::new, |(publisher, subscriber)| vec![publisher, subscriber]),
        idle_states_disabled: matches!(idle_states, IdleStates::Disabled { .. }),
    };
    keeper.keep(&Line::Header(header))?;
    let facts = host::gather();
    for text in conditions(&facts, &idle_states, cores.is_some()) {
        eprintln!("Note: {text}");
        keeper.keep(&Line::Warning(Warning { text }))?;
    }
    keeper.keep(&Line::Host(facts))?;

    let campaign = Campaign { sizes: &sizes, time, cores, stop, repetitions: options.repetitions };
    let result = campaign.run(&mut keeper);
    let reason = result.as_ref().err().map_or_else(String::new, Error::to_string);
    keeper.keep(&Line::End(End { complete: result.is_ok(), reason }))?;
    keeper.finish()?;
    report(&folder)?;
    result
}

/// Renders a kept record again: the table on stdout, and the page beside the record.
pub fn report(folder: &Path) -> Result<(), Error> {
    let path = folder.join("record.jsonl");
    let file = File::open(&path).map_err(|error| Error::Setup(format!("Cannot open {}: {error}", path.display())))?;
    let record =
        Record::read(BufReader::new(file)).map_err(|error| Error::Setup(format!("{}: {error}", path.display())))?;
    let table = Table::of(&record);
    let page = folder.join("report.html");
    fs::write(&page, render::html(&record))
        .map_err(|error| Error::Setup(format!("Cannot write {}: {error}", page.display())))?;
    let mut text = render::text(&table);
    for doubt in table.doubts() {
        text += &format!("\n{doubt}\n");
    }
    text += &format!("\nRecord: {}\nReport: {}\n", path.display(), page.display());
    print_text(&text)
}

/// The measurements of one record.
struct Campaign<'a> {
    sizes: &'a [usize],
    time: Duration,
    cores: Option<(usize, usize)>,
    stop: &'a Stop,
    repetitions: u32,
}

impl Campaign<'_> {
    /// In every repetition each series runs once, and each time another one begins, so that what changes on the machine
    /// meets all of them. One failing series does not take the others with it.
    fn run(&self, keeper: &mut Keeper) -> Result<(), Error> {
        let tests: usize = SERIES.iter().map(|series| series.tests.len()).sum();
        let total = self.repetitions as usize * tests * self.sizes.len();
        let progress = Progress::start(total);
        let mut result = Ok(());
        for repetition in 0..self.repetitions {
            for turn in 0..SERIES.len() {
                let series = &SERIES[(turn + repetition as usize) % SERIES.len()];
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

    /// One pair of processes, all sizes.
    fn measure(
        &self,
        series: &SeriesSpec,
        test: Test,
        repetition: u32,
        keeper: &mut Keeper,
        progress: &Progress,
    ) -> Result<(), Error> {
        progress.begin(series.label, test, repetition);
        let mut pair = Pair::start(&series.case(), test, self.sizes, self.time, self.cores)?;
        while let Some((publisher, subscriber)) = pair.next_size(self.stop)? {
            progress.step();
            keeper.keep(&Line::Measurement(Box::new(Measurement {
                series: series.id.into(),
                test,
                data_len: publisher.data_len,
                repetition,
                publisher,
                subscriber,
            })))?;
        }
        pair.finish()
    }
}

/// The record on disk, written line by line so that nothing measured is lost.
struct Keeper {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Keeper {
    fn create(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("record.jsonl");
        let refuse = |what: &str, error: std::io::Error| Error::Setup(format!("Cannot {what}: {error}"));
        fs::create_dir_all(folder).map_err(|error| refuse(&format!("make the folder {}", folder.display()), error))?;
        let file = File::create_new(&path).map_err(|error| {
            let hint = if path.exists() { "; choose another --out" } else { "" };
            Error::Setup(format!("Cannot make {}: {error}{hint}", path.display()))
        })?;
        Ok(Self { path, file: BufWriter::new(file) })
    }

    fn keep(&mut self, line: &Line) -> Result<(), Error> {
        line.write_to(&mut self.file).and_then(|()| self.file.flush()).map_err(|error| self.failed(&error))
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.file.get_ref().sync_all().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::Transfer(format!("Cannot write {}: {error}", self.path.display()))
    }
}

impl SeriesSpec {
    fn describe(&self) -> Series {
        Series {
            id: self.id.into(),
            label: self.label.into(),
            floor: self.floor,
            options: self.options.iter().chain(self.publisher_options).map(|option| (*option).into()).collect(),
        }
    }
}

/// A core for each side, on different physical cores when there are any.
pub(crate) fn two_cores(allowed: &[usize]) -> Option<(usize, usize)> {
    let first = *allowed.first()?;
    let siblings = fs::read_to_string(format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list"))
        .unwrap_or_default();
    let is_sibling = |core: &usize| siblings.trim().split([',', '-']).any(|sibling| sibling == core.to_string());
    let others = &allowed[1..];
    let second = others.iter().find(|core| !is_sibling(core)).or_else(|| others.first())?;
    Some((first, *second))
}

/// What about this machine lowers the worth of the numbers, and what to do about it.
fn conditions(
    facts: &peregrine_report::record::HostFacts,
    idle_states: &IdleStates,
    has_two_cores: bool,
) -> Vec<String> {
    let mut texts = Vec::new();
    if cfg!(debug_assertions) {
        texts.push("this is a debug build; use cargo run --release".into());
    }
    if let IdleStates::Allowed(reason) = idle_states {
        texts.push(format!(
            "idle cores may sleep deeply ({reason}), and each wake-up adds tens of microseconds; run as root to prevent it"
        ));
    }
    if !has_two_cores {
        texts.push("publisher and subscriber share one core; the numbers say little about two".into());
    }
    let load: Option<f64> = facts.load.split(' ').next().and_then(|load| load.parse().ok());
    if let Some(load) = load.filter(|load| *load > DISTURBING_LOAD * facts.cores.max(1) as f64) {
        texts.push(format!("the machine is busy (load {load:.2}); stop what else is running"));
    }
    if !facts.governor.is_empty() && facts.governor != "performance" {
        texts.push(format!(
            "the frequency governor is {}; for steady numbers: cpupower frequency-set -g performance",
            facts.governor
        ));
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use peregrine_report::record::HostFacts;

    #[test]
    fn each_side_gets_its_core() {
        assert_eq!(two_cores(&[]), None);
        assert_eq!(two_cores(&[0]), None);
        assert_eq!(two_cores(&[4000, 4001]), Some((4000, 4001)));
    }

    #[test]
    fn conditions_name_what_to_do() {
        let busy =
            HostFacts { cores: 2, load: "1.50 0.2 0.1".into(), governor: "powersave".into(), ..HostFacts::default() };
        let texts = conditions(&busy, &IdleStates::Allowed("permission denied".into()), false).join("\n");
        for expected in ["load 1.50", "powersave", "permission denied", "share one core"] {
            assert!(texts.contains(expected), "{texts}");
        }
    }

    #[test]
    fn there_is_exactly_one_floor_and_names_are_unique() {
        assert_eq!(SERIES.iter().filter(|series| series.floor).count(), 1);
        let mut names: Vec<_> = SERIES.iter().map(|series| series.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SERIES.len());
    }

    #[test]
    fn a_record_is_never_overwritten() {
        let folder = std::env::temp_dir().join(format!("perftest-keeper-{}", std::process::id()));
        drop(Keeper::create(&folder).unwrap());
        let error = Keeper::create(&folder).err().unwrap().to_string();
        assert!(error.contains("choose another --out"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

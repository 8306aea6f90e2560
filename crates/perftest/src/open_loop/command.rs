//! The commands of open loops.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use peregrine_report::record::{
    End, Header, Line, Measurement, SCHEMA_VERSION, SearchResult, SearchStep, Series, SideResult, Test,
};

use super::search::{Range, Search, Try};
use super::seen::MAX_SAMPLES;
use super::session::{RunPlan, Session};
use super::stamp::SHORTEST;
use super::{Task, over_messaging, responder, summary, usage};
use crate::campaign::placement::{Place, Placement};
use crate::characterize::Keeper;
use crate::cli::option::WaitMethod;
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::domain::FreeDomain;
use crate::error::Error;
use crate::host::{self, IdleStates};
use crate::host_report::host_lines;
use crate::messaging::Messaging;
use crate::places::{Hosts, Places, RemoteSender, Tether, placed, tethered};
use crate::plan::TestPlan;
use crate::terminal::{message, print_text};
use crate::wording::{counted, was};

/// Length of the warm-up run, which is not counted.
const WARM_UP: Duration = Duration::from_millis(100);
/// Factor by which a confirming try is longer than others.
const CONFIRMATION_FACTOR: u32 = 3;
/// Time that a responder has to end after its sender has left.
const FAREWELL: Duration = Duration::from_secs(5);
/// Minimum number of probes of a try: at least ten of them are then above its 99th percentile.
const FEWEST_PROBES: u64 = 1100;
/// Limit up to which a try is extended for the sake of its probes.
const LONGEST_TRY: Duration = Duration::from_secs(11);
/// Share of a rate from which on the rate counts as sustained.
const KEPT_SHARE: f64 = 0.99;

/// Options of every open loop.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct CommonOptions {
    /// Size of a sample in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(SHORTEST as u64..=63_000))]
    size: usize,
    /// Every n-th sample is a probe, which is answered; the others are load
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    probe_every: u64,
    /// Neither write nor check payloads
    #[arg(long)]
    no_patterns: bool,
    /// Spin between two samples instead of sleeping; occupies a core
    #[arg(long)]
    spin: bool,
    /// Use a responder that was started elsewhere ('perftest respond')
    #[arg(long)]
    remote: bool,
    /// Write record.jsonl to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// RTI Perftest's options for both sides, after --
    #[arg(last = true, value_name = "OPTIONS", allow_hyphen_values = true)]
    words: Vec<String>,
}

/// `perftest load`
#[derive(Debug, Clone, clap::Args)]
pub struct LoadOptions {
    /// Samples per second, probes and load together
    #[arg(long, value_name = "PER_S", default_value_t = 10_000.0, value_parser = rate)]
    rate: f64,
    /// Length of a run in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    time: u64,
    /// Number of runs
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: u32,
    #[command(flatten)]
    common: CommonOptions,
}

/// `perftest search`
#[derive(Debug, Clone, clap::Args)]
pub struct SearchOptions {
    /// First rate to try, in samples per second
    #[arg(long, value_name = "PER_S", default_value_t = 5_000.0, value_parser = rate)]
    first: f64,
    /// Highest rate to try
    #[arg(long, value_name = "PER_S", default_value_t = 5_000_000.0, value_parser = rate)]
    highest: f64,
    /// Highest permitted 99th percentile of the round trip from the intended send, in microseconds
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000_000))]
    p99_limit: u64,
    /// End the search when the sustained and the failed rate differ by at most this, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    resolution: u32,
    /// Length of one try in milliseconds; extended up to 11000 if needed for 1100 probes
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=600_000))]
    time: u64,
    #[command(flatten)]
    common: CommonOptions,
}

/// `perftest respond`
#[derive(Debug, Clone, clap::Args)]
pub struct RespondOptions {
    /// End when the first sender has left
    #[arg(long)]
    once: bool,
    /// Do not check payloads
    #[arg(long)]
    no_patterns: bool,
    /// Size of the largest sample in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 63_000,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(SHORTEST as u64..=63_000))]
    size: usize,
    /// RTI Perftest's options, after --
    #[arg(last = true, value_name = "OPTIONS", allow_hyphen_values = true)]
    words: Vec<String>,
}

impl SearchOptions {
    /// Length of a try at a rate: as requested, or longer until there are enough probes.
    fn try_time(&self, next: Try) -> Duration {
        let asked = Duration::from_millis(self.time);
        let enough = Duration::from_secs_f64(self.samples() / next.rate_per_s);
        let longest = LONGEST_TRY.max(asked);
        (asked * if next.confirms { CONFIRMATION_FACTOR } else { 1 }).max(enough.min(longest))
    }

    /// Number of samples of a try with just enough probes.
    fn samples(&self) -> f64 {
        (FEWEST_PROBES * self.common.probe_every) as f64
    }

    /// The lowest rate at which a try has enough probes.
    fn lowest_per_s(&self) -> f64 {
        self.samples() / LONGEST_TRY.max(Duration::from_millis(self.time)).as_secs_f64()
    }

    /// Rejects settings with which no try can decide.
    fn check(&self) -> Result<(), Error> {
        if self.common.probe_every > MAX_SAMPLES / FEWEST_PROBES {
            let most = MAX_SAMPLES / FEWEST_PROBES;
            return Err(usage(&format!(
                "--probe-every {} is too large for a search; use {most} at most",
                self.common.probe_every
            )));
        }
        let lowest = self.lowest_per_s();
        for (name, rate) in [("--first", self.first), ("--highest", self.highest)] {
            if rate < lowest {
                return Err(usage(&format!(
                    "{name} {rate}: a try at this rate has fewer than the {FEWEST_PROBES} probes that a p99 takes; use \
                     {lowest:.0} or more, a longer --time, or a smaller --probe-every"
                )));
            }
        }
        Ok(())
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=1e9).contains(&rate) => Ok(rate),
        _ => Err("a rate is a number from 0.001 to 1000000000".into()),
    }
}

/// Answers the probes of senders, until Ctrl-C.
pub fn respond(options: &RespondOptions, stop: &Stop) -> Result<(), Error> {
    struct Respond<'a>(&'a RespondOptions, &'a Stop);

    impl Task for Respond<'_> {
        type Output = ();

        fn run<M: Messaging>(self, plan: &TestPlan, messaging: &M) -> Result<(), Error> {
            message(format_args!("Responding over {} in domain {}", messaging.name(), plan.data.domain));
            responder::serve(plan, messaging, self.0.once, !self.0.no_patterns, self.1)
        }
    }

    refuse_words(&options.words)?;
    let mut words = options.words.clone();
    words.extend(["-sub".into(), "-dataLen".into(), options.size.to_string()]);
    over_messaging(&words, Respond(options, stop))
}

/// Measures round trips under an open-loop load.
pub fn load(options: &LoadOptions, command_line: Vec<String>, places: &Places, stop: &Stop) -> Result<(), Error> {
    if let Places::Hosts(hosts) = places {
        return on_two_hosts(&options.common, command_line, hosts, stop);
    }
    let mut record = RecordOfRuns::begin(&options.common, command_line, options.time, options.repetitions)?;
    let task = Load { options, record: &mut record, stop };
    let result = with_responder(&options.common, places.placement(), task);
    record.end(&result)?;
    result
}

/// Searches the highest rate without loss and with a bounded 99th percentile.
pub fn search(options: &SearchOptions, command_line: Vec<String>, places: &Places, stop: &Stop) -> Result<(), Error> {
    if let Places::Hosts(hosts) = places {
        return on_two_hosts(&options.common, command_line, hosts, stop);
    }
    options.check()?;
    let mut record = RecordOfRuns::begin(&options.common, command_line, options.time, 1)?;
    let task = Find { options, record: &mut record, stop };
    let result = with_responder(&options.common, places.placement(), task);
    record.end(&result)?;
    result
}

/// Rejects options that these commands set themselves.
fn refuse_words(words: &[String]) -> Result<(), Error> {
    const OWN: [&str; 6] = ["-pub", "-sub", "-dataLen", "-batchSize", "-scan", "-latencyTest"];
    match words.iter().find(|word| OWN.iter().any(|own| own.eq_ignore_ascii_case(word))) {
        Some(word) => Err(usage(&format!("{word} is set by this command; leave it out behind --"))),
        None => Ok(()),
    }
}

/// Starts a responder unless `--remote` is given, and runs the task against it.
fn with_responder<T: Task<Output = ()>>(
    options: &CommonOptions,
    placement: &dyn Placement,
    task: T,
) -> Result<(), Error> {
    refuse_words(&options.words)?;
    let mut common = options.words.clone();
    let mut responder = None;
    if !options.remote {
        let domain = FreeDomain::reserve()?;
        common = with_defaults(common, &domain);
        let words = placed(&common, placement, Place::Far)?;
        responder = Some((ResponderProcess::start(options, &words, placement)?, domain));
        common = placed(&common, placement, Place::Near)?;
    }
    common.extend(["-pub", "-batchSize", "0", "-dataLen"].map(String::from));
    common.push(options.size.to_string());
    let result = over_messaging(&common, task);
    let ended = responder.map_or(Ok(()), |(responder, _domain)| responder.end(result.is_ok()));
    result.and(ended)
}

/// Runs the sender on the near host and its responder on the far one.
fn on_two_hosts(options: &CommonOptions, command_line: Vec<String>, hosts: &Hosts, stop: &Stop) -> Result<(), Error> {
    refuse_words(&options.words)?;
    if options.remote {
        return Err(usage("--hosts starts the responder as well; leave --remote out"));
    }
    let domain = FreeDomain::reserve()?;
    let common = with_defaults(options.words.clone(), &domain);
    let mut responder = ResponderProcess::start(options, &placed(&common, hosts, Place::Far)?, hosts)?;
    let words = placed(&common, hosts, Place::Near)?;
    let sender = RemoteSender { command_line, words, out: options.out.as_deref() };
    let result = sender.run(hosts, stop, || matches!(responder.child.try_wait(), Ok(None)));
    // A failed responder makes the sender fail: the responder's error comes first.
    responder.end(result.is_ok()).and(result)
}

/// Adds that domain, loopback and a shorter timeout, unless the options contain others.
fn with_defaults(mut words: Vec<String>, domain: &FreeDomain) -> Vec<String> {
    let has = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    let mut defaults = Vec::new();
    if !has("-domain") {
        defaults.extend(["-domain".into(), domain.id().to_string()]);
    }
    if !has("-nic") && !has("-allowInterfaces") {
        defaults.extend(["-nic".into(), "127.0.0.1".into()]);
    }
    if !has("-discoveryTimeout") {
        defaults.extend(["-discoveryTimeout".into(), "10".into()]);
    }
    words.extend(defaults);
    words
}

struct ResponderProcess {
    child: Child,
    _tether: Tether,
}

impl ResponderProcess {
    fn start(options: &CommonOptions, words: &[String], placement: &dyn Placement) -> Result<Self, Error> {
        let size = options.size.to_string();
        let mut line: Vec<_> = ["respond", "--once", "--size", &size].map(String::from).into();
        if options.no_patterns {
            line.push("--no-patterns".into());
        }
        line.push("--".into());
        line.extend_from_slice(words);
        let mut command = placement.command(Place::Far, &tethered(&line))?;
        Tether::start(command.stdout(Stdio::null()))
            .map(|(tether, child)| Self { child, _tether: tether })
            .map_err(|error| Error::Setup(format!("Cannot start the responder: {error}")))
    }

    fn end(mut self, left_regularly: bool) -> Result<(), Error> {
        let deadline = MonotonicNs::now().plus(if left_regularly { FAREWELL } else { Duration::ZERO });
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(Error::Partner(format!("The responder failed ({status})."))),
                Ok(None) if deadline.remaining().is_zero() => return Ok(()),
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Err(error) => return Err(Error::Transfer(format!("Cannot wait for the responder: {error}"))),
            }
        }
    }
}

impl Drop for ResponderProcess {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The record, if one is requested.
struct RecordOfRuns {
    keeper: Option<Keeper>,
    /// Keeps cores awake while the record is made.
    _idle_states: IdleStates,
}

/// Name of the only series.
const SERIES: &str = "open-loop";

impl RecordOfRuns {
    fn begin(
        options: &CommonOptions,
        command_line: Vec<String>,
        measurement_ms: u64,
        repetitions: u32,
    ) -> Result<Self, Error> {
        let mut keeper = options.out.as_deref().map(Keeper::create).transpose()?;
        let host_lines = host_lines();
        let idle_states = IdleStates::disable();
        message(&idle_states);
        if let Some(keeper) = &mut keeper {
            keeper.keep(&Line::Header(Header {
                schema: SCHEMA_VERSION,
                tool: "perftest".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                created_utc: host::utc_text(SystemTime::now()),
                command_line,
                series: vec![Series {
                    id: SERIES.into(),
                    label: "open loop".into(),
                    short_label: String::new(),
                    floor: false,
                    options: options.words.clone(),
                    peer: None,
                }],
                data_lens: vec![options.size as u64],
                repetitions,
                measurement_ms,
                pinned_cores: Vec::new(),
                idle_states_disabled: matches!(idle_states, IdleStates::Disabled { .. }),
                plan: None,
            }))?;
            for line in host_lines {
                keeper.keep(&line)?;
            }
        }
        Ok(Self { keeper, _idle_states: idle_states })
    }

    fn keep(&mut self, line: &Line) -> Result<(), Error> {
        self.keeper.as_mut().map_or(Ok(()), |keeper| keeper.keep(line))
    }

    fn end(&mut self, result: &Result<(), Error>) -> Result<(), Error> {
        let reason = result.as_ref().err().map_or_else(String::new, Error::to_string);
        self.keep(&Line::End(End { complete: result.is_ok(), reason }))?;
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        message(format_args!("Record: {}", keeper.path().display()));
        keeper.finish()
    }
}

fn run_plan(options: &CommonOptions, rate_per_s: f64, time: Duration) -> RunPlan {
    let wait = if options.spin { WaitMethod::Spin } else { WaitMethod::Sleep };
    RunPlan { rate_per_s, time, probe_every: options.probe_every, wait }
}

struct Load<'a> {
    options: &'a LoadOptions,
    record: &'a mut RecordOfRuns,
    stop: &'a Stop,
}

impl Task for Load<'_> {
    type Output = ();

    fn run<M: Messaging>(self, plan: &TestPlan, messaging: &M) -> Result<(), Error> {
        let common = &self.options.common;
        let mut session = Session::open(plan, messaging, !common.no_patterns, self.stop)?;
        session.run(&run_plan(common, self.options.rate, WARM_UP))?;
        let mut result = Ok(());
        for repetition in 0..self.options.repetitions {
            let run = run_plan(common, self.options.rate, Duration::from_millis(self.options.time));
            let (publisher, subscriber) = session.run(&run)?;
            print_text(&summary::of_run(&publisher, &subscriber))?;
            result = result.and(refuse_silence(publisher.probes.as_ref().map_or(0, |probes| probes.answered)));
            self.record.keep(&Line::Measurement(Box::new(Measurement {
                series: SERIES.into(),
                test: Test::OpenLoop,
                data_len: publisher.data_len,
                repetition,
                block: None,
                case: None,
                others: Vec::new(),
                publisher,
                subscriber,
            })))?;
        }
        session.close();
        result
    }
}

/// The error of a run without an answered probe, which has measured no round trip.
fn refuse_silence(answered: u64) -> Result<(), Error> {
    match answered {
        0 => Err(Error::NoData("No round trip was measured: no probe was answered.".into())),
        _ => Ok(()),
    }
}

struct Find<'a> {
    options: &'a SearchOptions,
    record: &'a mut RecordOfRuns,
    stop: &'a Stop,
}

impl Task for Find<'_> {
    type Output = ();

    fn run<M: Messaging>(self, plan: &TestPlan, messaging: &M) -> Result<(), Error> {
        let options = self.options;
        let p99_limit_ns = options.p99_limit * 1000;
        let mut session = Session::open(plan, messaging, !options.common.no_patterns, self.stop)?;
        session.run(&run_plan(&options.common, options.first, WARM_UP))?;
        let mut search = Search::new(Range {
            lowest_per_s: options.lowest_per_s(),
            first_per_s: options.first,
            highest_per_s: options.highest,
            resolution: f64::from(options.resolution) / 100.0,
        });
        let (mut steps, mut answered) = (Vec::new(), 0);
        while let Some(next) = search.next() {
            let plan = run_plan(&options.common, next.rate_per_s, options.try_time(next));
            let (publisher, subscriber) = session.run(&plan)?;
            let step = judge(&publisher, &subscriber, p99_limit_ns);
            let probes = publisher.probes.unwrap_or_default();
            answered += probes.answered;
            message(summary::of_step(&step, &probes.from_intended));
            search.tell(step.refused.is_empty());
            steps.push(step);
        }
        session.close();
        let (rate_per_s, failed_per_s) = search.result();
        let data_len = options.common.size as u64;
        let found = SearchResult { series: SERIES.into(), data_len, rate_per_s, failed_per_s, p99_limit_ns, steps };
        print_text(&summary::of_search(&found))?;
        self.record.keep(&Line::Search(Box::new(found)))?;
        refuse_silence(answered)
    }
}

/// Whether a run sustained its rate; if not, the reason.
fn judge(publisher: &SideResult, subscriber: &SideResult, p99_limit_ns: u64) -> SearchStep {
    let probes = publisher.probes.clone().unwrap_or_default();
    let lost = subscriber.throughput.as_ref().map_or(0, |received| received.lost);
    let dropped = publisher.send.as_ref().map_or(0, |send| send.dropped);
    let unanswered = probes.sent.saturating_sub(probes.answered);
    let p99_ns = probes.from_intended.p99_ns;
    let has_p99 = probes.from_intended.supports(0.99);
    let refused = if lost > 0 {
        format!("{} {} lost", counted(lost, "sample"), was(lost))
    } else if dropped > 0 {
        format!("{} {} dropped because the send buffer was full", counted(dropped, "sample"), was(dropped))
    } else if unanswered > 0 {
        format!("{} {} not answered", counted(unanswered, "probe"), was(unanswered))
    } else if probes.achieved_per_s < probes.offered_per_s * KEPT_SHARE {
        format!("only {:.1} % of the rate was sent", probes.achieved_per_s * 100.0 / probes.offered_per_s)
    } else if !has_p99 {
        format!("{} answered, too few for a p99", counted(probes.answered, "probe"))
    } else if p99_ns > p99_limit_ns {
        format!("p99 exceeds {:.0} us", p99_limit_ns as f64 / 1e3)
    } else {
        String::new()
    };
    SearchStep { offered_per_s: probes.offered_per_s, achieved_per_s: probes.achieved_per_s, lost, p99_ns, refused }
}

#[cfg(test)]
mod tests {
    use peregrine_report::record::{ProbeOutcome, SendResult, ThroughputResult};
    use peregrine_report::stats::LatencyResult;

    use super::*;

    /// A run of 1000 samples per second that all arrived, modified by `change`.
    fn refused(change: impl FnOnce(&mut ProbeOutcome, &mut SendResult, &mut ThroughputResult)) -> String {
        let mut probes = ProbeOutcome {
            offered_per_s: 1000.0,
            achieved_per_s: 999.0,
            sent: 1100,
            answered: 1100,
            from_intended: LatencyResult { count: 1100, p99_ns: 50_000, ..LatencyResult::default() },
            ..ProbeOutcome::default()
        };
        let (mut send, mut received) = (SendResult::default(), ThroughputResult::default());
        change(&mut probes, &mut send, &mut received);
        let publisher = SideResult { probes: Some(probes), send: Some(send), ..SideResult::default() };
        let subscriber = SideResult { throughput: Some(received), ..SideResult::default() };
        judge(&publisher, &subscriber, 100_000).refused
    }

    #[test]
    fn rate_is_sustained_without_loss_on_time_and_within_the_bound() {
        assert_eq!(refused(|_, _, _| {}), "");
        assert_eq!(refused(|_, _, received| received.lost = 1), "1 sample was lost");
        assert!(refused(|_, send, _| send.dropped = 2).starts_with("2 samples were dropped"));
        assert_eq!(refused(|probes, _, _| probes.answered = 1098), "2 probes were not answered");
        assert_eq!(refused(|probes, _, _| probes.achieved_per_s = 800.0), "only 80.0 % of the rate was sent");
        assert_eq!(refused(|probes, _, _| probes.from_intended.p99_ns = 100_001), "p99 exceeds 100 us");
    }

    #[test]
    fn few_probes_do_not_decide() {
        let few = |probes: &mut ProbeOutcome, _: &mut SendResult, _: &mut ThroughputResult| {
            (probes.sent, probes.answered, probes.from_intended.count) = (8, 8, 8);
        };
        assert_eq!(refused(few), "8 probes answered, too few for a p99");
        assert!(refuse_silence(0).unwrap_err().to_string().contains("no probe was answered"));
        assert_eq!((refuse_silence(0).unwrap_err().exit_code(), refuse_silence(1)), (1, Ok(())));
    }

    fn search_options(line: &str) -> SearchOptions {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            search: SearchOptions,
        }
        clap::Parser::try_parse_from(std::iter::once("search").chain(line.split_whitespace()))
            .map(|line: Line| line.search)
            .unwrap()
    }

    #[test]
    fn try_lasts_until_its_p99_has_ten_probes_above_it() {
        let time = |line: &str, rate_per_s, confirms| search_options(line).try_time(Try { rate_per_s, confirms });
        assert_eq!(time("--time 100", 100_000.0, false), Duration::from_millis(100));
        assert_eq!(time("--time 100", 100_000.0, true), Duration::from_millis(300));
        assert_eq!(time("--time 100", 500.0, false), Duration::from_millis(2200));
        assert_eq!(time("--time 100 --probe-every 2", 500.0, false), Duration::from_millis(4400));
        assert_eq!(time("--time 100", 100.0, false), LONGEST_TRY);
    }

    #[test]
    fn rate_without_enough_probes_is_refused_with_the_lowest_possible() {
        assert!(search_options("--first 100").check().is_ok());
        assert!(search_options("--first 11 --time 100000").check().is_ok(), "as long as asked for");
        let refused = |line: &str| search_options(line).check().unwrap_err().to_string();
        assert!(refused("--first 99").starts_with("--first 99: a try at this rate has fewer than the 1100 probes"));
        assert!(refused("--first 99").contains("use 100 or more"));
        assert!(refused("--probe-every 10 --first 5000 --highest 999").contains("--highest 999"));
        assert!(refused("--probe-every 18446744073709551615").contains("too large"));
    }

    #[test]
    fn rates_and_words_are_checked() {
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "nan", "inf", "many"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert!(refuse_words(&["-raw".into()]).is_ok());
        assert!(
            refuse_words(&["-datalen".into()]).unwrap_err().to_string().contains("-datalen is set by this command")
        );
    }
}

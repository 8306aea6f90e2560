//! Expands a plan into the list of its cases, in the order of measurement.

mod quick;

use std::time::Duration;

use peregrine_report::record::{Case, Delivery, Measurement, Publishing, Reliability, SideResult, Skipped, Test};

use super::programs::{self, PeerPrograms};
use super::series::{Carrier, Sealing, SeriesRunner, SeriesSpec, Variant};
use super::spec::{Exclude, List, Matrix, Pace, Plan, Wait, Waits};
use super::types::DataType;

/// Largest sample of a raw datagram: the limit of UDP over IPv4.
const MAX_RAW_LEN: u64 = crate::plan::MAX_DATAGRAM_LEN as u64;
/// Time of a case besides its warm-up and measurement, and time that each further process adds.
const CASE_COST: Duration = Duration::from_millis(200);
const PROCESS_COST: Duration = Duration::from_millis(30);
/// Time of a peer's case besides its warm-up and measurement: its processes first have to discover each other.
const PEER_COST: Duration = Duration::from_millis(350);
/// Time that a secured peer's case takes besides: its processes authenticate each other and exchange keys.
const HANDSHAKE_COST: Duration = Duration::from_millis(250);
/// Bytes per millisecond that peers move when a sample exceeds a message; for the time of the warm-up and of the last
/// sample.
const PEER_OCTETS_PER_MS: u64 = 12_000;
/// Length of a measurement and of its warm-up with `--quick`.
const QUICK_DURATION: Duration = Duration::from_millis(250);
const QUICK_WARM_UP: Duration = Duration::from_millis(50);

/// Conditions under which a plan runs.
#[derive(Debug)]
pub struct Conditions {
    /// Whether there is a far host.
    pub two_hosts: bool,
    /// The programs of peers.
    pub peers: PeerPrograms,
    /// Time limit of a quick run, which measures each case once, briefly, and skips combinations.
    pub quick: Option<Duration>,
}

/// The program that moves the samples of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CaseProgram {
    /// The parties of `super::party`, in this program.
    Own(Carrier),
    /// The program of a peer.
    Peer(&'static Variant),
    /// A thread of this process that seals and opens bytes.
    Sealing(Sealing),
}

/// One run of the processes of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCase {
    /// The series.
    pub series: &'static SeriesSpec,
    /// The program that moves the samples.
    pub mover: CaseProgram,
    /// Pace of the samples.
    pub pace: Pace,
    /// Type of the samples.
    pub data_type: DataType,
    /// Their size in bytes.
    pub data_len: u64,
    /// The remaining varied settings.
    pub case: Case,
    /// KEEP_LAST with this depth.
    pub history_depth: Option<u32>,
    /// How threads wait for samples.
    pub wait: Wait,
    /// Whether payloads are written and checked.
    pub patterns: bool,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// Length of the measurement.
    pub duration: Duration,
    /// Length of the warm-up.
    pub warm_up: Duration,
}

/// All cases of a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cases {
    /// Cases to be measured, in order.
    pub planned: Vec<PlannedCase>,
    /// Cases that cannot be measured or that a quick run skips, each once.
    pub skipped: Vec<Skipped>,
    /// Sizes of all samples in bytes, ascending.
    pub data_lens: Vec<u64>,
    /// The series, in the order of the plan.
    pub series: Vec<&'static SeriesSpec>,
    /// Repetitions of every measurement.
    pub repetitions: u32,
    /// Length of one measurement.
    pub duration: Duration,
    /// How threads wait for samples, over all cases.
    pub waits: Vec<Wait>,
    /// Whether payloads are written and checked.
    pub patterns: bool,
    /// Whether each of the two sides is bound to a core.
    pub pinned: bool,
}

/// One case, measured with every series.
type ComparedCases = Vec<(CandidateCase, CaseProgram)>;

/// A case before it is known whether it can be measured, and how often.
#[derive(Debug, Clone, PartialEq)]
struct CandidateCase {
    series: &'static SeriesSpec,
    pace: Pace,
    data_type: DataType,
    data_len: u64,
    case: Case,
    history_depth: Option<u32>,
}

impl Cases {
    /// Expands a plan.
    pub fn of(plan: &Plan, conditions: &Conditions) -> Self {
        let is_quick = conditions.quick.is_some();
        let mut cases = Self {
            repetitions: if is_quick { 1 } else { plan.repetitions.0 },
            duration: if is_quick { QUICK_DURATION.min(plan.duration_s.0) } else { plan.duration_s.0 },
            patterns: plan.patterns,
            pinned: plan.pinned,
            ..Self::default()
        };
        let whole = all_candidates(plan, |_| ());
        let thinned = is_quick.then(|| all_candidates(plan, Matrix::thin_out));
        let mut combinations: Vec<ComparedCases> = Vec::new();
        for asked in thinned.as_ref().unwrap_or(&whole) {
            match asked.mover(conditions) {
                Ok(mover) => match combinations.last_mut() {
                    Some(question) if question.iter().all(|(other, _)| other.is_comparable(asked)) => {
                        question.push((asked.clone(), mover));
                    }
                    _ => combinations.push(vec![(asked.clone(), mover)]),
                },
                Err(reason) => cases.skip(asked, reason),
            }
        }
        for asked in &whole {
            cases.note(asked);
            if thinned.as_ref().is_some_and(|thinned| !thinned.iter().any(|kept| kept.is_recorded_as(asked))) {
                let reason = asked.mover(conditions).err();
                cases.skip(asked, reason.unwrap_or_else(|| quick::THINNED_OUT.into()));
            }
        }
        // In the order of the tables, independent of the order of measurement.
        cases.series.sort_by_key(|series| SeriesSpec::all().iter().position(|known| known == *series));
        let warm_up = if is_quick { QUICK_WARM_UP.min(plan.warm_up_s.0) } else { plan.warm_up_s.0 };
        if let Some(limit) = conditions.quick {
            let cost = |question: &ComparedCases| -> Duration {
                question.iter().map(|(asked, mover)| cases.planned_case(asked, *mover, 0, warm_up).estimate()).sum()
            };
            let left_out = quick::keep_within(limit, &mut combinations, cost);
            left_out.iter().flatten().for_each(|(asked, _)| cases.skip(asked, quick::NO_TIME.into()));
        }
        cases.go_round(&combinations, warm_up);
        cases
    }

    /// Estimated time to measure all of `planned`.
    pub fn estimate<'a>(planned: impl IntoIterator<Item = &'a PlannedCase>) -> Duration {
        planned.into_iter().map(PlannedCase::estimate).sum()
    }

    fn note(&mut self, asked: &CandidateCase) {
        if !self.series.contains(&asked.series) {
            self.series.push(asked.series);
        }
        if let Some(wait) = asked.case.wait.filter(|wait| !self.waits.contains(wait)) {
            self.waits.push(wait);
        }
        if let Err(place) = self.data_lens.binary_search(&asked.data_len) {
            self.data_lens.insert(place, asked.data_len);
        }
    }

    fn skip(&mut self, asked: &CandidateCase, reason: String) {
        self.skipped.push(Skipped {
            series: asked.series.id.clone(),
            test: Some(test_of(asked.pace)),
            data_len: asked.data_len,
            repetition: None,
            case: asked.case.clone(),
            reason,
        });
    }

    /// In every repetition each case is measured with all series, starting with a different series each time, so that
    /// changes of the machine affect all of them.
    fn go_round(&mut self, combinations: &[ComparedCases], warm_up: Duration) {
        for repetition in 0..self.repetitions {
            for question in combinations {
                let turn = repetition as usize % question.len().max(1);
                for (asked, mover) in question.iter().cycle().skip(turn).take(question.len()) {
                    self.planned.push(self.planned_case(asked, *mover, repetition, warm_up));
                }
            }
        }
    }

    fn planned_case(
        &self,
        asked: &CandidateCase,
        mover: CaseProgram,
        repetition: u32,
        warm_up: Duration,
    ) -> PlannedCase {
        PlannedCase {
            series: asked.series,
            mover,
            pace: asked.pace,
            data_type: asked.data_type,
            data_len: asked.data_len,
            case: asked.case.clone(),
            history_depth: asked.history_depth,
            wait: asked.case.wait.unwrap_or_default(),
            patterns: self.patterns,
            repetition,
            duration: self.duration,
            warm_up,
        }
    }
}

impl PlannedCase {
    /// The test that this case belongs to.
    pub fn test(&self) -> Test {
        test_of(self.pace)
    }

    /// Makes a measurement of the results.
    pub(super) fn measurement(
        &self,
        publisher: SideResult,
        subscriber: SideResult,
        others: Vec<SideResult>,
    ) -> Measurement {
        Measurement {
            series: self.series.id.clone(),
            test: self.test(),
            data_len: self.data_len,
            repetition: self.repetition,
            block: None,
            case: Some(Box::new(self.case.clone())),
            publisher,
            subscriber,
            others,
        }
    }

    /// Records that the case was not measured.
    pub(super) fn not_measured(&self, repetition: Option<u32>, reason: String) -> Skipped {
        Skipped {
            series: self.series.id.clone(),
            test: Some(self.test()),
            data_len: self.data_len,
            repetition,
            case: self.case.clone(),
            reason,
        }
    }

    /// Estimated time.
    pub fn estimate(&self) -> Duration {
        let processes = match self.case.delivery {
            Delivery::SameProcess => 1,
            Delivery::SameHost | Delivery::TwoHosts => self.case.publishers + self.case.subscribers,
        };
        let cost = match self.mover {
            CaseProgram::Own(_) => CASE_COST,
            CaseProgram::Sealing(_) => Duration::ZERO,
            CaseProgram::Peer(variant) if variant.protection.is_some() => PEER_COST + HANDSHAKE_COST,
            CaseProgram::Peer(_) => PEER_COST,
        };
        // A case waits for samples that take longer than its measurement.
        let octets = match self.mover {
            CaseProgram::Own(_) | CaseProgram::Sealing(_) => Duration::ZERO,
            CaseProgram::Peer(_) => Duration::from_millis(self.data_len / PEER_OCTETS_PER_MS),
        };
        self.duration + self.warm_up + cost + octets + PROCESS_COST * processes
    }

    /// Identifies the case within its plan.
    pub fn key(&self) -> String {
        key(&self.series.id, self.test(), self.data_len, self.repetition, Some(&self.case))
    }

    /// A short description for people.
    pub fn describe(&self) -> String {
        let Case { publishers, subscribers, topics, reliability, publishing, delivery, .. } = &self.case;
        // The default is not printed.
        let wait = if self.wait == Wait::default() { String::new() } else { format!("wait {}, ", self.wait) };
        format!(
            "{}, {}, {} of {} B, {reliability}, {publishing}, {delivery}, {wait}{publishers} to {subscribers} on {topics} {}, \
             repetition {}",
            self.series.label,
            self.pace,
            self.data_type,
            self.data_len,
            if *topics == 1 { "topic" } else { "topics" },
            self.repetition + 1,
        )
    }
}

/// Key of the case of a measurement; see [`PlannedCase::key`].
pub fn key_of(measurement: &Measurement) -> String {
    key(
        &measurement.series,
        measurement.test,
        measurement.data_len,
        measurement.repetition,
        measurement.case.as_deref(),
    )
}

fn test_of(pace: Pace) -> Test {
    match pace {
        Pace::PingPong => Test::Latency,
        Pace::Unpaced => Test::Throughput,
        Pace::Rate(_) => Test::OpenLoop,
    }
}

fn key(series: &str, test: Test, data_len: u64, repetition: u32, case: Option<&Case>) -> String {
    format!("{series} {test:?} {data_len} {repetition} {case:?}")
}

impl CandidateCase {
    /// The program that moves the samples, or the reason why there is none.
    fn mover(&self, conditions: &Conditions) -> Result<CaseProgram, String> {
        match self.series.runner {
            SeriesRunner::Missing(reason) => Err(reason.into()),
            SeriesRunner::Peer(variant) => {
                conditions.peers.of(variant.peer)?;
                match programs::obstacle(&self.case, self.pace, self.history_depth) {
                    Some(reason) => Err(reason),
                    None => Ok(CaseProgram::Peer(variant)),
                }
            }
            SeriesRunner::Sealing(_)
                if matches!(self.pace, Pace::Rate(_)) || self.case.delivery != Delivery::SameHost =>
            {
                Err("bytes are sealed and opened by one thread, beside ping-pong and unpaced samples on one host"
                    .into())
            }
            SeriesRunner::Sealing(sealing) => Ok(CaseProgram::Sealing(sealing)),
            SeriesRunner::Own(_) if self.case.delivery == Delivery::TwoHosts && !conditions.two_hosts => {
                Err("the plan runs on one machine; this takes two hosts".into())
            }
            SeriesRunner::Own(Carrier::RawUdp) if self.data_len > MAX_RAW_LEN => {
                Err(format!("a datagram carries {MAX_RAW_LEN} bytes at most"))
            }
            SeriesRunner::Own(Carrier::RawUdp) if self.case.wait == Some(Wait::Listener) => {
                Err("plain sockets have no listener".into())
            }
            SeriesRunner::Own(carrier) => match carrier.obstacle(self.case.delivery, self.data_type) {
                Some(reason) => Err(reason),
                None => Ok(CaseProgram::Own(carrier)),
            },
        }
    }

    /// Plain datagrams have neither reliability, nor an asynchronous mode, nor types: cases that differ only in these
    /// are one case.
    fn fold(mut self) -> Self {
        if self.series.is_floor() {
            self.case.reliability = Reliability::BestEffort;
            self.case.publishing = Publishing::Synchronous;
            self.case.data_type = DataType::Octets.name().into();
            self.data_type = DataType::Octets;
            self.history_depth = None;
        }
        self
    }

    /// Whether a record cannot distinguish the two cases.
    fn is_recorded_as(&self, other: &Self) -> bool {
        (self.series, self.pace, self.data_len, &self.case) == (other.series, other.pace, other.data_len, &other.case)
    }

    /// Whether two cases differ only in their series and in settings that the floor does not have.
    fn is_comparable(&self, other: &Self) -> bool {
        let known = |asked: &Self| {
            let Case { rate_per_s, publishers, subscribers, topics, delivery, wait, .. } = asked.case;
            (asked.pace, asked.data_len, rate_per_s, publishers, subscribers, topics, delivery, wait)
        };
        let shape = |asked: &Self| (asked.case.reliability, asked.case.publishing, asked.data_type);
        let either_is_floor = self.series.is_floor() || other.series.is_floor();
        known(self) == known(other) && (either_is_floor || shape(self) == shape(other)) && self.series != other.series
    }
}

/// Every case of a plan, after `change` was applied to its matrices.
fn all_candidates(plan: &Plan, change: impl Fn(&mut Matrix)) -> Vec<CandidateCase> {
    let mut all = Vec::new();
    for matrix in &plan.matrix.0 {
        let mut matrix = matrix.clone();
        matrix.wait.get_or_insert_with(|| plan.wait.clone());
        change(&mut matrix);
        add_cases(&mut all, &matrix, plan);
    }
    all
}

/// Adds every combination of a matrix, with the series of one question adjacent.
fn add_cases(all: &mut Vec<CandidateCase>, matrix: &Matrix, plan: &Plan) {
    let series = matrix.compared(plan);
    for question in combinations(matrix) {
        for series in &series {
            let asked = CandidateCase { series, ..question.clone() };
            // With one sample in flight there is nothing to batch.
            let is_pointless = series.is_batched() && asked.pace == Pace::PingPong;
            if is_pointless || matrix.exclude.iter().any(|exclude| exclude.matches(&asked)) {
                continue;
            }
            let asked = asked.fold();
            if !all.iter().any(|other| other.is_recorded_as(&asked)) {
                all.push(asked);
            }
        }
    }
}

/// The combinations of all settings except the series.
fn combinations(matrix: &Matrix) -> Vec<CandidateCase> {
    let mut combinations = Vec::new();
    // Replaced by each of the compared series.
    let Some(placeholder) = SeriesSpec::all().first() else { return combinations };
    let waits = matrix.wait.clone().unwrap_or_default();
    for &pace in &matrix.rates.0 {
        for (data_type, data_len) in matrix.shapes() {
            for &delivery in &matrix.delivery.0 {
                for counts in matrix.counts() {
                    for (reliability, publishing, wait) in matrix.ways(&waits) {
                        combinations.push(CandidateCase {
                            series: placeholder,
                            pace,
                            data_type,
                            data_len,
                            case: Case {
                                rate_per_s: if let Pace::Rate(rate) = pace { Some(rate) } else { None },
                                publishers: counts[0],
                                subscribers: counts[1],
                                topics: counts[2],
                                reliability,
                                publishing,
                                delivery,
                                data_type: data_type.name().into(),
                                wait: Some(wait),
                            },
                            history_depth: matrix.history_depth.map(|depth| depth.0),
                        });
                    }
                }
            }
        }
    }
    combinations
}

impl Matrix {
    /// Combinations of types and sizes.
    fn shapes(&self) -> Vec<(DataType, u64)> {
        let sizes = || self.sizes.iter().flat_map(|sizes| sizes.0.iter().map(|size| size.0));
        let of_type = |data_type: &DataType| match data_type.fixed_len() {
            Some(len) => vec![(*data_type, len)],
            None => sizes().map(|len| (*data_type, len)).collect(),
        };
        self.types.0.iter().flat_map(of_type).collect()
    }

    /// Combinations of policies and wait methods.
    fn ways(&self, waits: &Waits) -> Vec<(Reliability, Publishing, Wait)> {
        let mut ways = Vec::new();
        for &reliability in &self.reliability.0 {
            for &publishing in &self.publishing.0 {
                ways.extend(waits.0.0.iter().map(|wait| (reliability, publishing, *wait)));
            }
        }
        ways
    }

    /// Combinations of the numbers of publishers, subscribers and topics.
    fn counts(&self) -> Vec<[u32; 3]> {
        let mut counts = Vec::new();
        for publishers in &self.publishers.0 {
            for subscribers in &self.subscribers.0 {
                counts.extend(self.topics.0.iter().map(|topics| [publishers.0, subscribers.0, topics.0]));
            }
        }
        counts
    }
}

impl Exclude {
    fn matches(&self, asked: &CandidateCase) -> bool {
        fn names<T>(list: Option<&List<T>>, is_value: impl Fn(&T) -> bool) -> bool {
            list.is_none_or(|list| list.0.iter().any(is_value))
        }
        names(self.rates.as_ref(), |rate| *rate == asked.pace)
            && names(self.types.as_ref(), |data_type| *data_type == asked.data_type)
            && names(self.sizes.as_ref(), |size| size.0 == asked.data_len)
            && names(self.subscribers.as_ref(), |count| count.0 == asked.case.subscribers)
            && names(self.publishers.as_ref(), |count| count.0 == asked.case.publishers)
            && names(self.topics.as_ref(), |count| count.0 == asked.case.topics)
            && names(self.reliability.as_ref(), |value| *value == asked.case.reliability)
            && names(self.publishing.as_ref(), |value| *value == asked.case.publishing)
            && names(self.delivery.as_ref(), |value| *value == asked.case.delivery)
            && names(self.wait.as_ref().map(|waits| &waits.0), |value| Some(*value) == asked.case.wait)
            && names(self.series.as_ref(), |name| name.0 == asked.series)
    }
}

#[cfg(test)]
mod tests;

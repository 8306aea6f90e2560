//! From a plan to the list of its cases, in the order in which they are measured.

use std::time::Duration;

use peregrine_report::record::{Case, Delivery, Measurement, Publishing, Reliability, Skipped, Test};

use super::series::{Carrier, SeriesRunner, SeriesSpec};
use super::spec::{Exclude, List, Matrix, Pace, Plan, Wait};
use super::types::DataType;

/// Largest sample of a raw datagram: what UDP over IPv4 takes.
const MAX_RAW_LEN: u64 = crate::plan::MAX_DATAGRAM_LEN as u64;
/// What a case takes beside its warm-up and its measurement, and what each further process adds.
const CASE_COST: Duration = Duration::from_millis(400);
const PROCESS_COST: Duration = Duration::from_millis(40);
/// With `--quick`: length of a measurement and of its warm-up, and most cases.
const QUICK_DURATION: Duration = Duration::from_millis(250);
const QUICK_WARM_UP: Duration = Duration::from_millis(50);
const QUICK_CASES: usize = 120;

/// One run of the processes of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCase {
    /// Who moves the samples.
    pub series: &'static SeriesSpec,
    /// With what.
    pub carrier: Carrier,
    /// When they are sent.
    pub pace: Pace,
    /// Their shape.
    pub data_type: DataType,
    /// Their size in bytes.
    pub data_len: u64,
    /// What else is varied.
    pub case: Case,
    /// KEEP_LAST with this depth.
    pub history_depth: Option<u32>,
    /// How threads wait for samples.
    pub wait: Wait,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// Length of the measurement.
    pub duration: Duration,
    /// Length of the time before it.
    pub warm_up: Duration,
}

/// Everything that a plan asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cases {
    /// What can be measured, in order.
    pub planned: Vec<PlannedCase>,
    /// What cannot, each once.
    pub skipped: Vec<Skipped>,
    /// Sizes of all samples in bytes, ascending.
    pub data_lens: Vec<u64>,
    /// The series, in the order of the plan.
    pub series: Vec<&'static SeriesSpec>,
    /// Repetitions of every measurement.
    pub repetitions: u32,
    /// Length of one measurement.
    pub duration: Duration,
}

/// A case before it is known whether and how often it can be measured.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    series: &'static SeriesSpec,
    pace: Pace,
    data_type: DataType,
    data_len: u64,
    case: Case,
    history_depth: Option<u32>,
}

impl Cases {
    /// All cases of a plan. `two_hosts` tells whether there is a far end; `quick` shortens everything.
    pub fn of(plan: &Plan, two_hosts: bool, quick: bool) -> Self {
        let mut asked = Vec::new();
        for matrix in &plan.matrix.0 {
            let mut matrix = matrix.clone();
            if quick {
                matrix.thin_out();
            }
            add_cases(&mut asked, &matrix, &plan.series.0.iter().map(|name| name.0).collect::<Vec<_>>());
        }
        let mut cases = Self {
            repetitions: if quick { 1 } else { plan.repetitions.0 },
            duration: if quick { QUICK_DURATION.min(plan.duration_s.0) } else { plan.duration_s.0 },
            ..Self::default()
        };
        let mut questions: Vec<Vec<(Asked, Carrier)>> = Vec::new();
        for asked in asked {
            cases.note(&asked);
            match asked.carrier(two_hosts) {
                Ok(carrier) => match questions.last_mut() {
                    Some(question) if question.iter().all(|(other, _)| other.is_same_question(&asked)) => {
                        question.push((asked, carrier));
                    }
                    _ => questions.push(vec![(asked, carrier)]),
                },
                Err(reason) => cases.skip(asked, reason),
            }
        }
        let warm_up = if quick { QUICK_WARM_UP.min(plan.warm_up_s.0) } else { plan.warm_up_s.0 };
        cases.go_round(&questions, plan.wait, warm_up);
        if quick {
            keep_evenly(&mut cases.planned, QUICK_CASES);
        }
        cases
    }

    /// About how long it takes to measure all of `planned`.
    pub fn estimate<'a>(planned: impl IntoIterator<Item = &'a PlannedCase>) -> Duration {
        planned.into_iter().map(PlannedCase::estimate).sum()
    }

    fn note(&mut self, asked: &Asked) {
        if !self.series.contains(&asked.series) {
            self.series.push(asked.series);
        }
        if let Err(place) = self.data_lens.binary_search(&asked.data_len) {
            self.data_lens.insert(place, asked.data_len);
        }
    }

    fn skip(&mut self, asked: Asked, reason: String) {
        let skipped = Skipped { series: asked.series.id.into(), data_len: asked.data_len, case: asked.case, reason };
        // Two paces of one case do not differ in a record of what was skipped.
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }

    /// In every repetition each question is put to all series, and each time another one begins, so that what changes on the
    /// machine meets all of them.
    fn go_round(&mut self, questions: &[Vec<(Asked, Carrier)>], wait: Wait, warm_up: Duration) {
        for repetition in 0..self.repetitions {
            for question in questions {
                let turn = repetition as usize % question.len().max(1);
                for (asked, carrier) in question.iter().cycle().skip(turn).take(question.len()) {
                    self.planned.push(PlannedCase {
                        series: asked.series,
                        carrier: *carrier,
                        pace: asked.pace,
                        data_type: asked.data_type,
                        data_len: asked.data_len,
                        case: asked.case.clone(),
                        history_depth: asked.history_depth,
                        wait,
                        repetition,
                        duration: self.duration,
                        warm_up,
                    });
                }
            }
        }
    }
}

impl PlannedCase {
    /// What it is for.
    pub fn test(&self) -> Test {
        match self.pace {
            Pace::PingPong => Test::Latency,
            Pace::Unpaced => Test::Throughput,
            Pace::Rate(_) => Test::OpenLoop,
        }
    }

    /// About how long it takes.
    pub fn estimate(&self) -> Duration {
        let processes = match self.case.delivery {
            Delivery::SameProcess => 1,
            Delivery::SameHost | Delivery::TwoHosts => self.case.publishers + self.case.subscribers,
        };
        self.duration + self.warm_up + CASE_COST + PROCESS_COST * processes
    }

    /// What tells it from every other case of its plan.
    pub fn key(&self) -> String {
        key(self.series.id, self.test(), self.data_len, self.repetition, Some(&self.case))
    }

    /// In a few words, for readers.
    pub fn describe(&self) -> String {
        let Case { publishers, subscribers, topics, reliability, publishing, delivery, .. } = &self.case;
        format!(
            "{}, {}, {} of {} B, {reliability}, {publishing}, {delivery}, {publishers} to {subscribers} on {topics} {}, \
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

/// The key of the case that a measurement was made for; see [`PlannedCase::key`].
pub fn key_of(measurement: &Measurement) -> String {
    key(
        &measurement.series,
        measurement.test,
        measurement.data_len,
        measurement.repetition,
        measurement.case.as_deref(),
    )
}

fn key(series: &str, test: Test, data_len: u64, repetition: u32, case: Option<&Case>) -> String {
    format!("{series} {test:?} {data_len} {repetition} {case:?}")
}

impl Asked {
    /// Who moves the samples; or why nobody can.
    fn carrier(&self, two_hosts: bool) -> Result<Carrier, String> {
        match self.series.runner {
            SeriesRunner::Missing(reason) => Err(reason.into()),
            SeriesRunner::Own(_) if self.case.delivery == Delivery::TwoHosts && !two_hosts => {
                Err("the plan runs on one machine; this takes two hosts".into())
            }
            SeriesRunner::Own(Carrier::RawUdp) if self.data_len > MAX_RAW_LEN => {
                Err(format!("a datagram carries {MAX_RAW_LEN} bytes at most"))
            }
            SeriesRunner::Own(carrier) => Ok(carrier),
        }
    }

    /// Plain datagrams know neither reliability nor a thread that sends nor shapes: such cases are one and the same.
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

    /// Whether a record would not tell one from the other.
    fn is_recorded_as(&self, other: &Self) -> bool {
        (self.series, self.pace, self.data_len, &self.case) == (other.series, other.pace, other.data_len, &other.case)
    }

    /// Whether two cases differ in nothing but their series, and what the floor does not know.
    fn is_same_question(&self, other: &Self) -> bool {
        let known = |asked: &Self| {
            let Case { rate_per_s, publishers, subscribers, topics, delivery, .. } = asked.case;
            (asked.pace, asked.data_len, rate_per_s, publishers, subscribers, topics, delivery)
        };
        let shape = |asked: &Self| (asked.case.reliability, asked.case.publishing, asked.data_type);
        let either_is_floor = self.series.is_floor() || other.series.is_floor();
        known(self) == known(other) && (either_is_floor || shape(self) == shape(other)) && self.series != other.series
    }
}

impl Matrix {
    /// Of every list the ends remain.
    fn thin_out(&mut self) {
        ends(&mut self.rates);
        ends(&mut self.types);
        if let Some(sizes) = &mut self.sizes {
            ends(sizes);
        }
        ends(&mut self.subscribers);
        ends(&mut self.publishers);
        ends(&mut self.topics);
        ends(&mut self.reliability);
        ends(&mut self.publishing);
        ends(&mut self.delivery);
    }
}

fn ends<T>(list: &mut List<T>) {
    let last = list.0.len().saturating_sub(1);
    let mut index = 0;
    list.0.retain(|_| {
        index += 1;
        index == 1 || index == last + 1
    });
}

/// Keeps so many values at most, spread evenly over the list.
fn keep_evenly<T>(values: &mut Vec<T>, most: usize) {
    let len = values.len();
    if len <= most {
        return;
    }
    let mut index = 0;
    values.retain(|_| {
        let kept = index * most / len != (index + 1) * most / len;
        index += 1;
        kept
    });
}

/// Every combination of a matrix, with the series of one question beside each other.
fn add_cases(all: &mut Vec<Asked>, matrix: &Matrix, series_of_plan: &[&'static SeriesSpec]) {
    let own_series = matrix.series.as_ref().map(|list| list.0.iter().map(|name| name.0).collect::<Vec<_>>());
    let series = own_series.as_deref().unwrap_or(series_of_plan);
    for question in questions(matrix) {
        for series in series {
            let asked = Asked { series, ..question.clone() };
            if matrix.exclude.iter().any(|exclude| exclude.matches(&asked)) {
                continue;
            }
            let asked = asked.fold();
            if !all.iter().any(|other| other.is_recorded_as(&asked)) {
                all.push(asked);
            }
        }
    }
}

/// The combinations of everything but the series.
fn questions(matrix: &Matrix) -> Vec<Asked> {
    let mut questions = Vec::new();
    let placeholder = &super::series::SERIES[0];
    for &pace in &matrix.rates.0 {
        for (data_type, data_len) in matrix.shapes() {
            for &delivery in &matrix.delivery.0 {
                for counts in matrix.counts() {
                    for &reliability in &matrix.reliability.0 {
                        for &publishing in &matrix.publishing.0 {
                            questions.push(Asked {
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
                                },
                                history_depth: matrix.history_depth.map(|depth| depth.0),
                            });
                        }
                    }
                }
            }
        }
    }
    questions
}

impl Matrix {
    /// Types and sizes.
    fn shapes(&self) -> Vec<(DataType, u64)> {
        let sizes = || self.sizes.iter().flat_map(|sizes| sizes.0.iter().map(|size| size.0));
        let of_type = |data_type: &DataType| match data_type.fixed_len() {
            Some(len) => vec![(*data_type, len)],
            None => sizes().map(|len| (*data_type, len)).collect(),
        };
        self.types.0.iter().flat_map(of_type).collect()
    }

    /// Publishers, subscribers, topics.
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
    fn matches(&self, asked: &Asked) -> bool {
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
            && names(self.series.as_ref(), |name| name.0 == asked.series)
    }
}

#[cfg(test)]
mod tests;

//! The ratios of each series to the floor of its record, to the other middlewares in it, and of secured series to the
//! unsecured one and to the rate that cryptography allows.

use crate::compare::{FEWEST_BLOCKS, Ratio, Verdict};
use crate::stats::Spread;
use crate::table::{Row, Run, Table, floor_of, paired};
use crate::view::{Strand, View};

/// The compared quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    LatencyP50,
    LatencyP99,
    SamplesPerS,
}

impl Measure {
    pub(crate) const ALL: [Self; 3] = [Self::LatencyP50, Self::LatencyP99, Self::SamplesPerS];

    fn of(self, run: &Run) -> Option<f64> {
        match self {
            Self::LatencyP50 => run.p50_ns,
            Self::LatencyP99 => run.p99_ns,
            Self::SamplesPerS => run.samples_per_s,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LatencyP50 => "latency p50",
            Self::LatencyP99 => "latency p99",
            Self::SamplesPerS => "samples/s",
        }
    }

    pub(crate) fn is_better_when_lower(self) -> bool {
        self != Self::SamplesPerS
    }
}

/// One row over another of the same record and conditions.
pub(crate) struct Versus<'a> {
    /// The reference.
    pub(crate) base: &'a Row,
    pub(crate) row: &'a Row,
    pub(crate) measure: Measure,
    /// The row over the base.
    pub(crate) ratio: Ratio,
    pub(crate) verdict: Verdict,
}

/// Every row over the floor of its kind.
pub(crate) fn to_floor(table: &Table) -> Vec<Versus<'_>> {
    let pairs = table.rows.iter().filter(|row| !row.floor).filter_map(|row| Some((floor_of(row, &table.rows)?, row)));
    pairs.flat_map(|(floor, row)| compare(floor, row)).collect()
}

/// Every row of ours over those of the other middlewares under the same conditions.
pub(crate) fn to_peers<'a>(view: &View<'a>) -> Vec<Versus<'a>> {
    let is_ours = |row: &&Row| strand(view, row).is_some_and(Strand::is_ours);
    let is_peer = |row: &&Row| strand(view, row).is_some_and(|s| !s.floor && !s.is_sealing() && !s.is_ours());
    let rows = &view.table.rows;
    let peers: Vec<&Row> = rows.iter().filter(is_peer).collect();
    let ours = rows.iter().filter(is_ours);
    ours.flat_map(|row| {
        let alike = peers.iter().copied().filter(move |peer| is_alike(row, peer));
        alike.flat_map(|peer| compare(peer, row)).collect::<Vec<_>>()
    })
    .collect()
}

/// Every row of a secured series over that of the same middleware and path without security under the same conditions:
/// the first one, if there are several.
pub(crate) fn to_unsecured<'a>(view: &View<'a>) -> Vec<Versus<'a>> {
    let rows = view.table.rows.iter();
    rows.filter_map(|row| Some((unsecured(view, row)?, row))).flat_map(|(base, row)| compare(base, row)).collect()
}

/// A secured rate beside the highest one that cryptography allows.
pub(crate) struct Bounded<'a> {
    pub(crate) row: &'a Row,
    /// Samples per second: the median of the bounds of all repetitions.
    pub(crate) bound: f64,
    /// The rate over the bound of its repetition.
    pub(crate) ratio: Ratio,
}

/// The definition of a bound, for readers.
pub(crate) const BOUND: &str = "The bound of a secured rate is what AES leaves of the rate of the same path without security in the same repetition, \
     with one core for each side: 1 / (1 / rate without security + 1 / rate of sealing alone or of opening alone, \
     whichever is lower).";

/// Every secured rate of this project beside its [`BOUND`].
pub(crate) fn to_bound<'a>(view: &View<'a>) -> Vec<Bounded<'a>> {
    view.table.rows.iter().filter_map(|row| bounded(view, row)).collect()
}

fn bounded<'a>(view: &View<'a>, row: &'a Row) -> Option<Bounded<'a>> {
    let rate = |run: &Run| run.samples_per_s;
    let secured = strand(view, row).filter(|strand| strand.is_ours())?;
    let plain = unsecured(view, row)?;
    let is_floor = |other: &Strand| other.is_sealing() && other.protection() == secured.protection();
    let sealing = find_alike(view, row, is_floor)?;
    let of_repetition =
        |base: &Row, repetition: u32| base.runs.iter().filter(|run| run.repetition == repetition).find_map(rate);
    let pairs: Vec<(f64, f64)> = row
        .runs
        .iter()
        .filter_map(|run| {
            let (plain, sealing) = (of_repetition(plain, run.repetition)?, of_repetition(sealing, run.repetition)?);
            Some(((plain.recip() + sealing.recip()).recip(), rate(run)?))
        })
        .collect();
    let bound = Spread::of(pairs.iter().map(|(bound, _)| *bound))?.median;
    Some(Bounded { row, bound, ratio: Ratio::of_pairs(&pairs)? })
}

/// The row of the same middleware and path without security, for that of a secured series.
fn unsecured<'a>(view: &View<'a>, row: &Row) -> Option<&'a Row> {
    let is_moving = |strand: &Strand| !strand.floor && !strand.is_sealing();
    let of = strand(view, row).filter(|strand| is_moving(strand) && strand.is_secured())?;
    find_alike(view, row, |other| {
        is_moving(other) && !other.is_secured() && other.product() == of.product() && other.has_path_of(of)
    })
}

fn find_alike<'a>(view: &View<'a>, row: &Row, is_it: impl Fn(&Strand) -> bool) -> Option<&'a Row> {
    view.table.rows.iter().find(|other| is_alike(row, other) && strand(view, other).is_some_and(&is_it))
}

fn strand<'v>(view: &'v View<'_>, row: &Row) -> Option<&'v Strand> {
    view.strand_of(row).and_then(|index| view.strands.get(index))
}

/// The same record, size and case; the sending thread may differ, because not every middleware has the choice.
fn is_alike(row: &Row, peer: &Row) -> bool {
    let conditions = |row: &Row| {
        row.case.as_ref().map(|case| {
            let counts = (case.publishers, case.subscribers, case.topics);
            (counts, case.reliability, case.delivery, case.data_type.clone(), case.wait)
        })
    };
    row.record == peer.record
        && row.data_len == peer.data_len
        && row.rate_per_s == peer.rate_per_s
        && conditions(row) == conditions(peer)
}

/// Compares repetitions that both have: they ran one after the other.
fn compare<'a>(base: &'a Row, row: &'a Row) -> Vec<Versus<'a>> {
    let of = |measure: Measure| {
        let ratio = Ratio::of_pairs(&paired(base, row, |run| measure.of(run)))?;
        Some(Versus { base, row, measure, verdict: ratio.verdict(FEWEST_BLOCKS, None), ratio })
    };
    Measure::ALL.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::table::Source;

    #[test]
    fn row_is_compared_with_its_floor_repetition_by_repetition() {
        let table = Table::of(&example::record());
        let versus = to_floor(&table);
        // Two sizes, the median latency and the rate; 100 samples are too few for a 99th percentile.
        let found: Vec<_> = versus.iter().map(|one| (one.row.data_len, one.measure.name(), one.ratio.count)).collect();
        assert_eq!(
            found,
            [(32, "latency p50", 3), (32, "samples/s", 3), (1024, "latency p50", 3), (1024, "samples/s", 3)]
        );
        assert!((versus[0].ratio.median - 2.0).abs() < 1e-9 && (versus[1].ratio.median - 0.5).abs() < 1e-9);
        assert_eq!(versus[0].verdict, Verdict::TooFew);
    }

    #[test]
    fn secured_series_are_compared_with_the_unsecured_one() {
        let sources = [Source { name: String::new(), record: example::security() }];
        let table = Table::of_all(&sources);
        let versus = to_unsecured(&View::new(&sources, &table));
        assert!(versus.iter().all(|one| one.base.series == "unsecured" && one.row.series.starts_with("security-")));
        let ratio = |series: &str, len: u64| {
            let of_it = |one: &&Versus<'_>| one.row.series == series && one.row.data_len == len;
            versus.iter().filter(of_it).find(|one| one.measure == Measure::LatencyP50).unwrap().ratio.median
        };
        assert!(ratio("security-data", 32) > ratio("security-sign", 32) && ratio("security-sign", 32) > 1.0);
        assert!(to_unsecured(&View::new(&[], &Table::of_all(&[]))).is_empty());
    }

    #[test]
    fn batched_secured_series_are_compared_with_the_batched_unsecured_one() {
        let sources = [Source { name: String::new(), record: example::secured_rates() }];
        let table = Table::of_all(&sources);
        let versus = to_unsecured(&View::new(&sources, &table));
        assert!(!versus.is_empty());
        for one in versus {
            let is_batched = |row: &Row| row.series.ends_with("-batched");
            assert_eq!(is_batched(one.base), is_batched(one.row), "{} over {}", one.row.series, one.base.series);
        }
    }

    #[test]
    fn bound_adds_sealing_to_the_time_per_sample_of_the_same_repetition() {
        let record = example::secured_rates();
        let sources = [Source { name: String::new(), record: record.clone() }];
        let table = Table::of_all(&sources);
        let bounded = to_bound(&View::new(&sources, &table));
        // Two levels, without and with batches, at each size; security without protection has nothing to seal.
        let found: Vec<&str> = bounded.iter().map(|one| &*one.row.series).collect();
        for series in ["peregrine-security-rtps-sign", "peregrine-security-rtps-encrypt-batched"] {
            assert!(found.contains(&series), "{found:?}");
        }
        assert!(!found.iter().any(|series| series.contains("-none") || series.starts_with("sealing-")), "{found:?}");
        for one in &bounded {
            let rate_of = |series: &str, repetition: u32| {
                let is_it = |run: &&crate::record::Measurement| {
                    (&*run.series, run.data_len, run.repetition) == (series, one.row.data_len, repetition)
                };
                let run = record.measurements.iter().find(is_it).unwrap();
                run.subscriber.throughput.as_ref().unwrap().samples_per_s()
            };
            let plain = if one.row.series.ends_with("-batched") { "peregrine-batched" } else { "peregrine" };
            let sealing = one.row.series.replace("peregrine-security-", "sealing-");
            let repetitions = || 0..record.header.repetitions;
            let bound_at = |at| 1.0 / (1.0 / rate_of(plain, at) + 1.0 / rate_of(&sealing, at));
            let ratio_at = |at| rate_of(&one.row.series, at) / bound_at(at);
            assert_eq!(one.ratio.count, repetitions().count());
            assert_is_median(one.bound, repetitions().map(bound_at).collect());
            assert_is_median(one.ratio.median, repetitions().map(ratio_at).collect());
        }
    }

    fn assert_is_median(found: f64, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        assert!((low * 0.999_999..=high * 1.000_001).contains(&found), "{found} of {values:?}");
    }

    #[test]
    fn sealing_alone_is_no_other_middleware() {
        let sources = [Source { name: String::new(), record: example::secured_rates() }];
        let table = Table::of_all(&sources);
        assert!(to_peers(&View::new(&sources, &table)).is_empty());
    }

    #[test]
    fn series_of_peregrine_are_compared_with_peers_only() {
        let sources = [Source { name: "peers".into(), record: example::campaign() }];
        let table = Table::of_all(&sources);
        let view = View::new(&sources, &table);
        let versus = to_peers(&view);
        assert!(!versus.is_empty());
        for one in &versus {
            let [row, base] = [one.row, one.base].map(|row| &view.strands[view.strand_of(row).unwrap()]);
            assert!(row.is_ours() && !base.is_ours() && !base.floor, "{} over {}", row.label, base.label);
            assert_eq!((one.row.data_len, one.row.rate_per_s), (one.base.data_len, one.base.rate_per_s));
        }
    }
}

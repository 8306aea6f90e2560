//! The ratios of each series to the floor of its record, to the other middlewares in it, and of secured series to the
//! unsecured one.

use crate::compare::{FEWEST_BLOCKS, Ratio, Verdict};
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
    let strand = |row: &Row| view.strand_of(row).and_then(|index| view.strands.get(index));
    let is_ours = |row: &&Row| strand(row).is_some_and(Strand::is_ours);
    let is_peer = |row: &&Row| strand(row).is_some_and(|strand| !strand.floor && !strand.is_ours());
    let rows = &view.table.rows;
    let peers: Vec<&Row> = rows.iter().filter(is_peer).collect();
    let ours = rows.iter().filter(is_ours);
    ours.flat_map(|row| {
        let alike = peers.iter().copied().filter(move |peer| is_alike(row, peer));
        alike.flat_map(|peer| compare(peer, row)).collect::<Vec<_>>()
    })
    .collect()
}

/// Every row of a secured series over that of the same middleware without security under the same conditions: the first
/// one, if there are several.
pub(crate) fn to_unsecured<'a>(view: &View<'a>) -> Vec<Versus<'a>> {
    let strand = |row: &Row| view.strand_of(row).and_then(|index| view.strands.get(index));
    let is_moving = |strand: &Strand| !strand.floor && !strand.is_sealing();
    let unsecured = |secured: &Row, product: &str| {
        view.table.rows.iter().find(|row| {
            is_alike(secured, row)
                && strand(row).is_some_and(|s| is_moving(s) && !s.is_secured() && s.product() == product)
        })
    };
    let pair = |row: &'a Row| {
        let of = strand(row).filter(|strand| is_moving(strand) && strand.is_secured())?;
        Some((unsecured(row, of.product())?, row))
    };
    view.table.rows.iter().filter_map(pair).flat_map(|(base, row)| compare(base, row)).collect()
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

//! Published figures of other projects that plans measure again, as printed there.
//!
//! Each file contains one document: its publisher, the measured machine, and its tables with their places in the
//! document. No value is computed, converted or read off a picture.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::record::{Record, Test};

/// One document.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Publication {
    /// Number among the reference documents of this project.
    pub(crate) document: String,
    /// Names of the plans that repeat its measurements.
    pub(crate) plans: Vec<String>,
    pub(crate) publisher: String,
    pub(crate) title: String,
    pub(crate) machine: String,
    pub(crate) tool: String,
    /// Whether it compares alternatives by bars.
    pub(crate) bars: bool,
    pub(crate) notes: Vec<String>,
    pub(crate) tables: Vec<PublishedTable>,
}

/// One series of a table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedTable {
    /// Its heading in the document.
    pub(crate) place: String,
    pub(crate) series: String,
    pub(crate) test: Test,
    /// Whether the others can be compared with it.
    pub(crate) floor: bool,
    /// Names with units; the first is `data_len`.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<f64>>,
}

impl PublishedTable {
    /// The median in microseconds, the average where no median is printed; or megabits (10⁶) per second.
    pub(crate) fn value_at(&self, data_len: u64) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.first().is_some_and(|len| *len == data_len as f64))?;
        let names: &[&str] = if self.test == Test::Latency { &["p50_us", "ave_us"] } else { &["mbit_per_s"] };
        let column = names.iter().find_map(|name| self.columns.iter().position(|column| column == name))?;
        row.get(column).copied()
    }

    /// Sizes in bytes, ascending.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.rows.iter().filter_map(|row| row.first()).map(|len| *len as u64)
    }
}

/// The documents whose measurements the plan of a record repeats.
pub(crate) fn asked_by(record: &Record) -> Vec<&'static Publication> {
    let Some(plan) = &record.header.plan else { return Vec::new() };
    PUBLICATIONS.iter().filter(|publication| publication.plans.contains(&plan.name)).collect()
}

static PUBLICATIONS: LazyLock<Vec<Publication>> = LazyLock::new(|| {
    let texts = [
        include_str!("raspberry-pi.json"),
        include_str!("large-data.json"),
        include_str!("security.json"),
        include_str!("micro.json"),
        include_str!("tsc-2021.json"),
    ];
    // An unreadable file is skipped here and fails the test below: a report matters more than a comparison in it.
    texts.into_iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PlanFacts;

    fn asked(name: &str) -> Vec<&'static Publication> {
        let mut record = Record::default();
        record.header.plan = Some(Box::new(PlanFacts { name: name.into(), ..PlanFacts::default() }));
        asked_by(&record)
    }

    #[test]
    fn every_document_reads_and_every_row_has_its_columns() {
        assert_eq!(PUBLICATIONS.len(), 5);
        for publication in PUBLICATIONS.iter() {
            for table in &publication.tables {
                assert_eq!(table.columns[0], "data_len");
                assert!(!table.rows.is_empty() && !table.place.is_empty() && !table.series.is_empty());
                for row in &table.rows {
                    assert_eq!(row.len(), table.columns.len(), "{}", table.place);
                    assert!(table.value_at(row[0] as u64).is_some(), "{}", table.place);
                }
                assert!(table.sizes().is_sorted(), "{}", table.place);
            }
        }
    }

    #[test]
    fn plans_find_their_documents_and_their_figures() {
        let documents = |name: &str| asked(name).iter().map(|found| found.document.as_str()).collect::<Vec<_>>();
        assert_eq!(documents("raspberry-pi"), ["000", "003"]);
        assert_eq!(documents("large-data"), ["001"]);
        assert_eq!(documents("security"), ["002"]);
        assert_eq!(documents("tsc-2021"), ["004"]);
        assert!(documents("mine").is_empty() && asked_by(&Record::default()).is_empty());

        // By hand: the median of Connext Professional at 1024 bytes, the rate of Zero Copy at 50 MB, encrypted RTPS.
        let value = |plan: &str, series: &str, test: Test, data_len| {
            let tables = asked(plan).into_iter().flat_map(|publication| &publication.tables);
            tables
                .filter(|table| table.series == series && table.test == test)
                .find_map(|table| table.value_at(data_len))
        };
        assert_eq!(value("raspberry-pi", "Connext Professional 6.0.0", Test::Latency, 1024), Some(907.0));
        assert_eq!(value("large-data", "shared memory, Zero Copy", Test::Throughput, 52_428_800), Some(1_758_308.0));
        assert_eq!(value("security", "RTPS Encrypt", Test::Latency, 32_768), Some(195.0));
        assert_eq!(value("raspberry-pi", "Raspberry Pi 4, reliable, keyed", Test::Throughput, 63_000), Some(520.3));
        assert_eq!(value("raspberry-pi", "raw sockets", Test::Latency, 33), None);
    }
}

//! `perftest compare`: whether two records differ.

use std::path::PathBuf;

use peregrine_report::compare;
use peregrine_report::record::{Record, Series};

use crate::characterize::read_record;
use crate::error::Error;
use crate::terminal::print_text;

/// Which records to compare.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Folder of record A
    a: PathBuf,
    /// Folder of record B; without it, the interleaved blocks or two series of A are compared
    b: Option<PathBuf>,
    /// Compare this series of A, by its name or by the label that the tables print ...
    #[arg(long, value_name = "SERIES", requires = "series_b")]
    series_a: Option<String>,
    /// ... with this series of B
    #[arg(long, value_name = "SERIES", requires = "series_a")]
    series_b: Option<String>,
    /// Print the comparisons as JSON
    #[arg(long)]
    json: bool,
}

/// Prints one line per comparison.
pub fn run(options: &Options) -> Result<(), Error> {
    let (a, _) = read_record(&options.a)?;
    let other = options.b.as_ref().map(|folder| read_record(folder)).transpose()?.map(|(record, _)| record);
    let b = other.as_ref().unwrap_or(&a);
    let series = match options.series_a.as_deref().zip(options.series_b.as_deref()) {
        None => None,
        Some((name_a, name_b)) => Some((series_id(&a, "--series-a", name_a)?, series_id(b, "--series-b", name_b)?)),
    };
    let compared = compare::compare(&a, b, series);
    if compared.is_empty() {
        let hint = if other.is_none() && series.is_none() {
            "The record has no interleaved blocks ('perftest ab' makes them). Name a second record, or two series with \
             --series-a and --series-b"
        } else {
            "The two sides have no measurement of the same kind and size in common"
        };
        let names_b = other.as_ref().map_or_else(String::new, |record| format!("\n{}", names(record)));
        return Err(Error::Setup(format!("{hint}. Series:\n{}{names_b}", names(&a))));
    }
    if options.json {
        let text = serde_json::to_string_pretty(&compared)
            .map_err(|error| Error::Transfer(format!("Cannot write JSON: {error}")))?;
        return print_text(&(text + "\n"));
    }
    print_text(&compare::render(&compared))
}

/// The series with this name or table label.
fn series_id<'a>(record: &'a Record, option: &str, name: &str) -> Result<&'a str, Error> {
    let series = &record.header.series;
    let of_name = series.iter().find(|series| series.id == name);
    let mut of_label = series.iter().filter(|series| series.label == name);
    match (of_name, of_label.next(), of_label.next()) {
        (Some(series), ..) | (None, Some(series), None) => Ok(&series.id),
        (None, Some(_), Some(_)) => Err(Error::Setup(format!(
            "{option} '{name}' is the label of several series; use a name:\n{}",
            names(record)
        ))),
        (None, None, _) => {
            Err(Error::Setup(format!("{option} '{name}': no such series in the record. Series:\n{}", names(record))))
        }
    }
}

/// One line with name and label for each series of a record. Labels may contain commas.
fn names(record: &Record) -> String {
    let line = |series: &Series| format!("  {} ({})", series.id, series.label);
    record.header.series.iter().map(line).collect::<Vec<_>>().join("\n")
}

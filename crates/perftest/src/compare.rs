//! `perftest compare`: whether two records differ.

use std::path::PathBuf;

use peregrine_report::compare;

use crate::characterize::read_record;
use crate::error::Error;
use crate::terminal::print_text;

/// Which records to compare.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The folder that holds the record of A
    a: PathBuf,
    /// The folder that holds the record of B; without it, A's interleaved blocks or two series of A are compared
    b: Option<PathBuf>,
    /// Compare this series of A ...
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
    let b = options.b.as_ref().map(|folder| read_record(folder)).transpose()?.map(|(record, _)| record);
    let series = options.series_a.as_deref().zip(options.series_b.as_deref());
    let compared = compare::compare(&a, b.as_ref().unwrap_or(&a), series);
    if compared.is_empty() {
        let names = |record: &peregrine_report::record::Record| {
            record.header.series.iter().map(|series| series.id.as_str()).collect::<Vec<_>>().join(", ")
        };
        let theirs = b.as_ref().map_or_else(String::new, |record| format!("; {}", names(record)));
        let hint = if b.is_none() && series.is_none() {
            "The record has no interleaved blocks ('perftest ab' makes them). Name a second record, or two series with \
             --series-a and --series-b"
        } else {
            "The records have no measurement in common, of the same kind and size"
        };
        return Err(Error::Setup(format!("{hint}. Series: {}{theirs}", names(&a))));
    }
    if options.json {
        let text = serde_json::to_string_pretty(&compared)
            .map_err(|error| Error::Transfer(format!("Cannot write JSON: {error}")))?;
        return print_text(&(text + "\n"));
    }
    print_text(&compare::render(&compared))
}

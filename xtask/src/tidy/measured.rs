//! Compares the tables of the README with the record that it names.

use std::path::Path;

use anyhow::{Context, Result};
use peregrine_report::record::Record;
use peregrine_report::render::{MARKS, between_marks, markdown};

use super::findings::Findings;

const README: &str = "README.md";
const RECORD: &str = "docs/measurements/readme/record.jsonl";

/// Requires tables and record to exist together and to agree.
pub(super) fn check(root: &Path, findings: &mut Findings) -> Result<()> {
    let readme = std::fs::read_to_string(root.join(README)).context("README.md cannot be read")?;
    let record = match std::fs::read(root.join(RECORD)) {
        Ok(bytes) => Some(Record::read(bytes.as_slice()).with_context(|| format!("{RECORD} cannot be read"))?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("{RECORD} cannot be read")),
    };
    if let Some(error) = disagreement(&readme, record.as_ref()) {
        findings.error(README, error);
    }
    Ok(())
}

fn disagreement(readme: &str, record: Option<&Record>) -> Option<String> {
    let has_tables = MARKS.iter().all(|mark| readme.contains(mark));
    match record {
        None => has_tables.then(|| format!("its tables have no record: {RECORD} is missing")),
        Some(_) if !has_tables => Some(format!("the tables of {RECORD} are not in it: {} is missing", MARKS[0])),
        Some(record) => (between_marks(readme, &markdown(record)).as_deref() != Some(readme)).then(|| {
            format!("its tables are not those of {RECORD}; perftest report docs/measurements/readme --markdown --into {README}")
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_without_record_are_refused() {
        let record = Record::default();
        let with = |text: &str| format!("a\n{}\n{text}{}\nb\n", MARKS[0], MARKS[1]);
        assert_eq!(disagreement("no tables", None), None);
        assert!(disagreement(&with(""), None).unwrap().contains("is missing"));
        assert!(disagreement("no tables", Some(&record)).unwrap().contains("are not in it"));
        assert!(disagreement(&with("old"), Some(&record)).unwrap().contains("--markdown --into"));
        assert_eq!(disagreement(&with(&markdown(&record)), Some(&record)), None);
    }
}

//! The results, as text and as JSON.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use crate::attacks::Attack;
use crate::limits::{Expected, Failure, GIVE_UP_AFTER};
use crate::measure::Measured;

/// An attack and what it did.
pub(crate) struct Row {
    pub(crate) attack: &'static Attack,
    pub(crate) expected: Expected,
    pub(crate) measured: Measured,
    /// All limits passed, known misses too.
    pub(crate) passed: Vec<Failure>,
    pub(crate) failures: Vec<Failure>,
}

impl Row {
    fn verdict(&self) -> &'static str {
        match (self.failures.is_empty(), self.passed.is_empty()) {
            (false, _) => "FAILED",
            (true, false) => "known miss",
            (true, true) => "held",
        }
    }
}

/// The names and summaries of attacks: on any victim, and on one with DDS Security only.
pub(crate) fn list(attacks: &[Attack], secured: &[Attack]) -> String {
    let mut out = String::new();
    for attack in attacks {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{:<28} {}", attack.name, attack.summary);
        if let Some(reason) = attack.expected.reason() {
            let _ = writeln!(out, "{:<28} known miss without --secured: {reason}", "");
        }
    }
    for attack in secured {
        let _ = writeln!(out, "{:<28} with --secured only: {}", attack.name, attack.summary);
    }
    out
}

/// A table with one line for each attack.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<28} {:>9} {:>9} {:>9} {:>6} {:>8} {:>8} {:>5} {:>6} {:>6} {:>5} {:>7} {:>9} {:>11}",
        "",
        "sent",
        "back",
        "to peer",
        "ratio",
        "grown",
        "kept",
        "CPU",
        "drops",
        "healed",
        "lost",
        "gap",
        "whole",
        "newcomer"
    );
    let _ = writeln!(
        out,
        "{:<28} {:>9} {:>9} {:>9} {:>6} {:>8} {:>8} {:>5} {:>6} {:>6} {:>5} {:>7} {:>9} {:>11}  limits",
        "attack", "KiB", "KiB", "KiB", "", "KiB", "KiB", "%", "", "", "", "ms", "after ms", "ms"
    );
    for row in rows {
        let m = &row.measured;
        let kept = m.resident_after_bytes.saturating_sub(m.resident_before_bytes);
        let whole =
            m.whole_after().map_or(format!("> {}", GIVE_UP_AFTER.as_millis()), |after| after.as_millis().to_string());
        let _ = writeln!(
            out,
            "{:<28} {:>9} {:>9} {:>9} {:>6.1} {:>8} {:>8} {:>5} {:>6} {:>6} {:>5} {:>7} {:>9} {:>11}  {}",
            row.attack.name,
            m.sent_bytes >> 10,
            m.back_bytes >> 10,
            m.to_peer_bytes >> 10,
            m.ratio(true),
            m.growth_bytes() >> 10,
            kept >> 10,
            (m.cpu_ms * 100).checked_div(m.watched_ms).unwrap_or(0),
            m.kernel_drops,
            m.healed,
            m.lost(),
            m.longest_gap().as_millis(),
            whole,
            m.newcomer.map_or_else(String::new, |arrival| arrival.to_string()),
            row.verdict()
        );
    }
    for row in rows {
        if let (Some(reason), false) = (row.expected.reason(), row.passed.is_empty()) {
            let _ = writeln!(out, "known miss of {}: {reason}", row.attack.name);
        }
        for failure in &row.passed {
            let _ = writeln!(out, "{}: {}: {}", row.attack.name, failure.limit, failure.text);
        }
    }
    out
}

#[derive(Serialize)]
struct Record<'a> {
    attack: &'a str,
    actor: crate::limits::Actor,
    verdict: &'a str,
    known_miss: Option<&'a str>,
    ratio: f64,
    growth_bytes: u64,
    measured: &'a Measured,
    limits_passed: &'a [Failure],
    failures: &'a [Failure],
}

/// One JSON document with all rows.
pub(crate) fn json(rows: &[Row]) -> Result<String> {
    let record = |row: &Row| {
        let known_miss = row.expected.reason();
        serde_json::to_value(Record {
            attack: row.attack.name,
            actor: row.attack.actor,
            verdict: row.verdict(),
            known_miss,
            ratio: row.measured.ratio(true),
            growth_bytes: row.measured.growth_bytes(),
            measured: &row.measured,
            limits_passed: &row.passed,
            failures: &row.failures,
        })
    };
    let attacks = rows.iter().map(record).collect::<Result<Vec<_>, _>>()?;
    Ok(serde_json::to_string_pretty(&json!({ "attacks": attacks }))?)
}

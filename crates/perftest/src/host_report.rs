//! The facts and problems of the host, as lines of a record.

use peregrine_report::record::{Line, Warning};

use crate::doctor;
use crate::host;
use crate::terminal::message;

/// The facts of the host, and each of its problems as a warning, which is also printed. Call this before the host's
/// settings are changed for the measurement.
pub(crate) fn host_lines() -> Vec<Line> {
    let facts = host::gather();
    let findings = doctor::examine(&facts, &doctor::Circumstances::of_this_process());
    let mut lines = Vec::new();
    for finding in findings {
        message(format_args!("Note: {finding}"));
        lines.push(Line::Warning(Warning { text: finding.to_string() }));
    }
    lines.push(Line::Host(Box::new(facts)));
    lines
}

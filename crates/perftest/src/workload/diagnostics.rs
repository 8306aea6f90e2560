//! Diagnostics of the middleware on stderr.

use std::fmt::Write;

use super::side::status;
use crate::messaging::{EndpointReport, Messaging};
use crate::plan::Diagnostics;

/// `-showResourceLimits`, after all endpoints were created.
pub(super) fn report_limits<M: Messaging>(wanted: Diagnostics, messaging: &M) {
    if wanted.resource_limits {
        status(&text("Resource limits", &messaging.resource_limits()));
    }
}

/// `-cacheStats` and `-writerStats`, since the start of the process.
pub(super) fn report_counters<M: Messaging>(wanted: Diagnostics, messaging: &M) {
    if wanted.counters {
        status(&text("Cache statistics", &messaging.counters()));
    }
    if wanted.resent
        && let Some(resent) = messaging.resent()
    {
        status(&format!("Pulled (sent again): {} samples, {} fragments", resent.samples, resent.fragments));
    }
}

fn text(title: &str, reports: &[EndpointReport]) -> String {
    let mut text = format!("{title}:");
    for report in reports {
        let _ = write!(text, "\n\t{}:", report.title);
        for (label, value) in &report.lines {
            let _ = write!(text, "\n\t\t{label}: {value}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_indented_below_the_title() {
        let report =
            EndpointReport { title: "DataWriter of Throughput".into(), lines: vec![("Samples (max)", "50".into())] };
        let expected = "Resource limits:\n\tDataWriter of Throughput:\n\t\tSamples (max): 50";
        assert_eq!(text("Resource limits", &[report]), expected);
    }
}

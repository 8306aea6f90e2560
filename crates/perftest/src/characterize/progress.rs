//! Progress of the measurement: a bar on a terminal, a line per pair of processes elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use peregrine_report::record::Test;

use crate::terminal::message;

/// Printed to stderr, so that stdout contains only the result.
pub(crate) struct Progress {
    bar: ProgressBar,
    plain: bool,
}

impl Progress {
    /// `total` is the number of steps.
    pub(crate) fn start(total: usize) -> Self {
        let plain = !std::io::stderr().is_terminal();
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        let style = ProgressStyle::with_template("{bar:32} {pos}/{len}  {msg}  {elapsed} of about {duration}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Self { bar, plain }
    }

    /// The next pair of processes starts.
    pub(crate) fn begin(&self, series: &str, test: Test, repetition: u32) {
        let test = match test {
            Test::Latency => "latency",
            Test::Throughput => "throughput",
            Test::OpenLoop => "open loop",
        };
        self.announce(format!("{series}, {test}, repetition {}", repetition + 1));
    }

    /// The measurement that `text` names starts.
    pub(crate) fn announce(&self, text: String) {
        if self.plain {
            message(format_args!("{text} ({} of {} done)", self.bar.position(), self.bar.length().unwrap_or(0)));
        } else {
            self.bar.set_message(text);
        }
    }

    /// One size is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// Prints a permanent line.
    pub(crate) fn message(&self, text: &str) {
        if self.plain {
            message(text);
        } else {
            self.bar.println(text);
        }
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

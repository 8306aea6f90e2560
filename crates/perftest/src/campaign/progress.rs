//! Progress of a campaign and its remaining time: a bar on a terminal, a line per case elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::message;

use super::cases::PlannedCase;

/// Printed to stderr, so that stdout contains only the result.
pub(super) struct Progress {
    bar: ProgressBar,
    plain: bool,
    /// Estimated time of the remaining cases.
    left: Duration,
}

impl Progress {
    /// `total` is the number of cases, `left` their estimated time.
    pub(super) fn start(total: usize, left: Duration) -> Self {
        let plain = !std::io::stderr().is_terminal();
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, plain, left }
    }

    /// A case starts.
    pub(super) fn begin(&self, planned: &PlannedCase) {
        let text = format!("{} left: {}", HumanDuration(self.left), planned.describe());
        if self.plain {
            message(format_args!("[{}/{}] {text}", self.bar.position() + 1, self.bar.length().unwrap_or(0)));
        } else {
            self.bar.set_message(text);
        }
    }

    /// A case has ended.
    pub(super) fn end_case(&mut self, planned: &PlannedCase) {
        self.left = self.left.saturating_sub(planned.estimate());
        self.bar.inc(1);
    }

    /// Prints a permanent line.
    pub(super) fn message(&self, text: &str) {
        if self.plain {
            message(text);
        } else {
            self.bar.println(text);
        }
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

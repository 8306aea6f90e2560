//! Processor time and memory.

use super::measured::{self, Quantity};
use crate::view::View;

const CPU: Quantity = Quantity {
    name: "Processor time",
    unit: "% of one core",
    pick: |row| Some(row.usage.as_ref()?.cpu_percent).filter(|_| row.rate_per_s.is_some()),
    companion: None,
};
/// Where nothing holds the writer back all cores are busy, and what counts is what a sample costs.
const CPU_PER_SAMPLE: Quantity = Quantity {
    name: "Processor time per sample",
    unit: "µs per sample received",
    pick: |row| row.usage.as_ref()?.cpu_us_per_sample.filter(|_| row.rate_per_s.is_none()),
    companion: None,
};
const MEMORY: Quantity = Quantity {
    name: "Memory",
    unit: "MiB",
    pick: |row| Some(row.usage.as_ref()?.rss_bytes?.scaled(1.0 / f64::from(1 << 20))),
    companion: None,
};

pub(super) fn section(view: &View<'_>) -> String {
    measured::section(
        view,
        "Processor time of all processes together, publishers and subscribers, in the program and in the kernel: as a \
         share of one core where samples left on a schedule, and for each sample that was received where they went as \
         fast as they could. Memory is what the largest of the processes held resident.",
        &[CPU, CPU_PER_SAMPLE, MEMORY],
    )
}

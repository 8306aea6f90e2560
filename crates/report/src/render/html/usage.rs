//! CPU time and memory.

use super::measured::{self, Quantity};
use crate::view::View;

const CPU: Quantity = Quantity {
    name: "CPU time",
    unit: "% of one core",
    pick: |row| Some(row.usage.as_ref()?.cpu_percent).filter(|_| row.rate_per_s.is_some()),
};
/// At full throughput all cores are busy, so the cost per sample is compared.
const CPU_PER_SAMPLE: Quantity = Quantity {
    name: "CPU time per sample",
    unit: "µs per sample received",
    pick: |row| row.usage.as_ref()?.cpu_us_per_sample.filter(|_| row.rate_per_s.is_none()),
};
const MEMORY: Quantity = Quantity {
    name: "Memory",
    unit: "MiB",
    pick: |row| Some(row.usage.as_ref()?.rss_bytes?.scaled(1.0 / f64::from(1 << 20))),
};

pub(super) fn section(view: &View<'_>) -> String {
    measured::section(
        view,
        "CPU time of all processes together, in user mode and in the kernel: as a share of one core at a fixed rate, and for \
         each received sample otherwise. Memory is the resident memory of the largest process; of programs of other \
         middleware, the peak.",
        &[CPU, CPU_PER_SAMPLE, MEMORY],
    )
}

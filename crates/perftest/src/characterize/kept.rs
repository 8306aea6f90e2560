//! The parts that all comparisons of series share: the record, the host, the cores, the report.

use std::path::Path;
use std::time::{Duration, SystemTime};

use peregrine_report::record::{End, Header, Line, SCHEMA_VERSION, Series};

use super::keeper::{self, Keeper};
use crate::campaign::placement::Placement;
use crate::error::Error;
use crate::host::{self, IdleStates};
use crate::report;
use crate::terminal::message;

/// Cores of the two sides; `None` if there is only one core.
pub(crate) type Cores = Option<(usize, usize)>;

/// A comparison, and the folder for its record.
pub(crate) struct Comparison<'a> {
    pub(crate) out: Option<&'a Path>,
    pub(crate) placement: &'a dyn Placement,
    pub(crate) command_line: Vec<String>,
    pub(crate) series: Vec<Series>,
    pub(crate) sizes: &'a [usize],
    pub(crate) repetitions: u32,
    pub(crate) time: Duration,
}

/// Records the measurements of `measure` and reports them, even if some failed.
pub(crate) fn keep(
    comparison: Comparison<'_>,
    measure: impl FnOnce(Cores, &mut Keeper) -> Result<(), Error>,
) -> Result<(), Error> {
    let created_utc = host::utc_text(SystemTime::now());
    let folder = keeper::folder(comparison.out, &created_utc);
    let mut keeper = Keeper::create(&folder)?;

    let host_lines = comparison.placement.host_lines()?;
    let idle_states = comparison.placement.keep_awake();
    message(&idle_states);
    let cores = comparison.placement.two_cores();
    keeper.keep(&Line::Header(Header {
        schema: SCHEMA_VERSION,
        tool: "perftest".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        created_utc,
        command_line: comparison.command_line,
        series: comparison.series,
        data_lens: comparison.sizes.iter().map(|size| *size as u64).collect(),
        repetitions: comparison.repetitions,
        measurement_ms: u64::try_from(comparison.time.as_millis()).unwrap_or(u64::MAX),
        pinned_cores: cores.map_or_else(Vec::new, |(first, second)| vec![first, second]),
        idle_states_disabled: matches!(idle_states, IdleStates::Disabled { .. }),
        plan: None,
    }))?;
    for line in host_lines {
        keeper.keep(&line)?;
    }

    let result = measure(cores, &mut keeper);
    let reason = result.as_ref().err().map_or_else(String::new, Error::to_string);
    keeper.keep(&Line::End(End { complete: result.is_ok(), reason }))?;
    keeper.finish()?;
    report::beside_record(&folder)?;
    result
}

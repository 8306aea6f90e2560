//! One run of a publisher and a subscriber at one size, for comparisons.

use std::time::Duration;

use peregrine_report::record::{SideResult, Test};

use super::pair::{Case, Pair};
use crate::campaign::placement::ThisMachine;
use crate::control::Stop;
use crate::error::Error;

/// Results of publisher and subscriber. `both` are options of both sides; `publisher` are additional options of the
/// publisher in a throughput test.
pub(crate) fn measure_cell(
    both: &[&str],
    publisher: &[&str],
    (test, size, time): (Test, usize, Duration),
    cores: Option<(usize, usize)>,
    stop: &Stop,
) -> Result<(SideResult, SideResult), Error> {
    let words = |options: &[&str]| options.iter().map(|option| (*option).into()).collect();
    let case = Case { both: words(both), publisher: words(publisher) };
    let mut pair = Pair::start(&case, test, &[size], time, cores, &ThisMachine)?;
    let results = pair.next_size(stop)?.ok_or(Error::Interrupted)?;
    pair.finish()?;
    Ok(results)
}

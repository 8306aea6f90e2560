//! One run of a publisher and a subscriber at one size, for whoever compares them with something else.

use std::time::Duration;

use peregrine_report::record::{SideResult, Test};

use super::pair::{Case, Pair};
use crate::campaign::placement::ThisMachine;
use crate::control::Stop;
use crate::error::Error;

/// The results of both sides, publisher's and subscriber's: `both` are options of both of them, `publisher` those that the
/// publisher of a throughput test has besides.
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

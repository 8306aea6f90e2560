//! A participant that comes while an attack lasts, and how long it takes to exchange a sample with the victim.

use std::fmt;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use peregrine::Error;
use serde::Serialize;

use crate::conditions::Conditions;
use crate::limits::{NEWCOMER_AFTER_MAX, NEWCOMER_ATTACKED_FOR};
use crate::roles::{Greeting, NEWCOMERS_IN, NEWCOMERS_OUT, participant};

/// From the start of a newcomer until it has a sample of the victim and the victim has acknowledged one of its own.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Arrival {
    /// Before the attack.
    pub(crate) alone: Duration,
    /// During the attack, or begun during it. `None` if the newcomer has given up.
    pub(crate) beside: Option<Duration>,
    /// The part of this time after the attack. Zero if the attack lasted longer.
    pub(crate) after: Duration,
}

impl fmt::Display for Arrival {
    /// Milliseconds before the attack and during it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.alone.as_millis())?;
        match self.beside {
            Some(beside) => write!(f, "{}", beside.as_millis()),
            None => f.write_str("never"),
        }
    }
}

/// The domain that newcomers join.
#[derive(Clone, Debug)]
pub(crate) struct NewcomerPlan {
    domain: u32,
    tag: String,
    documents: Option<PathBuf>,
    /// From the begin of an attack to the start of the newcomer.
    wait: Duration,
}

impl NewcomerPlan {
    /// A secured newcomer has the certificate of the honest peer.
    pub(crate) fn new(conditions: &Conditions, tag: &str) -> Self {
        let documents = conditions.documents.as_ref().map(|folder| folder.join("peer"));
        Self { domain: conditions.domain, tag: tag.to_owned(), documents, wait: conditions.duration / 2 }
    }

    /// The time of a newcomer without an attack.
    pub(crate) fn time_alone(&self) -> Result<Duration> {
        match self.time()? {
            Some(time) => Ok(time),
            None => bail!("a newcomer exchanges no sample with the victim within {PATIENCE:?} without an attack"),
        }
    }

    /// Starts a newcomer in the middle of an attack that begins now.
    pub(crate) fn start(&self) -> Newcomer {
        let (plan, starts_at) = (self.clone(), Instant::now() + self.wait);
        let thread = thread::spawn(move || {
            thread::sleep(starts_at.saturating_duration_since(Instant::now()));
            plan.time()
        });
        Newcomer { thread, starts_at }
    }

    fn time(&self) -> Result<Option<Duration>> {
        let start = Instant::now();
        let participant = participant(self.domain, &self.tag, self.documents.as_deref())?;
        let reader = participant.topic::<Greeting>(NEWCOMERS_OUT)?.reader_builder().reliable().transient_local();
        let reader = reader.build()?;
        let writer = participant.topic::<Greeting>(NEWCOMERS_IN)?.writer_builder().reliable().keep_last(1).build()?;
        let left = || PATIENCE.saturating_sub(start.elapsed());
        let exchange = || -> Result<(), Error> {
            writer.wait_for_readers(1, left())?;
            writer.write(&Greeting { number: 2 })?;
            reader.wait_for_data(left())?;
            writer.wait_for_acknowledgments(left())
        };
        match exchange() {
            Ok(()) => Ok(Some(start.elapsed())),
            Err(Error::Timeout(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// How long a newcomer tries: beside the attack, and twice as long after it as it may take then.
const PATIENCE: Duration = NEWCOMER_ATTACKED_FOR.saturating_add(NEWCOMER_AFTER_MAX.saturating_mul(2));

/// A newcomer under way.
pub(crate) struct Newcomer {
    thread: JoinHandle<Result<Option<Duration>>>,
    starts_at: Instant,
}

impl Newcomer {
    /// Whether the attack goes on for it: it has not exchanged its samples, and has not tried for long.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.thread.is_finished() && self.starts_at.elapsed() < NEWCOMER_ATTACKED_FOR
    }

    /// Its time, and the part of this time from now on, the end of the attack. The first is `None` if it has given up.
    pub(crate) fn times(self) -> Result<(Option<Duration>, Duration)> {
        let end = Instant::now();
        let beside = self.thread.join().ok().context("the newcomer panicked")??;
        let until = self.starts_at + beside.unwrap_or(PATIENCE);
        Ok((beside, until.saturating_duration_since(end)))
    }
}

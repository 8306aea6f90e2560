//! `perftest`: measures how a machine and its network move DDS samples, compared with the raw-socket floor.
//!
//! A command line ([`cli`]) becomes a plan ([`plan`]). The workload sends or receives samples through an implementation
//! of [`messaging`], follows the protocol of [`control`], and passes its results to [`output`].
#![forbid(unsafe_code)]
// These macros panic on a closed stream; `terminal` prints instead.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod campaign;
pub mod characterize;
pub mod cli;
pub mod clock;
pub mod compare;
pub mod control;
pub mod doctor;
mod documents;
mod domain;
pub mod error;
pub mod floors;
pub mod host;
mod host_report;
pub mod messaging;
pub mod open_loop;
pub mod output;
pub mod pace;
pub mod payload;
pub mod peers;
pub mod places;
pub mod plan;
pub mod process;
pub mod protection;
pub mod recorder;
pub mod report;
pub mod resources;
pub mod scale;
#[cfg(feature = "security")]
pub mod security;
pub mod selftest;
pub mod terminal;
pub mod threads;
pub mod topic;
mod wire;
mod wording;
pub mod workload;

use std::sync::Arc;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::{Invocation, parse};
use crate::control::Stop;
use crate::error::Error;
use crate::messaging::Messaging;
use crate::messaging::dds::{DdsMessaging, OverDds, TestType, over_dds};
use crate::messaging::raw::RawMessaging;
use crate::messaging::raw_shm::RawShmMessaging;
use crate::output::{Output, banner};
use crate::plan::{TestPlan, TransportKind};
use crate::terminal::{Stderr, message, print_text};

/// The module of Peregrine that reports authentication and refusals.
const SECURITY_MESSAGES: &str = "peregrine::driver::session::security";

/// Runs RTI Perftest's command line; `words` are the arguments.
pub fn run_command_line(words: &[String], stop: &Arc<Stop>) -> Result<(), Error> {
    let options = match parse(words)? {
        Invocation::Help => return print_text(&cli::usage()),
        Invocation::Run(options) => options,
    };
    if let Some([publisher, subscriber]) = plan::resolve_both(&options)? {
        threads::apply_to_process(&publisher.threads)?;
        show_messages(&publisher);
        return over_dds(&publisher, RunBoth { publisher: &publisher, subscriber: &subscriber, stop });
    }
    let plan = plan::resolve(&options)?;
    threads::apply_to_process(&plan.threads)?;
    match plan.transport.kind {
        TransportKind::SharedMemory if plan.transport.raw => {
            return run_plan(&plan, &RawShmMessaging::new(&plan)?, stop);
        }
        _ if plan.transport.raw => return run_plan(&plan, &RawMessaging::new(&plan)?, stop),
        _ => {}
    }
    show_messages(&plan);
    over_dds(&plan, Run { plan: &plan, stop })
}

/// A test of RTI Perftest's command line.
struct Run<'a> {
    plan: &'a TestPlan,
    stop: &'a Arc<Stop>,
}

impl OverDds for Run<'_> {
    type Output = ();

    fn run<T: TestType>(self, messaging: &DdsMessaging<T>) -> Result<(), Error> {
        run_plan(self.plan, messaging, self.stop)
    }
}

/// A test with both sides in this process.
struct RunBoth<'a> {
    publisher: &'a TestPlan,
    subscriber: &'a TestPlan,
    stop: &'a Arc<Stop>,
}

impl OverDds for RunBoth<'_> {
    type Output = ();

    fn run<T: TestType>(self, messaging: &DdsMessaging<T>) -> Result<(), Error> {
        let subscriber = DdsMessaging::<T>::new(self.subscriber)?;
        let output = Output::open(&self.publisher.output)?;
        message(banner::version_line(&messaging.name()));
        message(banner::configuration_block(self.publisher, &messaging.configuration()).trim_end());
        let sides = [(self.publisher, messaging), (self.subscriber, &subscriber)];
        workload::run_both(sides, output, self.stop)
    }
}

/// Prints messages of the middleware to stderr. Messages of security have a level of their own.
fn show_messages(plan: &TestPlan) {
    let general = match plan.verbosity {
        0 => LevelFilter::OFF,
        1 => LevelFilter::ERROR,
        2 => LevelFilter::WARN,
        _ => LevelFilter::TRACE,
    };
    let mut levels = Targets::new().with_default(general);
    if let Some(security) = &plan.security {
        let own = match security.debug {
            0 => LevelFilter::OFF,
            1..=5 => LevelFilter::WARN,
            6 => LevelFilter::INFO,
            _ => LevelFilter::TRACE,
        };
        levels = levels.with_target(SECURITY_MESSAGES, own.max(general));
    }
    let subscriber = fmt().with_max_level(LevelFilter::TRACE).with_writer(|| Stderr).with_ansi(false).finish();
    // A program that uses this crate as a library may have installed its own subscriber.
    let _ = subscriber.with(levels).try_init();
}

fn run_plan<M: Messaging>(plan: &TestPlan, messaging: &M, stop: &Arc<Stop>) -> Result<(), Error> {
    let output = Output::open(&plan.output)?;
    message(banner::version_line(&messaging.name()));
    message(banner::configuration_block(plan, &messaging.configuration()).trim_end());
    workload::run(plan, messaging, output, stop)
}

//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

use crate::attacks::{ATTACKS, Attack, SECURED_ATTACKS};
use crate::conditions::Conditions;
use crate::judge::{Limits, measure_fairly};
use crate::roles;
use crate::security::Documents;
use crate::table::{self, Row};

/// Attacks a live participant over loopback, and fails if the damage passes a limit.
#[derive(Debug, Parser)]
#[command(name = "hostile", version)]
struct Options {
    /// Seconds that each attack lasts
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Seconds for which the victim is watched after each attack, at least
    #[arg(long, default_value_t = 1.0)]
    after: f64,
    /// Datagrams per second that an attacker sends; longer ones count for each 1,500 bytes
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// The domain in which victim and honest peer meet
    #[arg(long, default_value_t = 61)]
    domain: u32,
    /// Victim and honest peer use DDS Security; the attacker has no certificate
    #[arg(long)]
    secured: bool,
    /// Run this attack only; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// List the attacks and run none
    #[arg(long)]
    list: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Replaces the limit of bytes back for each byte, without any deduction
    #[arg(long, hide = true)]
    ratio_max: Option<f64>,
    /// Runs one of the processes that the program starts
    #[arg(long, hide = true)]
    role: Option<Role>,
    #[arg(long, hide = true, default_value = "")]
    tag: String,
    #[arg(long, hide = true, default_value_t = 0)]
    run: u64,
    /// The folder with the documents of DDS Security of the role
    #[arg(long, hide = true)]
    documents: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Victim,
    Peer,
}

/// Runs the program. Its status is 1 if a limit was passed or an attack could not be carried out, and 2 after
/// any other error.
#[must_use]
pub fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("hostile: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<bool> {
    if let Some(role) = options.role {
        let documents = options.documents.as_deref();
        roles::run(matches!(role, Role::Victim), options.domain, &options.tag, options.run, documents)?;
        return Ok(true);
    }
    if options.list {
        print!("{}", table::list(ATTACKS, SECURED_ATTACKS));
        return Ok(true);
    }
    let documents = if options.secured { Some(Documents::issue(options.domain)?) } else { None };
    let attacks = selected(&options.only, options.secured)?;
    let seconds = |value: f64| Duration::try_from_secs_f64(value).context("not a number of seconds");
    let conditions = Conditions {
        domain: options.domain,
        duration: seconds(options.seconds)?,
        after: seconds(options.after)?,
        rate: options.rate,
        documents: documents.as_ref().map(|documents| documents.folder().to_owned()),
    };
    let mut limits = Limits { is_secured: options.secured, ..Limits::default() };
    if let Some(ratio) = options.ratio_max {
        (limits.ratio, limits.deducts_entitled) = (ratio, false);
    }
    let (mut rows, mut is_carried_out) = (Vec::new(), true);
    for attack in attacks {
        let measured = match measure_fairly(attack, &conditions, &limits) {
            Ok(measured) => measured,
            Err(error) => {
                eprintln!("hostile: attack {} could not be carried out: {error:#}", attack.name);
                is_carried_out = false;
                continue;
            }
        };
        let passed = limits.passed(attack.may_cost_samples, &measured);
        let expected = attack.expected_of(options.secured);
        let failures = expected.failures(&passed, conditions.duration);
        for failure in &failures {
            eprintln!("hostile: attack {}: limit {}: {}", attack.name, failure.limit, failure.text);
        }
        rows.push(Row { attack, expected, measured, passed, failures });
    }
    match options.json {
        true => println!("{}", table::json(&rows)?),
        false => print!("{}", table::text(&rows)),
    }
    Ok(is_carried_out && rows.iter().all(|row| row.failures.is_empty()))
}

/// The attacks with these names, or all that make sense against such a victim.
fn selected(names: &[String], is_secured: bool) -> Result<Vec<&'static Attack>> {
    let sensible = ATTACKS.iter().chain(if is_secured { SECURED_ATTACKS } else { &[] });
    if names.is_empty() {
        return Ok(sensible.collect());
    }
    let find = |name: &String| match sensible.clone().find(|attack| attack.name == name) {
        Some(attack) => Ok(attack),
        None if SECURED_ATTACKS.iter().any(|attack| attack.name == name) => {
            bail!("the attack {name} needs a victim with DDS Security: add --secured")
        }
        None => bail!("there is no attack {name}; --list lists all"),
    };
    names.iter().map(find).collect()
}

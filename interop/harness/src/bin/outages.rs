//! Runs pairs of peers through outages and writes the tables of a document. `cargo xtask bench outages` builds the
//! peers and starts this program.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use peregrine_interop::outage::{
    Entry, Outage, PEERS, PairOf, Setup, Stalls, Watch, insert, observe_awake, outages, pairs, parse_pairs, program,
    render,
};
use peregrine_interop::{Error, NetNs, Peer, Qos, Result};

const USAGE: &str = "usage: outages [--quick] [--pairs WRITER:READER,...] [--only N,...] [--labs N] [--write DOCUMENT]";
/// Pairs of hosts at the same time. The processes are idle for most of the time.
const LABS: usize = 10;
/// How often a run is tried in which the machine stood still.
const ATTEMPTS: u32 = 6;
/// How often a run is started in which no data flow before the outage.
const STARTS: u32 = 3;
/// Long enough to see what is forgotten with a lease of ten seconds, and four announcements of every peer.
const WATCH: Watch = Watch { at_least: Duration::from_secs(12), at_most: Duration::from_secs(40) };
const QUICK_WATCH: Watch = Watch { at_least: Duration::from_secs(3), at_most: Duration::from_secs(20) };

struct Options {
    is_quick: bool,
    pairs: Vec<PairOf>,
    only: Option<Vec<usize>>,
    labs: usize,
    document: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(reason) => {
            eprintln!("error: {reason}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> std::result::Result<Options, String> {
    let mut options = Options { is_quick: false, pairs: pairs(), only: None, labs: LABS, document: None };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => options.is_quick = true,
            "--pairs" => options.pairs = parse_pairs(&value()?).map_err(|part| format!("no pair is called {part}"))?,
            "--only" => {
                let numbers: std::result::Result<_, _> = value()?.split(',').map(str::parse).collect();
                options.only = Some(numbers.map_err(|_| "--only needs numbers of outages".to_owned())?);
            }
            "--labs" => match value()?.parse() {
                Ok(labs) if labs > 0 => options.labs = labs,
                _ => return Err("--labs needs a number above 0".to_owned()),
            },
            "--write" => options.document = Some(value()?.into()),
            _ => return Err(format!("no option is called {word}")),
        }
    }
    Ok(options)
}

/// Runs everything; fails if a run failed, before any document changes.
fn run(options: &Options) -> std::result::Result<(), String> {
    let versions = versions().map_err(|error| error.to_string())?;
    let mut chosen = outages(options.is_quick);
    if let Some(only) = &options.only {
        let every = chosen.len();
        if let Some(unknown) = only.iter().find(|number| !(1..=every).contains(number)) {
            return Err(format!("the outages have the numbers 1 to {every}, not {unknown}"));
        }
        chosen = only.iter().map(|number| chosen[number - 1]).collect();
    }
    let repeated = Mutex::default();
    let entries = measure(options, &chosen, &repeated)?;
    let repeated = repeated.into_inner().unwrap_or_else(PoisonError::into_inner);
    let command = "cargo xtask bench outages";
    let text = render(&entries, &repeated, &versions, command);
    let Some(path) = &options.document else {
        println!("{text}");
        return Ok(());
    };
    let document = fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let document = insert(&document, &text).map_err(|reason| format!("{}: {reason}", path.display()))?;
    fs::write(path, document).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// The name and version that each peer states.
fn versions() -> Result<Vec<String>> {
    let host = NetNs::isolated()?;
    PEERS.iter().map(|(_, program)| Ok(Peer::start(&program()?, &host)?.version().to_owned())).collect()
}

/// Several pairs of hosts at a time; the longest outages first, so that no long one is left for the end.
fn measure(
    options: &Options,
    chosen: &[Outage],
    repeated: &Mutex<Vec<String>>,
) -> std::result::Result<Vec<Entry>, String> {
    let every = chosen.iter().flat_map(|outage| options.pairs.iter().map(|pair| (*pair, *outage)));
    let mut runs: Vec<(usize, (PairOf, Outage))> = every.enumerate().collect();
    let count = runs.len();
    runs.sort_by_key(|(_, (_, outage))| std::cmp::Reverse(outage.length));
    let queue = Mutex::new(VecDeque::from(runs));
    let done: Mutex<Vec<(usize, Entry)>> = Mutex::default();
    let failures: Mutex<Vec<String>> = Mutex::default();
    let stalls = Stalls::watch();
    let began = Instant::now();
    let work = || {
        // A guard in the condition of the loop would be held during its body.
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some((number, (pair, outage))) = next() {
            let what = format!("{} → {}: {outage}", pair.0, pair.1);
            match attempt(options, pair, outage, &stalls, repeated) {
                Ok(entry) => {
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((number, entry));
                    let (finished, at) = (done.len(), began.elapsed().as_secs());
                    eprintln!(
                        "[{finished}/{count}, {at} s] {what}: {:?}, {} lost",
                        entry.figures.flow, entry.figures.lost
                    );
                }
                Err(error) => {
                    eprintln!("FAILED {what}: {error}");
                    failures.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{what}: {error}"));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..options.labs.min(count) {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failures.is_empty() {
        return Err(format!("{} of {count} runs failed:\n  {}", failures.len(), failures.join("\n  ")));
    }
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, entry)| entry).collect())
}

/// Repeats a run in which no data flowed before the outage, and notes that.
fn attempt(
    options: &Options,
    pair: PairOf,
    outage: Outage,
    stalls: &Stalls,
    repeated: &Mutex<Vec<String>>,
) -> Result<Entry> {
    let setup = Setup {
        writer: program(pair.0)?,
        reader: program(pair.1)?,
        lease_ms: None,
        security: None,
        qos: Qos::default(),
        watch: if options.is_quick { QUICK_WATCH } else { WATCH },
    };
    let mut starts = 1;
    loop {
        match observe_awake(&setup, outage, stalls, ATTEMPTS) {
            Ok(figures) => return Ok(Entry { pair, outage, figures }),
            Err(Error::NotStarted(state)) if starts < STARTS => {
                let run = format!("{} → {}: {outage} ({state})", pair.0, pair.1);
                eprintln!("again, because no data flowed: {run}");
                repeated.lock().unwrap_or_else(PoisonError::into_inner).push(run);
                starts += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

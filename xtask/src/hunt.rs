//! `cargo xtask hunt`: finds tests that fail when their threads wait for a processor.
//!
//! Each test program runs pinned to one core, which it shares with a busy loop, in a network of its own. Every core
//! has such a loop and runs one program at a time, in rounds over all programs, until the budget is used up.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use cargo_metadata::Message;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::outcome::Outcome;
use crate::prerequisites;
use crate::stages::unit_tests;
use crate::workspace::Workspace;

/// The duration of the stage, in minutes.
const BUDGET: &str = "PEREGRINE_HUNT_MINUTES";
const BUDGET_MINUTES: u32 = 8;
/// The order of the programs in each round follows from this number.
const SEED: &str = "PEREGRINE_HUNT_SEED";
/// Set for the programs: their longest tests then measure less, because each wait for a processor takes milliseconds.
const HUNTED: &str = "PEREGRINE_HUNTED";
/// A program that runs longer counts as hanging.
const RUN_LIMIT: Duration = Duration::from_secs(5 * 60);
/// The stage stops after this number of failures.
const FAILURES_LIMIT: usize = 10;
/// The last lines of a failed program that are shown.
const LINES_SHOWN: usize = 150;

/// The packages whose tests depend on when threads run.
const PACKAGES: &[&str] = &["peregrine", "peregrine-hostile", "peregrine-transport", "perftest"];

/// Tests that the stage does not run.
struct LeftOut {
    package: &'static str,
    target: &'static str,
    /// One test of the target; `None` for all.
    test: Option<&'static str>,
    reason: &'static str,
}

const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        package: "perftest",
        target: "campaign",
        test: None,
        reason: "runs whole plans, for minutes on a shared core",
    },
    LeftOut {
        package: "perftest",
        target: "characterize",
        test: None,
        reason: "measures a host, for minutes on a shared core",
    },
    LeftOut {
        package: "peregrine",
        target: "security_allocations",
        test: None,
        reason: "an acknowledgement that a busy loop delays leaves a sample without a buffer of the pool",
    },
    LeftOut {
        package: "peregrine-hostile",
        target: "attacks",
        test: None,
        reason: "judges times of real processes, which a busy loop on their core delays",
    },
];

/// The isolation of a program: a process namespace, whose first process takes all others with it when it ends, and a
/// network with loopback only. The shell is the first process, because `abort` does not end a first process.
const ISOLATION: &[&str] = &[
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];
const INSIDE: &str = "\
set -e
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
ip link set lo multicast on up
ip route add 224.0.0.0/4 dev lo
status=0
\"$0\" \"$@\" || status=$?
exit $status
";

pub(crate) fn hunt(workspace: &Workspace) -> Result<Outcome> {
    prerequisites::require_root("network namespaces")?;
    let budget = Duration::from_secs(60) * number(BUDGET)?.unwrap_or(BUDGET_MINUTES);
    let seed = number(SEED)?.unwrap_or_else(seed_of_now);
    for LeftOut { package, target, test, reason } in LEFT_OUT {
        println!("left out: {package} {target} {}: {reason}", test.unwrap_or("(all tests)"));
    }
    let programs = test_programs(workspace)?;
    let folder = workspace.metadata.target_directory.as_std_path().join("tmp/hunt");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    println!("{} programs, {} s, {SEED}={seed}", programs.len(), budget.as_secs());

    let hunt = Hunt::new(&programs, seed, Instant::now() + budget);
    let cores = allowed_cores()?;
    thread::scope(|scope| {
        let lanes: Vec<_> = cores
            .iter()
            .map(|&core| {
                let (hunt, folder) = (&hunt, &folder);
                scope.spawn(move || run_lane(core, hunt, folder))
            })
            .collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("a lane does not panic"))
    })?;
    hunt.finish()
}

/// One executable with tests.
struct Program {
    name: String,
    executable: PathBuf,
    /// The folder of its package, which tests run in.
    folder: PathBuf,
    /// The tests in it that the stage does not run.
    skipped: Vec<&'static str>,
}

/// Builds the tests with the command of the stage `unit`, so that cargo reuses the programs of that stage.
fn test_programs(workspace: &Workspace) -> Result<Vec<Program>> {
    let mut command = unit_tests(workspace);
    command.args(["--no-run", "--message-format=json-render-diagnostics"]).stderr(Stdio::inherit());
    let built = command.stdin(Stdio::null()).output().context("cannot start cargo")?;
    if !built.status.success() {
        bail!("the tests cannot be built: {}", built.status);
    }
    let mut programs = Vec::new();
    for message in Message::parse_stream(built.stdout.as_slice()) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let (Some(executable), true) = (artifact.executable, artifact.profile.test) else { continue };
        let package = &workspace.metadata[&artifact.package_id];
        let (package_name, target) = (package.name.as_str(), artifact.target.name.as_str());
        let left_out = || LEFT_OUT.iter().filter(|left| left.package == package_name && left.target == target);
        if PACKAGES.contains(&package_name) && left_out().all(|left| left.test.is_some()) {
            let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
            let kind = artifact.target.kind.first().map(ToString::to_string).unwrap_or_default();
            programs.push(Program {
                name: format!("{package_name} {target} ({kind})"),
                executable: executable.into(),
                folder: folder.into(),
                skipped: left_out().filter_map(|left| left.test).collect(),
            });
        }
    }
    if programs.is_empty() {
        bail!("cargo has built no tests of {}", PACKAGES.join(", "));
    }
    // The order of cargo's messages varies; the order of a seed must not.
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(programs)
}

/// The next program and the results of earlier programs.
struct Hunt<'p> {
    programs: &'p [Program],
    deadline: Instant,
    progress: Mutex<Progress>,
}

struct Progress {
    random: fastrand::Rng,
    /// Starts at one.
    round: u32,
    /// The programs that this round has not started, as indices.
    waiting: Vec<usize>,
    /// How often each program has run to its end.
    runs: Vec<u32>,
    failures: Vec<String>,
}

/// How one run of a program ended.
enum Verdict {
    Passed,
    Failed(String),
    /// The budget was used up before.
    CutShort,
}

impl<'p> Hunt<'p> {
    fn new(programs: &'p [Program], seed: u32, deadline: Instant) -> Self {
        let random = fastrand::Rng::with_seed(seed.into());
        let runs = vec![0; programs.len()];
        let progress = Progress { random, round: 0, waiting: Vec::new(), runs, failures: Vec::new() };
        Self { programs, deadline, progress: Mutex::new(progress) }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The round and the index of the program to run next; `None` when the hunt is over.
    fn next(&self) -> Option<(u32, usize)> {
        let mut progress = self.progress();
        if Instant::now() >= self.deadline || progress.failures.len() >= FAILURES_LIMIT {
            return None;
        }
        if progress.waiting.is_empty() {
            progress.round += 1;
            progress.waiting = (0..self.programs.len()).collect();
            let Progress { random, waiting, .. } = &mut *progress;
            random.shuffle(waiting);
        }
        let round = progress.round;
        progress.waiting.pop().map(|program| (round, program))
    }

    fn note(&self, round: u32, program: usize, verdict: &Verdict, elapsed: Duration, output: &Path) {
        let name = &self.programs[program].name;
        let mut progress = self.progress();
        let end = match verdict {
            Verdict::Passed => "passed",
            Verdict::Failed(_) => "FAILED",
            Verdict::CutShort => "cut short by the budget",
        };
        println!("round {round}: {name}: {end} ({:.1} s)", elapsed.as_secs_f64());
        if !matches!(verdict, Verdict::CutShort) {
            progress.runs[program] += 1;
        }
        if let Verdict::Failed(reason) = verdict {
            let text = fs::read(output).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
            println!("{}", last_lines(&text));
            let tests = failed_tests(&text);
            let tests = if tests.is_empty() { reason.clone() } else { tests.join(", ") };
            progress.failures.push(format!("round {round}: {name}: {tests}"));
        }
    }

    /// Sums up; an error if a test has failed.
    fn finish(&self) -> Result<Outcome> {
        let progress = self.progress();
        let runs: u32 = progress.runs.iter().sum();
        println!("{runs} runs; {} rounds begun", progress.round);
        for (program, _) in self.programs.iter().zip(&progress.runs).filter(|(_, runs)| **runs == 0) {
            println!("not run to its end within the budget: {}", program.name);
        }
        for failure in &progress.failures {
            println!("{failure}");
        }
        if !progress.failures.is_empty() {
            bail!("{} of {runs} runs failed", progress.failures.len());
        }
        Ok(Outcome::Passed)
    }
}

/// Runs programs on this core beside a busy loop, until the hunt is over.
fn run_lane(core: usize, hunt: &Hunt<'_>, folder: &Path) -> Result<()> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let loop_thread = scope.spawn(|| -> Result<()> {
            pin_to(core)?;
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            Ok(())
        });
        let ran = run_programs(core, hunt, folder);
        is_over.store(true, Ordering::Relaxed);
        loop_thread.join().expect("the busy loop does not panic").and(ran)
    })
}

fn run_programs(core: usize, hunt: &Hunt<'_>, folder: &Path) -> Result<()> {
    // Child processes inherit the core of the thread that starts them.
    pin_to(core)?;
    let output = folder.join(format!("core-{core}.txt"));
    while let Some((round, index)) = hunt.next() {
        let started = Instant::now();
        let verdict = run_once(&hunt.programs[index], &output, hunt.deadline)?;
        hunt.note(round, index, &verdict, started.elapsed(), &output);
    }
    Ok(())
}

/// Runs a program to its end, its limit or the deadline, with its output in this file.
fn run_once(program: &Program, output: &Path, deadline: Instant) -> Result<Verdict> {
    let file = File::create(output).with_context(|| format!("cannot create {}", output.display()))?;
    let mut command = Command::new(ISOLATION[0]);
    command.args(&ISOLATION[1..]).args(["sh", "-c", INSIDE]).arg(&program.executable);
    command.args(skip_arguments(&program.skipped));
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder).env(HUNTED, "1");
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut child = command.spawn().with_context(|| format!("cannot start `{}`", ISOLATION[0]))?;
    let limit = Instant::now() + RUN_LIMIT;
    let Some(status) = wait_until(&mut child, limit.min(deadline))? else {
        // The kernel ends everything in the process namespace.
        child.kill()?;
        child.wait()?;
        return Ok(if deadline < limit {
            verdict_when_cut_short(output)
        } else {
            Verdict::Failed(format!("still running after {} s", RUN_LIMIT.as_secs()))
        });
    };
    Ok(if status.success() { Verdict::Passed } else { Verdict::Failed(status.to_string()) })
}

/// The arguments that make a test program skip these tests. A program without a test harness takes none.
fn skip_arguments<'t>(skipped: &[&'t str]) -> Vec<&'t str> {
    let exact = (!skipped.is_empty()).then_some("--exact");
    exact.into_iter().chain(skipped.iter().flat_map(|test| ["--skip", test])).collect()
}

/// A run that the budget has ended has failed if one of its tests had.
fn verdict_when_cut_short(output: &Path) -> Verdict {
    let text = fs::read(output).unwrap_or_default();
    if failed_tests(&String::from_utf8_lossy(&text)).is_empty() {
        Verdict::CutShort
    } else {
        Verdict::Failed("cut short by the budget".to_owned())
    }
}

fn wait_until(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The tests that the output of a test program reports as failed.
fn failed_tests(output: &str) -> Vec<&str> {
    let names = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    names.collect()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

fn pin_to(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores).with_context(|| format!("cannot run on core {core}"))
}

/// The cores that this process may use.
fn allowed_cores() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("the cores of this process are unknown")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect())
}

fn number(variable: &str) -> Result<Option<u32>> {
    let Some(text) = env::var_os(variable) else { return Ok(None) };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.map(Some).with_context(|| format!("{variable}={} is not a whole number", text.display()))
}

fn seed_of_now() -> u32 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(count: usize) -> Vec<Program> {
        let program = |name| Program { name, executable: PathBuf::new(), folder: PathBuf::new(), skipped: Vec::new() };
        (0..count).map(|index| program(index.to_string())).collect()
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn each_round_runs_every_program_once() {
        let programs = programs(5);
        let hunt = Hunt::new(&programs, 1, later());
        for expected_round in 1..=3 {
            let mut seen: Vec<usize> = (0..5)
                .map(|_| hunt.next().unwrap())
                .map(|(round, index)| {
                    assert_eq!(round, expected_round);
                    index
                })
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn same_seed_gives_the_same_order() {
        let programs = programs(20);
        let order = |seed| {
            let hunt = Hunt::new(&programs, seed, later());
            (0..20).map(|_| hunt.next().unwrap().1).collect::<Vec<_>>()
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
    }

    #[test]
    fn hunt_is_over_at_its_deadline() {
        let programs = programs(1);
        assert_eq!(Hunt::new(&programs, 1, Instant::now()).next(), None);
    }

    #[test]
    fn hunt_is_over_after_too_many_failures() {
        let programs = programs(1);
        let hunt = Hunt::new(&programs, 1, later());
        for round in 0..FAILURES_LIMIT as u32 {
            assert!(hunt.next().is_some());
            hunt.note(round, 0, &Verdict::Failed("exit".to_owned()), Duration::ZERO, Path::new("nothing"));
        }
        assert_eq!(hunt.next(), None);
        assert!(hunt.finish().is_err());
    }

    #[test]
    fn interrupted_run_is_neither_counted_nor_a_failure() {
        let programs = programs(1);
        let hunt = Hunt::new(&programs, 1, later());
        hunt.note(1, 0, &Verdict::CutShort, Duration::ZERO, Path::new("nothing"));
        assert_eq!(hunt.progress().runs, [0]);
        assert!(hunt.finish().is_ok());
    }

    #[test]
    fn skip_arguments_name_tests_exactly() {
        assert!(skip_arguments(&[]).is_empty());
        assert_eq!(skip_arguments(&["a::b", "c"]), ["--exact", "--skip", "a::b", "--skip", "c"]);
    }

    #[test]
    fn failed_tests_are_read_from_the_output() {
        let output = "running 2 tests\ntest a::b ... ok\ntest c ... FAILED\n\nfailures:\n    c\n";
        assert_eq!(failed_tests(output), ["c"]);
    }

    #[test]
    fn only_the_last_lines_are_shown() {
        let text: String = (0..LINES_SHOWN + 5).map(|line| format!("{line}\n")).collect();
        assert_eq!(last_lines(&text).lines().count(), LINES_SHOWN);
        assert!(last_lines(&text).starts_with("5\n"));
    }
}

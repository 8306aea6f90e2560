//! Measures the cost of an idle process in a domain.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

const RSS_MIB_AT_MOST: f64 = 6.0;
const THREADS_AT_MOST: u64 = 3;
/// Duration for which wake-ups are counted.
const WATCHED: Duration = Duration::from_secs(5);

/// Prints how often the shared-memory thread of ten readers wakes up while their writers in another process are idle.
pub(super) fn print_shared_memory(program: &Path) -> Result<()> {
    let (mut readers, mut writers) = (start(program, &[])?, start(program, &["writers"])?);
    let measured = (|| {
        for child in [&mut readers, &mut writers] {
            let output = child.stdout.take().context("its output is not piped")?;
            BufReader::new(output).read_line(&mut String::new())?;
        }
        let count = || wakeups(readers.id(), |name| name.contains("-shm-"));
        let (threads, before) = count()?;
        thread::sleep(WATCHED);
        anyhow::Ok((threads, count()?.1 - before))
    })();
    for mut child in [readers, writers] {
        // The process ends when its standard input closes.
        drop(child.stdin.take());
        child.wait()?;
    }
    let (threads, wakeups) = measured?;
    ensure!(threads > 0, "the readers of another process do not share memory with the writers");
    let verdict = if wakeups == 0 { "met" } else { "missed" };
    println!("\nten readers, ten writers in another process, idle");
    println!("  wake-ups by shared memory in {} s: {wakeups}, target 0 {verdict}", WATCHED.as_secs());
    Ok(())
}

fn start(program: &Path, words: &[&str]) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().with_context(|| format!("cannot start {}", program.display()))
}

/// Prints memory, threads and wake-ups of one participant with ten readers.
pub(super) fn print(program: &Path) -> Result<()> {
    let mut child = start(program, &[])?;
    let measured = measure(child.id(), child.stdout.take().map(BufReader::new));
    // The process ends when its standard input closes.
    drop(child.stdin.take());
    child.wait()?;
    let (rss_mib, threads, wakeups_per_s) = measured?;
    let verdict = |is_met| if is_met { "met" } else { "missed" };
    println!("\none participant, ten readers, idle");
    println!(
        "  resident memory {rss_mib:>8.1} MiB, target <= {RSS_MIB_AT_MOST} {}",
        verdict(rss_mib <= RSS_MIB_AT_MOST)
    );
    println!("  threads         {threads:>8}    , target <= {THREADS_AT_MOST} {}", verdict(threads <= THREADS_AT_MOST));
    println!("  wake-ups        {wakeups_per_s:>8.1} per second: the protocol's timers");
    Ok(())
}

fn measure(pid: u32, ready: Option<impl BufRead>) -> Result<(f64, u64, f64)> {
    ready.context("its output is not piped")?.read_line(&mut String::new())?;
    let count = || wakeups(pid, |_| true);
    let before = count()?.1;
    thread::sleep(WATCHED);
    let wakeups_per_s = (count()?.1 - before) as f64 / WATCHED.as_secs_f64();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok((field(&status, "VmRSS:")? as f64 / 1024.0, field(&status, "Threads:")?, wakeups_per_s))
}

/// The number of matching threads of the process, and the sum of their voluntary context switches.
fn wakeups(pid: u32, is_meant: impl Fn(&str) -> bool) -> Result<(usize, u64)> {
    let (mut threads, mut sum) = (0, 0);
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        if is_meant(&fs::read_to_string(task.join("comm"))?) {
            threads += 1;
            sum += field(&fs::read_to_string(task.join("status"))?, "voluntary_ctxt_switches:")?;
        }
    }
    Ok((threads, sum))
}

fn field(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok());
    number.with_context(|| format!("no {name} in /proc"))
}

//! What a process costs that has joined a domain and does nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

const RSS_MIB_AT_MOST: f64 = 6.0;
const THREADS_AT_MOST: u64 = 3;
/// For so long wake-ups are counted.
const WATCHED: Duration = Duration::from_secs(5);

/// Prints memory, threads and wake-ups of one participant with ten readers.
pub(super) fn print(program: &Path) -> Result<()> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let measured = measure(child.id(), child.stdout.take().map(BufReader::new));
    // It ends with its standard input.
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
    let before = wakeups(pid)?;
    thread::sleep(WATCHED);
    let wakeups_per_s = (wakeups(pid)? - before) as f64 / WATCHED.as_secs_f64();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok((field(&status, "VmRSS:")? as f64 / 1024.0, field(&status, "Threads:")?, wakeups_per_s))
}

/// How often any thread of the process has given up its core to wait.
fn wakeups(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        sum += field(&fs::read_to_string(task?.path().join("status"))?, "voluntary_ctxt_switches:")?;
    }
    Ok(sum)
}

fn field(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok());
    number.with_context(|| format!("no {name} in /proc"))
}

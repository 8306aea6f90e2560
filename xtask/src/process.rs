//! Starts other programs: prints each command, bounds its duration, and names it in errors.

use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// Longer than any stage takes on two cores, shorter than the total limit of a CI job.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Prints the command and runs it with inherited output. Fails when the command fails or exceeds the limit.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = render(command);
    println!("$ {line}");
    command.stdin(Stdio::null());
    // At a terminal, children stay in the foreground group, so that Ctrl-C reaches them.
    let own_group = env::var_os("CI").is_some();
    if own_group {
        command.process_group(0);
    }
    let mut child = command.spawn().with_context(|| format!("cannot start `{line}`"))?;
    let Some(status) = wait(&mut child, LIMIT)? else {
        if let (true, Some(pid)) = (own_group, i32::try_from(child.id()).ok().and_then(Pid::from_raw)) {
            // The group may have ended meanwhile; the wait below returns its status.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let _ = child.kill();
        child.wait()?;
        bail!("`{line}` was still running after {} minutes and was killed", LIMIT.as_secs() / 60);
    };
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs the program quietly and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = render(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` did not write UTF-8"))
}

/// Whether the program starts and succeeds. Its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(None)
}

fn render(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

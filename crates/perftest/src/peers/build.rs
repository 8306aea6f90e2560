//! Builds a peer's program in the cache, from sources that this program contains.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::catalog::{Environment, Peer, install_command};
use crate::error::Error;
use crate::terminal::message;

const PROGRAM: &str = "agent";
/// File beside the program that contains its recipe.
const STAMP: &str = "built";
/// Last messages of a failed step that its error repeats.
const MAX_MESSAGE_LINES: usize = 20;

/// The peer's program, if it was built from the sources of this version.
pub fn built_program(peer: &Peer, environment: &Environment) -> Option<PathBuf> {
    let folder = peer.folder(environment)?;
    let program = folder.join(PROGRAM);
    let is_current = fs::read_to_string(folder.join(STAMP)).is_ok_and(|stamp| stamp == recipe(peer));
    (is_current && program.is_file()).then_some(program)
}

/// Builds the peer's program, prints each step on stderr, and returns its path.
pub fn build(peer: &Peer, environment: &Environment) -> Result<PathBuf, Error> {
    let missing = peer.missing(environment);
    if !missing.is_empty() {
        let what: Vec<_> = missing.iter().map(|missing| missing.what.as_str()).collect();
        return Err(Error::Setup(format!(
            "{} cannot be built: {} not found. On Debian: {}",
            peer.product,
            what.join(", "),
            install_command(&missing)
        )));
    }
    let folder = peer.folder(environment).ok_or_else(|| {
        Error::Setup("There is no folder to build in: neither XDG_CACHE_HOME nor HOME is an absolute path.".into())
    })?;
    let refuse = |error: std::io::Error| Error::Setup(format!("Cannot write to {}: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(refuse)?;
    // From here on the existing program does not match the recipe, even if a step fails.
    if let Err(error) = fs::remove_file(folder.join(STAMP))
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(refuse(error));
    }
    for (name, text) in peer.sources {
        let file = folder.join(name);
        file.parent().map_or(Ok(()), fs::create_dir_all).map_err(refuse)?;
        fs::write(file, text).map_err(refuse)?;
    }
    for (index, step) in peer.steps.iter().enumerate() {
        message(format_args!("{}: step {} of {}: {}", peer.name, index + 1, peer.steps.len(), step.join(" ")));
        run_step(peer, step, &folder, environment)?;
    }
    // A running program keeps its file.
    fs::rename(folder.join("agent.new"), folder.join(PROGRAM)).map_err(refuse)?;
    fs::write(folder.join(STAMP), recipe(peer)).map_err(refuse)?;
    Ok(folder.join(PROGRAM))
}

fn run_step(peer: &Peer, step: &[&str], folder: &Path, environment: &Environment) -> Result<(), Error> {
    let Some((tool, arguments)) = step.split_first() else { return Ok(()) };
    let failed =
        |why: String| Error::Setup(format!("{} cannot be built: {} failed: {why}", peer.product, step.join(" ")));
    let program = if tool.contains('/') { Some(folder.join(tool)) } else { environment.find_tool(tool) };
    let program = program.ok_or_else(|| failed("it is not on PATH".into()))?;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("PATH", &environment.path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    // Some tools take minutes; their output shows progress.
    let mut last = VecDeque::new();
    for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).split(b'\n')) {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line).into_owned();
        message(format_args!("{}: {line}", peer.name));
        last.push_back(line);
        if last.len() > MAX_MESSAGE_LINES {
            last.pop_front();
        }
    }
    let status = child.wait().map_err(|error| failed(error.to_string()))?;
    if status.success() {
        return Ok(());
    }
    let last: Vec<_> = last.into_iter().collect();
    Err(failed(format!("{status}\n{}", last.join("\n"))))
}

/// All inputs of the program.
fn recipe(peer: &Peer) -> String {
    let steps = peer.steps.iter().map(|step| step.join(" "));
    let sources = peer.sources.iter().map(|(name, text)| format!("{name}\n{text}"));
    steps.chain(sources).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::catalog::{Header, PEERS, Tool};
    use std::os::unix::fs::PermissionsExt;

    const PEER: Peer = Peer {
        name: "example",
        product: "Example",
        sources: &[("src/agent.txt", "text of the agent\n")],
        tools: &[Tool { name: "copier", package: "copier" }],
        header: Some(Header { path: "example.h", compiler: "copier", language: "c", package: "example-dev" }),
        steps: &[&["copier", "src/agent.txt", "agent.new"]],
    };

    /// A compiler that copies its input and finds every header.
    fn environment(name: &str, copier: &str) -> Environment {
        let folder = std::env::temp_dir().join(format!("perftest-build-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("copier");
        fs::write(&file, format!("#!/bin/sh\n[ \"$1\" = -E ] && exit 0\n{copier}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        Environment { path: folder.clone().into_os_string(), cache: Some(folder.join("cache/deep")) }
    }

    #[test]
    fn program_is_rebuilt_only_for_another_recipe() {
        let environment = environment("once", "while read -r line; do echo \"$line\"; done < \"$1\" > \"$2\"");
        assert_eq!(built_program(&PEER, &environment), None);
        let program = build(&PEER, &environment).unwrap();
        assert_eq!(fs::read_to_string(&program).unwrap(), "text of the agent\n");
        assert_eq!(built_program(&PEER, &environment), Some(program));
        let changed = Peer { sources: &[("src/agent.txt", "another text\n")], ..PEER };
        assert_eq!(built_program(&changed, &environment), None);
        fs::remove_dir_all(environment.path).unwrap();
    }

    #[test]
    fn failed_step_quotes_the_tool_and_leaves_no_program() {
        let environment = environment("fails", "echo 'no such thing' >&2; exit 3");
        let error = build(&PEER, &environment).unwrap_err().to_string();
        assert!(error.contains("copier src/agent.txt agent.new failed") && error.contains("no such thing"), "{error}");
        assert_eq!(built_program(&PEER, &environment), None);
        fs::remove_dir_all(environment.path).unwrap();
    }

    #[test]
    fn absent_peer_is_refused_with_the_command_that_installs_it() {
        let nowhere = Environment { path: "/nowhere".into(), cache: None };
        for peer in PEERS {
            let error = build(peer, &nowhere).unwrap_err().to_string();
            assert!(error.contains(peer.product) && error.contains("apt-get install"), "{error}");
            assert!(peer.missing(&nowhere).iter().all(|missing| error.contains(missing.package)), "{error}");
        }
    }

    #[test]
    fn missing_cache_folder_names_the_variables() {
        let mut environment = environment("cacheless", "exit 0");
        environment.cache = None;
        let error = build(&PEER, &environment).unwrap_err().to_string();
        assert!(error.contains("XDG_CACHE_HOME"), "{error}");
        fs::remove_dir_all(environment.path).unwrap();
    }
}

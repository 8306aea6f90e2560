//! The system's programs that make labs and connections.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::Error;

/// A program and its Debian package.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
}

pub(super) const IP: Tool = Tool { name: "ip", package: "iproute2" };
pub(super) const MOUNT: Tool = Tool { name: "mount", package: "mount" };
pub(super) const NFT: Tool = Tool { name: "nft", package: "nftables" };
pub(super) const NSENTER: Tool = Tool { name: "nsenter", package: "util-linux" };
pub(super) const SSH: Tool = Tool { name: "ssh", package: "openssh-client" };
pub(super) const TC: Tool = Tool { name: "tc", package: "iproute2" };
pub(super) const UNSHARE: Tool = Tool { name: "unshare", package: "util-linux" };

/// Fails if programs are missing, with their names and the command that installs them.
pub(super) fn require(tools: &[Tool]) -> Result<(), Error> {
    let is_there = |tool: &Tool| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(tool.name)).any(|file: PathBuf| file.is_file())
    };
    let missing: Vec<_> = tools.iter().filter(|tool| !is_there(tool)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|tool| tool.name).collect();
    let mut packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    Err(Error::Setup(format!(
        "Not found on the PATH: {}. On Debian and Ubuntu: apt-get install {}",
        names.join(", "),
        packages.join(" ")
    )))
}

/// Runs a short command and returns its output.
pub(super) fn run(command: &mut Command) -> Result<String, Error> {
    let line = || {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    let line = line();
    let output = command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::Setup(format!("Cannot run '{line}': {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Setup(format!("'{line}' failed ({}): {}", output.status, said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tool_is_named_with_its_package() {
        let none = Tool { name: "no-such-program", package: "a-package" };
        let text = require(&[none, none]).unwrap_err().to_string();
        assert!(text.contains("no-such-program") && text.ends_with("apt-get install a-package"), "{text}");
    }

    #[test]
    fn failed_command_is_quoted() {
        let text = run(Command::new("sh").args(["-c", "echo no >&2; exit 3"])).unwrap_err().to_string();
        assert!(text.starts_with("'sh -c") && text.contains("status: 3") && text.ends_with("no"), "{text}");
        assert_eq!(run(Command::new("echo").arg("yes")).unwrap(), "yes\n");
    }
}

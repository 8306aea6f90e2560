//! `cargo xtask bench outages`: what pairs of peers of all vendors do in outages of the network and of processes.

use std::env;
use std::process::Command;

use anyhow::{Result, bail};

use crate::peers;
use crate::prerequisites;
use crate::process::run;
use crate::workspace::Workspace;

const DOCUMENT: &str = "docs/outages.md";

/// Builds the peers and runs all pairs, or those of `--pairs`. The full run writes the tables of the document; others
/// print theirs.
pub(crate) fn outages(workspace: &Workspace, words: &[&str]) -> Result<()> {
    let is_partial = is_partial(words)?;
    prerequisites::require_root("network namespaces")?;
    let peers = peers::build(workspace)?;
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace.root());
    command.args([
        "run",
        "--locked",
        "--profile",
        "checked",
        "--package",
        "peregrine-interop",
        "--bin",
        "outages",
        "--",
    ]);
    command.args(words).env("PEREGRINE_INTEROP_DIR", &peers);
    if !is_partial {
        command.arg("--write").arg(workspace.root().join(DOCUMENT));
    }
    run(&mut command)
}

/// Whether the options leave out a part of the tables.
fn is_partial(words: &[&str]) -> Result<bool> {
    let mut rest = words.iter();
    let mut is_partial = false;
    while let Some(word) = rest.next() {
        match *word {
            "--quick" => is_partial = true,
            "--pairs" | "--only" => {
                is_partial = true;
                rest.next();
            }
            "--labs" => {
                rest.next();
            }
            _ => bail!(
                "unexpected argument `{word}`: bench outages [--quick] [--pairs A:B,...] [--only N,...] [--labs N]"
            ),
        }
    }
    Ok(is_partial)
}

#[cfg(test)]
mod tests {
    use super::is_partial;

    #[test]
    fn only_the_full_run_writes_the_document() {
        assert!(!is_partial(&[]).unwrap());
        assert!(!is_partial(&["--labs", "4"]).unwrap());
        assert!(is_partial(&["--quick"]).unwrap());
        assert!(is_partial(&["--labs", "4", "--pairs", "fast:fast"]).unwrap());
        assert!(is_partial(&["--only", "3"]).unwrap());
        assert!(is_partial(&["--write", "a.md"]).is_err());
    }
}

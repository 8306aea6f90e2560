//! Rules on packages: allowed dependencies between the project's crates, and licences of third-party crates.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Package};
use spdx::{Expression, LicenseReq};

use super::findings::Findings;
use crate::workspace::Workspace;

/// The project crates that a project crate may depend on, in ordinary and in test builds.
struct Arrows {
    from: &'static str,
    to: &'static [&'static str],
    in_tests: &'static [&'static str],
}

const ARROWS: &[Arrows] = &[
    Arrows { from: "peregrine-xtypes-derive", to: &[], in_tests: &["peregrine-xtypes"] },
    Arrows { from: "peregrine-xtypes", to: &["peregrine-xtypes-derive"], in_tests: &[] },
    Arrows { from: "peregrine-rtps", to: &["peregrine-xtypes"], in_tests: &[] },
    Arrows { from: "peregrine-transport", to: &[], in_tests: &[] },
    Arrows { from: "peregrine-security", to: &["peregrine-rtps"], in_tests: &[] },
    Arrows {
        from: "peregrine",
        to: &["peregrine-rtps", "peregrine-security", "peregrine-transport", "peregrine-xtypes"],
        in_tests: &["peregrine-interop"],
    },
    Arrows { from: "peregrine-idl", to: &["peregrine-xtypes"], in_tests: &[] },
    Arrows { from: "peregrine-report", to: &[], in_tests: &[] },
    Arrows {
        from: "perftest",
        to: &["peregrine", "peregrine-report", "peregrine-security", "peregrine-transport"],
        in_tests: &["peregrine-interop"],
    },
    Arrows { from: "peregrine-hostile", to: &["peregrine", "peregrine-rtps", "peregrine-security"], in_tests: &[] },
    Arrows {
        from: "peregrine-sim",
        to: &["peregrine", "peregrine-rtps", "peregrine-security", "peregrine-transport"],
        in_tests: &[],
    },
    // Its tests issue documents for the peers.
    Arrows { from: "peregrine-interop", to: &[], in_tests: &["peregrine-rtps", "peregrine-security"] },
    Arrows { from: "peregrine-interop-peer", to: &["peregrine"], in_tests: &[] },
    Arrows { from: "xtask", to: &["peregrine-interop", "peregrine-report"], in_tests: &[] },
];

const OUR_LICENSE: &str = "Apache-2.0 OR MIT";
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(workspace: &Workspace, findings: &mut Findings) -> Result<()> {
    let ours = workspace.metadata.workspace_packages();
    let names: BTreeSet<&str> = ours.iter().map(|package| package.name.as_str()).collect();
    for package in &ours {
        check_arrows(package, &names, findings);
        check_manifest(package, findings);
    }
    let allowed = allowed_licenses(workspace)?;
    for package in workspace.metadata.packages.iter().filter(|package| !names.contains(package.name.as_str())) {
        check_foreign(package, &allowed, findings);
    }
    Ok(())
}

fn check_arrows(package: &Package, names: &BTreeSet<&str>, findings: &mut Findings) {
    let Some(arrows) = ARROWS.iter().find(|arrows| arrows.from == package.name.as_str()) else {
        findings.error(&package.manifest_path, "this package has no row in the table of arrows (xtask/src/tidy)");
        return;
    };
    for dependency in package.dependencies.iter().filter(|dependency| names.contains(dependency.name.as_str())) {
        let to = dependency.name.as_str();
        let in_tests = dependency.kind == DependencyKind::Development;
        let is_allowed = arrows.to.contains(&to) || (in_tests && arrows.in_tests.contains(&to));
        if !is_allowed {
            findings.error(&package.manifest_path, format!("{} must not depend on {to}", package.name));
        }
    }
}

fn check_manifest(package: &Package, findings: &mut Findings) {
    if package.license.as_deref() != Some(OUR_LICENSE) {
        findings.error(&package.manifest_path, "needs `license.workspace = true`");
    }
    if package.rust_version.is_none() {
        findings.error(&package.manifest_path, "needs `rust-version.workspace = true`");
    }
    if package.description.is_none() {
        findings.error(&package.manifest_path, "needs a `description`");
    }
    let manifest = std::fs::read_to_string(&package.manifest_path).unwrap_or_default();
    let inherits_lints = manifest
        .parse::<toml::Table>()
        .is_ok_and(|table| table.get("lints").and_then(|lints| lints.get("workspace")) == Some(&true.into()));
    if !inherits_lints {
        findings.error(&package.manifest_path, "needs `[lints] workspace = true`");
    }
}

fn check_foreign(package: &Package, allowed: &[String], findings: &mut Findings) {
    let place = format!("{} {}", package.name, package.version);
    if package.source.as_ref().is_none_or(|source| source.repr != CRATES_IO) {
        findings.error(&place, "does not come from crates.io");
    }
    let Some(license) = &package.license else {
        findings.error(&place, "states no licence");
        return;
    };
    let is_allowed = |requirement: &LicenseReq| allowed.contains(&requirement.to_string());
    match Expression::parse_mode(license, spdx::ParseMode::LAX) {
        Ok(expression) if expression.evaluate(is_allowed) => {}
        Ok(_) => findings.error(&place, format!("licence `{license}` is not allowed by deny.toml")),
        Err(error) => findings.error(&place, format!("licence `{license}` is no SPDX expression: {}", error.reason)),
    }
}

/// Reads the list of cargo-deny, so that the project has one list only.
fn allowed_licenses(workspace: &Workspace) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(workspace.root().join("deny.toml")).context("cannot read deny.toml")?;
    let table: toml::Table = text.parse().context("deny.toml")?;
    let list = table.get("licenses").and_then(|licenses| licenses.get("allow")).and_then(toml::Value::as_array);
    let list = list.context("deny.toml has no list `licenses.allow`")?;
    Ok(list.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
}

//! System packages and tools that the stages need: lists them, and installs them on Debian as root.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{output, run, succeeds};

/// A Debian 12 package and its purpose.
struct SystemPackage {
    name: &'static str,
    purpose: &'static str,
}

const SYSTEM_PACKAGES: &[SystemPackage] = &[
    SystemPackage { name: "cyclonedds-dev", purpose: "interop peer: Cyclone DDS 0.10.2, library and headers" },
    SystemPackage { name: "cyclonedds-tools", purpose: "interop peer: idlc, the type compiler" },
    SystemPackage { name: "libfastrtps-dev", purpose: "interop peer: Fast DDS 2.9.1, library and headers" },
    SystemPackage { name: "g++", purpose: "compiling the C and C++ peers" },
    SystemPackage { name: "python3-venv", purpose: "interop peer: Cyclone DDS 11 from its Python wheel" },
    SystemPackage { name: "iproute2", purpose: "network namespaces, veth pairs, rate limits" },
    SystemPackage { name: "nftables", purpose: "packet loss between network namespaces" },
    SystemPackage { name: "chromium", purpose: "rendering the report's page for screens and paper" },
    SystemPackage { name: "openssh-client", purpose: "measurements on other hosts: perftest --hosts" },
    SystemPackage { name: "openssh-server", purpose: "other hosts for its tests; started in network namespaces only" },
    SystemPackage { name: "tshark", purpose: "capturing and decoding network traffic" },
];

const CARGO_FUZZ: &str = "cargo-fuzz";

/// Prints the state of each prerequisite.
pub(crate) fn list() -> Result<()> {
    for package in SYSTEM_PACKAGES {
        let state = if is_installed(package.name) { "installed" } else { "missing" };
        println!("{:<18} {state:<10} {}", package.name, package.purpose);
    }
    let state = |present: bool| if present { "installed" } else { "missing" };
    println!("{:<18} {:<10} fuzz-smoke", "rust nightly", state(has_nightly()));
    println!("{CARGO_FUZZ:<18} {:<10} fuzz-smoke; installed when that stage first runs", state(has_cargo_fuzz()));
    println!("{:<18} {:<10} deny; optional, never installed from here", "cargo-deny", state(has_cargo_deny()));
    Ok(())
}

/// Installs the missing Debian packages as root; otherwise the error contains the command to run.
pub(crate) fn ensure() -> Result<()> {
    let missing: Vec<&str> =
        SYSTEM_PACKAGES.iter().map(|package| package.name).filter(|name| !is_installed(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let command_line = format!("apt-get install --yes --no-install-recommends {}", missing.join(" "));
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!("these Debian packages, or their equivalents on this system, are missing: {}", missing.join(", "));
    }
    if !is_root() {
        bail!("packages are missing; as root, run: {command_line}");
    }
    println!("==> prerequisites: installing {}", missing.join(", "));
    apt_get(&["update"])?;
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(&missing);
    apt_get(&words)
}

/// Installs the nightly toolchain unless it is present.
pub(crate) fn ensure_nightly() -> Result<()> {
    if has_nightly() {
        return Ok(());
    }
    run(Command::new("rustup").args(["toolchain", "install", "nightly", "--profile", "minimal"]))
        .context("fuzzing and sanitizers need the nightly toolchain")
}

/// Installs the nightly toolchain and cargo-fuzz unless they are present.
pub(crate) fn ensure_cargo_fuzz() -> Result<()> {
    ensure_nightly()?;
    if !has_cargo_fuzz() {
        run(Command::new("cargo").args(["install", "--locked", CARGO_FUZZ]).env_remove("CARGO"))?;
    }
    Ok(())
}

/// Fails, naming the reason, unless this process is root.
pub(crate) fn require_root(reason: &str) -> Result<()> {
    if is_root() {
        return Ok(());
    }
    bail!("this needs root, for {reason}");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn is_installed(package: &str) -> bool {
    output(Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]))
        .is_ok_and(|status| status == "installed")
}

fn apt_get(words: &[&str]) -> Result<()> {
    run(Command::new("apt-get")
        .args(["-o", "DPkg::Lock::Timeout=600", "--quiet=2"])
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

fn has_nightly() -> bool {
    output(Command::new("rustup").args(["toolchain", "list"]))
        .is_ok_and(|list| list.lines().any(|line| line.starts_with("nightly")))
}

fn has_cargo_fuzz() -> bool {
    succeeds(Command::new(CARGO_FUZZ).arg("--version"))
}

fn has_cargo_deny() -> bool {
    succeeds(Command::new("cargo-deny").arg("--version"))
}

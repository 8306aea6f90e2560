//! Log events in a program without a subscriber. Each test starts this program again with another environment.

mod common;

use std::process::{Command, Output};

use common::{config, participant};
use peregrine::DomainParticipant;

const ROLE: &str = "PEREGRINE_TEST_ROLE";

/// Runs the child process, if this process is the child.
fn is_child() -> bool {
    std::env::var_os(ROLE).is_some()
}

fn child(test: &str, level: Option<&str>) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(ROLE, "child").env_remove("PEREGRINE_LOG");
    if let Some(level) = level {
        command.env("PEREGRINE_LOG", level);
    }
    command.output().unwrap()
}

#[test]
fn log_variable_prints_start_of_domain() {
    if is_child() {
        drop(participant(83));
        return;
    }
    let test = "log_variable_prints_start_of_domain";
    let shown = String::from_utf8(child(test, Some("info")).stderr).unwrap();
    let line = shown.lines().find(|line| line.contains("the process takes part in a domain")).unwrap_or_default();
    for part in ["domain=83", "multicast=true", "127.0.0.1"] {
        assert!(line.contains(part), "{part}: {shown}");
    }
    let silent = String::from_utf8(child(test, None).stderr).unwrap();
    assert!(!silent.contains("takes part"), "{silent}");
}

#[test]
fn unknown_log_level_is_refused_with_permitted_levels() {
    if is_child() {
        println!("{}", DomainParticipant::builder(84).config(config()).build().unwrap_err());
        return;
    }
    let test = "unknown_log_level_is_refused_with_permitted_levels";
    let said = String::from_utf8(child(test, Some("loud")).stdout).unwrap();
    assert!(said.contains("PEREGRINE_LOG is \"loud\"") && said.contains("debug"), "{said}");
}

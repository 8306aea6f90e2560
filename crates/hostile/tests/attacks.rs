//! Runs the program with each attack, shortly, and checks that it notices a limit that is passed.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

#[cfg(feature = "security")]
use peregrine_hostile::attacks::SECURED_ATTACKS;
use peregrine_hostile::attacks::{ATTACKS, Attack};

/// Domains of these tests only.
const DOMAIN: &str = "61";
#[cfg(feature = "security")]
const SECURED_DOMAIN: &str = "57";

fn output(domain: &str, arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_hostile");
    Command::new(program).args(["--domain", domain]).args(arguments).output().expect("the program starts")
}

fn hostile(domain: &str, arguments: &[&str]) -> (Output, serde_json::Value) {
    let output = output(domain, &[&["--json"], arguments].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{errors}"));
    (output, json)
}

#[test]
fn every_attack_stays_within_limits() {
    stay_within_limits(DOMAIN, &["--seconds", "0.3", "--after", "0.2"], ATTACKS);
}

#[cfg(feature = "security")]
#[test]
fn every_attack_on_a_secured_victim_stays_within_limits() {
    let attacks = [ATTACKS, SECURED_ATTACKS].concat();
    let rows = stay_within_limits(SECURED_DOMAIN, &["--secured", "--seconds", "0.2", "--after", "0.1"], &attacks);
    let flood = rows.iter().find(|row| row["attack"] == "identity-flood").expect("the attack has run");
    assert!(flood["measured"]["back_bytes"].as_u64() > Some(0), "no handshake begins: {flood:#}");
}

fn stay_within_limits(domain: &str, arguments: &[&str], attacks: &[Attack]) -> Vec<serde_json::Value> {
    let (output, json) = hostile(domain, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{json:#}");
    let rows = json["attacks"].as_array().expect("a list of attacks").clone();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["attack"].as_str()).collect();
    let all: Vec<&str> = attacks.iter().map(|attack| attack.name).collect();
    assert_eq!(names, all);
    for row in &rows {
        let measured = &row["measured"];
        let is_control = row["attack"] == "nothing";
        assert_eq!(measured["sent_bytes"] == 0, is_control, "{row:#}");
        for direction in ["up", "down"] {
            assert!(measured[direction]["received"].as_u64() > Some(10), "no flow: {row:#}");
        }
    }
    rows
}

#[test]
fn program_names_attack_and_limit_that_is_passed() {
    let attack = "acknack-amplification";
    let arguments = ["--seconds", "0.2", "--after", "0.1", "--only", attack, "--ratio-max", "0"];
    let (output, json) = hostile(DOMAIN, &arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(&format!("attack {attack}: limit ratio: ")), "{errors}");
    assert_eq!(json["attacks"][0]["verdict"], "FAILED");
}

#[cfg(feature = "security")]
#[test]
fn attack_on_security_without_a_secured_victim_is_refused() {
    let attack = SECURED_ATTACKS[0].name;
    let output = output(SECURED_DOMAIN, &["--only", attack]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains(attack) && errors.contains("add --secured"), "{errors}");
}

#[cfg(not(feature = "security"))]
#[test]
fn secured_victim_in_a_build_without_security_is_refused() {
    let output = output(DOMAIN, &["--secured"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("build it with the feature `security`"), "{errors}");
}

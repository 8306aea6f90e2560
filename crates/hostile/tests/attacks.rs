//! Runs the program with each attack, shortly, and checks that it notices a limit that is passed.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use peregrine_hostile::attacks::ATTACKS;

/// A domain of this test only.
const DOMAIN: &str = "61";

fn hostile(arguments: &[&str]) -> (Output, serde_json::Value) {
    let program = env!("CARGO_BIN_EXE_hostile");
    let common = ["--domain", DOMAIN, "--json"];
    let output = Command::new(program).args(common).args(arguments).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{errors}"));
    (output, json)
}

#[test]
fn every_attack_stays_within_limits() {
    let (output, json) = hostile(&["--seconds", "0.3", "--after", "0.2"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{json:#}");
    let rows = json["attacks"].as_array().expect("a list of attacks");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["attack"].as_str()).collect();
    let all: Vec<&str> = ATTACKS.iter().map(|attack| attack.name).collect();
    assert_eq!(names, all);
    for row in rows {
        let measured = &row["measured"];
        let is_control = row["attack"] == "nothing";
        assert_eq!(measured["sent_bytes"] == 0, is_control, "{row:#}");
        for direction in ["up", "down"] {
            assert!(measured[direction]["received"].as_u64() > Some(10), "no flow: {row:#}");
        }
    }
}

#[test]
fn program_names_attack_and_limit_that_is_passed() {
    let attack = "acknack-amplification";
    let (output, json) = hostile(&["--seconds", "0.2", "--after", "0.1", "--only", attack, "--ratio-max", "0"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(&format!("attack {attack}: limit ratio: ")), "{errors}");
    assert_eq!(json["attacks"][0]["verdict"], "FAILED");
}

//! The shipped plans.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::Error;

/// File name and text of each shipped plan.
const SHIPPED: &[(&str, &str)] = &[
    ("raspberry-pi.toml", include_str!("../../plans/raspberry-pi.toml")),
    ("large-data.toml", include_str!("../../plans/large-data.toml")),
    ("security.toml", include_str!("../../plans/security.toml")),
    ("readme.toml", include_str!("../../plans/readme.toml")),
    ("periodic.toml", include_str!("../../plans/periodic.toml")),
    ("tsc-2021.toml", include_str!("../../plans/tsc-2021.toml")),
];

/// The text of a plan: the file with this name, else the shipped plan.
pub(super) fn text_of(name: &str) -> Result<String, Error> {
    let file = match fs::read_to_string(name) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let shipped = SHIPPED.iter().find(|(known, _)| *known == name || known.strip_suffix(".toml") == Some(name));
    match shipped {
        // A folder may have the name of the plan whose results it contains.
        Some((_, text)) if matches!(file.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {
            Ok((*text).to_owned())
        }
        _ => {
            let known = SHIPPED.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
            Err(Error::Setup(format!("Cannot read the plan {name}: {file}. Plans that come with the program: {known}")))
        }
    }
}

/// The name of a plan, without folder and extension.
pub(super) fn short_name(name: &str) -> String {
    Path::new(name).file_stem().map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;
    use crate::campaign::cases::{Cases, Conditions, PlannedCase};
    use crate::campaign::peer::PeerPrograms;
    use crate::campaign::spec::Plan;

    #[test]
    fn every_shipped_plan_is_valid_and_quick_within_three_minutes() {
        for (name, text) in SHIPPED {
            let plan = Plan::read(name, text).unwrap();
            assert!(!plan.publication.is_empty(), "{name}");
            for two_hosts in [false, true] {
                let quick = Some(Duration::from_secs(150));
                let peers = PeerPrograms::all_at("/bin/true");
                let quick = Cases::of(&plan, &Conditions { two_hosts, peers, quick });
                let estimate = Cases::estimate(&quick.planned);
                assert!(!quick.planned.is_empty(), "{name}");
                assert!(estimate <= Duration::from_secs(170), "{name} takes {estimate:?}");
            }
        }
    }

    /// Periodic traffic as robots send it: cores are neither pinned nor kept awake.
    #[test]
    fn periodic_plan_measures_every_rate_on_cores_that_may_idle() {
        use peregrine_report::record::Wait;

        let plan = Plan::read("periodic.toml", &text_of("periodic").unwrap()).unwrap();
        assert!(!plan.pinned && !plan.keep_awake);
        assert_eq!(plan.repetitions.0, 8, "fewer give no verdict");
        let peers = PeerPrograms::all_at("/bin/true");
        let cases = Cases::of(&plan, &Conditions { two_hosts: false, peers, quick: None });
        for series in &cases.series {
            for wait in [Wait::Block, Wait::Listener] {
                let is_of = |planned: &&PlannedCase| planned.series.id == series.id && planned.wait == wait;
                let planned = cases.planned.iter().filter(is_of).count();
                // Plain sockets have no listener.
                let expected = if series.is_floor() && wait == Wait::Listener { 0 } else { 4 };
                assert_eq!(planned, expected * plan.repetitions.0 as usize, "{} {wait}", series.id);
            }
        }
    }

    #[test]
    fn each_rate_of_the_periodic_plan_has_plain_sockets_as_reference() {
        let plan = Plan::read("periodic.toml", &text_of("periodic").unwrap()).unwrap();
        for quick in [None, Some(Duration::from_secs(150))] {
            let peers = PeerPrograms::all_at("/bin/true");
            let cases = Cases::of(&plan, &Conditions { two_hosts: false, peers, quick });
            let at = |is_floor: bool| {
                let planned = cases.planned.iter().filter(move |planned| planned.series.is_floor() == is_floor);
                planned.map(|planned| (planned.pace.to_string(), planned.repetition)).collect::<HashSet<_>>()
            };
            assert_eq!(at(true), at(false));
            assert!(at(true).contains(&("1000 Hz".to_owned(), 0)), "{:?}", at(true));
        }
    }

    #[cfg(feature = "security")]
    #[test]
    fn security_is_measured_at_every_level_beside_none_and_beside_the_floor() {
        use crate::campaign::spec::Pace;
        use crate::protection::Protection;

        let plan = Plan::read("security.toml", &text_of("security").unwrap()).unwrap();
        let cases = |peers| Cases::of(&plan, &Conditions { two_hosts: false, peers, quick: None }).planned;
        let at_32 = |all: &[PlannedCase], pace: Pace| -> Vec<String> {
            let is_first = |one: &&PlannedCase| (one.data_len, one.repetition, one.pace) == (32, 0, pace);
            all.iter().filter(is_first).map(|planned| planned.series.id.clone()).collect()
        };
        let own = at_32(&cases(PeerPrograms::none("")), Pace::PingPong);
        let all = at_32(&cases(PeerPrograms::all_at("/bin/true")), Pace::PingPong);
        assert_eq!(own.contains(&"peregrine".into()), !own.iter().any(|id| id.starts_with("cyclonedds")));
        assert!(all.contains(&"cyclonedds-udp".into()) && all.contains(&"fastdds-udp".into()));
        for protection in Protection::ALL {
            let has = |ids: &[String], id: String| ids.contains(&id);
            assert!(has(&own, format!("peregrine-security-{}", protection.id())), "{own:?}");
            assert!(has(&all, format!("cyclonedds-security-{}", protection.id())), "{all:?}");
            assert!(has(&all, format!("fastdds-security-{}", protection.id())), "{all:?}");
            let is_protected = protection != Protection::Unprotected;
            assert_eq!(has(&own, format!("sealing-{}", protection.id())), is_protected);
        }
        let unpaced = at_32(&cases(PeerPrograms::all_at("/bin/true")), Pace::Unpaced);
        for protection in Protection::ALL {
            let is_protected = protection != Protection::Unprotected;
            for batched in ["", "-batched"] {
                let has = |id: String| unpaced.contains(&id);
                assert!(has(format!("peregrine-security-{}{batched}", protection.id())), "{unpaced:?}");
                assert_eq!(has(format!("sealing-{}{batched}", protection.id())), is_protected, "{unpaced:?}");
            }
        }
        assert!(unpaced.contains(&"peregrine".into()) && unpaced.contains(&"peregrine-batched".into()));
        assert_eq!(unpaced.len(), 3 * 7 + 5 + 7 + 5);
        let all = cases(PeerPrograms::all_at("/bin/true"));
        let is_for_the_bound = |one: &&PlannedCase| {
            one.pace == Pace::Unpaced && (one.series.id.starts_with("sealing-") || one.series.is_batched())
        };
        let time = Cases::estimate(all.iter().filter(is_for_the_bound));
        assert!(time < Duration::from_secs(180), "{time:?}");
    }

    #[test]
    fn file_takes_precedence_and_unknown_plan_lists_the_known_ones() {
        let folder = std::env::temp_dir().join(format!("perftest-shipped-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("tsc-2021.toml");
        fs::write(&file, "own").unwrap();
        assert_eq!(text_of(file.to_str().unwrap()).unwrap(), "own");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text_of("tsc-2021").unwrap(), text_of("tsc-2021.toml").unwrap());
        assert!(text_of("tests").unwrap_err().to_string().contains("tests: "), "a folder that is not a plan");
        let error = text_of("/nowhere/tsc-2021.toml").unwrap_err().to_string();
        assert!(error.contains("/nowhere/tsc-2021.toml") && error.contains("large-data.toml"), "{error}");
        assert_eq!((short_name("a/b.toml"), short_name("tsc-2021")), ("b".into(), "tsc-2021".into()));
    }
}

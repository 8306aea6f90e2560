//! Layers of the crate `peregrine`: which of its files may use which.
//!
//! The arrows between files are those that [`cycles`](super::cycles) finds, so the rule does not see calls of methods
//! and leaves out what exists for tests only.

use std::collections::BTreeSet;

use super::cycles::Arrows;
use super::findings::{Findings, TrackedFile};

/// The package whose layers are checked.
pub(super) const PACKAGE: &str = "peregrine";

/// Where its files are.
const SOURCES: &str = "crates/peregrine/src/";

/// Files that only declare the layers.
const DECLARATIONS: &str = "driver/mod.rs";

struct Layer {
    name: &'static str,
    /// Files, and folders with `/` at the end, below [`SOURCES`].
    places: &'static [&'static str],
    /// The layers that it uses. They stand before it in the table.
    uses: &'static [&'static str],
}

/// From the lowest layer to the highest.
const LAYERS: &[Layer] = &[
    Layer {
        name: "terms",
        places: &["config.rs", "error/", "shared_memory.rs", "status.rs", "status/", "stream_link.rs"],
        uses: &[],
    },
    Layer { name: "base", places: &["driver/base/"], uses: &[] },
    Layer { name: "net", places: &["driver/net/"], uses: &["terms", "base"] },
    Layer { name: "host", places: &["driver/host/"], uses: &["terms", "base", "net"] },
    Layer { name: "route", places: &["driver/route/"], uses: &["terms", "base", "host"] },
    Layer { name: "endpoint", places: &["driver/endpoint/"], uses: &["terms", "base", "net", "host", "route"] },
    Layer {
        name: "session",
        places: &["driver/session/"],
        uses: &["terms", "base", "net", "host", "route", "endpoint"],
    },
    Layer {
        name: "shm",
        places: &["driver/shm/"],
        uses: &["terms", "base", "net", "host", "route", "endpoint", "session"],
    },
    Layer {
        name: "reactor",
        places: &["driver/reactor/"],
        uses: &["terms", "base", "net", "host", "endpoint", "session", "shm"],
    },
    Layer { name: "api", places: &[""], uses: &["terms", "base", "host", "route", "endpoint", "session", "reactor"] },
];

pub(super) fn check(files: &[TrackedFile], arrows: &Arrows, findings: &mut Findings) {
    let files = files.iter().map(|file| file.path.as_str());
    for (place, what) in violations(files, arrows, LAYERS) {
        findings.error(place, what);
    }
}

/// Each with the place and the remedy.
fn violations<'f>(files: impl Iterator<Item = &'f str>, arrows: &Arrows, layers: &[Layer]) -> Vec<(String, String)> {
    let mut errors = Vec::new();
    for file in files.filter(|file| file.starts_with(SOURCES) && file.ends_with(".rs")) {
        if layer_of(file, layers).is_none() && file.strip_prefix(SOURCES) != Some(DECLARATIONS) {
            errors.push((file.to_owned(), "is in no layer: move it into the folder of one".to_owned()));
        }
    }
    let mut needed: BTreeSet<(&str, &str)> = BTreeSet::new();
    // Tests and examples may use everything.
    let of_sources = arrows.iter().filter(|(from, _)| from.starts_with(SOURCES));
    for (from, to, name) in of_sources.flat_map(|(from, targets)| targets.iter().map(move |(to, n)| (from, to, n))) {
        let (Some(user), Some(used)) = (layer_of(from, layers), layer_of(to, layers)) else {
            errors.push(((*from).to_owned(), format!("uses `{name}` of {to}, and one of both files is in no layer")));
            continue;
        };
        needed.insert((user.name, used.name));
        if user.name != used.name && !user.uses.contains(&used.name) {
            let (user, used) = (user.name, used.name);
            errors.push(((*from).to_owned(), format!("`{user}` must not use `{used}`: `{name}` of {to}")));
        }
    }
    for (index, layer) in layers.iter().enumerate() {
        for used in layer.uses {
            let entry = |what: &str| (LAYERS_FILE.to_owned(), format!("`{}` uses `{used}`: {what}", layer.name));
            if !layers.iter().take(index).any(|lower| lower.name == *used) {
                errors.push(entry("a layer may only use those before it in the table"));
            } else if !needed.contains(&(layer.name, used)) {
                errors.push(entry("no file needs this entry; remove it"));
            }
        }
    }
    errors
}

/// Where the table is.
const LAYERS_FILE: &str = "xtask/src/tidy/layers.rs";

/// The layer with the longest place that the file is in. A file of the driver is in none of the layers outside.
fn layer_of<'l>(file: &str, layers: &'l [Layer]) -> Option<&'l Layer> {
    let file = file.strip_prefix(SOURCES)?;
    let places = layers.iter().flat_map(|layer| layer.places.iter().map(move |place| (*place, layer)));
    let holds = |place: &str| {
        if place.is_empty() {
            !file.starts_with("driver/")
        } else {
            file == place || (place.ends_with('/') && file.starts_with(place))
        }
    };
    places.filter(|(place, _)| holds(place)).max_by_key(|(place, _)| place.len()).map(|(_, layer)| layer)
}

#[cfg(test)]
mod tests {
    use super::super::cycles::arrows_between;
    use super::*;

    const LOW: Layer = Layer { name: "low", places: &["driver/low/"], uses: &[] };
    const SIDE: Layer = Layer { name: "side", places: &["driver/side/"], uses: &[] };
    const HIGH: Layer = Layer { name: "high", places: &["driver/high/", "special.rs"], uses: &["low"] };
    const API: Layer = Layer { name: "api", places: &[""], uses: &["high"] };

    /// The findings in a crate whose files of the layers have these texts.
    fn found(low: &str, side: &str, high: &str, api: &str, layers: &[Layer]) -> Vec<String> {
        let texts = [
            ("lib.rs", "mod api; mod driver; mod special;"),
            ("api.rs", api),
            ("special.rs", "pub struct Special;"),
            ("driver/mod.rs", "pub mod high; pub mod low; pub mod side;"),
            ("driver/low/mod.rs", "mod inner; pub mod file; pub struct Low;"),
            ("driver/low/inner.rs", "use super::file::File;"),
            ("driver/low/file.rs", low),
            ("driver/side/mod.rs", side),
            ("driver/high/mod.rs", high),
        ]
        .map(|(file, text)| (format!("{SOURCES}{file}"), text));
        let files: Vec<(&str, &str)> = texts.iter().map(|(file, text)| (file.as_str(), *text)).collect();
        let arrows = arrows_between(&files);
        let errors = violations(files.iter().map(|(file, _)| *file), &arrows, layers);
        errors.into_iter().map(|(place, what)| format!("{}: {what}", place.trim_start_matches(SOURCES))).collect()
    }

    const FILE: &str = "pub struct File;";
    const SIDE_FILE: &str = "pub struct Side;";
    const HIGH_FILE: &str = "use crate::driver::low::Low; pub struct High;";
    const API_FILE: &str = "use crate::driver::high::High;";

    #[test]
    fn arrows_of_the_table_are_accepted() {
        let found = found(FILE, SIDE_FILE, HIGH_FILE, API_FILE, &[LOW, SIDE, HIGH, API]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn arrow_upward_is_refused() {
        let low = "use crate::driver::high::High; pub struct File;";
        let found = found(low, SIDE_FILE, HIGH_FILE, API_FILE, &[LOW, SIDE, HIGH, API]);
        let name = "`crate::driver::high::High` of crates/peregrine/src/driver/high/mod.rs";
        assert_eq!(found, [format!("driver/low/file.rs: `low` must not use `high`: {name}")]);
    }

    #[test]
    fn arrow_to_a_lower_layer_outside_the_table_is_refused() {
        let high = "use crate::driver::{low::Low, side::Side}; pub struct High;";
        let found = found(FILE, SIDE_FILE, high, API_FILE, &[LOW, SIDE, HIGH, API]);
        assert!(matches!(&found[..], [error] if error.contains("`high` must not use `side`")), "{found:?}");
    }

    #[test]
    fn arrow_past_a_layer_is_refused_and_followed_through_reexports() {
        let high = "use crate::driver::low::Low; pub struct High; pub use crate::driver::side::Side;";
        let side_user = Layer { uses: &["low", "side"], ..HIGH };
        let api = "use crate::driver::high::{High, Side};";
        let found = found(FILE, SIDE_FILE, high, api, &[LOW, SIDE, side_user, API]);
        assert!(found.iter().any(|error| error.contains("api.rs: `api` must not use `side`")), "{found:?}");
    }

    #[test]
    fn entry_that_no_file_needs_is_refused() {
        let wide = Layer { uses: &["low", "side"], ..HIGH };
        let found = found(FILE, SIDE_FILE, HIGH_FILE, API_FILE, &[LOW, SIDE, wide, API]);
        assert_eq!(found, [format!("{LAYERS_FILE}: `high` uses `side`: no file needs this entry; remove it")]);
    }

    #[test]
    fn entry_that_leads_upward_is_refused() {
        let low = "use crate::driver::high::High; pub struct File;";
        let upward = Layer { uses: &["high"], ..LOW };
        let found = found(low, SIDE_FILE, HIGH_FILE, API_FILE, &[upward, SIDE, HIGH, API]);
        assert!(matches!(&found[..], [error] if error.contains("only use those before it")), "{found:?}");
    }

    #[test]
    fn file_of_the_driver_in_no_layer_is_refused() {
        let found = found(FILE, SIDE_FILE, HIGH_FILE, API_FILE, &[LOW, HIGH, API]);
        assert_eq!(found, ["driver/side/mod.rs: is in no layer: move it into the folder of one"]);
    }

    #[test]
    fn file_outside_the_driver_belongs_to_the_layer_that_names_it() {
        let layers = [LOW, SIDE, HIGH, API];
        let name = |file: &str| layer_of(&format!("{SOURCES}{file}"), &layers).map(|layer| layer.name);
        assert_eq!(name("special.rs"), Some("high"));
        assert_eq!(name("special/other.rs"), Some("api"));
        assert_eq!(name("driver/low/inner.rs"), Some("low"));
        assert_eq!(name("driver/mod.rs"), None);
        assert!(layer_of("crates/other/src/lib.rs", &layers).is_none());
    }
}

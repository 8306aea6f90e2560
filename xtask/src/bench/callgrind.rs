//! Reads profiles of callgrind without compressed names and positions.

use std::collections::BTreeMap;

/// Instructions of one run.
#[derive(Debug, Default)]
pub(super) struct Profile {
    /// Instructions in a function itself, including inlined code.
    pub(super) functions: BTreeMap<String, u64>,
    /// Instructions of a source file, including code inlined elsewhere.
    pub(super) files: BTreeMap<String, u64>,
    /// Instructions in a function and its callees.
    pub(super) inclusive: BTreeMap<String, u64>,
}

impl Profile {
    /// Reads a profile with instructions as its only cost. Ignores other lines.
    pub(super) fn parse(text: &str) -> Self {
        let mut profile = Self::default();
        let (mut function, mut file, mut called) = (String::new(), String::new(), String::new());
        let mut is_call_cost = false;
        for line in text.lines() {
            match line.split_once('=') {
                Some(("fn", name)) => function = readable(name),
                Some(("fl" | "fi" | "fe", name)) => name.clone_into(&mut file),
                Some(("cfn", name)) => called = readable(name),
                Some(("calls", _)) => is_call_cost = true,
                Some(_) => {}
                None => {
                    let Some(cost) = cost(line) else { continue };
                    if std::mem::take(&mut is_call_cost) {
                        *profile.inclusive.entry(called.clone()).or_default() += cost;
                    } else {
                        *profile.functions.entry(function.clone()).or_default() += cost;
                        *profile.files.entry(file.clone()).or_default() += cost;
                    }
                }
            }
        }
        profile
    }
}

/// `position cost`, both numbers.
fn cost(line: &str) -> Option<u64> {
    let (position, cost) = line.split_once(' ')?;
    position.parse::<u64>().ok()?;
    cost.parse().ok()
}

/// The name without the hash that the compiler appends.
fn readable(name: &str) -> String {
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => path.to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_and_inclusive_instructions_are_distinguished() {
        let text = "positions: line\nevents: Ir\nsummary: 21\n\nob=/bin/x\nfl=a.rs\nfn=x::outer::h0123456789abcdef\n\
                    0 5\nfi=b.rs\n0 3\nfe=a.rs\n0 1\ncfi=c.rs\ncfn=x::inner\ncalls=2 0\n0 12\n\nfl=c.rs\nfn=x::inner\n0 12\n";
        let profile = Profile::parse(text);
        let of = |map: &BTreeMap<String, u64>| map.iter().map(|(name, cost)| (name.clone(), *cost)).collect::<Vec<_>>();
        assert_eq!(of(&profile.functions), [("x::inner".to_owned(), 12), ("x::outer".to_owned(), 9)]);
        let files = [("a.rs".to_owned(), 6), ("b.rs".to_owned(), 3), ("c.rs".to_owned(), 12)];
        assert_eq!(of(&profile.files), files);
        assert_eq!(of(&profile.inclusive), [("x::inner".to_owned(), 12)]);
    }
}

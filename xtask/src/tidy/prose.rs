//! The part of the rule for prose (CONTRIBUTING.md) that a program can check: no sentence of a comment or document
//! begins with `who`, `whoever`, `those`, `what`, `whatever` or `something`, and none has `told`, `tells`, `nobody`,
//! `anybody` or `somebody`. Code between backticks is not prose.
//!
//! A list has the number of such places in each part of the tree. The numbers may only become smaller.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::code::comments;
use super::findings::{Findings, TrackedFile};

/// The list, relative to the root of the workspace.
const ALLOWED: &str = "xtask/ratchet/prose.toml";
const HEAD: &str = "\
# How often sentences in comments and documents still begin with Who, Whoever, Those, What, Whatever or Something, or
# have told, tells, nobody, anybody or somebody. More are an error, and so are fewer: `cargo xtask tidy --shrink` writes
# the smaller numbers.

[sentences]
";

/// Not at the beginning of a sentence.
const SUBJECTS: &[&str] = &["Who", "Whoever", "Those", "What", "Whatever", "Something"];
/// Not anywhere, in either case.
const WORDS: &[&str] = &["told", "tells", "nobody", "anybody", "somebody"];
/// CONTRIBUTING.md quotes such sentences as examples.
const QUOTING: &str = "CONTRIBUTING.md";

/// The places of vague sentences and words in each part of the tree.
pub(super) struct Vague(BTreeMap<String, Vec<String>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    sentences: BTreeMap<String, usize>,
}

impl Vague {
    pub(super) fn find(files: &[TrackedFile]) -> Self {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for file in files.iter().filter(|file| file.path != QUOTING) {
            let Some(text) = file.text() else { continue };
            let lines = vague_lines(&file.path, text);
            if !lines.is_empty() {
                let places = lines.into_iter().map(|line| format!("{}:{}", file.path, line + 1));
                found.entry(part_of(&file.path)).or_default().extend(places);
            }
        }
        Self(found)
    }

    /// Compares the numbers with those that are still allowed.
    pub(super) fn check(&self, root: &Path, findings: &mut Findings) -> Result<()> {
        for (place, error) in self.disagreements(&read(root)?) {
            findings.error(place, error);
        }
        Ok(())
    }

    fn disagreements(&self, allowed: &BTreeMap<String, usize>) -> Vec<(String, String)> {
        let mut errors = Vec::new();
        for (part, places) in &self.0 {
            let limit = allowed.get(part).copied().unwrap_or(0);
            if places.len() > limit {
                let (subjects, words) = (SUBJECTS.join(", "), WORDS.join(", "));
                let what = format!("a sentence begins with {subjects}, or has {words}; name the actor and the action");
                errors.extend(places.iter().map(|place| (place.clone(), what.clone())));
                errors.push((part.clone(), format!("{} such places; {ALLOWED} allows {limit}", places.len())));
            }
        }
        for (part, limit) in allowed {
            let count = self.0.get(part).map_or(0, Vec::len);
            if count < *limit {
                let error = format!("run `cargo xtask tidy --shrink`: {part} has {count} vague places, not {limit}");
                errors.push((ALLOWED.to_owned(), error));
            }
        }
        errors
    }

    /// Writes the smaller numbers into the list.
    pub(super) fn shrink_allowed(&self, root: &Path) -> Result<()> {
        let mut text = HEAD.to_owned();
        for (part, limit) in read(root)? {
            let count = self.0.get(&part).map_or(0, Vec::len).min(limit);
            if count > 0 {
                text += &format!("\"{part}\" = {count}\n");
            }
        }
        std::fs::write(root.join(ALLOWED), text).with_context(|| format!("{ALLOWED} cannot be written"))
    }
}

fn read(root: &Path) -> Result<BTreeMap<String, usize>> {
    let text = std::fs::read_to_string(root.join(ALLOWED)).with_context(|| format!("{ALLOWED} cannot be read"))?;
    let list: List = toml::from_str(&text).context(ALLOWED)?;
    Ok(list.sentences)
}

/// `crates/rtps`, `docs`, or `.` for a file at the root.
fn part_of(path: &str) -> String {
    let folders: Vec<&str> = path.split('/').collect();
    match folders[..] {
        [_] => ".".to_owned(),
        ["crates" | "interop", name, _, ..] => format!("{}/{name}", folders[0]),
        _ => folders[0].to_owned(),
    }
}

/// The indices of the lines with such a sentence or word, once for each.
fn vague_lines(path: &str, text: &str) -> Vec<usize> {
    let of_prose = |prose: &str, first: usize| -> Vec<usize> {
        let lines = prose.lines().enumerate();
        lines.flat_map(|(index, line)| vec![first + index; vague_sentences(line) + vague_words(line)]).collect()
    };
    if path.ends_with(".md") {
        of_prose(text, 0)
    } else if path.ends_with(".rs") {
        comments(text).iter().flat_map(|(line, comment)| of_prose(comment, *line)).collect()
    } else {
        Vec::new()
    }
}

fn vague_sentences(line: &str) -> usize {
    let line = line.trim_start_matches(|c: char| " \t/!*-#>|".contains(c));
    let starts_sentence =
        |before: &str| before.is_empty() || [". ", "? ", "! ", ": ", "| "].iter().any(|end| before.ends_with(end));
    let count = |subject: &str| {
        line.match_indices(subject)
            .filter(|(at, _)| {
                let after = line[at + subject.len()..].chars().next();
                starts_sentence(&line[..*at]) && !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
            })
            .count()
    };
    SUBJECTS.iter().map(|subject| count(subject)).sum()
}

fn vague_words(line: &str) -> usize {
    let words = line.split('`').step_by(2).flat_map(|prose| prose.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| WORDS.iter().any(|vague| word.eq_ignore_ascii_case(vague))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TrackedFile {
        TrackedFile { path: path.to_owned(), bytes: text.into() }
    }

    #[test]
    fn sentences_with_vague_subjects_are_counted() {
        for (line, expected) in [
            ("/// Who waits is notified.", 1),
            ("//! - Whoever writes. What reads. Something else.", 3),
            ("| a | Those that wait |", 1),
            ("/// What waits. Whatever comes is Something.", 2),
            ("// The reader that waits, who else, is Whole.", 0),
            ("// Whose turn it is; Who's", 0),
        ] {
            assert_eq!(vague_sentences(line), expected, "{line}");
        }
    }

    #[test]
    fn vague_words_are_counted_anywhere_but_in_code() {
        for (line, expected) in [
            ("/// The peer is told, and tells the others.", 2),
            ("//! Nobody reads; anybody may. For somebody's use.", 3),
            ("// The user `nobody`, and `told` states.", 0),
            ("// The untold story of `a` is told by `b`.", 1),
            ("/// [`Peer::told`] is told_at; storytells.", 0),
        ] {
            assert_eq!(vague_words(line), expected, "{line}");
        }
    }

    #[test]
    fn comments_and_documents_are_read_but_code_is_not() {
        let rust = "// Who?\nlet told = \"Who\"; // Those\nstruct Who;\n/* a\nNobody */\n";
        assert_eq!(vague_lines("a.rs", rust), [0, 1, 4]);
        assert_eq!(vague_lines("a.md", "a\nWho b. Who is told\n"), [1, 1, 1]);
        assert!(vague_lines("a.toml", "# Who").is_empty());
    }

    #[test]
    fn parts_of_the_tree_are_crates_and_folders() {
        for (path, part) in [
            ("crates/rtps/src/lib.rs", "crates/rtps"),
            ("interop/README.md", "interop"),
            ("interop/harness/src/a.rs", "interop/harness"),
            ("docs/a/b.md", "docs"),
            ("README.md", "."),
        ] {
            assert_eq!(part_of(path), part, "{path}");
        }
    }

    #[test]
    fn count_other_than_the_listed_one_is_refused() {
        let vague = Vague::find(&[file("docs/a.md", "Who a.\nWho b.\n"), file(QUOTING, "Who c.\n")]);
        let allowed = |count| BTreeMap::from([("docs".to_owned(), count)]);
        assert!(vague.disagreements(&allowed(2)).is_empty());
        let more: Vec<String> = vague.disagreements(&allowed(1)).into_iter().map(|(place, _)| place).collect();
        assert_eq!(more, ["docs/a.md:1", "docs/a.md:2", "docs"]);
        assert_eq!(vague.disagreements(&allowed(3)).len(), 1);
        assert_eq!(vague.disagreements(&BTreeMap::new()).len(), 3);
    }
}

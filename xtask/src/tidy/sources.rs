//! Rules on source files: location of `unsafe`, leftovers, aliases of numbers, length.

use super::code::{code_only, has_word};
use super::findings::{Findings, TrackedFile};
use crate::workspace::Workspace;

/// The folders that may contain `unsafe`. All other crates forbid `unsafe` in the crate root.
const UNSAFE_ROOMS: &[&str] =
    &["crates/transport/", "crates/xtypes/src/plain.rs", "crates/xtypes/src/plain/", "bindings/"];
/// The packages with such a folder, which cannot forbid `unsafe` in the crate root.
const UNSAFE_PACKAGES: &[&str] = &["peregrine-transport", "peregrine-xtypes"];
const FORBID: &str = "#![forbid(unsafe_code)]";

const LEFTOVER_MACROS: &[&str] = &["todo!", "unimplemented!", "dbg!"];
const INTEGERS: &[&str] =
    &["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64"];

const LINES_WARNING: usize = 800;
const LINES_LIMIT: usize = 900;
const SOURCE_ENDINGS: &[&str] = &[".rs", ".c", ".cpp", ".h", ".hpp", ".py"];

/// Checks one file if it is source code.
pub(super) fn check(file: &TrackedFile, findings: &mut Findings) {
    let Some(text) = file.text() else { return };
    if SOURCE_ENDINGS.iter().any(|ending| file.path.ends_with(ending)) {
        check_length(&file.path, text.lines().count(), findings);
    }
    if file.path.ends_with(".rs") {
        check_rust(&file.path, text, findings);
    }
}

/// Requires `forbid(unsafe_code)` in the crate root of every other package, so that the compiler enforces the rule.
pub(super) fn check_crate_roots(workspace: &Workspace, files: &[TrackedFile], findings: &mut Findings) {
    for package in workspace.metadata.workspace_packages() {
        if UNSAFE_PACKAGES.contains(&package.name.as_str()) {
            continue;
        }
        for target in package.targets.iter().filter(|target| !target.is_test() && !target.is_bench()) {
            let root = target.src_path.strip_prefix(&workspace.metadata.workspace_root).unwrap_or(&target.src_path);
            let file = files.iter().find(|file| file.path == root.as_str());
            if file.and_then(TrackedFile::text).is_some_and(|text| !text.contains(FORBID)) {
                findings.error(root, format!("a crate root needs `{FORBID}`"));
            }
        }
    }
}

/// Requires a corpus for every fuzz target. Without seeds, a short search rarely passes the first check of a parser.
pub(super) fn check_fuzz_targets(files: &[TrackedFile], findings: &mut Findings) {
    for file in files {
        let name = file.path.strip_prefix("fuzz/fuzz_targets/").and_then(|name| name.strip_suffix(".rs"));
        let Some(name) = name.filter(|_| file.text().is_some_and(|text| text.contains("fuzz_target!("))) else {
            continue;
        };
        let corpus = format!("fuzz/corpus/{name}/");
        if !files.iter().any(|seed| seed.path.starts_with(&corpus)) {
            findings.error(&file.path, format!("this fuzz target has no seeds; put some into {corpus}"));
        }
    }
}

fn check_length(path: &str, lines: usize, findings: &mut Findings) {
    if lines > LINES_LIMIT {
        findings.error(path, format!("{lines} lines; split a file before it has {LINES_LIMIT}"));
    } else if lines > LINES_WARNING {
        findings.warning(path, format!("{lines} lines; {LINES_LIMIT} is the limit"));
    }
}

fn check_rust(path: &str, text: &str, findings: &mut Findings) {
    let may_be_unsafe = UNSAFE_ROOMS.iter().any(|room| path.starts_with(room));
    for (index, line) in code_only(text).lines().enumerate() {
        let place = format!("{path}:{}", index + 1);
        if !may_be_unsafe && has_word(line, "unsafe") {
            findings.error(&place, "`unsafe` belongs in the transport crate, the plain-type module or the bindings");
        }
        for leftover in LEFTOVER_MACROS.iter().filter(|leftover| has_macro(line, leftover)) {
            findings.error(&place, format!("`{leftover}` is left behind"));
        }
        if line.contains("#[ignore") {
            findings.error(&place, "a test is run or deleted, not ignored");
        }
        if let Some(name) = public_number_alias(line) {
            findings.error(&place, format!("`{name}` is an alias of a number; make it a newtype"));
        }
    }
}

fn has_macro(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(start, _)| !line[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// The name that `pub type Name = u32;` declares, also for `pub(crate)`.
fn public_number_alias(line: &str) -> Option<&str> {
    let declaration = line.trim_start().strip_prefix("pub")?;
    let (_, after) = declaration.split_once("type ")?;
    let (name, target) = after.split_once('=')?;
    INTEGERS.contains(&target.trim().trim_end_matches(';').trim_end()).then(|| name.trim())
}

#[cfg(test)]
mod tests {
    use super::{Findings, check, check_fuzz_targets, public_number_alias};
    use crate::tidy::findings::TrackedFile;

    fn errors(path: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check(&TrackedFile { path: path.to_owned(), bytes: text.as_bytes().to_vec() }, &mut findings);
        findings.errors
    }

    #[test]
    fn unsafe_is_found_outside_its_rooms_only() {
        let text = "fn f() { unsafe { g() } } // unsafe\n#![deny(unsafe_code)]\n";
        assert_eq!(errors("crates/rtps/src/a.rs", text).len(), 1);
        assert_eq!(errors("crates/xtypes-derive/src/a.rs", text).len(), 1);
        assert!(errors("crates/transport/src/a.rs", text).is_empty());
        assert!(errors("crates/xtypes/src/plain.rs", text).is_empty());
    }

    #[test]
    fn leftovers_and_ignored_tests_are_found() {
        assert_eq!(errors("a.rs", "fn f() { todo!() }\n#[ignore]\nfn g() { dbg!(1); }\n").len(), 3);
        assert!(errors("a.rs", "// todo!\nmy_dbg!(1);\nlet s = \"#[ignore]\";\n").is_empty());
    }

    #[test]
    fn fuzz_targets_without_seeds_are_found() {
        let file = |path: &str, text: &str| TrackedFile { path: path.to_owned(), bytes: text.as_bytes().to_vec() };
        let mut files = vec![
            file("fuzz/fuzz_targets/cdr.rs", "fuzz_target!(|data: &[u8]| {});"),
            file("fuzz/fuzz_targets/shared.rs", "pub struct Shared;"),
        ];
        let errors = |files: &[TrackedFile]| {
            let mut findings = Findings::default();
            check_fuzz_targets(files, &mut findings);
            findings.errors
        };
        assert_eq!(errors(&files).len(), 1);
        files.push(file("fuzz/corpus/cdr_other/seed", "x"));
        assert_eq!(errors(&files).len(), 1);
        files.push(file("fuzz/corpus/cdr/seed", "x"));
        assert!(errors(&files).is_empty());
    }

    #[test]
    fn number_aliases_are_found() {
        assert_eq!(public_number_alias("pub type Count = u32;"), Some("Count"));
        assert_eq!(public_number_alias("    pub(crate) type Count = i64 ;"), Some("Count"));
        assert_eq!(public_number_alias("pub type Result<T> = core::result::Result<T, Error>;"), None);
        assert_eq!(public_number_alias("type Count = u32;"), None);
    }

    #[test]
    fn long_file_causes_warning_then_error() {
        let mut findings = Findings::default();
        super::check_length("a.rs", 801, &mut findings);
        assert_eq!((findings.errors.len(), findings.warnings.len()), (0, 1));
        super::check_length("a.rs", 901, &mut findings);
        assert_eq!((findings.errors.len(), findings.warnings.len()), (1, 1));
    }
}

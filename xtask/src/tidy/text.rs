//! Rules on every tracked file: size, paths of one machine, addresses on the network, words, relative links.

use std::path::Path;

use super::code::has_word;
use super::findings::{Findings, TrackedFile};

const SIZE_LIMIT_BYTES: usize = 1 << 20;
/// The limit of a published record, which holds every distribution of a plan.
const RECORD_LIMIT_BYTES: usize = 2 << 20;
const RECORDS: &str = "docs/measurements/";

/// Excluded, because the tables below contain the forbidden words.
const SELF: &str = "xtask/src/tidy/text.rs";

/// Absolute paths that exist on one machine only.
const MACHINE_PATHS: &[&str] = &["/home/", "/root/", "/Users/", "/work/", "/tmp/"];

/// Words about unfinished work or the organisation of work, which do not concern a reader.
const FOREIGN_WORDS: &[&str] =
    &["FIXME", "XXX", "HACK", "worktree", "co-authored-by", "language model", "as discussed"];

/// Hosts that tracked files may point to: the standards, the language, the peers and where code is published.
const HOSTS: &[&str] = &[
    "bugs.debian.org",
    "choosealicense.com",
    "crates.io",
    "cyclonedds.io",
    "doc.rust-lang.org",
    "docs.rs",
    "fast-dds.docs.eprosima.com",
    "github.com",
    "keepachangelog.com",
    "opensource.org",
    "rust-lang.org",
    "semver.org",
    "www.apache.org",
    "www.omg.org",
    "www.rfc-editor.org",
    "www.w3.org",
    "www.wireshark.org",
];

/// Characters of a line of a comment or document.
const LINE_LENGTH_MAX: usize = 120;

/// Checks one file of any kind; `root` resolves relative links.
pub(super) fn check(file: &TrackedFile, root: &Path, findings: &mut Findings) {
    let limit = if file.path.starts_with(RECORDS) { RECORD_LIMIT_BYTES } else { SIZE_LIMIT_BYTES };
    if file.bytes.len() > limit {
        findings.error(&file.path, format!("{} bytes; a tracked file has at most {limit} here", file.bytes.len()));
    }
    let Some(text) = file.text() else { return };
    if file.path != SELF {
        for (index, line) in text.lines().enumerate() {
            check_line(&format!("{}:{}", file.path, index + 1), line, findings);
        }
    }
    for (index, line) in written_lines(text).filter(|(_, line)| is_long_prose(&file.path, line)) {
        let len = line.chars().count();
        findings.error(
            format!("{}:{}", file.path, index + 1),
            format!("a line of {len} characters; comments and documents have at most {LINE_LENGTH_MAX}"),
        );
    }
    if file.path.ends_with(".md") {
        check_links(&file.path, text, root, findings);
    }
}

/// The lines of a file, except those that `cargo xtask page` generates.
fn written_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_generated = false;
    text.lines().enumerate().filter(move |(_, line)| {
        is_generated = match line.trim() {
            "<!-- measured -->" => true,
            "<!-- measured: end -->" => false,
            _ => is_generated,
        };
        !is_generated
    })
}

/// Whether a line of prose is too long and could be broken. Rows of tables cannot, nor can a word or a link.
fn is_long_prose(path: &str, line: &str) -> bool {
    let prose = line.trim_start();
    let text = if path.ends_with(".rs") {
        let Some(comment) = prose.strip_prefix("//") else { return false };
        comment.trim_start_matches(['/', '!']).trim_start()
    } else if path.ends_with(".md") {
        prose
    } else {
        return false;
    };
    let has_break = line.char_indices().nth(LINE_LENGTH_MAX).is_some_and(|(end, _)| {
        let start = line.len() - text.len();
        line.get(start..end).is_some_and(|before| before.trim_start_matches(['-', '*', ' ']).contains(' '))
    });
    has_break && !text.starts_with('|') && !text.starts_with('[')
}

fn check_line(place: &str, line: &str, findings: &mut Findings) {
    for path in MACHINE_PATHS.iter().filter(|path| has_absolute(line, path)) {
        findings.error(place, format!("`{path}` is a place on one machine"));
    }
    for word in FOREIGN_WORDS.iter().filter(|word| has_word(line, word)) {
        findings.error(place, format!("`{word}` does not belong into the project"));
    }
    for host in hosts(line).filter(|host| !HOSTS.contains(host) && !is_local(host)) {
        findings.error(place, format!("`{host}` is not among the hosts the project points to (xtask/src/tidy)"));
    }
}

/// Whether an absolute path starts with `path` here, as opposed to a part of a path such as `src/work/`.
fn has_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path)
        .any(|(start, _)| !line[..start].ends_with(|c: char| c.is_alphanumeric() || "_.-}>~*".contains(c)))
}

/// The host names of the `http` addresses in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '.' || c == '-')).unwrap_or(rest.len());
        &rest[..end]
    })
}

/// Numbers, names reserved for documentation (RFC 2606), and patterns that are not an address.
fn is_local(host: &str) -> bool {
    host.is_empty()
        || host == "localhost"
        || host.starts_with("127.")
        || host.ends_with("example.org")
        || !host.contains('.')
}

fn check_links(path: &str, text: &str, root: &Path, findings: &mut Findings) {
    let folder = root.join(path).parent().map(Path::to_path_buf).unwrap_or_default();
    for (index, line) in outside_code_fences(text) {
        for target in link_targets(line) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            if !folder.join(file).exists() {
                findings.error(format!("{path}:{}", index + 1), format!("link to `{file}`, which does not exist"));
            }
        }
    }
}

fn outside_code_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_fence = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        !in_fence && !is_fence
    })
}

/// The targets of links `[text](target)`.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Findings, TrackedFile, check, hosts, link_targets};

    fn errors(path: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check(&TrackedFile { path: path.to_owned(), bytes: text.into() }, Path::new("/nonexistent"), &mut findings);
        findings.errors
    }

    #[test]
    fn long_lines_of_prose_are_found() {
        let words = "a word ".repeat(18);
        let word = format!("- {}", "x".repeat(130));
        for (path, text, expected) in [
            ("a.md", words.clone(), 1),
            ("a.rs", format!("    /// {words}"), 1),
            ("a.rs", format!("// {}", "a word ".repeat(16)), 0),
            ("a.rs", format!("let text = \"{words}\";"), 0),
            ("a.md", format!("| {words} |"), 0),
            ("a.md", word, 0),
            ("a.rs", format!("//! {}", "x".repeat(200)), 0),
            ("a.md", format!("<!-- measured -->\n{words}\n<!-- measured: end -->\n{words}"), 1),
            ("a.toml", words.clone(), 0),
        ] {
            assert_eq!(errors(path, &text).len(), expected, "{path}: {text}");
        }
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        assert_eq!(errors("a.txt", "see /home/someone/x").len(), 1);
        assert!(errors("a.txt", "crates/work/x and ../tmp/x and ~/work/").is_empty());
    }

    #[test]
    fn addresses_are_found_unless_listed() {
        assert_eq!(
            hosts("see https://docs.rs/x and http://a.b-c.net:80/").collect::<Vec<_>>(),
            ["docs.rs", "a.b-c.net"]
        );
        assert_eq!(errors("a.txt", "https://registry.invalid-host.net/x").len(), 1);
        assert!(errors("a.txt", "https://docs.rs/x http://127.0.0.1:80 udp://peer").is_empty());
    }

    #[test]
    fn broken_links_are_found_outside_code() {
        assert_eq!(link_targets("[a](b.md) and [c](d/e.md#f)").collect::<Vec<_>>(), ["b.md", "d/e.md#f"]);
        assert_eq!(errors("a.md", "[a](b.md)\n```\n[a](c.md)\n```\n[d](#here)\n").len(), 1);
    }

    #[test]
    fn large_files_are_found_also_when_binary() {
        for (path, bytes, errors) in [
            ("a.bin", 1 << 20, 0),
            ("a.bin", (1 << 20) + 1, 1),
            ("docs/measurements/a/record.jsonl", (1 << 20) + 1, 0),
            ("docs/measurements/a/record.jsonl", (2 << 20) + 1, 1),
        ] {
            let mut findings = Findings::default();
            let file = TrackedFile { path: path.to_owned(), bytes: vec![0xFF; bytes] };
            check(&file, Path::new("/nonexistent"), &mut findings);
            assert_eq!(findings.errors.len(), errors, "{path}, {bytes} bytes");
        }
    }
}

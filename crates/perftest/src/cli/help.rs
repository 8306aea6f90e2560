//! `-help`, and the option list of `docs/perftest-compatibility.md`: two renderings of the option table.

use std::fmt::Write;

use super::option::{Argument, Availability, Group, OptionDescriptor};
use super::table::OPTIONS;

const NAME_WIDTH: usize = 36;

/// The text of `-help`.
pub fn usage() -> String {
    let mut text = String::from(
        "Usage: perftest -pub [options]      publish, and measure latency\n       \
                perftest -sub [options]      subscribe, and measure throughput\n       \
                perftest [characterize] [--quick] [--out DIR]\n                                    \
                measure this machine, both sides at once\n       \
                perftest --help              the other commands: run, ab, compare, load, search, respond, lab,\n                                    \
                doctor, floors, peers, keys, report\n\n\
         Option names may be shortened as long as they stay unambiguous; upper and lower case are the same.\n\
         Of several options -secure..., the first in ASCII order is meant, as in RTI Perftest.\n\
         Numbers take k, M, G (powers of 1000) and Ki, Mi, Gi (powers of 1024).\n",
    );
    for group in Group::ALL {
        let rows: Vec<_> = listed(group).filter(|option| option.availability == Availability::Now).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{}:", group.title());
        for option in rows {
            push_option(&mut text, option);
        }
    }
    let later: Vec<_> = OPTIONS.iter().filter(|option| option.availability == Availability::NotYet).collect();
    let _ = writeln!(text, "\nKnown from RTI Perftest and not available yet:");
    for chunk in later.chunks(4) {
        let names: Vec<_> = chunk.iter().map(|option| format!("-{}", option.name)).collect();
        let _ = writeln!(text, "  {}", names.join(" "));
    }
    let _ = writeln!(text, "\nKnown from RTI Perftest and not supported:");
    for option in OPTIONS.iter().filter(|option| option.availability == Availability::Refused) {
        push_option(&mut text, option);
    }
    text
}

/// Every option as a Markdown table per group, for the compatibility document.
pub fn markdown() -> String {
    let mut text = String::new();
    for group in Group::ALL {
        let _ = writeln!(
            text,
            "### {}\n\n| Option | Values | Default | Raw | State |\n|---|---|---|---|---|",
            group.title()
        );
        for option in listed(group) {
            let argument = option.argument.placeholder();
            let separator = if argument.is_empty() { "" } else { " " };
            let state = match option.availability {
                Availability::Now => "works",
                Availability::Refused => "refused",
                _ => "not yet",
            };
            let raw = if option.raw { "yes" } else { "no" };
            let _ = writeln!(
                text,
                "| `-{}{separator}{argument}` | {} | {} | {raw} | {state} |",
                option.name,
                option.argument.range(),
                option.default,
            );
        }
        text.push('\n');
    }
    text.push_str("### Removed from RTI Perftest\n\n| Option | Instead | State |\n|---|---|---|\n");
    for option in OPTIONS.iter().filter(|option| is_history(option)) {
        let argument = option.argument.placeholder();
        let separator = if argument.is_empty() { "" } else { " " };
        let state = if option.availability == Availability::Old { "works" } else { "refused" };
        let _ = writeln!(text, "| `-{}{separator}{argument}` | {} | {state} |", option.name, option.help);
    }
    text
}

/// Whether current versions of RTI Perftest no longer have the option.
fn is_history(option: &OptionDescriptor) -> bool {
    matches!(option.availability, Availability::Old | Availability::Removed)
}

fn listed(group: Group) -> impl Iterator<Item = &'static OptionDescriptor> {
    OPTIONS.iter().filter(move |option| option.group == group && !is_history(option))
}

fn push_option(text: &mut String, option: &OptionDescriptor) {
    let head = format!("-{} {}", option.name, option.argument.placeholder());
    let head = head.trim_end();
    let _ = write!(text, "  {head:<NAME_WIDTH$} {}", option.help);
    if !matches!(
        option.argument,
        Argument::Flag
            | Argument::Text { .. }
            | Argument::Secret { .. }
            | Argument::OptionalText { .. }
            | Argument::Repeated { .. }
    ) {
        let _ = write!(text, "; {}", option.argument.range());
    }
    if !option.default.is_empty() {
        let _ = write!(text, " (default: {})", option.default);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_option_that_is_not_removed() {
        let text = usage();
        for option in OPTIONS.iter().filter(|option| !is_history(option)) {
            assert!(text.contains(&format!("-{}", option.name)), "-{} is missing", option.name);
        }
        assert!(text.contains("-dataLen <bytes>"));
        assert!(text.contains("28 to 2147482620 (default: 100)"));
    }

    #[test]
    fn compatibility_document_lists_every_option() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/perftest-compatibility.md");
        let document = std::fs::read_to_string(path).unwrap();
        let marker = "<!-- from the option table -->\n";
        let (head, table) = document.split_once(marker).expect("the document has the marker");
        let expected = markdown();
        if std::env::var_os("PERFTEST_BLESS").is_some() {
            std::fs::write(path, format!("{head}{marker}{expected}")).unwrap();
        } else {
            assert!(table == expected, "the list is out of date; run the test once with PERFTEST_BLESS=1");
        }
    }
}

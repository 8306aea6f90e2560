//! The tables of a document, between two markers.

use std::fmt::Write as _;
use std::time::Duration;

use super::fault::Outage;
use super::figures::{Figures, Flow, Matching};
use super::plan::{OWN, PairOf};
use super::setup::GAP;

/// The longest line of a document, in characters, except for tables.
const LINE_MAX: usize = 120;

/// Smaller differences of two runs are noise: ten samples, and the time in which they are written.
const NOISE_SAMPLES: usize = 10;
const NOISE: Duration = Duration::from_millis(100);
/// The columns of the tables of single outages, between the pair and the matches.
const COLUMNS: [(&str, &str); 12] = [
    ("silence during", "the longest time without a sample during the outage; `none` is less than half a second"),
    (
        "data again after",
        "from the moment at which packets can flow to the end of the last gap of half a second or longer",
    ),
    ("written", "samples that `write` accepted"),
    ("lost", "accepted samples that never arrived, from the first one that did"),
    ("reported lost", "samples that the reader reported as lost (SAMPLE_LOST)"),
    ("repeated", "samples that the reader's application got twice"),
    ("refused", "samples that `write` refused"),
    ("stalls", "stalls of delivery that the writer reported (DELIVERY_STALLED; only Peregrine has this status)"),
    ("longest write", "the longest call of `write`, which includes the time for which its own process was stopped"),
    ("writer's matches", "MATCHED statuses of the writer: `kept` is a match all the time, `new` a further one"),
    ("reader's matches", "the same of the reader"),
    ("memory of writer, of reader", "the largest growth of the resident memory from the outage on"),
];
const BEGIN: &str = "<!-- outages: generated from here -->";
const END: &str = "<!-- outages: generated up to here -->";

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The peers.
    pub pair: PairOf,
    /// The outage.
    pub outage: Outage,
    /// The measurements.
    pub figures: Figures,
}

/// The tables: an overview of all runs, then the details of each outage. `repeated` says which runs were repeated,
/// because no data flowed before the outage.
pub fn render(entries: &[Entry], repeated: &[String], versions: &[String], command: &str) -> String {
    let mut pairs: Vec<PairOf> = Vec::new();
    let mut outages: Vec<Outage> = Vec::new();
    for entry in entries {
        if !pairs.contains(&entry.pair) {
            pairs.push(entry.pair);
        }
        if !outages.contains(&entry.outage) {
            outages.push(entry.outage);
        }
    }
    let mut text = format!("Made by `{command}` with:\n\n");
    versions.iter().for_each(|version| text.push_str(&format!("- {version}\n")));
    text.push_str("\n| column | meaning |\n|---|---|\n");
    COLUMNS.iter().for_each(|(column, meaning)| text.push_str(&format!("| {column} | {meaning} |\n")));
    if !repeated.is_empty() {
        text.push_str("\nRepeated, because no data flowed within 30 s before the outage:\n\n");
        repeated.iter().for_each(|run| text.push_str(&list_item(run)));
    }
    text.push_str("\n### Time until data flow again\n\n");
    overview(&mut text, entries, &pairs, &outages, |figures| flow(figures.flow));
    text.push_str("\n### Samples lost\n\n");
    overview(&mut text, entries, &pairs, &outages, |figures| figures.lost.to_string());
    if pairs.contains(&(OWN, OWN)) {
        text.push_str(
            "\n### Where another implementation with itself is better\n\nData flow sooner, fewer samples are lost or \
             repeated, or writes are shorter,\nthan with Peregrine and itself, or with Peregrine on one side. A writer \
             whose `write` blocks during the\noutage writes and loses fewer samples.\n\n",
        );
        let better: Vec<String> = outages.iter().flat_map(|outage| better(entries, *outage)).collect();
        match better.is_empty() {
            true => text.push_str("In no row.\n"),
            false => better.iter().for_each(|row| text.push_str(&list_item(row))),
        }
    }
    for outage in &outages {
        let _ = write!(text, "\n### {outage}\n\n");
        details(&mut text, entries.iter().filter(|entry| entry.outage == *outage));
    }
    text
}

/// An item of a list, in lines of at most [`LINE_MAX`] characters.
fn list_item(item: &str) -> String {
    let (mut text, mut len) = (String::from("-"), 1);
    for word in item.split_whitespace() {
        let width = word.chars().count() + 1;
        if len + width > LINE_MAX {
            text.push_str("\n ");
            len = 1;
        }
        text.push(' ');
        text.push_str(word);
        len += width;
    }
    text.push('\n');
    text
}

/// The figures of other implementations with themselves that are better than those of Peregrine with itself, or of
/// Peregrine in place of one of the two.
fn better(entries: &[Entry], outage: Outage) -> Vec<String> {
    let of = |pair: PairOf| entries.iter().find(|entry| entry.outage == outage && entry.pair == pair);
    let others = entries.iter().filter(|e| e.outage == outage && e.pair.0 == e.pair.1 && e.pair.0 != OWN);
    let mut found = Vec::new();
    for other in others {
        let theirs = &other.figures;
        for pair in [(OWN, OWN), (OWN, other.pair.0), (other.pair.0, OWN)] {
            let Some(Entry { figures: ours, .. }) = of(pair) else { continue };
            let mut add = |figure: &str, ours: String, theirs: String| {
                let named = if pair.0 == pair.1 { OWN.to_owned() } else { arrow(pair) };
                found.push(format!("{outage}, {figure}: {theirs} with {}, {ours} with {named}", other.pair.0));
            };
            if is_sooner(theirs.flow, ours.flow) {
                add("data again after", flow(ours.flow), flow(theirs.flow));
            }
            if theirs.lost + NOISE_SAMPLES < ours.lost {
                add("samples lost", ours.lost.to_string(), theirs.lost.to_string());
            }
            if theirs.repeated < ours.repeated {
                add("samples repeated", ours.repeated.to_string(), theirs.repeated.to_string());
            }
            if theirs.longest_write + NOISE < ours.longest_write {
                add("longest write", seconds(ours.longest_write), seconds(theirs.longest_write));
            }
        }
    }
    found
}

fn is_sooner(one: Flow, other: Flow) -> bool {
    match (one, other) {
        (Flow::After(one), Flow::After(other)) => one + NOISE < other,
        (one, other) => matches!(one, Flow::After(_)) && matches!(other, Flow::NotWithin(_)),
    }
}

fn overview(
    text: &mut String,
    entries: &[Entry],
    pairs: &[PairOf],
    outages: &[Outage],
    cell: impl Fn(&Figures) -> String,
) {
    let heads: Vec<String> = pairs.iter().map(|pair| arrow(*pair)).collect();
    let _ = writeln!(text, "| outage | {} |", heads.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(pairs.len()));
    for outage in outages {
        let found = |pair: &PairOf| entries.iter().find(|entry| entry.pair == *pair && entry.outage == *outage);
        let cells = pairs.iter().map(|pair| found(pair).map_or_else(|| "not run".to_owned(), |it| cell(&it.figures)));
        let _ = writeln!(text, "| {outage} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

fn details<'e>(text: &mut String, entries: impl Iterator<Item = &'e Entry>) {
    text.push_str(
        "| writer → reader | silence during | data again after | written | lost | reported lost | repeated | refused | \
         stalls | longest write | writer's matches | reader's matches | memory of writer | of reader |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for Entry { pair, figures, .. } in entries {
        let during = if figures.silence_during > GAP { seconds(figures.silence_during) } else { "none".to_owned() };
        let cells = [
            arrow(*pair),
            during,
            flow(figures.flow),
            figures.written.to_string(),
            figures.lost.to_string(),
            figures.reported_lost.to_string(),
            figures.repeated.to_string(),
            figures.refused.to_string(),
            figures.stalls.to_string(),
            seconds(figures.longest_write),
            matching(figures.writer),
            matching(figures.reader),
            growth(figures.writer_growth_kib),
            growth(figures.reader_growth_kib),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

fn arrow((writer, reader): PairOf) -> String {
    format!("{writer} → {reader}")
}

fn seconds(length: Duration) -> String {
    format!("{:.1} s", length.as_secs_f64())
}

fn flow(flow: Flow) -> String {
    match flow {
        Flow::After(length) => seconds(length),
        Flow::NotWithin(length) => format!("**not within {:.0} s**", length.as_secs_f64()),
    }
}

fn matching(matching: Matching) -> String {
    let mut text = match (matching.unmatched, matching.at_end) {
        (None, _) => "kept".to_owned(),
        (Some(_), 0) => "**none at the end**".to_owned(),
        (Some(length), _) => format!("none for {}", seconds(length)),
    };
    if matching.unmatched.is_none() && matching.new_matches > 0 {
        let _ = write!(text, ", {} new", matching.new_matches);
    }
    if matching.at_end > 1 {
        let _ = write!(text, ", {} at the end", matching.at_end);
    }
    text
}

fn growth(kib: Option<u64>) -> String {
    kib.map_or_else(|| "ended".to_owned(), |kib| format!("+{:.1} MiB", kib as f64 / 1024.0))
}

/// Replaces what is between the markers of a document.
///
/// # Errors
/// When the document does not have both markers in their order.
pub fn insert(document: &str, generated: &str) -> Result<String, String> {
    let missing = || format!("the document has no `{BEGIN}` followed by `{END}`");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", generated.trim()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fault::{Kind, Outage};
    use super::*;

    fn matched() -> Matching {
        Matching { unmatched: None, at_end: 1, new_matches: 0 }
    }

    fn entry(pair: PairOf, kind: Kind, flow: Flow) -> Entry {
        let figures = Figures {
            silence_during: Duration::from_millis(80),
            flow,
            written: 1000,
            lost: 7,
            reported_lost: 5,
            stalls: 2,
            writer_authentications: 0,
            reader_authentications: 0,
            lost_outside: 0,
            repeated: 0,
            reordered: 0,
            refused: 0,
            longest_write: Duration::from_millis(3),
            writer: matched(),
            reader: Matching { unmatched: Some(Duration::from_secs(2)), at_end: 0, new_matches: 0 },
            writer_growth_kib: Some(1536),
            reader_growth_kib: None,
        };
        Entry { pair, outage: Outage { kind, length: Duration::from_secs(5) }, figures }
    }

    #[test]
    fn every_run_is_a_cell_of_the_overview_and_a_row_of_its_outage() {
        let entries = [
            entry(("a", "b"), Kind::Multicast, Flow::After(Duration::from_millis(140))),
            entry(("b", "a"), Kind::Link, Flow::NotWithin(Duration::from_secs(40))),
        ];
        let text = render(&entries, &["a → b: 3".to_owned()], &["A 1".to_owned(), "B 2".to_owned()], "make it");
        for line in [
            "Made by `make it` with:",
            "- B 2",
            "- a → b: 3",
            "| refused | samples that `write` refused |",
            "| outage | a → b | b → a |",
            "| Multicast lost in both directions, unicast passes, 5 s | 0.1 s | not run |",
            "| Link down, 5 s | not run | **not within 40 s** |",
            "### Link down, 5 s",
            "| a → b | none | 0.1 s | 1000 | 7 | 5 | 0 | 0 | 2 | 0.0 s | kept | **none at the end** | +1.5 MiB | ended |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn better_figures_of_another_implementation_with_itself_are_named() {
        let own = entry((OWN, OWN), Kind::Link, Flow::After(Duration::from_secs(2)));
        let with = |flow, lost| {
            let other = entry(("a", "a"), Kind::Link, flow);
            Entry { figures: Figures { lost, ..other.figures }, ..other }
        };
        let same = with(Flow::After(Duration::from_millis(1950)), 0);
        assert_eq!(better(&[own, same], own.outage), Vec::<String>::new());
        let sooner = with(Flow::After(Duration::from_secs(1)), 7);
        assert_eq!(
            better(&[own, sooner], own.outage),
            ["Link down, 5 s, data again after: 1.0 s with a, 2.0 s with peregrine"]
        );
        let own = Entry { figures: Figures { lost: 30, ..own.figures }, ..own };
        let fewer = with(Flow::NotWithin(Duration::from_secs(40)), 19);
        assert_eq!(better(&[own, fewer], own.outage), ["Link down, 5 s, samples lost: 19 with a, 30 with peregrine"]);
        let mixed = entry(("a", OWN), Kind::Link, Flow::After(Duration::from_secs(3)));
        let mixed = Entry { figures: Figures { repeated: 2, ..mixed.figures }, ..mixed };
        let lines = [
            "Link down, 5 s, data again after: 1.0 s with a, 2.0 s with peregrine",
            "Link down, 5 s, data again after: 1.0 s with a, 3.0 s with a → peregrine",
            "Link down, 5 s, samples repeated: 0 with a, 2 with a → peregrine",
        ];
        let own = Entry { figures: Figures { lost: 7, ..own.figures }, ..own };
        assert_eq!(better(&[own, mixed, sooner], own.outage), lines);
        assert_eq!(better(&[own, mixed], own.outage), Vec::<String>::new(), "nothing to compare with");
    }

    #[test]
    fn long_item_of_a_list_has_several_lines() {
        assert_eq!(list_item("a short item"), "- a short item\n");
        let item = list_item(&"word ".repeat(50));
        let lines: Vec<&str> = item.lines().collect();
        assert!(lines.len() == 3 && lines.iter().all(|line| (4..=LINE_MAX).contains(&line.len())), "{lines:?}");
        assert!(lines[1..].iter().all(|line| line.starts_with("  word")), "{lines:?}");
    }

    #[test]
    fn stale_and_new_matches_are_shown() {
        assert_eq!(matching(matched()), "kept");
        assert_eq!(matching(Matching { new_matches: 1, at_end: 2, ..matched() }), "kept, 1 new, 2 at the end");
        let back = Matching { unmatched: Some(Duration::from_millis(1500)), at_end: 1, new_matches: 1 };
        assert_eq!(matching(back), "none for 1.5 s");
    }

    #[test]
    fn only_the_generated_part_of_a_document_changes() {
        let document = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let changed = insert(&document, "new\n").unwrap();
        assert_eq!(changed, format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(insert(&changed, "new").unwrap(), changed);
        assert!(insert("before\nafter\n", "new").is_err());
        assert!(insert(&format!("{END}\n{BEGIN}\n"), "new").is_err());
    }
}

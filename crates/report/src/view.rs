//! The layout of a page: rows that differ in one setting become a line, lines with the same conditions a chart.

use crate::record::{Delivery, PeerFacts, Publishing, Reliability, Wait};
use crate::table::{Row, Source, Table, wait_of_floor};

/// Number of colours of the page's style sheet; the first is for floors.
pub(crate) const COLOURS: usize = 8;

/// The setting that varies along a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Along {
    Size,
    Rate,
    Subscribers,
}

impl Along {
    pub(crate) const ALL: [Self; 3] = [Self::Size, Self::Rate, Self::Subscribers];

    /// For axes.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Size => "sample size (bytes)",
            Self::Rate => "offered samples per second",
            Self::Subscribers => "subscribers",
        }
    }

    /// For headings: latency by ...
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Size => "sample size",
            Self::Rate => "rate",
            Self::Subscribers => "number of subscribers",
        }
    }

    /// Coordinate of a row; absent if it has none.
    pub(crate) fn of(self, row: &Row) -> Option<f64> {
        match self {
            Self::Size => Some(row.data_len as f64),
            Self::Rate => row.rate_per_s,
            Self::Subscribers => Some(f64::from(row.subscribers().unwrap_or(1))),
        }
    }
}

/// Appearance of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Below [`COLOURS`].
    pub(crate) colour: usize,
    /// 0 is solid. For one record, the pattern shows the path of the samples; for several, every record after the first
    /// has a pattern.
    pub(crate) dash: usize,
}

/// One way to move samples in one record: a line of a chart, a colour of the page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Strand {
    pub(crate) record: usize,
    pub(crate) series: String,
    pub(crate) publishing: Option<Publishing>,
    pub(crate) label: String,
    /// Label for the legend of charts.
    pub(crate) short_label: String,
    pub(crate) floor: bool,
    pub(crate) peer: Option<PeerFacts>,
    pub(crate) options: Vec<String>,
    pub(crate) style: Style,
}

impl Strand {
    pub(crate) fn holds(&self, row: &Row) -> bool {
        let publishing = row.case.as_ref().map(|case| case.publishing);
        row.record == self.record
            && row.series == self.series
            && (self.publishing.is_none() || publishing == self.publishing)
    }

    /// Whether it is neither a floor nor another middleware.
    pub(crate) fn is_ours(&self) -> bool {
        let is_own = |peer: &PeerFacts| peer.name.is_empty() || peer.name == OUR_NAME;
        !self.floor && !self.is_sealing() && self.peer.as_ref().is_none_or(is_own)
    }

    /// Whether it only seals and opens bytes: the floor of protection.
    pub(crate) fn is_sealing(&self) -> bool {
        is_sealing(&self.series)
    }

    /// The level of protection, from the name of a protected series or of its floor; of batched samples, with their
    /// suffix.
    pub(crate) fn protection(&self) -> Option<&str> {
        let secured = || self.series.split_once("security-").map(|(_, level)| level);
        self.series.strip_prefix(SEALING).or_else(secured)
    }

    /// Whether the samples of both take the same path, as far as charts distinguish paths.
    pub(crate) fn has_path_of(&self, other: &Self) -> bool {
        self.path() == other.path()
    }

    /// The middleware.
    pub(crate) fn product(&self) -> &str {
        self.peer.as_ref().map(|peer| &*peer.name).filter(|name| !name.is_empty()).unwrap_or(OUR_NAME)
    }

    /// The path of the samples, from the words of the series' name.
    fn path(&self) -> Path {
        let known = |words: &[&str]| words.iter().any(|word| self.series.contains(word));
        match () {
            () if known(&["batched"]) => Path::Batched,
            () if known(&["zero-copy", "in-place", "data-sharing"]) => Path::InPlace,
            () if known(&["flat-data"]) => Path::FlatData,
            () if known(&["shared-memory", "shm", "copied"]) => Path::SharedMemory,
            () if known(&["same-process"]) => Path::SameProcess,
            () => Path::Network,
        }
    }

    /// Whether samples are protected, from the options of RTI Perftest's security or from its name.
    pub(crate) fn is_secured(&self) -> bool {
        let is_option = |option: &String| option.to_ascii_lowercase().starts_with("-secure");
        let name = self.series.to_ascii_lowercase();
        self.options.iter().any(is_option) || name.split('-').any(|word| SECURITY_WORDS.contains(&word))
    }
}

/// The path of samples, as far as charts distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Path {
    Network,
    Batched,
    SharedMemory,
    InPlace,
    FlatData,
    SameProcess,
}

/// Beginning of the name of a series that only seals and opens bytes.
const SEALING: &str = "sealing-";
/// Whether a series with this name only seals and opens bytes, and moves none.
pub(crate) fn is_sealing(series: &str) -> bool {
    series.starts_with(SEALING)
}

/// Words of a series' name that mean protected samples.
const SECURITY_WORDS: [&str; 3] = ["secure", "secured", "security"];
/// Name of this project's middleware in a series of several.
const OUR_NAME: &str = "Peregrine";

/// All measurements under the same conditions.
pub(crate) struct Facet<'a> {
    /// The conditions as text; empty if the records have none.
    pub(crate) title: String,
    /// Whether samples were sent on a schedule.
    pub(crate) paced: bool,
    pub(crate) rows: Vec<&'a Row>,
}

/// Rows, strands and facets of some records.
pub(crate) struct View<'a> {
    pub(crate) sources: &'a [Source],
    pub(crate) table: &'a Table,
    pub(crate) strands: Vec<Strand>,
    pub(crate) facets: Vec<Facet<'a>>,
}

/// A point of a line: its coordinate and its row.
pub(crate) type Place<'a> = (f64, &'a Row);

impl<'a> View<'a> {
    pub(crate) fn new(sources: &'a [Source], table: &'a Table) -> Self {
        Self { sources, table, strands: strands(sources, table), facets: facets(table) }
    }

    /// Index of a row's strand.
    pub(crate) fn strand_of(&self, row: &Row) -> Option<usize> {
        self.strands.iter().position(|strand| strand.holds(row))
    }

    /// Indices of the strands with a row here.
    pub(crate) fn strands_in(&self, facet: &Facet<'_>) -> Vec<usize> {
        (0..self.strands.len()).filter(|index| facet.rows.iter().any(|row| self.strands[*index].holds(row))).collect()
    }

    /// The rows of a strand along one axis, with all other settings at the reference of the facet.
    pub(crate) fn line(&self, facet: &Facet<'a>, strand: usize, along: Along) -> Vec<Place<'a>> {
        let Some(strand) = self.strands.get(strand) else { return Vec::new() };
        let others = Along::ALL.into_iter().filter(|other| *other != along);
        let fixed: Vec<(Along, Option<f64>)> = others.map(|other| (other, facet.reference(other))).collect();
        let fits = |row: &Row| fixed.iter().all(|(other, value)| other.of(row) == *value);
        let mut places: Vec<Place<'a>> = facet
            .rows
            .iter()
            .copied()
            .filter(|row| strand.holds(row) && fits(row))
            .filter_map(|row| Some((along.of(row)?, row)))
            .collect();
        places.sort_by(|left, right| left.0.total_cmp(&right.0));
        places
    }
}

impl Facet<'_> {
    /// All values along an axis, ascending.
    pub(crate) fn values(&self, along: Along) -> Vec<f64> {
        let mut values: Vec<f64> = self.rows.iter().filter_map(|row| along.of(row)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// Values of the other axes while one varies: the middle size, the lowest rate, the fewest subscribers.
    pub(crate) fn reference(&self, along: Along) -> Option<f64> {
        let values = self.values(along);
        let place = if along == Along::Size { values.len().saturating_sub(1) / 2 } else { 0 };
        values.get(place).copied()
    }

    /// The axes that have more than one value, and that of sizes in any case.
    pub(crate) fn axes(&self) -> Vec<Along> {
        Along::ALL.into_iter().filter(|along| *along == Along::Size || self.values(*along).len() > 1).collect()
    }

    /// The constant settings while one axis varies; empty if no other setting varies.
    pub(crate) fn held(&self, along: Along) -> String {
        let others = Along::ALL.into_iter().filter(|other| *other != along && self.values(*other).len() > 1);
        let text = |other: Along| {
            let value = self.reference(other)?;
            Some(match other {
                Along::Size => format!("{value} B"),
                Along::Rate => format!("{value}/s"),
                Along::Subscribers if value == 1.0 => "1 subscriber".to_owned(),
                Along::Subscribers => format!("{value} subscribers"),
            })
        };
        others.filter_map(text).collect::<Vec<_>>().join(", ")
    }
}

/// In the order of the records and of their series; a series that publishes synchronously and asynchronously makes two
/// strands.
fn strands(sources: &[Source], table: &Table) -> Vec<Strand> {
    let mut strands: Vec<Strand> = Vec::new();
    for (record, source) in sources.iter().enumerate() {
        for series in &source.record.header.series {
            let rows = || table.rows.iter().filter(|row| row.record == record && row.series == series.id);
            let mut ways: Vec<Publishing> =
                rows().filter_map(|row| row.case.as_ref()).map(|case| case.publishing).collect();
            ways.sort_unstable();
            ways.dedup();
            let ways: Vec<Option<Publishing>> =
                if ways.len() > 1 { ways.into_iter().map(Some).collect() } else { vec![None] };
            for publishing in ways.into_iter().filter(|_| rows().next().is_some()) {
                let way = publishing.map_or_else(String::new, |way| format!(", {way}"));
                let short = if series.short_label.is_empty() { &series.label } else { &series.short_label };
                let from = if sources.len() > 1 { format!(" ({})", source.name) } else { String::new() };
                strands.push(Strand {
                    record,
                    series: series.id.clone(),
                    publishing,
                    label: format!("{}{way}{from}", series.label),
                    short_label: format!("{short}{way}{from}"),
                    floor: series.floor,
                    peer: series.peer.as_deref().cloned(),
                    options: series.options.clone(),
                    style: Style::default(),
                });
            }
        }
    }
    colour(&mut strands);
    strands
}

/// In one record with several products, the colour shows the product and the pattern the path. Otherwise each series
/// has a colour.
fn colour(strands: &mut [Strand]) {
    let mut products: Vec<String> = Vec::new();
    for strand in strands.iter().filter(|strand| !strand.floor) {
        if !products.iter().any(|known| *known == strand.product()) {
            products.push(strand.product().to_owned());
        }
    }
    if strands.iter().any(|strand| strand.record > 0) || products.len() < 2 {
        return colour_by_series(strands);
    }
    let mut paths: Vec<(Path, Option<Publishing>)> =
        strands.iter().filter(|strand| !strand.floor).map(|strand| (strand.path(), strand.publishing)).collect();
    paths.sort_unstable();
    paths.dedup();
    for strand in strands {
        let product = products.iter().position(|known| !strand.floor && *known == strand.product());
        let colour = product.map_or(0, |product| 1 + product % (COLOURS - 1));
        let dash = paths.iter().position(|path| !strand.floor && *path == (strand.path(), strand.publishing));
        strand.style = Style { colour, dash: dash.unwrap_or(0) };
    }
}

/// The same series has the same colour in every record. Records after the first are dashed, and so are series when no
/// colour is left.
fn colour_by_series(strands: &mut [Strand]) {
    let mut known: Vec<(String, Option<Publishing>)> = Vec::new();
    for strand in strands {
        if strand.floor {
            strand.style = Style { colour: 0, dash: strand.record };
            continue;
        }
        let key = (strand.series.clone(), strand.publishing);
        let place = known.iter().position(|other| *other == key).unwrap_or_else(|| {
            known.push(key);
            known.len() - 1
        });
        let free = COLOURS - 1;
        strand.style = Style { colour: 1 + place % free, dash: strand.record + place / free };
    }
}

/// Conditions that the rows of a facet have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Conditions<'a> {
    paced: bool,
    case: Option<(Delivery, Reliability, u32, u32)>,
    data_type: Option<&'a str>,
    /// Present if records have several.
    wait: Option<Wait>,
}

impl<'a> Conditions<'a> {
    fn of(row: &'a Row, by_type: bool, by_wait: bool) -> Self {
        Self {
            paced: row.rate_per_s.is_some(),
            case: row.case.as_ref().map(|case| (case.delivery, case.reliability, case.publishers, case.topics)),
            data_type: row.case.as_ref().map(|case| case.data_type.as_str()).filter(|_| by_type),
            wait: row.case.as_ref().and_then(|case| case.wait).filter(|_| by_wait),
        }
    }
}

fn facets(table: &Table) -> Vec<Facet<'_>> {
    let by_type = has_several_types_of_a_size(table);
    // Plain sockets have no listener, and block where the others have one.
    let others = table.rows.iter().filter(|row| !row.floor);
    let mut waits = others.filter_map(|row| row.case.as_ref()?.wait);
    let by_wait = waits.next().is_some_and(|first| waits.any(|other| other != first));
    let mut groups: Vec<(Conditions<'_>, Vec<&Row>)> = Vec::new();
    for row in &table.rows {
        let conditions = Conditions::of(row, by_type, by_wait);
        match groups.iter_mut().find(|(other, _)| *other == conditions) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((conditions, vec![row])),
        }
    }
    share_floors(&mut groups);
    let all: Vec<Conditions<'_>> = groups.iter().map(|(conditions, _)| *conditions).collect();
    let facet = |(conditions, rows): (Conditions<'_>, Vec<_>)| Facet {
        title: title(conditions, &all),
        paced: conditions.paced,
        rows,
    };
    groups.into_iter().map(|(conditions, rows)| facet((conditions, rows))).collect()
}

/// The floor has neither reliability nor types: it is shown beside all rows of the same layout, and by itself without
/// any.
fn share_floors<'a>(groups: &mut Vec<(Conditions<'a>, Vec<&'a Row>)>) {
    let layout = |row: &Row| {
        let case = row.case.as_ref();
        let case = case.map(|case| (case.delivery, case.publishers, case.topics, case.wait.map(wait_of_floor)));
        (row.record, row.rate_per_s, row.data_len, row.subscribers(), case)
    };
    let floors: Vec<&Row> = groups.iter().flat_map(|(_, rows)| rows).copied().filter(|row| row.floor).collect();
    let mut shared: Vec<&Row> = Vec::new();
    for (_, rows) in groups.iter_mut() {
        let others: Vec<_> = rows.iter().filter(|row| !row.floor).map(|row| layout(row)).collect();
        for floor in floors.iter().copied().filter(|floor| others.contains(&layout(floor))) {
            shared.push(floor);
            if !rows.iter().any(|row| std::ptr::eq(*row, floor)) {
                rows.push(floor);
            }
        }
    }
    let is_shared = |row: &Row| shared.iter().any(|floor| std::ptr::eq(*floor, row));
    groups.retain(|(_, rows)| rows.iter().any(|row| !row.floor || !is_shared(row)));
}

/// Samples of one size and different shapes cannot share a line.
fn has_several_types_of_a_size(table: &Table) -> bool {
    let typed = || table.rows.iter().filter_map(|row| Some((row.data_len, row.case.as_ref()?.data_type.as_str())));
    let mut seen: Vec<(u64, &str)> = Vec::new();
    typed().any(|(data_len, name)| {
        let other = seen.iter().any(|(len, other)| *len == data_len && *other != name);
        seen.push((data_len, name));
        seen.dedup();
        other
    })
}

/// The distinguishing conditions, or all conditions if there is only one set.
fn title(conditions: Conditions<'_>, all: &[Conditions<'_>]) -> String {
    let Some((delivery, reliability, publishers, topics)) = conditions.case else {
        return if all.len() > 1 && conditions.paced { "at fixed rates".into() } else { String::new() };
    };
    let mut parts = vec![delivery.to_string(), reliability.to_string()];
    if publishers > 1 {
        parts.push(format!("{publishers} publishers"));
    }
    if topics > 1 {
        parts.push(format!("{topics} topics"));
    }
    parts.extend(conditions.data_type.filter(|name| !name.is_empty()).map(str::to_owned));
    parts.extend(conditions.wait.map(|wait| format!("wait {wait}")));
    if all.iter().any(|other| other.paced != conditions.paced) {
        parts.push(if conditions.paced { "at fixed rates".into() } else { "no fixed rate".into() });
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests;

//! One self-contained page: nothing is loaded, no script runs, pictures are inline SVG.

use std::fmt::Write;

use super::chart::{Axis, COLOURS, Line, Scale, line_chart, short};
use super::load::load_html;
use super::{grouped, microseconds};
use crate::record::{HostFacts, Interface, Record};
use crate::table::{Row, Table};

/// Renders a record as a page.
pub fn html(record: &Record) -> String {
    let table = Table::of(record);
    let mut page = Page { record, table: &table, text: String::with_capacity(256 * 1024) };
    page.head();
    page.warnings();
    page.latency_charts();
    page.throughput_charts();
    page.distribution_charts();
    page.tables();
    page.text += &load_html(record);
    page.host();
    page.method();
    page.text.push_str("</main>\n</body>\n</html>\n");
    page.text
}

/// Makes text safe to stand between tags and in attributes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

struct Page<'a> {
    record: &'a Record,
    table: &'a Table,
    text: String,
}

/// A value of a row, when the row has it.
type Pick = fn(&Row) -> Option<f64>;

impl Page<'_> {
    fn head(&mut self) {
        let header = &self.record.header;
        let host = &self.record.host;
        let _ = write!(
            self.text,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>Latency and throughput, {date}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n\
             <header><h1>Latency and throughput of this machine</h1>\n<p class=\"lead\">{cpu}, {cores} cores, \
             {virtualisation}<br>{kernel}</p>\n<p class=\"meta\">{tool} {version} · {date} · {repetitions} repetitions of \
             {time} ms per size</p></header>\n",
            include_str!("style.css"),
            date = escape(&header.created_utc),
            cpu = escape(&host.cpu_model),
            cores = host.cores,
            virtualisation = if host.virtualisation == "none" {
                "on bare metal".into()
            } else {
                format!("under {}", escape(&host.virtualisation))
            },
            kernel = escape(&host.kernel),
            tool = escape(&header.tool),
            version = escape(&header.version),
            repetitions = header.repetitions,
            time = header.measurement_ms,
        );
    }

    fn warnings(&mut self) {
        let mut warnings: Vec<String> = Vec::new();
        match &self.record.end {
            None => warnings.push("The record was cut off; the numbers cover what was measured until then.".into()),
            Some(end) if !end.complete => warnings.push(format!("The measurement is incomplete: {}", end.reason)),
            Some(_) => {}
        }
        warnings.extend(self.record.warnings.iter().map(|warning| warning.text.clone()));
        warnings.extend(self.table.doubts());
        if warnings.is_empty() {
            return;
        }
        self.text.push_str("<section class=\"warnings\"><h2>Read with care</h2><ul>\n");
        for warning in warnings {
            let _ = writeln!(self.text, "<li>{}</li>", escape(&warning));
        }
        self.text.push_str("</ul></section>\n");
    }

    fn latency_charts(&mut self) {
        self.open_section(
            "Latency by sample size",
            "One way, half of a round trip, in microseconds. Solid: median. Dashed, on the logarithmic axes: 99th \
             percentile.",
        );
        let median: Pick = |row| Some(row.latency.as_ref()?.p50_ns.median / 1e3);
        let p99: Pick = |row| Some(row.latency.as_ref()?.merged.p99_ns as f64 / 1e3);
        for scale in [Scale::Logarithmic, Scale::Linear] {
            // On a linear axis the tail would press the medians flat.
            let mut lines = if scale == Scale::Logarithmic { self.lines_by_size(p99, true) } else { Vec::new() };
            lines.extend(self.lines_by_size(median, false));
            self.size_chart("Latency by sample size", "latency (µs)", scale, &lines, "µs");
        }
        self.close_section();
    }

    fn throughput_charts(&mut self) {
        self.open_section(
            "Throughput by sample size",
            "Sample data received, megabits (10⁶) per second, and samples per second. Median of the repetitions.",
        );
        let mbit: Pick = |row| Some(row.throughput.as_ref()?.mbit_per_s.median);
        let samples: Pick = |row| Some(row.throughput.as_ref()?.samples_per_s.median);
        for scale in [Scale::Logarithmic, Scale::Linear] {
            let lines = self.lines_by_size(mbit, false);
            self.size_chart("Throughput by sample size", "Mbit/s", scale, &lines, "Mbit/s");
        }
        for scale in [Scale::Logarithmic, Scale::Linear] {
            let lines = self.lines_by_size(samples, false);
            self.size_chart("Samples per second by sample size", "samples/s", scale, &lines, "samples/s");
        }
        self.close_section();
    }

    fn distribution_charts(&mut self) {
        let mut sizes: Vec<u64> = self.table.rows.iter().map(|row| row.data_len).collect();
        sizes.dedup();
        let (Some(first), Some(last)) = (sizes.first().copied(), sizes.last().copied()) else { return };
        self.open_section(
            "Distribution of latency",
            "Every value of all repetitions: how long the best share of samples took at most.",
        );
        for data_len in if first == last { vec![first] } else { vec![first, last] } {
            self.distribution_chart(data_len);
        }
        self.close_section();
    }

    /// The horizontal axis shows 1 / (1 − p), so that each nine takes the same room.
    fn distribution_chart(&mut self, data_len: u64) {
        let marks = [
            (1.0, "0 %"),
            (2.0, "50 %"),
            (10.0, "90 %"),
            (1e2, "99 %"),
            (1e3, "99.9 %"),
            (1e4, "99.99 %"),
            (1e5, "99.999 %"),
        ];
        let mut lines = Vec::new();
        for row in self.table.rows.iter().filter(|row| row.data_len == data_len) {
            let Some(latency) = &row.latency else { continue };
            let highest = (latency.merged.count as f64).max(1.0);
            let steps = (highest.ln() / 10_f64.ln() * 8.0).ceil() as u32;
            let points = (0..=steps)
                .map(|step| 10_f64.powf(f64::from(step) / 8.0).min(highest))
                .map(|odds| (odds, latency.merged.value_at(1.0 - 1.0 / odds) as f64 / 1e3));
            lines.push(Line {
                label: row.label.clone(),
                colour: self.colour(&row.series),
                dashed: false,
                points: points.collect(),
            });
        }
        let highest = lines.iter().flat_map(|line| &line.points).map(|point| point.0).fold(1.0, f64::max);
        let ticks =
            marks.iter().filter(|mark| mark.0 <= highest).map(|(value, label)| (*value, (*label).into())).collect();
        let title = format!("Latency of {data_len} B samples");
        let x = Axis { title: "share of samples", scale: Scale::Logarithmic, ticks };
        let y = Axis { title: "latency (µs)", scale: Scale::Logarithmic, ticks: Vec::new() };
        let svg = line_chart(&title, &x, &y, &lines, &|line, (odds, value)| {
            format!("{}: {:.3} % within {value:.2} µs", line.label, (1.0 - 1.0 / odds) * 100.0)
        });
        self.figure(&format!("{title}, logarithmic"), &svg);
    }

    fn size_chart(&mut self, name: &str, y_title: &'static str, scale: Scale, lines: &[Line], unit: &str) {
        let mut sizes: Vec<u64> = self.table.rows.iter().map(|row| row.data_len).collect();
        sizes.dedup();
        let linear = scale == Scale::Linear;
        let ticks =
            if linear { Vec::new() } else { sizes.iter().map(|size| (*size as f64, size_label(*size))).collect() };
        let x = Axis { title: "sample size (bytes)", scale, ticks };
        let y = Axis { title: y_title, scale, ticks: Vec::new() };
        let svg = line_chart(name, &x, &y, lines, &|line, (size, value)| {
            let value = if value < 100.0 { format!("{value:.2}") } else { grouped(value) };
            format!("{}, {size} B: {value} {unit}", line.label)
        });
        self.figure(if linear { "linear" } else { "logarithmic" }, &svg);
    }

    fn lines_by_size(&self, pick: Pick, dashed: bool) -> Vec<Line> {
        let line = |(id, label): &(&str, &str)| Line {
            label: (*label).to_owned(),
            colour: self.colour(id),
            dashed,
            points: self
                .table
                .rows
                .iter()
                .filter(|row| row.series == *id)
                .filter_map(|row| Some((row.data_len as f64, pick(row)?)))
                .collect(),
        };
        self.table.series().iter().map(line).collect()
    }

    fn colour(&self, series: &str) -> usize {
        self.table.series().iter().position(|(id, _)| *id == series).unwrap_or(0) % COLOURS
    }

    fn tables(&mut self) {
        self.text.push_str(
            "<section><h2>All numbers</h2>\n<p>Latency in microseconds. “± %” is half the distance between the \
             repetitions' extremes, as a share of their median; “× floor” compares with the floor of the same size. A \
             percentile marked * rests on fewer than ten samples above it.</p>\n<div class=\"scroll\"><table>\n<thead><tr>\
             <th>bytes</th><th class=\"name\">series</th><th>min</th><th>p50</th><th>± %</th><th>p90</th><th>p99</th>\
             <th>p99.99</th><th>max</th><th>× floor</th><th>samples/s</th><th>± %</th><th>Mbit/s</th><th>lost %</th>\
             <th>× floor</th></tr></thead>\n<tbody>\n",
        );
        let mut last_size = None;
        for row in &self.table.rows {
            let first = last_size.replace(row.data_len) != Some(row.data_len);
            let cells = row_cells(row);
            let _ = write!(
                self.text,
                "<tr{}><td>{}</td><td class=\"name\"><span class=\"swatch c{}\"></span>{}</td>",
                if first { " class=\"first\"" } else { "" },
                row.data_len,
                self.table.series().iter().position(|(id, _)| *id == row.series).unwrap_or(0) % COLOURS,
                escape(&row.label),
            );
            for cell in cells {
                let _ = write!(self.text, "<td>{cell}</td>");
            }
            self.text.push_str("</tr>\n");
        }
        self.text.push_str("</tbody></table></div></section>\n");
    }

    fn host(&mut self) {
        let header = &self.record.header;
        self.text.push_str("<section><h2>The machine and the settings</h2>\n<dl>\n");
        let pinned = if header.pinned_cores.is_empty() {
            "not bound to cores".into()
        } else {
            format!("publisher and subscriber on cores {:?}", header.pinned_cores)
        };
        let idle = if header.idle_states_disabled {
            "kept out of deep sleep (/dev/cpu_dma_latency held at 0)"
        } else {
            "free to sleep deeply; wake-ups include it"
        };
        for (term, text) in host_facts(&self.record.host) {
            definition(&mut self.text, term, &text);
        }
        definition(&mut self.text, "Processes", &pinned);
        definition(&mut self.text, "Idle cores", idle);
        for series in &header.series {
            definition(&mut self.text, &series.label, &format!("perftest {}", series.options.join(" ")));
        }
        definition(&mut self.text, "Command", &header.command_line.join(" "));
        self.text.push_str("</dl></section>\n");
    }

    fn method(&mut self) {
        self.text.push_str(
            "<section><h2>How to read this</h2>\n<p>Publisher and subscriber are separate processes. <b>Latency</b> is \
             measured with one sample under way at a time: a sample goes to the subscriber, comes back whole, and half \
             of the time is counted. It is the latency of an unloaded path. <b>Throughput</b> is what the subscriber \
             received while the publisher sent as fast as it could; what did not arrive is counted as lost. The series \
             take turns within each repetition, so that a change of the machine meets all of them. The <b>floor</b> is \
             the same test over plain sockets: no middleware can be expected to be faster by the same means. Every \
             histogram is in the record beside this page.</p></section>\n",
        );
    }

    fn open_section(&mut self, title: &str, explanation: &str) {
        let _ = write!(self.text, "<section><h2>{title}</h2>\n<p>{explanation}</p>\n<p class=\"legend\">");
        let legend: String = self
            .table
            .series()
            .iter()
            .map(|(id, label)| {
                format!("<span><span class=\"swatch c{}\"></span>{}</span> ", self.colour(id), escape(label))
            })
            .collect();
        self.text += &legend;
        self.text.push_str("</p>\n<div class=\"charts\">\n");
    }

    fn close_section(&mut self) {
        self.text.push_str("</div></section>\n");
    }

    fn figure(&mut self, caption: &str, svg: &str) {
        let _ = writeln!(self.text, "<figure>{svg}<figcaption>{}</figcaption></figure>", escape(caption));
    }
}

fn row_cells(row: &Row) -> Vec<String> {
    let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}"));
    let mut cells = Vec::new();
    match &row.latency {
        None => cells.extend(vec!["–".into(); 8]),
        Some(latency) => {
            let mark = if latency.merged.supports(0.9999) { "" } else { "*" };
            cells.extend([
                microseconds(latency.merged.min_ns as f64),
                format!("<b>{}</b>", microseconds(latency.p50_ns.median)),
                format!("{:.0}", latency.p50_ns.relative_half_width() * 100.0),
                microseconds(latency.merged.p90_ns as f64),
                microseconds(latency.merged.p99_ns as f64),
                format!("{}{mark}", microseconds(latency.merged.p99_99_ns as f64)),
                microseconds(latency.merged.max_ns as f64),
                ratio(latency.ratio_to_floor),
            ]);
        }
    }
    match &row.throughput {
        None => cells.extend(vec!["–".into(); 5]),
        Some(throughput) => cells.extend([
            format!("<b>{}</b>", grouped(throughput.samples_per_s.median)),
            format!("{:.0}", throughput.samples_per_s.relative_half_width() * 100.0),
            grouped(throughput.mbit_per_s.median),
            format!("{:.2}", throughput.lost_percent),
            ratio(throughput.ratio_to_floor),
        ]),
    }
    cells
}

fn size_label(size: u64) -> String {
    if size >= 1024 && size.is_multiple_of(1024) { format!("{}Ki", size / 1024) } else { short(size as f64) }
}

fn definition(text: &mut String, term: &str, value: &str) {
    if !value.is_empty() {
        let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escape(term), escape(value));
    }
}

fn host_facts(host: &HostFacts) -> Vec<(&'static str, String)> {
    let memory =
        host.memory_bytes.map_or_else(String::new, |bytes| format!("{:.1} GiB", bytes as f64 / (1 << 30) as f64));
    let idle = match (host.idle_driver.as_str(), host.idle_governor.as_str()) {
        ("", _) => "no driver visible".into(),
        (driver, governor) => format!("driver {driver}, governor {governor}"),
    };
    vec![
        ("Processor", host.cpu_model.clone()),
        ("Cores", host.cores.to_string()),
        ("Threads per core", host.threads_per_core.map_or_else(String::new, |threads| threads.to_string())),
        ("Frequency governor", if host.governor.is_empty() { "not visible".into() } else { host.governor.clone() }),
        ("Idle states", idle),
        ("Others holding /dev/cpu_dma_latency", host.cpu_dma_latency_holders.join(", ")),
        ("Virtualisation", host.virtualisation.clone()),
        ("Memory", memory),
        ("Kernel", host.kernel.clone()),
        ("Kernel options", host.kernel_options.join(" ")),
        ("Clock source", host.clock_source.clone()),
        ("Mitigations", host.mitigations.join("; ")),
        ("Socket limits", host.socket_limits.join("; ")),
        ("Load average", host.load.clone()),
        ("Idle states of a core", host.idle_states.join("; ")),
        (
            "Longest wake-up allowed before",
            host.cpu_dma_latency_us.map_or_else(String::new, |latency| format!("{latency} us (/dev/cpu_dma_latency)")),
        ),
        ("Turbo", host.turbo.clone()),
        ("Microcode", host.microcode.clone()),
        ("Transparent huge pages", host.transparent_huge_pages.clone()),
        ("Limits of control groups", host.group_limits.join("; ")),
        (
            "Time given to others by the hypervisor",
            host.stolen_percent.map_or_else(String::new, |percent| format!("{percent:.2} % since the start")),
        ),
        ("Interfaces", host.interfaces.iter().map(interface_text).collect::<Vec<_>>().join("; ")),
    ]
}

fn interface_text(interface: &Interface) -> String {
    let mut text = interface.name.clone();
    if !interface.driver.is_empty() {
        let _ = write!(text, " ({})", interface.driver);
    }
    if let Some(mtu) = interface.mtu {
        let _ = write!(text, ", MTU {mtu}");
    }
    if let Some(speed) = interface.speed_mbit_per_s {
        let _ = write!(text, ", {speed} Mbit/s");
    }
    if let Some(len) = interface.gso_max_bytes {
        let _ = write!(text, ", GSO up to {len} B");
    }
    if let Some(queues) = interface.receive_queues {
        let _ = write!(text, ", {queues} receive queues");
    }
    if !interface.offloads.is_empty() {
        let _ = write!(text, ", offloads {}", interface.offloads.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn a_page_needs_nothing_but_itself() {
        let page = html(&example::record());
        for foreign in ["http://", "https://", "<script", "@import", "url("] {
            assert!(!page.contains(foreign), "the page contains {foreign}");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert_eq!(page.matches("<svg").count(), 8);
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn what_was_typed_or_found_cannot_become_markup() {
        let page = html(&example::record());
        assert!(page.contains("DDS &lt;reliable&gt;") && !page.contains("<reliable>"));
        assert!(page.contains("Loud &amp; busy neighbours"));
    }

    #[test]
    fn every_row_is_in_the_table_and_a_cut_off_record_says_so() {
        let page = html(&example::record());
        assert_eq!(page.matches("<tr").count(), 5);
        assert!(page.contains("The record was cut off"));
    }

    #[test]
    fn an_empty_record_is_a_page_too() {
        let page = html(&Record::default());
        assert!(page.ends_with("</html>\n") && !page.contains("NaN"));
    }
}

use super::*;
use crate::example;
use crate::record::{Record, WireUse};

fn page(record: Record) -> String {
    html(&[Source { name: "example".into(), record }])
}

#[test]
fn page_is_self_contained() {
    for record in [example::record(), example::characterization(), example::campaign(), example::raspberry_pi()] {
        let page = page(record);
        for foreign in ["http://", "https://", "<script", "@import", "url(", "onload", "onclick"] {
            assert!(!page.contains(foreign), "the page contains {foreign}");
        }
        assert!(page.contains("default-src 'none'"));
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(!page.contains("NaN") && !page.contains("inf\""));
    }
}

#[test]
fn every_tag_that_is_opened_is_closed() {
    for record in [
        example::record(),
        example::characterization(),
        example::campaign(),
        example::security(),
        example::secured_rates(),
    ] {
        let page = page(record);
        for tag in ["section", "details", "div", "figure", "table", "tbody", "tr", "td", "p", "dl", "ul", "svg", "pre"]
        {
            let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "<{tag}>");
        }
    }
}

#[test]
fn user_and_host_text_is_escaped() {
    let page = page(example::record());
    assert!(page.contains("DDS &lt;reliable&gt;") && !page.contains("<reliable>"));
    assert!(page.contains("Loud &amp; busy neighbours"));
}

#[test]
fn interrupted_record_is_reported_and_empty_record_is_a_page() {
    assert!(page(example::record()).contains("The record was cut off"));
    let page = page(Record::default());
    assert!(page.ends_with("</html>\n") && !page.contains("NaN"));
    assert!(html(&[]).ends_with("</html>\n"));
}

#[test]
fn charts_have_two_scales_and_show_one() {
    let page = page(example::characterization());
    assert_eq!(page.matches("<figure class=\"log\">").count(), page.matches("<figure class=\"lin\">").count());
    assert!(page.matches("<figure class=\"log\">").count() >= 10);
    assert_eq!(page.matches(" checked>").count(), 1);
}

#[test]
fn only_the_selected_scale_is_printed() {
    let style = include_str!("style.css");
    let (_, print) = style.split_once("@media print").unwrap();
    assert!(!print.contains(".lin") && !print.contains(".log"), "the rules of the screen hold on paper too");
}

#[test]
fn one_or_two_sizes_give_a_table_without_chart() {
    let page = page(example::record());
    assert!(!page.contains("Median latency by sample size"), "two sizes are no curve");
    assert!(page.contains("<h2>All numbers</h2>"));
}

#[test]
fn summary_shows_processor_time_and_memory_of_other_middlewares() {
    let mut record = example::record();
    record.header.series[1].peer =
        Some(Box::new(crate::record::PeerFacts { name: "Other".into(), ..Default::default() }));
    for one in record.measurements.iter_mut().filter(|one| one.series == "dds") {
        let total = crate::record::Interval {
            wall_ns: 100_000_000,
            user_ns: 5_000_000,
            rss_peak_bytes: Some(7 << 20),
            ..Default::default()
        };
        one.publisher.resources = Some(crate::record::ResourceUse { total, ..Default::default() });
    }
    let page = page(record);
    let (_, summary) = page.split_once("At a glance</h2>").unwrap();
    let (summary, _) = summary.split_once("</section>").unwrap();
    assert!(summary.contains("<th>CPU µs per sample</th>") && summary.contains("<td>7.0</td>"), "{summary}");
}

#[test]
fn far_tail_stands_beside_the_99th_percentile() {
    let page = page(example::characterization());
    let (_, summary) = page.split_once("At a glance</h2>").unwrap();
    let (summary, _) = summary.split_once("</section>").unwrap();
    assert!(summary.contains("<th>p99</th><th>p99.9</th>"), "{summary}");
    assert!(page.contains("<figcaption>99.9th percentile of latency by sample size</figcaption>"));
}

#[test]
fn page_with_many_verdicts_states_how_many_to_expect_by_chance() {
    let mut record = example::record();
    let template: Vec<_> = record.measurements.iter().filter(|one| one.repetition == 0).cloned().collect();
    record.measurements = (0..8)
        .flat_map(|repetition| template.iter().map(move |one| crate::record::Measurement { repetition, ..one.clone() }))
        .collect();
    let page = page(record);
    assert!(page.contains("<p>4 comparisons at 95 %: without any true difference, about 0.2 of them"), "no note");
    assert!(page.contains("better") || page.contains("worse by 100.0 %"));
}

#[test]
fn campaign_is_shown_along_each_axis_under_each_condition() {
    let page = page(example::campaign());
    for heading in
        ["Same host, reliable", "Same host, best effort", "Same process, reliable", "Same process, best effort"]
    {
        assert!(page.contains(&format!("<h3>{heading}</h3>")), "{heading}");
    }
    for caption in [
        "Median latency by sample size (30/s, 1 subscriber)",
        "Median latency by rate (4096 B, 1 subscriber)",
        "CPU time by number of subscribers (4096 B, 30/s)",
        "Memory by sample size (30/s, 1 subscriber)",
    ] {
        // Four conditions, two scales.
        assert_eq!(page.matches(&format!("<figcaption>{caption}</figcaption>")).count(), 8, "{caption}");
    }
    assert!(
        page.contains("Peregrine, asynchronous") && page.contains("latency p50 of Peregrine, synchronous over others")
    );
    assert!(page.contains("ten readers in one process do not fit"), "skipped cases are listed with the reason");
    assert!(page.contains("SocketReceiveBufferSize 8 MiB"), "the settings of other middlewares are listed");
    assert!(page.contains("[[matrix]]"), "the plan is there to be run again");
    assert!(page.contains("Reference document 004"));
}

#[test]
fn published_figures_stand_beside_with_their_machine_and_place() {
    let page = page(example::raspberry_pi());
    assert!(page.contains("Reference document 000") && page.contains("Reference document 003"));
    assert!(page.contains("two Raspberry Pi 2 Model B") && page.contains("Latency Results -- RAW Transport (UDPv4)"));
    // Connext Professional over raw sockets at 1024 bytes, 907 / 602.
    assert!(page.contains("<td>1.51</td>"));
}

#[test]
fn protection_is_compared_with_the_same_path_without() {
    let with = page(example::security());
    assert!(with.contains("What security costs") && with.contains("RTPS sign, data encrypt"));
    assert!(with.contains("Latency that protection adds") && with.contains("seal and open only: RTPS encrypt"));
    // Four series and their baseline, then three additions and two floors.
    assert!(with.matches("<rect class=\"bar").count() >= 4 * 12 + 5 * 12);
    assert!(!page(example::characterization()).contains("What security costs"));
}

#[test]
fn secured_rates_stand_beside_their_bound() {
    let page = page(example::secured_rates());
    let (_, section) = page.split_once("Throughput beside its bound</h3>").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    assert!(section.contains("<th>bound, samples/s</th>") && section.contains("Peregrine, batched, RTPS encrypt"));
    // Four series at each size, and the headings.
    assert_eq!(section.matches("<tr>").count(), 4 * 12 + 1);
    // Sealing alone is far faster than any path, which would be a line at the bottom of its charts.
    let (_, throughput) = page.split_once("<h2>Throughput</h2>").unwrap();
    let (throughput, _) = throughput.split_once("</section>").unwrap();
    assert!(!throughput.contains("seal and open only"), "{throughput}");
}

#[test]
fn several_records_share_a_page_and_keep_their_names() {
    let source = |name: &str| Source { name: name.into(), record: example::characterization() };
    let page = html(&[source("before"), source("after")]);
    assert!(page.contains("Peregrine reliable (before)") && page.contains("Peregrine reliable (after)"));
    assert!(page.contains("class=\"line c1 d1\""), "the second record is dashed");
    assert!(page.contains("report before") && page.contains("report after"));
}

#[test]
fn transports_are_shown_as_reported_and_else_as_configured() {
    let mut record = example::record();
    let silent = page(record.clone());
    assert!(!silent.contains("Transports used"));
    let [_, own] = &record.header.series[..] else { panic!() };
    let own = own.id.clone();
    let of_own = record.measurements.iter_mut().filter(|one| one.series == own);
    for measurement in of_own {
        let path = vec!["socket 0.0.0.0:7411".to_owned(), "shared memory (1 sent, 0 received)".to_owned()];
        measurement.publisher.wire = Some(WireUse { path, datagrams_sent: 1234, ..WireUse::default() });
    }
    record.header.series[0].options = vec!["transport=udp".into()];
    let count = record.measurements.iter().filter(|one| one.series == own).count();
    let told = page(record);
    assert!(told.contains("UDP sockets, shared memory") && !told.contains("7411"));
    assert!(told.contains(&format!("<td>{}</td>", crate::numbers::grouped(1234.0 * count as f64))));
    assert!(told.contains("as configured: udp; not counted"));
}

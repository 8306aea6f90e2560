//! The text of the page: tool, host, method, settings, and limits of the numbers.

use std::fmt::Write;

use crate::numbers::count_text;
use crate::record::{Header, HostFacts, Interface, Series};
use crate::render::markup::escape;
use crate::table::Source;
use crate::view::View;

/// The beginning of the page, up to its heading. The style sheet is in the page, and the page forbids loading resources
/// and running scripts.
pub(super) fn head(view: &View<'_>) -> String {
    let title = title(view.sources);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <input type=\"radio\" name=\"scale\" id=\"logarithmic\" checked>\
         <input type=\"radio\" name=\"scale\" id=\"linear\">\n<main>\n\
         <div class=\"switch\" role=\"group\" aria-label=\"Axes\"><label for=\"logarithmic\">logarithmic</label>\
         <label for=\"linear\">linear</label></div>\n<header><h1>{}</h1>\n",
        escape(&title),
        include_str!("style.css"),
        escape(&title),
    );
    for source in view.sources {
        let (header, host) = (&source.record.header, &source.record.host);
        let name = if view.sources.len() > 1 { format!("<b>{}</b> · ", escape(&source.name)) } else { String::new() };
        let place = header.plan.as_ref().map_or_else(String::new, |plan| plan.place.clone());
        let place = if place.is_empty() { String::new() } else { format!("{} · ", escape(&place)) };
        let _ = writeln!(
            text,
            "<p class=\"lead\">{name}{place}{}, {}, {}</p>\n<p class=\"meta\">{} {} · {} · {}{}</p>",
            escape(&host.cpu_model),
            count_text(u32::try_from(host.cores).unwrap_or(u32::MAX), "core", "cores"),
            escape(&virtualisation(host)),
            escape(&header.tool),
            escape(&header.version),
            escape(&header.created_utc),
            count_text(header.repetitions, "repetition", "repetitions"),
            length(header),
        );
    }
    text.push_str("</header>\n");
    text
}

/// Length of a measurement; empty if it depends on the measured middleware.
fn length(header: &Header) -> String {
    if header.measurement_ms == 0 { String::new() } else { format!(" of {} ms", header.measurement_ms) }
}

fn title(sources: &[Source]) -> String {
    match sources {
        [source] => match &source.record.header.plan {
            Some(plan) if !plan.title.is_empty() => plan.title.clone(),
            _ if source.record.measurements.is_empty() && !source.record.scales.is_empty() => {
                "The cost of many endpoints on this machine".into()
            }
            _ => "Latency and throughput of this machine".into(),
        },
        _ => format!("Latency and throughput: {} records", sources.len()),
    }
}

fn virtualisation(host: &HostFacts) -> String {
    match host.virtualisation.as_str() {
        "none" => "on bare metal".into(),
        "" => "virtualisation unknown".into(),
        name => format!("under {name}"),
    }
}

pub(super) fn warnings(view: &View<'_>) -> String {
    let mut warnings: Vec<String> = Vec::new();
    for source in view.sources {
        let mut of_source: Vec<String> = Vec::new();
        match &source.record.end {
            None => of_source.push("The record was cut off: it holds the measurements up to that point.".into()),
            Some(end) if !end.complete => of_source.push(format!("The measurement is incomplete: {}", end.reason)),
            Some(_) => {}
        }
        of_source.extend(source.record.warnings.iter().map(|warning| warning.text.clone()));
        let name = if view.sources.len() > 1 { format!("{}: ", source.name) } else { String::new() };
        warnings.extend(of_source.into_iter().map(|text| format!("{name}{text}")));
    }
    warnings.extend(view.table.doubts());
    if warnings.is_empty() {
        return String::new();
    }
    let items: String = warnings.iter().map(|warning| format!("<li>{}</li>\n", escape(warning))).collect();
    format!("<section class=\"warnings\"><h2>Read with care</h2><ul>\n{items}</ul></section>\n")
}

/// The settings of each series, and the commands to measure and to show the record again.
pub(super) fn settings(view: &View<'_>) -> String {
    let mut text = String::new();
    for source in view.sources {
        let header = &source.record.header;
        if view.sources.len() > 1 {
            let _ = writeln!(text, "<h3>{}</h3>", escape(&source.name));
        }
        text.push_str("<dl>\n");
        definition(&mut text, "Measured with", &header.command_line.join(" "));
        let folder = if source.name.is_empty() { "DIR" } else { &source.name };
        definition(&mut text, "Shown with", &format!("{} report {folder}", header.tool));
        definition(&mut text, "Processes", &pinning(header));
        let idle = if header.idle_states_disabled {
            "deep idle states off (/dev/cpu_dma_latency held at 0)"
        } else {
            "deep idle states allowed; wake-up times include them"
        };
        definition(&mut text, "Idle cores", idle);
        let payloads = source.record.payloads();
        let payloads: Vec<_> =
            payloads.iter().map(|(what, labels)| format!("{what} for {}", labels.join("; "))).collect();
        definition(&mut text, "Payloads", &payloads.join(". "));
        for series in &header.series {
            definition(&mut text, &series.label, &series_text(header, series));
        }
        text.push_str("</dl>\n");
        if let Some(plan) = &header.plan {
            let publication = if plan.publication.is_empty() {
                String::new()
            } else {
                format!(" It repeats the measurements of: {}.", escape(&plan.publication))
            };
            let _ = writeln!(
                text,
                "<p>Plan <b>{}</b>: {}.{publication}</p>\n<details><summary>The plan as it was read</summary>\n\
                 <pre tabindex=\"0\">{}</pre></details>",
                escape(&plan.name),
                escape(plan.title.trim_end_matches('.')),
                escape(&plan.source)
            );
        }
    }
    text
}

fn pinning(header: &Header) -> String {
    if header.pinned_cores.is_empty() {
        "not bound to cores".into()
    } else {
        format!("publisher and subscriber on cores {:?}", header.pinned_cores)
    }
}

fn series_text(header: &Header, series: &Series) -> String {
    let mut parts = Vec::new();
    if let Some(peer) = &series.peer {
        parts.push(format!("{} {}", peer.name, peer.version).trim().to_owned());
        parts.extend(peer.settings.iter().cloned());
    }
    match series.options.first() {
        // Options of this program, which can be run again.
        Some(first) if first.starts_with('-') => parts.push(format!("{} {}", header.tool, series.options.join(" "))),
        Some(_) => parts.push(series.options.join(", ")),
        None => {}
    }
    if parts.is_empty() { "its defaults".into() } else { parts.join("; ") }
}

pub(super) fn machines(view: &View<'_>) -> String {
    let mut text = String::new();
    for source in view.sources {
        if view.sources.len() > 1 {
            let _ = writeln!(text, "<h3>{}</h3>", escape(&source.name));
        }
        text.push_str("<dl>\n");
        for (term, value) in host_facts(&source.record.host) {
            definition(&mut text, term, &value);
        }
        text.push_str("</dl>\n");
    }
    text
}

pub(super) fn method() -> String {
    "<p>Publishers and subscribers are separate processes, unless a heading says “same process”. <b>Latency</b> at no fixed rate is \
     measured by ping-pong: one sample travels to the subscriber and back, and half of the round trip counts. It is the latency of \
     an unloaded path. At a fixed rate, samples follow an absolute schedule, and latency counts from the time at which each sample was due. \
     <b>Throughput</b> is what a subscriber received while the publisher sent as fast as it could, or at the fixed rate; samples \
     that did not arrive count as lost. The series take turns within each repetition, so that a change of the machine affects all \
     of them. The <b>floor</b> is the same test over plain sockets. Every histogram is in the record beside this page.</p>\n"
        .into()
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
        ("Processes that hold /dev/cpu_dma_latency", host.cpu_dma_latency_holders.join(", ")),
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
            "Wake-up limit before the run",
            host.cpu_dma_latency_us.map_or_else(String::new, |latency| format!("{latency} us (/dev/cpu_dma_latency)")),
        ),
        ("Turbo", host.turbo.clone()),
        ("Microcode", host.microcode.clone()),
        ("Transparent huge pages", host.transparent_huge_pages.clone()),
        ("Control group limits", host.group_limits.join("; ")),
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

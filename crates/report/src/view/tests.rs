use super::*;
use crate::example;
use crate::record::{Case, Measurement, Record};

fn with_view<T>(records: Vec<Record>, look: impl FnOnce(&View<'_>) -> T) -> T {
    let names = ["one", "two"].into_iter();
    let sources: Vec<Source> = names.zip(records).map(|(name, record)| Source { name: name.into(), record }).collect();
    let table = Table::of_all(&sources);
    look(&View::new(&sources, &table))
}

#[test]
fn several_wait_methods_are_conditions() {
    let mut record = example::campaign();
    let waits = |record: &Record| {
        let sources = [Source { name: String::new(), record: record.clone() }];
        let table = Table::of_all(&sources);
        let view = View::new(&sources, &table);
        view.facets.iter().map(|facet| facet.title.clone()).filter(|title| title.contains("wait ")).collect::<Vec<_>>()
    };
    let set = |record: &mut Record, of: fn(usize) -> Wait| {
        for (index, measurement) in record.measurements.iter_mut().enumerate() {
            measurement.case.as_mut().unwrap().wait = Some(of(index));
        }
    };
    set(&mut record, |_| Wait::Poll);
    assert_eq!(waits(&record), Vec::<String>::new());
    set(&mut record, |index| if index % 2 == 0 { Wait::Poll } else { Wait::Listener });
    let titles = waits(&record);
    assert!(titles.iter().any(|title| title.contains("wait poll")), "{titles:?}");
    assert!(titles.iter().any(|title| title.contains("wait listener")), "{titles:?}");
}

#[test]
fn products_have_a_colour_and_paths_a_pattern() {
    let mut record = example::campaign();
    let ids = ["peregrine", "peregrine-shared-memory", "other-udp", "other-shm"];
    let names = ["Peregrine", "Peregrine", "Other", "Other"];
    let template = record.header.series[0].clone();
    let measurement = record.measurements[0].clone();
    record.header.series = ids
        .into_iter()
        .zip(names)
        .map(|(id, name)| crate::record::Series {
            id: id.into(),
            short_label: "short".into(),
            floor: false,
            peer: Some(Box::new(PeerFacts { name: name.into(), ..PeerFacts::default() })),
            ..template.clone()
        })
        .collect();
    record.measurements = ids.into_iter().map(|id| Measurement { series: id.into(), ..measurement.clone() }).collect();
    with_view(vec![record], |view| {
        let styles: Vec<_> = view.strands.iter().map(|strand| (strand.style.colour, strand.style.dash)).collect();
        assert_eq!(styles, [(1, 0), (1, 1), (2, 0), (2, 1)]);
        assert!(view.strands.iter().all(|strand| strand.short_label == "short"));
    });
}

#[test]
fn plain_record_is_one_facet_along_sizes() {
    with_view(vec![example::characterization()], |view| {
        assert_eq!(view.facets.len(), 1);
        let facet = &view.facets[0];
        assert_eq!((facet.title.as_str(), facet.axes().len(), facet.held(Along::Size).as_str()), ("", 1, ""));
        assert_eq!(view.strands_in(facet), [0, 1, 2, 3, 4]);
        assert_eq!(view.line(facet, 0, Along::Size).len(), 12);
        assert_eq!((view.strands[0].style.colour, view.strands[1].style.colour), (0, 1));
    });
}

#[test]
fn campaign_has_facets_by_delivery_and_reliability_and_three_axes() {
    with_view(vec![example::campaign()], |view| {
        assert_eq!(view.facets.len(), 4);
        let facet = &view.facets[0];
        assert_eq!(facet.axes(), [Along::Size, Along::Rate, Along::Subscribers]);
        assert_eq!(facet.reference(Along::Size), Some(4096.0));
        // Two variants of ours, two others.
        assert_eq!(view.strands.len(), 4);
        for along in Along::ALL {
            assert_eq!(view.line(facet, 0, along).len(), 3, "{along:?}");
        }
        let places: Vec<f64> = view.line(facet, 0, Along::Rate).iter().map(|place| place.0).collect();
        assert_eq!(places, [30.0, 300.0, 1000.0]);
    });
}

#[test]
fn every_row_belongs_to_one_strand_and_one_facet() {
    with_view(vec![example::campaign(), example::characterization()], |view| {
        for row in &view.table.rows {
            assert_eq!(view.strands.iter().filter(|strand| strand.holds(row)).count(), 1);
            let holds = |facet: &&Facet<'_>| facet.rows.iter().any(|other| std::ptr::eq(*other, row));
            let facets = view.facets.iter().filter(holds).count();
            assert!(facets == 1 || row.floor && facets > 1, "{} in {facets}", row.label);
        }
    });
}

#[test]
fn types_of_equal_size_have_separate_lines() {
    let mut record = example::campaign();
    let twin = Measurement {
        case: record.measurements[0].case.clone().map(|case| Box::new(Case { data_type: "Other".into(), ..*case })),
        ..record.measurements[0].clone()
    };
    record.measurements.push(twin);
    with_view(vec![record], |view| {
        assert!(view.facets.iter().any(|facet| facet.title.ends_with("Other") && facet.rows.len() == 1));
    });
}

#[test]
fn protection_is_detected_from_names_and_options() {
    let secured = |id: &str, option: &str| {
        let mut record = example::characterization();
        record.header.series[1].id = id.into();
        record.header.series[1].options = vec![option.into()];
        record.measurements.iter_mut().for_each(|measurement| {
            if measurement.series == "peregrine-best-effort" {
                measurement.series = id.into();
            }
        });
        with_view(vec![record], |view| view.strands[1].is_secured())
    };
    assert!(secured("peregrine-security-rtps-sign", ""));
    assert!(secured("mine", "-secureGovernanceFile"));
    assert!(!secured("mine", "-nic") && !secured("unsecured", ""));
}

#[test]
fn floor_is_shown_beside_all_comparable_rows() {
    let mut record = example::campaign();
    record.header.series[0].floor = true;
    let floor = record.header.series[0].id.clone();
    let is_best_effort = |measurement: &Measurement| {
        measurement.case.as_ref().is_some_and(|case| case.reliability == Reliability::BestEffort)
    };
    record.measurements.retain(|measurement| measurement.series != floor || is_best_effort(measurement));
    with_view(vec![record], |view| {
        assert_eq!(view.facets.len(), 4);
        for facet in &view.facets {
            assert!(
                facet.rows.iter().any(|row| row.floor) && facet.rows.iter().any(|row| !row.floor),
                "{}",
                facet.title
            );
        }
    });
}

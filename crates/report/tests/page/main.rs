//! The page in a real browser: it fits on a telephone, no elements overlap, and it loads nothing.
//!
//! The test writes pictures of every page to the target directory, for inspection.

mod browser;

use std::fs;
use std::path::{Path, PathBuf};

use peregrine_report::example;
use peregrine_report::record::Record;
use peregrine_report::render;
use peregrine_report::table::Source;
use serde_json::{Value, json};

use crate::browser::{Browser, Look};

const DESKTOP: Look = Look { width: 1440, height: 900, dark: false };
const DARK: Look = Look { dark: true, ..DESKTOP };
const TELEPHONE: Look = Look { width: 390, height: 844, dark: false };

/// Texts of one picture whose boxes overlap by more than a pixel in both directions, and texts that leave their
/// picture. Boxes of text are as high as the tallest letter of the font; the visible text is lower.
const COLLISIONS: &str = "(() => {
  const found = [];
  for (const svg of document.querySelectorAll('figure svg')) {
    const frame = svg.getBoundingClientRect();
    if (frame.width === 0) continue;
    const texts = [...svg.querySelectorAll('text')].map(text => {
      const box = text.getBoundingClientRect();
      const slack = box.height * 0.15;
      return { text: text.textContent, left: box.left, right: box.right, top: box.top + slack, bottom: box.bottom - slack };
    });
    const where = svg.getAttribute('aria-label');
    texts.forEach((one, index) => {
      if (one.left < frame.left - 1 || one.right > frame.right + 1 || one.top < frame.top - 1 || one.bottom > frame.bottom + 1)
        found.push(`${where}: '${one.text}' leaves the picture`);
      for (const other of texts.slice(index + 1)) {
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (across > 1 && down > 1) found.push(`${where}: '${one.text}' and '${other.text}' overlap`);
      }
    });
  }
  return found;
})()";

/// Elements wider than the screen without a scrolling parent.
const OVERFLOW: &str = "(() => {
  const width = document.documentElement.clientWidth;
  // The content of a closed element keeps the layout of the screen before.
  const closed = [...document.querySelectorAll('details:not([open])')];
  closed.forEach(details => details.open = true);
  const found = document.documentElement.scrollWidth > width ? [`the page is ${document.documentElement.scrollWidth} wide`] : [];
  for (const element of document.querySelectorAll('main *')) {
    if (element.closest('.scroll') || element.closest('pre') || element.closest('svg')) continue;
    const box = element.getBoundingClientRect();
    if (box.width > 0 && box.right > width + 1) found.push(`${element.tagName} ${element.className} in ${element.parentElement.tagName} ${element.parentElement.className} ends at ${box.right}: ${element.textContent.slice(0, 60)}`);
  }
  closed.forEach(details => details.open = false);
  return found.slice(0, 20);
})()";

/// Size of the smallest text of any picture, in pixels on the screen.
const SMALLEST_TEXT: &str = "Math.min(...[...document.querySelectorAll('figure:not(.wide) svg text')]
  .filter(text => text.getBoundingClientRect().width > 0)
  .map(text => parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getBoundingClientRect().width / text.ownerSVGElement.viewBox.baseVal.width))";

/// Contrast of every kind of text against the page, by the formula of WCAG 2; below 4.5 is hard to read.
const FAINT: &str = "(() => {
  const light = colour => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255).map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const found = new Set();
  const look = (element, colour, least) => {
    const ink = light(colour);
    const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    if (contrast < least) found.add(`${element.tagName} ${element.getAttribute('class')}: ${contrast.toFixed(2)}`);
  };
  for (const element of document.querySelectorAll('p, td, th, dt, dd, h1, h2, h3, a, summary, figcaption')) look(element, getComputedStyle(element).color, 4.5);
  for (const element of document.querySelectorAll('svg .tick, svg .title')) look(element, getComputedStyle(element).fill, 4.5);
  for (const element of document.querySelectorAll('svg .name')) look(element, getComputedStyle(element).fill, 3);
  return [...found];
})()";

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn pages() -> Vec<(&'static str, Vec<Source>)> {
    let one = |name: &str, record: Record| vec![Source { name: name.into(), record }];
    let twice = ["before", "after"].map(|name| Source { name: name.into(), record: example::characterization() });
    vec![
        ("small", one("small", example::record())),
        ("characterization", one("characterization", example::characterization())),
        ("campaign", one("campaign", example::campaign())),
        ("two-hosts", one("raspberry-pi", example::raspberry_pi())),
        ("security", one("security", example::security())),
        ("together", twice.into()),
    ]
}

#[test]
fn every_page_fits_every_screen_and_paper() {
    let folder = folder();
    let profile = folder.join(format!("profile-{}", std::process::id()));
    let mut browser = Browser::start(&profile);
    let mut faults: Vec<String> = Vec::new();
    for (name, sources) in pages() {
        let page = folder.join(format!("{name}.html"));
        fs::write(&page, render::html(&sources)).unwrap();
        browser.look(DESKTOP);
        browser.open(&page);
        for (screen, look) in [("desktop", DESKTOP), ("dark", DARK), ("telephone", TELEPHONE)] {
            let found = examine(&mut browser, &folder.join(format!("{name}-{screen}.png")), look);
            faults.extend(found.into_iter().map(|fault| format!("{name}, {screen}: {fault}")));
        }
        let pdf = browser.pdf();
        fs::write(folder.join(format!("{name}.pdf")), &pdf).unwrap();
        if !pdf.starts_with(b"%PDF-") || pdf.len() < 10_000 {
            faults.push(format!("{name}: printing gave {} bytes that are no document", pdf.len()));
        }
        faults.extend(browser.complaints.drain(..).map(|complaint| format!("{name}: {complaint}")));
    }
    drop(browser);
    let _ = fs::remove_dir_all(&profile);
    assert!(faults.is_empty(), "{} faults; pictures are in {}:\n{}", faults.len(), folder.display(), faults.join("\n"));
}

/// Both scales of the page on one screen.
fn examine(browser: &mut Browser, picture: &Path, look: Look) -> Vec<String> {
    browser.look(look);
    let mut faults = Vec::new();
    for scale in ["linear", "logarithmic"] {
        let shown = browser.evaluate(&format!(
            "document.getElementById('{scale}').click(); \
             [...document.querySelectorAll('figure.log, figure.lin')].filter(figure => figure.offsetWidth > 0).every(figure => figure.className === '{}')",
            &scale[..3]
        ));
        if shown != json!(true) {
            faults.push(format!("the switch to {scale} axes does not show these, and only these"));
        }
        for script in [OVERFLOW, COLLISIONS, FAINT] {
            faults.extend(texts(&browser.evaluate(script)));
        }
    }
    let smallest = browser.evaluate(SMALLEST_TEXT).as_f64().unwrap_or(f64::INFINITY);
    if smallest < 8.5 {
        faults.push(format!("text of {smallest:.1} pixels"));
    }
    let height = browser.evaluate("document.documentElement.scrollHeight").as_f64().unwrap() as u32;
    let png = browser.screenshot(look.width, height.min(12_000));
    fs::write(picture, &png).unwrap();
    faults.extend(picture_faults(&png, look));
    faults
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// A picture of a single colour shows nothing, and dark paper must be dark.
fn picture_faults(png: &[u8], look: Look) -> Vec<String> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let step = info.color_type.samples();
    let paper = &pixels[..step.min(3)];
    let other = pixels[..info.buffer_size()].chunks(step).filter(|pixel| !pixel.starts_with(paper)).count();
    let share = other as f64 / (f64::from(info.width) * f64::from(info.height));
    let mut faults = Vec::new();
    if !(0.02..0.98).contains(&share) {
        faults.push(format!("{:.1} % of the picture differ from its corner", share * 100.0));
    }
    if look.dark != paper.iter().all(|part| *part < 100) {
        faults.push(format!("the paper is {paper:?}"));
    }
    faults
}

//! `perftest report`: shows records as text, CSV and a page.

use std::fs;
use std::path::{Path, PathBuf};

use peregrine_report::render;
use peregrine_report::table::Source;

use crate::characterize::keeper::read_record;
use crate::error::Error;
use crate::terminal::print_text;

/// Records to show, and their form.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Folders that each contain a record.jsonl; several are shown together
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Print only the tables, and write no page
    #[arg(long, conflicts_with_all = ["csv", "html"])]
    text: bool,
    /// Print one line per measurement, with a column for each varied setting
    #[arg(long, conflicts_with = "html")]
    csv: bool,
    /// Print latency, throughput and, at fixed rates, CPU time by size as Markdown, for one record; each case has its
    /// tables
    #[arg(long, conflicts_with_all = ["text", "csv", "html"])]
    markdown: bool,
    /// Write the Markdown between the marks in this file instead
    #[arg(long, value_name = "FILE", requires = "markdown")]
    into: Option<PathBuf>,
    /// Write the page to this file [default: report.html beside the record, for a single record]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Shows the records as requested; by default, for one record, the table on stdout and the page beside it.
pub fn run(options: &Options) -> Result<(), Error> {
    if options.markdown {
        return markdown(options);
    }
    if let ([dir], false, false, None) = (&options.dirs[..], options.text, options.csv, &options.html) {
        return beside_record(dir);
    }
    let sources = read(&options.dirs)?;
    if options.csv {
        return print_text(&render::csv(&sources));
    }
    match &options.html {
        Some(page) => {
            write_page(page, &sources)?;
            print_text(&format!("Report: {}\n", page.display()))
        }
        None => print_text(&render::text(&sources)),
    }
}

fn markdown(options: &Options) -> Result<(), Error> {
    let [dir] = &options.dirs[..] else {
        return Err(Error::Setup("--markdown needs a single record; name one folder.".into()));
    };
    let text = render::markdown(&read_record(dir)?.0);
    let Some(file) = &options.into else { return print_text(&text) };
    let failed = |what: &str, error: std::io::Error| Error::Setup(format!("Cannot {what} {}: {error}", file.display()));
    let document = fs::read_to_string(file).map_err(|error| failed("read", error))?;
    let [begin, end] = render::MARKS;
    let document = render::between_marks(&document, &text).ok_or_else(|| {
        Error::Setup(format!(
            "{} has no place for the tables: put '{begin}' and '{end}' around the place.",
            file.display()
        ))
    })?;
    fs::write(file, document).map_err(|error| failed("write", error))
}

/// Prints the table of one record, and writes its page beside it.
pub fn beside_record(folder: &Path) -> Result<(), Error> {
    let (record, path) = read_record(folder)?;
    let sources = [Source { name: folder.display().to_string(), record }];
    let page = folder.join("report.html");
    write_page(&page, &sources)?;
    let text = render::text(&sources);
    print_text(&format!("{text}\nRecord: {}\nReport: {}\n", path.display(), page.display()))
}

/// The records, by the names of their folders, or by their paths if two names are equal.
fn read(dirs: &[PathBuf]) -> Result<Vec<Source>, Error> {
    let short = |dir: &PathBuf| dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_unique = |dir: &PathBuf| dirs.iter().filter(|other| short(other) == short(dir)).count() == 1;
    dirs.iter()
        .map(|dir| {
            let name = short(dir).filter(|_| is_unique(dir)).unwrap_or_else(|| dir.display().to_string());
            Ok(Source { name, record: read_record(dir)?.0 })
        })
        .collect()
}

fn write_page(page: &Path, sources: &[Source]) -> Result<(), Error> {
    fs::write(page, render::html(sources))
        .map_err(|error| Error::Setup(format!("Cannot write {}: {error}", page.display())))
}

//! Results on stdout or in a file, in the formats of RTI Perftest.
//!
//! A format turns measurements into text and does not depend on files; [`Output`] writes that text and does not depend
//! on columns.

pub mod banner;
mod csv;
mod format;
mod json;
mod legacy;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use peregrine_report::record::SideResult;

use format::{Columns, Format, LatencySummary};
pub use format::{LatencyInterval, Quantity, SerializationTime, ThroughputInterval};

use crate::error::Error;
use crate::plan::{OutputFormat, OutputPlan};
use crate::terminal::Stdout;

/// Writes the results.
pub struct Output {
    format: Box<dyn Format>,
    intervals: bool,
    sink: Box<dyn Write + Send>,
    record: Option<Arc<Mutex<dyn Write + Send>>>,
    failure: Option<io::Error>,
    begun: Option<usize>,
    /// Results for another output.
    kept: Option<Vec<SideResult>>,
}

impl Output {
    /// Opens the files that the plan names, and starts the document.
    pub fn open(plan: &OutputPlan) -> Result<Self, Error> {
        let append = |path: &std::path::Path| -> Result<Box<dyn Write + Send>, Error> {
            match OpenOptions::new().append(true).create(true).open(path) {
                Ok(file) => Ok(Box::new(file)),
                Err(error) => Err(Error::Setup(format!("Cannot append to {}: {error}", path.display()))),
            }
        };
        let sink = match &plan.file {
            Some(path) => append(path)?,
            None => Box::new(Stdout),
        };
        let record = plan.record_file.as_deref().map(append).transpose()?;
        Ok(Self::new(plan, sink, record))
    }

    /// An output that prints nothing, keeps the records, and appends them to the record file of this one.
    pub fn kept_beside(&self) -> Self {
        let columns = Columns { intervals: false, headers: false, cpu: false, ns_resolution: false };
        Self {
            format: Box::new(csv::Csv::new(columns)),
            intervals: false,
            sink: Box::new(io::sink()),
            record: self.record.clone(),
            failure: None,
            begun: None,
            kept: Some(Vec::new()),
        }
    }

    /// The results recorded since the last call, if this output [keeps](Self::kept_beside) them.
    pub fn take_kept(&mut self) -> Vec<SideResult> {
        self.kept.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn new(plan: &OutputPlan, sink: Box<dyn Write + Send>, record: Option<Box<dyn Write + Send>>) -> Self {
        let columns = Columns {
            intervals: plan.intervals,
            headers: plan.headers,
            cpu: plan.cpu,
            ns_resolution: plan.ns_resolution,
        };
        let format: Box<dyn Format> = match plan.format {
            OutputFormat::Csv => Box::new(csv::Csv::new(columns)),
            OutputFormat::Json => Box::new(json::Json::new(columns)),
            OutputFormat::Legacy => Box::new(legacy::Legacy::new(columns)),
        };
        let record = record.map(|record| -> Arc<Mutex<dyn Write + Send>> { Arc::new(Mutex::new(record)) });
        let mut output =
            Self { format, intervals: plan.intervals, sink, record, failure: None, begun: None, kept: None };
        let text = output.format.start();
        output.write(&text);
        output
    }

    /// Whether interval rows are printed; if not, the caller need not compute them.
    pub fn wants_intervals(&self) -> bool {
        self.intervals
    }

    /// Begins a size, unless it has begun.
    pub fn begin(&mut self, quantity: Quantity, data_len: usize) {
        if self.begun != Some(data_len) {
            self.begun = Some(data_len);
            let text = self.format.begin(quantity, data_len);
            self.write(&text);
        }
    }

    /// Prints one pong.
    pub fn latency_interval(&mut self, data_len: usize, interval: &LatencyInterval<'_>) {
        if self.intervals {
            let text = self.format.latency_interval(data_len, interval);
            self.write(&text);
        }
    }

    /// Prints one second.
    pub fn throughput_interval(&mut self, interval: &ThroughputInterval) {
        if self.intervals {
            let text = self.format.throughput_interval(interval);
            self.write(&text);
        }
    }

    /// Ends a size of the publisher, which it begins if necessary. Without a latency there is no row.
    pub fn latency_summary(&mut self, result: &SideResult, serialization: Option<SerializationTime>) {
        let data_len = result.data_len as usize;
        let Some(latency) = result.latency.as_ref().filter(|latency| latency.count > 0) else {
            let has_begun = self.begun.take() == Some(data_len);
            let text = self.format.no_latency_summary(data_len, has_begun);
            return self.write(&text);
        };
        self.begin(Quantity::Latency, data_len);
        self.begun = None;
        let cpu_percent = result.cpu_percent;
        let text = self.format.latency_summary(&LatencySummary { data_len, latency, serialization, cpu_percent });
        self.write(&text);
    }

    /// Ends a size of the subscriber, which it begins if necessary.
    pub fn throughput_summary(&mut self, result: &SideResult) {
        let data_len = result.data_len as usize;
        self.begin(Quantity::Throughput, data_len);
        self.begun = None;
        let throughput = result.throughput.clone().unwrap_or_default();
        let text = self.format.throughput_summary(data_len, &throughput, result.cpu_percent);
        self.write(&text);
    }

    /// Appends a result to the record file, if there is one.
    pub fn record(&mut self, result: &SideResult) {
        if let Some(kept) = &mut self.kept {
            kept.push(result.clone());
        }
        let Some(record) = &self.record else { return };
        let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
        let written = serde_json::to_vec(result).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            record.write_all(&line)?;
            record.flush()
        });
        if let Err(error) = written {
            self.failure.get_or_insert(error);
        }
    }

    /// Ends the document. Returns the first write error.
    pub fn end(&mut self) -> Result<(), Error> {
        let text = self.format.end();
        self.write(&text);
        match self.failure.take() {
            None => Ok(()),
            Some(error) => Err(Error::Transfer(format!("The results could not be written: {error}"))),
        }
    }

    fn write(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if let Err(error) = self.sink.write_all(text.as_bytes()).and_then(|()| self.sink.flush()) {
            self.failure.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests;

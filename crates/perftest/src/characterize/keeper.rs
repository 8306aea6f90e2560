//! Where measurements are kept.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use peregrine_report::record::Line;

use crate::error::Error;

/// The folder asked for, or one named after the time.
pub(super) fn folder(asked: Option<&Path>, created_utc: &str) -> PathBuf {
    asked.map_or_else(|| Path::new("perftest-results").join(created_utc.replace(':', "-")), Path::to_path_buf)
}

/// The record on disk, written line by line so that nothing measured is lost.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Keeper {
    /// Makes the folder and the record in it, which must not exist yet.
    pub fn create(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("record.jsonl");
        let refuse = |what: &str, error: std::io::Error| Error::Setup(format!("Cannot {what}: {error}"));
        fs::create_dir_all(folder).map_err(|error| refuse(&format!("make the folder {}", folder.display()), error))?;
        let file = File::create_new(&path).map_err(|error| {
            let hint = if path.exists() { "; choose another --out" } else { "" };
            Error::Setup(format!("Cannot make {}: {error}{hint}", path.display()))
        })?;
        Ok(Self { path, file: BufWriter::new(file) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one line to the disk.
    pub fn keep(&mut self, line: &Line) -> Result<(), Error> {
        line.write_to(&mut self.file).and_then(|()| self.file.flush()).map_err(|error| self.failed(&error))
    }

    /// Makes sure that everything has reached the disk.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.file.get_ref().sync_all().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::Transfer(format!("Cannot write {}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_never_overwritten() {
        let folder = std::env::temp_dir().join(format!("perftest-keeper-{}", std::process::id()));
        drop(Keeper::create(&folder).unwrap());
        let error = Keeper::create(&folder).err().unwrap().to_string();
        assert!(error.contains("choose another --out"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_is_named_after_the_time() {
        assert_eq!(folder(None, "2026-01-01T00:00:00Z"), Path::new("perftest-results/2026-01-01T00-00-00Z"));
        assert_eq!(folder(Some(Path::new("x")), ""), Path::new("x"));
    }
}

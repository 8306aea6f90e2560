//! Where measurements are kept.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use peregrine_report::record::{Line, Record};

use crate::error::Error;

/// The folder asked for, or one named after the time.
pub(crate) fn folder(asked: Option<&Path>, created_utc: &str) -> PathBuf {
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

    /// Opens the record of a folder in order to go on with it, and tells what it holds. Its end, and a line that was cut off,
    /// are taken away.
    pub fn resume(folder: &Path) -> Result<(Self, Record), Error> {
        let path = folder.join("record.jsonl");
        let refuse =
            |error: &dyn std::fmt::Display| Error::Setup(format!("Cannot go on with {}: {error}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| refuse(&error))?;
        let record = Record::read(BufReader::new(text.as_bytes())).map_err(|error| refuse(&error))?;
        let mut file = File::options().write(true).open(&path).map_err(|error| refuse(&error))?;
        let kept = kept_len(&text);
        file.set_len(kept).and_then(|()| file.seek(SeekFrom::Start(kept))).map_err(|error| refuse(&error))?;
        Ok((Self { path, file: BufWriter::new(file) }, record))
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

/// Length of a record up to its end line, or to the line that was cut off.
fn kept_len(text: &str) -> u64 {
    let is_kept = |line: &&str| line.ends_with('\n') && !matches!(serde_json::from_str(line), Ok(Line::End(_)));
    text.split_inclusive('\n').take_while(is_kept).map(|line| line.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use peregrine_report::record::{End, Header, SCHEMA_VERSION, Warning};

    use super::*;

    #[test]
    fn a_record_goes_on_where_it_was_cut_off_or_has_ended() {
        let folder = std::env::temp_dir().join(format!("perftest-keeper-resumed-{}", std::process::id()));
        let warning = |text: &str| Line::Warning(Warning { text: text.into() });
        let mut keeper = Keeper::create(&folder).unwrap();
        keeper.keep(&Line::Header(Header { schema: SCHEMA_VERSION, ..Header::default() })).unwrap();
        keeper.keep(&warning("one")).unwrap();
        keeper.keep(&Line::End(End { complete: false, reason: "Interrupted".into() })).unwrap();
        let path = keeper.path().to_owned();
        drop(keeper);

        let (mut keeper, record) = Keeper::resume(&folder).unwrap();
        assert_eq!(record.warnings.len(), 1);
        keeper.keep(&warning("two")).unwrap();
        drop(keeper);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 5]).unwrap();

        let (mut keeper, record) = Keeper::resume(&folder).unwrap();
        assert_eq!(record.warnings.len(), 1, "the second was cut off");
        keeper.keep(&warning("three")).unwrap();
        let (_, record) = Keeper::resume(&folder).unwrap();
        assert_eq!(record.warnings.iter().map(|warning| &*warning.text).collect::<Vec<_>>(), ["one", "three"]);
        assert!(record.end.is_none());
        fs::remove_dir_all(&folder).unwrap();
        assert!(Keeper::resume(&folder).err().unwrap().to_string().contains("record.jsonl"));
    }

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

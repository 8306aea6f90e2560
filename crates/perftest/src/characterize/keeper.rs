//! The record on disk.
//!
//! One process at a time writes a record; it holds a lock on the file while it lives.

use std::fs::{self, File, TryLockError};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use peregrine_report::record::{Line, Record};

use crate::error::Error;

/// The requested folder, or one named after the time.
pub(crate) fn folder(asked: Option<&Path>, created_utc: &str) -> PathBuf {
    asked.map_or_else(|| Path::new("perftest-results").join(created_utc.replace(':', "-")), Path::to_path_buf)
}

/// The record on disk, written line by line so that no measurement is lost.
#[derive(Debug)]
pub struct Keeper {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Keeper {
    /// Creates the folder and its record, which must not exist.
    pub fn create(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("record.jsonl");
        let refuse = |what: &str, error: std::io::Error| Error::Setup(format!("Cannot {what}: {error}"));
        fs::create_dir_all(folder).map_err(|error| refuse(&format!("make the folder {}", folder.display()), error))?;
        let file = File::create_new(&path).map_err(|error| match File::open(&path) {
            Ok(file) => lock(&file, &path).err().unwrap_or_else(|| {
                Error::Setup(format!("Cannot create {}: {error}; choose another --out", path.display()))
            }),
            Err(_) => Error::Setup(format!("Cannot create {}: {error}", path.display())),
        })?;
        lock(&file, &path)?;
        Ok(Self { path, file: BufWriter::new(file) })
    }

    /// Opens the record of a folder to continue it, and returns its content. Removes the end line, and an incomplete
    /// last line.
    pub fn resume(folder: &Path) -> Result<(Self, Record), Error> {
        let path = folder.join("record.jsonl");
        let refuse = |error: &dyn std::fmt::Display| Error::Setup(format!("Cannot resume {}: {error}", path.display()));
        let mut file = File::options().read(true).write(true).open(&path).map_err(|error| refuse(&error))?;
        lock(&file, &path)?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| refuse(&error))?;
        let record = Record::read(BufReader::new(text.as_bytes())).map_err(|error| refuse(&error))?;
        let kept = kept_len(&text);
        file.set_len(kept).and_then(|()| file.seek(SeekFrom::Start(kept))).map_err(|error| refuse(&error))?;
        Ok((Self { path, file: BufWriter::new(file) }, record))
    }

    /// Path of the record.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one line.
    pub fn keep(&mut self, line: &Line) -> Result<(), Error> {
        line.write_to(&mut self.file).and_then(|()| self.file.flush()).map_err(|error| self.failed(&error))
    }

    /// Flushes the record to the disk.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.file.get_ref().sync_all().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::Transfer(format!("Cannot write {}: {error}", self.path.display()))
    }
}

/// The record of a folder, and its path.
pub fn read_record(folder: &Path) -> Result<(Record, PathBuf), Error> {
    let path = folder.join("record.jsonl");
    let file = File::open(&path).map_err(|error| Error::Setup(format!("Cannot open {}: {error}", path.display())))?;
    let record =
        Record::read(BufReader::new(file)).map_err(|error| Error::Setup(format!("{}: {error}", path.display())))?;
    Ok((record, path))
}

/// Locks the file against other processes until it is closed.
fn lock(file: &File, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            let holder = file.metadata().ok().and_then(|facts| {
                let locks = fs::read_to_string("/proc/locks").ok()?;
                holder_of(facts.ino(), &locks)
            });
            let who = holder.map_or_else(|| "another process".into(), |id| format!("the process {id}"));
            Err(Error::Setup(format!(
                "{who} is measuring into {}: wait for its end, or choose another --out",
                path.display()
            )))
        }
        // On a file system without locks, measuring is still possible.
        Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(error)) => Err(Error::Setup(format!("Cannot lock {}: {error}", path.display()))),
    }
}

/// Process that holds a lock on the inode, from the text of `/proc/locks`; `None` if it is not visible.
fn holder_of(inode: u64, locks: &str) -> Option<u32> {
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, id, file, ..] = words[..] else { return None };
        let is_file = file.rsplit(':').next()?.parse() == Ok(inode);
        id.parse().ok().filter(|id| is_file && *id > 0)
    };
    locks.lines().find_map(of_line)
}

/// Length of a record up to its end line, or up to an incomplete last line.
fn kept_len(text: &str) -> u64 {
    let is_kept = |line: &&str| line.ends_with('\n') && !matches!(serde_json::from_str(line), Ok(Line::End(_)));
    text.split_inclusive('\n').take_while(is_kept).map(|line| line.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use peregrine_report::record::{End, Header, SCHEMA_VERSION, Warning};

    use super::*;

    #[test]
    fn record_continues_after_its_cut_or_its_end() {
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
        drop(keeper);
        let (_, record) = Keeper::resume(&folder).unwrap();
        assert_eq!(record.warnings.iter().map(|warning| &*warning.text).collect::<Vec<_>>(), ["one", "three"]);
        assert!(record.end.is_none());
        fs::remove_dir_all(&folder).unwrap();
        assert!(Keeper::resume(&folder).err().unwrap().to_string().contains("record.jsonl"));
    }

    #[test]
    fn record_is_never_overwritten() {
        let folder = std::env::temp_dir().join(format!("perftest-keeper-{}", std::process::id()));
        drop(Keeper::create(&folder).unwrap());
        let error = Keeper::create(&folder).err().unwrap().to_string();
        assert!(error.contains("choose another --out"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn second_process_is_refused_the_record() {
        let folder = std::env::temp_dir().join(format!("perftest-keeper-locked-{}", std::process::id()));
        let mut keeper = Keeper::create(&folder).unwrap();
        keeper.keep(&Line::Header(Header { schema: SCHEMA_VERSION, ..Header::default() })).unwrap();
        for second in [Keeper::create(&folder).err(), Keeper::resume(&folder).err()] {
            let error = second.unwrap().to_string();
            assert!(error.contains(&format!("the process {} is measuring into", std::process::id())), "{error}");
            assert!(error.ends_with("choose another --out"), "{error}");
        }
        drop(keeper);
        assert!(Keeper::resume(&folder).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn holder_of_lock_is_found_in_lock_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:2a:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 8 fe:01:12 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 fe:01:12 0 EOF\n3: FLOCK  ADVISORY  WRITE 0 fe:01:13 0 EOF\n";
        assert_eq!((holder_of(12, locks), holder_of(13, locks), holder_of(14, locks)), (Some(8), None, None));
    }

    #[test]
    fn folder_is_named_after_the_time() {
        assert_eq!(folder(None, "2026-01-01T00:00:00Z"), Path::new("perftest-results/2026-01-01T00-00-00Z"));
        assert_eq!(folder(Some(Path::new("x")), ""), Path::new("x"));
    }
}

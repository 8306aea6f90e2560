//! `/proc`, `/sys` and `/dev`, or a folder that replaces them in a test.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes that are read from a file: none of the needed files is longer, and some never end.
const MAX_LEN: u64 = 1 << 20;

/// The root of the system's files.
#[derive(Debug, Clone)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// This machine.
    pub fn this() -> Self {
        Self::at("/")
    }

    /// The machine whose `proc`, `sys` and `dev` are in `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Path of a file or folder, given without the leading slash.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.join(name)
    }

    /// The text of a file, trimmed; empty if it cannot be read.
    pub fn text(&self, name: impl AsRef<Path>) -> String {
        String::from_utf8_lossy(&self.bytes(name)).trim().to_owned()
    }

    /// The bytes of a file; none if it cannot be read.
    pub fn bytes(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Ok(file) = fs::File::open(self.path(name)) {
            // Bytes read before an error are kept.
            let _ = file.take(MAX_LEN).read_to_end(&mut bytes);
        }
        bytes
    }

    /// The file as a number.
    pub fn number<N: std::str::FromStr>(&self, name: impl AsRef<Path>) -> Option<N> {
        self.text(name).parse().ok()
    }

    /// The names in a folder, sorted; none if it cannot be read.
    pub fn names(&self, folder: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        let mut names: Vec<_> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use super::*;

    /// A system of these files, removed when the value is dropped.
    pub(crate) struct Fake {
        folder: PathBuf,
        pub(crate) system: System,
    }

    impl Fake {
        /// `name` distinguishes the folders of tests; files are `(path, text)`.
        pub(crate) fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = std::env::temp_dir().join(format!("perftest-system-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            let fake = Self { system: System::at(&folder), folder };
            for (path, text) in files {
                fake.write(path, text);
            }
            fake
        }

        pub(crate) fn write(&self, path: &str, text: &str) {
            let path = self.folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

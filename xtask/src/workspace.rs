//! The packages and targets of the workspace, from `cargo metadata`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{Metadata, MetadataCommand, Package};

/// The workspace that contains this program.
pub(crate) struct Workspace {
    pub(crate) metadata: Metadata,
}

impl Workspace {
    /// Reads `cargo metadata` of the workspace around this package, independent of the current directory.
    pub(crate) fn load() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let metadata = MetadataCommand::new().manifest_path(manifest).exec().context("cargo metadata failed")?;
        Ok(Self { metadata })
    }

    pub(crate) fn root(&self) -> &Path {
        self.metadata.workspace_root.as_std_path()
    }

    /// Build products of other tools than cargo: peers, virtual environments, captures.
    pub(crate) fn interop_dir(&self) -> PathBuf {
        self.metadata.target_directory.as_std_path().join("interop")
    }

    pub(crate) fn has_package(&self, name: &str) -> bool {
        self.metadata.workspace_packages().iter().any(|package| package.name.as_str() == name)
    }

    /// The members that have an integration test target of this name.
    pub(crate) fn packages_with_test(&self, test: &str) -> Vec<&Package> {
        let has = |package: &&Package| package.targets.iter().any(|target| target.is_test() && target.name == test);
        self.metadata.workspace_packages().into_iter().filter(has).collect()
    }
}

//! `perftest keys`: makes a test identity, or checks the files of participants.

use std::path::{Path, PathBuf};

use peregrine_security::issue::KeyChoice;
use peregrine_security::secret::Secret;

use super::governances::GOVERNANCES;
use super::identities::{self, Issue};
use super::inspection;
use super::read;
use crate::error::Error;
use crate::terminal::print_text;

/// The highest domain of `-domain`.
const HIGHEST_DOMAIN: i64 = 250;

/// The commands for files of DDS Security.
#[derive(Debug, clap::Subcommand)]
pub enum KeysCommand {
    /// Write a test identity: authorities, certificates, keys, permissions, all governance documents of RTI Perftest
    Make(MakeOptions),
    /// Print what participants with these files may do, and what is wrong with each file
    Check(CheckOptions),
}

/// Options of `perftest keys make`.
#[derive(Debug, clap::Args)]
pub struct MakeOptions {
    /// The folder to write to
    folder: PathBuf,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// Let one authority issue certificates and documents, as RTI Perftest does; implementations of 2022 and older then
    /// accept permissions that a participant has signed itself
    #[arg(long)]
    one_authority: bool,
    /// RSA keys of 2048 bits, as RTI Perftest has them, in place of keys on the curve P-256
    #[arg(long)]
    rsa: bool,
    /// Days of validity
    #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
}

/// Options of `perftest keys check`.
#[derive(Debug, clap::Args)]
pub struct CheckOptions {
    /// Files, or folders with files
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The domain for which the rules are read
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=HIGHEST_DOMAIN))]
    domain: u32,
    /// A file with the password of encrypted private keys. An end of line after it is not part of it
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Runs `perftest keys`.
///
/// # Errors
/// The files cannot be written, or one of the checked files cannot be used.
pub fn run(command: &KeysCommand) -> Result<(), Error> {
    match command {
        KeysCommand::Make(options) => make(options),
        KeysCommand::Check(options) => {
            let password = options.password_file.as_deref().map(password_of).transpose()?;
            let page = inspection::inspect(&options.paths, options.domain, password)?;
            print_text(&page.text)?;
            match page.errors {
                0 => Ok(()),
                1 => Err(Error::Setup("One fault prevents the use of these files.".into())),
                errors => Err(Error::Setup(format!("{errors} faults prevent the use of these files."))),
            }
        }
    }
}

/// The password in a file, which other users of the machine do not see, unlike the words of a command.
pub(super) fn password_of(file: &Path) -> Result<Secret, Error> {
    let path = file.display().to_string();
    let octets = read(&path).map_err(|error| Error::Setup(format!("--password-file {path}: {error}")))?;
    let text = octets.expose();
    let line = text.strip_suffix(b"\n").map_or(text, |line| line.strip_suffix(b"\r").unwrap_or(line));
    if line.is_empty() {
        return Err(Error::Setup(format!("--password-file {path}: it contains no password")));
    }
    Ok(Secret::copy_of(line))
}

fn make(options: &MakeOptions) -> Result<(), Error> {
    let settings = Issue {
        keys: if options.rsa { KeyChoice::Rsa2048 } else { KeyChoice::P256 },
        one_authority: options.one_authority,
        days: options.days,
    };
    let files = identities::issue(settings, &identities::members(), &GOVERNANCES)
        .map_err(|error| Error::Setup(format!("The test identity cannot be made: {error}")))?;
    identities::write(&options.folder, &files, options.force)?;
    let authorities = if options.one_authority {
        "cacert.pem is the authority of certificates and documents."
    } else {
        "cacert.pem is the authority of certificates, permissions_cacert.pem that of documents."
    };
    let folder = options.folder.display();
    let mut text = format!("Written to {folder}, valid for {} days:\n", options.days);
    for file in &files {
        text += &format!("  {}\n", file.name);
    }
    text += &format!(
        "{authorities} Their private keys are not kept.\n\
         This identity is for tests: it protects nothing from a person who can read the folder.\n\
         To use it:\n  \
         perftest -sub -secureGovernanceFile {folder}/signed_PerftestGovernance_RTPSSign.xml\n  \
         perftest -pub -secureGovernanceFile {folder}/signed_PerftestGovernance_RTPSSign.xml\n"
    );
    print_text(&text)
}

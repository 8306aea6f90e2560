//! An authentication and a cryptography of the application, which use nothing of the built-in ones: participants prove
//! by a secret that they belong together, and protect what they send with ChaCha20-Poly1305. Access control stays the
//! built-in one, with a governance and permissions.
//!
//! ```text
//! cargo run --features security --example own_plugins
//! ```

#![forbid(unsafe_code)]

pub(crate) mod authentication;
pub(crate) mod cryptography;
#[path = "../../tests/realm/mod.rs"]
pub(crate) mod realm;

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use authentication::{IDENTITY, SharedSecret, Threads};
use cryptography::{ChaCha, Transformations};
use peregrine::security::ProtectionKind::{Encrypt, Sign};
use peregrine::security::plugins::Plugins;
use peregrine::security::plugins::authentication::DataHolder;
use realm::{Block, Levels, PATIENCE, Realm};

const DOMAIN: u32 = 113;
/// All levels are protected.
pub(crate) const LEVELS: Levels =
    Levels { messages: Sign, discovery: Encrypt, submessages: Encrypt, payloads: Encrypt };

/// The work of the plug-ins of some participants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) threads: Arc<Threads>,
    transformations: Arc<Mutex<Vec<Arc<Transformations>>>>,
}

impl Trace {
    /// The numbers of texts that each participant has sealed, and opened.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        let transformations = self.transformations.lock().unwrap_or_else(PoisonError::into_inner);
        transformations.iter().map(|transformations| transformations.counts()).collect()
    }
}

/// The plug-ins of a participant with this secret.
pub(crate) fn plugins(secret: &str, trace: &Trace) -> Plugins {
    let (secret, threads, transformations) =
        (secret.to_owned(), Arc::clone(&trace.threads), Arc::clone(&trace.transformations));
    Plugins::new()
        .identity_token(DataHolder::new(IDENTITY))
        .authentication(move |builtin| Box::new(SharedSecret::new(&builtin, &secret, Arc::clone(&threads))))
        .cryptographic(move |_| {
            let keys = ChaCha::new();
            transformations.lock().unwrap_or_else(PoisonError::into_inner).push(keys.transformations());
            Box::new(keys)
        })
}

/// Two participants with one secret exchange a sample. Returns the work of their plug-ins.
pub(crate) fn run() -> Result<Trace, Box<dyn Error>> {
    let (realm, trace) = (Realm::new(LEVELS), Trace::default());
    let with_secret =
        |name, serial| realm.member(name, serial).plugins(plugins("correct horse battery staple", &trace));
    let (a, b) = (realm::participant(DOMAIN, with_secret("A", 2)), realm::participant(DOMAIN, with_secret("B", 3)));
    let (writer, reader) = (realm::writer(&a, "open"), realm::reader(&b, "open"));
    writer.wait_for_readers(1, PATIENCE)?;
    writer.write(&Block { number: 42, octets: vec![7; 100] })?;
    let block = reader.wait_and_take(PATIENCE)?.into_value().ok_or("a sample has a value")?;
    if block.number != 42 {
        return Err(format!("the sample has the number {}", block.number).into());
    }
    writer.wait_for_acknowledgments(PATIENCE)?;
    Ok(trace)
}

#[allow(dead_code, reason = "a test runs the example without it")]
fn main() -> Result<(), Box<dyn Error>> {
    let trace = run()?;
    println!("received the sample 42");
    println!("sealed and opened by each participant: {:?}", trace.counts());
    println!("threads: {:?}", trace.threads);
    Ok(())
}

//! Unpredictable bytes from the operating system, for GUID prefixes and seeds.

use std::io;

/// Fills `bytes` from the random source of the operating system.
///
/// # Errors
/// Errors of the random source; a Linux that has finished booting has none.
#[cfg(target_os = "linux")]
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    use crate::sys;
    #[cfg(all(target_os = "linux", feature = "simulation"))]
    if crate::simulation::with(|machine| machine.fill_random(bytes)).is_some() {
        return Ok(());
    }
    let mut filled = 0;
    let mut interruptions = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // SAFETY: `rest` is writable memory of the length that is passed.
        match sys::check_length(unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) }) {
            Ok(length) => filled = filled.saturating_add(length),
            Err(error) if error.kind() == io::ErrorKind::Interrupted && interruptions < sys::MAX_INTERRUPTIONS => {
                interruptions += 1;
            }
            Err(error) => return Err(sys::in_operation("getrandom", &error)),
        }
    }
    Ok(())
}

/// Fills `bytes` from the random source of the operating system.
///
/// # Errors
/// Errors of opening and reading `/dev/urandom`.
#[cfg(not(target_os = "linux"))]
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    use io::Read as _;
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_filled_and_no_two_draws_agree() {
        let mut first = [0; 64];
        let mut second = [0; 64];
        fill(&mut first).unwrap();
        fill(&mut second).unwrap();
        assert_ne!(first, second);
        // A long request may be served in pieces; its tail must be filled too.
        let mut long = vec![0; 1 << 20];
        fill(&mut long).unwrap();
        assert!(long.chunks(64).all(|chunk| chunk.iter().any(|&byte| byte != 0)));
        fill(&mut []).unwrap();
    }
}

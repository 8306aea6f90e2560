//! Requests to a writer for more than a reader needs.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::craft::MESSAGE_BYTES;
use crate::field::{Field, Target};

pub(super) fn nothing(field: &mut Field<'_>) -> Result<()> {
    field.begin();
    while field.lasts() {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

pub(super) fn acknack_amplification(field: &mut Field<'_>) -> Result<()> {
    let stranger = field.matched(Target::Open, true)?;
    field.begin();
    let mut count = 0;
    while field.lasts() {
        let message = stranger.forge.directed(|out| {
            while out.len() < MESSAGE_BYTES {
                count += 1;
                stranger.forge.acknack(if count % 2 == 0 { 1 } else { 129 }, 128, count, out);
            }
        });
        field.user(&stranger, &message);
    }
    Ok(())
}

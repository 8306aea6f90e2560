//! Damaged messages.

use anyhow::Result;

use crate::control::Target;
use crate::field::{Field, Forged};
use crate::mutate::{captured, mutate};

/// Messages of this participant and recorded ones of other implementations, damaged, to both ports in turn.
fn damage(field: &mut Field<'_>, sender: &Forged) {
    let known: Vec<Vec<u8>> = sender.forge.messages().into_iter().chain(captured()).collect();
    field.begin();
    while field.lasts() {
        let (first, second) = (mutate(&mut field.rng, &known), mutate(&mut field.rng, &known));
        field.meta(sender, &first);
        field.user(sender, &second);
    }
}

pub(super) fn of_stranger(field: &mut Field<'_>) -> Result<()> {
    let stranger = field.matched(Target::Open, false)?;
    damage(field, &stranger);
    Ok(())
}

pub(super) fn of_impostor(field: &mut Field<'_>) -> Result<()> {
    let impostor = field.impostor()?;
    damage(field, &impostor);
    Ok(())
}

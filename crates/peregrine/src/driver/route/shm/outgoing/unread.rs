//! Acknowledgements that the writer has not read: in a thin flow it reads them when an application needs them.

use peregrine_rtps::id::Guid;
use peregrine_rtps::seq::SequenceNumber;

use super::{Channels, Outgoing, Stage, find_channel};
use crate::driver::base::sync::lock_leaf;

impl Outgoing {
    /// The readers with acknowledgements that the writer has not read, and that were not there at the last call.
    pub(in crate::driver) fn unread_acknowledgements(&self) -> Vec<Guid> {
        let mut channels = lock_leaf(&self.channels);
        channels.as_mut().map_or_else(Vec::new, |channels| channels.unread_acknowledgements())
    }
}

impl Channels {
    fn unread_acknowledgements(&mut self) -> Vec<Guid> {
        let Self { channels, attached, writer, .. } = self;
        for channel in channels.iter_mut() {
            let noted = writer.ack_of(channel.id).unwrap_or(0);
            let is_new = std::mem::replace(&mut channel.seen_acknowledgement, noted) < noted;
            channel.lowest = is_new.then(|| SequenceNumber(i64::try_from(noted).unwrap_or(i64::MAX)));
        }
        let in_use = attached.iter().filter(|reader| reader.stage == Stage::InUse);
        let unread = in_use.filter(|reader| {
            let noted = find_channel(channels, reader.channel).and_then(|channel| channel.lowest);
            noted.is_some_and(|noted| noted > reader.below)
        });
        unread.map(|reader| reader.guid).collect()
    }
}

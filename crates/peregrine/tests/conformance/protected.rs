//! The protection of the path [`Protected`](crate::Path::Protected), and a test that its samples are sealed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use peregrine::{DeliveryPath, DiscoveryEvent, GuidPrefix, NoSharedMemory};
use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::protection::{
    OpenError, Protection, ProtectionKind, ProtectionLevels, Scope, Seal, SealError, SharedProtection, Text,
};
use peregrine_rtps::wire::{CryptoFooter, CryptoHeader, ReceiverMac};

use crate::common::PATIENCE;
use crate::mock_protection::MockProtection;
use crate::{Ordinary, Path, put, reader, reader_qos, take_values, writer, writer_qos};

const LEVELS: ProtectionLevels = ProtectionLevels {
    message: ProtectionKind::Sign,
    submessage: ProtectionKind::EncryptWithOriginAuthentication,
    payload: ProtectionKind::Encrypt,
};

pub(crate) fn protection(prefix: GuidPrefix) -> SharedProtection {
    SharedProtection::new(Arc::new(MockProtection::new(prefix, LEVELS, 7)))
}

/// Counts payloads that user endpoints seal and open.
#[derive(Debug)]
struct Counting {
    mock: MockProtection,
    sealed: Arc<AtomicUsize>,
    opened: Arc<AtomicUsize>,
}

impl Protection for Counting {
    fn levels(&self, endpoint: EntityId) -> ProtectionLevels {
        self.mock.levels(endpoint)
    }

    fn seal(
        &self,
        scope: Scope,
        sender: EntityId,
        receiver: Option<GuidPrefix>,
        text: Text<'_>,
    ) -> Result<Seal, SealError> {
        self.sealed.fetch_add(usize::from(scope == Scope::Payload), Ordering::Relaxed);
        self.mock.seal(scope, sender, receiver, text)
    }

    fn receiver_mac(
        &self,
        scope: Scope,
        sender: EntityId,
        seal: &Seal,
        receiver: Guid,
    ) -> Result<ReceiverMac, SealError> {
        self.mock.receiver_mac(scope, sender, seal, receiver)
    }

    fn open(
        &self,
        scope: Scope,
        source: GuidPrefix,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        text: Text<'_>,
    ) -> Result<Guid, OpenError> {
        self.opened.fetch_add(usize::from(scope == Scope::Payload), Ordering::Relaxed);
        self.mock.open(scope, source, header, footer, text)
    }
}

#[test]
fn protected_samples_are_sealed_and_take_no_other_path() {
    const SAMPLES: usize = 20;
    let counts = [(); 2].map(|()| Arc::<AtomicUsize>::default());
    let side = || {
        let [sealed, opened] = counts.each_ref().map(Arc::clone);
        let make = move |prefix| {
            let mock = MockProtection::new(prefix, LEVELS, 8);
            let counting = Counting { mock, sealed: Arc::clone(&sealed), opened: Arc::clone(&opened) };
            SharedProtection::new(Arc::new(counting))
        };
        let builder = peregrine::DomainParticipant::builder(49).config(Path::Protected.config());
        builder.protection(make).build().unwrap()
    };
    let (here, there) = (side(), side());
    let mut events = there.discovery_events();
    let writer = writer::<Ordinary>(&here, "sealed", writer_qos());
    let reader = reader::<Ordinary>(&there, "sealed", reader_qos());
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    for value in 0..SAMPLES as u32 {
        put(&writer, 1, value);
    }
    assert_eq!(take_values(&reader, SAMPLES), (0..SAMPLES as u32).collect::<Vec<_>>());
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let [sealed, opened] = counts.map(|count| count.load(Ordering::Relaxed));
    assert!(sealed >= SAMPLES && opened >= SAMPLES, "{sealed} payloads were sealed, {opened} opened");
    assert_eq!(here.shared_memory_statistics().sent, 0);
    let reason = loop {
        let event = events.wait_next(PATIENCE).expect("the path is reported");
        if let DiscoveryEvent::PathChanged { path: DeliveryPath::Messages(reason), .. } = event {
            break reason;
        }
    };
    assert_eq!(reason, NoSharedMemory::Protected);
}

//! Models of acknowledgements. The loop of the waiting writer is that of the middleware, abridged.

use super::{bounded, channel};
use crate::shm::page::{OwnedPage, PeerPage, Words};
use crate::shm::ring::Overflow;
use loom::thread;

/// First acknowledgement of a reader: it is ready.
const READY: u64 = 1;

/// A writer that waits until all samples are acknowledged requests a notification for half of the missing ones, checks,
/// waits, and requests again when notified. The first request may precede or follow the first acknowledgement.
#[test]
fn writer_waiting_for_acknowledgement_is_notified() {
    const LAST: u64 = 4;
    bounded(3).check(|| {
        let (mut sender, shared, _) = channel(1, 1, Overflow::Block);
        let told = Words::new(1);
        let reader = thread::spawn({
            let told = OwnedPage::new(told.clone());
            move || {
                for value in READY..=LAST {
                    if shared.acknowledge(value) {
                        told.increment_and_wake(0);
                    }
                }
            }
        });
        let told = PeerPage::new(told);
        let mut below = 0;
        while below < LAST {
            let heard = told.load_acquire(0);
            let at = if below < READY { READY } else { below + ((LAST - below) / 2).max(1) };
            sender.request_ack_notification(at);
            below = sender.ack();
            if below < at {
                told.words().wait(0, heard);
            }
        }
        reader.join().unwrap();
    });
}

/// A writer that repeats a request before it was answered may take the answer to the old request for the answer to the
/// new one, but then the number is visible. No request is answered twice.
#[test]
fn ack_request_is_answered_once() {
    bounded(3).check(|| {
        let (mut sender, shared, _) = channel(1, 1, Overflow::Block);
        let reader = thread::spawn(move || (1..=3).filter(|value| shared.acknowledge(*value)).collect::<Vec<u64>>());
        sender.request_ack_notification(2);
        sender.request_ack_notification(3);
        let seen = sender.ack();
        let told_at = reader.join().unwrap();
        assert!(told_at.len() <= 2, "notified at {told_at:?} after two requests");
        assert!(seen == 3 || told_at.contains(&3), "notified at {told_at:?}, and {seen} was visible");
    });
}

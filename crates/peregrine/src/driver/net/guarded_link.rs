//! A stream link of the application, whose panics end here. A call that panics counts as one without effect.

use std::sync::Arc;

use peregrine_rtps::locator::Locator;
use peregrine_transport::event::Waker;

use crate::driver::base::user_code::run_under_lock;
use crate::stream_link::{StreamEvent, StreamLink, StreamLinks};

#[derive(Debug)]
struct GuardedLink {
    link: Arc<dyn StreamLink>,
    kind: i32,
    /// The address at the beginning.
    first_address: Locator,
}

/// The same links, called by [`run_under_lock`].
pub(super) fn guard(links: &StreamLinks) -> StreamLinks {
    let guarded = |link: &Arc<dyn StreamLink>| {
        let (kind, first_address) = (link.kind(), link.address());
        Arc::new(GuardedLink { link: Arc::clone(link), kind, first_address }) as Arc<dyn StreamLink>
    };
    StreamLinks::new(links.as_slice().iter().map(guarded).collect())
}

fn call<R>(call: impl FnOnce() -> R, otherwise: R) -> R {
    run_under_lock("a stream link has panicked", call, || otherwise)
}

impl StreamLink for GuardedLink {
    fn kind(&self) -> i32 {
        self.kind
    }

    fn address(&self) -> Locator {
        call(|| self.link.address(), self.first_address)
    }

    fn open(&self, ready: Arc<Waker>) {
        call(|| self.link.open(ready), ());
    }

    fn connect(&self, peer: Locator) {
        call(|| self.link.connect(peer), ());
    }

    fn write(&self, peer: Locator, bytes: &[u8]) -> usize {
        call(|| self.link.write(peer, bytes), 0)
    }

    fn read(&self, peer: Locator, buffer: &mut [u8]) -> usize {
        call(|| self.link.read(peer, buffer), 0)
    }

    fn disconnect(&self, peer: Locator) {
        call(|| self.link.disconnect(peer), ());
    }

    fn poll_event(&self) -> Option<StreamEvent> {
        call(|| self.link.poll_event(), None)
    }

    fn close(&self) {
        call(|| self.link.close(), ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::base::user_code::user_code_panics;

    const PLACE: Locator = Locator { kind: 0x0100_0001, port: 1, address: [0; 16], scope: 0 };

    #[derive(Debug)]
    struct Panicking;

    impl StreamLink for Panicking {
        fn kind(&self) -> i32 {
            PLACE.kind
        }

        fn address(&self) -> Locator {
            PLACE
        }

        fn open(&self, _: Arc<Waker>) {}

        fn connect(&self, _: Locator) {
            panic!("on purpose");
        }

        fn write(&self, _: Locator, _: &[u8]) -> usize {
            panic!("on purpose");
        }

        fn read(&self, _: Locator, buffer: &mut [u8]) -> usize {
            buffer.fill(1);
            buffer.len()
        }

        fn disconnect(&self, _: Locator) {}

        fn poll_event(&self) -> Option<StreamEvent> {
            panic!("on purpose");
        }

        fn close(&self) {}
    }

    #[test]
    fn call_of_a_link_that_panics_has_no_effect_and_is_counted() {
        let before = user_code_panics();
        let links = guard(&StreamLinks::new(vec![Arc::new(Panicking)]));
        let [link] = links.as_slice() else { panic!("one link") };
        assert_eq!((link.kind(), link.address()), (PLACE.kind, PLACE));
        link.connect(PLACE);
        assert_eq!((link.write(PLACE, &[1]), link.read(PLACE, &mut [0; 3]), link.poll_event()), (0, 3, None));
        assert!(user_code_panics() >= before + 3);
    }
}

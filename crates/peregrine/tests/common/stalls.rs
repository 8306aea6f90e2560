//! A listener that notes stalls of delivery.

use std::sync::Mutex;

use peregrine::status::DeliveryStalledStatus;
use peregrine::{DataWriter, DataWriterListener, DdsType};

/// The stalls that a listener of a writer gets.
#[derive(Default)]
pub struct Stalls(pub Mutex<Vec<DeliveryStalledStatus>>);

impl<T: DdsType> DataWriterListener<T> for Stalls {
    fn on_delivery_stalled(&self, _: &DataWriter<T>, status: DeliveryStalledStatus) {
        self.0.lock().unwrap().push(status);
    }
}

//! The conditions that keep an asynchronous writer from sending.

/// The conditions that keep an asynchronous writer from sending.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// The driver has taken a batch and has not returned it.
    pub(super) is_leaving: bool,
    /// Readers have requested samples meanwhile.
    pub(super) has_requests: bool,
    /// The window is closed until acknowledgements arrive.
    pub(super) is_window_closed: bool,
}

impl Backlog {
    pub(super) const fn set_window_closed(&mut self) {
        self.is_window_closed = true;
    }

    pub(super) const fn clear_window_closed(&mut self) {
        self.is_window_closed = false;
    }
}

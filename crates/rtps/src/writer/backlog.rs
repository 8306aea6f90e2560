//! What keeps an asynchronous writer from sending.

/// What keeps an asynchronous writer from sending.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// A batch was handed over and has not been given back.
    pub(super) is_leaving: bool,
    /// Readers have asked for something meanwhile.
    pub(super) has_requests: bool,
    /// Acknowledgements have to come first.
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

//! Connected sockets for the most frequent destinations.

use super::{OpenError, Socket, SocketOptions, Statistics};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A bounded number of [connected](Socket::connected) sockets, one per destination, shared by all senders to it.
///
/// A sender calls [`Self::get`] once and keeps the socket. Without one, the sender uses an unconnected socket.
#[derive(Debug)]
pub struct ConnectedSockets {
    table: Mutex<Table>,
    capacity: usize,
    options: SocketOptions,
}

#[derive(Debug)]
struct Table {
    sockets: Vec<Arc<Socket>>,
    /// Counters of closed sockets: over IPv4, over IPv6.
    closed: [Statistics; 2],
}

impl ConnectedSockets {
    /// Creates a table for `capacity` destinations; 16 is plenty. The sockets are opened with `options`, but with the
    /// smallest receive buffer, because no thread reads from them.
    #[must_use]
    pub fn new(capacity: usize, options: &SocketOptions) -> Self {
        let options = SocketOptions { receive_buffer_bytes: Some(0), receive_offload: false, ..options.clone() };
        let table = Table { sockets: Vec::with_capacity(capacity), closed: <[Statistics; 2]>::default() };
        Self { table: Mutex::new(table), capacity, options }
    }

    /// The socket connected to `destination`; `None` if all places are taken. A place becomes free when all owners of
    /// its socket have dropped it.
    ///
    /// # Errors
    /// Errors of [`Socket::connected`].
    pub fn get(&self, destination: SocketAddr) -> Result<Option<Arc<Socket>>, OpenError> {
        let mut table = self.lock();
        if let Some(known) = table.sockets.iter().find(|socket| socket.peer() == Some(destination)) {
            return Ok(Some(Arc::clone(known)));
        }
        if table.sockets.len() >= self.capacity {
            table.close(|socket| Arc::strong_count(socket) == 1);
        }
        if table.sockets.len() >= self.capacity {
            return Ok(None);
        }
        let socket = Arc::new(Socket::connected(destination, &self.options)?);
        table.sockets.push(Arc::clone(&socket));
        Ok(Some(socket))
    }

    /// Removes this socket, so that [`Self::get`] opens a new one. For use after a send has failed.
    pub fn remove(&self, socket: &Arc<Socket>) {
        self.lock().close(|known| Arc::ptr_eq(known, socket));
    }

    /// Removes all sockets, so that [`Self::get`] opens new ones. For use after interfaces or addresses have changed.
    pub fn clear(&self) {
        self.lock().close(|_| true);
    }

    /// Counters of all sockets, open or closed: over IPv4, over IPv6.
    #[must_use]
    pub fn statistics(&self) -> [Statistics; 2] {
        let table = self.lock();
        table.sockets.iter().fold(table.closed, |mut sums, socket| {
            sums[family_of(socket)] += socket.statistics();
            sums
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn close(&mut self, which: impl Fn(&Arc<Socket>) -> bool) {
        for socket in self.sockets.extract_if(.., |socket| which(socket)) {
            self.closed[family_of(&socket)] += socket.statistics();
        }
    }
}

fn family_of(socket: &Socket) -> usize {
    usize::from(socket.local_address().is_ipv6())
}

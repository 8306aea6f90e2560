//! Streams, divided into messages of one size.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use super::end::{End, Ends, SILENCE, is_silence};

/// Bytes of one read.
const CHUNK_BYTES: usize = 256 << 10;

/// A TCP connection that sends without delay (`TCP_NODELAY`).
pub(super) fn tcp(size: usize) -> io::Result<Ends> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
    }
    Ok((messages(near, size), messages(far, size)))
}

/// A pair of Unix sockets.
pub(super) fn unix(size: usize) -> io::Result<Ends> {
    let (near, far) = UnixStream::pair()?;
    for stream in [&near, &far] {
        stream.set_read_timeout(Some(SILENCE))?;
    }
    Ok((messages(near, size), messages(far, size)))
}

struct Messages<S> {
    stream: S,
    size: usize,
    buffer: Vec<u8>,
    /// Received bytes of an incomplete message.
    partial: usize,
}

fn messages(stream: impl Read + Write + Send + 'static, size: usize) -> Box<dyn End> {
    Box::new(Messages { stream, size, buffer: vec![0; CHUNK_BYTES], partial: 0 })
}

impl<S: Read + Write + Send> End for Messages<S> {
    fn send(&mut self, message: &[u8]) -> io::Result<u64> {
        self.stream.write_all(message).map(|()| 1)
    }

    fn receive(&mut self) -> io::Result<Option<u64>> {
        match self.stream.read(&mut self.buffer) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other end was closed")),
            Ok(bytes) => {
                let bytes = self.partial + bytes;
                self.partial = bytes % self.size;
                Ok(Some((bytes / self.size) as u64))
            }
            Err(error) if is_silence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

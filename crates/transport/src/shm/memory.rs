//! Memory without a name: memfds sealed against resizing, mapped writable by who made them and read-only by others.
//!
//! The maker maps first and seals then. `F_SEAL_FUTURE_WRITE` leaves its mapping writable and refuses every later one,
//! every `write` and every hole punched, to whoever holds the descriptor and by whatever way it is opened again; a
//! descriptor reopened read-only would not hold against a process of the same user.

use super::prefetch;
use crate::sys;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Without these the owner could take memory away under a reader (SIGBUS), let it fill holes, or lend it to be written.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// How `st_blocks` counts, whatever the size of a block is.
const STAT_BLOCK_BYTES: u64 = 512;

/// Pages of this process, unmapped when the last owner is gone.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    is_writable: bool,
}

// SAFETY: the pages are as good from one thread as from another; who may write them is up to the types below.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes, of which the first `populated` are there from the beginning.
    fn new(fd: BorrowedFd<'_>, len: usize, protection: ProtFlags, populated: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0) }
            .map_err(|error| sys::in_operation(format_args!("mmap of {len} bytes"), &error.into()))?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Self { start, len, is_writable: protection.contains(ProtFlags::WRITE) };
        // So that no sample pays for the page fault of the first access.
        mapping.populate(0..populated)?;
        Ok(mapping)
    }

    /// Has the pages of these bytes allocated and mapped. Until then an access may fail with SIGBUS if the system has no memory;
    /// here that is an error.
    ///
    /// # Errors
    /// The system is short of memory, or the kernel is older than Linux 5.14.
    pub(super) fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let start = range.start - range.start % rustix::param::page_size();
        let end = whole_pages(range.end).filter(|&end| end <= self.len).ok_or(io::ErrorKind::InvalidInput)?;
        let advice = if self.is_writable { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        // SAFETY: whole pages within the mapping; populating changes no contents.
        unsafe { rustix::mm::madvise(self.start.add(start).as_ptr().cast(), end - start, advice) }
            .map_err(|error| sys::in_operation(format_args!("populating {} bytes", end - start), &error.into()))
    }

    /// The first byte: aligned to a page.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by `mmap` with this length; nobody refers to it any more.
        let result = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "the mapping is ours");
    }
}

/// Memory of this process that others may map, and its descriptor.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    mapping: Arc<Mapping>,
    fd: Arc<OwnedFd>,
}

impl Memory {
    /// At least `len` bytes of zeros, in whole pages, all of them there from the beginning.
    ///
    /// # Errors
    /// The system is short of memory, or the process of descriptors; or the kernel is older than Linux 5.14.
    pub(super) fn new(name: &str, len: usize) -> io::Result<Self> {
        Self::with_populated(name, len, len)
    }

    /// The same, of which only the first `populated` bytes are there from the beginning: the others after
    /// [`Mapping::populate`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn with_populated(name: &str, len: usize, populated: usize) -> io::Result<Self> {
        let len = whole_pages(len).ok_or(io::ErrorKind::InvalidInput)?;
        let populated = whole_pages(populated).ok_or(io::ErrorKind::InvalidInput)?;
        let fd = memfd(name)?;
        rustix::fs::ftruncate(&fd, len as u64)?;
        let mapping = Mapping::new(fd.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE, populated)?;
        rustix::fs::fcntl_add_seals(&fd, SEALS)
            .map_err(|error| sys::in_operation("sealing a memfd (Linux 5.1 or newer)", &error.into()))?;
        Ok(Self { mapping: Arc::new(mapping), fd: Arc::new(fd) })
    }

    pub(super) fn len(&self) -> usize {
        self.mapping.len
    }

    /// Where it begins: aligned to a page, readable and writable for [`Self::len`] bytes while this or a clone lives.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.mapping.start
    }

    /// The pages without the descriptor.
    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Memory of another process, to be read only.
#[derive(Clone, Debug)]
pub(super) struct View {
    mapping: Arc<Mapping>,
}

impl View {
    /// Maps memory that another process has sent.
    ///
    /// # Errors
    /// It is not memory of exactly `len` bytes, sealed and wholly there; or it cannot be mapped.
    pub(super) fn new(fd: &OwnedFd, len: usize) -> io::Result<Self> {
        Self::with_populated(fd, len, len)
    }

    /// Maps memory that another process has sent, of which at least the first `populated` bytes are there; others are not to be
    /// accessed before [`Mapping::populate`].
    ///
    /// # Errors
    /// It is not memory of exactly `len` bytes, sealed and there as far as that; or it cannot be mapped.
    pub(super) fn with_populated(fd: &OwnedFd, len: usize, populated: usize) -> io::Result<Self> {
        let refuse = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, format!("shared memory {what}")));
        match rustix::fs::fcntl_get_seals(fd) {
            Ok(seals) if seals.contains(SEALS) => {}
            Ok(_) => return refuse("that its owner has not sealed"),
            Err(_) => return refuse("that is no memfd"),
        }
        let stat = rustix::fs::fstat(fd)?;
        if len == 0 || u64::try_from(stat.st_size) != Ok(len as u64) {
            return refuse("of another size than announced");
        }
        if u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(STAT_BLOCK_BYTES) < populated as u64 {
            return refuse("with holes");
        }
        Ok(Self { mapping: Arc::new(Mapping::new(fd.as_fd(), len, ProtFlags::READ, populated)?) })
    }

    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    pub(super) fn len(&self) -> usize {
        self.mapping.len
    }

    /// These bytes of it; `None` unless all of them are.
    ///
    /// # Safety
    /// While they are borrowed, a process that keeps to the protocol does not write them.
    #[inline]
    pub(super) unsafe fn octets(&self, range: Range<usize>) -> Option<&[u8]> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.len())?;
        // SAFETY: within the mapping, as just checked, which stays while `self` is borrowed; the caller answers for the rest.
        Some(unsafe { std::slice::from_raw_parts(self.start().add(range.start).as_ptr(), len) })
    }

    /// The first bytes of a range are going to be looked at.
    #[inline]
    pub(super) fn prefetch(&self, range: &Range<usize>) {
        if range.end <= self.len() {
            // SAFETY: within the mapping.
            prefetch::to_read(unsafe { self.start().add(range.start) }, range.len());
        }
    }

    /// Where it begins: aligned to a page, readable for [`Self::len`] bytes while this or a clone lives.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.mapping.start
    }
}

/// The length that memory of `len` bytes really has.
pub(super) fn whole_pages(len: usize) -> Option<usize> {
    len.max(1).checked_next_multiple_of(rustix::param::page_size())
}

/// Kernels before 6.3 do not know that a memfd may be marked as never to be executed.
fn memfd(name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL)
        .or_else(|_| rustix::fs::memfd_create(name, flags))
        .map_err(|error| sys::in_operation("memfd_create", &error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, memfd_create};

    fn duplicate(memory: &Memory) -> OwnedFd {
        memory.as_fd().try_clone_to_owned().unwrap()
    }

    fn text(result: io::Result<View>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn what_the_owner_writes_is_seen_and_cannot_be_written_by_others() {
        let memory = Memory::new("test", 5000).unwrap();
        assert_eq!(memory.len(), 8192);
        let fd = duplicate(&memory);
        let view = View::new(&fd, 8192).unwrap();
        // SAFETY: within the memory, which nobody else uses.
        unsafe { memory.start().add(4999).write(7) };
        // SAFETY: within the view.
        assert_eq!(unsafe { view.start().add(4999).read() }, 7);

        assert!(Mapping::new(fd.as_fd(), 8192, ProtFlags::READ | ProtFlags::WRITE, 0).is_err());
        assert!(rustix::io::pwrite(&fd, b"x", 0).is_err());
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&fd, hole, 0, 4096).is_err());
        // Opened again through /proc it is no better.
        use std::os::fd::AsRawFd as _;
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let again = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        assert!(Mapping::new(again.as_fd(), 8192, ProtFlags::READ | ProtFlags::WRITE, 0).is_err());
        // SAFETY: the range is that of the mapping; making it writable is what must fail.
        let result = unsafe {
            rustix::mm::mprotect(
                view.start().as_ptr().cast(),
                4096,
                rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE,
            )
        };
        assert!(result.is_err());
    }

    #[test]
    fn memory_that_could_shrink_or_has_holes_is_refused() {
        let plain = templess_file();
        assert!(text(View::new(&plain, 4096)).contains("no memfd"));

        let unsealed = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&unsealed, 4096).unwrap();
        assert!(text(View::new(&unsealed, 4096)).contains("not sealed"));

        rustix::fs::fcntl_add_seals(&unsealed, SEALS).unwrap();
        assert!(text(View::new(&unsealed, 4096)).contains("holes"));

        let memory = Memory::new("test", 4096).unwrap();
        assert!(text(View::new(&duplicate(&memory), 8192)).contains("another size"));
        assert!(text(View::new(&duplicate(&memory), 0)).contains("another size"));
    }

    /// A descriptor of something that has a size but is not memory.
    fn templess_file() -> OwnedFd {
        std::fs::File::open("/proc/self/exe").unwrap().into()
    }
}

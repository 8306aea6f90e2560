//! Anonymous shared memory: memfds sealed against resizing, mapped writable by their creator and read-only by others.
//!
//! The creator maps first and seals then. `F_SEAL_FUTURE_WRITE` keeps its mapping writable and refuses every later
//! writable mapping, `write` and hole punch, for every holder of the descriptor and however it is reopened. A
//! descriptor reopened read-only would not stop a process of the same user.

use super::prefetch;
use crate::sys;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Without these seals the owner could shrink the memory under a reader (SIGBUS), leave holes in it, or let others
/// write it.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Unit of `st_blocks`, whatever the block size is.
const STAT_BLOCK_BYTES: u64 = 512;

/// Mapped pages, unmapped when the last owner is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    is_writable: bool,
}

// SAFETY: the pages are valid on every thread; the types below control which threads write them.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes and allocates the first `populated` of them.
    fn new(fd: BorrowedFd<'_>, len: usize, protection: ProtFlags, populated: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0) }
            .map_err(|error| sys::in_operation(format_args!("mmap of {len} bytes"), &error.into()))?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Self { start, len, is_writable: protection.contains(ProtFlags::WRITE) };
        // No sample pays for the page fault of a first access.
        mapping.populate(0..populated)?;
        Ok(mapping)
    }

    /// Allocates and maps the pages of these bytes. Without this an access may fail with SIGBUS if the system has no
    /// memory; here that is an error.
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

    /// The first byte, aligned to a page.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `mmap` with this length, and no reference into it is left.
        let result = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "the mapping is ours");
    }
}

/// Memory that this process writes and others may map, with its descriptor.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    mapping: Arc<Mapping>,
    fd: Arc<OwnedFd>,
}

impl Memory {
    /// Allocates at least `len` zero bytes, in whole pages.
    ///
    /// # Errors
    /// The system is short of memory, the process is out of descriptors, or the kernel is older than Linux 5.14.
    pub(super) fn new(name: &str, len: usize) -> io::Result<Self> {
        Self::with_populated(name, len, len)
    }

    /// Like [`Self::new`], but allocates only the first `populated` bytes; [`Mapping::populate`] allocates the others.
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

    /// Start of the memory: aligned to a page, readable and writable for [`Self::len`] bytes while this value or a
    /// clone lives.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.mapping.start
    }

    /// The mapping without the descriptor.
    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Memory of another process, mapped read-only.
#[derive(Clone, Debug)]
pub(super) struct View {
    mapping: Arc<Mapping>,
}

impl View {
    /// Maps memory that another process has sent.
    ///
    /// # Errors
    /// The descriptor is no sealed and fully allocated memory of exactly `len` bytes, or it cannot be mapped.
    pub(super) fn new(fd: &OwnedFd, len: usize) -> io::Result<Self> {
        Self::with_populated(fd, len, len)
    }

    /// Maps memory that another process has sent, of which at least the first `populated` bytes are allocated. The
    /// others need [`Mapping::populate`] before an access.
    ///
    /// # Errors
    /// The descriptor is no sealed memory of exactly `len` bytes with that part allocated, or it cannot be mapped.
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

    /// The bytes of this range; `None` unless the whole range lies within the memory.
    ///
    /// # Safety
    /// A process that follows the protocol does not write the bytes while they are borrowed.
    #[inline]
    pub(super) unsafe fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.len())?;
        // SAFETY: within the mapping, as just checked, which lives while `self` is borrowed; the caller guarantees the
        // rest.
        Some(unsafe { std::slice::from_raw_parts(self.start().add(range.start).as_ptr(), len) })
    }

    /// Fetches the first bytes of a range into this CPU's caches.
    #[inline]
    pub(super) fn prefetch(&self, range: &Range<usize>) {
        if range.end <= self.len() {
            // SAFETY: within the mapping.
            prefetch::to_read(unsafe { self.start().add(range.start) }, range.len());
        }
    }

    /// Start of the memory: aligned to a page, readable for [`Self::len`] bytes while this value or a clone lives.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.mapping.start
    }
}

/// The length in whole pages.
pub(super) fn whole_pages(len: usize) -> Option<usize> {
    len.max(1).checked_next_multiple_of(rustix::param::page_size())
}

/// Creates a memfd that cannot be executed. Kernels before 6.3 do not know that flag.
fn memfd(name: &str) -> io::Result<OwnedFd> {
    #[cfg(feature = "simulation")]
    crate::simulation::check_descriptors()?;
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
    fn sealed_memory_is_readable_and_not_writable_by_others() {
        let memory = Memory::new("test", 5000).unwrap();
        assert_eq!(memory.len(), 8192);
        let fd = duplicate(&memory);
        let view = View::new(&fd, 8192).unwrap();
        // SAFETY: within the memory, which only this test uses.
        unsafe { memory.start().add(4999).write(7) };
        // SAFETY: within the view.
        assert_eq!(unsafe { view.start().add(4999).read() }, 7);

        assert!(Mapping::new(fd.as_fd(), 8192, ProtFlags::READ | ProtFlags::WRITE, 0).is_err());
        assert!(rustix::io::pwrite(&fd, b"x", 0).is_err());
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&fd, hole, 0, 4096).is_err());
        // Reopening the descriptor through /proc does not help.
        use std::os::fd::AsRawFd as _;
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let again = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        assert!(Mapping::new(again.as_fd(), 8192, ProtFlags::READ | ProtFlags::WRITE, 0).is_err());
        // SAFETY: the range is the mapping; the call must fail to make it writable.
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

    /// A descriptor of a file that has a size but is no memfd.
    fn templess_file() -> OwnedFd {
        std::fs::File::open("/proc/self/exe").unwrap().into()
    }
}

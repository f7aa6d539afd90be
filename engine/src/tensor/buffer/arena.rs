//! Memory for many buffers that live and die together, in large pages where the system has them.
//!
//! A model's weights and its cached keys and values are read from end to end for every token. In pages of 4 KiB such a
//! read waits for address translation, under a hypervisor twice over: half the bandwidth is lost. So buffers are cut
//! from regions of some megabytes that ask for large pages. Not here: freeing one buffer before the others.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::{ALIGNMENT_BYTES, Buffer, Plain};

/// A large page of x86-64 and of aarch64 with 4 KiB granules.
const LARGE_PAGE_BYTES: usize = 2 << 20;
/// Bytes of a region; what of it is never touched costs no memory.
const REGION_BYTES: usize = 32 << 20;

/// Where buffers are cut from.
#[derive(Default)]
pub struct Arena {
    open: Mutex<Option<Open>>,
}

/// The region that the next buffer comes from.
struct Open {
    region: Arc<Region>,
    used: usize,
}

impl Arena {
    /// A buffer of `len` zeros.
    pub fn zeroed<T: Plain>(&self, len: usize) -> Buffer<T> {
        let bytes = (len * size_of::<T>()).next_multiple_of(ALIGNMENT_BYTES);
        if bytes == 0 {
            return Buffer::zeroed(0);
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |open: &Open| open.region.bytes - open.used >= bytes;
        if !open.as_ref().is_some_and(fits) {
            let region = Arc::new(Region::new(bytes.max(REGION_BYTES)));
            *open = Some(Open { region, used: 0 });
        }
        let Some(Open { region, used }) = &mut *open else {
            return Buffer::zeroed(len);
        };
        // SAFETY: used + bytes is within the region, as just ensured.
        let pointer = unsafe { region.start.add(*used) }.cast();
        *used += bytes;
        Buffer {
            pointer,
            len,
            region: Some(Arc::clone(region)),
        }
    }
}

/// Memory of its own, zero at first, given back when the last buffer in it is dropped.
pub(super) struct Region {
    start: NonNull<u8>,
    bytes: usize,
    /// Gives the memory back when dropped.
    _mapping: Mapping,
}

// SAFETY: a region owns its memory, which is reached only through the buffers cut from it, none overlapping.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

#[cfg(target_os = "linux")]
struct Mapping {
    address: *mut libc::c_void,
    len: usize,
}

#[cfg(target_os = "linux")]
impl Region {
    /// `bytes` from the start of a large page on.
    ///
    /// # Panics
    /// If the system has no such address space.
    fn new(bytes: usize) -> Self {
        let len = bytes + LARGE_PAGE_BYTES;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the system's choice touches no memory of ours.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
        assert!(
            address != libc::MAP_FAILED,
            "{len} bytes of address space are not to be had"
        );
        let skip = address.cast::<u8>().align_offset(LARGE_PAGE_BYTES);
        // SAFETY: skip is below LARGE_PAGE_BYTES, by which the mapping is longer than `bytes`.
        let start = unsafe { address.cast::<u8>().add(skip) };
        // A wish: without it everything works, slower.
        // SAFETY: the range is inside the mapping.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        Self {
            start,
            bytes,
            _mapping: Mapping { address, len },
        }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `Region::new` and unmapped only here, after the last buffer is gone.
        unsafe { libc::munmap(self.address, self.len) };
    }
}

#[cfg(not(target_os = "linux"))]
type Mapping = Buffer<u8>;

#[cfg(not(target_os = "linux"))]
impl Region {
    fn new(bytes: usize) -> Self {
        let mapping = Buffer::zeroed(bytes);
        Self {
            start: mapping.pointer,
            bytes,
            _mapping: mapping,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_an_arena_are_zeroed_aligned_apart_and_outlive_it() {
        let arena = Arena::default();
        let lens = [1, 1000, 0, 3 << 20, REGION_BYTES, 17];
        let mut buffers: Vec<Buffer<u16>> = lens.iter().map(|len| arena.zeroed(*len)).collect();
        drop(arena);
        for (i, buffer) in buffers.iter_mut().enumerate() {
            assert!(
                buffer.is_empty() || (buffer.as_ptr() as usize).is_multiple_of(ALIGNMENT_BYTES)
            );
            assert!(buffer.iter().all(|x| *x == 0));
            buffer.fill(i as u16 + 1);
        }
        for (i, (buffer, len)) in buffers.iter().zip(lens).enumerate() {
            assert!(buffer.len() == len && buffer.iter().all(|x| usize::from(*x) == i + 1));
        }
    }
}

//! A zeroed, 64-byte aligned, fixed-size buffer of plain numbers, alone or one of many in an arena.
//!
//! Not here: growth. What needs to grow is a `Vec`.
#![allow(unsafe_code)]

mod arena;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

pub use arena::Arena;
use arena::Region;

/// One cache line, and the widest vector register.
const ALIGNMENT_BYTES: usize = 64;

mod sealed {
    /// Types for which all-zero bytes are a valid value and dropping does nothing.
    pub trait Plain: Copy + Send + Sync + 'static {}
    impl Plain for f32 {}
    impl Plain for i8 {}
    impl Plain for u8 {}
    impl Plain for u16 {}
    impl Plain for u64 {}
}
use sealed::Plain;

/// `len` elements, zero at first.
pub struct Buffer<T: Plain> {
    pointer: NonNull<T>,
    len: usize,
    /// Whose memory it is, if not its own.
    region: Option<Arc<Region>>,
}

// SAFETY: the buffer owns its memory and T is plain data, so moving it to another thread is sound.
unsafe impl<T: Plain> Send for Buffer<T> {}
// SAFETY: shared access only reads plain data.
unsafe impl<T: Plain> Sync for Buffer<T> {}

impl<T: Plain> Buffer<T> {
    /// A buffer of `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        if len == 0 {
            return Self {
                pointer: NonNull::dangling(),
                len,
                region: None,
            };
        }
        let layout = Self::layout(len);
        // SAFETY: the layout has a size above zero, since len > 0 and T is not zero-sized.
        let pointer = unsafe { alloc_zeroed(layout) }.cast::<T>();
        match NonNull::new(pointer) {
            Some(pointer) => Self {
                pointer,
                len,
                region: None,
            },
            None => handle_alloc_error(layout),
        }
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<T>(len)
            .and_then(|layout| layout.align_to(ALIGNMENT_BYTES))
            .unwrap_or_else(|_| panic!("a buffer of {len} elements exceeds the address space"))
    }
}

impl<T: Plain> Drop for Buffer<T> {
    fn drop(&mut self) {
        if self.len > 0 && self.region.is_none() {
            // SAFETY: allocated in `zeroed` with the same layout, and freed only here.
            unsafe { dealloc(self.pointer.as_ptr().cast(), Self::layout(self.len)) }
        }
    }
}

impl<T: Plain> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: pointer is valid for len initialised elements (zeroed at birth) while self lives.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }
}

impl<T: Plain> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zeroed_aligned_and_writable() {
        for len in [0, 1, 7, 4096] {
            let mut buffer = Buffer::<f32>::zeroed(len);
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|x| x.to_bits() == 0));
            if len > 0 {
                assert_eq!(buffer.as_ptr() as usize % ALIGNMENT_BYTES, 0);
                buffer[len - 1] = 3.0;
                assert!((buffer[len - 1] - 3.0).abs() < f32::EPSILON);
            }
        }
    }
}

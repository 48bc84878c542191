//! An atomic number: the machine's, or that of a checker.

use core::sync::atomic::{self, AtomicU32, AtomicU64, Ordering};

/// A number of type `N` with the methods of the standard library's atomic counters.
pub trait Atomic<N> {
    /// With this value.
    fn new(value: N) -> Self;
    /// As [`AtomicU64::load`].
    fn load(&self, order: Ordering) -> N;
    /// As [`AtomicU64::store`].
    fn store(&self, value: N, order: Ordering);
    /// As [`AtomicU64::swap`].
    fn swap(&self, value: N, order: Ordering) -> N;
    /// As [`AtomicU64::fetch_add`].
    fn fetch_add(&self, value: N, order: Ordering) -> N;
    /// As [`atomic::fence`] with `SeqCst`.
    fn fence();
}

macro_rules! machine {
    ($number:ty, $atomic:ty) => {
        impl Atomic<$number> for $atomic {
            fn new(value: $number) -> Self {
                <$atomic>::new(value)
            }

            #[inline]
            fn load(&self, order: Ordering) -> $number {
                <$atomic>::load(self, order)
            }

            #[inline]
            fn store(&self, value: $number, order: Ordering) {
                <$atomic>::store(self, value, order);
            }

            #[inline]
            fn swap(&self, value: $number, order: Ordering) -> $number {
                <$atomic>::swap(self, value, order)
            }

            #[inline]
            fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                <$atomic>::fetch_add(self, value, order)
            }

            #[inline]
            fn fence() {
                atomic::fence(Ordering::SeqCst);
            }
        }
    };
}

machine!(u32, AtomicU32);
machine!(u64, AtomicU64);

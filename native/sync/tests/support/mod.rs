//! What the machine gives, as loom knows it: atomic counters, descriptors that are ready, places where processes sleep.
#![allow(dead_code, reason = "each test file uses its part")]

use loom::sync::{Condvar, Mutex};
use rejoin_sync::Atomic;
use std::sync::atomic::Ordering;

macro_rules! checked {
    ($name:ident, $number:ty, $atomic:ty) => {
        /// Loom's atomic number.
        pub struct $name($atomic);

        impl Atomic<$number> for $name {
            fn new(value: $number) -> Self {
                $name(<$atomic>::new(value))
            }

            fn load(&self, order: Ordering) -> $number {
                self.0.load(order)
            }

            fn store(&self, value: $number, order: Ordering) {
                self.0.store(value, order);
            }

            fn swap(&self, value: $number, order: Ordering) -> $number {
                self.0.swap(value, order)
            }

            fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                self.0.fetch_add(value, order)
            }

            fn fence() {
                loom::sync::atomic::fence(Ordering::SeqCst);
            }
        }
    };
}

checked!(Long, u64, loom::sync::atomic::AtomicU64);
checked!(Short, u32, loom::sync::atomic::AtomicU32);

/// A descriptor that is ready after it was written, until that is taken: an eventfd, or the waker of a poll.
pub struct Event {
    ready: Mutex<bool>,
    written: Condvar,
}

impl Event {
    pub fn new() -> Self {
        Event { ready: Mutex::new(false), written: Condvar::new() }
    }

    pub fn write(&self) {
        *self.ready.lock().unwrap() = true;
        self.written.notify_one();
    }

    pub fn wait(&self) {
        let mut ready = self.ready.lock().unwrap();
        while !*ready {
            ready = self.written.wait(ready).unwrap();
        }
    }

    pub fn take(&self) {
        *self.ready.lock().unwrap() = false;
    }

    pub fn is_ready(&self) -> bool {
        *self.ready.lock().unwrap()
    }
}

/// The kernel's queue of those that sleep at a number. It looks at the number, and lets them sleep, in one step.
pub struct Futex {
    queue: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    pub fn new() -> Self {
        Futex { queue: Mutex::new(()), woken: Condvar::new() }
    }

    pub fn wait(&self, number: &Short, expected: u32) {
        let queue = self.queue.lock().unwrap();
        if number.load(Ordering::Relaxed) == expected {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    pub fn wake(&self) {
        let _queue = self.queue.lock().unwrap();
        self.woken.notify_all();
    }
}

/// Runs a model in every order in which threads are changed where they wait, and at no more than
/// this many places beside: what goes wrong with more changes goes wrong with few, as the planted
/// defects do with one, and the orders are many more with each.
pub fn in_every_order(changes: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(changes);
    builder.check(model);
}

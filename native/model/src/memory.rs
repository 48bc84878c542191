//! States by their names. A state is kept once, under the digest of its text; a step from a state is computed once.

use dashmap::DashMap;
use std::fmt::{Debug, Write};
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64_with_seed, Xxh3};

/// The name of something: the digest of its text. Equal names, equal things; as everywhere in an exhaustive check by
/// fingerprints, two things of one name are as unlikely as two equal draws of 64 bits.
pub type Name = u64;

struct Digest(Xxh3);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// Equal for equal things.
pub fn name(thing: &impl Debug) -> Name {
    let mut digest = Digest(Xxh3::new());
    // A digest takes whatever is written to it.
    let _ = write!(digest, "{thing:?}");
    digest.0.digest()
}

/// The name of a named thing together with a small number.
pub fn both(thing: Name, number: u64) -> Name {
    xxh3_64_with_seed(&thing.to_le_bytes(), number.wrapping_add(1))
}

/// Things by their names.
pub struct Things<T> {
    all: DashMap<Name, Arc<T>>,
}

impl<T: Debug> Default for Things<T> {
    fn default() -> Self {
        Things { all: DashMap::new() }
    }
}

impl<T: Debug> Things<T> {
    /// Under its name, once.
    pub fn keep(&self, thing: T) -> Name {
        let name = name(&thing);
        self.all.entry(name).or_insert_with(|| Arc::new(thing));
        name
    }

    /// The thing of this name.
    ///
    /// # Panics
    /// When it was never kept.
    pub fn of(&self, name: Name) -> Arc<T> {
        self.all.get(&name).map(|thing| thing.clone()).expect("a state holds names of what was kept")
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// What steps do: from a state's name and an input's name to the next state's name and what follows.
pub struct Steps<E> {
    all: DashMap<(Name, Name), Option<Step<E>>>,
}

/// The next state, and what follows for others.
pub type Step<E> = (Name, Arc<[E]>);

impl<E> Default for Steps<E> {
    fn default() -> Self {
        Steps { all: DashMap::new() }
    }
}

impl<E> Steps<E> {
    /// The step, computed if it wasn't before. `None`: nothing happens.
    pub fn take(&self, from: Name, input: Name, compute: impl FnOnce() -> Option<(Name, Vec<E>)>) -> Option<Step<E>> {
        if let Some(known) = self.all.get(&(from, input)) {
            return known.clone();
        }
        let step = compute().map(|(next, effects)| (next, Arc::from(effects)));
        self.all.insert((from, input), step.clone());
        step
    }
}

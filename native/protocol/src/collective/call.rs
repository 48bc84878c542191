//! What a caller asks for: the operation, over what, and from where in the code.

use crate::ids::Rank;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operation {
    /// All get the reduction of all.
    Allreduce,
    /// Rank k gets the k-th part of the reduction of all.
    ReduceScatter,
    /// All get what the root has.
    Broadcast,
    /// All get what each has, in rank order; all parts have one length.
    Allgather,
    /// All get what each has, in rank order; lengths may differ.
    AllgatherUnequal,
    /// No rank goes on before all are there.
    Barrier,
}

impl Operation {
    /// The name that stands in texts.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Allreduce => "allreduce",
            Operation::ReduceScatter => "reduce_scatter",
            Operation::Broadcast => "broadcast",
            Operation::Allgather => "allgather",
            Operation::AllgatherUnequal => "allgather_v",
            Operation::Barrier => "barrier",
        }
    }
}

/// Where in the caller's code a call stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// A place in Rust code.
    Code {
        /// Path of the source file, as the compiler has it.
        file: &'static str,
        /// The line, from 1.
        line: u32,
    },
    /// What another language calls it.
    Named(Arc<str>),
}

impl From<&'static core::panic::Location<'static>> for Site {
    fn from(location: &'static core::panic::Location<'static>) -> Self {
        Site::Code { file: location.file(), line: location.line() }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Code { file, line } => write!(f, "{file}:{line}"),
            Site::Named(name) => f.write_str(name),
        }
    }
}

/// Under which name a boot collective's result is kept for the life of the job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BootKey {
    /// The caller's own name for it, or the call site with the call.
    pub name: String,
    /// How often this name was used before in this incarnation; always 0 for the caller's own names.
    pub occurrence: u32,
}

impl fmt::Display for BootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (occurrence {})", self.name, self.occurrence)
    }
}

/// One call. Two ranks make the same call when all but the site is equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What is done.
    pub operation: Operation,
    /// Name of the element type, for instance `f32`; empty where there is none. Only names of the
    /// caller's own elements and reductions are allocated.
    pub element: Cow<'static, str>,
    /// Number of elements, where all ranks have to have the same: the whole buffer, one rank's part of an allgather.
    pub count: u64,
    /// Name of the reduction with its order, for instance `sum`; empty where nothing is reduced.
    pub reduction: Cow<'static, str>,
    /// Whose bytes a broadcast spreads.
    pub root: Option<Rank>,
    /// Where it was called.
    pub site: Site,
}

impl Call {
    /// What is compared between ranks: all but the site. A boot collective's key takes part, so
    /// that ranks whose keys differ find out at once, and not when one of them comes back and
    /// misses its result.
    pub fn digest(&self, key: Option<&BootKey>) -> u64 {
        // Names are short; numbers are hashed as the seed of the next step, so nothing is allocated.
        let mut digest = self.count;
        digest = xxh3_64_with_seed(&[self.operation as u8, self.root.is_some() as u8], digest);
        digest = xxh3_64_with_seed(&self.root.map_or(0, |root| root.0).to_le_bytes(), digest);
        digest = xxh3_64_with_seed(self.element.as_bytes(), digest);
        digest = xxh3_64_with_seed(self.reduction.as_bytes(), digest);
        if let Some(key) = key {
            digest = xxh3_64_with_seed(key.name.as_bytes(), digest);
            digest = xxh3_64_with_seed(&key.occurrence.to_le_bytes(), digest);
        }
        digest
    }

    /// Whether its end at one rank proves that every rank has begun it.
    pub fn depends_on_all(&self) -> bool {
        match self.operation {
            Operation::Barrier => true,
            Operation::Broadcast => false,
            _ => self.count > 0,
        }
    }

    /// The call without its site, for instance `allreduce(100 f32, sum)`.
    pub fn text(&self) -> String {
        let mut parts = alloc::vec::Vec::new();
        if !self.element.is_empty() {
            parts.push(format!("{} {}", self.count, self.element));
        }
        if !self.reduction.is_empty() {
            parts.push(self.reduction.to_string());
        }
        if let Some(root) = self.root {
            parts.push(format!("root {root}"));
        }
        format!("{}({})", self.operation.name(), parts.join(", "))
    }

    /// What is kept and sent of it.
    pub fn signature(&self, key: Option<&BootKey>) -> Signature {
        Signature { digest: self.digest(key), made: Made::Here(self.clone()) }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.text(), self.site)
    }
}

/// A call as it is kept and sent to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, String)", into = "(u64, String)")]
pub struct Signature {
    /// [`Call::digest`].
    pub digest: u64,
    made: Made,
}

/// Whose call it is. An own one is put into words only when asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Made {
    Here(Call),
    Elsewhere(String),
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.made {
            Made::Here(call) => call.fmt(f),
            Made::Elsewhere(text) => f.write_str(text),
        }
    }
}

impl From<(u64, String)> for Signature {
    fn from((digest, text): (u64, String)) -> Self {
        Signature { digest, made: Made::Elsewhere(text) }
    }
}

impl From<Signature> for (u64, String) {
    fn from(signature: Signature) -> Self {
        (signature.digest, signature.to_string())
    }
}

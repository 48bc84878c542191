//! The list of an input's pages, `INPUT.pages`, which is written when all of them are there.

use crate::fingerprint::{Fingerprint, Sha256Digest};
use rejoin_protocol::error::{Code, Error};
use sha2::{Digest, Sha256};

/// The version of the list that is read; any other one is refused.
pub const LIST_VERSION: i32 = 3;

const DIGEST_BYTES: usize = 32;
const FINGERPRINT_BYTES: usize = 8 + 8 + DIGEST_BYTES;
/// The number of the try, the byte of flags, the number of pages.
const PARTITION_BYTES: usize = 8 + 1 + 4;
const LENGTH_BYTES: usize = 4;

/// What the list says of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionPages {
    /// The number of the try whose files count.
    pub attempt: u64,
    /// Whether some row came as a sparse vector.
    pub from_sparse: bool,
    /// What each page has to be, in their order.
    pub pages: Vec<Fingerprint>,
}

/// The list of an input's pages.
#[derive(Clone, Debug)]
pub struct PageList {
    feature_names: Vec<String>,
    feature_types: Vec<String>,
    missing: f32,
    partitions: Vec<PartitionPages>,
    /// For each partition the number of its first page; and behind them the number of all pages.
    first: Vec<u64>,
    digest: Sha256Digest,
}

/// What is left of a list.
struct Left<'a>(&'a [u8]);

impl<'a> Left<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or_else(|| damaged("it ends too early".into()))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or_else(|| damaged("it ends too early".into()))?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn long(&mut self, what: &str) -> Result<u64, Error> {
        let number = i64::from_be_bytes(self.array()?);
        u64::try_from(number).map_err(|_| damaged(format!("{what} is {number}")))
    }

    /// How many of something follow, each of which has so many bytes at least: what a damaged number
    /// says is not reserved.
    fn count(&mut self, what: &str, each: usize) -> Result<usize, Error> {
        let number = i32::from_be_bytes(self.array()?);
        let count = usize::try_from(number).ok().filter(|count| *count <= self.0.len() / each);
        count.ok_or_else(|| damaged(format!("it has {number} {what} in {} bytes", self.0.len())))
    }

    fn texts(&mut self, what: &str) -> Result<Vec<String>, Error> {
        (0..self.count(what, LENGTH_BYTES)?)
            .map(|_| {
                let length = self.count("bytes of a text", 1)?;
                let text = std::str::from_utf8(self.bytes(length)?).ok().filter(|text| !text.contains('\0'));
                text.map(String::from).ok_or_else(|| damaged(format!("one of the {what} is no text")))
            })
            .collect()
    }

    fn partition(&mut self) -> Result<PartitionPages, Error> {
        let attempt = self.long("the number of a try")?;
        let from_sparse = match self.array::<1>()? {
            [0] => false,
            [1] => true,
            [other] => return Err(damaged(format!("whether rows came as sparse vectors is {other}"))),
        };
        let pages = (0..self.count("pages of a partition", FINGERPRINT_BYTES)?)
            .map(|_| {
                let (rows, bytes) = (self.long("rows of a page")?, self.long("bytes of a page")?);
                Ok(Fingerprint { rows, bytes, sha256: Sha256Digest(self.array()?) })
            })
            .collect::<Result<_, Error>>()?;
        Ok(PartitionPages { attempt, from_sparse, pages })
    }
}

fn damaged(seen: String) -> Error {
    Error::new(
        Code::InputLost,
        format!(
            "expected a list of pages of version {LIST_VERSION}; {seen}. The list is damaged, so the input is lost: \
             let the training store it again"
        ),
    )
}

impl PageList {
    /// The list that these bytes are.
    ///
    /// # Errors
    /// `INCOMPATIBLE` for another version; `INPUT_LOST` when it isn't what was written.
    pub fn of(bytes: &[u8]) -> Result<PageList, Error> {
        let version = i32::from_be_bytes(Left(bytes).array()?);
        if version != LIST_VERSION {
            return Err(Error::new(
                Code::Incompatible,
                format!(
                    "expected a list of pages of version {LIST_VERSION}; saw version {version}. Read it with the \
                     version of Rejoin that has written it, or let this one store the input again"
                ),
            ));
        }
        let Some((written, kept)) = bytes.split_last_chunk::<DIGEST_BYTES>() else {
            return Err(damaged(format!("saw {} bytes", bytes.len())));
        };
        let seen = Sha256Digest::of(written);
        if seen.0 != *kept {
            return Err(damaged(format!("its own SHA-256 is {seen}, but it ends with {}", Sha256Digest(*kept))));
        }
        let mut left = Left(&written[size_of::<i32>()..]);
        let feature_names = left.texts("names of features")?;
        let feature_types = left.texts("types of features")?;
        let missing = f32::from_be_bytes(left.array()?);
        let count = left.count("partitions", PARTITION_BYTES)?;
        let partitions = (0..count).map(|_| left.partition()).collect::<Result<Vec<_>, Error>>()?;
        if !left.0.is_empty() {
            return Err(damaged(format!("{} bytes stand behind its end", left.0.len())));
        }
        let rows =
            partitions.iter().flat_map(|each| &each.pages).try_fold(0_u64, |sum, page| sum.checked_add(page.rows));
        if rows.is_none() {
            return Err(damaged("its rows are more than can be counted".into()));
        }
        let mut first = vec![0];
        let mut all = 0;
        for partition in &partitions {
            all += partition.pages.len() as u64;
            first.push(all);
        }
        let digest = digest(&partitions);
        Ok(PageList { feature_names, feature_types, missing, partitions, first, digest })
    }

    /// The names of the features, in the order of their columns; none where none were set.
    pub fn feature_names(&self) -> &[String] {
        &self.feature_names
    }

    /// XGBoost's types of the features (`q`, `c`, …), in the order of their columns; none where none
    /// were set.
    pub fn feature_types(&self) -> &[String] {
        &self.feature_types
    }

    /// The value that is as good as none in every page of the input, dense and CSR: a matrix that is made of them has
    /// to be given it.
    pub fn missing(&self) -> f32 {
        self.missing
    }

    /// What the input is: equal digests are equal pages in the same partitions and the same order,
    /// whichever try has stored them. Names and types of features and the missing value don't count.
    pub fn digest(&self) -> Sha256Digest {
        self.digest
    }

    /// By partition.
    pub fn partitions(&self) -> &[PartitionPages] {
        &self.partitions
    }

    /// How many pages all partitions have.
    pub fn pages(&self) -> u64 {
        self.first.last().copied().unwrap_or(0)
    }

    /// How many rows all pages have.
    pub fn rows(&self) -> u64 {
        self.partitions.iter().flat_map(|each| &each.pages).map(|page| page.rows).sum()
    }

    /// The number of a partition's first page, counted over all partitions; of the partition behind
    /// the last one, the number of all pages.
    pub fn first_page(&self, partition: usize) -> Option<u64> {
        self.first.get(partition).copied()
    }

    /// The partition of a page that is counted over all partitions, and its number in it.
    pub fn place(&self, page: u64) -> Option<(usize, usize)> {
        let partition = self.first.partition_point(|first| *first <= page).checked_sub(1)?;
        let within = usize::try_from(page - self.first.get(partition)?).ok()?;
        self.partitions.get(partition).filter(|found| within < found.pages.len()).map(|_| (partition, within))
    }
}

/// SHA-256 over what the list says of all partitions, but for the numbers of the tries.
fn digest(partitions: &[PartitionPages]) -> Sha256Digest {
    let mut sha = Sha256::new();
    for partition in partitions {
        sha.update([u8::from(partition.from_sparse)]);
        // It was read as 32 bits.
        sha.update(u32::try_from(partition.pages.len()).unwrap_or(u32::MAX).to_be_bytes());
        for page in &partition.pages {
            sha.update(page.rows.to_be_bytes());
            sha.update(page.bytes.to_be_bytes());
            sha.update(page.sha256.0);
        }
    }
    Sha256Digest(sha.finalize().into())
}

//! One page: its head, and the arrays behind it, each where it lies.

use crate::fingerprint::Sha256Digest;
use bytemuck::Pod;
use rejoin_protocol::error::{Code, Error};

/// The version of the layout that is read; any other one is refused.
pub const PAGE_VERSION: u16 = 1;
/// The bytes of a page's head.
pub const HEAD_BYTES: usize = 24;

const MAGIC: [u8; 4] = *b"RJPG";
const WEIGHTS: u8 = 1;
const MARGINS: u8 = 2;
const GROUPS: u8 = 4;
const FROM_SPARSE: u8 = 8;
/// What stands before the compressed rows of Spark's.
const LENGTH_BYTES: usize = 4;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every value of every row.
    Dense = 1,
    /// Of each row the values that are not missing, and their columns.
    Csr = 2,
    /// Rows in Spark's own format, compressed.
    SparkRows = 3,
}

/// A page's features, as numbers of 32 bits in its own bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Features<'a> {
    /// Rows × columns values, row after row.
    Dense(&'a [f32]),
    /// Values of the rows one after the other, and the column of each, which is below the page's
    /// columns. `ends` has one element for each row: how many values it and the rows before it
    /// have. It never falls, and the last one is the number of values.
    Csr {
        /// Of each row.
        ends: &'a [u32],
        /// Of each value.
        columns: &'a [u32],
        /// As many as there are columns.
        values: &'a [f32],
    },
    /// A length (4 bytes, big-endian) and what Spark's codec has made of the rows: only Spark reads
    /// them.
    SparkRows(&'a [u8]),
}

/// A page whose lengths and offsets are right; all of it lies in the bytes that it was read from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Page<'a> {
    rows: u32,
    columns: u32,
    values: u64,
    from_sparse: bool,
    labels: &'a [f32],
    weights: Option<&'a [f32]>,
    margins: Option<&'a [f32]>,
    groups: Option<&'a [i32]>,
    features: Features<'a>,
}

/// What is left of a page's content.
struct Content<'a>(&'a [u8]);

impl<'a> Content<'a> {
    /// The next array. That it is there follows from the page's length, and is checked again.
    fn take<T: Pod>(&mut self, count: usize) -> Result<&'a [T], Error> {
        let bytes = count.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= self.0.len());
        let (array, rest) = self.0.split_at(bytes.ok_or_else(|| broken("its arrays are longer than it is".into()))?);
        self.0 = rest;
        bytemuck::try_cast_slice(array).map_err(|_| {
            let text =
                "the bytes of a page begin at an address that is no multiple of 4; copy them into a Buffer first";
            Error::new(Code::BadArgument, text)
        })
    }
}

fn broken(seen: String) -> Error {
    Error::new(
        Code::Incompatible,
        format!(
            "expected a page of layout version {PAGE_VERSION}; {seen}. It can't be read; if its SHA-256 is the right \
             one, what has written it did so by other rules: see docs/pages.md"
        ),
    )
}

fn number<const N: usize>(head: &[u8; HEAD_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|i| head[at + i])
}

impl<'a> Page<'a> {
    /// The page that these bytes are, once they have the SHA-256 that was kept of it.
    ///
    /// # Errors
    /// `INPUT_LOST` when it isn't the page that it was, else as [`Page::of`].
    pub fn verified(bytes: &'a [u8], expected: Sha256Digest) -> Result<Page<'a>, Error> {
        let seen = Sha256Digest::of(bytes);
        if seen != expected {
            return Err(Error::new(
                Code::InputLost,
                format!(
                    "expected a page whose SHA-256 is {expected}; saw {} bytes whose SHA-256 is {seen}. They are \
                     damaged or another page: read them again from where they are stored",
                    bytes.len()
                ),
            ));
        }
        Page::of(bytes)
    }

    /// The page that these bytes are, without a look at their digest. They begin at an address that
    /// is a multiple of 4, as those of a [`crate::Buffer`] do.
    ///
    /// # Errors
    /// `INCOMPATIBLE` for another version, an unknown kind or flag, and lengths or offsets that
    /// don't fit each other; `BAD_ARGUMENT` for bytes that begin elsewhere.
    pub fn of(bytes: &'a [u8]) -> Result<Page<'a>, Error> {
        if cfg!(target_endian = "big") {
            let text =
                "pages are read where they lie, on machines whose numbers are little-endian; read them on another one";
            return Err(Error::new(Code::Incompatible, text));
        }
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Err(broken(format!("saw {} bytes, and its head alone has {HEAD_BYTES}", bytes.len())));
        };
        if number(head, 0) != MAGIC {
            return Err(broken(format!("saw {} bytes that don't begin with RJPG", bytes.len())));
        }
        let version = u16::from_le_bytes(number(head, 4));
        if version != PAGE_VERSION {
            return Err(broken(format!("saw layout version {version}")));
        }
        let kind = match head[6] {
            1 => Kind::Dense,
            2 => Kind::Csr,
            3 => Kind::SparkRows,
            other => return Err(broken(format!("saw kind {other}, which is unknown"))),
        };
        let flags = head[7];
        let known = if kind == Kind::SparkRows { 0 } else { WEIGHTS | MARGINS | GROUPS | FROM_SPARSE };
        if flags & !known != 0 {
            return Err(broken(format!("saw flags {flags:#04x}, of which {:#04x} are unknown", flags & !known)));
        }
        let rows = u32::from_le_bytes(number(head, 8));
        let columns = u32::from_le_bytes(number(head, 12));
        let values = u64::from_le_bytes(number(head, 16));
        if rows == 0 {
            return Err(broken("it has no rows".into()));
        }
        let mut content = Content(&bytes[HEAD_BYTES..]);
        let mut page = Page {
            rows,
            columns,
            values,
            from_sparse: flags & FROM_SPARSE != 0,
            labels: &[],
            weights: None,
            margins: None,
            groups: None,
            features: Features::SparkRows(content.0),
        };
        if kind == Kind::SparkRows {
            if content.0.len() < LENGTH_BYTES {
                return Err(broken(format!("it ends {} bytes behind its head, before its rows", content.0.len())));
            }
            return Ok(page);
        }
        page.check_length(kind, flags, content.0.len())?;
        // So many are there, as the length was just checked.
        let (rows, count) = (rows as usize, usize::try_from(values).unwrap_or(usize::MAX));
        page.labels = content.take(rows)?;
        page.weights = (flags & WEIGHTS != 0).then(|| content.take(rows)).transpose()?;
        page.margins = (flags & MARGINS != 0).then(|| content.take(rows)).transpose()?;
        page.groups = (flags & GROUPS != 0).then(|| content.take(rows)).transpose()?;
        page.features = match kind {
            Kind::Csr => page.csr(content.take(rows)?, content.take(count)?, content.take(count)?)?,
            _ => Features::Dense(content.take(count)?),
        };
        Ok(page)
    }

    /// All numbers of matrices have 4 bytes.
    fn check_length(&self, kind: Kind, flags: u8, content: usize) -> Result<(), Error> {
        let (rows, values) = (u128::from(self.rows), u128::from(self.values));
        let cells = rows * u128::from(self.columns);
        if kind == Kind::Dense && values != cells {
            return Err(broken(format!("{rows} rows of {} columns have {values} values", self.columns)));
        }
        let arrays = 1 + u128::from((flags & (WEIGHTS | MARGINS | GROUPS)).count_ones());
        let numbers = rows * arrays + if kind == Kind::Dense { values } else { rows + 2 * values };
        if numbers * 4 != content as u128 {
            return Err(broken(format!(
                "by its head it has {} bytes, but it has {}",
                numbers * 4 + HEAD_BYTES as u128,
                content as u128 + HEAD_BYTES as u128
            )));
        }
        Ok(())
    }

    fn csr(&self, ends: &'a [u32], columns: &'a [u32], values: &'a [f32]) -> Result<Features<'a>, Error> {
        if let Some(row) = ends.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(broken(format!(
                "row {} ends at value {}, before it begins at {}",
                row + 1,
                ends[row + 1],
                ends[row]
            )));
        }
        if ends.last().copied().map(u64::from) != Some(self.values) {
            return Err(broken(format!("its last row ends at value {:?} of {}", ends.last(), self.values)));
        }
        match columns.iter().find(|column| **column >= self.columns) {
            Some(column) => Err(broken(format!("saw a value in column {column} of {}, from 0", self.columns))),
            None => Ok(Features::Csr { ends, columns, values }),
        }
    }

    /// What it holds.
    pub fn kind(&self) -> Kind {
        match self.features {
            Features::Dense(_) => Kind::Dense,
            Features::Csr { .. } => Kind::Csr,
            Features::SparkRows(_) => Kind::SparkRows,
        }
    }

    /// How many rows; at least one.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Features of a row; of Spark's rows, fields.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Of matrices the values that are there; of Spark's rows their bytes before compression.
    pub fn values(&self) -> u64 {
        self.values
    }

    /// Whether some row came as a sparse vector.
    pub fn is_from_sparse(&self) -> bool {
        self.from_sparse
    }

    /// One for each row; none of Spark's rows.
    pub fn labels(&self) -> &'a [f32] {
        self.labels
    }

    /// One for each row, where the input has weights.
    pub fn weights(&self) -> Option<&'a [f32]> {
        self.weights
    }

    /// One for each row, where the input has base margins.
    pub fn margins(&self) -> Option<&'a [f32]> {
        self.margins
    }

    /// The query group of each row, where rows are ranked.
    pub fn groups(&self) -> Option<&'a [i32]> {
        self.groups
    }

    /// The features, or Spark's rows.
    pub fn features(&self) -> Features<'a> {
        self.features
    }
}

//! Pages of prepared input: of a durable training's folder, or from bytes.

use crate::arguments::{bytes, text};
use crate::handle::{Guarded, NO_HANDLE};
use crate::numbers::{bad, status, OK};
use crate::quiet::catch;
use crate::sized::{fields, sized};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_pages::{Features, Input, Page, ReadPage};
use std::ffi::{c_char, c_void, CString};
use std::path::Path;
use std::ptr::null;

/// What `rejoin_input` points to. Nothing of it changes but the message.
pub struct RejoinInput {
    /// `None` when it couldn't be opened.
    opened: Option<Opened>,
    guarded: Guarded<()>,
}

struct Opened {
    input: Input,
    digest: CString,
    names: Vec<CString>,
    types: Vec<CString>,
}

/// What `rejoin_page` points to.
pub struct RejoinPage {
    /// `None` when it couldn't be read.
    read: Option<(ReadPage, CString)>,
    guarded: Guarded<()>,
}

/// `rejoin_page_view`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RejoinPageView {
    /// `sizeof` in the caller's header.
    pub size: usize,
    /// What it holds.
    pub kind: i32,
    /// Whether some row came as a sparse vector.
    pub from_sparse: i32,
    /// How many rows.
    pub rows: u32,
    /// Features of a row.
    pub columns: u32,
    /// Values that are there.
    pub values: u64,
    /// Its number, counted over all partitions.
    pub number: u64,
    /// The partition that it is of.
    pub partition: u32,
    /// One for each row.
    pub labels: *const f32,
    /// One for each row, or NULL.
    pub weights: *const f32,
    /// One for each row, or NULL.
    pub margins: *const f32,
    /// One for each row, or NULL.
    pub groups: *const i32,
    /// Values of dense and CSR pages.
    pub features: *const f32,
    /// Of CSR pages, the end of each row.
    pub row_ends: *const u32,
    /// Of CSR pages, the column of each value.
    pub value_columns: *const u32,
    /// Spark's rows.
    pub spark_rows: *const c_void,
    /// Their length.
    pub spark_rows_bytes: usize,
    /// The whole page.
    pub data: *const c_void,
    /// Its length.
    pub bytes: usize,
    /// Of the whole page, as 64 hexadecimal digits.
    pub sha256: *const c_char,
}

fields!(
    RejoinPageView, "rejoin_page_view": size, kind, from_sparse, rows, columns, values, number, partition, labels,
    weights, margins, groups, features, row_ends, value_columns, spark_rows, spark_rows_bytes, data, bytes, sha256,
);

fn c_text(text: impl ToString) -> CString {
    CString::new(text.to_string()).unwrap_or_default()
}

impl Opened {
    fn open(folder: Option<String>, name: Option<String>) -> Result<Opened, Error> {
        let folder = folder.ok_or_else(|| bad("folder is NULL; expected a training's folder".into()))?;
        let name = name.ok_or_else(|| bad("name is NULL; expected training or evaluation".into()))?;
        let input = Input::open(Path::new(&folder), &name)?;
        let texts = |texts: &[String]| texts.iter().map(c_text).collect();
        let (names, types) = (texts(input.list().feature_names()), texts(input.list().feature_types()));
        Ok(Opened { digest: c_text(input.list().digest()), names, types, input })
    }
}

impl RejoinPage {
    /// The handle of a page, whatever became of it.
    fn of(read: impl FnOnce() -> Result<ReadPage, Error>) -> (Box<RejoinPage>, i32) {
        let mut handle = Box::new(RejoinPage { read: None, guarded: Guarded::new(()) });
        let kept = &mut handle.read;
        let work = |_: &mut ()| {
            let page = read()?;
            let sha256 = c_text(page.sha256());
            *kept = Some((page, sha256));
            Ok(OK)
        };
        let number = handle.guarded.call(work, |(), _| {});
        (handle, number)
    }

    fn view(&self, size: usize) -> Result<RejoinPageView, Error> {
        let (read, sha256) = self.read.as_ref().ok_or_else(|| {
            let text = "this page was not read; the message that came with it said why";
            Error::new(Code::BadState, text)
        })?;
        let page: Page<'_> = read.page()?;
        let kind = page.kind() as i32;
        let is_matrix = !matches!(page.features(), Features::SparkRows(_));
        let mut view = RejoinPageView {
            size,
            kind,
            from_sparse: page.is_from_sparse().into(),
            rows: page.rows(),
            columns: page.columns(),
            values: page.values(),
            number: read.number(),
            // Its number was read as 32 bits.
            partition: u32::try_from(read.partition()).unwrap_or(u32::MAX),
            labels: if is_matrix { page.labels().as_ptr() } else { null() },
            weights: page.weights().map_or(null(), <[f32]>::as_ptr),
            margins: page.margins().map_or(null(), <[f32]>::as_ptr),
            groups: page.groups().map_or(null(), <[i32]>::as_ptr),
            features: null(),
            row_ends: null(),
            value_columns: null(),
            spark_rows: null(),
            spark_rows_bytes: 0,
            data: read.bytes().as_ptr().cast(),
            bytes: read.bytes().len(),
            sha256: sha256.as_ptr(),
        };
        match page.features() {
            Features::Dense(values) => view.features = values.as_ptr(),
            Features::Csr { ends, columns, values } => {
                (view.row_ends, view.value_columns, view.features) = (ends.as_ptr(), columns.as_ptr(), values.as_ptr());
            }
            Features::SparkRows(bytes) => {
                (view.spark_rows, view.spark_rows_bytes) = (bytes.as_ptr().cast(), bytes.len());
            }
        }
        Ok(view)
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_open(
    folder: *const c_char,
    name: *const c_char,
    input: *mut *mut RejoinInput,
) -> i32 {
    if input.is_null() {
        return status(Code::BadArgument);
    }
    let mut handle = Box::new(RejoinInput { opened: None, guarded: Guarded::new(()) });
    let opened = &mut handle.opened;
    let open = |_: &mut ()| {
        // SAFETY: the header asks for texts, or NULL.
        let (folder, name) = unsafe { (text("folder", folder)?, text("name", name)?) };
        *opened = Some(Opened::open(folder, name)?);
        Ok(OK)
    };
    let number = handle.guarded.call(open, |(), _| {});
    // SAFETY: it points to room for a pointer.
    unsafe { input.write(Box::into_raw(handle)) };
    number
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_message(input: *const RejoinInput) -> *const c_char {
    // SAFETY: the header asks for a handle that was given and not closed, or NULL; here and below.
    unsafe { input.as_ref() }.map_or(NO_HANDLE.as_ptr(), |handle| handle.guarded.message())
}

unsafe fn fact<T>(input: *const RejoinInput, otherwise: T, get: impl FnOnce(&'static Opened) -> T) -> T {
    // SAFETY: what is handed out is said to live as long as the handle.
    match unsafe { input.as_ref() }.and_then(|handle| handle.opened.as_ref()) {
        Some(opened) => get(opened),
        None => otherwise,
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_digest(input: *const RejoinInput) -> *const c_char {
    // SAFETY: as above.
    unsafe { fact(input, null(), |opened| opened.digest.as_ptr()) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_rows(input: *const RejoinInput) -> u64 {
    // SAFETY: as above.
    unsafe { fact(input, 0, |opened| opened.input.list().rows()) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_pages(input: *const RejoinInput) -> u64 {
    // SAFETY: as above.
    unsafe { fact(input, 0, |opened| opened.input.list().pages()) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_partitions(input: *const RejoinInput) -> u32 {
    // SAFETY: as above. Its number was read as 32 bits.
    unsafe { fact(input, 0, |opened| u32::try_from(opened.input.list().partitions().len()).unwrap_or(u32::MAX)) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_first_page(input: *const RejoinInput, partition: u32) -> u64 {
    // SAFETY: as above.
    unsafe {
        fact(input, 0, |opened| {
            let list = opened.input.list();
            usize::try_from(partition).ok().and_then(|at| list.first_page(at)).unwrap_or(list.pages())
        })
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_missing(input: *const RejoinInput) -> f32 {
    // SAFETY: as above.
    unsafe { fact(input, f32::NAN, |opened| opened.input.list().missing()) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_feature_name(input: *const RejoinInput, column: u32) -> *const c_char {
    // SAFETY: as above.
    unsafe { fact(input, null(), |opened| at(&opened.names, column)) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_feature_type(input: *const RejoinInput, column: u32) -> *const c_char {
    // SAFETY: as above.
    unsafe { fact(input, null(), |opened| at(&opened.types, column)) }
}

fn at(texts: &[CString], column: u32) -> *const c_char {
    usize::try_from(column).ok().and_then(|column| texts.get(column)).map_or(null(), |text| text.as_ptr())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_input_close(input: *mut RejoinInput) {
    if !input.is_null() {
        // SAFETY: it came from `Box::into_raw`, and is closed once.
        let handle = unsafe { Box::from_raw(input) };
        let _ = catch(|| drop(handle));
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_page_read(input: *const RejoinInput, number: u64, page: *mut *mut RejoinPage) -> i32 {
    if page.is_null() {
        return status(Code::BadArgument);
    }
    let (handle, result) = RejoinPage::of(|| {
        // SAFETY: as above.
        let input = unsafe { input.as_ref() }.ok_or_else(|| bad("input is NULL; expected an opened one".into()))?;
        let opened = input.opened.as_ref().ok_or_else(|| {
            let text = "this input was not opened; the message of its rejoin_input_open said why";
            Error::new(Code::BadState, text)
        })?;
        opened.input.read(number)
    });
    // SAFETY: it points to room for a pointer.
    unsafe { page.write(Box::into_raw(handle)) };
    result
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_page_copy(
    data: *const c_void,
    length: usize,
    sha256: *const c_char,
    page: *mut *mut RejoinPage,
) -> i32 {
    if page.is_null() {
        return status(Code::BadArgument);
    }
    let (handle, result) = RejoinPage::of(|| {
        // SAFETY: the header asks for so many bytes, and for a text or NULL.
        let (data, sha256) = unsafe { (bytes("data", data, length)?, text("sha256", sha256)?) };
        let sha256 = sha256.ok_or_else(|| bad("sha256 is NULL; expected 64 hexadecimal digits".into()))?;
        ReadPage::of(data, sha256.parse()?)
    });
    // SAFETY: it points to room for a pointer.
    unsafe { page.write(Box::into_raw(handle)) };
    result
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_page_message(page: *const RejoinPage) -> *const c_char {
    // SAFETY: as above.
    unsafe { page.as_ref() }.map_or(NO_HANDLE.as_ptr(), |handle| handle.guarded.message())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_page_get(page: *const RejoinPage, view: *mut RejoinPageView) -> i32 {
    // SAFETY: as above.
    let Some(handle) = (unsafe { page.as_ref() }) else { return status(Code::BadArgument) };
    let get = |_: &mut ()| {
        // SAFETY: the header asks for a struct that was begun with its _INIT, or NULL.
        let asked = unsafe { sized(view.cast_const()) }?;
        let asked = asked.ok_or_else(|| bad("view is NULL; expected a rejoin_page_view".into()))?;
        let filled = handle.view(asked.size)?;
        let known = asked.size.min(size_of::<RejoinPageView>());
        // SAFETY: by its own word there is room for so many bytes.
        unsafe { std::ptr::copy_nonoverlapping((&raw const filled).cast::<u8>(), view.cast::<u8>(), known) };
        Ok(OK)
    };
    handle.guarded.call(get, |(), _| {})
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_page_free(page: *mut RejoinPage) {
    if !page.is_null() {
        // SAFETY: it came from `Box::into_raw`, and is freed once.
        let handle = unsafe { Box::from_raw(page) };
        let _ = catch(|| drop(handle));
    }
}

//! The few functions of XGBoost's C API that a training needs, from a shared library at hand.

use libloading::{Library, Symbol};
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::null_mut;

type Handle = *mut c_void;

/// A loaded `libxgboost.so` or `libxgboost4j.so`.
pub struct Xgboost(Library);

macro_rules! call {
    ($library:expr, $name:literal, ($($kind:ty),*), $($argument:expr),*) => {{
        // SAFETY: the name and the types are those of XGBoost's c_api.h; the arguments live for the call.
        let code = unsafe {
            let function: Symbol<unsafe extern "C" fn($($kind),*) -> c_int> =
                $library.0.get($name).expect("XGBoost exports its C API");
            function($($argument),*)
        };
        if code == 0 { Ok(()) } else { Err($library.last_error()) }
    }};
}

impl Xgboost {
    pub fn open(path: &str) -> Self {
        // SAFETY: XGBoost's initialisers only register objects.
        Xgboost(unsafe { Library::new(path) }.expect("the library can be loaded"))
    }

    fn last_error(&self) -> String {
        // SAFETY: as declared in c_api.h; the text is this thread's and ends with a zero.
        unsafe {
            let function: Symbol<unsafe extern "C" fn() -> *const c_char> =
                self.0.get(b"XGBGetLastError").expect("XGBoost exports its C API");
            CStr::from_ptr(function()).to_string_lossy().into_owned()
        }
    }

    pub fn init(&self, arguments: &[(String, String)]) -> Result<(), String> {
        let is_number = |key: &str| ["dmlc_tracker_port", "dmlc_timeout", "dmlc_retry"].contains(&key);
        let pairs = arguments.iter().map(|(key, value)| {
            if is_number(key) {
                format!("\"{key}\":{value}")
            } else {
                format!("\"{key}\":\"{value}\"")
            }
        });
        let json = format!("{{{}}}", pairs.collect::<Vec<_>>().join(","));
        self.init_json(&json)
    }

    pub fn init_json(&self, json: &str) -> Result<(), String> {
        let json = CString::new(json).expect("no zeros in it");
        call!(self, b"XGCommunicatorInit", (*const c_char), json.as_ptr())
    }

    pub fn finalize(&self) -> Result<(), String> {
        call!(self, b"XGCommunicatorFinalize", (),)
    }

    pub fn rank(&self) -> i32 {
        // SAFETY: as declared in c_api.h.
        unsafe {
            let function: Symbol<unsafe extern "C" fn() -> c_int> =
                self.0.get(b"XGCommunicatorGetRank").expect("XGBoost exports its C API");
            function()
        }
    }

    /// XGBoost's own tracker for so many ranks, and its port.
    pub fn tracker(&self, world: u32) -> (usize, String) {
        let config = format!(
            "{{\"dmlc_communicator\":\"rabit\",\"n_workers\":{world},\"host\":\"127.0.0.1\",\"port\":0,\
             \"timeout\":0,\"sortby\":1}}"
        );
        let (config, empty) = (CString::new(config).expect("no zeros"), CString::new("{}").expect("no zeros"));
        let mut tracker: Handle = null_mut();
        call!(self, b"XGTrackerCreate", (*const c_char, *mut Handle), config.as_ptr(), &mut tracker)
            .expect("a tracker");
        call!(self, b"XGTrackerRun", (Handle, *const c_char), tracker, empty.as_ptr()).expect("a running tracker");
        let mut arguments: *const c_char = std::ptr::null();
        call!(self, b"XGTrackerWorkerArgs", (Handle, *mut *const c_char), tracker, &mut arguments).expect("arguments");
        // SAFETY: a text that ends with a zero, valid until the next call of this thread.
        let text = unsafe { CStr::from_ptr(arguments) }.to_string_lossy().into_owned();
        (tracker as usize, text)
    }

    pub fn matrix(&self, data: &[f32], rows: usize, columns: usize, label: &[f32]) -> Matrix<'_> {
        self.try_matrix(data, rows, columns, label).expect("a matrix")
    }

    /// Ranks talk to each other while it is made.
    pub fn try_matrix(&self, data: &[f32], rows: usize, columns: usize, label: &[f32]) -> Result<Matrix<'_>, String> {
        let mut handle: Handle = null_mut();
        call!(
            self,
            b"XGDMatrixCreateFromMat",
            (*const f32, u64, u64, f32, *mut Handle),
            data.as_ptr(),
            rows as u64,
            columns as u64,
            f32::NAN,
            &mut handle
        )?;
        let matrix = Matrix { library: self, handle };
        call!(
            self,
            b"XGDMatrixSetFloatInfo",
            (Handle, *const c_char, *const f32, u64),
            handle,
            c"label".as_ptr(),
            label.as_ptr(),
            label.len() as u64
        )?;
        Ok(matrix)
    }

    pub fn booster(&self, matrix: &Matrix<'_>, parameters: &[(&str, &str)], model: Option<&[u8]>) -> Booster<'_> {
        let mut handle: Handle = null_mut();
        let matrices = [matrix.handle];
        call!(self, b"XGBoosterCreate", (*const Handle, u64, *mut Handle), matrices.as_ptr(), 1, &mut handle)
            .expect("a booster");
        let booster = Booster { library: self, handle };
        if let Some(model) = model {
            call!(
                self,
                b"XGBoosterLoadModelFromBuffer",
                (Handle, *const c_void, u64),
                handle,
                model.as_ptr().cast(),
                model.len() as u64
            )
            .expect("a model");
        }
        for (key, value) in parameters {
            let (key, value) = (CString::new(*key).expect("no zeros"), CString::new(*value).expect("no zeros"));
            call!(
                self,
                b"XGBoosterSetParam",
                (Handle, *const c_char, *const c_char),
                handle,
                key.as_ptr(),
                value.as_ptr()
            )
            .expect("a parameter");
        }
        booster
    }
}

/// A DMatrix.
pub struct Matrix<'l> {
    library: &'l Xgboost,
    handle: Handle,
}

impl Drop for Matrix<'_> {
    fn drop(&mut self) {
        let _ = call!(self.library, b"XGDMatrixFree", (Handle), self.handle);
    }
}

/// A model in training, freed when dropped.
pub struct Booster<'l> {
    library: &'l Xgboost,
    handle: Handle,
}

impl Booster<'_> {
    pub fn update(&self, matrix: &Matrix<'_>, round: u32) -> Result<(), String> {
        let round = round as c_int;
        call!(self.library, b"XGBoosterUpdateOneIter", (Handle, c_int, Handle), self.handle, round, matrix.handle)
    }

    pub fn model(&self) -> Vec<u8> {
        let (mut length, mut bytes): (u64, *const c_char) = (0, std::ptr::null());
        call!(
            self.library,
            b"XGBoosterSaveModelToBuffer",
            (Handle, *const c_char, *mut u64, *mut *const c_char),
            self.handle,
            c"{\"format\":\"ubj\"}".as_ptr(),
            &mut length,
            &mut bytes
        )
        .expect("model bytes");
        // SAFETY: the library says that so many bytes are there, valid until the next call with this booster.
        unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize) }.to_vec()
    }
}

impl Drop for Booster<'_> {
    fn drop(&mut self) {
        let _ = call!(self.library, b"XGBoosterFree", (Handle), self.handle);
    }
}

//! What is in the entries: functions that ask [`dispatch`] whether the call is one of a Rejoin rank, and
//! otherwise go on to the original as if nothing had been in between.
//!
//! They are written in assembly. The original is *jumped* to, with every argument in its register
//! and on the stack where the caller has put it, so nothing of ours is on the stack while it runs:
//! XGBoost throws C++ exceptions through these calls. And aarch64's register for the hidden result
//! pointer can't be reached otherwise.

use super::arguments::{Arguments, Convention, Operation};
use super::{dispatch, entries};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// What a function in an entry has saved.
#[repr(C)]
pub(crate) struct SavedRegisters {
    /// The registers for arguments, in their order.
    arguments: [usize; Convention::NATIVE.registers()],
    /// x8: where the result goes.
    #[cfg(target_arch = "aarch64")]
    result: usize,
    stack: *const usize,
}

/// Serves a call, if it is one of a Rejoin rank: then 0 is returned, and the result is success.
/// Otherwise the address of the original.
unsafe extern "C" fn serve(operation: usize, saved: &SavedRegisters) -> usize {
    let mut arguments = Arguments::new(Convention::NATIVE, &saved.arguments, saved.stack);
    // SAFETY: these are the arguments of a method that returns through a hidden pointer.
    let (result, this) = unsafe {
        #[cfg(target_arch = "x86_64")]
        let result = arguments.word();
        #[cfg(target_arch = "aarch64")]
        let result = saved.result;
        (result as *mut usize, arguments.word() as *const usize)
    };
    // SAFETY: an object with virtual functions begins with the address of its table.
    let hooked = entries::find(unsafe { *this });
    let (Some(hooked), Some(kind)) = (hooked, Operation::ALL.get(operation)) else {
        // Only tables that were noted there before have these functions, and classes derived from
        // theirs have tables of their own. There is no original to go on to.
        log::error!("a function that was put into XGBoost's table was called through an unknown one; the process ends");
        std::process::abort();
    };
    let served = catch_unwind(AssertUnwindSafe(|| {
        dispatch::serve(|| {
            // SAFETY: the entry's name proved the parameters.
            unsafe { arguments.call(*kind, hooked.form) }
        })
    }));
    match served {
        Ok(true) => {
            // SAFETY: the caller has room there for a result; it has none yet, and success is a null pointer.
            unsafe { *result = 0 };
            0
        }
        // A rank whose call has panicked was failed by `route`: its original call ends with an error.
        Ok(false) | Err(_) => hooked.originals[operation],
    }
}

/// The functions for the four entries.
pub(crate) fn functions() -> [usize; 4] {
    [
        entry::<0> as *const () as usize,
        entry::<1> as *const () as usize,
        entry::<2> as *const () as usize,
        entry::<3> as *const () as usize,
    ]
}

/// # Safety
/// It is called through an entry of the table, as the method that belongs there.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn entry<const OPERATION: usize>() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "endbr64",
        // 7 words: the stack is aligned again, as at every call.
        "sub rsp, 56",
        ".cfi_adjust_cfa_offset 56",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        // Behind the return address.
        "lea rax, [rsp + 64]",
        "mov [rsp + 48], rax",
        "mov edi, {operation}",
        "mov rsi, rsp",
        "call {serve}",
        "mov rdi, [rsp]",
        "mov rsi, [rsp + 8]",
        "mov rdx, [rsp + 16]",
        "mov rcx, [rsp + 24]",
        "mov r8, [rsp + 32]",
        "mov r9, [rsp + 40]",
        "add rsp, 56",
        ".cfi_adjust_cfa_offset -56",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        // Served: the hidden pointer is returned too.
        "2:",
        "mov rax, rdi",
        "ret",
        ".cfi_endproc",
        operation = const OPERATION,
        serve = sym serve,
    )
}

/// # Safety
/// It is called through an entry of the table, as the method that belongs there.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn entry<const OPERATION: usize>() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        // bti c
        "hint #34",
        "stp x29, x30, [sp, #-96]!",
        ".cfi_def_cfa_offset 96",
        ".cfi_offset x29, -96",
        ".cfi_offset x30, -88",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "add x9, sp, #96",
        "stp x8, x9, [sp, #80]",
        "mov x0, #{operation}",
        "add x1, sp, #16",
        "bl {serve}",
        // A jump through x16 may enter any function.
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x2, x3, [sp, #32]",
        "ldp x4, x5, [sp, #48]",
        "ldp x6, x7, [sp, #64]",
        "ldr x8, [sp, #80]",
        "ldp x29, x30, [sp], #96",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_def_cfa_offset 0",
        "cbz x16, 2f",
        "br x16",
        "2:",
        "ret",
        ".cfi_endproc",
        operation = const OPERATION,
        serve = sym serve,
    )
}

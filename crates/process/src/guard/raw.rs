//! System calls without the C library.
//!
//! A child that shares its parent's memory shares what the C library keeps for a thread too, the last error number
//! among it. So it may not use the library at all, and gets errors as what the system returns.
#![expect(unsafe_code, reason = "calls that leave the C library out are instructions")]

use std::arch::asm;

/// The entry of a child that shares memory.
pub(super) type Entry = unsafe extern "C" fn(*mut libc::c_void) -> !;

/// A system call; an error is the negative of its number.
///
/// # Safety
/// As the call itself: what is passed has to be what the call takes.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn call(number: libc::c_long, arguments: [usize; 5]) -> isize {
    let [first, second, third, fourth, fifth] = arguments;
    let result: isize;
    // SAFETY: this is how the system is called; it changes the two registers that are named besides the result, and
    // memory as the caller vouches for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") 0_usize,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// The same.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn call(number: libc::c_long, arguments: [usize; 5]) -> isize {
    let [first, second, third, fourth, fifth] = arguments;
    let result: isize;
    // SAFETY: this is how the system is called; it changes the first register alone, and memory as the caller
    // vouches for.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
            in("x5") 0_usize,
            options(nostack),
        );
    }
    result
}

/// Clones this process by `clone3`, with a stack of its own for the child, which begins at `entry`.
///
/// Returns here only in the parent: the pid, or the negative of an error's number.
///
/// # Safety
/// The arguments have to give a stack that nobody else uses, and that and all behind `argument` has to stay until
/// the child has ended or executed a program.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn clone_onto_stack(
    arguments: &libc::clone_args,
    entry: Entry,
    argument: *mut libc::c_void,
) -> isize {
    let result: isize;
    // SAFETY: the parent goes on behind the block with only the named registers changed. The child has its own stack,
    // which is aligned as a call expects it, and never comes back.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") std::ptr::from_ref(arguments),
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") argument,
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// The same.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn clone_onto_stack(
    arguments: &libc::clone_args,
    entry: Entry,
    argument: *mut libc::c_void,
) -> isize {
    let result: isize;
    // SAFETY: as above.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk #1",
            "2:",
            in("x8") libc::SYS_clone3,
            inlateout("x0") std::ptr::from_ref(arguments) => result,
            in("x1") size_of::<libc::clone_args>(),
            in("x20") argument,
            in("x21") entry,
        );
    }
    result
}

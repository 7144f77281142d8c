//! A filter under which nobody leaves their session or process group.
//!
//! `setsid` and `setpgid` do nothing and say that they did: a failure would break programs that make a group for
//! their children and go on well without one. What a kernel calls by other numbers on behalf of 32-bit programs is
//! covered too, and those run as they would without. That is why the filter is written out here: the usual crate for
//! it ends every program of another architecture.

/// The filter; none on an architecture whose numbers are not known here.
pub(super) fn program() -> Option<Vec<libc::sock_filter>> {
    let machine = MACHINE?;
    let compat = |number| jump(libc::BPF_JEQ, number);
    Some(
        vec![
            load(ARCH_OFFSET),
            // Skips to the part for 32-bit programs.
            jump(libc::BPF_JEQ, machine.audit).otherwise(6),
            load(NUMBER_OFFSET),
            // On x86 one bit marks a call by the same numbers with shorter pointers.
            and(machine.number_mask),
            jump(libc::BPF_JEQ, machine.setsid).then(2),
            jump(libc::BPF_JEQ, machine.setpgid).then(1),
            answer(libc::SECCOMP_RET_ALLOW),
            answer(libc::SECCOMP_RET_ERRNO),
            jump(libc::BPF_JEQ, machine.compat_audit).otherwise(4),
            load(NUMBER_OFFSET),
            compat(COMPAT_SETSID).then(2),
            compat(COMPAT_SETPGID).then(1),
            answer(libc::SECCOMP_RET_ALLOW),
            // Also for an architecture that is none of the two: there is no such thing on this machine.
            answer(libc::SECCOMP_RET_ERRNO),
        ]
        .into_iter()
        .map(|instruction: Instruction| instruction.0)
        .collect(),
    )
}

#[derive(Debug, Clone, Copy)]
struct Machine {
    audit: u32,
    compat_audit: u32,
    number_mask: u32,
    setsid: u32,
    setpgid: u32,
}

const MACHINE: Option<Machine> = if cfg!(target_arch = "x86_64") {
    Some(Machine {
        audit: 0xC000_003E,
        compat_audit: 0x4000_0003,
        number_mask: !0x4000_0000,
        setsid: 112,
        setpgid: 109,
    })
} else if cfg!(target_arch = "aarch64") {
    Some(Machine {
        audit: 0xC000_00B7,
        compat_audit: 0x4000_0028,
        number_mask: u32::MAX,
        setsid: 157,
        setpgid: 154,
    })
} else {
    None
};
/// The same on 32-bit x86 and ARM.
const COMPAT_SETSID: u32 = 66;
const COMPAT_SETPGID: u32 = 57;

/// Where the call's number and architecture lie in what a filter sees.
const NUMBER_OFFSET: u32 = 0;
const ARCH_OFFSET: u32 = 4;

#[derive(Debug, Clone, Copy)]
struct Instruction(libc::sock_filter);

impl Instruction {
    /// Skips so many where the comparison holds.
    fn then(mut self, skipped: u8) -> Self {
        self.0.jt = skipped;
        self
    }

    /// Skips so many where it does not.
    fn otherwise(mut self, skipped: u8) -> Self {
        self.0.jf = skipped;
        self
    }
}

fn instruction(code: u32, k: u32) -> Instruction {
    Instruction(libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt: 0,
        jf: 0,
        k,
    })
}

fn load(offset: u32) -> Instruction {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn and(mask: u32) -> Instruction {
    instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask)
}

fn jump(comparison: u32, value: u32) -> Instruction {
    instruction(libc::BPF_JMP | comparison | libc::BPF_K, value)
}

fn answer(value: u32) -> Instruction {
    instruction(libc::BPF_RET | libc::BPF_K, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter answers, by a small interpreter of the instructions that are used.
    fn run(program: &[libc::sock_filter], number: u32, arch: u32) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match u32::from(step.code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    value = if step.k == NUMBER_OFFSET { number } else { arch };
                }
                code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => value &= step.k,
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => {
                    at += usize::from(if value == step.k { step.jt } else { step.jf });
                }
                _ => return step.k,
            }
        }
    }

    #[test]
    fn only_leaving_is_made_harmless() {
        let Some(machine) = MACHINE else { return };
        let program = program().unwrap();
        let (allow, fake) = (libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_ERRNO);
        for (number, arch, expected) in [
            (machine.setsid, machine.audit, fake),
            (machine.setpgid, machine.audit, fake),
            (COMPAT_SETSID, machine.compat_audit, fake),
            (COMPAT_SETPGID, machine.compat_audit, fake),
            (COMPAT_SETSID, machine.audit, allow),
            (machine.setsid, machine.compat_audit, allow),
            (0, machine.audit, allow),
            (0, machine.compat_audit, allow),
            (machine.setsid + 1, machine.audit, allow),
            (0, 7, fake),
        ] {
            assert_eq!(run(&program, number, arch), expected, "{number} {arch:x}");
        }
        if machine.number_mask != u32::MAX {
            assert_eq!(run(&program, machine.setsid | 0x4000_0000, machine.audit), fake);
        }
    }
}

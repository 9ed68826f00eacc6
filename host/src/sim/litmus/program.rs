//! Litmus programs as PTX.
//!
//! A thread is a list of statements, separated by `;`:
//!
//! | statement | PTX |
//! |---|---|
//! | `st.relaxed x 1` | `st.relaxed.SCOPE.global.u32 [x], 1` |
//! | `ld.acquire r0 x` | `ld.acquire.SCOPE.global.u32 r0, [x]` |
//! | `st.weak x 1`, `ld.weak r0 x` | without order and scope |
//! | `atom.relaxed r0 x 1` | `atom.relaxed.SCOPE.global.add.u32 r0, [x], 1` |
//! | `if r0 1` | ends the thread unless r0 is 1 |
//! | `fence.sc` | `fence.sc.SCOPE` |
//! | `kernel` | what follows is the next kernel on the stream |
//! | one with `%` | itself |
//! | any other | itself |
//!
//! Before each statement the thread meets itself in a vote, so that the scheduler chooses who goes on.
//!
//! `SCOPE` is the test's. Locations: `x`, `y`, `z`, zero at first, and `a`, the bytes of `x` at a second address.
//! Registers: `r0` to `r3`, for raw PTX `%r0`, and the 64-bit `%d0` to `%d3`.

use std::fmt::Write;

/// Locations in the order of the parameters.
pub(super) const LOCATIONS: [&str; 4] = ["x", "y", "z", "a"];
/// Registers of a thread that are observed.
pub(super) const REGISTERS: usize = 4;
/// What a register holds that was not loaded.
pub(super) const UNTOUCHED: u32 = 255;

/// The kernels of a thread, each a list of statements.
pub(super) fn kernels(thread: &str) -> Vec<Vec<&str>> {
    let statements: Vec<&str> = thread.split(';').map(str::trim).collect();
    statements.split(|statement| *statement == "kernel").map(<[_]>::to_vec).collect()
}

/// Most kernels of a thread.
pub(super) const KERNELS_MAX: usize = 2;

fn access(statement: &str, scope: &str) -> String {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let (opcode, order) = words[0].split_once('.').unwrap_or((words[0], ""));
    let order = if order == "weak" { String::new() } else { format!(".{order}.{scope}") };
    match opcode {
        "st" => format!("st{order}.global.u32 [%{}], {};", words[1], words[2]),
        "ld" => format!("ld{order}.global.u32 %{}, [%{}];", words[1], words[2]),
        "atom" => format!("atom{order}.global.add.u32 %{}, [%{}], {};", words[1], words[2], words[3]),
        _ => format!("{statement};"),
    }
}

fn statement(text: &mut String, statement: &str, scope: &str) {
    let line = if statement.contains('%') {
        format!("{statement};")
    } else if let Some(condition) = statement.strip_prefix("if ") {
        let (register, value) = condition.split_once(' ').expect("a condition has a register and a value");
        format!("setp.ne.u32 %p, %{register}, {value};\n@%p bra $end;")
    } else if statement == "fence.sc" || statement == "fence.acq_rel" {
        format!("{statement}.{scope};")
    } else {
        access(statement, scope)
    };
    let _ = writeln!(text, "vote.sync.any.pred %v, %v, %mask;\n{line}");
}

/// One kernel `litmus` that holds all threads. Its parameters are 64-bit words: the locations, where to write the
/// registers, the number of thread 0 of block 0, and which kernel of the threads it is.
pub(super) fn ptx(threads: &[&str], scope: &str) -> String {
    let mut text = String::from(
        ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry litmus(.param .align 8 .b8 in[56])\n{\n\
         .reg .pred %p, %v;\n.reg .b32 %r<4>;\n.reg .b32 %t<4>;\n.reg .b32 %mask;\n.reg .b64 %d<4>;\n.reg .b64 %one;\n.reg .b128 %q<2>;\n\
         .reg .b64 %x, %y, %z, %a, %out, %first, %part;\n.reg .b64 %at;\nmov.u64 %one, 1;\n",
    );
    for (index, name) in ["x", "y", "z", "a", "out", "first", "part"].iter().enumerate() {
        let _ = writeln!(text, "ld.param.b64 %{name}, [in+{}];", index * 8);
    }
    for register in 0..REGISTERS {
        let _ = writeln!(text, "mov.u32 %r{register}, {UNTOUCHED};");
    }
    text += "setp.ne.u32 %v, 0, 0;\nmov.u32 %mask, %lanemask_eq;\nmov.u32 %t0, %tid.x;\ncvt.u32.u64 %t1, %first;\nadd.u32 %t0, %t0, %t1;\n\
             cvt.u32.u64 %t1, %part;\nmad.lo.u32 %t2, %t0, 2, %t1;\n";
    for (thread, program) in threads.iter().enumerate() {
        for part in 0..kernels(program).len() {
            let label = thread * KERNELS_MAX + part;
            let _ = writeln!(text, "setp.eq.u32 %p, %t2, {label};\n@%p bra $body{label};");
        }
    }
    text += "bra $end;\n";
    for (thread, program) in threads.iter().enumerate() {
        for (part, statements) in kernels(program).iter().enumerate() {
            let _ = writeln!(text, "$body{}:", thread * KERNELS_MAX + part);
            statements.iter().for_each(|line| statement(&mut text, line, scope));
            text += "bra $end;\n";
        }
    }
    text += "$end:\nmad.wide.u32 %at, %t0, 16, %out;\n";
    for register in 0..REGISTERS {
        let _ = writeln!(text, "st.global.u32 [%at+{}], %r{register};", register * 4);
    }
    text + "ret;\n}\n"
}

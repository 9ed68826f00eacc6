//! Launch bounds, which rustc has no word for.

/// Registers of a multiprocessor, from sm_80 on.
const REGISTERS: u32 = 1 << 16;

/// The text with `.maxnreg` at every kernel, so that the assembler leaves registers for blocks of `threads_max` threads
/// (PTX ISA 11.4.1). Not `.maxntid`, which makes it spare registers, and spill some, for more such blocks. A kernel that
/// bears a directive keeps its own.
pub fn limit_threads(text: &str, threads_max: u32) -> String {
    // Warps get them by eight a thread.
    let registers = ((REGISTERS / threads_max.max(1)) & !7).clamp(16, 255);
    let mut limited = String::with_capacity(text.len());
    let mut is_head = false;
    for line in text.split_inclusive('\n') {
        is_head |= line.contains(".entry ");
        if is_head && line.starts_with('{') {
            limited.push_str(&format!(".maxnreg {registers}\n"));
        }
        is_head &= !line.starts_with(['{', '.']) || line.contains(".entry ");
        limited.push_str(line);
    }
    limited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_bounded_once_and_functions_are_not() {
        let head = ".version 8.4\n.visible .entry a(\n\t.param .b64 a_param_0\n)\n{\n\tret;\n}\n";
        let rest = ".visible .entry b()\n.maxntid 64\n{\n\tret;\n}\n.visible .func c()\n{\n\tret;\n}\n";
        let limited = limit_threads(&format!("{head}{rest}"), 512);
        assert_eq!(limited, format!("{}{rest}", head.replace(")\n{", ")\n.maxnreg 128\n{")));
    }
}

//! What `ptxas -v` prints.

/// What one kernel uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelResources {
    /// Name of the entry.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes stored and loaded because registers ran out, per thread.
    pub spill_bytes: u32,
    /// Static shared memory in bytes per block.
    pub shared_bytes: u32,
    /// Stack in bytes per thread.
    pub stack_bytes: u32,
}

/// Reads the report of `ptxas -v`, one kernel after the other.
///
/// # Errors
///
/// In words: a kernel's report lacks its registers or its stack line, so that a change of ptxas's wording cannot pass
/// for "no spills".
pub fn parse(report: &str) -> Result<Vec<KernelResources>, String> {
    let mut kernels: Vec<Pending> = Vec::new();
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            kernels.push(Pending {
                resources: KernelResources { name, ..Default::default() },
                ..Default::default()
            });
        } else if let Some(kernel) = kernels.last_mut() {
            kernel.take(line);
        }
    }
    kernels.into_iter().map(Pending::finish).collect()
}

#[derive(Default)]
struct Pending {
    resources: KernelResources,
    has_stack: bool,
    has_registers: bool,
}

impl Pending {
    fn take(&mut self, line: &str) {
        if let Some(stack) = number_before(line, "bytes stack frame") {
            let spills = ["bytes spill stores", "bytes spill loads"].map(|unit| number_before(line, unit));
            self.resources.stack_bytes = stack;
            self.resources.spill_bytes = spills.into_iter().flatten().sum();
            self.has_stack = spills.iter().all(Option::is_some);
        } else if let Some(registers) = number_before(line, "registers") {
            self.resources.registers = registers;
            self.resources.shared_bytes = number_before(line, "bytes smem").unwrap_or(0);
            self.has_registers = true;
        }
    }

    fn finish(self) -> Result<KernelResources, String> {
        if self.has_stack && self.has_registers {
            return Ok(self.resources);
        }
        Err(format!("ptxas reported no registers or no spills for kernel {}", self.resources.name))
    }
}

/// The number that stands before `unit`.
fn number_before(line: &str, unit: &str) -> Option<u32> {
    line.split(',').find_map(|part| part.trim().strip_suffix(unit)?.trim().rsplit(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'all_reduce_ll_f32' for 'sm_90'
ptxas info    : Function properties for all_reduce_ll_f32
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 400 bytes cmem[0]
ptxas info    : Compile time = 3.021 ms
ptxas info    : Compiling entry function 'spiller' for 'sm_90'
ptxas info    : Function properties for spiller
    64 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 64 bytes cumulative stack size, 1024 bytes smem, 400 bytes cmem[0]
";

    #[test]
    fn a_report_names_every_kernel() {
        let kernel = |name: &str, registers, spill_bytes, shared_bytes, stack_bytes| KernelResources {
            name: name.into(),
            registers,
            spill_bytes,
            shared_bytes,
            stack_bytes,
        };
        assert_eq!(
            parse(REPORT),
            Ok(vec![kernel("all_reduce_ll_f32", 40, 0, 0, 0), kernel("spiller", 255, 20, 1024, 64)])
        );
        assert_eq!(parse("ptxas info    : 0 bytes gmem\n"), Ok(vec![]));
    }

    #[test]
    fn a_report_that_is_not_understood_is_refused() {
        for lost in ["Used 40 registers", "0 bytes stack frame", "0 bytes spill loads"] {
            let error = parse(&REPORT.replacen(lost, "something else", 1)).unwrap_err();
            assert!(error.contains("kernel all_reduce_ll_f32"), "{lost}: {error}");
        }
    }
}

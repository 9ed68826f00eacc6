//! What a PTX text becomes: a module with its kernels.

use super::instruction::{Instruction, Slot};
use std::collections::HashMap;
use std::sync::Arc;

/// A loaded PTX text.
#[derive(Clone, Debug)]
pub struct Module {
    /// `.version`, as (major, minor).
    pub version: (u32, u32),
    /// `.target sm_NN`, as NN.
    pub target_sm: u32,
    /// The kernels, in the order of the text. Copies of the module share them.
    pub kernels: Vec<Arc<Kernel>>,
    /// Variables of `.global` and `.const`. A kernel may run when [`Module::bind_variables`] has placed them.
    pub variables: Vec<Variable>,
}

/// A variable in global or constant memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Alignment in bytes.
    pub align_bytes: u32,
    /// What it holds at first; its size is the length.
    pub bytes: Vec<u8>,
    /// `.const`: kernels only read it.
    pub read_only: bool,
}

/// A kernel (`.entry`).
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Bytes of the parameters.
    pub param_bytes: u32,
    /// Slots of a thread's register file.
    pub n_registers: u32,
    /// Bytes of shared memory that the kernel declares; a launch may add dynamic ones behind them.
    pub shared_bytes: u32,
    /// Bytes of a thread's local memory.
    pub local_bytes: u32,
    /// `.maxntid` or `.reqntid`: the most threads of a block in each dimension.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`: [`Kernel::max_threads`] is the only shape allowed.
    pub exact_threads: bool,
    /// The instructions; a program counter is an index into them.
    pub code: Vec<Instruction>,
    /// Targets of `brx.idx`.
    pub branch_tables: Vec<Vec<u32>>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) lines: Vec<LineEntry>,
    pub(crate) source: Arc<Source>,
}

/// A slot that holds the same value from a thread's start to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Constant {
    /// The slot.
    pub(crate) slot: Slot,
    /// Its value, or the offset to add to the variable's address.
    pub(crate) value: u64,
    /// Index of a variable in [`Module::variables`] that is not yet placed.
    pub(crate) variable: Option<usize>,
}

/// Where an instruction comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEntry {
    /// Line of the PTX text.
    pub(crate) ptx_line: u32,
    /// `.loc` in force: number of the file and line.
    pub(crate) source: Option<(u32, u32)>,
    /// `inlined_at` of that `.loc`.
    pub(crate) inlined_at: Option<(u32, u32)>,
}

/// The text and its table of files, shared by the kernels of a module.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) files: HashMap<u32, String>,
}

/// Where an instruction comes from, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location<'a> {
    /// Line of the PTX text, counted from 1.
    pub ptx_line: u32,
    /// That line, without blanks around it.
    pub ptx_text: &'a str,
    /// File and line of the source, if the PTX says.
    pub source: Option<(&'a str, u32)>,
    /// Where the source line was inlined into, if the PTX says.
    pub inlined_at: Option<(&'a str, u32)>,
}

impl std::fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PTX line {}: `{}`", self.ptx_line, self.ptx_text)?;
        if let Some((file, line)) = self.source {
            write!(f, " ({file}:{line}")?;
            if let Some((file, line)) = self.inlined_at {
                write!(f, ", inlined at {file}:{line}")?;
            }
            write!(f, ")")?;
        }
        Ok(())
    }
}

impl Module {
    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name).map(|kernel| &**kernel)
    }

    /// Gives every variable an address. `place` is called once for each, in order, and must have filled the memory with
    /// [`Variable::bytes`].
    pub fn bind_variables(&mut self, mut place: impl FnMut(&Variable) -> u64) {
        let addresses: Vec<u64> = self.variables.iter().map(&mut place).collect();
        if addresses.is_empty() {
            return;
        }
        for kernel in &mut self.kernels {
            for constant in &mut Arc::make_mut(kernel).constants {
                if let Some(index) = constant.variable.take() {
                    constant.value = constant.value.wrapping_add(addresses[index]);
                }
            }
        }
    }
}

impl Kernel {
    /// Whether the kernel uses variables that [`Module::bind_variables`] has not placed.
    pub fn has_unbound_variables(&self) -> bool {
        self.constants.iter().any(|constant| constant.variable.is_some())
    }

    /// Where the instruction at `pc` comes from. A `pc` past the end is the last instruction's.
    pub fn location(&self, pc: u32) -> Location<'_> {
        let missing = LineEntry { ptx_line: 0, source: None, inlined_at: None };
        let entry = self.lines.get(pc as usize).or(self.lines.last()).unwrap_or(&missing);
        let text =
            self.source.text.lines().nth((entry.ptx_line as usize).wrapping_sub(1)).unwrap_or_default();
        Location {
            ptx_line: entry.ptx_line,
            ptx_text: text.trim(),
            source: self.file_line(entry.source),
            inlined_at: self.file_line(entry.inlined_at),
        }
    }

    fn file_line(&self, position: Option<(u32, u32)>) -> Option<(&str, u32)> {
        // The compiler marks code without a line of its own by line 0.
        let (file, line) = position.filter(|(_, line)| *line != 0)?;
        Some((self.source.files.get(&file)?, line))
    }
}

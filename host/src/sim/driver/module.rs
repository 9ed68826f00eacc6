//! Modules, their kernels, and what a launch of one must look like.

use super::parsed::parse;
use super::statics::Statics;
use super::{Driver, find};
use crate::backend::{FunctionFacts, FunctionHandle, LaunchShape, ModuleHandle};
use crate::ptx_version::first_cuda;
use crate::sim::config::SimConfig;
use crate::sim::memory::Memory;
use crate::sim::ptx::Kernel;
use crate::sim::result::{INVALID_VALUE, NO_BINARY_FOR_GPU};
use crate::{ErrorKind, Result};
use std::sync::Arc;

/// Threads that a block can have.
pub(crate) const BLOCK_THREADS_MAX: u32 = 1024;
/// Shared memory that a block can have in bytes (CUDA programming guide, "Compute capabilities", 9.0).
pub(crate) const BLOCK_SHARED_BYTES_MAX: u32 = 227 << 10;

/// A module on a device.
#[derive(Debug)]
pub(super) struct LoadedModule {
    device: u32,
    origin: String,
    pub(super) kernels: Vec<Arc<Kernel>>,
    statics: Option<Statics>,
}

/// A kernel on a device.
#[derive(Debug)]
pub(crate) struct Function {
    /// The device.
    pub(crate) device: u32,
    /// The module, while it is loaded.
    pub(crate) module: ModuleHandle,
    /// The code.
    pub(crate) kernel: Arc<Kernel>,
}

/// A kernel with all that a run of it needs. Argument bytes are copied when it is made.
#[derive(Debug)]
pub(crate) struct Launch {
    /// The kernel.
    pub(crate) function: Arc<Function>,
    /// Blocks, threads and dynamic shared memory.
    pub(crate) shape: LaunchShape,
    /// Parameter bytes.
    pub(crate) argument: Box<[u8]>,
}

impl Launch {
    /// # Errors
    ///
    /// `CUDA_ERROR_INVALID_VALUE` for a shape that no device has or an argument of the wrong size.
    pub(super) fn new(function: Arc<Function>, shape: LaunchShape, argument: &[u8]) -> Result<Self> {
        let kernel = &function.kernel;
        let shared_bytes = u64::from(kernel.shared_bytes) + u64::from(shape.shared_bytes);
        let expected_bytes = kernel.param_bytes as usize;
        let threads_max = threads_max(kernel);
        let wrong = if shape.blocks == 0 {
            Some("0 blocks".into())
        } else if !(1..=threads_max).contains(&shape.threads) {
            Some(format!("{} threads per block, allowed: 1 to {threads_max}", shape.threads))
        } else if kernel.exact_threads && shape.threads != threads_max {
            Some(format!("{} threads per block, required: {threads_max}", shape.threads))
        } else if shared_bytes > u64::from(BLOCK_SHARED_BYTES_MAX) {
            Some(format!("{shared_bytes} bytes of shared memory, allowed: {BLOCK_SHARED_BYTES_MAX}"))
        } else if argument.len() != expected_bytes {
            Some(format!("an argument of {} bytes, the kernel takes {expected_bytes}", argument.len()))
        } else {
            None
        };
        match wrong {
            Some(wrong) => Err(INVALID_VALUE.of("cuLaunchKernel", format!("{}: {wrong}", kernel.name))),
            None => Ok(Self { function, shape, argument: argument.into() }),
        }
    }
}

impl Driver {
    /// `cuModuleLoadData`.
    pub(crate) fn module_load(
        &mut self,
        memory: &mut Memory,
        config: &SimConfig,
        device: u32,
        text: &str,
        origin: &str,
    ) -> Result<ModuleHandle> {
        let mut module = parse(text).map_err(|error| error.with_origin(origin))?;
        let needed = first_cuda(module.version);
        if needed > config.driver_version {
            return Err(ErrorKind::DriverTooOld {
                driver: config.driver_version,
                ptx: module.version,
                needed,
            }
            .into());
        }
        if module.target_sm > config.sm {
            let operand =
                format!("PTX of {origin} for sm_{} on a device of sm_{}", module.target_sm, config.sm);
            return Err(NO_BINARY_FOR_GPU.of("cuModuleLoadData", operand));
        }
        let statics = Statics::place(memory, &mut module, device)?;
        let kernels = module.kernels;
        let handle = ModuleHandle(self.next_handle());
        self.modules.insert(handle, LoadedModule { device, origin: origin.into(), kernels, statics });
        Ok(handle)
    }

    /// `cuModuleUnload`. Launches of its kernels still complete.
    pub(crate) fn module_unload(&mut self, memory: &mut Memory, handle: ModuleHandle) -> Result<()> {
        find(&self.modules, handle, "cuModuleUnload")?;
        let module = self.modules.remove(&handle);
        self.functions.retain(|_, function| function.module != handle);
        module.and_then(|module| module.statics).map_or(Ok(()), |statics| statics.free(memory))
    }

    /// `cuModuleGetFunction`. The same kernel has the same handle.
    pub(crate) fn function(&mut self, handle: ModuleHandle, name: &str) -> Result<FunctionHandle> {
        let known = |function: &Function| function.module == handle && function.kernel.name == name;
        if let Some((&function, _)) = self.functions.iter().find(|(_, function)| known(function)) {
            return Ok(function);
        }
        let module = find(&self.modules, handle, "cuModuleGetFunction")?;
        let Some(kernel) = module.kernels.iter().find(|kernel| kernel.name == name) else {
            let log = format!("it has no kernel `{name}`");
            return Err(ErrorKind::InvalidPtx { origin: module.origin.clone(), log }.into());
        };
        let function = Arc::new(Function { device: module.device, module: handle, kernel: kernel.clone() });
        let handle = FunctionHandle(self.next_handle());
        self.functions.insert(handle, function);
        Ok(handle)
    }

    /// A kernel by its handle.
    pub(crate) fn find_function(&self, handle: FunctionHandle, call: &'static str) -> Result<&Arc<Function>> {
        find(&self.functions, handle, call)
    }

    /// Limits of a kernel. The machine has no register file: the number of registers is that of the PTX and limits
    /// nothing.
    pub(crate) fn function_facts(&self, handle: FunctionHandle) -> Result<FunctionFacts> {
        let kernel = &self.find_function(handle, "cuFuncGetAttribute")?.kernel;
        Ok(FunctionFacts { threads_max: threads_max(kernel), registers: kernel.n_registers })
    }
}

/// Threads that a block of the kernel can have (`.maxntid`, `.reqntid`).
fn threads_max(kernel: &Kernel) -> u32 {
    let declared = kernel.max_threads.map(|[x, y, z]| x.saturating_mul(y).saturating_mul(z));
    declared.unwrap_or(BLOCK_THREADS_MAX).min(BLOCK_THREADS_MAX)
}

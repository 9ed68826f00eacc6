//! The kernels of this crate, loaded on one device.

use crate::backend::{FunctionHandle, LaunchShape, ModuleHandle};
use crate::machine::Device;
use crate::stream::Stream;
use crate::{ErrorKind, Result};
use bytemuck::bytes_of;
use symmem_device::abi::CollectiveArgs;
use symmem_device::kernels::{KERNELS, KernelSpec, WAITS_ITSELF_SM_MIN};

/// Most threads per block that any kernel is launched with.
pub(crate) const THREADS_MAX: u32 = 512;

/// All kernels of the table that the device can run, resolved.
#[derive(Debug)]
pub(crate) struct Kernels {
    device: Device,
    module: ModuleHandle,
    /// Each kernel of the table, at its place there, if the device can run it.
    functions: Vec<Option<FunctionHandle>>,
    blocks_max: u32,
    /// What the PTX was compiled for.
    ptx_sm: u32,
}

impl Kernels {
    /// Loads the PTX for the device and resolves every kernel in it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a device that no PTX of this build runs on, [`ErrorKind::DriverTooOld`],
    /// [`ErrorKind::InvalidPtx`], or what the machine answers.
    pub(crate) fn load(device: &Device) -> Result<Self> {
        let sm = device.facts()?.sm;
        let ptx = crate::kernels_ptx::ptx_for(sm).ok_or_else(|| ErrorKind::Unsupported {
            what: format!("a device of compute capability {}.{}", sm / 10, sm % 10),
            hint: "the kernels need 8.0 or later".into(),
        })?;
        let module = device.machine().backend().module_load(device.index(), ptx.text, "symmem's kernels")?;
        let mut kernels = Self {
            device: device.clone(),
            module,
            functions: Vec::new(),
            blocks_max: u32::MAX,
            ptx_sm: ptx.sm,
        };
        kernels.resolve(sm)?;
        Ok(kernels)
    }

    /// Blocks of [`THREADS_MAX`] threads that are resident at once, of whichever kernel.
    pub(crate) fn blocks_max(&self) -> u32 {
        self.blocks_max
    }

    /// Launches one kernel.
    pub(crate) fn launch(
        &self,
        spec: &'static KernelSpec,
        stream: &Stream,
        shape: LaunchShape,
        args: &CollectiveArgs,
    ) -> Result<()> {
        let function = place(spec).and_then(|place| self.functions[place]);
        let function = function.ok_or_else(|| ErrorKind::Unsupported {
            what: format!("the kernel {}", spec.name),
            hint: format!("it needs compute capability {}.{}", spec.sm_min / 10, spec.sm_min % 10),
        })?;
        let shape = LaunchShape { waits_itself: self.ptx_sm >= WAITS_ITSELF_SM_MIN, ..shape };
        self.device.machine().backend().launch(stream.handle(), function, shape, bytes_of(args))
    }

    fn resolve(&mut self, sm: u32) -> Result<()> {
        let backend = self.device.machine().backend();
        let n_multiprocessors = self.device.facts()?.n_multiprocessors;
        for spec in KERNELS {
            if spec.sm_min > sm {
                self.functions.push(None);
                continue;
            }
            let function = backend.function(self.module, spec.name)?;
            let per_multiprocessor = backend.resident_blocks(function, THREADS_MAX, 0)?;
            self.blocks_max = self.blocks_max.min(per_multiprocessor * n_multiprocessors);
            self.functions.push(Some(function));
        }
        Ok(())
    }
}

/// Where in the table a kernel stands, without a search.
fn place(spec: &'static KernelSpec) -> Option<usize> {
    let offset = (std::ptr::from_ref(spec) as usize).checked_sub(KERNELS.as_ptr() as usize)?;
    let place = offset / size_of::<KernelSpec>();
    KERNELS.get(place).filter(|found| std::ptr::eq(*found, spec)).map(|_| place)
}

impl Drop for Kernels {
    fn drop(&mut self) {
        let machine = self.device.machine();
        machine.defer(machine.backend().module_unload(self.module));
    }
}

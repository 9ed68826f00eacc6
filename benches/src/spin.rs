//! A kernel that spins for a known time.

use symmem::backend::{Backend, FunctionHandle, LaunchShape, ModuleHandle};
use symmem::{Device, Machine, Stream};

const SPIN: &str = include_str!("spin.ptx");

/// The kernel on one device, and a place for its answer.
pub(crate) struct Spinner {
    device: Device,
    module: ModuleHandle,
    function: FunctionHandle,
    answer: u64,
}

impl Spinner {
    /// # Errors
    ///
    /// What the machine answers.
    pub(crate) fn new(device: &Device) -> symmem::Result<Self> {
        let backend = seam(device.machine());
        let module = backend.module_load(device.index(), SPIN, "spin")?;
        let found = backend.function(module, "spin");
        match found.and_then(|function| Ok((function, backend.mem_alloc(device.index(), 8)?))) {
            Ok((function, answer)) => Ok(Self { device: device.clone(), module, function, answer }),
            Err(error) => Err(backend.module_unload(module).err().unwrap_or(error)),
        }
    }

    /// Keeps a stream of its device busy until the device's clock has gone on by `time_ns`.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub(crate) fn spin(&self, stream: &Stream, time_ns: u64) -> symmem::Result<()> {
        let shape = LaunchShape { blocks: 1, threads: 1, shared_bytes: 0, waits_itself: false };
        let argument = [self.answer.to_le_bytes(), time_ns.to_le_bytes()].concat();
        seam(self.device.machine()).launch(stream.handle(), self.function, shape, &argument)
    }

    /// Nanoseconds that the last spin took by that clock, once it is over.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub(crate) fn spun_ns(&self) -> symmem::Result<u64> {
        let mut bytes = [0; 8];
        seam(self.device.machine()).read(self.device.index(), self.answer, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let backend = seam(self.device.machine());
        let freed = backend.mem_free(self.device.index(), self.answer);
        if let Err(error) = freed.and_then(|()| backend.module_unload(self.module)) {
            eprintln!("symmem-bench: {error}");
        }
    }
}

/// Each spins in the stream of its place.
///
/// # Errors
///
/// What the machine answers.
pub(crate) fn all(spinners: &[Spinner], streams: &[Stream], time_ns: u64) -> symmem::Result<()> {
    spinners.iter().zip(streams).try_for_each(|(spinner, stream)| spinner.spin(stream, time_ns))
}

fn seam(machine: &Machine) -> &dyn Backend {
    // SAFETY: a spinner passes handles and memory of its own, which live until it is dropped.
    unsafe { machine.raw_backend() }
}

//! Machines and their devices.

use crate::backend::{Backend, DeviceFacts, Granularity, MachineKind, WorkCounters};
use crate::environment::with_variables;
use crate::tap::{Tap, Watch};
use crate::{Error, ErrorKind, Result};
use crossbeam::queue::SegQueue;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A machine: real GPUs, or the simulated one. Cloning gives another handle to the same machine.
#[derive(Clone)]
pub struct Machine {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Arc<dyn Backend>,
    /// The first error that a destructor met and could not return.
    deferred: Mutex<Option<Error>>,
    has_deferred: AtomicBool,
    released: Arc<Released>,
}

/// What was let go of where no call of the machine is allowed, to be dropped where it is.
pub(crate) type Released = SegQueue<Box<dyn Send + Sync>>;

impl Machine {
    /// The GPUs where there are any, else the simulated machine; `SYMMEM_DEVICE` = `cuda` or `sim` says which.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoDriver`] where GPUs were asked for and there are none; [`ErrorKind::InvalidArgument`] for another
    /// value of the variable.
    pub fn open() -> Result<Self> {
        match with_variables(|set| Ok(set("SYMMEM_DEVICE")))?.as_deref() {
            None | Some("" | "auto") => Self::cuda().or_else(|_| Self::sim()),
            Some("cuda") => Self::cuda(),
            Some("sim") => Self::sim(),
            Some(other) => Err(ErrorKind::InvalidArgument {
                what: "SYMMEM_DEVICE",
                found: other.into(),
                allowed: "cuda, sim, auto".into(),
            }
            .into()),
        }
    }

    /// The GPUs of this host.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoDriver`] without a driver or without a GPU; [`ErrorKind::Unsupported`] in a build without the
    /// feature `cuda`.
    pub fn cuda() -> Result<Self> {
        #[cfg(feature = "cuda")]
        return Ok(Self::from_backend({
            // SAFETY: the seam is this crate's, which passes handles and addresses of its owners alone.
            unsafe { crate::cuda::CudaMachine::open() }?
        }));
        #[cfg(not(feature = "cuda"))]
        Err(ErrorKind::Unsupported {
            what: "a machine with GPUs".into(),
            hint: "this build of symmem lacks the feature `cuda`".into(),
        }
        .into())
    }

    /// The simulated machine, as the `SYMMEM_SIM_*` variables describe it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a variable that cannot be read; [`ErrorKind::Unsupported`] in a build without
    /// the feature `sim`.
    pub fn sim() -> Result<Self> {
        #[cfg(feature = "sim")]
        return Ok(Self::from_backend(crate::sim::SimMachine::new(crate::sim::SimConfig::from_env()?)?));
        #[cfg(not(feature = "sim"))]
        Err(ErrorKind::Unsupported {
            what: "a simulated machine".into(),
            hint: "this build of symmem lacks the feature `sim`".into(),
        }
        .into())
    }

    /// A machine behind any implementation of the seam.
    pub fn from_backend(backend: Arc<dyn Backend>) -> Self {
        let (deferred, has_deferred) = (Mutex::new(None), AtomicBool::new(false));
        Self { inner: Arc::new(Inner { backend, deferred, has_deferred, released: Arc::default() }) }
    }

    /// The same hardware with `watch` in front of it ([`crate::tap`]). For this crate it is another machine: what
    /// belongs to one is not taken by the other.
    pub fn watched(&self, watch: impl Watch + 'static) -> Self {
        Self::from_backend(Arc::new(Tap::new(self.inner.backend.clone(), watch)))
    }

    /// The seam to the machine, for this crate: what it passes is of this machine and lives.
    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.inner.backend
    }

    /// The seam to the machine, for what the owners of this crate do not offer.
    ///
    /// # Safety
    ///
    /// Every handle that a call is given is one of this machine and not destroyed; every address is of memory of the
    /// device that it is said to be, and every kernel's argument such that the kernel touches only such memory. The driver
    /// checks little of it: a handle is a pointer of its own to it.
    pub unsafe fn raw_backend(&self) -> &dyn Backend {
        self.backend()
    }

    /// Number of devices; devices are named 0..n.
    pub fn device_count(&self) -> u32 {
        self.backend().device_count()
    }

    /// Highest CUDA version that the driver supports, (major, minor).
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn driver_version(&self) -> Result<(u32, u32)> {
        self.backend().driver_version()
    }

    /// Work counted so far; `None` on GPUs.
    pub fn counters(&self) -> Option<WorkCounters> {
        self.backend().counters()
    }

    /// Which machine this is.
    pub fn kind(&self) -> MachineKind {
        self.backend().kind()
    }

    /// One device.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoSuchDevice`].
    pub fn device(&self, index: u32) -> Result<Device> {
        let found = self.backend().device_count();
        if index >= found {
            return Err(ErrorKind::NoSuchDevice { device: index, found }.into());
        }
        Ok(Device { machine: self.clone(), index })
    }

    /// The first `count` devices.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DeviceCount`] if `count` is 0 or above what is there.
    pub fn devices(&self, count: u32) -> Result<Vec<Device>> {
        let found = self.backend().device_count();
        if count == 0 || count > found {
            return Err(ErrorKind::DeviceCount { asked: count, found }.into());
        }
        (0..count).map(|index| self.device(index)).collect()
    }

    /// Frees what graphs that are gone had kept, and takes the first error that a destructor met since the last call.
    ///
    /// # Errors
    ///
    /// That error.
    pub fn take_deferred(&self) -> Result<()> {
        self.drain();
        self.take_error()
    }

    /// Takes the first error that a destructor met. Costs one load where there is none.
    pub(crate) fn take_error(&self) -> Result<()> {
        if !self.inner.has_deferred.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut deferred = self.inner.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.has_deferred.store(false, Ordering::Release);
        deferred.take().map_or(Ok(()), |error| Err(error.context("earlier, in a destructor")))
    }

    /// Keeps what went wrong in a destructor for the next call that can return it.
    pub(crate) fn defer(&self, result: Result<()>) {
        if let Err(error) = result {
            tracing::warn!(%error, "a destructor failed");
            self.inner.deferred.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.inner.has_deferred.store(true, Ordering::Release);
        }
    }

    /// Drops what graphs that are gone had kept. Unmapping may wait for devices, so this is no part of a launch.
    pub(crate) fn drain(&self) {
        while let Some(released) = self.inner.released.pop() {
            drop(released);
        }
    }

    /// Where to put what must not be dropped on the spot.
    pub(crate) fn released(&self) -> &Arc<Released> {
        &self.inner.released
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Machine({:?}, {} devices)", self.kind(), self.backend().device_count())
    }
}

/// One device of a machine.
#[derive(Clone, Debug)]
pub struct Device {
    machine: Machine,
    index: u32,
}

impl Device {
    /// The machine it belongs to.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Its number on that machine, from 0.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Name, memory, compute capability.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn facts(&self) -> Result<DeviceFacts> {
        self.machine.backend().device_facts(self.index)
    }

    /// Memory that nobody uses, in bytes.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn memory_free_bytes(&self) -> Result<u64> {
        self.machine.backend().memory_free_bytes(self.index)
    }

    /// Multiples that sizes and addresses of its memory must have.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn granularity(&self) -> Result<Granularity> {
        self.machine.backend().granularity(self.index)
    }

    /// Whether it can be in the team of a multicast object; no device can where [`crate::multicast_switch`] is off.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn multicast_supported(&self) -> Result<bool> {
        self.machine.backend().multicast_supported(self.index)
    }

    /// The recommended granularity in bytes, which all memory of this crate has.
    ///
    /// # Errors
    ///
    /// What the machine answers.
    pub fn granularity_bytes(&self) -> Result<u64> {
        Ok(self.granularity()?.recommended_bytes)
    }
}

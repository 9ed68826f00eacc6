//! The kernels of this crate, loaded on one device, set by set.

use crate::backend::{FunctionHandle, LaunchShape, ModuleHandle};
use crate::collectives::ByAlgorithm;
use crate::kernels_ptx::{KernelSet, ptx_for, sm_for};
use crate::machine::Device;
use crate::stream::Stream;
use crate::{Error, ErrorKind, Result};
use bytemuck::bytes_of;
use std::sync::{Mutex, OnceLock, PoisonError};
use symmem_device::abi::{CheckArgs, CollectiveArgs, LoopArgs};
use symmem_device::kernels::{
    CHECK_ENTER, CHECK_LEAVE, CHECK_THREADS, Collective, Dtype, KERNELS, KernelSpec, LOOPS, Op,
    WAITS_ITSELF_SM_MIN,
};

/// Most threads per block that any kernel is launched with.
pub(crate) use symmem_device::kernels::THREADS_MAX;

/// The kernels of one device that are loaded. Sets are added while launches go on.
#[derive(Debug)]
pub(crate) struct Kernels {
    device: Device,
    /// Compute capability of the device.
    sm: u32,
    /// What the PTX was compiled for.
    ptx_sm: u32,
    n_multiprocessors: u32,
    /// Ranks on the device, which share its multiprocessors.
    n_sharers: u32,
    /// Each kernel of the table, at its place there; behind them the loops.
    ready: Box<[OnceLock<Ready>]>,
    /// The kernels before and behind a collective that is checked.
    check: OnceLock<[FunctionHandle; 2]>,
    modules: Mutex<Vec<Module>>,
}

/// A kernel that can be launched.
#[derive(Clone, Copy, Debug)]
struct Ready {
    function: FunctionHandle,
    /// Blocks of [`THREADS_MAX`] threads that every rank can have resident at once.
    blocks_max: u32,
}

/// A set of kernels that one rank has loaded and the others may not have yet.
#[derive(Debug)]
pub(crate) struct LoadedSet {
    module: Module,
    /// Kernels by their place in [`Kernels::ready`].
    functions: Vec<(usize, FunctionHandle)>,
    /// The kernels of the check, if they are with these.
    check: Option<[FunctionHandle; 2]>,
    /// Blocks of [`THREADS_MAX`] threads of each that are resident at once on this rank's share of the device.
    pub(crate) blocks_max: Vec<u32>,
}

#[derive(Debug)]
struct Module {
    device: Device,
    set: KernelSet,
    handle: ModuleHandle,
}

impl Drop for Module {
    fn drop(&mut self) {
        let machine = self.device.machine();
        machine.defer(machine.backend().module_unload(self.handle));
    }
}

impl Kernels {
    /// None yet. `n_sharers` ranks are on the device, this one included.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a device that no PTX of this build runs on, or what the machine answers.
    pub(crate) fn new(device: &Device, n_sharers: u32) -> Result<Self> {
        let facts = device.facts()?;
        let ptx_sm = sm_for(facts.sm).ok_or_else(|| ErrorKind::Unsupported {
            what: format!("a device of compute capability {}.{}", facts.sm / 10, facts.sm % 10),
            hint: "the kernels need 8.0 or later".into(),
        })?;
        Ok(Self {
            device: device.clone(),
            sm: facts.sm,
            ptx_sm,
            n_multiprocessors: facts.n_multiprocessors,
            n_sharers,
            ready: (0..KERNELS.len() + LOOPS.len()).map(|_| OnceLock::new()).collect(),
            check: OnceLock::new(),
            modules: Mutex::default(),
        })
    }

    /// Compute capability of the device.
    pub(crate) fn sm(&self) -> u32 {
        self.sm
    }

    /// Loads those of `sets` that are not there and resolves every kernel in them. They can be launched after
    /// [`Self::keep`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DriverTooOld`], [`ErrorKind::InvalidPtx`], or what the machine answers.
    pub(crate) fn load(&self, sets: &[KernelSet]) -> Result<Vec<LoadedSet>> {
        let present: Vec<_> = self.lock().iter().map(|module| module.set).collect();
        let missing = sets.iter().filter(|set| !present.contains(set));
        missing.map(|set| self.load_set(*set)).collect()
    }

    /// Takes over what all ranks have loaded; `blocks_max` is what they agreed on, kernel by kernel.
    pub(crate) fn keep(&self, loaded: Vec<LoadedSet>, blocks_max: &[u32]) {
        let mut blocks_max = blocks_max.iter();
        for set in loaded {
            for ((place, function), &blocks_max) in set.functions.into_iter().zip(&mut blocks_max) {
                // A set is loaded once, by the one worker.
                let _first = self.ready[place].set(Ready { function, blocks_max });
            }
            if let Some(check) = set.check {
                let _first = self.check.set(check);
            }
            self.lock().push(set.module);
        }
    }

    /// Blocks of [`THREADS_MAX`] threads that every rank can have resident at once, of each algorithm's kernel for this; 0
    /// where there is none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotPrepared`] if there are kernels for it and they are not loaded.
    pub(crate) fn blocks_max(
        &self,
        collective: Collective,
        dtype: Dtype,
        op: Option<Op>,
    ) -> Result<ByAlgorithm> {
        let mut blocks_max = ByAlgorithm::default();
        for (place, spec) in KERNELS.iter().enumerate() {
            if spec.sm_min <= self.sm && spec.does(collective, dtype, op) {
                let ready = self.ready[place].get().ok_or_else(|| self.not_prepared(spec))?;
                blocks_max[spec.algorithm as usize] = ready.blocks_max;
            }
        }
        Ok(blocks_max)
    }

    /// Launches one kernel, early where it waits by itself for what is before it.
    pub(crate) fn launch(
        &self,
        spec: &'static KernelSpec,
        stream: &Stream,
        shape: LaunchShape,
        args: &CollectiveArgs,
    ) -> Result<()> {
        let waits_itself = self.wait_themselves();
        self.launch_in_order(spec, stream, LaunchShape { waits_itself, ..shape }, args)
    }

    /// The kernel that does another one again and again in this shape.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if there is none, [`ErrorKind::NotPrepared`] if it is not loaded.
    pub(crate) fn loop_of(&self, spec: &KernelSpec, shape: LaunchShape) -> Result<FunctionHandle> {
        let place = LOOPS.iter().position(|its| its.repeated == spec.name).ok_or_else(|| {
            let hint =
                "there are loops of f32 sum and of what does not reduce, but by multicast or copy engines";
            ErrorKind::Unsupported { what: format!("a loop of {}", spec.name), hint: hint.into() }
        })?;
        let ready = self.ready[KERNELS.len() + place].get().ok_or_else(|| {
            let hint = "call Comm::prepare_loops on every rank first, outside of captures".into();
            ErrorKind::NotPrepared { what: KernelSet::LOOPS.to_string(), hint }
        })?;
        let resident = ready.blocks_max * (THREADS_MAX / shape.threads);
        if shape.blocks > resident {
            let what = format!("a loop of {} in {} blocks of {}", spec.name, shape.blocks, shape.threads);
            let hint =
                format!("{resident} of them are resident at once, and every block waits for its peers");
            return Err(ErrorKind::Unsupported { what, hint }.into());
        }
        Ok(ready.function)
    }

    /// Launches such a kernel, in the order of the stream.
    pub(crate) fn launch_loop(
        &self,
        function: FunctionHandle,
        stream: &Stream,
        shape: LaunchShape,
        args: &LoopArgs,
    ) -> Result<()> {
        self.device.machine().backend().launch(stream.handle(), function, shape, bytes_of(args))
    }

    /// Launches the kernel of the check before a collective.
    pub(crate) fn check_enter(&self, stream: &Stream, args: &CheckArgs) -> Result<()> {
        self.launch_check(0, stream, args)
    }

    /// Launches the kernel of the check behind it.
    pub(crate) fn check_leave(&self, stream: &Stream, args: &CheckArgs) -> Result<()> {
        self.launch_check(1, stream, args)
    }

    fn launch_check(&self, which: usize, stream: &Stream, args: &CheckArgs) -> Result<()> {
        let function =
            self.check.get().expect("every communicator loads the kernels that do not reduce")[which];
        let waits_itself = self.wait_themselves();
        let shape = LaunchShape { blocks: 1, threads: CHECK_THREADS, shared_bytes: 0, waits_itself };
        self.device.machine().backend().launch(stream.handle(), function, shape, bytes_of(args))
    }

    /// Whether kernels are launched early, since they wait by themselves for what is before them. Such a kernel takes room,
    /// which ranks on the same device may need to end the one before it.
    fn wait_themselves(&self) -> bool {
        self.ptx_sm >= WAITS_ITSELF_SM_MIN && self.n_sharers == 1
    }

    /// Launches one kernel in the order of the stream.
    pub(crate) fn launch_in_order(
        &self,
        spec: &'static KernelSpec,
        stream: &Stream,
        shape: LaunchShape,
        args: &CollectiveArgs,
    ) -> Result<()> {
        let ready = place(spec).and_then(|place| self.ready[place].get());
        let ready = ready.ok_or_else(|| self.not_prepared(spec))?;
        self.device.machine().backend().launch(stream.handle(), ready.function, shape, bytes_of(args))
    }

    fn load_set(&self, set: KernelSet) -> Result<LoadedSet> {
        let (backend, origin) = (self.device.machine().backend(), format!("symmem's kernels of {set}"));
        let ptx = ptx_for(self.sm, set).ok_or_else(|| ErrorKind::Unsupported {
            what: origin.clone(),
            hint: "the table of kernels has no such set".into(),
        })?;
        let handle = backend.module_load(self.device.index(), &ptx.text(), &origin)?;
        let module = Module { device: self.device.clone(), set, handle };
        let (mut functions, mut blocks_max) = (Vec::new(), Vec::new());
        for (place, name) in self.names_in(set) {
            let function = backend.function(handle, name)?;
            let per_multiprocessor = backend.resident_blocks(function, THREADS_MAX, 0)?;
            blocks_max.push(per_multiprocessor * self.n_multiprocessors / self.n_sharers);
            functions.push((place, function));
        }
        if blocks_max.contains(&0) {
            let what = format!("{} ranks on device {}", self.n_sharers, self.device.index());
            let hint = "it has no room for a block of each, and every rank waits for all others".into();
            return Err(ErrorKind::Unsupported { what, hint }.into());
        }
        let check = (set == KernelSet::BYTES).then_some([CHECK_ENTER, CHECK_LEAVE]);
        let check = check.map(|[enter, leave]| {
            Ok::<_, Error>([backend.function(handle, enter)?, backend.function(handle, leave)?])
        });
        Ok(LoadedSet { module, functions, check: check.transpose()?, blocks_max })
    }

    /// The kernels of a set that this device runs: places in [`Self::ready`] and names.
    fn names_in(&self, set: KernelSet) -> Vec<(usize, &'static str)> {
        if set == KernelSet::LOOPS {
            return (KERNELS.len()..).zip(LOOPS.iter().map(|spec| spec.name)).collect();
        }
        let specs = KERNELS.iter().enumerate();
        let specs = specs.filter(|(_, spec)| spec.sm_min <= self.sm && KernelSet::of(spec) == set);
        specs.map(|(place, spec)| (place, spec.name)).collect()
    }

    fn not_prepared(&self, spec: &KernelSpec) -> Error {
        let loaded: Vec<_> = self.lock().iter().map(|module| module.set.to_string()).collect();
        let hint = format!(
            "loaded are those of {}; call Comm::prepare on every rank first, outside of captures, or name them in \
             CommConfig (SYMMEM_DTYPES, SYMMEM_OPS)",
            loaded.join(", ")
        );
        ErrorKind::NotPrepared { what: KernelSet::of(spec).to_string(), hint }.into()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Module>> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where in the table a kernel stands, without a search.
fn place(spec: &'static KernelSpec) -> Option<usize> {
    let offset = (std::ptr::from_ref(spec) as usize).checked_sub(KERNELS.as_ptr() as usize)?;
    let place = offset / size_of::<KernelSpec>();
    KERNELS.get(place).filter(|found| std::ptr::eq(*found, spec)).map(|_| place)
}

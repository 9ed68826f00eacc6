//! How a communicator comes to be: what each rank's worker does together with all others.

use crate::backend::{DeviceFacts, MachineKind};
use crate::collectives::{Calls, TuningTable};
use crate::comm::bootstrap::{Bootstrap, agree, equal, exchange, gather};
use crate::comm::config::CommConfig;
use crate::comm::identity::check_peers;
use crate::comm::prepare::{load, sets_of, sets_without_op};
use crate::comm::record::Record;
use crate::kernels::Kernels;
use crate::kernels_ptx::KernelSet;
use crate::machine::Device;
use crate::stream::Event;
use crate::symmetric::{
    Backing, FlatOffset, Handover, Multicast, MulticastSeat, OffsetAllocator, Registrar, SymmetricSpace,
    Turn, Wish, capability, with_peers,
};
use crate::vmm::{PhysicalAllocation, round_up};
use crate::{ErrorKind, Result};
use bytemuck::{Pod, Zeroable};
use std::sync::{Arc, Mutex, PoisonError};
use symmem_device::abi::{DevBaseHeader, DevBaseLayout};
use symmem_device::kernels::Algorithm;

/// What the ranks of one process share.
#[derive(Debug)]
pub(crate) struct Process {
    /// Number of the communicator in this process.
    pub(crate) comm_id: u64,
    /// Devices of its ranks, in rank order.
    pub(crate) devices: Vec<u32>,
    /// Ranks of the communicator, those of other processes included.
    pub(crate) n_ranks: u32,
    /// The symmetric space, made by whichever rank needs it first.
    space: Mutex<Option<Arc<SymmetricSpace>>>,
    /// `DevBase` of every rank: mapped until the last rank's communicator has gone, since peers store to it.
    dev_bases: Mutex<Vec<Backing>>,
    /// How its ranks share one multicast space.
    multicast: Handover,
    /// Memory of ranks that went while an operation had not ended by itself: peers may still touch it.
    kept: Mutex<Vec<Arc<Backing>>>,
    /// What its ranks have called, where calls are checked.
    pub(crate) calls: Calls,
}

/// What all ranks know of each other: equal on all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) n_ranks: u32,
    /// The least compute capability of a rank, as major × 10 + minor.
    pub(crate) sm: u32,
    pub(crate) timeout_ms: u64,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) ctas: Option<u32>,
    pub(crate) threads: Option<u32>,
    /// Whether calls are checked.
    pub(crate) check: bool,
}

/// A rank that is ready.
pub(crate) struct Ready {
    pub(crate) agreed: Agreed,
    pub(crate) tuning: Arc<TuningTable>,
    pub(crate) kernels: Arc<Kernels>,
    pub(crate) record: Arc<Record>,
    pub(crate) space: Arc<SymmetricSpace>,
    pub(crate) multicast: Multicast,
}

/// What a rank tells the others at init.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Hello {
    memory_bytes: u64,
    granularity_bytes: u64,
    /// 0 if not set.
    stride_bytes: u64,
    timeout_ms: u64,
    sm: u32,
    /// 0 if not set.
    ctas: u32,
    /// 1 + its place in [`Algorithm::ALL`], 0 if not set.
    algorithm: u32,
    /// 0 if not set.
    threads: u32,
    /// 1 if calls are to be checked.
    check: u32,
    reserved: u32,
}

impl Process {
    pub(crate) fn new(comm_id: u64, devices: Vec<u32>, n_ranks: u32) -> Self {
        Self {
            comm_id,
            devices,
            n_ranks,
            space: Mutex::new(None),
            dev_bases: Mutex::default(),
            multicast: Handover::default(),
            kept: Mutex::default(),
            calls: Calls::default(),
        }
    }

    /// Devices of its ranks, each once.
    fn distinct_devices(&self) -> Vec<u32> {
        let mut devices = self.devices.clone();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// How many of its ranks are on that device.
    fn n_ranks_on(&self, device: &Device) -> u32 {
        self.devices.iter().filter(|its| **its == device.index()).count() as u32
    }

    /// Whether there are ranks in other processes.
    pub(crate) fn spans_processes(&self) -> bool {
        self.devices.len() < self.n_ranks as usize
    }

    /// Unmaps the `DevBase` of ranks of other processes: no kernel of this one runs any more.
    pub(crate) fn unmap_peers(&self) {
        let mut dev_bases = self.dev_bases.lock().unwrap_or_else(PoisonError::into_inner);
        dev_bases.iter_mut().for_each(|dev_base| dev_base.set_peers(Vec::new()));
    }

    /// Keeps memory mapped until the last rank has gone.
    pub(crate) fn keep(&self, backings: Vec<Arc<Backing>>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).extend(backings);
    }

    fn space(&self, make: impl FnOnce() -> Result<SymmetricSpace>) -> Result<Arc<SymmetricSpace>> {
        let mut space = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        match &*space {
            Some(space) => Ok(space.clone()),
            None => Ok(space.insert(Arc::new(make()?)).clone()),
        }
    }
}

/// Makes one rank ready, together with all others; what its worker needs from then on comes beside it, and two
/// events: for the order of its operations, and for the worker's waits.
pub(crate) fn init(
    device: &Device,
    process: &Process,
    bootstrap: Arc<dyn Bootstrap>,
    config: &CommConfig,
) -> Result<(Ready, Registrar, [Event; 2])> {
    let meeting = &*bootstrap;
    let (mut hello, kernels, sets, record, events) =
        agree(meeting, "init: device", prepare(device, process.n_ranks_on(device), config))?;
    if meeting.spans_processes() {
        check_peers(meeting, process.n_ranks, device)?;
    }
    let devices = process.distinct_devices();
    let wish = Wish { multicast: config.multicast, shares_devices: devices.len() < process.devices.len() };
    let able = capability(meeting, device, process.n_ranks, wish, hello.granularity_bytes)?;
    hello.granularity_bytes = able.as_ref().copied().unwrap_or(hello.granularity_bytes);
    let hellos = exchange(meeting, "init: facts", &hello)?;
    let (agreed, stride_bytes, align_bytes) = settle(&hellos)?;
    let tuning = tuning(meeting, config)?;
    let space =
        process.space(|| SymmetricSpace::new(device.machine(), agreed.n_ranks, stride_bytes, align_bytes));
    let space = agree(meeting, "init: symmetric space", space)?;
    load(&kernels, meeting, &sets)?;
    let seat = MulticastSeat { meeting, device, handover: &process.multicast };
    let mut multicast = Multicast::set_up(seat, agreed.n_ranks, stride_bytes, align_bytes, able)?;
    let mut offsets = OffsetAllocator::new(stride_bytes, align_bytes);
    let made = make_dev_base(device, &devices, &space, &mut offsets, bootstrap.rank(), agreed);
    let step = "init: DevBase mapped and zeroed";
    let mut dev_base = with_peers(meeting, step, &space, &devices, made)?;
    // Kernels that use multicast meet in it: where it cannot be bound, nothing needs to be.
    let len_bytes = dev_base.len_bytes();
    if let Err(error) = multicast.bind(meeting, device, &mut dev_base, len_bytes)? {
        multicast = Multicast::off(meeting, &error);
    }
    process.dev_bases.lock().unwrap_or_else(PoisonError::into_inner).push(dev_base);
    let registrar = Registrar {
        comm_id: process.comm_id,
        device: device.clone(),
        bootstrap,
        space: space.clone(),
        devices,
        offsets,
        backings: Vec::new(),
        multicast: multicast.clone(),
        turn: Turn::default(),
    };
    Ok((Ready { agreed, tuning, kernels, record, space, multicast }, registrar, events))
}

/// What a rank has made alone.
type Prepared = (Hello, Arc<Kernels>, Vec<KernelSet>, Arc<Record>, [Event; 2]);

/// All that a rank does alone: a failure becomes every rank's answer.
fn prepare(device: &Device, n_sharers: u32, config: &CommConfig) -> Result<Prepared> {
    let facts = device.facts()?;
    let kernels = Kernels::new(device, n_sharers)?;
    let sets = sets_without_op().chain(sets_of(&config.dtypes, &config.ops)?).collect();
    let hello = hello(device, &facts, &kernels, config)?;
    let events = [Event::new(device)?, Event::new(device)?];
    Ok((hello, Arc::new(kernels), sets, Arc::new(Record::new(device.machine())?), events))
}

fn hello(device: &Device, facts: &DeviceFacts, kernels: &Kernels, config: &CommConfig) -> Result<Hello> {
    let place =
        |wanted| Algorithm::ALL.iter().position(|algorithm| *algorithm == wanted).unwrap_or(0) as u32 + 1;
    Ok(Hello {
        memory_bytes: facts.memory_bytes,
        granularity_bytes: device.granularity_bytes()?,
        stride_bytes: config.stride_bytes.unwrap_or(0),
        timeout_ms: config.timeout_ms,
        sm: kernels.sm(),
        ctas: config.ctas.unwrap_or(0),
        algorithm: config.algorithm.map_or(0, place),
        threads: config.threads.unwrap_or(0),
        check: config.check.unwrap_or(device.machine().kind() == MachineKind::Sim).into(),
        reserved: 0,
    })
}

/// What follows for all ranks, the stride, and what offsets are multiples of. Rank 0's wishes hold.
fn settle(hellos: &[Hello]) -> Result<(Agreed, u64, u64)> {
    let strides: Vec<_> = hellos.iter().map(|hello| hello.stride_bytes).collect();
    let wanted = equal("the stride in bytes (SYMMEM_WIN_STRIDE, 0 if not set)", &strides)?;
    for (rank, hello) in hellos.iter().enumerate() {
        let wishes =
            |hello: &Hello| (hello.timeout_ms, hello.ctas, hello.algorithm, hello.threads, hello.check);
        if wishes(hello) != wishes(&hellos[0]) {
            tracing::warn!(rank, ?hello, rank_0 = ?hellos[0], "settings differ; those of rank 0 hold");
        }
    }
    let align_bytes = hellos.iter().map(|hello| hello.granularity_bytes).max().unwrap_or(1);
    let memory_bytes = hellos.iter().map(|hello| hello.memory_bytes).max().unwrap_or(0);
    let stride_bytes = round_up(if wanted == 0 { memory_bytes } else { wanted }, align_bytes)?;
    let first = hellos[0];
    let agreed = Agreed {
        n_ranks: hellos.len() as u32,
        sm: hellos.iter().map(|hello| hello.sm).min().unwrap_or(0),
        timeout_ms: first.timeout_ms,
        algorithm: (first.algorithm as usize).checked_sub(1).map(|place| Algorithm::ALL[place]),
        ctas: (first.ctas != 0).then_some(first.ctas),
        threads: (first.threads != 0).then_some(first.threads),
        check: first.check != 0,
    };
    Ok((agreed, stride_bytes, align_bytes))
}

/// Rank 0's tuning table, which holds for all: those of other builds, or with other files, would choose other kernels.
fn tuning(meeting: &dyn Bootstrap, config: &CommConfig) -> Result<Arc<TuningTable>> {
    let built_in = TuningTable::built_in();
    let own = config.tuning.clone().unwrap_or_default().or(built_in);
    let texts = gather(meeting, "init: tuning tables", own.to_string().into_bytes())?;
    for (rank, _) in texts.iter().enumerate().filter(|(_, text)| **text != texts[0]) {
        tracing::warn!(rank, "tuning tables differ (SYMMEM_TUNING, or the build); that of rank 0 holds");
    }
    let of_rank_0 = TuningTable::parse(&String::from_utf8_lossy(&texts[0]));
    agree(meeting, "init: rank 0's tuning table read", of_rank_0).map(Arc::new)
}

/// Maps and zeroes this rank's `DevBase`. No peer launches before all ranks have come this far.
fn make_dev_base(
    device: &Device,
    devices: &[u32],
    space: &SymmetricSpace,
    offsets: &mut OffsetAllocator,
    rank: u32,
    agreed: Agreed,
) -> Result<Backing> {
    let len_bytes = DevBaseLayout::new(agreed.n_ranks).len_bytes();
    let physical = Arc::new(PhysicalAllocation::rounded(device, len_bytes, offsets.align_bytes())?);
    let too_small = || {
        let what =
            format!("DevBase ({} bytes) in a stride of {} bytes", physical.len_bytes(), space.stride_bytes());
        ErrorKind::SizeOverflow { what }
    };
    let flat = FlatOffset::new(offsets.allocate(physical.len_bytes()).ok_or_else(too_small)?);
    let backing = Backing::map(space, rank, flat, &physical, devices)?;
    let (backend, address) = (device.machine().backend(), space.address(rank, flat));
    backend.fill(device.index(), address, 0, DevBaseLayout::new(agreed.n_ranks).zeroed_bytes())?;
    let timeout_ns = agreed.timeout_ms.saturating_mul(1_000_000);
    let header = DevBaseHeader { poison: 0, claim: 0, timeout_ns, blank: [0; 6] };
    backend.write(device.index(), address, bytemuck::bytes_of(&header))?;
    Ok(backing)
}

//! The cases. Each runs in a process of its own and panics when something is wrong.

use crate::fake;
use cust::error::CudaError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use symmem::backend::{Backend, LaunchShape, PhysicalHandle};
use symmem::cuda::{CudaMachine, driver};
use symmem::tap::{Call, Watch};
use symmem::vmm::{FabricSupport, fabric_support};
use symmem::{Comm, CommConfig, ErrorKind, Machine};

/// One case with what its environment adds to or takes from the usual one, which has the fake driver.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) environment: &'static [(&'static str, &'static str)],
    pub(crate) run: fn(),
}

/// Variables that decide about multicast; no case inherits them.
pub(crate) const CLEARED: [&str; 4] =
    ["SYMMEM_MULTICAST", "NCCL_NVLS_ENABLE", "NVSHMEM_DISABLE_NVLS", "TORCH_SYMM_MEM_DISABLE_MULTICAST"];

macro_rules! cases {
    ($($(#[$doc:meta])* $name:ident [$($variable:ident = $value:literal),*] => $run:expr;)*) => {
        /// Every case.
        pub(crate) const ALL: &[Case] = &[$(
            $(#[$doc])*
            Case { name: stringify!($name), environment: &[$((stringify!($variable), $value)),*], run: $run },
        )*];
    };
}

cases! {
    no_library[SYMMEM_LIBCUDA = "/nowhere/libcuda.so.1"] => no_library;
    no_device[FAKE_CUDA_DEVICES = "0"] => || no_driver("CUDA_VISIBLE_DEVICES");
    driver_that_does_not_start[FAKE_CUDA_INIT = "802"] => || no_driver("802 CUDA_ERROR_SYSTEM_NOT_READY");
    facts_of_the_devices[FAKE_CUDA_DEVICES = "3"] => facts_of_the_devices;
    missing_function_is_an_error_where_it_is_called[] => missing_function;
    driver_too_old_for_the_ptx[FAKE_CUDA_VERSION = "12020"] => driver_too_old_for_the_ptx;
    log_of_the_assembler_is_told[] => log_of_the_assembler_is_told;
    multicast_off_by_symmem[SYMMEM_MULTICAST = "0"] => || multicast_refused("SYMMEM_MULTICAST=0");
    multicast_off_by_nccl[NCCL_NVLS_ENABLE = "0"] => || multicast_refused("NCCL_NVLS_ENABLE=0");
    multicast_off_by_nvshmem[NVSHMEM_DISABLE_NVLS = "1"] => || multicast_refused("NVSHMEM_DISABLE_NVLS=1");
    multicast_off_by_torch[TORCH_SYMM_MEM_DISABLE_MULTICAST = "1"] =>
        || multicast_refused("TORCH_SYMM_MEM_DISABLE_MULTICAST=1");
    multicast_on_reaches_the_library[] => multicast_on;
    multicast_calls_arrive_whole[] => multicast_calls;
    multicast_that_the_fabric_refuses[FAKE_CUDA_BIND = "401"] => multicast_refused_by_the_fabric;
    multicast_of_an_old_driver[FAKE_CUDA_VERSION = "12000"] => || assert!(!open().multicast_supported(0).unwrap());
    nothing_but_what_is_called_is_looked_up[] => nothing_but_what_is_called;
    contexts_are_retained_when_used_and_released[] => contexts_retained_and_released;
    context_of_the_caller_is_restored[] => context_restored;
    copies_use_a_stream_of_their_own[] => copies;
    memory_is_asked_for_and_the_fabric_probed[] => memory_facts;
    argument_arrives_whole[] => argument_arrives_whole;
    kernel_on_a_stream_of_another_device_is_refused[] => foreign_kernel;
    stream_of_another_device_is_refused[] => foreign_stream;
    fault_is_returned_by_synchronize[FAKE_CUDA_FAULT = "700"] => fault;
    new_code_does_not_confuse_cust[FAKE_CUDA_INIT = "12345"] => new_code;
}

const PTX: &str = ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry kernel() { ret; }\n";

fn open() -> Arc<CudaMachine> {
    // SAFETY: the driver behind it is a fake, which follows no handle.
    unsafe { CudaMachine::open() }.expect("the fake driver opens")
}

#[track_caller]
fn no_driver(expected: &str) {
    // SAFETY: nothing is opened.
    match unsafe { CudaMachine::open() }.expect_err("no driver").kind() {
        ErrorKind::NoDriver { reason } => assert!(reason.contains(expected), "{reason}"),
        other => panic!("{other}"),
    }
}

fn no_library() {
    no_driver("/nowhere/libcuda.so.1");
    let error = cust::init(cust::CudaFlags::empty()).expect_err("no driver");
    assert_eq!((error, error.to_string().contains("NO_DEVICE")), (CudaError::NoDevice, true), "{error}");
    assert_eq!(driver::looked_up(), [""; 0]);
}

fn facts_of_the_devices() {
    let machine = open();
    assert_eq!((machine.device_count(), machine.driver_version().unwrap()), (3, (13, 0)));
    let facts = machine.device_facts(2).unwrap();
    assert_eq!((facts.name.as_str(), facts.uuid), ("Fake GPU 2", [0xf2; 16]));
    assert_eq!((facts.sm, facts.n_multiprocessors, facts.memory_bytes), (90, 132, 1 << 30));
    let error = machine.device_facts(3).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NoSuchDevice { device: 3, found: 3 });
}

fn missing_function() {
    let machine = open();
    assert!(!driver::looked_up().contains(&"cuMemCreate"));
    let error = machine.mem_create(0, 4096).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::MissingSymbol { symbol: "cuMemCreate".into() });
    assert!(driver::looked_up().contains(&"cuMemCreate"));
    // SAFETY: the call fails before it allocates.
    let answer = unsafe { cust::memory::cuda_malloc::<u8>(1) };
    assert_eq!(answer.err(), Some(CudaError::NotFound));
}

fn driver_too_old_for_the_ptx() {
    let error = open().module_load(0, PTX, "kernels.ptx").unwrap_err();
    let expected = ErrorKind::DriverTooOld { driver: (12, 2), ptx: (8, 4), needed: (12, 4) };
    assert_eq!(error.kind(), &expected);
    assert!(["12.2", "8.4", "12.4"].iter().all(|version| error.to_string().contains(version)), "{error}");
    assert!(!driver::looked_up().contains(&"cuModuleLoadDataEx"));
}

fn log_of_the_assembler_is_told() {
    let machine = open();
    let error = machine.module_load(1, ".version 8.4\nnonsense", "kernels.ptx").unwrap_err();
    match error.kind() {
        ErrorKind::InvalidPtx { origin, log } => {
            assert_eq!(origin, "kernels.ptx");
            assert!(
                log.contains("CUDA_ERROR_INVALID_PTX: ptxas application ptx input, line 3; fatal"),
                "{log}"
            );
        }
        other => panic!("{other}"),
    }
    let module = machine.module_load(1, PTX, "kernels.ptx").unwrap();
    let error = machine.function(module, "absent").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidPtx { log, .. } if log.contains("`absent`")), "{error}");
}

#[track_caller]
fn multicast_refused(by: &str) {
    let machine = open();
    let (object, memory) = (PhysicalHandle(1), PhysicalHandle(2));
    for refused in [
        driver::look_up("cuMulticastCreate"),
        machine.multicast_granularity(2, 4096).map(drop),
        machine.multicast_create(2, 4096).map(drop),
        machine.multicast_add_device(object, 0),
        machine.multicast_bind(object, 0, memory, 0, 4096),
        machine.multicast_unbind(object, 0, 0, 4096),
    ] {
        match refused.unwrap_err().kind() {
            ErrorKind::Unsupported { what, hint } => {
                assert!(what.starts_with("cuMulticast") && hint.contains(by), "{what}: {hint}");
            }
            other => panic!("{other}"),
        }
    }
    assert!(!machine.multicast_supported(0).unwrap());
    let looked_up = driver::looked_up();
    assert!(!looked_up.iter().any(|name| name.starts_with("cuMulticast") || *name == "cuDeviceGetAttribute"));
    assert!(fake::multicast().is_empty());
    no_call_of_the_simulated_machine(by);
}

/// Counts what communicators ask of a machine about multicast.
#[derive(Debug, Default)]
struct Calls(AtomicUsize);

impl Watch for Calls {
    fn before(&self, call: &Call) -> symmem::Result<()> {
        self.0.fetch_add(usize::from(call.name.starts_with("multicast")), Ordering::Relaxed);
        Ok(())
    }

    fn after(&self, _: &Call) -> symmem::Result<()> {
        Ok(())
    }
}

/// The environment holds for both machines, whatever the settings say.
fn no_call_of_the_simulated_machine(by: &str) {
    let calls = Arc::new(Calls::default());
    let machine = Machine::sim().unwrap().watched(calls.clone());
    let config = CommConfig { multicast: Some(true), ..CommConfig::default() };
    let comms = Comm::init_all_with(&machine.devices(2).unwrap(), &config).unwrap();
    assert!(comms[1].describe().contains(&format!("switched off by {by}")), "{}", comms[1].describe());
    assert_eq!(calls.0.load(Ordering::Relaxed), 0);
}

fn multicast_calls() {
    let machine = open();
    assert!(machine.multicast_supported(1).unwrap());
    let granularity = machine.multicast_granularity(2, 4 << 20).unwrap();
    assert_eq!((granularity.minimum_bytes, granularity.recommended_bytes), (2 << 20, 512 << 20));
    let object = machine.multicast_create(2, 4 << 20).unwrap();
    machine.multicast_add_device(object, 1).unwrap();
    machine.multicast_bind(object, 2 << 20, PhysicalHandle(5), 6 << 20, 8 << 20).unwrap();
    machine.multicast_unbind(object, 1, 2 << 20, 8 << 20).unwrap();
    let shape = "2 devices, 4194304 bytes, handle types 1, flags 0";
    let expected = [
        format!("granularity 0 of {shape}"),
        format!("granularity 1 of {shape}"),
        format!("create {shape}"),
        "add 1 to 77".into(),
        "bind 8388608 of 5 from 6291456 at 2097152 of 77, flags 0".into(),
        "unbind 8388608 of 1 at 2097152 of 77".into(),
    ];
    assert_eq!(fake::multicast(), expected);
}

fn multicast_refused_by_the_fabric() {
    let error = open().multicast_bind(PhysicalHandle(77), 0, PhysicalHandle(5), 0, 4096).unwrap_err();
    match error.kind() {
        ErrorKind::Driver { call: "cuMulticastBindMem", code: 401, name, .. } => {
            assert_eq!(name, "CUDA_ERROR_ILLEGAL_STATE");
        }
        other => panic!("{other}"),
    }
}

fn multicast_on() {
    driver::look_up("cuMulticastCreate").unwrap();
    assert_eq!(driver::looked_up(), ["cuMulticastCreate"]);
}

fn nothing_but_what_is_called() {
    let _machine = open();
    let mut names = driver::looked_up();
    names.sort_unstable();
    assert_eq!(names, ["cuDeviceGet", "cuDeviceGetCount", "cuDriverGetVersion", "cuInit"]);
}

fn contexts_retained_and_released() {
    let machine = open();
    machine.device_facts(1).unwrap();
    assert_eq!((fake::retained(0), fake::retained(1)), (0, 0));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let machine = machine.clone();
            std::thread::spawn(move || machine.stream_create(1).unwrap())
        })
        .collect();
    let streams: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!((fake::retained(0), fake::retained(1)), (0, 1));
    streams.into_iter().for_each(|stream| machine.stream_destroy(stream).unwrap());
    assert_eq!(fake::streams(), 1, "the one for copies");
    drop(machine);
    assert_eq!((fake::retained(1), fake::streams()), (0, 0));
}

fn current() -> usize {
    let mut context = std::ptr::null_mut();
    // SAFETY: the out-pointer lives through the call.
    let answer = unsafe { cust_raw::cuCtxGetCurrent(&mut context) };
    assert_eq!(answer as u32, 0);
    context as usize
}

fn context_restored() {
    let machine = open();
    let use_both = || [0, 1].map(|device| machine.stream_create(device).unwrap());
    let streams = use_both();
    assert_eq!(current(), 0, "a thread without a context stays without");
    let own = cust::context::Context::new(cust::device::Device::get_device(0).unwrap()).unwrap();
    use_both().into_iter().chain(streams).for_each(|stream| {
        machine.stream_synchronize(stream).unwrap();
        assert!(!machine.stream_is_done(stream).unwrap());
        machine.stream_destroy(stream).unwrap();
    });
    assert_eq!(current(), own.as_raw() as usize);
}

fn copies() {
    let machine = open();
    let mut memory = [7_u8; 64];
    let address = memory.as_mut_ptr() as u64;
    machine.write(1, address, &[1, 2, 3]).unwrap();
    machine.fill(0, address + 2, 9, 60).unwrap();
    let mut bytes = [0; 5];
    machine.read(1, address, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 9, 9, 9]);
    machine.read(1, address + 60, &mut bytes[..4]).unwrap();
    assert_eq!(bytes[..4], [9, 9, 7, 7]);
    machine.copy_within_device(1, address, address + 32, 3).unwrap();
    machine.read(0, address + 31, &mut bytes).unwrap();
    assert_eq!(bytes, [9, 1, 2, 9, 9]);
    machine.fill(0, 0, 9, 0).unwrap();
    machine.write(0, 0, &[]).unwrap();
}

fn memory_facts() {
    let machine = open();
    assert_eq!(machine.memory_free_bytes(1).unwrap(), 3 << 20);
    let granularity = machine.granularity(0).unwrap();
    assert_eq!((granularity.minimum_bytes, granularity.recommended_bytes), (64 << 10, 2 << 20));
    // The fake driver cannot create memory, so the probe says no, and why.
    let device = symmem::Machine::from_backend(machine).device(0).unwrap();
    match fabric_support(&device) {
        FabricSupport::No { reason } => assert!(reason.contains("cuMemCreate"), "{reason}"),
        FabricSupport::Yes => panic!("nothing was made"),
    }
    assert!(!driver::looked_up().contains(&"cuMemImportFromShareableHandle"));
}

const SHAPE: LaunchShape = LaunchShape { blocks: 1, threads: 32, shared_bytes: 0, waits_itself: false };

fn argument_arrives_whole() {
    let machine = open();
    let module = machine.module_load(1, PTX, "kernels.ptx").unwrap();
    let function = machine.function(module, "kernel").unwrap();
    let stream = machine.stream_create(1).unwrap();
    for len in [0, 1, 8, 200] {
        let argument: Vec<u8> = (0..len).collect();
        machine.launch(stream, function, SHAPE, &argument).unwrap();
        assert_eq!(fake::argument(), argument);
    }
}

fn foreign_kernel() {
    let machine = open();
    let module = machine.module_load(1, PTX, "kernels.ptx").unwrap();
    let function = machine.function(module, "kernel").unwrap();
    let stream = machine.stream_create(0).unwrap();
    let error = machine.launch(stream, function, SHAPE, &[]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Foreign { .. }), "{error}");
    assert!(!driver::looked_up().contains(&"cuLaunchKernelEx"));
}

fn foreign_stream() {
    let machine = open();
    let stream = machine.stream_create(1).unwrap();
    let raw = machine.raw_stream(stream);
    // SAFETY: the stream is live.
    assert_eq!(unsafe { machine.stream_adopt(1, raw as u64) }.unwrap(), stream);
    // SAFETY: the stream is live.
    let error = unsafe { machine.stream_adopt(0, raw as u64) }.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Foreign { .. }), "{error}");
    // SAFETY: null is the default stream.
    let default = unsafe { machine.stream_adopt(1, 0) }.unwrap();
    assert_eq!(machine.raw_stream(default), std::ptr::null_mut());
}

fn fault() {
    let machine = open();
    let stream = machine.stream_create(0).unwrap();
    match machine.stream_synchronize(stream).unwrap_err().kind() {
        ErrorKind::Driver { call: "cuStreamSynchronize", code: 700, name, operand } => {
            assert_eq!(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
            assert!(operand.contains("stream"), "{operand}");
        }
        other => panic!("{other}"),
    }
}

fn new_code() {
    no_driver("12345 unknown CUDA error");
    assert_eq!(cust::init(cust::CudaFlags::empty()), Err(CudaError::UnknownError));
}

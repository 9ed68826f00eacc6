//! A `libcuda.so.1` with a few functions, compiled by the test that uses it: devices without kernels, whose memory is
//! the host's. The environment says how it behaves.
//!
//! | variable | what | default |
//! |---|---|---|
//! | `FAKE_CUDA_VERSION` | what `cuDriverGetVersion` gives | 13000 |
//! | `FAKE_CUDA_DEVICES` | number of devices | 2 |
//! | `FAKE_CUDA_INIT` | what `cuInit` answers | 0 |
//! | `FAKE_CUDA_BIND` | what `cuMulticastBindMem` answers | 0 |
//! | `FAKE_CUDA_FAULT` | what `cuStreamSynchronize` answers | 0 |

#![allow(non_snake_case, reason = "the names are the driver's")]
#![allow(
    clippy::missing_safety_doc,
    clippy::undocumented_unsafe_blocks,
    reason = "one rule for all: pointers are what the CUDA driver API asks of the caller, and the test is the only caller"
)]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

const DEVICES_MAX: usize = 4;
/// Contexts are addresses of these words.
static CONTEXTS: [AtomicI32; DEVICES_MAX] = [const { AtomicI32::new(0) }; DEVICES_MAX];
/// What the last launch was given as argument.
static ARGUMENT: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static STREAMS: AtomicI32 = AtomicI32::new(0);
/// Calls on multicast objects.
static MULTICAST: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn context(device: c_int) -> usize {
    &raw const CONTEXTS[device as usize] as usize
}

fn current() -> usize {
    STACK.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

// For the test.

#[unsafe(no_mangle)]
extern "C" fn fake_retained(device: c_int) -> c_int {
    CONTEXTS[device as usize].load(Ordering::SeqCst)
}

#[unsafe(no_mangle)]
extern "C" fn fake_streams() -> c_int {
    STREAMS.load(Ordering::SeqCst)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fake_argument(into: *mut u8, room: usize) -> usize {
    let argument = ARGUMENT.lock().unwrap();
    let n = argument.len().min(room);
    unsafe { into.copy_from_nonoverlapping(argument.as_ptr(), n) };
    argument.len()
}

/// Calls on multicast objects so far, a line each.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_multicast(into: *mut u8, room: usize) -> usize {
    let calls = MULTICAST.lock().unwrap().join("\n");
    let n = calls.len().min(room);
    unsafe { into.copy_from_nonoverlapping(calls.as_ptr(), n) };
    n
}

// The driver.

#[unsafe(no_mangle)]
extern "C" fn cuInit(_flags: c_uint) -> u32 {
    setting("FAKE_CUDA_INIT", 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> u32 {
    unsafe { version.write(setting("FAKE_CUDA_VERSION", 13000) as c_int) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    unsafe { count.write(setting("FAKE_CUDA_DEVICES", 2) as c_int) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> u32 {
    unsafe { device.write(ordinal) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, _room: c_int, device: c_int) -> u32 {
    unsafe { name.copy_from_nonoverlapping(c"Fake GPU 0".as_ptr(), 11) };
    unsafe { name.add(9).write(b'0' as c_char + device as c_char) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) -> u32 {
    unsafe { bytes.write(1 << 30) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> u32 {
    unsafe { uuid.write([0xf0 + device as u8; 16]) };
    0
}

/// 75 and 76 are the compute capability, 16 the multiprocessors, 132 whether there is multicast.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) -> u32 {
    let answer = match attribute {
        75 => 9,
        76 => 0,
        16 => 132,
        132 if setting("FAKE_CUDA_VERSION", 13000) >= 12010 => 1,
        _ => return 1,
    };
    unsafe { value.write(answer) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(out: *mut usize, device: c_int) -> u32 {
    CONTEXTS[device as usize].fetch_add(1, Ordering::SeqCst);
    unsafe { out.write(context(device)) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> u32 {
    CONTEXTS[device as usize].fetch_sub(1, Ordering::SeqCst);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(out: *mut usize) -> u32 {
    unsafe { out.write(current()) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: usize) -> u32 {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    });
    0
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(context: usize) -> u32 {
    STACK.with_borrow_mut(|stack| stack.push(context));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPopCurrent_v2(out: *mut usize) -> u32 {
    match STACK.with_borrow_mut(Vec::pop) {
        Some(context) => {
            unsafe { out.write(context) };
            0
        }
        None => 201,
    }
}

/// A stream is a box that holds its context; the flag 1 is `CU_STREAM_NON_BLOCKING`, and others are refused.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamCreate(out: *mut *mut usize, flags: c_uint) -> u32 {
    if current() == 0 || flags != 1 {
        return if flags == 1 { 201 } else { 1 };
    }
    STREAMS.fetch_add(1, Ordering::SeqCst);
    unsafe { out.write(Box::into_raw(Box::new(current()))) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamDestroy_v2(stream: *mut usize) -> u32 {
    STREAMS.fetch_sub(1, Ordering::SeqCst);
    drop(unsafe { Box::from_raw(stream) });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamGetCtx(stream: *mut usize, out: *mut usize) -> u32 {
    unsafe { out.write(if stream.is_null() { current() } else { *stream }) };
    0
}

/// Refuses a stream of another context than the current one.
unsafe fn check_stream(stream: *mut usize) -> u32 {
    match unsafe { stream.as_ref() } {
        Some(context) if *context == current() => 0,
        _ => 400,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamSynchronize(stream: *mut usize) -> u32 {
    match unsafe { check_stream(stream) } {
        0 => setting("FAKE_CUDA_FAULT", 0),
        refused => refused,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuStreamQuery(stream: *mut usize) -> u32 {
    match unsafe { check_stream(stream) } {
        0 => 600,
        refused => refused,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: *mut u8, from: *const u8, n: usize, stream: *mut usize) -> u32 {
    unsafe { to.copy_from_nonoverlapping(from, n) };
    unsafe { check_stream(stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: *const u8, n: usize, stream: *mut usize) -> u32 {
    unsafe { to.copy_from_nonoverlapping(from, n) };
    unsafe { check_stream(stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: *mut u8, from: *const u8, n: usize, stream: *mut usize) -> u32 {
    unsafe { to.copy_from_nonoverlapping(from, n) };
    unsafe { check_stream(stream) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    unsafe { (free.write(3 << 20), total.write(1 << 30)) };
    0
}

/// 64 KiB at least, 2 MiB recommended.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetAllocationGranularity(bytes: *mut usize, _: *const c_void, which: c_uint) -> u32 {
    unsafe { bytes.write(if which == 0 { 64 << 10 } else { 2 << 20 }) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemsetD8Async(to: *mut u8, byte: u8, n: usize, stream: *mut usize) -> u32 {
    unsafe { to.write_bytes(byte, n) };
    unsafe { check_stream(stream) }
}

/// Takes text that holds `.entry`; for other text it writes a log, as the assembler does.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadDataEx(
    out: *mut *mut usize,
    text: *const c_char,
    n_options: c_uint,
    options: *const c_int,
    values: *const *mut c_void,
) -> u32 {
    const ERROR_LOG_BUFFER: c_int = 5;
    let text = unsafe { CStr::from_ptr(text) }.to_str().expect("text");
    if text.contains(".entry") {
        unsafe { out.write(Box::into_raw(Box::new(current()))) };
        return 0;
    }
    let log = c"ptxas application ptx input, line 3; fatal";
    for option in 0..n_options as usize {
        if unsafe { *options.add(option) } == ERROR_LOG_BUFFER {
            let buffer = unsafe { *values.add(option) }.cast::<c_char>();
            unsafe { buffer.copy_from_nonoverlapping(log.as_ptr(), log.count_bytes() + 1) };
        }
    }
    218
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    out: *mut *mut usize,
    module: *mut usize,
    name: *const c_char,
) -> u32 {
    if unsafe { CStr::from_ptr(name) } != c"kernel" {
        return 500;
    }
    unsafe { out.write(module) };
    0
}

#[repr(C)]
struct LaunchConfig {
    shape: [c_uint; 7],
    stream: *mut usize,
    attributes: *const usize,
    n_attributes: c_uint,
}

/// Keeps the argument; takes it in the form with a length only.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernelEx(
    config: *const LaunchConfig,
    function: *mut usize,
    parameters: *mut *mut c_void,
    extra: *const usize,
) -> u32 {
    if !parameters.is_null() || unsafe { *function } != current() {
        return 400;
    }
    let refused = unsafe { check_stream((*config).stream) };
    if refused != 0 {
        return refused;
    }
    let mut argument = ARGUMENT.lock().unwrap();
    argument.clear();
    if !extra.is_null() {
        let [one, bytes, two, len, end] = unsafe { *extra.cast::<[usize; 5]>() };
        if (one, two, end) != (1, 2, 0) {
            return 1;
        }
        argument.extend(unsafe { std::slice::from_raw_parts(bytes as *const u8, *(len as *const usize)) });
    }
    0
}

/// `CUmulticastObjectProp`.
#[repr(C)]
struct MulticastProperties {
    n_devices: c_uint,
    len_bytes: usize,
    handle_types: u64,
    flags: u64,
}

/// Notes a call on multicast objects.
fn note(call: String) -> u32 {
    MULTICAST.lock().unwrap().push(call);
    0
}

fn shape(properties: &MulticastProperties) -> String {
    let MulticastProperties { n_devices, len_bytes, handle_types, flags } = properties;
    format!("{n_devices} devices, {len_bytes} bytes, handle types {handle_types}, flags {flags}")
}

/// 2 MiB at least, 512 MiB recommended.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMulticastGetGranularity(
    bytes: *mut usize,
    properties: *const MulticastProperties,
    which: c_uint,
) -> u32 {
    unsafe { bytes.write(if which == 0 { 2 << 20 } else { 512 << 20 }) };
    note(format!("granularity {which} of {}", shape(unsafe { &*properties })))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMulticastCreate(out: *mut u64, properties: *const MulticastProperties) -> u32 {
    unsafe { out.write(77) };
    note(format!("create {}", shape(unsafe { &*properties })))
}

#[unsafe(no_mangle)]
extern "C" fn cuMulticastAddDevice(object: u64, device: c_int) -> u32 {
    note(format!("add {device} to {object}"))
}

#[unsafe(no_mangle)]
extern "C" fn cuMulticastBindMem(
    object: u64,
    offset: usize,
    memory: u64,
    memory_offset: usize,
    len: usize,
    flags: u64,
) -> u32 {
    note(format!("bind {len} of {memory} from {memory_offset} at {offset} of {object}, flags {flags}"));
    setting("FAKE_CUDA_BIND", 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuMulticastUnbind(object: u64, device: c_int, offset: usize, len: usize) -> u32 {
    note(format!("unbind {len} of {device} at {offset} of {object}"))
}

//! Modules and their kernels (CUDA driver API, sections 6.10 "Module Management" and 6.22 "Execution Control").

use super::check::{answer, call, code_name, failed, succeeded};
use super::device::Devices;
use super::driver::{codes, functions};
use super::handle;
use crate::backend::{FunctionFacts, FunctionHandle, ModuleHandle};
use crate::ptx_version;
use crate::{Error, ErrorKind, Result};
use cust_raw::{CUfunction, CUfunction_attribute, CUjit_option, CUmodule, CUresult};
use std::ffi::{CStr, CString, c_void};

/// Room for what the driver's assembler says about an error.
const LOG_BYTES: usize = 16 << 10;

/// Answers that blame the PTX; with them the log is worth reading.
const BLAMES_PTX: [u32; 4] = [
    CUresult::CUDA_ERROR_INVALID_IMAGE as u32,
    CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as u32,
    CUresult::CUDA_ERROR_INVALID_PTX as u32,
    CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as u32,
];

/// Loads PTX on `device`. `driver` is the CUDA version that the driver supports.
pub(super) fn load(
    devices: &Devices,
    driver: (u32, u32),
    device: u32,
    ptx: &str,
    origin: &str,
) -> Result<ModuleHandle> {
    ptx_version::check_driver(driver, ptx, origin)?;
    let invalid = |log: String| Error::from(ErrorKind::InvalidPtx { origin: origin.into(), log });
    let text = CString::new(ptx).map_err(|error| invalid(error.to_string()))?;
    devices.within(device, |_| {
        let mut module = std::ptr::null_mut();
        let (code, log) = assemble(&mut module, &text)?;
        if BLAMES_PTX.contains(&code) {
            return Err(invalid(format!("on device {device}, {}: {}", code_name(code), log.trim())));
        }
        succeeded("cuModuleLoadDataEx", code, || format!("{origin} on device {device}; {}", log.trim()))?;
        Ok(ModuleHandle(handle::pack(device, module)?))
    })
}

/// Assembles and loads in the current context; gives the `CUresult` and the log of errors.
fn assemble(module: &mut CUmodule, text: &CStr) -> Result<(u32, String)> {
    let mut log = vec![0_u8; LOG_BYTES];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let size = std::ptr::without_provenance_mut::<c_void>(LOG_BYTES);
    let mut values = [log.as_mut_ptr().cast(), size];
    // SAFETY: the text is terminated, and text, options, values and log live through the call; the size passed is the
    // log's.
    let code = unsafe {
        answer!(cuModuleLoadDataEx(
            module,
            text.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr()
        ))
    }?;
    let written = CStr::from_bytes_until_nul(&log).map_or(&log[..], CStr::to_bytes);
    Ok((code, String::from_utf8_lossy(written).into_owned()))
}

/// Unloads a module.
pub(super) fn unload(devices: &Devices, module: ModuleHandle) -> Result<()> {
    devices.within(handle::device(module.0), |_| {
        // SAFETY: the handle came from `load`; unloading it twice is the caller's breach, which the driver answers.
        unsafe { call!(cuModuleUnload(handle::pointer(module.0)), "module {:#x}", module.0) }
    })
}

/// Finds a kernel and makes it resident, so that its first launch loads nothing: a load may wait for kernels under way,
/// and those may wait for the launch.
pub(super) fn function(devices: &Devices, module: ModuleHandle, name: &str) -> Result<FunctionHandle> {
    let missing = || ErrorKind::InvalidPtx {
        origin: format!("the module {:#x}", module.0),
        log: format!("it has no kernel `{name}`"),
    };
    let text = CString::new(name).map_err(|_| missing())?;
    let device = handle::device(module.0);
    devices.within(device, |_| {
        let mut function = std::ptr::null_mut();
        // SAFETY: out-pointer and name live through the call; the module came from `load`.
        let code =
            unsafe { answer!(cuModuleGetFunction(&mut function, handle::pointer(module.0), text.as_ptr())) }?;
        if code == codes::NOT_FOUND {
            return Err(missing().into());
        }
        succeeded("cuModuleGetFunction", code, || format!("`{name}`"))?;
        make_resident(function, name)?;
        Ok(FunctionHandle(handle::pack(device, function)?))
    })
}

/// Drivers before CUDA 12.4 lack the call; there `cuModuleGetFunction` itself loads (CUDA programming guide, "Lazy
/// Loading").
fn make_resident(function: CUfunction, name: &str) -> Result<()> {
    match functions::cuFuncLoad.get() {
        // SAFETY: the function was just found in a loaded module.
        Ok(load) => succeeded("cuFuncLoad", unsafe { load(function) }, || format!("`{name}`")),
        Err(_) => Ok(()),
    }
}

/// Limits of a kernel.
pub(super) fn function_facts(devices: &Devices, function: FunctionHandle) -> Result<FunctionFacts> {
    use CUfunction_attribute::{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CU_FUNC_ATTRIBUTE_NUM_REGS};
    devices.within(handle::device(function.0), |_| {
        Ok(FunctionFacts {
            threads_max: attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            registers: attribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        })
    })
}

fn attribute(function: FunctionHandle, attribute: CUfunction_attribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: the out-pointer lives through the call; the handle came from `function`.
    unsafe {
        call!(
            cuFuncGetAttribute(&mut value, attribute, handle::pointer(function.0)),
            "{attribute:?} of function {:#x}",
            function.0
        )
    }?;
    unsigned("cuFuncGetAttribute", value)
}

/// Blocks of `threads` that can be resident on one multiprocessor at once.
pub(super) fn resident_blocks(
    devices: &Devices,
    function: FunctionHandle,
    threads: u32,
    shared_bytes: u32,
) -> Result<u32> {
    let threads = i32::try_from(threads).unwrap_or(i32::MAX);
    let mut blocks = 0;
    devices.within(handle::device(function.0), |_| {
        // SAFETY: the out-pointer lives through the call; the handle came from `function`.
        unsafe {
            call!(
                cuOccupancyMaxActiveBlocksPerMultiprocessor(
                    &mut blocks,
                    handle::pointer(function.0),
                    threads,
                    shared_bytes as usize
                ),
                "function {:#x}, {threads} threads, {shared_bytes} bytes of shared memory",
                function.0
            )
        }
    })?;
    unsigned("cuOccupancyMaxActiveBlocksPerMultiprocessor", blocks)
}

fn unsigned(call: &'static str, value: i32) -> Result<u32> {
    u32::try_from(value).map_err(|_| failed(call, codes::UNKNOWN, format!("which gave {value}")))
}

//! Devices and their primary contexts.
//!
//! A primary context is retained when its device is first used and released with the machine: a process that drives one
//! of eight GPUs pays for one. A call makes the right context current and restores the caller's afterwards, so that
//! other libraries of the thread (which share primary contexts) see no change.

use super::check::{call, failed_in_cust};
use super::copy::CopyStream;
use crate::backend::DeviceFacts;
use crate::{ErrorKind, Result};
use cust::context::Context;
use cust::device::{Device, DeviceAttribute};
use cust_raw::CUcontext;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The devices that the driver shows this process.
#[derive(Debug)]
pub(super) struct Devices {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    device: Device,
    primary: OnceLock<Primary>,
    /// Held while the context is retained, so that it is retained once.
    opening: Mutex<()>,
}

/// A retained primary context and what lives in it for this crate.
#[derive(Debug)]
pub(super) struct Primary {
    /// Dropped before the context.
    pub(super) copies: CopyStream,
    context: Context,
}

impl Devices {
    /// Initialises the driver and finds the devices.
    ///
    /// # Errors
    /// [`ErrorKind::NoDriver`] without a driver, with one that does not start, or with one that shows no device.
    pub(super) fn open() -> Result<Self> {
        // SAFETY: `cuInit` takes no pointer; 0 is the one value of its flags.
        unsafe { call!(cuInit(0), "0") }.map_err(|error| match error.kind() {
            ErrorKind::NoDriver { .. } => error,
            cause => ErrorKind::NoDriver { reason: cause.to_string() }.into(),
        })?;
        let count =
            Device::num_devices().map_err(|e| failed_in_cust("cuDeviceGetCount", e, String::new()))?;
        if count == 0 {
            let reason = "the driver shows no device; is CUDA_VISIBLE_DEVICES empty?".into();
            return Err(ErrorKind::NoDriver { reason }.into());
        }
        Ok(Self { slots: (0..count).map(Slot::new).collect::<Result<_>>()? })
    }

    /// Number of devices.
    pub(super) fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// `CUdevice` of `device`.
    pub(super) fn ordinal(&self, device: u32) -> Result<i32> {
        Ok(self.slot(device)?.device.as_raw())
    }

    /// Facts of `device`.
    pub(super) fn facts(&self, device: u32) -> Result<DeviceFacts> {
        let slot = self.slot(device)?;
        let memory = slot.device.total_memory();
        let name = slot.device.name();
        Ok(DeviceFacts {
            name: name.map_err(|e| failed_in_cust("cuDeviceGetName", e, format!("device {device}")))?,
            uuid: self.uuid(device)?,
            memory_bytes: memory
                .map_err(|e| failed_in_cust("cuDeviceTotalMem_v2", e, format!("device {device}")))?
                as u64,
            sm: slot.attribute(DeviceAttribute::ComputeCapabilityMajor)? * 10
                + slot.attribute(DeviceAttribute::ComputeCapabilityMinor)?,
            n_multiprocessors: slot.attribute(DeviceAttribute::MultiprocessorCount)?,
        })
    }

    /// Whether `device` can load and store memory of `peer`; a device can always use its own.
    pub(super) fn can_access_peer(&self, device: u32, peer: u32) -> Result<bool> {
        let (from, to) = (self.ordinal(device)?, self.ordinal(peer)?);
        if device == peer {
            return Ok(true);
        }
        let mut can = 0;
        // SAFETY: the out-pointer lives through the call.
        unsafe { call!(cuDeviceCanAccessPeer(&mut can, from, to), "device {device}, peer {peer}") }?;
        Ok(can != 0)
    }

    /// Runs `body` with the primary context of `device` current.
    ///
    /// The current context is asked for each time rather than remembered: other code of the thread may change it.
    pub(super) fn within<T>(&self, device: u32, body: impl FnOnce(&Primary) -> Result<T>) -> Result<T> {
        let primary = self.primary(device)?;
        let wanted = primary.context.as_raw();
        if current()? == wanted {
            return body(primary);
        }
        // SAFETY: the context is retained as long as `self` lives.
        unsafe { call!(cuCtxPushCurrent_v2(wanted), "the context of device {device}") }?;
        let result = body(primary);
        let mut popped = std::ptr::null_mut();
        // SAFETY: the out-pointer lives through the call.
        let restored = unsafe { call!(cuCtxPopCurrent_v2(&mut popped), "the context of device {device}") };
        result.and_then(|value| restored.map(|()| value))
    }

    /// Runs `body` with some context current, for calls that belong to no device: the caller's if it has one, else
    /// one already retained, else device 0's.
    pub(super) fn within_any<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        if !current()?.is_null() {
            return body();
        }
        let retained = self.slots.iter().position(|slot| slot.primary.get().is_some());
        self.within(retained.unwrap_or(0) as u32, |_| body())
    }

    /// The primary context of `device` as a word to compare with.
    pub(super) fn context(&self, device: u32) -> Result<CUcontext> {
        Ok(self.primary(device)?.context.as_raw())
    }

    fn uuid(&self, device: u32) -> Result<[u8; 16]> {
        let mut uuid = cust_raw::CUuuid { bytes: [0; 16] };
        let ordinal = self.ordinal(device)?;
        // SAFETY: the out-pointer lives through the call.
        unsafe { call!(cuDeviceGetUuid_v2(&mut uuid, ordinal), "device {device}") }?;
        Ok(uuid.bytes.map(|byte| byte as u8))
    }

    fn slot(&self, device: u32) -> Result<&Slot> {
        let missing = || ErrorKind::NoSuchDevice { device, found: self.count() };
        Ok(self.slots.get(device as usize).ok_or_else(missing)?)
    }

    fn primary(&self, device: u32) -> Result<&Primary> {
        let slot = self.slot(device)?;
        match slot.primary.get() {
            Some(primary) => Ok(primary),
            None => slot.open(device),
        }
    }
}

impl Slot {
    fn new(device: u32) -> Result<Self> {
        let found = Device::get_device(device);
        let device = found.map_err(|e| failed_in_cust("cuDeviceGet", e, format!("device {device}")))?;
        Ok(Self { device, primary: OnceLock::new(), opening: Mutex::new(()) })
    }

    fn attribute(&self, attribute: DeviceAttribute) -> Result<u32> {
        let value = self.device.get_attribute(attribute);
        let value = value.map_err(|e| failed_in_cust("cuDeviceGetAttribute", e, format!("{attribute:?}")))?;
        Ok(value as u32)
    }

    #[cold]
    fn open(&self, device: u32) -> Result<&Primary> {
        let _once = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(primary) = self.primary.get() {
            return Ok(primary);
        }
        let opened = Primary::open(self.device, device)?;
        Ok(self.primary.get_or_init(|| opened))
    }
}

impl Primary {
    fn open(device: Device, index: u32) -> Result<Self> {
        let before = current()?;
        let opened = Context::new(device)
            .map_err(|e| failed_in_cust("cuDevicePrimaryCtxRetain", e, format!("device {index}")))
            .and_then(|context| Ok(Self { copies: CopyStream::new(context.as_raw())?, context }));
        // SAFETY: `before` was current in this thread a moment ago, or is null, which stands for none.
        unsafe { call!(cuCtxSetCurrent(before), "the caller's context") }?;
        opened
    }
}

fn current() -> Result<CUcontext> {
    let mut context = std::ptr::null_mut();
    // SAFETY: the out-pointer lives through the call.
    unsafe { call!(cuCtxGetCurrent(&mut context), "the current context") }?;
    Ok(context)
}

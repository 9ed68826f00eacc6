//! Small kernels that use multicast addresses.

use crate::seam::seam;
use anyhow::Result;
use symmem::Device;
use symmem::backend::LaunchShape;

const PTX: &str = include_str!("kernels.ptx");

/// Runs a kernel of `kernels.ptx` on a device, by one thread, and waits for it.
pub(super) fn run(device: &Device, name: &str, arguments: [u64; 2]) -> Result<()> {
    let backend = seam(device.machine());
    let module = backend.module_load(device.index(), PTX, "multicast/kernels.ptx")?;
    let stream = backend.stream_create(device.index())?;
    let bytes: Vec<u8> = arguments.iter().flat_map(|word| word.to_le_bytes()).collect();
    let shape = LaunchShape { blocks: 1, threads: 1, shared_bytes: 0, waits_itself: false };
    let ran = backend
        .function(module, name)
        .and_then(|function| backend.launch(stream, function, shape, &bytes))
        .and_then(|()| backend.stream_synchronize(stream));
    backend.stream_destroy(stream)?;
    backend.module_unload(module)?;
    Ok(ran?)
}

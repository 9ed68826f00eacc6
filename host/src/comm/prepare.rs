//! How kernels are loaded on all ranks before the first of them is launched on any.

use crate::comm::bootstrap::{Bootstrap, agree, equal, gather};
use crate::comm::operations::Operations;
use crate::comm::worker::{Shared, lock};
use crate::kernels::Kernels;
use crate::kernels_ptx::KernelSet;
use crate::symmetric::{Kind, Registrar};
use crate::{ErrorKind, Result};
use std::sync::Arc;
use symmem_device::kernels::{Dtype, Op};

/// The sets of all pairs of these types and operations.
///
/// # Errors
///
/// [`ErrorKind::Unsupported`] for a pair that no kernel does.
pub(crate) fn sets_of(dtypes: &[Dtype], ops: &[Op]) -> Result<Vec<KernelSet>> {
    let mut sets = Vec::with_capacity(dtypes.len() * ops.len());
    for set in dtypes.iter().flat_map(|&dtype| ops.iter().map(move |&op| KernelSet::for_op(dtype, op))) {
        if KernelSet::all().all(|known| known != set) {
            let (what, hint) = (format!("kernels of {set}"), "no kernel in the table does this".into());
            return Err(ErrorKind::Unsupported { what, hint }.into());
        }
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    Ok(sets)
}

/// The sets that do not reduce: every communicator has them.
pub(crate) fn sets_without_op() -> impl Iterator<Item = KernelSet> {
    KernelSet::all().filter(|set| set.op.is_none())
}

/// Loads sets of kernels together with all ranks: all have them afterwards, or all get the same error and none has.
pub(crate) fn load(kernels: &Kernels, bootstrap: &dyn Bootstrap, sets: &[KernelSet]) -> Result<()> {
    let names: Vec<_> = sets.iter().map(ToString::to_string).collect();
    let named = gather(bootstrap, "prepare: kernels", names.join(", ").into_bytes())?;
    let named: Vec<_> = named.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    equal("the kernels to prepare", &named)?;
    let loaded = agree(bootstrap, "prepare: modules loaded", kernels.load(sets))?;
    let own: Vec<u32> = loaded.iter().flat_map(|set| set.blocks_max.iter().copied()).collect();
    let of_all = gather(bootstrap, "prepare: resident blocks", bytemuck::cast_slice(&own).to_vec())?;
    let of_all: Vec<Vec<u32>> = of_all.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect();
    let counts: Vec<_> = of_all.iter().map(Vec::len).collect();
    equal("the number of kernels that are not loaded yet", &counts)?;
    let least = |place| of_all.iter().map(|its| its[place]).min().unwrap_or(1);
    kernels.keep(loaded, &(0..own.len()).map(least).collect::<Vec<_>>());
    Ok(())
}

/// As [`load`], behind the operations in flight: loading may wait for kernels that run, and those for a launch.
pub(crate) fn load_when_idle(
    kernels: &Kernels,
    registrar: &mut Registrar,
    sets: &[KernelSet],
    operations: &Operations<'_>,
) -> Result<()> {
    let _entered =
        tracing::info_span!("prepare", rank = registrar.bootstrap.rank(), n = sets.len()).entered();
    registrar.meet(Kind::Prepare, None, operations)?;
    let bootstrap = &*registrar.bootstrap;
    agree(bootstrap, "prepare: operations done", operations.wait())?;
    load(kernels, bootstrap, sets)
}

/// While it lives, the communicator launches nothing.
#[derive(Debug)]
pub(crate) struct Pause(Arc<Shared>);

impl Pause {
    /// From now on.
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        lock(&shared.order).pause();
        Self(shared.clone())
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        lock(&self.0.order).resume();
    }
}

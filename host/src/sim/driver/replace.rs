//! Other code in a kernel's place.

use super::Driver;
use super::module::Function;
use crate::sim::ptx::Kernel;
use crate::{ErrorKind, Result};
use std::sync::Arc;

impl Driver {
    /// Puts `kernel` in the place of every one of its name; gives their number. Launches that were captured keep their
    /// code.
    pub(crate) fn replace_kernel(&mut self, kernel: &Arc<Kernel>, origin: &str) -> Result<usize> {
        let loaded = self.modules.values_mut().flat_map(|module| &mut module.kernels);
        let places: Vec<_> = loaded.filter(|there| there.name == kernel.name).collect();
        if let Some(other) = places.iter().find(|there| there.param_bytes != kernel.param_bytes) {
            let log = format!(
                "kernel {} takes {} bytes, the one that it replaces {}",
                kernel.name, kernel.param_bytes, other.param_bytes
            );
            return Err(ErrorKind::InvalidPtx { origin: origin.into(), log }.into());
        }
        let n_places = places.len();
        places.into_iter().for_each(|place| *place = kernel.clone());
        for function in self.functions.values_mut().filter(|function| function.kernel.name == kernel.name) {
            let Function { device, module, .. } = **function;
            *function = Arc::new(Function { device, module, kernel: kernel.clone() });
        }
        Ok(n_places)
    }
}

//! Variables of a module: `.global` and `.const` (PTX ISA 5.1).

use crate::Result;
use crate::backend::{Access, PhysicalHandle};
use crate::sim::memory::{GRANULARITY_BYTES, Memory};
use crate::sim::ptx::{Module, Variable};

/// Memory that holds the variables of one module on its device.
#[derive(Debug)]
pub(super) struct Statics {
    address: u64,
    len_bytes: u64,
    physical: PhysicalHandle,
}

/// Offset of each variable, and the bytes of all.
fn lay_out(variables: &[Variable]) -> (Vec<u64>, u64) {
    let mut end = 0_u64;
    let offsets = variables.iter().map(|variable| {
        let offset = end.next_multiple_of(variable.align_bytes.max(1).into());
        end = offset + variable.bytes.len() as u64;
        offset
    });
    (offsets.collect(), end)
}

impl Statics {
    /// Gives the variables of a module memory on `device`, with their first values; `None` when it has none.
    pub(super) fn place(memory: &mut Memory, module: &mut Module, device: u32) -> Result<Option<Self>> {
        if module.variables.is_empty() {
            return Ok(None);
        }
        let (offsets, end) = lay_out(&module.variables);
        let statics = Self::allocate(memory, device, end.max(1).next_multiple_of(GRANULARITY_BYTES))?;
        for (variable, offset) in module.variables.iter().zip(&offsets) {
            if let Err(error) = memory.write(device, statics.address + offset, &variable.bytes) {
                statics.free(memory)?;
                return Err(error);
            }
        }
        let mut addresses = offsets.into_iter().map(|offset| statics.address + offset);
        module.bind_variables(|_| addresses.next().expect("one address for each variable"));
        Ok(Some(statics))
    }

    fn allocate(memory: &mut Memory, device: u32, len_bytes: u64) -> Result<Self> {
        let physical = memory.create(device, len_bytes, false)?;
        let address = match memory.reserve(len_bytes, 0, 0) {
            Ok(address) => address,
            Err(error) => {
                memory.release(physical)?;
                return Err(error);
            }
        };
        let statics = Self { address, len_bytes, physical };
        let mapped = memory.map_at(address, len_bytes, physical);
        if let Err(error) = mapped {
            memory.release(physical)?;
            memory.free_reservation(address, len_bytes)?;
            return Err(error);
        }
        memory.set_access(address, len_bytes, device, Access::ReadWrite, |owner| owner == device)?;
        Ok(statics)
    }

    /// Gives the memory back.
    pub(super) fn free(&self, memory: &mut Memory) -> Result<()> {
        memory.unmap(self.address, self.len_bytes)?;
        memory.release(self.physical)?;
        memory.free_reservation(self.address, self.len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_do_not_overlap_and_are_aligned() {
        let variable = |align_bytes, len| Variable {
            name: "v".into(),
            align_bytes,
            bytes: vec![0; len],
            read_only: false,
        };
        assert_eq!(lay_out(&[variable(1, 3), variable(8, 8), variable(4, 1)]), (vec![0, 8, 16], 17));
        assert_eq!(lay_out(&[]), (vec![], 0));
    }
}

//! Memory that the interpreter serves itself: parameters and local memory.

use crate::sim::interface::{Fault, Lanes, MemoryAccess};
use crate::sim::ptx::instruction::{Fill, Slot};
use crate::sim::ptx::operands::n_words;

/// Bytes of a whole access.
fn len_bytes(access: MemoryAccess) -> usize {
    usize::from(access.width_bytes) * usize::from(access.lanes)
}

/// The place of an access in `memory`.
fn range(memory: &[u8], access: MemoryAccess, address: u64) -> Result<std::ops::Range<usize>, Fault> {
    let len = len_bytes(access);
    if !address.is_multiple_of(len as u64) {
        return Err(Fault::Misaligned { address, required: len as u32 });
    }
    let out_of_bounds = Fault::OutOfBounds { address, len_bytes: memory.len() as u64 };
    let start = usize::try_from(address).map_err(|_| out_of_bounds.clone())?;
    match start.checked_add(len) {
        Some(end) if end <= memory.len() => Ok(start..end),
        _ => Err(out_of_bounds),
    }
}

/// Loads the elements at `address` of `memory`.
pub(super) fn load(memory: &[u8], access: MemoryAccess, address: u64) -> Result<Lanes, Fault> {
    let bytes = &memory[range(memory, access, address)?];
    let mut lanes = [0; 4];
    for (lane, chunk) in lanes.iter_mut().zip(bytes.chunks(usize::from(access.width_bytes.min(8)))) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        *lane = u64::from_le_bytes(word);
    }
    Ok(lanes)
}

/// Stores elements at `address` of `memory`.
pub(super) fn store(
    memory: &mut [u8],
    access: MemoryAccess,
    address: u64,
    values: &Lanes,
) -> Result<(), Fault> {
    let range = range(memory, access, address)?;
    for (lane, chunk) in values.iter().zip(memory[range].chunks_mut(usize::from(access.width_bytes.min(8)))) {
        let len = chunk.len();
        chunk.copy_from_slice(&lane.to_le_bytes()[..len]);
    }
    Ok(())
}

/// Gathers the elements of a store, without the bits above the element.
pub(super) fn gather(registers: &[u64], access: MemoryAccess, slots: &[Slot; 4]) -> Lanes {
    let mask = if access.width_bytes >= 8 { u64::MAX } else { (1 << (8 * access.width_bytes)) - 1 };
    let mut values = [0; 4];
    for (value, slot) in values.iter_mut().zip(slots).take(n_words(access)) {
        *value = registers[usize::from(*slot)] & mask;
    }
    values
}

/// Writes loaded elements to their registers.
pub(super) fn scatter(
    registers: &mut [u64],
    access: MemoryAccess,
    fill: Fill,
    slots: &[Slot; 4],
    values: &Lanes,
) {
    for (value, slot) in values.iter().zip(slots).take(n_words(access)) {
        registers[usize::from(*slot)] = match fill {
            Fill::Zero => *value,
            Fill::Sign { register_bits } => extend(*value, access.width_bytes, register_bits),
        };
    }
}

fn extend(value: u64, width_bytes: u8, register_bits: u8) -> u64 {
    let unused = 64 - 8 * u32::from(width_bytes);
    let signed = ((value << unused) as i64) >> unused;
    signed as u64 & (u64::MAX >> (64 - register_bits))
}

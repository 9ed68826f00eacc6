//! A chain of all-reduces in place: each takes the last one's result, and no host waits between them, so that one which
//! does not wait for its peers shows in the end.

use crate::random::{Random, Values};
use crate::reference;
use anyhow::{Result, ensure};
use symmem::{Dtype, Op, Window};

/// Elements of the message.
pub(crate) const COUNT: usize = 700;

/// Random inputs in the windows, and what `rounds` averages make of them: each takes the last one's result.
pub(crate) fn stage(windows: &mut [Window<f32>], rounds: usize) -> Result<Vec<f32>> {
    let mut random = Random::new(30);
    let mut values: Vec<Vec<u8>> =
        windows.iter().map(|_| random.elements(Dtype::F32, Values::Plain, COUNT)).collect();
    for (window, bytes) in windows.iter_mut().zip(&values) {
        window.write(0, &bytemuck::pod_collect_to_vec(bytes))?;
    }
    for round in 0..rounds {
        let result = reference::all_reduce(Dtype::F32, op(round), &values);
        values = vec![result; values.len()];
    }
    Ok(bytemuck::pod_collect_to_vec(&values[0]))
}

/// A sum and then an average, so that the values stay in range and no two operations commute.
pub(crate) fn op(round: usize) -> Op {
    [Op::Sum, Op::Avg, Op::Avg, Op::Prod, Op::Min][round % 5]
}

pub(crate) fn verify(windows: &[Window<f32>], expected: &[f32]) -> Result<()> {
    for (rank, window) in windows.iter().enumerate() {
        let found = window.to_vec()?;
        let wrong = found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
        ensure!(wrong.is_none(), "rank {rank}: element {wrong:?} is wrong");
    }
    Ok(())
}

//! Multicast: what windows have behind one address, and that all ranks go on together where one cannot have it. On the
//! simulated machine alone: a program that uses multicast can disturb a fabric that others share.

mod collectives;
mod faults;
mod kernels;
mod windows;

use crate::harness::Case;

pub(super) fn cases() -> Vec<Case> {
    [windows::cases(), faults::cases(), collectives::cases()].into_iter().flatten().collect()
}

pub(super) use windows::PROGRAMS;

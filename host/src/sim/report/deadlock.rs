//! Who waits for what when nothing moves.

use super::memory::place;
use crate::sim::driver::module::Launch;
use crate::sim::engine::environment::SHARED_BIT;
use crate::sim::engine::{WaitKind, WaitingThread};
use crate::sim::memory::address_map::AddressMap;
use std::fmt::Write;
use std::sync::Arc;

/// Groups that a report lists.
const GROUPS_MAX: usize = 32;

/// Threads that wait at the same instruction for the same kind of thing.
struct Group<'t> {
    first: &'t WaitingThread,
    n_threads: usize,
    n_blocks: usize,
    last_block: u32,
}

/// The report of a deadlock, or of a run that is given up, with the reason. `waiting` is ordered by device, kernel,
/// block and thread.
pub(crate) fn deadlock(
    map: &AddressMap,
    why: &str,
    waiting: &[WaitingThread],
    blocks: &[(Arc<Launch>, usize)],
) -> String {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for thread in waiting {
        match groups.iter_mut().find(|group| alike(group.first, thread)) {
            Some(group) => {
                group.n_threads += 1;
                group.n_blocks += usize::from(group.last_block != thread.block);
                group.last_block = thread.block;
            }
            None => groups.push(Group { first: thread, n_threads: 1, n_blocks: 1, last_block: thread.block }),
        }
    }
    let verb = if waiting.len() == 1 { "waits" } else { "wait" };
    let mut text = format!("{why}; {} {verb}:", count(waiting.len(), "thread"));
    for group in groups.iter().take(GROUPS_MAX) {
        describe(&mut text, map, group);
    }
    if groups.len() > GROUPS_MAX {
        let _ = write!(text, "\n  and {} more", count(groups.len() - GROUPS_MAX, "group"));
    }
    for (launch, n) in blocks {
        let function = &launch.function;
        let _ = write!(
            text,
            "\n  {} of kernel {} on device {} cannot start: there is no room beside the resident blocks",
            count(*n, "block"),
            function.kernel.name,
            function.device
        );
    }
    text
}

fn alike(a: &WaitingThread, b: &WaitingThread) -> bool {
    let kind = match (a.kind, b.kind) {
        (WaitKind::Barrier { number: a, .. }, WaitKind::Barrier { number: b, .. }) => a == b,
        (WaitKind::Warp { mask: a }, WaitKind::Warp { mask: b }) => a == b,
        (a, b) => std::mem::discriminant(&a) == std::mem::discriminant(&b),
    };
    kind && a.pc == b.pc && Arc::ptr_eq(&a.launch.function, &b.launch.function)
}

fn describe(text: &mut String, map: &AddressMap, group: &Group<'_>) {
    let WaitingThread { launch, block, thread, pc, kind } = group.first;
    let kernel = &launch.function.kernel;
    let _ = write!(
        text,
        "\n  kernel {} on device {}, block {block}, thread {thread}",
        kernel.name, launch.function.device
    );
    if group.n_threads > 1 {
        let others = count(group.n_threads - 1, "other thread");
        let _ = write!(text, " (and {others}, in {} in all)", count(group.n_blocks, "block"));
    }
    let _ = write!(text, ": {}\n    at {}", wait(map, *kind), kernel.location(*pc));
}

fn wait(map: &AddressMap, kind: WaitKind) -> String {
    match kind {
        WaitKind::Poll(seen) if seen.address & SHARED_BIT != 0 => {
            format!("polls shared memory at {:#x}, sees {:#x}", seen.address & !SHARED_BIT, seen.value)
        }
        WaitKind::Poll(seen) => format!("polls {}, sees {:#x}", place(map, seen.address), seen.value),
        WaitKind::Barrier { number, n_here, n_expected } => {
            format!("waits at block barrier {number}, {n_here} of {n_expected} threads are there")
        }
        WaitKind::Warp { mask } => format!("waits for the lanes {mask:#010x} of its warp"),
        WaitKind::Nothing => "runs and touches no memory that others see".into(),
    }
}

fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

//! Work on large buffers, chunk by chunk, on all cores.

use anyhow::Result;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Elements that one thread works on at a time: a few MiB for all ranks, whatever the message.
pub(crate) const CHUNK_ELEMENTS: u64 = 1 << 18;

/// Runs `work` for each of `n` tasks on as many threads as there are cores; gives the first error.
pub(crate) fn for_each(n: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(n);
    if threads <= 1 {
        return (0..n).try_for_each(work);
    }
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let task = next.fetch_add(1, Ordering::Relaxed);
                    if task >= n {
                        return;
                    }
                    if let Err(error) = work(task) {
                        failed.lock().unwrap_or_else(|poison| poison.into_inner()).get_or_insert(error);
                        next.store(n, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(|poison| poison.into_inner()).map_or(Ok(()), Err)
}

/// The chunks of `count` elements as (first, length).
pub(crate) fn chunks(count: u64) -> Vec<(u64, u64)> {
    let starts = (0..count).step_by(CHUNK_ELEMENTS as usize);
    starts.map(|first| (first, CHUNK_ELEMENTS.min(count - first))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn every_task_is_done_once() {
        for n in [0, 1, 2, 1000] {
            let done: Vec<_> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            for_each(n, |task| {
                done[task].fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .expect("no task fails");
            assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn an_error_is_given() {
        let error = for_each(100, |task| if task == 57 { bail!("task 57") } else { Ok(()) });
        assert_eq!(error.expect_err("57 fails").to_string(), "task 57");
    }

    #[test]
    fn chunks_cover_all() {
        for count in [0, 1, CHUNK_ELEMENTS, CHUNK_ELEMENTS + 1, 10 * CHUNK_ELEMENTS - 1] {
            let chunks = chunks(count);
            assert_eq!(chunks.iter().map(|(_, len)| len).sum::<u64>(), count);
            assert!(chunks.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0));
            assert!(chunks.iter().all(|(_, len)| (1..=CHUNK_ELEMENTS).contains(len)));
        }
    }
}

//! What is said above the tables: where a run takes place, what is measured, how it is checked.

use super::Job;
use crate::measure::Mode;
use crate::sizes::human_bytes;
use crate::timer::REPETITIONS;
use symmem::backend::MachineKind;

impl Job {
    /// Lines above all tables.
    pub(super) fn header(&self) -> String {
        let (facts, settings) = (&self.facts, &self.settings);
        let kind = match self.machine.kind() {
            MachineKind::Cuda => "GPUs",
            MachineKind::Sim if facts.procs > 1 => {
                "simulated; bytes between devices are counted, and instructions with what ranks poll till others come"
            }
            MachineKind::Sim => {
                "simulated; instructions, bytes between devices and hops are counted, time is not"
            }
        };
        let timed = match settings.mode {
            Mode::Sim if settings.is_looped => {
                format!("operations a round: {}, by one kernel", settings.iterations)
            }
            Mode::Sim => format!("operations a round: {}", settings.iterations),
            Mode::Device => format!(
                "{} operations by one kernel on each device, after {} by launches and {} by a kernel to warm up, median \
                 of {REPETITIONS}; checked: {} by one kernel",
                u64::from(settings.iterations) * u64::from(settings.replays),
                settings.warmup,
                settings.iterations,
                settings.iterations
            ),
            Mode::Eager => format!(
                "{} operations launched one by one after {} to warm up, median of {REPETITIONS}",
                settings.iterations, settings.warmup
            ),
            Mode::Host => format!(
                "time of the calls on the host for one rank, {} operations one by one after {} to warm up, median of \
                 {REPETITIONS}",
                settings.iterations, settings.warmup
            ),
            Mode::Graph => format!(
                "a graph of {} operations, {} replays after {} operations and one replay to warm up, median of \
                 {REPETITIONS}",
                settings.iterations, settings.replays, settings.warmup
            ),
        };
        let mut lines = vec![
            format!("# symmem {}  machine {}: {kind}", facts.symmem_version, facts.machine),
            format!(
                "# {} ranks{} on {}{}  driver for CUDA {}",
                self.n_ranks,
                if facts.procs > 1 { ", each a process," } else { "" },
                facts.devices(),
                if facts.ranks_per_gpu > 1 {
                    format!(", each the device of up to {} of them", facts.ranks_per_gpu)
                } else {
                    String::new()
                },
                facts.driver_version.as_deref().unwrap_or("unknown")
            ),
            format!("# sizes: {}", self.sizes.describe()),
            format!("# runs: {timed}; 1 GB is 10^9 bytes"),
            format!("# check: {}", self.check_line()),
        ];
        lines.extend(self.nccl_line());
        lines.join("\n")
    }

    fn nccl_line(&self) -> Option<String> {
        Some(match self.nccl.as_ref()? {
            Err(reason) => format!("# vs: without NCCL: {reason:#}"),
            Ok(nccl) => format!(
                "# vs: {}; in turns with ours, on the same buffers: ordinary (R0), registered as windows (R2){}; ratio: \
                 the better of both over ours",
                nccl.describe(),
                self.lacks_windows.as_ref().map_or(String::new(), |reason| format!(", but not: {reason}"))
            ),
        })
    }

    fn check_line(&self) -> String {
        let settings = &self.settings;
        if settings.rounds == 0 {
            return "none (-c 0), so wrong results go unseen".to_owned();
        }
        let bound = settings.check_bytes_max.map_or(String::new(), |max| {
            format!(" (fewer where they would compare more than {})", human_bytes(max))
        });
        format!(
            "rounds of new random data: {}{bound}, seed {}; outputs poisoned before, every bit of every rank compared, \
             inputs and {} guard bytes on either side of each buffer too",
            settings.rounds,
            settings.seed,
            crate::team::GUARD_BYTES
        )
    }
}

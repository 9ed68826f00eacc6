//! What is known of the machine and of this program, for the header and for every JSON row.

use crate::link::Link;
use crate::machine::places;
use crate::team::own_device;
use anyhow::Result;
use serde::Serialize;
use std::path::Path;
use symmem::Machine;
use symmem::backend::MachineKind;

/// Of the facts, what every JSON row has, whatever was measured.
#[derive(Serialize)]
pub(crate) struct FactsRow<'a> {
    machine: &'static str,
    /// One for each rank, separated by commas.
    device_names: String,
    driver_version: Option<&'a str>,
    symmem_version: &'static str,
    rustc_version: Option<&'static str>,
    git_revision: Option<&'static str>,
    argv: &'a str,
}

/// Facts that are equal for all rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// `cuda` or `sim`.
    pub(crate) machine: &'static str,
    /// Processes that drive the ranks.
    pub(crate) procs: u32,
    /// Ranks that may share a device.
    pub(crate) ranks_per_gpu: u32,
    /// Names of the devices that take part, in rank order.
    pub(crate) device_names: Vec<String>,
    /// Highest CUDA version that the driver supports.
    pub(crate) driver_version: Option<String>,
    /// NCCL's version, where it is compared with.
    pub(crate) nccl_version: Option<String>,
    /// Version of symmem.
    pub(crate) symmem_version: &'static str,
    /// Compiler that built this program.
    pub(crate) rustc_version: Option<&'static str>,
    /// Commit that it was built from.
    pub(crate) git_revision: Option<&'static str>,
    /// The command line.
    pub(crate) argv: String,
}

impl Facts {
    /// Asks the machine; beside the number of ranks stands how many may share a device.
    pub(crate) fn of(
        machine: &Machine,
        (n_ranks, ranks_per_gpu): (u32, u32),
        link: Option<&mut Link>,
    ) -> Result<Self> {
        let procs = if link.is_some() { n_ranks } else { 1 };
        let names = match link {
            None => {
                let names = places(machine, n_ranks, ranks_per_gpu)?
                    .into_iter()
                    .map(|device| Ok(device.facts()?.name));
                names.collect::<symmem::Result<_>>()?
            }
            Some(link) => {
                let own = own_device(machine, link)?.facts()?.name;
                link.gather(&own)?
            }
        };
        let driver = machine.driver_version()?;
        Ok(Self {
            machine: match machine.kind() {
                MachineKind::Cuda => "cuda",
                MachineKind::Sim => "sim",
            },
            procs,
            ranks_per_gpu,
            device_names: names,
            driver_version: Some(format!("{}.{}", driver.0, driver.1)),
            nccl_version: None,
            symmem_version: env!("CARGO_PKG_VERSION"),
            rustc_version: option_env!("SYMMEM_BENCH_RUSTC"),
            git_revision: option_env!("SYMMEM_BENCH_REVISION"),
            argv: argv(),
        })
    }

    /// For a JSON row.
    pub(crate) fn row(&self) -> FactsRow<'_> {
        FactsRow {
            machine: self.machine,
            device_names: self.device_names.join(", "),
            driver_version: self.driver_version.as_deref(),
            symmem_version: self.symmem_version,
            rustc_version: self.rustc_version,
            git_revision: self.git_revision,
            argv: &self.argv,
        }
    }

    /// The devices in few words: `2 × NVIDIA H200`.
    pub(crate) fn devices(&self) -> String {
        let mut groups: Vec<(usize, &str)> = Vec::new();
        for name in &self.device_names {
            match groups.last_mut() {
                Some((n, last)) if *last == name => *n += 1,
                _ => groups.push((1, name)),
            }
        }
        let groups: Vec<_> = groups.iter().map(|(n, name)| format!("{n} × {name}")).collect();
        groups.join(", ")
    }
}

/// The command line; of the program's path only the name.
fn argv() -> String {
    let mut args = std::env::args();
    let program = args.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map_or(program.clone(), |name| name.to_string_lossy().into());
    [name].into_iter().chain(args).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_devices_are_counted() {
        let names = ["A", "A", "B"].map(str::to_owned).to_vec();
        assert_eq!(Facts { device_names: names, ..Facts::default() }.devices(), "2 × A, 1 × B");
    }
}

//! `cargo xtask doctor`: what this machine has. Needs neither CUDA nor working kernels, and prints every path tried.

mod gpu;
mod nccl;
mod toolchain;

#[allow(unreachable_pub, reason = "the host crate's own file, where it is public")]
#[path = "../../../host/src/multicast_switch.rs"]
mod multicast_switch;

use crate::{kernels, shell};
use anyhow::Result;
use multicast_switch::MulticastSwitch;
use symmem_builder::ptxas::Ptxas;

/// One line of the report.
pub(crate) struct Finding {
    /// What was looked for.
    pub(crate) subject: &'static str,
    /// What was found, or why not.
    pub(crate) text: String,
    /// Where it was looked for, one line each.
    pub(crate) tried: Vec<String>,
}

impl Finding {
    /// A finding with nothing tried beside it.
    pub(crate) fn new(subject: &'static str, text: impl Into<String>) -> Self {
        Self { subject, text: text.into(), tried: Vec::new() }
    }

    /// Adds what was tried.
    pub(crate) fn tried(mut self, tried: Vec<String>) -> Self {
        self.tried = tried;
        self
    }
}

/// Runs the command. What is missing is part of the report, not a failure.
pub(crate) fn run() -> Result<()> {
    let mut findings = toolchain::findings();
    let ptx_version = stage_one(&mut findings);
    findings.extend(gpu::findings(ptx_version));
    findings.push(nccl::finding());
    findings.push(multicast());
    findings.push(ptxas());
    for Finding { subject, text, tried } in findings {
        println!("{subject:12} {}", text.replace('\n', "\n             "));
        for place in tried {
            println!("             - {place}");
        }
    }
    Ok(())
}

/// The PTX version of the kernels, if they can be compiled.
fn stage_one(findings: &mut Vec<Finding>) -> Option<u32> {
    match kernels::compile(&shell::device_dir()) {
        Ok((modules, _)) => {
            let version = modules.iter().map(|module| module.version).max()?;
            let text = format!("compiled and checked: PTX {}.{}", version / 10, version % 10);
            findings.push(Finding::new("kernels", text));
            Some(version)
        }
        Err(error) => {
            findings.push(Finding::new("kernels", format!("NOT COMPILED: {error}")));
            None
        }
    }
}

fn multicast() -> Finding {
    let switch = MulticastSwitch::from_env();
    let names =
        ["SYMMEM_MULTICAST", "NCCL_NVLS_ENABLE", "NVSHMEM_DISABLE_NVLS", "TORCH_SYMM_MEM_DISABLE_MULTICAST"];
    let values = names.map(|name| match std::env::var(name) {
        Ok(value) => format!("{name}={value}"),
        Err(_) => format!("{name} is not set"),
    });
    let text = match (switch.is_on(), MulticastSwitch::wish(|name| std::env::var(name).ok())) {
        (false, _) => switch.to_string(),
        (true, Some(true)) => "on where all devices have it; no collective uses it yet".into(),
        (true, _) => "on on the simulated machine; on GPUs only with SYMMEM_MULTICAST=1".into(),
    };
    Finding::new("multicast", text).tried(values.into())
}

fn ptxas() -> Finding {
    match shell::ptxas_cache().map(|cache| Ptxas::find(&cache)) {
        Ok(Ok(ptxas)) => Finding::new("ptxas", ptxas.path().display().to_string()),
        Ok(Err(error)) => {
            Finding::new("ptxas", format!("{error}\n`cargo xtask check-ptx` installs it with pip"))
        }
        Err(error) => Finding::new("ptxas", format!("{error:#}")),
    }
}

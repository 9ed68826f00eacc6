//! Settings of a communicator and the variables they come from.

use crate::backend::MachineKind;
use crate::collectives::TuningTable;
use crate::environment::with_variables;
use crate::multicast_switch::MulticastSwitch;
use crate::{ErrorKind, Result};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use symmem_device::kernels::{Algorithm, Dtype, Op};

/// Settings of a communicator. Rank 0's hold for all; ranks that ask for another stride are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommConfig {
    /// Bound of every wait in a kernel in milliseconds. `SYMMEM_TIMEOUT_MS`, default 600 000.
    pub timeout_ms: u64,
    /// Bound of every wait of the host for another rank in milliseconds. `SYMMEM_HOST_TIMEOUT_MS`, default 60 000.
    pub host_timeout_ms: u64,
    /// Bytes of the symmetric space per rank, rounded up to the granularity. `SYMMEM_WIN_STRIDE`; default: the largest
    /// device memory in the team.
    pub stride_bytes: Option<u64>,
    /// The algorithm to use wherever a kernel of it exists. `SYMMEM_ALGO`.
    pub algorithm: Option<Algorithm>,
    /// Blocks per launch. `SYMMEM_CTAS`.
    pub ctas: Option<u32>,
    /// Whether multicast may be used where every device has it: rank 0's wish is not enough, any rank's no is. Not set: on
    /// the simulated machine, and not on GPUs, on which it has not been tried. `SYMMEM_MULTICAST`; the variables of
    /// [`crate::multicast_switch`] that forbid it hold whatever this says.
    pub multicast: Option<bool>,
    /// Whether every collective is checked before it begins: that all ranks call the same, with equal counts, types,
    /// operations and offsets, and that none is under way. Then it is three kernels, each a node of a captured graph (two
    /// where there are no elements), and a mistake is an error ([`ErrorKind::Mismatched`], [`ErrorKind::Concurrent`]) where
    /// it is undefined otherwise.
    /// `SYMMEM_CHECK`, 0 or 1; default: on the simulated machine, and not on GPUs.
    pub check: Option<bool>,
    /// Element types whose kernels are loaded at init, each with all of [`Self::ops`]; others by
    /// [`Comm::prepare`](crate::Comm::prepare). Equal on all ranks. `SYMMEM_DTYPES`, separated by commas; default: f32,
    /// f16, bf16.
    pub dtypes: Vec<Dtype>,
    /// Operations whose kernels are loaded at init. `SYMMEM_OPS`, separated by commas; default: sum.
    pub ops: Vec<Op>,
    /// Most threads per block, rounded up to whole warps of 32, though never fewer than ranks. `SYMMEM_THREADS`.
    pub threads: Option<u32>,
    /// Rows that go before those that this build carries ([`TuningTable::built_in`]). `SYMMEM_TUNING`, the path of a file
    /// as `cargo xtask tune` writes it.
    pub tuning: Option<TuningTable>,
    /// How many ranks of this process may share one device, for tests of more ranks than there are GPUs: each gets its
    /// share of the blocks that can be resident at once, and there is no multicast. `SYMMEM_RANKS_PER_GPU`, default 1.
    pub ranks_per_device: u32,
    /// What [`Self::host_timeout_ms`] is multiplied by on the simulated machine. `SYMMEM_SIM_SLOWDOWN`, default 1: raise
    /// it where many simulated processes share few cores.
    pub sim_slowdown: u32,
}

impl Default for CommConfig {
    fn default() -> Self {
        Self {
            timeout_ms: 600_000,
            host_timeout_ms: 60_000,
            stride_bytes: None,
            algorithm: None,
            ctas: None,
            multicast: None,
            check: None,
            dtypes: vec![Dtype::F32, Dtype::F16, Dtype::Bf16],
            ops: vec![Op::Sum],
            threads: None,
            tuning: None,
            ranks_per_device: 1,
            sim_slowdown: 1,
        }
    }
}

impl CommConfig {
    /// The settings of the environment.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] naming the variable that cannot be read.
    pub fn from_env() -> Result<Self> {
        with_variables(|set| Self::from_variables(set))
    }

    /// The settings of any set of variables.
    ///
    /// # Errors
    ///
    /// As [`Self::from_env`].
    pub fn from_variables(variable: impl Fn(&'static str) -> Option<String>) -> Result<Self> {
        let default = Self::default();
        let algorithm = variable("SYMMEM_ALGO").filter(|name| !name.is_empty());
        Ok(Self {
            timeout_ms: number(&variable, "SYMMEM_TIMEOUT_MS")?.unwrap_or(default.timeout_ms),
            host_timeout_ms: number(&variable, "SYMMEM_HOST_TIMEOUT_MS")?.unwrap_or(default.host_timeout_ms),
            stride_bytes: number(&variable, "SYMMEM_WIN_STRIDE")?,
            algorithm: algorithm.map(|name| algorithm_named(&name)).transpose()?,
            ctas: number(&variable, "SYMMEM_CTAS")?,
            multicast: MulticastSwitch::wish(&variable),
            check: switch(&variable, "SYMMEM_CHECK")?,
            dtypes: list(&variable, "SYMMEM_DTYPES", Dtype::ALL, Dtype::name)?.unwrap_or(default.dtypes),
            ops: list(&variable, "SYMMEM_OPS", Op::ALL, Op::name)?.unwrap_or(default.ops),
            threads: number(&variable, "SYMMEM_THREADS")?,
            tuning: tuning(&variable)?,
            ranks_per_device: number(&variable, "SYMMEM_RANKS_PER_GPU")?.unwrap_or(default.ranks_per_device),
            sim_slowdown: number(&variable, "SYMMEM_SIM_SLOWDOWN")?.unwrap_or(default.sim_slowdown),
        })
    }

    pub(crate) fn host_timeout(&self, machine: MachineKind) -> Duration {
        let factor = if machine == MachineKind::Sim { self.sim_slowdown } else { 1 };
        Duration::from_millis(self.host_timeout_ms).saturating_mul(factor)
    }
}

fn tuning(variable: &impl Fn(&'static str) -> Option<String>) -> Result<Option<TuningTable>> {
    let path = variable("SYMMEM_TUNING").filter(|path| !path.is_empty());
    let read = |path: String| {
        TuningTable::read(Path::new(&path)).map_err(|error| error.context("reading what SYMMEM_TUNING names"))
    };
    path.map(read).transpose()
}

fn algorithm_named(name: &str) -> Result<Algorithm> {
    one_of("SYMMEM_ALGO", name, Algorithm::ALL, Algorithm::name)
}

/// The one of `all` that has this name.
fn one_of<T: Copy>(
    variable: &'static str,
    name: &str,
    all: &[T],
    name_of: fn(T) -> &'static str,
) -> Result<T> {
    all.iter().copied().find(|one| name_of(*one) == name).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| name_of(*one)).collect();
        ErrorKind::InvalidArgument { what: variable, found: name.into(), allowed: names.join(", ") }.into()
    })
}

/// A list of names separated by commas; `None` if the variable is not set.
fn list<T: Copy>(
    variable: impl Fn(&'static str) -> Option<String>,
    what: &'static str,
    all: &[T],
    name_of: fn(T) -> &'static str,
) -> Result<Option<Vec<T>>> {
    let Some(found) = variable(what).filter(|text| !text.is_empty()) else { return Ok(None) };
    found.split(',').map(|name| one_of(what, name.trim(), all, name_of)).collect::<Result<_>>().map(Some)
}

fn switch(variable: &impl Fn(&'static str) -> Option<String>, what: &'static str) -> Result<Option<bool>> {
    let Some(found) = variable(what).filter(|text| !text.is_empty()) else { return Ok(None) };
    match found.trim() {
        "0" => Ok(Some(false)),
        "1" => Ok(Some(true)),
        _ => Err(ErrorKind::InvalidArgument { what, found, allowed: "0 or 1".into() }.into()),
    }
}

fn number<N: FromStr + PartialEq + From<u8>>(
    variable: &impl Fn(&'static str) -> Option<String>,
    what: &'static str,
) -> Result<Option<N>> {
    let Some(found) = variable(what).filter(|text| !text.is_empty()) else { return Ok(None) };
    match found.trim().parse::<N>() {
        Ok(number) if number != N::from(0) => Ok(Some(number)),
        _ => Err(ErrorKind::InvalidArgument { what, found, allowed: "a whole number above 0".into() }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<CommConfig> {
        CommConfig::from_variables(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn reads_every_variable() {
        let config = from(&[
            ("SYMMEM_TIMEOUT_MS", "5"),
            ("SYMMEM_HOST_TIMEOUT_MS", "6"),
            ("SYMMEM_WIN_STRIDE", "4194304"),
            ("SYMMEM_ALGO", "two_shot_ld_st"),
            ("SYMMEM_CTAS", "7"),
            ("SYMMEM_MULTICAST", "1"),
            ("SYMMEM_CHECK", "0"),
            ("SYMMEM_DTYPES", "bf16, f32"),
            ("SYMMEM_OPS", "max"),
            ("SYMMEM_THREADS", "64"),
            ("SYMMEM_TUNING", concat!(env!("CARGO_MANIFEST_DIR"), "/src/collectives/plan/measured.txt")),
            ("SYMMEM_RANKS_PER_GPU", "4"),
            ("SYMMEM_SIM_SLOWDOWN", "8"),
        ]);
        let expected = CommConfig {
            timeout_ms: 5,
            host_timeout_ms: 6,
            stride_bytes: Some(4 << 20),
            algorithm: Some(Algorithm::TwoShotLdSt),
            ctas: Some(7),
            multicast: Some(true),
            check: Some(false),
            dtypes: vec![Dtype::Bf16, Dtype::F32],
            ops: vec![Op::Max],
            threads: Some(64),
            tuning: Some(TuningTable::built_in().clone()),
            ranks_per_device: 4,
            sim_slowdown: 8,
        };
        assert_eq!(config.expect("all are valid"), expected);
        assert_eq!(from(&[("SYMMEM_ALGO", "")]).expect("empty is unset"), CommConfig::default());
    }

    #[test]
    fn names_the_variable_that_is_wrong() {
        let wrong = [
            ("SYMMEM_TIMEOUT_MS", "0"),
            ("SYMMEM_HOST_TIMEOUT_MS", "-1"),
            ("SYMMEM_WIN_STRIDE", "4G"),
            ("SYMMEM_CTAS", "1.5"),
            ("SYMMEM_RANKS_PER_GPU", "two"),
            ("SYMMEM_SIM_SLOWDOWN", "0"),
            ("SYMMEM_ALGO", "LL"),
            ("SYMMEM_CHECK", "yes"),
            ("SYMMEM_DTYPES", "f32,f33"),
            ("SYMMEM_OPS", "plus"),
            ("SYMMEM_TUNING", "/no/such/file"),
        ];
        for (name, value) in wrong {
            let text = from(&[(name, value)]).expect_err(name).to_string();
            let wrong = value.split(',').next_back().unwrap_or(value);
            assert!(text.contains(name) && text.contains(wrong), "{text}");
        }
    }
}

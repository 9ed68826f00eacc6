//! What kind of machine to simulate, and the environment variables that override it.

use super::multicast;
use super::schedule::Schedule;
pub use super::schedule::ScheduleKind;
use crate::environment::with_variables;
use crate::{Error, ErrorKind, Result};

/// What to do when every thread only re-polls words that nobody changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStall {
    /// Report a deadlock.
    Report,
    /// Let the virtual clock jump, further each time, so that the kernels' own timeouts fire; report a deadlock when
    /// even that changes nothing. The clock jumps while a host thread synchronises; one that only asks whether work is
    /// done bounds its wait by its own clock.
    AdvanceClock,
}

/// What is observed beside the plain run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Nothing: the fastest.
    None,
    /// Causal chains of link crossings ([`crate::backend::WorkCounters::hops`]).
    Hops,
    /// Every event ([`crate::sim::SimMachine::trace`]), for small runs.
    Trace,
    /// Data races: the first one ends the run with [`crate::ErrorKind::Race`].
    Races,
    /// Weak memory: loads may give old values, as far as PTX allows and the machine's model goes (see
    /// ARCHITECTURE.md, "The simulated machine as a checker").
    Weak {
        /// Data races too. Without, a run goes on behind a race, so that its consequences show.
        races: bool,
    },
}

/// A call on multicast objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MulticastCall {
    /// `cuMulticastCreate`.
    Create,
    /// `cuMulticastAddDevice`.
    AddDevice,
    /// `cuMulticastBindMem`.
    Bind,
    /// `cuMemMap` of a multicast object.
    Map,
}

/// Calls on multicast objects that fail on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastFault {
    /// Which call.
    pub call: MulticastCall,
    /// About which device; `None`: whichever. Nothing tells it of `Create` and `Map`.
    pub device: Option<u32>,
    /// What it answers, a `CUresult` that real drivers give: 2 (resources ran out), 401 (a fabric in an illegal state) or
    /// 802 (a fabric that is not ready yet).
    pub code: u32,
    /// How often; then it goes well.
    pub n_times: u32,
}

/// Shape and rules of a simulated machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// Number of devices, at least 1.
    pub n_devices: u32,
    /// Memory of one device in bytes.
    pub device_memory_bytes: u64,
    /// Seed of every choice that the machine makes.
    pub seed: u64,
    /// How the next thread is chosen.
    pub schedule: ScheduleKind,
    /// Compute capability as major × 10 + minor.
    pub sm: u32,
    /// Multiprocessors of one device.
    pub n_multiprocessors: u32,
    /// Threads that one multiprocessor can hold.
    pub threads_per_multiprocessor: u32,
    /// Blocks that one multiprocessor can hold.
    pub blocks_per_multiprocessor: u32,
    /// CUDA version that the simulated driver supports, (major, minor).
    pub driver_version: (u32, u32),
    /// What is observed.
    pub probe: ProbeKind,
    /// What to do when nothing moves.
    pub on_stall: OnStall,
    /// How long to wait, in milliseconds, for another host thread or process to change something before
    /// [`SimConfig::on_stall`] applies. A machine that only one host thread has ever used does not wait.
    pub stall_grace_ms: u64,
    /// The same in place of it while the machine has memory of another process.
    pub stall_grace_shared_ms: u64,
    /// Polls of each waiting thread, without any change, that make a stall. It must be more than the polls between two
    /// looks at the clock or at an abort word in the kernels.
    pub stall_polls: u32,
    /// Instructions, of all threads together, after which a run in which no kernel begins or ends is given up.
    pub instructions_max: u64,
    /// Whether `peer_access[device * n_devices + peer]`; `None`: every device can access every other.
    pub peer_access: Option<Vec<bool>>,
    /// Whether each device has multicast; `None`: every device from sm_90 on.
    pub multicast: Option<Vec<bool>>,
    /// Multicast objects that can live at once: the switches have room for so many teams.
    pub multicast_objects_max: u32,
    /// Calls on multicast objects that fail on purpose.
    pub multicast_fault: Option<MulticastFault>,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            n_devices: 8,
            device_memory_bytes: 1 << 30,
            seed: 1,
            schedule: ScheduleKind::Random,
            sm: 90,
            n_multiprocessors: 132,
            threads_per_multiprocessor: 2048,
            blocks_per_multiprocessor: 32,
            driver_version: (12, 8),
            probe: ProbeKind::None,
            on_stall: OnStall::Report,
            stall_grace_ms: 2000,
            stall_grace_shared_ms: 120_000,
            stall_polls: 8192,
            instructions_max: 1 << 40,
            peer_access: None,
            multicast: None,
            multicast_objects_max: 128,
            multicast_fault: None,
        }
    }
}

impl SimConfig {
    /// The default machine with what the environment overrides:
    ///
    /// | variable | field |
    /// |---|---|
    /// | `SYMMEM_SIM_DEVICES` | [`SimConfig::n_devices`] |
    /// | `SYMMEM_SIM_MEMORY_BYTES` | [`SimConfig::device_memory_bytes`] |
    /// | `SYMMEM_SIM_SEED` | [`SimConfig::seed`] |
    /// | `SYMMEM_SIM_SCHEDULE` | [`SimConfig::schedule`]: `random`, `round-robin`, `unfair`, or a whole [`Schedule`] such as `pct:7:d3:n10000` |
    /// | `SYMMEM_SIM_SM` | [`SimConfig::sm`] |
    /// | `SYMMEM_SIM_MULTIPROCESSORS` | [`SimConfig::n_multiprocessors`] |
    /// | `SYMMEM_SIM_DRIVER` | [`SimConfig::driver_version`], e.g. `12.8` |
    /// | `SYMMEM_SIM_PROBE` | [`SimConfig::probe`]: `none`, `hops`, `trace`, `races`, `weak`, `weak-only` |
    /// | `SYMMEM_SIM_ON_STALL` | [`SimConfig::on_stall`]: `report`, `advance-clock` |
    /// | `SYMMEM_SIM_STALL_MS` | [`SimConfig::stall_grace_ms`] |
    /// | `SYMMEM_SIM_STALL_SHARED_MS` | [`SimConfig::stall_grace_shared_ms`] |
    /// | `SYMMEM_SIM_SLOWDOWN` | what the default of `stall_grace_shared_ms` is multiplied by |
    /// | `SYMMEM_SIM_MULTICAST_FAULT` | [`SimConfig::multicast_fault`], e.g. `bind:401`, `create:2`, `add:802`, `map:2`: every time |
    /// | `SYMMEM_SIM_INSTRUCTIONS_MAX` | [`SimConfig::instructions_max`] |
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] names a variable whose value cannot be read.
    pub fn from_env() -> Result<Self> {
        with_variables(|set| Self::from_lookup(set))
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut config = Self::default();
        let set = &lookup;
        read(set, "SYMMEM_SIM_DEVICES", "a number", &mut config.n_devices, parse)?;
        read(set, "SYMMEM_SIM_MEMORY_BYTES", "a number", &mut config.device_memory_bytes, parse)?;
        read(set, "SYMMEM_SIM_SEED", "a number", &mut config.seed, parse)?;
        let mut schedule = Schedule { kind: config.schedule, seed: config.seed };
        let allowed = "random, round-robin, unfair, or a schedule with its seed such as pct:7:d3:n10000";
        read(set, "SYMMEM_SIM_SCHEDULE", allowed, &mut schedule, |text| parse_schedule(text, config.seed))?;
        (config.schedule, config.seed) = (schedule.kind, schedule.seed);
        read(set, "SYMMEM_SIM_SM", "a number such as 90", &mut config.sm, parse)?;
        read(set, "SYMMEM_SIM_MULTIPROCESSORS", "a number", &mut config.n_multiprocessors, parse)?;
        read(set, "SYMMEM_SIM_DRIVER", "a version such as 12.8", &mut config.driver_version, parse_version)?;
        read(
            set,
            "SYMMEM_SIM_PROBE",
            "none, hops, trace, races, weak, weak-only",
            &mut config.probe,
            parse_probe,
        )?;
        read(set, "SYMMEM_SIM_ON_STALL", "report, advance-clock", &mut config.on_stall, parse_on_stall)?;
        read(set, "SYMMEM_SIM_STALL_MS", "a number", &mut config.stall_grace_ms, parse)?;
        let mut slowdown = 1;
        read(set, "SYMMEM_SIM_SLOWDOWN", "a number", &mut slowdown, parse::<u32>)?;
        config.stall_grace_shared_ms *= u64::from(slowdown);
        read(set, "SYMMEM_SIM_STALL_SHARED_MS", "a number", &mut config.stall_grace_shared_ms, parse)?;
        read(set, "SYMMEM_SIM_INSTRUCTIONS_MAX", "a number", &mut config.instructions_max, parse)?;
        let (name, allowed) =
            ("SYMMEM_SIM_MULTICAST_FAULT", "create, add, bind or map, a colon, and 2, 401 or 802");
        read(set, name, allowed, &mut config.multicast_fault, |text| parse_multicast_fault(text).map(Some))?;
        Ok(config)
    }

    /// Whether `device` can access memory of `peer`.
    pub(crate) fn can_access(&self, device: u32, peer: u32) -> bool {
        device == peer
            || self
                .peer_access
                .as_ref()
                .is_none_or(|matrix| matrix[(device * self.n_devices + peer) as usize])
    }

    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] names a field that makes no machine.
    pub(crate) fn check(&self) -> Result<()> {
        let cells = self.n_devices as usize * self.n_devices as usize;
        let multicast_cells = self.multicast.as_ref().map_or(self.n_devices as usize, Vec::len);
        let fault_code = self.multicast_fault.map_or(2, |fault| fault.code);
        let matrix_cells = self.peer_access.as_ref().map_or(cells, Vec::len);
        let rules = [
            ("n_devices", u64::from(self.n_devices), "1 to 1024", (1..=1024).contains(&self.n_devices)),
            (
                "device_memory_bytes",
                self.device_memory_bytes,
                "at least 2 MiB",
                self.device_memory_bytes >= 2 << 20,
            ),
            (
                "n_multiprocessors",
                self.n_multiprocessors.into(),
                "1 to 4096",
                (1..=4096).contains(&self.n_multiprocessors),
            ),
            (
                "threads_per_multiprocessor",
                self.threads_per_multiprocessor.into(),
                "at least 1024, the largest block",
                self.threads_per_multiprocessor >= 1024,
            ),
            (
                "blocks_per_multiprocessor",
                self.blocks_per_multiprocessor.into(),
                "at least 1",
                self.blocks_per_multiprocessor > 0,
            ),
            ("stall_polls", self.stall_polls.into(), "at least 1", self.stall_polls > 0),
            ("peer_access", matrix_cells as u64, "n_devices × n_devices entries", matrix_cells == cells),
            (
                "multicast",
                multicast_cells as u64,
                "n_devices entries",
                multicast_cells == self.n_devices as usize,
            ),
            ("multicast_fault", fault_code.into(), "2, 401, 802", multicast::code(fault_code).is_some()),
        ];
        match rules.into_iter().find(|rule| !rule.3) {
            Some((what, found, allowed, _)) => Err(invalid(what, found.to_string(), allowed)),
            None => Ok(()),
        }
    }
}

fn invalid(what: &'static str, found: String, allowed: &str) -> Error {
    ErrorKind::InvalidArgument { what, found, allowed: allowed.into() }.into()
}

fn read<T>(
    lookup: &impl Fn(&str) -> Option<String>,
    name: &'static str,
    allowed: &str,
    target: &mut T,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<()> {
    if let Some(text) = lookup(name).filter(|text| !text.trim().is_empty()) {
        *target = parse(text.trim()).ok_or_else(|| invalid(name, text, allowed))?;
    }
    Ok(())
}

fn parse<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A kind takes the machine's seed; a whole schedule brings its own.
fn parse_schedule(text: &str, seed: u64) -> Option<Schedule> {
    match text {
        "random" => Some(Schedule { kind: ScheduleKind::Random, seed }),
        "round-robin" => Some(Schedule { kind: ScheduleKind::RoundRobin, seed }),
        "unfair" => Some(Schedule { kind: ScheduleKind::Unfair, seed }),
        _ => text.parse().ok(),
    }
}

fn parse_multicast_fault(text: &str) -> Option<MulticastFault> {
    let (call, code) = text.split_once(':')?;
    let call = match call {
        "create" => MulticastCall::Create,
        "add" => MulticastCall::AddDevice,
        "bind" => MulticastCall::Bind,
        "map" => MulticastCall::Map,
        _ => return None,
    };
    let code = code.parse().ok().filter(|&code| multicast::code(code).is_some())?;
    Some(MulticastFault { call, device: None, code, n_times: u32::MAX })
}

fn parse_probe(text: &str) -> Option<ProbeKind> {
    match text {
        "none" => Some(ProbeKind::None),
        "hops" => Some(ProbeKind::Hops),
        "trace" => Some(ProbeKind::Trace),
        "races" => Some(ProbeKind::Races),
        "weak" => Some(ProbeKind::Weak { races: true }),
        "weak-only" => Some(ProbeKind::Weak { races: false }),
        _ => None,
    }
}

fn parse_on_stall(text: &str) -> Option<OnStall> {
    match text {
        "report" => Some(OnStall::Report),
        "advance-clock" => Some(OnStall::AdvanceClock),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<SimConfig> {
        SimConfig::from_lookup(|asked| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn reads_each_variable() {
        let check = |name, value, expect: fn(&SimConfig) -> bool| {
            assert!(expect(&with(name, value).unwrap()), "{name}")
        };
        check("SYMMEM_SIM_DEVICES", "3", |c| c.n_devices == 3);
        check("SYMMEM_SIM_MEMORY_BYTES", "4194304", |c| c.device_memory_bytes == 4 << 20);
        check("SYMMEM_SIM_SEED", " 77 ", |c| c.seed == 77);
        check("SYMMEM_SIM_SCHEDULE", "round-robin", |c| c.schedule == ScheduleKind::RoundRobin);
        check("SYMMEM_SIM_SCHEDULE", "unfair:9", |c| c.schedule == ScheduleKind::Unfair && c.seed == 9);
        check("SYMMEM_SIM_SM", "80", |c| c.sm == 80);
        check("SYMMEM_SIM_MULTIPROCESSORS", "2", |c| c.n_multiprocessors == 2);
        check("SYMMEM_SIM_DRIVER", "12.4", |c| c.driver_version == (12, 4));
        check("SYMMEM_SIM_PROBE", "none", |c| c.probe == ProbeKind::None);
        check("SYMMEM_SIM_ON_STALL", "advance-clock", |c| c.on_stall == OnStall::AdvanceClock);
        check("SYMMEM_SIM_STALL_MS", "5", |c| c.stall_grace_ms == 5);
        check("SYMMEM_SIM_STALL_SHARED_MS", "6", |c| c.stall_grace_shared_ms == 6);
        check("SYMMEM_SIM_SLOWDOWN", "3", |c| c.stall_grace_shared_ms == 360_000);
        check("SYMMEM_SIM_MULTICAST_FAULT", "bind:401", |c| {
            let always =
                MulticastFault { call: MulticastCall::Bind, device: None, code: 401, n_times: u32::MAX };
            c.multicast_fault == Some(always)
        });
        check("SYMMEM_SIM_INSTRUCTIONS_MAX", "1000", |c| c.instructions_max == 1000);
    }

    #[test]
    fn names_a_variable_that_cannot_be_read() {
        let error = with("SYMMEM_SIM_DRIVER", "new").unwrap_err();
        assert_eq!(error.to_string(), "SYMMEM_SIM_DRIVER is new, allowed: a version such as 12.8");
    }

    #[test]
    fn refuses_a_machine_that_cannot_be() {
        let refused = |change: fn(&mut SimConfig)| {
            let mut config = SimConfig::default();
            change(&mut config);
            assert!(config.check().is_err(), "{config:?}");
        };
        SimConfig::default().check().unwrap();
        refused(|c| c.n_devices = 0);
        refused(|c| c.device_memory_bytes = 4096);
        refused(|c| c.n_multiprocessors = 0);
        refused(|c| c.threads_per_multiprocessor = 512);
        refused(|c| c.blocks_per_multiprocessor = 0);
        refused(|c| c.stall_polls = 0);
        refused(|c| c.peer_access = Some(vec![true; 3]));
        refused(|c| c.multicast = Some(vec![true; 3]));
        let odd = MulticastFault { call: MulticastCall::Bind, device: None, code: 1, n_times: 1 };
        let config = SimConfig { multicast_fault: Some(odd), ..SimConfig::default() };
        assert!(config.check().is_err());
    }
}

//! A machine on which a chosen call fails, once.

use std::sync::{Arc, Mutex, PoisonError};
use symmem::backend::Backend;
use symmem::tap::{Call, Tap, Watch};
use symmem::{Error, ErrorKind, Result};

/// Calls that give something back. A fault of theirs is told after they have taken effect: what a driver refuses to
/// take back stays for ever, and no caller can do anything about it.
const RELEASES: [&str; 11] = [
    "mem_release",
    "mem_unmap",
    "multicast_unbind",
    "mem_free",
    "address_free",
    "host_free",
    "module_unload",
    "stream_destroy",
    "event_destroy",
    "graph_destroy",
    "graph_exec_destroy",
];

/// Which call fails, and how.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The method of [`Backend`]; `None`: whichever.
    pub(crate) call: Option<&'static str>,
    /// Calls about this device, and those about none, count; `None`: all count.
    pub(crate) device: Option<u32>,
    /// So many of them go well before one fails.
    pub(crate) n_before: u64,
    /// What the one answers.
    pub(crate) error: ErrorKind,
}

/// What is armed.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    armed: Mutex<Option<Fault>>,
    /// The call that failed since the last arming.
    fired: Mutex<Option<Call>>,
    /// Calls that could have failed since the last arming, in their order.
    seen: Mutex<Vec<&'static str>>,
}

/// A machine on which calls can be made to fail.
pub(crate) type Faulty = Tap<Faults>;

/// `inner`, on which nothing fails before [`Faults::arm`].
pub(crate) fn faulty(inner: Arc<dyn Backend>) -> Arc<Faulty> {
    Arc::new(Tap::new(inner, Faults::default()))
}

impl Fault {
    /// What the answer says was called.
    pub(crate) const CALL: &'static str = "cuFault";

    /// The answer of a driver whose memory ran out.
    pub(crate) fn out_of_memory() -> ErrorKind {
        let operand = "a fault on purpose".into();
        ErrorKind::Driver { call: Self::CALL, code: 2, name: "CUDA_ERROR_OUT_OF_MEMORY".into(), operand }
    }

    fn matches(&self, call: &Call) -> bool {
        let is_its_device = |device: u32| call.device.is_none_or(|its| its == device);
        self.call.is_none_or(|name| name == call.name) && self.device.is_none_or(is_its_device)
    }
}

impl Faults {
    /// Makes one call fail from now on.
    pub(crate) fn arm(&self, fault: Fault) {
        *lock(&self.fired) = None;
        lock(&self.seen).clear();
        *lock(&self.armed) = Some(fault);
    }

    /// Lets everything go well again; gives the call that failed, if the fault came to pass.
    pub(crate) fn disarm(&self) -> Option<Call> {
        *lock(&self.armed) = None;
        lock(&self.fired).take()
    }

    /// Names of the calls, up to the one that failed, that the fault was for since the last arming.
    pub(crate) fn seen(&self) -> Vec<&'static str> {
        lock(&self.seen).clone()
    }

    fn answer(&self, call: &Call) -> Result<()> {
        let mut armed = lock(&self.armed);
        let Some(fault) = armed.as_mut().filter(|fault| fault.matches(call)) else { return Ok(()) };
        lock(&self.seen).push(call.name);
        if fault.n_before > 0 {
            fault.n_before -= 1;
            return Ok(());
        }
        let error = Error::from(fault.error.clone()).context(call.name);
        *armed = None;
        *lock(&self.fired) = Some(*call);
        Err(error)
    }
}

impl Watch for Faults {
    fn before(&self, call: &Call) -> Result<()> {
        if RELEASES.contains(&call.name) { Ok(()) } else { self.answer(call) }
    }

    fn after(&self, call: &Call) -> Result<()> {
        if RELEASES.contains(&call.name) { self.answer(call) } else { Ok(()) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use symmem::sim::{SimConfig, SimMachine};

    #[test]
    fn the_chosen_call_of_the_chosen_device_fails_once() {
        let sim = SimMachine::new(SimConfig::default()).expect("a machine");
        let machine = faulty(sim);
        let fault =
            Fault { call: Some("mem_create"), device: Some(1), n_before: 1, error: Fault::out_of_memory() };
        machine.watch().arm(fault.clone());
        let create = |device| machine.mem_create(device, 2 << 20).is_ok();
        assert_eq!([0, 1, 0, 2].map(create), [true; 4]);
        assert!(machine.granularity(1).is_ok() && !create(1) && create(1));
        assert_eq!(machine.watch().disarm().map(|call| call.name), Some("mem_create"));
        machine.watch().arm(fault);
        assert_eq!(machine.watch().disarm(), None);
        assert!(create(1) && create(1));
    }

    #[test]
    fn a_release_that_fails_has_released() {
        let sim = SimMachine::new(SimConfig::default()).expect("a machine");
        let machine = faulty(sim.clone());
        let physical = machine.mem_create(1, 2 << 20).expect("memory");
        let address = machine.address_reserve(2 << 20, 0, 0).expect("addresses");
        machine.mem_map(address, 2 << 20, physical).expect("mapped");
        machine.watch().arm(Fault {
            call: None,
            device: Some(1),
            n_before: 0,
            error: Fault::out_of_memory(),
        });
        assert!(machine.mem_unmap(address, 2 << 20).is_err());
        assert_eq!(sim.live().mappings, 0);
    }
}

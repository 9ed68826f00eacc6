//! What a simulated machine can do and no other: run again from the start under another schedule, and run other code in
//! a kernel's place.

use super::engine;
use super::machine::SimMachine;
use super::ptx;
use super::schedule::{Choice, Schedule};
use crate::sim::config::{ProbeKind, SimConfig};
use crate::{ErrorKind, Result};

impl SimMachine {
    /// Starts time, schedule and probe anew, as in a machine that was just made with them; memory, modules and streams
    /// stay. So two runs of the same work from the same memory are the same run if their schedules are.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] while work is in flight.
    pub fn restart(&self, schedule: &Schedule, probe: ProbeKind) -> Result<()> {
        let (kind, seed) = (schedule.kind.clone(), schedule.seed);
        let config = SimConfig { schedule: kind, seed, probe, ..self.config.clone() };
        self.between_runs("a restart", |core| {
            core.set_engine(engine::engine(&config), schedule.clone());
            Ok(())
        })
    }

    /// The choices that the run has had since the machine was made or restarted, where the schedule is
    /// [`super::ScheduleKind::Choices`].
    pub fn choices(&self) -> Vec<Choice> {
        self.lock().engine.choices().to_vec()
    }

    /// Puts the kernels of `text` in the place of those of the same names in every module that is loaded, and gives the
    /// number of those that it replaced. Later launches run the new code; what was captured before keeps the old.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidPtx`] for a text that is none, or whose parameters are others than those it replaces;
    /// [`ErrorKind::Unsupported`] for one with variables, and while work is in flight.
    pub fn replace_kernels(&self, text: &str, origin: &str) -> Result<usize> {
        let module = ptx::parse(text).map_err(|error| error.with_origin(origin))?;
        if let Some(variable) = module.variables.first() {
            let what = format!("replacing a kernel by one with variables ({})", variable.name);
            return Err(
                ErrorKind::Unsupported { what, hint: "load the text as a module of its own".into() }.into()
            );
        }
        self.between_runs("replacing a kernel", |core| {
            let mut n_replaced = 0;
            for kernel in &module.kernels {
                n_replaced += core.driver.replace_kernel(kernel, origin)?;
            }
            Ok(n_replaced)
        })
    }

    fn between_runs<T>(
        &self,
        what: &str,
        act: impl FnOnce(&mut super::machine::Core) -> Result<T>,
    ) -> Result<T> {
        let mut core = self.lock();
        if !core.driver.tasks.is_empty() {
            let hint = "synchronise every stream first".into();
            return Err(
                ErrorKind::Unsupported { what: format!("{what} while work is in flight"), hint }.into()
            );
        }
        act(&mut core)
    }
}

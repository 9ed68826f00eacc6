//! A machine on which a kernel of your own runs again and again from the same state.

use super::description::{Argument, Description};
use crate::finding::{Finding, How};
use crate::subject::{Run, first_schedule};
use anyhow::{Context, Result};
use std::sync::Arc;
use symmem::backend::{Backend, FunctionHandle, LaunchShape};
use symmem::sim::{ProbeKind, SimConfig, SimMachine};
use symmem::{Comm, Machine, Stream, Window};

/// Polls without any change that make a stall: more than a bounded wait lets pass before it looks at its clock.
const STALL_POLLS: u32 = 5000;

/// All ranks of one communicator. The communicators go before the streams.
pub(crate) struct Bed {
    sim: Arc<SimMachine>,
    comms: Vec<Comm>,
    streams: Vec<Stream>,
    functions: Vec<FunctionHandle>,
    /// By buffer and rank.
    windows: Vec<Vec<Window<u8>>>,
    description: Description,
}

impl Bed {
    /// `n_ranks` ranks with the kernel in `text`.
    pub(crate) fn new(description: &Description, text: &str, n_ranks: u32) -> Result<Self> {
        let sim = SimMachine::new(SimConfig {
            n_devices: n_ranks,
            stall_polls: STALL_POLLS,
            stall_grace_ms: 0,
            instructions_max: 1 << 31,
            ..SimConfig::default()
        })?;
        let machine = Machine::from_backend(sim.clone());
        let devices = machine.devices(n_ranks)?;
        let comms = Comm::init_all(&devices)?;
        let streams = devices.iter().map(Stream::new).collect::<symmem::Result<_>>()?;
        let function =
            |device| sim.function(sim.module_load(device, text, "the kernel")?, &description.kernel);
        let functions = (0..n_ranks).map(function).collect::<symmem::Result<_>>()?;
        let alloc = |bytes: usize| {
            let asked = comms.iter().map(|comm| comm.alloc(bytes)).collect::<symmem::Result<Vec<_>>>()?;
            asked.into_iter().map(symmem::Registration::wait).collect::<symmem::Result<_>>()
        };
        let windows = description.buffers.iter().map(|buffer| alloc(buffer.bytes));
        let windows = windows.collect::<symmem::Result<_>>()?;
        Ok(Self { sim, comms, streams, functions, windows, description: description.clone() })
    }

    /// The machine.
    pub(crate) fn sim(&self) -> &SimMachine {
        &self.sim
    }

    /// Any rank's part of the communicator.
    pub(crate) fn comm(&self) -> &Comm {
        &self.comms[0]
    }

    /// Name, flat offset and bytes of each buffer.
    pub(crate) fn places(&self) -> Vec<(String, u64, u64)> {
        let buffers = self.description.buffers.iter().zip(&self.windows);
        buffers
            .map(|(buffer, windows)| {
                (buffer.name.clone(), windows[0].flat_offset().bytes, buffer.bytes as u64)
            })
            .collect()
    }

    /// Runs the kernel; `Some` is what is wrong. Behind a finding the bed is of no use any more.
    pub(crate) fn run(&mut self, run: &Run) -> Result<Option<Finding>> {
        self.reset().context("setting memory before the run")?;
        self.sim.restart(&run.schedule, run.probe)?;
        if let Err(error) = self.execute() {
            return Ok(Some(Finding::of_error(run, &error)));
        }
        if run.probe != ProbeKind::Trace {
            self.sim.restart(&run.schedule, ProbeKind::None)?;
        }
        Ok(self.verify()?.map(|report| Finding { run: run.clone(), how: How::WrongResult, report }))
    }

    fn reset(&mut self) -> Result<()> {
        self.sim.restart(&first_schedule(), ProbeKind::None)?;
        let n_ranks = self.comms.len() as u32;
        let buffers = self.description.buffers.iter().zip(&mut self.windows).zip(1..);
        for ((buffer, windows), salt) in buffers {
            for (rank, window) in (0..).zip(windows) {
                window.write(0, &buffer.content.bytes(buffer.bytes, rank, n_ranks, salt))?;
            }
        }
        Ok(())
    }

    fn execute(&mut self) -> symmem::Result<()> {
        let Description { blocks, threads, shared_bytes, launches, .. } = self.description;
        let shape = LaunchShape { blocks, threads, shared_bytes, waits_itself: false };
        for launch in 1..=launches {
            for rank in 0..self.comms.len() {
                let argument = self.argument(rank, launch);
                self.sim.launch(self.streams[rank].handle(), self.functions[rank], shape, &argument)?;
            }
        }
        let ranks = self.comms.iter_mut().zip(&self.streams);
        let waited: Vec<_> = ranks.map(|(comm, stream)| comm.synchronize(stream)).collect();
        waited.into_iter().collect()
    }

    /// The parameters, each at a multiple of its alignment.
    fn argument(&self, rank: usize, launch: u32) -> Vec<u8> {
        let window = |name: &str| {
            let place = self.description.buffers.iter().position(|buffer| buffer.name == name);
            &self.windows[place.expect("the description was checked")][rank]
        };
        let mut bytes = Vec::new();
        for argument in &self.description.arguments {
            let (align, value) = match argument {
                Argument::Comm => (8, bytemuck::bytes_of(&self.comms[rank].dev_comm()).to_vec()),
                Argument::Offset(name) => (8, window(name).flat_offset().bytes.to_le_bytes().to_vec()),
                Argument::Address(name) => (8, window(name).address().to_le_bytes().to_vec()),
                Argument::Launch => (4, launch.to_le_bytes().to_vec()),
                Argument::U32(value) => (4, value.to_le_bytes().to_vec()),
                Argument::U64(value) => (8, value.to_le_bytes().to_vec()),
            };
            bytes.resize(bytes.len().next_multiple_of(align), 0);
            bytes.extend(value);
        }
        bytes
    }

    /// The first buffer that holds something else than is expected.
    fn verify(&self) -> Result<Option<String>> {
        let n_ranks = self.comms.len() as u32;
        for (buffer, windows) in self.description.buffers.iter().zip(&self.windows) {
            let Some(content) = &buffer.expect else { continue };
            for (rank, window) in (0..).zip(windows) {
                let expected = content.bytes(buffer.bytes, rank, n_ranks, 0);
                let mut found = vec![0; buffer.bytes];
                window.read(0, &mut found)?;
                if let Some(at) = (0..found.len()).find(|&at| found[at] != expected[at]) {
                    return Ok(Some(format!(
                        "rank {rank}: byte {at} of {} is {:#04x}, expected {:#04x}",
                        buffer.name, found[at], expected[at]
                    )));
                }
            }
        }
        Ok(None)
    }
}

//! The whole run: header, rows, footer.
//!
//! | module | what |
//! |---|---|
//! | [`header`] | the lines above the tables |
//! | [`totals`] | what the rows add up to |

mod header;
mod totals;

use crate::case::{Case, Sizes, cases};
use crate::cli::{Cli, Rival, Timing};
use crate::curves::Curves;
use crate::facts::Facts;
use crate::json::{self, JsonLines};
use crate::link::Link;
use crate::measure::{Mode, Outcome, Settings, measure};
use crate::memory::Memory;
use crate::nccl::{Buffers, Nccl, permit};
use crate::progress::Progress;
use crate::sizes::human_bytes;
use crate::table::Columns;
use crate::team::Team;
use crate::{machine, table};
use anyhow::{Context, Result, anyhow, bail};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use symmem::backend::MachineKind;
use symmem::{CommConfig, Machine};
use totals::Totals;

/// Largest size on GPUs and on the simulated machine, unless one is asked for.
const MAX_BYTES: u64 = 128 << 20;
const SIM_MAX_BYTES: u64 = 32 << 10;

/// Why a command line cannot be run.
pub(crate) enum Refusal {
    /// It makes no sense.
    Usage(String),
    /// It makes sense, but not here.
    Failure(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

/// All that a command line asks for, on the machine that it asks for.
pub(crate) struct Job {
    machine: Machine,
    n_ranks: u32,
    /// To the processes of the other ranks.
    link: Option<Link>,
    /// Whether this process prints the table: one does.
    speaks: bool,
    sizes: Sizes,
    cases: Vec<Case>,
    settings: Settings,
    config: CommConfig,
    memory: Memory,
    /// NCCL where it is asked for, or why there is none.
    nccl: Option<Result<Nccl>>,
    /// Why NCCL has no windows, if so.
    lacks_windows: Option<String>,
    /// What was said of NCCL's rows: each word once.
    said: Vec<String>,
    facts: Facts,
    curves: Curves,
    json: JsonLines,
    /// Standard output belongs to JSON.
    table_on_stderr: bool,
}

impl Job {
    /// Resolves what the command line leaves open.
    ///
    /// # Errors
    ///
    /// Whether it is the command line or the machine that does not do.
    pub(crate) fn new(cli: &Cli, mut link: Option<Link>) -> Result<Self, Refusal> {
        let collectives = cli.chosen_collectives().map_err(Refusal::Usage)?;
        cli.sizes(MAX_BYTES).map_err(Refusal::Usage)?;
        let mut config = CommConfig::from_env()?;
        config.ranks_per_device = cli.ranks_per_gpu.unwrap_or(config.ranks_per_device);
        let per_gpu = if cli.procs.is_some() { 1 } else { config.ranks_per_device };
        let (machine, n_ranks) = machine::open(cli.device, cli.procs.or(cli.ranks), per_gpu)?;
        let nccl = cli.vs.map(|Rival::Nccl| nccl(machine.kind(), cli.nccl_multicast)).transpose()?;
        let mut facts = Facts::of(&machine, (n_ranks, per_gpu), link.as_mut())?;
        facts.nccl_version = nccl.as_ref().and_then(|nccl| Some(nccl.as_ref().ok()?.version.to_string()));
        let max_bytes = if machine.kind() == MachineKind::Sim { SIM_MAX_BYTES } else { MAX_BYTES };
        let sizes = cli.sizes(max_bytes).map_err(Refusal::Usage)?;
        let cases = cases(&collectives, &cli.dtypes(), &cli.ops(), &sizes, n_ranks)
            .map_err(|error| Refusal::Usage(error.to_string()))?;
        config.algorithm = cli.algorithm().or(config.algorithm);
        (config.dtypes, config.ops) = (cli.dtypes(), cli.ops());
        let mut settings = settings(cli, machine.kind()).map_err(Refusal::Usage)?;
        if let Some(link) = &mut link {
            settings.seed = link.gather(&settings.seed)?[0];
        }
        let speaks = link.as_ref().is_none_or(|link| link.rank == 0);
        let curves = Curves::open(cli.plot.as_deref())?;
        let json = JsonLines::open(cli.json.as_deref().filter(|_| speaks))?;
        if let Some(link) = &mut link {
            // Whoever cannot take part says so before the others wait for it.
            link.gather(&())?;
        }
        let table_on_stderr = cli.json.as_deref().is_some_and(json::is_stdout);
        Ok(Self {
            machine,
            n_ranks,
            link,
            speaks,
            sizes,
            cases,
            settings,
            config,
            memory: cli.memory(),
            nccl,
            lacks_windows: None,
            said: Vec::new(),
            facts,
            curves,
            json,
            table_on_stderr,
        })
    }

    /// Measures every case, out of place and in place.
    ///
    /// # Errors
    ///
    /// If anything is wrong or failed; each is said on standard error when it happens.
    pub(crate) fn run(mut self) -> Result<()> {
        let link = self.link.take();
        let mut team = Team::new(&self.machine, self.n_ranks, link, &self.config, self.memory, &self.cases)?;
        if let Some(Ok(nccl)) = &self.nccl {
            match team.challenge(nccl) {
                Ok(()) => self.lacks_windows = team.rival_lacks(Buffers::Windows),
                Err(error) => self.nccl = Some(Err(error)),
            }
        }
        if self.settings.is_looped {
            team.prepare_loops()?;
        }
        let result = self.run_on(&mut team);
        if let (Err(error), true) = (&result, team.spans_processes()) {
            eprintln!("symmem-bench: {error:#}");
            // Sockets that close without a word end what the other ranks' kernels wait for.
            std::process::exit(1);
        }
        result
    }

    fn run_on(&mut self, team: &mut Team) -> Result<()> {
        self.say(&self.header())?;
        let mut totals = Totals::default();
        let progress = Progress::new(self.cases.iter().map(Case::n_places).sum());
        let mut section = None;
        for case in self.cases.clone() {
            if section.replace(case.collective) != Some(case.collective) {
                progress.suspend(|| self.say(&table::head(case.collective, self.columns())))?;
            }
            self.run_case(team, &case, &progress, &mut totals)?;
            if !team.is_good() {
                break;
            }
        }
        drop(progress);
        self.finish(&totals)
    }

    fn run_case(
        &mut self,
        team: &mut Team,
        case: &Case,
        progress: &Progress,
        totals: &mut Totals,
    ) -> Result<()> {
        let mut outcomes = Vec::new();
        for in_place in [false, true].into_iter().take(case.n_places() as usize) {
            let place = if in_place { "in place" } else { "out of place" };
            let what =
                format!("{} {} {} {place}", case.collective, case.dtype, human_bytes(case.bytes_total()));
            progress.start(what.clone());
            let outcome = measure(team, case, in_place, &self.settings);
            totals.add(case, &self.settings, &outcome);
            if !self.speaks {
                // What this rank alone knows of it is told to all by the process that ends.
                outcomes.push(Ok(outcome?));
                continue;
            }
            if let Some(failure) = json::failure(&outcome) {
                progress.suspend(|| eprintln!("symmem-bench: {what}: {failure}"));
            }
            progress.suspend(|| self.say_notes(&what, &outcome));
            self.curves.add(case, in_place, &outcome);
            self.json.write(&self.facts, &self.settings, case, in_place, &outcome)?;
            progress.done();
            outcomes.push(outcome);
        }
        if !self.speaks {
            return Ok(());
        }
        let line = table::row(case, self.columns(), &outcomes[0], outcomes.get(1));
        progress.suspend(|| self.say(&line))
    }

    fn columns(&self) -> Columns {
        Columns { mode: self.settings.mode, vs_nccl: matches!(self.nccl, Some(Ok(_))) }
    }

    /// Says why NCCL has no time in a row, unless that has been said.
    fn say_notes(&mut self, what: &str, outcome: &Result<Outcome>) {
        let theirs = outcome.iter().flat_map(|outcome| Buffers::ALL.iter().zip(&outcome.nccl));
        for (buffers, note) in theirs.filter_map(|(buffers, theirs)| Some((buffers, theirs.note.as_ref()?))) {
            if self.lacks_windows.as_ref() != Some(note) && !self.said.contains(note) {
                eprintln!("symmem-bench: {what}: {}: {note}", buffers.name());
                self.said.push(note.clone());
            }
        }
    }

    /// Writes to where the table goes; a reader that has gone ends the run.
    fn say(&self, text: &str) -> Result<()> {
        if !self.speaks {
            return Ok(());
        }
        let written = if self.table_on_stderr {
            writeln!(std::io::stderr(), "{text}")
        } else {
            writeln!(std::io::stdout(), "{text}")
        };
        written.context("writing the table")
    }

    fn finish(&self, totals: &Totals) -> Result<()> {
        let expected: u64 = self.cases.iter().map(Case::n_places).sum();
        let mut lines = Vec::new();
        if totals.shortened > 0 {
            lines.push(format!(
                "# {} rows were checked in fewer rounds than {} (--check-bytes-max)",
                totals.shortened, self.settings.rounds
            ));
        }
        lines.push(format!(
            "# {} of {expected} measurements, {} failed, {} wrong{}",
            totals.rows,
            totals.failed,
            totals.wrong,
            if self.settings.rounds == 0 { " (nothing was checked)" } else { "" }
        ));
        if let Some(mean) = totals.mean_busbw_gbps() {
            lines.push(format!("# avg bus bandwidth: {mean:.3} GB/s"));
        }
        if let Some((mean, least)) = totals.ratio_to_nccl() {
            lines.push(format!("# ratio to the better of NCCL: geometric mean {mean:.2}, least {least:.2}"));
        }
        self.say(&lines.join("\n"))?;
        self.curves.write()?;
        if totals.rows < expected {
            bail!("stopped after {} of {expected} measurements: the communicator cannot go on", totals.rows);
        }
        if totals.wrong > 0 || totals.failed > 0 {
            bail!("{} wrong, {} measurements failed", totals.wrong, totals.failed);
        }
        Ok(())
    }
}

/// NCCL, where the machine can run it; that it is not found is no failure.
///
/// # Errors
///
/// If it must not be loaded.
fn nccl(kind: MachineKind, is_multicast_allowed: bool) -> Result<Result<Nccl>> {
    if kind == MachineKind::Sim {
        return Ok(Err(anyhow!("it needs GPUs, and these are simulated")));
    }
    Ok(Nccl::load(permit(is_multicast_allowed)?))
}

fn settings(cli: &Cli, kind: MachineKind) -> Result<Settings, String> {
    let (iterations, warmup, replays, rounds) = match kind {
        MachineKind::Cuda => (20, 5, 10, 4),
        MachineKind::Sim => (1, 0, 0, 1),
    };
    let is_looped = cli.is_looped()?;
    let replays = cli.replays(replays)?;
    if kind == MachineKind::Sim && (cli.timing == Some(Timing::Host) || cli.plot.is_some()) {
        return Err(
            "the simulated machine has no time: neither --timing host nor --plot means anything there".into(),
        );
    }
    if cli.timing == Some(Timing::Host) && cli.plot.is_some() {
        return Err("--plot draws bandwidths, and the time of calls on the host has none".into());
    }
    let mode = match kind {
        MachineKind::Sim => Mode::Sim,
        MachineKind::Cuda if cli.timing == Some(Timing::Host) => Mode::Host,
        MachineKind::Cuda if is_looped => Mode::Device,
        MachineKind::Cuda if replays == 0 => Mode::Eager,
        MachineKind::Cuda => Mode::Graph,
    };
    Ok(Settings {
        mode,
        // A loop of one is none.
        iterations: cli.iters.unwrap_or(if is_looped { iterations.max(2) } else { iterations }),
        warmup: cli.warmup.unwrap_or(warmup),
        replays,
        is_looped,
        rounds: cli.check.unwrap_or(rounds),
        check_bytes_max: cli.check_bytes_max,
        seed: cli.seed.unwrap_or_else(seed_from_clock),
        algorithm: cli.algorithm(),
    })
}

fn seed_from_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::team::Side;
    use clap::Parser;

    /// A rank that runs alone deadlocks, which the simulated machine reports; what follows fails, row by row.
    #[test]
    fn failed_rows_are_rows_and_end_the_run() {
        let path = std::env::temp_dir().join(format!("symmem-bench-{}.json", std::process::id()));
        let args =
            ["symmem-bench", "all_reduce", "--device", "sim", "--ranks", "2", "--count", "3", "--json"];
        let args = args.map(str::to_owned).into_iter().chain([path.display().to_string()]);
        let Ok(mut job) = Job::new(&Cli::parse_from(args), None) else { panic!("the arguments are good") };
        let mut team =
            Team::new(&job.machine, 2, None, &job.config, Memory::Alloc, &job.cases).expect("a team");
        let case = job.cases[0];
        team.enqueue(0, &case, Side::Input, Side::Output).expect("launched");
        team.synchronize().expect_err("its peer does not come");
        let mut totals = Totals::default();
        job.run_case(&mut team, &case, &Progress::new(2), &mut totals).expect("written");
        assert_eq!((totals.rows, totals.failed, team.is_good()), (2, 2, false));
        assert!(job.finish(&totals).expect_err("rows failed").to_string().contains("2 measurements failed"));
        let text = std::fs::read_to_string(&path).expect("the rows");
        std::fs::remove_file(&path).expect("it was there");
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row["error"].is_string() && row["wrong"].is_null()), "{text}");
    }
}

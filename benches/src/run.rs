//! The whole run: header, rows, footer.

use crate::case::{Case, Sizes, cases};
use crate::cli::Cli;
use crate::facts::Facts;
use crate::json::{self, JsonLines};
use crate::link::Link;
use crate::measure::{Mode, Outcome, REPETITIONS, Settings, measure};
use crate::progress::Progress;
use crate::rates::rates;
use crate::sizes::human_bytes;
use crate::team::Team;
use crate::{machine, table};
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};
use symmem::backend::MachineKind;
use symmem::{CommConfig, Machine};

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
    facts: Facts,
    json: JsonLines,
    /// Standard output belongs to JSON.
    table_on_stderr: bool,
}

/// What the rows add up to.
#[derive(Default)]
struct Totals {
    rows: u64,
    wrong: u64,
    failed: u64,
    busbw_gbps: Vec<f64>,
    /// Rows that were checked in fewer rounds than asked for.
    shortened: u64,
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
        let (machine, n_ranks) = machine::open(cli.device, cli.procs.or(cli.ranks))?;
        let facts = Facts::of(&machine, n_ranks, link.as_mut())?;
        let max_bytes = if machine.kind() == MachineKind::Sim { SIM_MAX_BYTES } else { MAX_BYTES };
        let sizes = cli.sizes(max_bytes).map_err(Refusal::Usage)?;
        let cases = cases(&collectives, &cli.dtypes(), &cli.ops(), &sizes, n_ranks)
            .map_err(|error| Refusal::Usage(error.to_string()))?;
        let mut config = CommConfig::from_env()?;
        config.algorithm = cli.algorithm().or(config.algorithm);
        (config.dtypes, config.ops) = (cli.dtypes(), cli.ops());
        let mut settings = settings(cli, machine.kind());
        if let Some(link) = &mut link {
            settings.seed = link.gather(&settings.seed)?[0];
        }
        let speaks = link.as_ref().is_none_or(|link| link.rank == 0);
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
            facts,
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
        let mut team = Team::new(&self.machine, self.n_ranks, link, &self.config, &self.cases)?;
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
                progress.suspend(|| self.say(&table::head(case.collective, self.settings.mode)))?;
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
            self.json.write(&self.facts, &self.settings, case, in_place, &outcome)?;
            progress.done();
            outcomes.push(outcome);
        }
        if !self.speaks {
            return Ok(());
        }
        let line = table::row(case, &self.settings, &outcomes[0], outcomes.get(1));
        progress.suspend(|| self.say(&line))
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

    fn header(&self) -> String {
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
            Mode::Sim => format!("operations a round: {}", settings.iterations),
            Mode::Eager => format!(
                "{} operations launched one by one after {} to warm up, median of {REPETITIONS}",
                settings.iterations, settings.warmup
            ),
            Mode::Graph => format!(
                "a graph of {} operations, {} replays after {} operations and one replay to warm up, median of \
                 {REPETITIONS}",
                settings.iterations, settings.replays, settings.warmup
            ),
        };
        let lines = [
            format!("# symmem {}  machine {}: {kind}", facts.symmem_version, facts.machine),
            format!(
                "# {} ranks{} on {}  driver for CUDA {}",
                self.n_ranks,
                if facts.procs > 1 { ", each a process," } else { "" },
                facts.devices(),
                facts.driver_version.as_deref().unwrap_or("unknown")
            ),
            format!("# sizes: {}", self.sizes.describe()),
            format!("# runs: {timed}; 1 GB is 10^9 bytes"),
            format!("# check: {}", self.check_line()),
        ];
        lines.join("\n")
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
        self.say(&lines.join("\n"))?;
        if totals.rows < expected {
            bail!("stopped after {} of {expected} measurements: the communicator cannot go on", totals.rows);
        }
        if totals.wrong > 0 || totals.failed > 0 {
            bail!("{} wrong, {} measurements failed", totals.wrong, totals.failed);
        }
        Ok(())
    }
}

impl Totals {
    fn add(&mut self, case: &Case, settings: &Settings, outcome: &Result<Outcome>) {
        self.rows += 1;
        let Ok(outcome) = outcome else {
            self.failed += 1;
            return;
        };
        self.wrong += outcome.findings.wrong;
        self.shortened += u64::from(outcome.checked_rounds < settings.rounds);
        let rates = outcome.time_us.and_then(|time| rates(case, time.median));
        self.busbw_gbps.extend(rates.map(|rates| rates.busbw_gbps));
    }

    fn mean_busbw_gbps(&self) -> Option<f64> {
        let n = self.busbw_gbps.len() as f64;
        (n > 0.0).then(|| self.busbw_gbps.iter().sum::<f64>() / n)
    }
}

fn settings(cli: &Cli, kind: MachineKind) -> Settings {
    let (iterations, warmup, replays, rounds) = match kind {
        MachineKind::Cuda => (20, 5, 10, 4),
        MachineKind::Sim => (1, 0, 0, 1),
    };
    let replays = cli.graph.unwrap_or(replays);
    let mode = match kind {
        MachineKind::Sim => Mode::Sim,
        MachineKind::Cuda if replays == 0 => Mode::Eager,
        MachineKind::Cuda => Mode::Graph,
    };
    Settings {
        mode,
        iterations: cli.iters.unwrap_or(iterations),
        warmup: cli.warmup.unwrap_or(warmup),
        replays,
        rounds: cli.check.unwrap_or(rounds),
        check_bytes_max: cli.check_bytes_max,
        seed: cli.seed.unwrap_or_else(seed_from_clock),
        algorithm: cli.algorithm(),
    }
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
        let mut team = Team::new(&job.machine, 2, None, &job.config, &job.cases).expect("a team");
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

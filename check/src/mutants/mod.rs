//! The proof of checkers and kernels at once: take one order from a kernel, and see whether anybody notices.
//!
//! | module | what |
//! |---|---|
//! | [`text`] | the PTX of one kernel, and where its lines come from |
//! | [`ptx`] | mutants of emitted PTX |
//! | [`source`] | mutants of the device crate's source |
//! | [`listed`] | those that are not caught, with the argument why |

mod listed;
mod ptx;
mod source;
mod text;

use crate::bed::Shape;
use crate::campaign::{Beds, Campaign, in_parallel};
use crate::cli::CheckArgs;
use crate::finding::Finding;
use crate::program::{self, GIVING_UP, POISONED, Program, Types};
use crate::select::Subject;
use crate::{check, select};
use anyhow::{Context, Result, bail, ensure};
use listed::Listed;
use ptx::Mutant;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;
use symmem::Algorithm;
use symmem::kernels_ptx::{KernelSet, ptx_for};
use text::KernelText;

/// What the PTX is for: the newest module has all kernels.
const SM: u32 = 90;
/// Numbers of ranks, unless they are asked for: with three there is a rank that others hear of.
const RANKS: [u32; 2] = [2, 3];
/// Runs of a mutant at each number of ranks, unless they are asked for: every program under every kind of schedule and
/// every probe, twice.
const SEEDS: u64 = 84;

/// Runs of a mutant of what happens when a wait comes to its end, at each number of ranks.
const SEEDS_OF_WAITS: u64 = 6;
/// Where that stands. It is the same in all kernels, so that one of them stands for all.
const WAITS: [&str; 6] = [
    "wait.rs enter",
    "wait.rs look",
    "wait.rs is_aborted",
    "wait.rs leave",
    "wait.rs poison_all",
    "wait.rs write_record",
];

/// Parts of the names of what stands beside that in the PTX and is none of it: slots, notes, arrivals.
const OF_PACKETS: [&str; 5] = [
    "ll.rs",
    ".v2.b64",
    "take_note",
    "barrier.rs for_my_peers",
    "st.relaxed.sys.global.b32 in team.rs address → wait.rs leave_with",
];

/// The load by which a rank hears, as a kernel begins, that another gave up, wherever the compiler has put it. The
/// barrier's polls are the same instruction, and have the barrier in their names.
const POISON_LOAD: &str = "ld.relaxed.sys.global.b32";

/// A kernel, its original text and a mutant.
struct Trial {
    subject: Subject,
    original: String,
    mutant: Mutant,
}

/// What came of a trial.
enum Verdict {
    Caught(Box<Finding>, u64),
    NotCaught(u64),
}

/// Runs the command; says whether every mutant is caught or listed.
pub(crate) fn run(args: &CheckArgs) -> Result<bool> {
    let started = Instant::now();
    let subjects = representatives(&args.kernels)?;
    let mut campaign = Campaign { seeds: args.seeds.unwrap_or(SEEDS), ..check::campaign(args) };
    if args.ranks.is_empty() {
        campaign.ranks = RANKS.to_vec();
    }
    let trials = trials(&subjects, args.only.as_deref())?;
    if args.list {
        trials.iter().for_each(|trial| println!("{}", trial.name()));
        return Ok(true);
    }
    let listed = listed::listed()?;
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    let work = |trial: &Trial, beds: &mut Beds| trial.run(&campaign, beds);
    in_parallel(&trials, check::jobs(args), work, |trial, verdict| match verdict {
        Ok(verdict) => tally.take(trial, &verdict, &listed),
        Err(error) => failures.push(error.context(trial.name())),
    });
    if args.kernels.is_empty() && args.only.is_none() {
        tally.look_for_idle_entries(&listed);
    }
    println!(
        "# {} mutants of {} kernels: {} caught, {} listed as not caught, {} unexplained, {:.1} s",
        trials.len(),
        subjects.len(),
        tally.n_caught,
        tally.n_listed,
        tally.n_wrong,
        started.elapsed().as_secs_f64()
    );
    failures.into_iter().next().map_or(Ok(tally.n_wrong == 0), Err)
}

/// Of each collective and algorithm the kernel of f32 and sum, or of bytes: other types and operations are the same source,
/// and mutants of the source have no others. Beside them the kernels of the check.
fn representatives(patterns: &[String]) -> Result<Vec<Subject>> {
    let mut seen = BTreeSet::new();
    let kind =
        |subject: &Subject| (subject.program.is_some(), subject.kernel.collective, subject.kernel.algorithm);
    let chosen = select::subjects(patterns)?;
    let chosen: Vec<_> = chosen
        .into_iter()
        .filter(|subject| !subject.is_loop() && subject.is_usual() && seen.insert(kind(subject)))
        .collect();
    ensure!(!chosen.is_empty(), "mutants are of kernels of f32 sum or of bytes, and the names have none");
    Ok(chosen)
}

fn trials(subjects: &[Subject], only: Option<&str>) -> Result<Vec<Trial>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let mut trials = Vec::new();
    for &subject in subjects {
        let text = KernelText::cut(&module(subject)?, subject.name)?;
        let mutants = ptx::mutants(&text, root).into_iter();
        trials.extend(mutants.map(|mutant| Trial { subject, original: text.whole(), mutant }));
    }
    trials.extend(source::trials(root, subjects)?);
    let mut seen = BTreeSet::new();
    // Copies go on behind a barrier that has given up, and race with whoever never came. The check is run where nobody
    // gives up.
    let gives_up = |subject: Subject| subject.kernel.algorithm != Algorithm::Ce && subject.program.is_none();
    trials.retain(|trial| trial.program().is_none() || gives_up(trial.subject));
    trials.retain(|trial| !trial.is_of_waits() || seen.insert(trial.mutant.name.clone()));
    trials.retain(|trial| only.is_none_or(|only| select::matches(only, &trial.mutant.name)));
    // Those of one algorithm run on the same beds.
    trials.sort_by_key(|trial| (trial.subject.kernel.algorithm, trial.subject.name));
    Ok(trials)
}

/// The PTX that has the kernel.
fn module(subject: Subject) -> Result<String> {
    let set = subject.program.map_or(KernelSet::of(subject.kernel), |_| KernelSet::BYTES);
    Ok(ptx_for(SM, set).context("this build has no such PTX")?.text())
}

impl Trial {
    /// What it is called in the report and in the list: its kernel without what stands for its source, and what it lacks.
    fn name(&self) -> String {
        let Subject { name, kernel, program } = self.subject;
        let kernel = match program {
            Some(_) => name.trim_start_matches("symmem_").to_owned(),
            None => format!("{}_{}", kernel.collective, kernel.algorithm),
        };
        format!("{kernel}: {}", self.mutant.name)
    }

    /// Runs the mutant until it is caught, and puts the original back.
    fn run(&self, campaign: &Campaign, beds: &mut Beds) -> Result<Verdict> {
        let mut n_runs = 0;
        let kernel = self.subject.kernel;
        let program = self.program();
        let subject = Subject { program: program.or(self.subject.program), ..self.subject };
        self.try_original(program, campaign, beds)?;
        for seed in 0..if program.is_some() { campaign.seeds.min(SEEDS_OF_WAITS) } else { campaign.seeds } {
            for &n_ranks in &campaign.ranks {
                let run = campaign.run_of(&subject, n_ranks, seed);
                let program = program::find(&run.program).context("a program of the campaign")?;
                let bed = beds.bed(Shape::of(program, n_ranks), kernel.algorithm)?;
                bed.prepare(Types::of(kernel))?;
                let n_replaced = bed.sim().replace_kernels(&self.mutant.text, "a mutant")?;
                ensure!(n_replaced == n_ranks as usize, "the mutant took the place of {n_replaced} kernels");
                n_runs += 1;
                if let Some(finding) = beds.run(&run, kernel)? {
                    self.restore(beds)?;
                    return Ok(Verdict::Caught(Box::new(finding), n_runs));
                }
            }
        }
        self.restore(beds)?;
        Ok(Verdict::NotCaught(n_runs))
    }

    /// Sees that the original passes a program that only mutants are run in.
    fn try_original(
        &self,
        program: Option<&'static Program>,
        campaign: &Campaign,
        beds: &mut Beds,
    ) -> Result<()> {
        let subject = Subject { program, ..self.subject };
        for &n_ranks in program.map_or(&[][..], |_| &campaign.ranks) {
            let run = campaign.run_of(&subject, n_ranks, 0);
            if let Some(finding) = beds.run(&run, subject.kernel)? {
                bail!("without the mutant, {run}: {finding}");
            }
        }
        Ok(())
    }

    /// The one program in which it could matter, if it is no quick one.
    fn program(&self) -> Option<&'static Program> {
        if source::is_of_poison(&self.mutant.name) {
            return Some(POISONED);
        }
        self.is_of_waits().then_some(GIVING_UP)
    }

    /// Whether what it lacks matters only where a wait comes to its end.
    fn is_of_waits(&self) -> bool {
        let name = &self.mutant.name;
        if OF_PACKETS.iter().any(|part| name.contains(part)) {
            return false;
        }
        name.starts_with(POISON_LOAD) && !name.contains("barrier")
            || WAITS.iter().any(|place| name.contains(place))
    }

    fn restore(&self, beds: &Beds) -> Result<()> {
        beds.all().try_for_each(|bed| bed.sim().replace_kernels(&self.original, "the original").map(drop))?;
        Ok(())
    }
}

/// Counts, and the lines of the report.
#[derive(Default)]
struct Tally {
    n_caught: usize,
    n_listed: usize,
    n_wrong: usize,
    used: BTreeSet<usize>,
}

impl Tally {
    fn take(&mut self, trial: &Trial, verdict: &Verdict, listed: &[Listed]) {
        let name = trial.name();
        let entry = listed.iter().position(|entry| select::matches(&entry.pattern, &name));
        self.used.extend(entry);
        match (verdict, entry) {
            (Verdict::Caught(finding, n_runs), None) => {
                self.n_caught += 1;
                println!(
                    "caught      {name} ({}, run {n_runs}: {})",
                    finding.how.name(),
                    finding.run.schedule
                );
            }
            (Verdict::NotCaught(n_runs), Some(entry)) => {
                self.n_listed += 1;
                println!("not caught  {name} ({n_runs} runs): {}", listed[entry].reason);
            }
            (Verdict::Caught(finding, _), Some(_)) => {
                self.n_wrong += 1;
                println!("WRONG       {name} is listed as not caught, but was: {finding}\n  {}", finding.run);
            }
            (Verdict::NotCaught(n_runs), None) => {
                self.n_wrong += 1;
                println!("WRONG       {name} was not caught in {n_runs} runs, and no reason is listed");
            }
        }
    }

    /// An entry that no mutant has any more says something that is no longer so.
    fn look_for_idle_entries(&mut self, listed: &[Listed]) {
        for (_, entry) in listed.iter().enumerate().filter(|(n, _)| !self.used.contains(n)) {
            self.n_wrong += 1;
            println!("WRONG       `{}` is listed, and there is no such mutant", entry.pattern);
        }
    }
}

//! `symmem-check check`: a line for each kernel, and a report where something is wrong.

use crate::campaign::{Beds, Campaign, Outcome, in_parallel};
use crate::cli::{CheckArgs, KindChoice};
use crate::finding::Finding;
use crate::select::Subject;
use crate::subject::Run;
use crate::{mutants, select, user};
use anyhow::{Context, Result, bail};
use std::time::Instant;
use symmem_device::kernels::KERNELS;

/// Seeds, unless they are asked for.
const SEEDS: u64 = 12;
const SEEDS_FULL: u64 = 200;

/// Runs the command; says whether all is well.
pub(crate) fn run(args: &CheckArgs) -> Result<bool> {
    if let Some(path) = &args.launch {
        return user::check(args, path);
    }
    if let Some(text) = &args.replay {
        return replay(text);
    }
    if args.mutants {
        return mutants::run(args);
    }
    let mut subjects = select::subjects(&args.kernels)?;
    let campaign = campaign(args);
    if args.list {
        subjects.iter().for_each(|subject| println!("{}", subject.name));
        return Ok(true);
    }
    if args.kernels.is_empty() && !args.full {
        let n_all = subjects.len();
        subjects.retain(Subject::is_usual);
        let n_left = n_all - subjects.len();
        println!(
            "# SKIPPED: {n_left} kernels, the same sources in other types and operations and in loops; name them, or --full"
        );
    }
    check(&campaign, &subjects, jobs(args))
}

/// What the arguments ask for.
pub(crate) fn campaign(args: &CheckArgs) -> Campaign {
    let or =
        |given: &[u32], default: &[u32]| if given.is_empty() { default.to_vec() } else { given.to_vec() };
    let kinds = [KindChoice::Unfair, KindChoice::Random, KindChoice::Pct];
    Campaign {
        ranks: or(&args.ranks, &[2, 3, 4]),
        seeds: args.seeds.unwrap_or(if args.full { SEEDS_FULL } else { SEEDS }),
        kinds: if args.schedule.is_empty() { kinds.to_vec() } else { args.schedule.clone() },
        probes: args.probe.probes(),
    }
}

/// Threads that run.
pub(crate) fn jobs(args: &CheckArgs) -> usize {
    args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |n| n as usize)
}

fn check(campaign: &Campaign, subjects: &[Subject], jobs: usize) -> Result<bool> {
    let started = Instant::now();
    let (mut findings, mut failures, mut n_runs) = (Vec::new(), Vec::new(), 0);
    println!("{}", head());
    let work = |subject: &Subject, beds: &mut Beds| campaign.check(subject, beds);
    in_parallel(subjects, jobs, work, |subject, outcome| match outcome {
        Ok(outcome) => {
            println!("{}", line(subject.name, campaign, &outcome));
            n_runs += outcome.n_runs;
            findings.extend(outcome.finding);
        }
        Err(error) => failures.push(error),
    });
    findings.iter().for_each(print_finding);
    println!(
        "# {} kernels, {n_runs} runs, {} findings, {:.1} s",
        subjects.len(),
        findings.len(),
        started.elapsed().as_secs_f64()
    );
    match failures.into_iter().next() {
        Some(failure) => Err(failure),
        None => Ok(findings.is_empty()),
    }
}

/// The line above the results.
pub(crate) fn head() -> String {
    format!(
        "# {:<48} {:>8} {:>6} {:<20} {:>6} {:>8}  result",
        "kernel", "ranks", "seeds", "schedules", "runs", "time (s)"
    )
}

/// A kernel's line.
pub(crate) fn line(name: &str, campaign: &Campaign, outcome: &Outcome) -> String {
    let ranks: Vec<_> = campaign.ranks.iter().map(u32::to_string).collect();
    let kinds: Vec<_> = campaign.kinds.iter().map(|kind| kind.name()).collect();
    let result = outcome.finding.as_ref().map_or("clean", |finding| finding.how.name());
    format!(
        "  {name:<48} {:>8} {:>6} {:<20} {:>6} {:>8.2}  {result}",
        ranks.join(","),
        campaign.seeds,
        kinds.join(","),
        outcome.n_runs,
        outcome.time.as_secs_f64()
    )
}

/// The report, and the one command that repeats the run.
pub(crate) fn print_finding(finding: &Finding) {
    println!("\n{}: {finding}\n  again: cargo xtask check --replay '{}'", finding.run.subject, finding.run);
}

fn replay(text: &str) -> Result<bool> {
    let run: Run = text.parse()?;
    let Some(kernel) = KERNELS.iter().find(|kernel| kernel.name == run.subject) else {
        bail!("{text}: the table has no kernel `{}`", run.subject);
    };
    let finding = Beds::default().run(&run, kernel).context("the run")?;
    match &finding {
        Some(finding) => print_finding(finding),
        None => println!("{run}: clean"),
    }
    Ok(finding.is_none())
}

//! Kernels of your own: a PTX file or a device crate, and a launch description.

mod bed;
mod description;

use crate::campaign::{Campaign, Outcome, in_parallel};
use crate::check;
use crate::cli::CheckArgs;
use crate::finding::Finding;
use crate::subject::Run;
use anyhow::{Context, Result, ensure};
pub(crate) use bed::Bed;
pub(crate) use description::Description;
use std::path::Path;
use std::time::Instant;

/// What the kernel is compiled for.
pub(crate) const SM: u32 = 90;
/// The only program of a kernel of your own.
pub(crate) const PROGRAM: &str = "launch";

/// The bed that a worker has used last.
#[derive(Default)]
struct Last(Option<(u32, Bed)>);

impl Last {
    fn run(&mut self, description: &Description, text: &str, run: &Run) -> Result<Option<Finding>> {
        if self.0.as_ref().is_none_or(|(n_ranks, _)| *n_ranks != run.n_ranks) {
            self.0 = Some((run.n_ranks, Bed::new(description, text, run.n_ranks)?));
        }
        let (_, bed) = self.0.as_mut().expect("it was put there");
        let found = bed.run(run);
        if !matches!(found, Ok(None)) {
            self.0 = None;
        }
        found.with_context(|| run.to_string())
    }
}

/// Checks the kernel that a description names; says whether all is well.
pub(crate) fn check(args: &CheckArgs, path: &Path) -> Result<bool> {
    let started = Instant::now();
    let description = Description::read(path)?;
    let text = description.text(path, SM)?;
    if let Some(replay) = &args.replay {
        return self::replay(&description, path, &text, replay);
    }
    let mut campaign = check::campaign(args);
    if args.ranks.is_empty() {
        campaign.ranks.clone_from(&description.ranks);
    }
    let runs = runs(&description, &campaign);
    let (mut n_runs, mut finding, mut failure) = (0, None, None);
    let work = |run: &Run, last: &mut Last| last.run(&description, &text, run);
    in_parallel(&runs, check::jobs(args), work, |_, found| {
        n_runs += 1;
        match found {
            Ok(found) => finding = finding.take().or(found),
            Err(error) => failure = failure.take().or(Some(error)),
        }
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    println!("{}", check::head());
    let outcome = Outcome { n_runs, finding, time: started.elapsed() };
    println!("{}", check::line(&description.kernel, &campaign, &outcome));
    if let Some(finding) = &outcome.finding {
        print_finding(finding, path);
    }
    Ok(outcome.finding.is_none())
}

fn runs(description: &Description, campaign: &Campaign) -> Vec<Run> {
    let run = |n_ranks, seed| {
        let run = campaign.run(&description.kernel, n_ranks, seed);
        Run { program: PROGRAM.into(), ..run }
    };
    campaign.ranks.iter().flat_map(|&n| (0..campaign.seeds).map(move |seed| run(n, seed))).collect()
}

fn replay(description: &Description, path: &Path, text: &str, replay: &str) -> Result<bool> {
    let run: Run = replay.parse()?;
    ensure!(run.subject == description.kernel, "{run} is no run of {}", description.kernel);
    let finding = Last::default().run(description, text, &run)?;
    match &finding {
        Some(finding) => print_finding(finding, path),
        None => println!("{run}: clean"),
    }
    Ok(finding.is_none())
}

fn print_finding(finding: &Finding, path: &Path) {
    println!(
        "\n{}: {finding}\n  again: cargo xtask check --launch {} --replay '{}'",
        finding.run.subject,
        path.display(),
        finding.run
    );
}

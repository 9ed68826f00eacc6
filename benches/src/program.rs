//! Operations as one thing that can be run again and again: launched one by one, captured in a graph, or done by one
//! kernel.

use crate::case::Case;
use crate::nccl::Buffers;
use crate::team::{Side, Team};
use anyhow::{Result, ensure};
use std::num::NonZeroU32;
use symmem::backend::GraphFacts;
use symmem::{Collective, Graph, GraphExec, Stream};

/// Whose operations a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Those of this library.
    Symmem,
    /// NCCL's.
    Nccl(Buffers),
}

/// Which buffers the operations of a program read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// All from the input to the output.
    Repeat,
    /// From the input to the output, back, and so on: each reads what the one before wrote.
    Chain,
    /// All in place in the output.
    InPlace,
}

/// A number of operations of one case.
pub(crate) struct Program {
    pub(crate) by: By,
    pub(crate) case: Case,
    pub(crate) steps: Steps,
    pub(crate) n_ops: u32,
    /// One per rank; empty if operations are launched one by one.
    graphs: Vec<GraphExec>,
    /// Whether one kernel of ours does all operations, which all have the same input and output.
    is_looped: bool,
}

impl Steps {
    /// What an out-of-place or in-place row runs: the first is what is timed, and rounds of checks take turns.
    pub(crate) fn of(case: &Case, in_place: bool, n_ops: u32) -> &'static [Self] {
        match (in_place, case.collective) {
            (true, _) => &[Self::InPlace],
            (false, Collective::AllReduce) if n_ops > 1 => &[Self::Repeat, Self::Chain],
            (false, _) => &[Self::Repeat],
        }
    }

    /// Whether an operation reads what the one before wrote.
    pub(crate) fn feed_back(self, case: &Case) -> bool {
        match self {
            Self::Repeat => false,
            Self::Chain => true,
            Self::InPlace => case.op.is_some(),
        }
    }

    /// Input and output of operation `index`.
    fn sides(self, index: u32) -> (Side, Side) {
        match self {
            Self::Repeat => (Side::Input, Side::Output),
            Self::Chain if index.is_multiple_of(2) => (Side::Input, Side::Output),
            Self::Chain => (Side::Output, Side::Input),
            Self::InPlace => (Side::Output, Side::Output),
        }
    }
}

impl Program {
    /// Operations that are launched one by one.
    pub(crate) fn eager(by: By, case: &Case, steps: Steps, n_ops: u32) -> Self {
        Self { by, case: *case, steps, n_ops, graphs: Vec::new(), is_looped: false }
    }

    /// Operations of ours that one kernel does.
    pub(crate) fn looped(case: &Case, steps: Steps, n_ops: u32) -> Self {
        Self { is_looped: true, ..Self::eager(By::Symmem, case, steps, n_ops) }
    }

    /// Operations captured in one graph per rank.
    ///
    /// # Errors
    ///
    /// What a call says, or that a graph of this library's is not what it has to be.
    pub(crate) fn captured(team: &mut Team, by: By, case: &Case, steps: Steps, n_ops: u32) -> Result<Self> {
        let mut program = Self::eager(by, case, steps, n_ops);
        let graphs = match by {
            By::Symmem => program.capture_one_by_one(team)?,
            By::Nccl(_) => program.capture_together(team)?,
        };
        program.graphs = graphs.iter().map(Graph::instantiate).collect::<symmem::Result<_>>()?;
        Ok(program)
    }

    fn capture_one_by_one(&self, team: &mut Team) -> Result<Vec<Graph>> {
        let mut graphs = Vec::new();
        for rank in team.ranks() {
            let stream = team.stream(rank).clone();
            let graph = stream.capture(|| (0..self.n_ops).try_for_each(|op| self.enqueue(team, rank, op)))?;
            let (facts, expected) = (graph.facts()?, nodes(team, &self.case, self.steps, self.n_ops)?);
            ensure!(
                facts == expected,
                "{} operations became {} nodes, {} of them kernels; {} and {} were expected",
                self.n_ops,
                facts.n_nodes,
                facts.n_kernel_nodes,
                expected.n_nodes,
                expected.n_kernel_nodes
            );
            graphs.push(graph);
        }
        Ok(graphs)
    }

    /// Every rank's stream is captured at once, since a call of NCCL's is one for all of them.
    fn capture_together(&self, team: &mut Team) -> Result<Vec<Graph>> {
        let streams = team.streams.clone();
        let (mut graphs, mut failed) = (Vec::new(), None);
        let mut work = || {
            // The captures have to be ended in any case.
            failed = (0..self.n_ops).try_for_each(|op| self.enqueue_all(team, op)).err();
        };
        let captured = capture_all(&streams, &mut work, &mut graphs);
        failed.map_or(Ok(()), Err)?;
        captured?;
        graphs.reverse();
        Ok(graphs)
    }

    /// Puts all operations into the streams of all ranks. Waits for nothing.
    ///
    /// # Errors
    ///
    /// What a call says.
    pub(crate) fn launch(&self, team: &mut Team) -> Result<()> {
        if self.is_looped {
            return self.launch_loop(team, self.n_ops);
        }
        if self.graphs.is_empty() {
            return (0..self.n_ops).try_for_each(|op| self.enqueue_all(team, op));
        }
        let mut ranks = self.graphs.iter().zip(&team.streams);
        Ok(ranks.try_for_each(|(graph, stream)| graph.launch(stream))?)
    }

    /// As [`Self::launch`], so many times; a loop becomes so much longer.
    ///
    /// # Errors
    ///
    /// What a call says.
    pub(crate) fn launch_times(&self, team: &mut Team, times: u32) -> Result<()> {
        if self.is_looped {
            return self.launch_loop(team, self.n_ops.saturating_mul(times));
        }
        (0..times).try_for_each(|_| self.launch(team))
    }

    fn launch_loop(&self, team: &mut Team, repeats: u32) -> Result<()> {
        let (from, to) = self.steps.sides(0);
        team.repeat(NonZeroU32::new(repeats));
        let launched = team.ranks().try_for_each(|rank| team.enqueue(rank, &self.case, from, to));
        team.repeat(None);
        Ok(launched?)
    }

    /// Waits for what was launched.
    ///
    /// # Errors
    ///
    /// What became of it.
    pub(crate) fn synchronize(&self, team: &mut Team) -> Result<()> {
        match self.by {
            By::Symmem => Ok(team.synchronize()?),
            By::Nccl(buffers) => team.synchronize_nccl(buffers),
        }
    }

    fn enqueue(&self, team: &mut Team, rank: u32, op: u32) -> symmem::Result<()> {
        let (from, to) = self.steps.sides(op);
        team.enqueue(rank, &self.case, from, to)
    }

    fn enqueue_all(&self, team: &mut Team, op: u32) -> Result<()> {
        let (from, to) = self.steps.sides(op);
        match self.by {
            By::Symmem => Ok(team.ranks().try_for_each(|rank| team.enqueue(rank, &self.case, from, to))?),
            By::Nccl(buffers) => team.enqueue_nccl(buffers, &self.case, from, to),
        }
    }

    /// How many folds deep each side is after a run that starts with fresh inputs: 0 is the input itself, `None` is
    /// not used.
    pub(crate) fn folds(&self) -> (Option<u32>, Option<u32>) {
        let last_odd = self.n_ops - u32::from(self.n_ops.is_multiple_of(2));
        match self.steps {
            Steps::Repeat => (Some(0), Some(1)),
            Steps::Chain => (Some(self.n_ops - self.n_ops % 2), Some(last_odd)),
            Steps::InPlace if !self.case.collective.reduces() => (None, Some(1)),
            Steps::InPlace => (None, Some(self.n_ops)),
        }
    }
}

/// Captures what `work` puts into all of these streams; the last stream's graph comes first.
fn capture_all(streams: &[Stream], work: &mut dyn FnMut(), graphs: &mut Vec<Graph>) -> symmem::Result<()> {
    let Some((first, others)) = streams.split_first() else {
        work();
        return Ok(());
    };
    let graph = first.capture(|| capture_all(others, work, graphs))?;
    graphs.push(graph);
    Ok(())
}

/// What a graph of `n_ops` operations consists of.
fn nodes(team: &Team, case: &Case, steps: Steps, n_ops: u32) -> Result<GraphFacts> {
    if case.count == 0 {
        return Ok(GraphFacts { n_nodes: 0, n_kernel_nodes: 0 });
    }
    let plan = team.comms[0].plan(case.collective, case.count, case.dtype, case.op)?;
    let GraphFacts { n_nodes, n_kernel_nodes } = plan.nodes(case.n_ranks, steps == Steps::InPlace);
    Ok(GraphFacts { n_nodes: n_ops * n_nodes, n_kernel_nodes: n_ops * n_kernel_nodes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use symmem::{Dtype, Op};

    /// Follows each operation and counts folds, as the definition of a fold's depth.
    fn counted(steps: Steps, n_ops: u32) -> (u32, Option<u32>) {
        let mut depth = [0, 0];
        for op in 0..n_ops {
            let (from, to) = steps.sides(op);
            depth[to as usize] = depth[from as usize] + 1;
        }
        (depth[0], Some(depth[1]))
    }

    #[test]
    fn depths_follow_the_steps() {
        let case = Case {
            collective: Collective::AllReduce,
            dtype: Dtype::F32,
            op: Some(Op::Sum),
            count: 1,
            n_ranks: 2,
        };
        for n_ops in 1..9 {
            for steps in [Steps::Repeat, Steps::Chain, Steps::InPlace] {
                let (input, output) = Program::eager(By::Symmem, &case, steps, n_ops).folds();
                assert_eq!((input.unwrap_or(0), output), counted(steps, n_ops), "{steps:?} {n_ops}");
            }
        }
    }

    /// Captured together as NCCL's are, ours are right too: every rank's operations are in its own graph.
    #[cfg(feature = "sim")]
    #[test]
    fn streams_that_are_captured_together_have_a_graph_each() {
        use crate::check::{Findings, Round};
        use crate::memory::Memory;
        use symmem::sim::{SimConfig, SimMachine};
        use symmem::{CommConfig, Machine};
        let case =
            Case { collective: Collective::AllGather, dtype: Dtype::F32, op: None, count: 5, n_ranks: 3 };
        let config = SimConfig { n_devices: 3, ..SimConfig::default() };
        let machine = Machine::from_backend(SimMachine::new(config).expect("a valid machine"));
        let mut team =
            Team::new(&machine, 3, None, &CommConfig::default(), Memory::Alloc, &[case]).expect("a team");
        let mut program = Program::eager(By::Symmem, &case, Steps::Repeat, 2);
        let graphs = program.capture_together(&mut team).expect("captured");
        assert_eq!(graphs.len(), 3);
        assert!(graphs.iter().all(|graph| graph.facts().expect("a graph").n_kernel_nodes == 2));
        program.graphs = graphs.iter().map(|graph| graph.instantiate().expect("sound")).collect();
        Round::new(&team, &program, 1, 0).prepare().expect("inputs are written");
        program.launch(&mut team).expect("launched");
        program.synchronize(&mut team).expect("done");
        assert_eq!(Round::new(&team, &program, 1, 0).compare().expect("compared"), Findings::default());
    }
}

//! Operations as one thing that can be run again and again: launched one by one, or captured in a graph.

use crate::case::Case;
use crate::team::{Side, Team};
use anyhow::{Result, ensure};
use symmem::backend::GraphFacts;
use symmem::{Collective, GraphExec};

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
    pub(crate) case: Case,
    pub(crate) steps: Steps,
    pub(crate) n_ops: u32,
    /// One per rank; empty if operations are launched one by one.
    graphs: Vec<GraphExec>,
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
    pub(crate) fn eager(case: &Case, steps: Steps, n_ops: u32) -> Self {
        Self { case: *case, steps, n_ops, graphs: Vec::new() }
    }

    /// Operations captured in one graph per rank.
    pub(crate) fn captured(team: &mut Team, case: &Case, steps: Steps, n_ops: u32) -> Result<Self> {
        let mut program = Self::eager(case, steps, n_ops);
        for rank in team.ranks() {
            let stream = team.stream(rank).clone();
            let graph = stream.capture(|| (0..n_ops).try_for_each(|op| program.enqueue(team, rank, op)))?;
            let (facts, expected) = (graph.facts()?, nodes(team, case, steps, n_ops)?);
            ensure!(
                facts == expected,
                "{n_ops} operations became {} nodes, {} of them kernels; {} and {} were expected",
                facts.n_nodes,
                facts.n_kernel_nodes,
                expected.n_nodes,
                expected.n_kernel_nodes
            );
            program.graphs.push(graph.instantiate()?);
        }
        Ok(program)
    }

    /// Puts all operations into the streams of all ranks. Waits for nothing.
    pub(crate) fn launch(&self, team: &mut Team) -> symmem::Result<()> {
        if self.graphs.is_empty() {
            let ranks = team.ranks();
            return (0..self.n_ops)
                .try_for_each(|op| ranks.clone().try_for_each(|rank| self.enqueue(team, rank, op)));
        }
        self.graphs.iter().zip(&team.streams).try_for_each(|(graph, stream)| graph.launch(stream))
    }

    fn enqueue(&self, team: &mut Team, rank: u32, op: u32) -> symmem::Result<()> {
        let (from, to) = self.steps.sides(op);
        team.enqueue(rank, &self.case, from, to)
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
                let (input, output) = Program::eager(&case, steps, n_ops).folds();
                assert_eq!((input.unwrap_or(0), output), counted(steps, n_ops), "{steps:?} {n_ops}");
            }
        }
    }
}

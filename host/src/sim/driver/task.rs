//! Work and the order it must keep: each task waits for others, whatever stream or graph it came from.

use super::graph::Graph;
use super::module::Launch;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Names a task. Numbers are not used again.
pub(crate) type TaskId = u64;

/// What the host does that orders work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It puts in a task that comes behind others.
    Added {
        /// The task.
        task: TaskId,
        /// What it comes behind.
        after: Vec<TaskId>,
        /// It is a kernel; else it only joins what it comes behind.
        is_kernel: bool,
    },
    /// It learns that a task is done.
    Known(TaskId),
}

#[derive(Debug)]
struct Task {
    /// The kernel; `None` only joins what it waits for.
    launch: Option<Arc<Launch>>,
    n_unfinished: usize,
    dependents: Vec<TaskId>,
    /// The graph whose launch this task ends, held for what it keeps.
    _graph: Option<Arc<Graph>>,
}

/// All unfinished tasks. A task that is not here is done.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    next: TaskId,
    unfinished: HashMap<TaskId, Task>,
    ready: VecDeque<(TaskId, Arc<Launch>)>,
    /// What nobody has asked for yet.
    order: Vec<Order>,
}

impl Tasks {
    /// Adds work that starts when all of `after` is done.
    pub(crate) fn add(&mut self, launch: Option<Arc<Launch>>, after: &[TaskId]) -> TaskId {
        self.add_task(launch, None, after)
    }

    /// Adds the end of a launch of `graph`, which it keeps till then.
    pub(super) fn add_end(&mut self, graph: Arc<Graph>, after: &[TaskId]) -> TaskId {
        self.add_task(None, Some(graph), after)
    }

    fn add_task(
        &mut self,
        launch: Option<Arc<Launch>>,
        graph: Option<Arc<Graph>>,
        after: &[TaskId],
    ) -> TaskId {
        let id = self.next;
        self.next += 1;
        self.order.push(Order::Added { task: id, after: after.to_vec(), is_kernel: launch.is_some() });
        let mut n_unfinished = 0;
        for earlier in after {
            if let Some(earlier) = self.unfinished.get_mut(earlier) {
                earlier.dependents.push(id);
                n_unfinished += 1;
            }
        }
        self.unfinished.insert(id, Task { launch, n_unfinished, dependents: Vec::new(), _graph: graph });
        if n_unfinished == 0 {
            self.start(id);
        }
        id
    }

    /// Whether a task is done, or was dropped.
    pub(crate) fn is_done(&self, id: TaskId) -> bool {
        !self.unfinished.contains_key(&id)
    }

    /// As [`Self::is_done`], asked by the host: what it does later comes behind the task.
    pub(crate) fn is_known_done(&mut self, id: TaskId) -> bool {
        let is_done = self.is_done(id);
        if is_done {
            self.order.push(Order::Known(id));
        }
        is_done
    }

    /// What has ordered work since the last call.
    pub(crate) fn take_order(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.order)
    }

    /// Marks a task done and starts what waited for it alone.
    pub(crate) fn finish(&mut self, id: TaskId) {
        let mut done = vec![id];
        while let Some(id) = done.pop() {
            let Some(task) = self.unfinished.remove(&id) else { continue };
            for dependent in task.dependents {
                let Some(waiting) = self.unfinished.get_mut(&dependent) else { continue };
                waiting.n_unfinished -= 1;
                if waiting.n_unfinished == 0 {
                    match &waiting.launch {
                        Some(launch) => self.ready.push_back((dependent, launch.clone())),
                        None => done.push(dependent),
                    }
                }
            }
        }
    }

    fn start(&mut self, id: TaskId) {
        match &self.unfinished[&id].launch {
            Some(launch) => self.ready.push_back((id, launch.clone())),
            None => self.finish(id),
        }
    }

    /// Takes the next kernel that may start.
    pub(crate) fn take_ready(&mut self) -> Option<(TaskId, Arc<Launch>)> {
        self.ready.pop_front()
    }

    /// Whether nothing is unfinished.
    pub(crate) fn is_empty(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// Drops everything unfinished.
    pub(crate) fn clear(&mut self) {
        self.unfinished.clear();
        self.ready.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_finish_when_all_they_wait_for_is_done() {
        let mut tasks = Tasks::default();
        let free = tasks.add(None, &[]);
        assert!(tasks.is_done(free));
        // Work without a kernel that is held open by hand.
        let open = 100;
        let task = Task { launch: None, n_unfinished: 0, dependents: Vec::new(), _graph: None };
        tasks.unfinished.insert(open, task);
        let first = tasks.add(None, &[open, free]);
        let second = tasks.add(None, &[first, open]);
        assert!(!tasks.is_done(first) && !tasks.is_done(second));
        tasks.finish(open);
        assert!(tasks.is_done(first) && tasks.is_done(second));
        assert!(tasks.unfinished.is_empty());
    }
}

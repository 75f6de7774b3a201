//! Retention in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::port_store::Collected;

use super::State;

impl State {
    pub(super) fn collect(
        &mut self,
        before: Millis,
        keep_newest: usize,
        dry_run: bool,
    ) -> Collected {
        let mut over: Vec<_> = self
            .runs
            .iter()
            .filter(|(_, run)| run.summary.state.is_final())
            .collect();
        over.sort_unstable_by_key(|(_, run)| std::cmp::Reverse((run.summary.created, run.order)));
        let mut due: BTreeMap<u64, Arc<str>> = over
            .into_iter()
            .skip(keep_newest)
            .filter(|(_, run)| run.summary.updated < before && self.owner(run).is_none())
            .map(|(id, run)| (run.order, id.clone()))
            .collect();
        let mut collected = Collected::default();
        loop {
            let ids: BTreeSet<&Arc<str>> = due.values().collect();
            let kept = self.runs.iter().filter(|(id, _)| !ids.contains(id));
            let bases: BTreeSet<Arc<str>> = kept
                .filter_map(|(_, run)| run.base.as_ref())
                .map(|(base, _)| base.clone())
                .collect();
            let pinned: Vec<_> = due
                .iter()
                .filter(|(_, id)| bases.contains(*id))
                .map(|(order, _)| *order)
                .collect();
            if pinned.is_empty() {
                break;
            }
            collected
                .pinned
                .extend(pinned.iter().filter_map(|order| due.remove(order)));
        }
        collected
            .pinned
            .sort_unstable_by_key(|id| self.runs.get(id).map(|run| run.order));
        collected.runs = due.into_values().collect();
        if !dry_run {
            self.remove(&collected.runs);
        }
        collected
    }

    fn remove(&mut self, ids: &[Arc<str>]) {
        let mut graphs = BTreeSet::new();
        for id in ids {
            if let Some(run) = self.runs.remove(id) {
                graphs.extend(run.graphs);
                graphs.insert(run.summary.graph);
            }
            self.inbox.retain(|_, row| row.run != *id);
            self.questions.retain(|_, question| question.run != *id);
        }
        for run in self.runs.values() {
            graphs.remove(&run.summary.graph);
            run.graphs.iter().for_each(|graph| {
                graphs.remove(graph);
            });
        }
        self.bundles.retain(|hash, _| !graphs.contains(hash));
    }
}

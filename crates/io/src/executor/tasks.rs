//! Tasks with an owner.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// A runtime and the tasks on it. Dropping it drops the tasks at their next wait and does not wait for them.
#[derive(Debug)]
pub(super) struct TaskSet {
    tasks: Mutex<JoinSet<()>>,
    runtime: Option<Runtime>,
}

impl TaskSet {
    pub(super) fn new(threads: usize) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("ravel-io")
            .enable_all()
            .build()?;
        Ok(Self {
            tasks: Mutex::default(),
            runtime: Some(runtime),
        })
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let Some(runtime) = &self.runtime else { return };
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Finished ones are let go here, so that the set does not grow.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, runtime.handle());
    }
}

impl Drop for TaskSet {
    fn drop(&mut self) {
        self.tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .abort_all();
        if let Some(runtime) = self.runtime.take() {
            // Waiting is not allowed where the owner may itself be a task of another runtime.
            runtime.shutdown_background();
        }
    }
}

//! The executors of Ravel: models, tools, processes, secrets.

//! Confinement of a process: landlock for files, seccomp for the network and for system calls.
//!
//! | level       | reads                                    | writes                 | network | system calls |
//! |-------------|------------------------------------------|------------------------|---------|--------------|
//! | `none`      | as the user                              | as the user            | yes     | all          |
//! | `workspace` | all but home secrets                     | its directory and /tmp of its own | no | all but a few |
//! | `strict`    | its directory, system libraries, its own program | the same       | no      | a list       |
//!
//! A level is applied whole or refused: a kernel that lacks a part is named, nothing is weakened in silence.

mod paths;
mod syscalls;

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use ravel_core::graph::Sandbox;
use serde::{Deserialize, Serialize};

/// What this needs of landlock: version 3 (Linux 6.2) is the first that covers truncation.
const ABI_NEEDED: ABI = ABI::V3;

/// What this machine can confine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Why `sandbox: workspace` does not work here. `None`: it works.
    pub workspace: Option<String>,
    /// Why `sandbox: strict` does not work here. `None`: it works.
    pub strict: Option<String>,
}

/// Looks at what the kernel offers, without confining anything.
#[must_use]
pub fn probe() -> Probe {
    let missing = missing();
    let strict = missing.clone().or_else(|| syscalls::strict_program().err());
    Probe {
        workspace: missing,
        strict,
    }
}

fn missing() -> Option<String> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI_NEEDED))
        .and_then(Ruleset::create);
    if ruleset.is_err() {
        return Some("the kernel lacks landlock version 3 (Linux 6.2 or newer, with `landlock` in its LSM list)".into());
    }
    if !Path::new("/proc/sys/kernel/seccomp/actions_avail").exists() {
        return Some("the kernel lacks seccomp filters (CONFIG_SECCOMP_FILTER)".into());
    }
    syscalls::workspace_program().err()
}

/// How a process is confined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// How much.
    pub(crate) level: Sandbox,
    /// The home whose secrets `workspace` keeps out of reach.
    pub(crate) home: Option<PathBuf>,
    /// Directories that it may change.
    pub(crate) writable: Vec<PathBuf>,
    /// What it may read besides: the program's own installation.
    pub(crate) readable: Vec<PathBuf>,
}

/// Confines this thread and all that it starts, for ever. Called by the stage, which has one thread.
///
/// # Errors
/// One sentence for people: what the kernel lacks.
pub(crate) fn confine(order: &Confinement) -> Result<(), String> {
    let (mut reads, filter) = match order.level {
        Sandbox::None => return Ok(()),
        Sandbox::Workspace => {
            let reads = paths::workspace_reads(Path::new("/"), order.home.as_deref());
            (reads, syscalls::workspace_program()?)
        }
        Sandbox::Strict => (paths::strict_reads(), syscalls::strict_program()?),
    };
    reads.extend(order.readable.iter().cloned());
    restrict(&reads, &order.writable)?;
    seccompiler::apply_filter(&filter)
        .map_err(|error| format!("the kernel refuses the seccomp filter: {error}"))
}

fn restrict(reads: &[PathBuf], writes: &[PathBuf]) -> Result<(), String> {
    if let Some(missing) = missing() {
        return Err(missing);
    }
    let all: BitFlags<AccessFs> = AccessFs::from_all(ABI_NEEDED);
    let read = AccessFs::from_read(ABI_NEEDED);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .map(|ruleset| ruleset.set_compatibility(CompatLevel::BestEffort))
        // Newer kernels also keep signals and abstract sockets inside.
        .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(reads, read)))
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(paths::DEVICES, device)))
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(writes, all)))
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(|error| format!("the kernel refuses the landlock rules: {error}"))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("the kernel does not enforce landlock rules".into()),
    }
}

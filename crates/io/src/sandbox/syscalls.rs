//! Filters of system calls.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Refused at `workspace`: the network (a socket of any family: also the ones of local daemons), and the ways around
/// a filter or a sandbox.
const WORKSPACE_DENIED: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Allowed at `strict`, on every architecture. Anything else answers "not implemented", on which the C library and
/// language runtimes know how to fall back.
const STRICT_ALLOWED: &[i64] = &[
    // Files.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_readlinkat,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_utimensat,
    libc::SYS_umask,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_memfd_create,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    // Waiting. Sockets that connect a process to itself or its children only.
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_signalfd4,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_pkey_mprotect,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_membarrier,
    libc::SYS_get_mempolicy,
    // Processes and threads.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_clone,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_setpgid,
    libc::SYS_setsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_prlimit64,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_prctl,
    libc::SYS_capget,
    libc::SYS_getcpu,
    // Signals, time, the machine.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_times,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_delete,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
];

/// The older spellings that only x86-64 has.
#[cfg(target_arch = "x86_64")]
const STRICT_ALLOWED_HERE: &[i64] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_getdents,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_inotify_init,
    libc::SYS_vfork,
    libc::SYS_fork,
    libc::SYS_getpgrp,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const STRICT_ALLOWED_HERE: &[i64] = &[libc::SYS_renameat];

/// Set in the numbers of the x32 variant of x86-64's system calls: the same calls by other numbers.
#[cfg(target_arch = "x86_64")]
const VARIANTS: [i64; 2] = [0, 0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const VARIANTS: [i64; 1] = [0];

/// The bits of a socket's type without its flags.
const SOCKET_TYPE_MASK: u64 = 0xf;

/// The filter of `workspace`.
pub(super) fn workspace_program() -> Result<BpfProgram, String> {
    let denied = WORKSPACE_DENIED
        .iter()
        .flat_map(|call| VARIANTS.map(|variant| (call | variant, Vec::new())));
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> = denied.collect();
    for variant in VARIANTS {
        denied.insert(
            libc::SYS_socketpair | variant,
            vec![socket_pair(libc::SOCK_DGRAM)?],
        );
    }
    compile(
        denied,
        SeccompAction::Allow,
        SeccompAction::Errno(errno(libc::EACCES)?),
    )
}

/// The filter of `strict`.
pub(super) fn strict_program() -> Result<BpfProgram, String> {
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> = STRICT_ALLOWED
        .iter()
        .chain(STRICT_ALLOWED_HERE)
        .map(|call| (*call, Vec::new()))
        .collect();
    // No new namespaces: in one, a process is root and much more of the kernel is within reach.
    allowed.insert(libc::SYS_clone, vec![without_namespaces()?]);
    allowed.insert(libc::SYS_socketpair, vec![socket_pair(libc::SOCK_STREAM)?]);
    let refuse = SeccompAction::Errno(errno(libc::ENOSYS)?);
    compile(allowed, refuse, SeccompAction::Allow)
}

fn without_namespaces() -> Result<SeccompRule, String> {
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWCGROUP;
    let mask = u64::try_from(namespaces).map_err(|error| error.to_string())?;
    SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), 0)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| error.to_string())
}

/// Pairs of this type. A datagram pair is no pair: it can send to any socket of the machine by name.
fn socket_pair(kind: i32) -> Result<SeccompRule, String> {
    let kind = u64::try_from(kind).map_err(|error| error.to_string())?;
    SeccompCondition::new(
        1,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::MaskedEq(SOCKET_TYPE_MASK),
        kind,
    )
    .and_then(|condition| SeccompRule::new(vec![condition]))
    .map_err(|error| error.to_string())
}

fn errno(number: i32) -> Result<u32, String> {
    u32::try_from(number).map_err(|error| error.to_string())
}

fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    on_match: SeccompAction,
) -> Result<BpfProgram, String> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(|_| {
        format!(
            "no filter of system calls for {} yet",
            std::env::consts::ARCH
        )
    })?;
    SeccompFilter::new(rules, otherwise, on_match, architecture)
        .and_then(BpfProgram::try_from)
        .map_err(|error| format!("the seccomp filter does not compile: {error}"))
}

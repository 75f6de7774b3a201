//! A folder of its own for each test, and the binary in it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The longest that anything in these tests may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with nothing in it, and a home without configuration.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
}

/// A process that ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// stdout as one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// stdout as JSON lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The same, when the process ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout: {}\nstderr: {}",
            self.out, self.err
        );
        self
    }
}

impl Lab {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        std::fs::create_dir(folder.path().join("home")).unwrap();
        Self { folder }
    }

    /// The folder that commands are started in.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// The binary with a clean environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ravel"));
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path().join("home"))
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            .env("COLUMNS", "100")
            .env("USER", "tester")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn ravel(&self, arguments: &[&str]) -> Done {
        self.with_input(arguments, "")
    }

    /// Runs a command with something on stdin.
    pub(crate) fn with_input(&self, arguments: &[&str], input: &str) -> Done {
        let mut command = self.command(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = finish(child, arguments);
        Done {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a line as a person would paste it into a shell; `ravel` is the binary.
    pub(crate) fn shell(&self, line: &str) -> Done {
        let script = format!(
            "ravel() {{ '{}' \"$@\"; }}\n{line}\n",
            env!("CARGO_BIN_EXE_ravel")
        );
        let mut shell = Command::new("sh");
        shell.arg("-euc").arg(script).current_dir(self.path());
        shell.env_clear();
        for (name, value) in self.command(&[]).get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        let output = shell.stdin(Stdio::null()).output().unwrap();
        Done {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Starts a command whose stdout is read line by line: each line is a JSON document.
    pub(crate) fn start(&self, arguments: &[&str]) -> Going {
        self.going(self.command(arguments))
    }

    /// The same for a command that was made before.
    pub(crate) fn going(&self, mut command: Command) -> Going {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(self.folder.path().join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Going {
            child,
            out,
            errors: self.folder.path().join("stderr"),
            seen: Vec::new(),
        }
    }

    /// The newest run as `runs list --json` says.
    pub(crate) fn newest(&self) -> Value {
        self.ravel(&["runs", "list", "--json"]).expect(0).json()["runs"][0].clone()
    }

    /// Open questions as `answer --list --json` says.
    pub(crate) fn questions(&self) -> Vec<Value> {
        let listed = self.ravel(&["answer", "--list", "--json"]).expect(0).json();
        listed["questions"].as_array().unwrap().clone()
    }

    /// The final state of every step: what equality of runs is made of.
    pub(crate) fn outcome(&self, run: &str) -> Vec<(String, String, Value)> {
        let shown = self
            .ravel(&["runs", "show", run, "--json"])
            .expect(0)
            .json();
        let steps = shown["steps"].as_array().unwrap().iter().map(|step| {
            (
                text(&step["path"]),
                text(&step["state"]),
                step["value"].clone(),
            )
        });
        let mut outcome: Vec<_> = steps.collect();
        outcome.push((
            String::new(),
            text(&shown["state"]),
            shown["output"].clone(),
        ));
        outcome.sort_by(|left, right| left.0.cmp(&right.0));
        outcome
    }
}

/// Waits for a process, and kills it when it takes too long: a test that hangs says nothing.
fn finish(child: Child, arguments: &[&str]) -> std::process::Output {
    let pid = child.id().to_string();
    let (done, waited) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let late = waited.recv_timeout(PATIENCE).is_err();
        if late {
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
        }
        late
    });
    let output = child.wait_with_output().unwrap();
    let _ = done.send(());
    let late = watchdog.join().unwrap();
    assert!(
        !late,
        "{arguments:?} did not end: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A JSON string's text.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A process that goes on. Killed when it is dropped.
pub(crate) struct Going {
    child: Child,
    out: BufReader<ChildStdout>,
    errors: PathBuf,
    pub(crate) seen: Vec<Value>,
}

impl Going {
    /// Reads lines until one fits; `None` when the process ended before.
    pub(crate) fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let began = Instant::now();
        loop {
            assert!(
                began.elapsed() < PATIENCE,
                "nothing came; stderr: {}",
                self.errors()
            );
            let mut line = String::new();
            if self.out.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // A killed process may leave half a line.
            let Ok(value) = serde_json::from_str::<Value>(&line) else {
                return None;
            };
            self.seen.push(value.clone());
            if fits(&value) {
                return Some(value);
            }
        }
    }

    /// Reads lines until an event of this type.
    #[track_caller]
    pub(crate) fn event(&mut self, name: &str) -> Value {
        self.until(|line| line["type"] == name)
            .unwrap_or_else(|| panic!("no {name}: {}", self.errors()))
    }

    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success() || name == "KILL", "the process is gone");
    }

    /// `kill -9`, and waits until it is dead.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Done {
        let mut rest = String::new();
        let _ = self.out.read_to_string(&mut rest);
        let status = self.child.wait().unwrap();
        let seen: String = self.seen.iter().map(|line| format!("{line}\n")).collect();
        Done {
            code: status.code().unwrap_or(-1),
            out: seen + &rest,
            err: self.errors(),
        }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A seeded generator (SplitMix64): the same numbers in every run of the tests.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Waits until something outside the process is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lines of a file, sorted.
pub(crate) fn sorted_lines(path: &Path) -> Vec<String> {
    let mut lines: Vec<String> = std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

//! Tools against servers and files that mean harm: each call ends in a value or in a typed error, within its limits.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use ravel_core::effect::{ErrorClass, Failure, Fate, Outcome};
use ravel_core::event::{Attempt, Stop};
use ravel_core::port::{Executor, Request, SECRET_CLOSE, SECRET_OPEN};
use ravel_io::secret::Source;
use serde_json::{Value, json};

use crate::common::{Bench, Log, job};

/// A server that says what a test wants, byte by byte, and keeps the heads of the requests.
struct Server {
    address: String,
    heads: Arc<Mutex<Vec<String>>>,
    /// Says that an answer was written, or could not be written any more.
    answered: Receiver<()>,
}

impl Server {
    fn new(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (done, answered) = channel();
        let seen = Arc::clone(&heads);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let head = head(&connection);
                seen.lock().unwrap().push(head);
                let _ = answer(&mut connection);
                drop(connection);
                if done.send(()).is_err() {
                    break;
                }
            }
        });
        Self {
            address,
            heads,
            answered,
        }
    }

    /// One that answers the same bytes each time.
    fn fixed(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::new(move |connection| connection.write_all(&answer))
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn head(connection: &TcpStream) -> String {
    let lines = BufReader::new(connection).lines().map_while(Result::ok);
    lines
        .take_while(|line| !line.is_empty())
        .map(|line| line + "\n")
        .collect()
}

fn get(bench: &Bench, server: &Server) -> Outcome {
    bench.tool("http.get", json!({ "url": server.url() }))
}

/// What an outcome is known by.
fn kind(outcome: &Outcome) -> (Fate, ErrorClass, Option<&str>) {
    let failure = outcome.result.as_ref().unwrap_err();
    (outcome.fate, failure.class, failure.code.as_deref())
}

fn value(outcome: &Outcome) -> &Value {
    outcome.result.as_ref().unwrap().json()
}

const LOST: (Fate, ErrorClass, Option<&str>) = (
    Fate::Unknown,
    ErrorClass::Unavailable,
    Some("connection_lost"),
);

#[test]
fn an_endless_body_ends_at_the_limit_and_endless_headers_end_too() {
    let bench = Bench::new();
    let body = Server::new(|connection| {
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        loop {
            connection.write_all(&[b'x'; 4096])?;
        }
    });
    let outcome = bench.tool(
        "http.get",
        json!({ "url": body.url(), "max_bytes": 100_000 }),
    );
    let text = "the answer is larger than 100000 bytes (max_bytes)";
    let failure = Failure::new(ErrorClass::InvalidOutput, text).with_code("too_large");
    assert_eq!(outcome, Outcome::done_with(failure));
    // The connection is closed, not read on.
    body.answered.recv().unwrap();
    let headers = Server::new(|connection| {
        connection.write_all(b"HTTP/1.1 200 OK\r\n")?;
        loop {
            connection.write_all(b"a: b\r\n")?;
        }
    });
    assert_eq!(kind(&get(&bench, &headers)), LOST);
    headers.answered.recv().unwrap();
}

#[test]
fn lies_about_the_length_are_found() {
    let bench = Bench::new();
    let short = Server::fixed("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhello");
    assert_eq!(value(&get(&bench, &short))["text"], "hel");
    for lie in [
        "HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: -3\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nhello",
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "SSH-2.0-server\r\n",
        "",
    ] {
        assert_eq!(kind(&get(&bench, &Server::fixed(lie))), LOST, "{lie}");
    }
}

#[test]
fn a_compressed_body_is_not_blown_up() {
    let bomb = std::process::Command::new("sh")
        .args(["-c", "head -c 50000000 /dev/zero | gzip -9"])
        .output()
        .unwrap()
        .stdout;
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        bomb.len()
    )
    .into_bytes();
    answer.extend_from_slice(&bomb);
    let server = Server::fixed(answer);
    let outcome = get(&Bench::new(), &server);
    assert_eq!(value(&outcome)["file"]["bytes"], bomb.len());
    assert!(!server.heads()[0].contains("accept-encoding"));
}

#[test]
fn json_that_is_none_or_too_deep_is_text_and_bytes_are_a_file() {
    let bench = Bench::new();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
    let deep = "[".repeat(100_000);
    for body in ["{\"a\":", "\0", &deep] {
        let server = Server::fixed(format!("{head}{body}"));
        assert_eq!(value(&get(&bench, &server))["text"], *body);
    }
    let server = Server::fixed([head.as_bytes(), b"\"\xFF\""].concat());
    assert_eq!(value(&get(&bench, &server))["file"]["bytes"], 3);
}

#[test]
fn a_body_that_only_drips_ends_with_the_attempt() {
    let bench = Bench::new();
    let (begun, begins) = channel();
    let server = Server::new(move |connection| {
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        begun.send(()).unwrap();
        connection.set_read_timeout(Some(std::time::Duration::from_millis(5)))?;
        loop {
            connection.write_all(b".")?;
            // The pause of a dripping tap; the end of the connection ends it.
            if let Ok(0) = connection.read(&mut [0]) {
                return Ok(());
            }
        }
    });
    let log = Arc::new(Log::default());
    let request = Request::Tool {
        name: "http.get".into(),
        input: json!({ "url": server.url() }).into(),
    };
    bench.executor.start(job(request), log.clone());
    begins.recv().unwrap();
    bench
        .executor
        .abort("r1", Attempt { node: 3, number: 1 }, Stop::Timeout);
    let text = "stopped: the timeout of the attempt passed";
    let wanted = Outcome::unknown(Failure::new(ErrorClass::Timeout, text));
    assert_eq!(log.wait_for_ends(1).remove(0).1, wanted);
    server.answered.recv().unwrap();
}

#[test]
fn a_redirect_leads_to_the_web_only() {
    let bench = Bench::new();
    for (place, why) in [
        ("file:///etc/passwd", "a redirect to file is not followed"),
        ("ftp://127.0.0.1/", "a redirect to ftp is not followed"),
        ("data:text/plain,x", "a redirect to data is not followed"),
        (
            "http://[::1",
            "the redirect's address is not valid: invalid IPv6 address",
        ),
    ] {
        let server = Server::fixed(format!(
            "HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n"
        ));
        let failure = Failure::new(ErrorClass::PolicyDenied, why).with_code("redirect_refused");
        assert_eq!(get(&bench, &server), Outcome::done_with(failure), "{place}");
    }
}

#[test]
fn credentials_stay_with_the_host_that_they_are_for() {
    let bench = Bench::new();
    let other = Server::fixed("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let first = Server::fixed(format!(
        "HTTP/1.1 307 Moved\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
        other.url()
    ));
    let headers = json!({
        "authorization": "Bearer abc", "cookie": "id=abc", "proxy-authorization": "Basic abc", "accept": "text/plain",
    });
    bench.tool(
        "http.get",
        json!({ "url": first.url(), "headers": headers }),
    );
    assert_eq!(first.heads()[0].matches("abc").count(), 3);
    let seen = other.heads().remove(0);
    assert!(
        !seen.contains("abc") && seen.contains("accept: text/plain"),
        "{seen}"
    );
}

#[test]
fn nothing_can_be_smuggled_into_the_head_of_a_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    std::fs::write(&path, "first-line\r\nX-Evil: 1\n").unwrap();
    let bench = Bench::with(|config| {
        config.secrets.insert("key".to_owned(), Source::File(path));
    });
    let server = Server::fixed("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let marked = format!("{SECRET_OPEN}key{SECRET_CLOSE}");
    for (name, value) in [
        ("x-a", "1\r\nX-Evil: 1"),
        ("x-a", "1\nX-Evil: 1"),
        ("x-a", "1\0"),
        ("x-a: 1\r\nX-Evil", "1"),
        ("x a", "1"),
        ("", "1"),
        ("content-length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("x-a", &marked),
    ] {
        let input = json!({ "url": server.url(), "headers": { (name): value }, "text": "GET /evil HTTP/1.1" });
        let outcome = bench.tool("http.post", input);
        assert_eq!(
            kind(&outcome),
            (Fate::NotDone, ErrorClass::InvalidInput, None),
            "{name:?}: {value:?}"
        );
        let message = outcome.result.unwrap_err().message;
        assert!(
            message.starts_with("headers") && !message.contains("first-line"),
            "{message}"
        );
    }
    assert!(server.heads().is_empty(), "{:?}", server.heads());
    let url = format!("{}a\r\nX-Evil: 1\r\n", server.url());
    bench.tool(
        "http.get",
        json!({ "url": url, "query": { "q": "1\r\nX-Evil: 1" } }),
    );
    let heads = server.heads().remove(0);
    let evil = |line: &str| line.to_ascii_lowercase().starts_with("x-evil");
    assert!(!heads.lines().any(evil), "{heads}");
}

#[test]
fn an_error_page_that_is_cut_through_a_secret_gives_no_part_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "hunter2-ünter3").unwrap();
    let bench = Bench::with(|config| {
        config
            .secrets
            .insert("token".to_owned(), Source::File(path));
    });
    let headers = json!({ "x-token": format!("{SECRET_OPEN}token{SECRET_CLOSE}") });
    // What cannot stand in a header is known all the same once it was read.
    bench.tool(
        "http.get",
        json!({ "url": "http://127.0.0.1:9/", "headers": headers }),
    );
    for shown in 0.."hunter2-ünter3".len() {
        let body = format!("{}hunter2-ünter3 and more", "x".repeat(4096 - shown));
        let server = Server::fixed(format!("HTTP/1.1 500 No\r\n\r\n{body}"));
        let outcome = get(&bench, &server);
        let data = outcome.result.unwrap_err().data.unwrap();
        assert_eq!(
            data.json()["body"],
            "x".repeat(4096 - shown),
            "{shown} bytes of it"
        );
    }
}

fn files() -> Bench {
    Bench::with(|config| {
        config.files_root = config.root.with_file_name("files");
        std::fs::create_dir(&config.files_root).unwrap();
    })
}

#[test]
fn files_that_are_none_are_refused_without_waiting() {
    let bench = files();
    let root = bench.dir.path().join("files");
    let made = std::process::Command::new("mkfifo")
        .arg(root.join("pipe"))
        .status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", root.join("zero")).unwrap();
    std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
    let refused = |class, code| (Fate::NotDone, class, code);
    for (path, wanted) in [
        ("pipe", refused(ErrorClass::InvalidInput, None)),
        (".", refused(ErrorClass::InvalidInput, None)),
        ("a\0b", refused(ErrorClass::InvalidInput, None)),
        ("zero", refused(ErrorClass::PolicyDenied, Some("outside"))),
        ("loop", refused(ErrorClass::PolicyDenied, Some("outside"))),
        (
            "/dev/zero",
            refused(ErrorClass::PolicyDenied, Some("outside")),
        ),
    ] {
        for (tool, input) in [
            ("file.read", json!({ "path": path })),
            ("file.read", json!({ "path": path, "as": "file" })),
            ("file.append", json!({ "path": path, "text": "x" })),
        ] {
            assert_eq!(kind(&bench.tool(tool, input)), wanted, "{tool} {path}");
        }
    }
    assert_eq!(
        value(&bench.tool("file.exists", json!({ "path": "pipe" }))),
        &json!({ "exists": true, "kind": "other" })
    );
}

#[test]
fn a_file_that_is_huge_or_no_text_is_said_so_and_can_be_taken_as_a_file() {
    let bench = files();
    let root = bench.dir.path().join("files");
    let huge = std::fs::File::create(root.join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    std::fs::write(root.join("bytes"), b"ok\xFF\xFE\0").unwrap();
    let invalid = |code| (Fate::Done, ErrorClass::InvalidOutput, Some(code));
    for (input, wanted) in [
        (json!({ "path": "huge" }), invalid("too_large")),
        (
            json!({ "path": "huge", "as": "json" }),
            invalid("too_large"),
        ),
        (
            json!({ "path": "bytes", "max_bytes": 4 }),
            invalid("too_large"),
        ),
        (
            json!({ "path": "bytes", "max_bytes": u64::MAX }),
            invalid("not_text"),
        ),
        (
            json!({ "path": "bytes", "as": "json" }),
            invalid("not_text"),
        ),
    ] {
        assert_eq!(
            kind(&bench.tool("file.read", input.clone())),
            wanted,
            "{input}"
        );
    }
    let taken = bench.tool("file.read", json!({ "path": "bytes", "as": "file" }));
    assert_eq!(value(&taken)["bytes"], 5);
}

#[test]
fn a_copy_of_a_huge_file_ends_with_the_attempt() {
    let bench = files();
    let root = bench.dir.path().join("files");
    let huge = std::fs::File::create(root.join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let log = Arc::new(Log::default());
    let request = Request::Tool {
        name: "file.read".into(),
        input: json!({ "path": "huge", "as": "file" }).into(),
    };
    bench.executor.start(job(request), log.clone());
    let store = bench.dir.path().join("work/files");
    crate::common::wait_until("the copy to begin", || {
        std::fs::read_dir(&store).is_ok_and(|mut entries| entries.next().is_some())
    });
    bench
        .executor
        .abort("r1", Attempt { node: 3, number: 1 }, Stop::Timeout);
    let text = "stopped: the timeout of the attempt passed";
    let wanted = Outcome::not_done(Failure::new(ErrorClass::Timeout, text));
    assert_eq!(log.wait_for_ends(1).remove(0).1, wanted);
    assert_eq!(std::fs::read_dir(&store).unwrap().count(), 0);
}

#[test]
fn a_list_of_a_hostile_folder_ends() {
    use std::os::unix::ffi::OsStrExt;
    let bench = files();
    let root = bench.dir.path().join("files");
    let odd = root.join(std::ffi::OsStr::from_bytes(b"odd\xFF"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join("in"), "").unwrap();
    std::os::unix::fs::symlink(".", root.join("again")).unwrap();
    let listed = bench.tool("file.list", json!({ "recursive": true }));
    let entries = json!([
        { "path": "again", "kind": "link", "bytes": 0 },
        { "path": "odd\u{FFFD}", "kind": "folder", "bytes": 0 },
        { "path": "odd\u{FFFD}/in", "kind": "file", "bytes": 0 },
    ]);
    assert_eq!(value(&listed)["entries"], entries);
    let deep = (0..70).fold(root.clone(), |path, _| path.join("d"));
    std::fs::create_dir_all(deep).unwrap();
    let outcome = bench.tool("file.list", json!({ "recursive": true }));
    assert_eq!(
        kind(&outcome),
        (Fate::Done, ErrorClass::InvalidOutput, Some("too_large"))
    );
    // One level is as good as ever.
    let listed = bench.tool("file.list", json!({}));
    assert_eq!(value(&listed)["entries"].as_array().unwrap().len(), 3);
}

//! The shipped examples on a scripted provider: what they promise in their READMEs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::lab::{Done, Lab, text};

const THANKS: &str = "Thank you for writing. Our team takes care of it and will write to you.";

/// An endpoint that gives each kind of call the same answer. Ends with the process.
struct Provider {
    url: String,
}

impl Provider {
    /// `code` is what it answers when it is shown Python.
    fn start(code: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let code = code.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, code) = (stream.unwrap(), code.clone());
                // A client that went away is no concern of the provider's.
                std::thread::spawn(move || serve(stream, &code).unwrap_or_default());
            }
        });
        Self { url }
    }
}

fn serve(stream: TcpStream, code: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body).unwrap();
    let body = json!({
        "model": "scripted",
        "choices": [{ "message": { "content": answer(&request, code) }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5 }
    })
    .to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    write!(
        &stream,
        "{head}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn answer(request: &Value, code: &str) -> String {
    let fields = &request["response_format"]["json_schema"]["schema"]["properties"];
    if fields.get("pass").is_some() {
        json!({ "pass": true, "reason": "polite", "score": 9 }).to_string()
    } else if fields.get("team").is_some() {
        json!({ "team": "billing", "urgency": "low" }).to_string()
    } else if request["messages"].to_string().contains("```python") {
        code.to_owned()
    } else {
        THANKS.to_owned()
    }
}

/// The path of a file of the examples.
fn example(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name);
    root.canonicalize().unwrap().display().to_string()
}

fn run(lab: &Lab, provider: &Provider, arguments: &[&str]) -> Done {
    let output = lab
        .command(arguments)
        .env("RAVEL_MODEL_URL", &provider.url)
        .output()
        .unwrap();
    Done {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn triage_answers_every_ticket_and_asks_about_the_large_refund() {
    let lab = Lab::new();
    let provider = Provider::start("");
    let (flow, tickets) = (
        example("triage/triage.yaml"),
        example("triage/tickets.json"),
    );
    let field = format!("tickets=@{tickets}");
    let mut command = lab.command(&["run", &flow, "-i", &field, "--json"]);
    command.env("RAVEL_MODEL_URL", &provider.url);
    let mut going = lab.going(command);
    going.event("asked");
    let question = lab.questions().remove(0);
    assert_eq!(question["path"], "answers[T-1045]/approve");
    lab.ravel(&["answer", &text(&question["id"]), "ok=true"])
        .expect(0);

    let output = going.end().expect(0).lines().pop().unwrap()["output"].clone();
    let tickets: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(tickets).unwrap()).unwrap();
    let answers: Vec<Value> = tickets
        .iter()
        .map(|ticket| {
            let refund = match ticket["disputed"].as_f64().unwrap() {
                0.0 => "none",
                amount if amount > 100.0 => "approved",
                _ => "automatic",
            };
            json!({ "id": ticket["id"], "team": "billing", "urgency": "low", "reply": THANKS, "refund": refund })
        })
        .collect();
    assert_eq!(output, json!({ "answers": answers, "failed": 0 }));
}

#[test]
fn logs_finds_the_outage_and_puts_its_many_lines_into_few_groups() {
    let lab = Lab::new();
    let provider = Provider::start("");
    let field = format!("log=@{}", example("logs/shop.log"));
    let done = run(
        &lab,
        &provider,
        &[
            "run",
            &example("logs/logs.yaml"),
            "-i",
            &field,
            "-i",
            "lines=50",
        ],
    )
    .expect(0);
    let mut output = done.json();
    let groups = output["groups"].take();
    let counts: Vec<u64> = groups
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["count"].as_u64().unwrap())
        .collect();
    assert_eq!(
        output,
        json!({ "lines": 363, "hits": 104, "groups": null, "summary": THANKS })
    );
    assert_eq!(counts, [70, 6, 6, 6, 6, 5, 3, 1, 1]);
    let largest = json!({
        "message": "ERROR web        connection to db:# refused (attempt # of #) request=#",
        "count": 70, "first": "2026-11-17T09:23:23.434Z", "last": "2026-11-17T09:24:48.386Z"
    });
    assert_eq!(groups[0], largest);
}

/// Runs fix-tests with a model that answers this; gives who mended the module, and after how many rounds.
fn fix_tests(code: &str) -> Value {
    let lab = Lab::new();
    let provider = Provider::start(code);
    let fields = [
        ("source", "package/words.py"),
        ("tests", "package/test_words.py"),
        ("by_hand", "by_hand/words.py"),
    ]
    .map(|(field, file)| format!("{field}=@{}", example(&format!("fix-tests/{file}"))));
    let flow = example("fix-tests/fix-tests.yaml");
    let mut arguments = vec!["run", flow.as_str()];
    for field in &fields {
        arguments.extend(["-i", field]);
    }
    let mut output = run(&lab, &provider, &arguments).expect(0).json();
    assert_eq!(output["source"].take(), mended());
    output
}

fn mended() -> String {
    std::fs::read_to_string(example("fix-tests/by_hand/words.py")).unwrap()
}

#[test]
fn fix_tests_ends_with_the_models_patch_when_it_is_right() {
    let output = fix_tests(&format!("Here it is:\n```python\n{}```\n", mended()));
    assert_eq!(
        output,
        json!({ "source": null, "by": "model", "rounds": 1 })
    );
}

#[test]
fn fix_tests_ends_with_the_patch_by_hand_when_the_model_gives_up() {
    assert_eq!(
        fix_tests("I am sorry."),
        json!({ "source": null, "by": "person", "rounds": 4 })
    );
}

//! What the command line says about itself, and that the reference is what it says.

use crate::lab::Lab;

/// Every command, with its words.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["init"],
    &["check"],
    &["run"],
    &["runs"],
    &["runs", "list"],
    &["runs", "show"],
    &["runs", "log"],
    &["runs", "why"],
    &["runs", "cancel"],
    &["runs", "resume"],
    &["runs", "retry"],
    &["runs", "fork"],
    &["runs", "diff"],
    &["runs", "export"],
    &["runs", "gc"],
    &["answer"],
    &["signal"],
    &["replay"],
    &["graph"],
    &["explain"],
    &["schema"],
    &["limits"],
    &["doctor"],
    &["conformance"],
    &["config"],
    &["completions"],
];

#[test]
fn help_of_every_command() {
    let lab = Lab::new();
    for words in COMMANDS {
        let mut arguments = words.to_vec();
        arguments.push("--help");
        let name = if words.is_empty() {
            "ravel".to_owned()
        } else {
            words.join("_")
        };
        insta::assert_snapshot!(format!("help_{name}"), lab.ravel(&arguments).expect(0).out);
    }
}

#[test]
fn the_reference_is_what_the_program_says() {
    let lab = Lab::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");
    let option = if std::env::var_os("RAVEL_UPDATE_REFERENCE").is_some() {
        "--write"
    } else {
        "--check"
    };
    lab.ravel(&["reference", option, folder]).expect(0);
}

#[test]
fn colours_are_off_in_pipes_and_never_carry_meaning() {
    let lab = Lab::new();
    let plain = lab.ravel(&["doctor", "--offline"]).out;
    assert!(!plain.contains('\u{1b}'));
    let colored = lab.ravel(&["--color", "always", "doctor", "--offline"]).out;
    assert!(colored.contains('\u{1b}'));
}

#[test]
fn completions_for_every_shell() {
    let lab = Lab::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(
            lab.ravel(&["completions", shell])
                .expect(0)
                .out
                .contains("ravel"),
            "{shell}"
        );
    }
}

#[test]
fn usage_errors_have_their_code() {
    let lab = Lab::new();
    lab.ravel(&["runz"]).expect(2);
    lab.ravel(&["run"]).expect(2);
    lab.ravel(&["runs", "show", "x"]).expect(6);
}

#[test]
fn every_key_of_the_language_is_explained_and_types_are() {
    let lab = Lab::new();
    let explained = |topic: &str| lab.ravel(&["explain", topic]).expect(0).out;
    for name in ravel_core::lang::reference::entries() {
        assert!(!explained(name).is_empty(), "{name}");
    }
    let retry = explained("retry");
    assert!(retry.contains("#### Keys of the map of `retry`"), "{retry}");
    assert!(retry.contains("| `attempts` |"), "{retry}");
    let types = explained("type");
    assert!(types.contains("`string`, `integer`"), "{types}");
    assert!(types.contains("`date-time`"), "{types}");
    let keys = explained("RV0101");
    assert!(keys.contains("* the map of `retry`: `attempts`"), "{keys}");
}

#[test]
fn problems_that_are_not_shown_are_counted_and_those_of_two_files_told_once() {
    let lab = Lab::new();
    let steps: String = (0..300)
        .map(|step| format!("  s{step}: {{ set: \"{{{{ nope }}}}\" }}\n"))
        .collect();
    lab.write("many.yaml", &format!("steps:\n{steps}"));
    let many = lab.ravel(&["check", "many.yaml"]).expect(2);
    assert!(
        many.err.contains("1 flow: 300 errors, 0 warnings"),
        "{}",
        many.err
    );
    let json = lab
        .ravel(&["check", "many.yaml", "--json"])
        .expect(2)
        .json();
    assert_eq!(json["errors"], 300);
    let calls = "flows: { sub: sub.yaml }\nsteps: { a: { flow: sub } }\n";
    lab.write("one.yaml", calls);
    lab.write("two.yaml", calls);
    lab.write(
        "sub.yaml",
        "types: { Unused: { a: string } }\nsteps: { a: { set: 1 } }\n",
    );
    let both = lab.ravel(&["check", "one.yaml", "two.yaml"]).expect(0);
    assert!(
        both.err.contains("2 flows: 0 errors, 1 warning"),
        "{}",
        both.err
    );
}

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

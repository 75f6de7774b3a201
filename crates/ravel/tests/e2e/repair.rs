//! `ravel doctor --repair`: what is damaged is refused, what is good is kept, and nothing that may have happened happens
//! again by itself.

use serde_json::json;

use crate::lab::{Lab, text};

/// Bytes of a page of the database.
const PAGE: usize = 4096;

/// Steps with a value of 6 KB each, so that the log has pages of its own.
fn lab() -> Lab {
    let lab = Lab::new();
    let world = lab.path().join("world").display().to_string();
    let mut flow = "ravel: 1\nname: long\nsteps:\n".to_owned();
    for step in 0..12 {
        flow += &format!(
            "  - s{step}: {{ run: \"echo s{step} >> {world}; head -c 4500 /dev/urandom | base64 -w 0\" }}\n"
        );
    }
    flow += "  - ask: { human: { ask: \"Go?\", form: { ok: boolean } } }\n";
    flow += "  - after_it: { run: \"echo last >> WORLD\" }\noutput: { ok: \"{{ ask.ok }}\" }\n";
    lab.write("long.yaml", &flow.replace("WORLD", &world));
    lab.ravel(&["run", "long.yaml", "--park", "-q"]).expect(4);
    lab
}

/// Cuts the database off in the middle of the log.
fn cut(lab: &Lab) -> Vec<u8> {
    let path = lab.path().join(".ravel/ravel.db");
    let bytes = std::fs::read(&path).unwrap();
    let cut = bytes[..bytes.len() / PAGE * 3 / 4 * PAGE].to_vec();
    std::fs::write(&path, &cut).unwrap();
    cut
}

#[test]
fn a_cut_store_is_refused_and_repaired_and_its_run_goes_on_only_when_a_person_says_so() {
    let lab = lab();
    let run = text(&lab.newest()["id"]);
    let turns = lab
        .ravel(&["runs", "show", &run, "--json"])
        .expect(0)
        .json()["turns"]
        .clone();
    let damaged = cut(&lab);
    let doctor = lab.ravel(&["doctor", "--offline"]).expect(1);
    assert!(
        doctor
            .out
            .contains("`ravel doctor --repair` keeps what is good of every run"),
        "{}",
        doctor.out
    );

    let repair = lab
        .ravel(&["doctor", "--repair", "--json"])
        .expect(8)
        .json();
    let backup = text(&repair["backup"]);
    let kept_file = std::fs::read(std::path::Path::new(&backup).join("ravel.db")).unwrap();
    assert!(kept_file == damaged, "the damaged file is kept as it was");
    let cut = repair["runs"][0].clone();
    let kept = cut["turns_kept"].as_u64().unwrap();
    assert_eq!(
        (
            text(&cut["id"]),
            text(&cut["flow"]),
            &cut["turns"],
            &cut["lost_from"],
            repair["whole"].clone()
        ),
        (
            run.clone(),
            "long".to_owned(),
            &turns,
            &json!(kept + 1),
            json!(0)
        )
    );
    assert!(kept > 2 && kept < turns.as_u64().unwrap(), "{repair}");

    // Nothing goes on by itself.
    let world = lab.read("world");
    for command in [
        &["runs", "resume", &run][..],
        &["runs", "why", &run],
        &["replay", &run],
    ] {
        let refused = lab.ravel(command).expect(8);
        let hint = format!("`ravel runs fork {run} --at {kept}` goes on from there");
        assert!(
            refused.err.contains("are missing") || refused.err.contains("value"),
            "{}",
            refused.err
        );
        assert!(
            command[0] == "replay" || refused.err.contains(&hint),
            "{}",
            refused.err
        );
    }
    assert_eq!(lab.read("world"), world);
    assert_eq!(lab.questions(), Vec::<serde_json::Value>::new());

    // A person decides: the fork says what it does again, and the damaged run is given up.
    let forked = lab
        .ravel(&["runs", "fork", &run, "--at", &kept.to_string(), "--park"])
        .expect(4);
    assert!(
        forked.err.contains("steps that ran in them run again"),
        "{}",
        forked.err
    );
    lab.ravel(&["answer", "--all", "ask", "ok=true"]).expect(0);
    lab.ravel(&["runs", "resume", "last"]).expect(0);
    let given_up = lab.ravel(&["runs", "cancel", &run]).expect(0);
    assert!(
        given_up
            .err
            .contains("what it did stands, nothing was undone"),
        "{}",
        given_up.err
    );
    let listed = lab.ravel(&["runs", "list", "--json"]).expect(0).json();
    let states: Vec<String> = listed["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| text(&run["state"]))
        .collect();
    assert_eq!(states, ["succeeded", "cancelled"]);
}

#[test]
fn a_damaged_run_that_was_over_is_left_to_retention() {
    let lab = lab();
    lab.ravel(&["answer", "--all", "ask", "ok=true"]).expect(0);
    lab.ravel(&["runs", "resume", "last"]).expect(0);
    cut(&lab);
    let repair = lab.ravel(&["doctor", "--repair"]).expect(8);
    assert!(
        repair
            .out
            .contains("it was over (succeeded), so nothing goes on; `ravel runs gc` removes"),
        "{}",
        repair.out
    );
    assert!(!repair.out.contains("ravel runs cancel"), "{}", repair.out);
    lab.ravel(&["runs", "gc", "--older-than", "0s"]).expect(0);
    let doctor = lab.ravel(&["doctor", "--offline"]).expect(0);
    assert!(!doctor.out.contains("--repair"), "{}", doctor.out);
}

#[test]
fn a_sound_store_is_not_touched_by_a_repair() {
    let lab = lab();
    let path = lab.path().join(".ravel/ravel.db");
    let before = std::fs::read(&path).unwrap();
    let repair = lab.ravel(&["doctor", "--repair"]).expect(0);
    assert!(repair.out.starts_with("sound "), "{}", repair.out);
    assert!(before == std::fs::read(&path).unwrap());
}

#[test]
fn a_database_without_its_first_page_is_repaired_and_its_run_goes_on() {
    let lab = lab();
    let path = lab.path().join(".ravel/ravel.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[..100].fill(0x55);
    std::fs::write(&path, bytes).unwrap();
    let refused = lab.ravel(&["runs"]).expect(5);
    assert!(
        refused
            .err
            .contains("`ravel doctor --repair` saves what is good in it"),
        "{}",
        refused.err
    );
    let repair = lab.ravel(&["doctor", "--repair"]).expect(0);
    assert!(
        repair.out.contains("of 1 run nothing is lost"),
        "{}",
        repair.out
    );
    lab.ravel(&["answer", "--all", "ask", "ok=true"]).expect(0);
    lab.ravel(&["runs", "resume", "last"]).expect(0);
    assert_eq!(lab.read("world").lines().count(), 13);
}

use std::collections::HashMap;
use std::sync::Arc;

use ravel_core::event::{Datum, Event, Turn};
use ravel_core::value::Val;
use serde_json::json;

use super::*;

struct Held(HashMap<String, Arc<[u8]>>);

impl Held {
    fn new(cuts: Vec<Cut>) -> Self {
        Self(
            cuts.into_iter()
                .map(|cut| (cut.hash.to_hex().to_string(), cut.json.into()))
                .collect(),
        )
    }
}

impl Blobs for Held {
    fn json(&mut self, hash: &str) -> Result<Arc<[u8]>, Error> {
        Ok(self.0[hash].clone())
    }
}

fn encoded(value: &Value, inline_bytes_max: usize) -> (String, Vec<Cut>) {
    let (mut text, mut cuts) = (Vec::new(), Vec::new());
    Encoder::new(inline_bytes_max)
        .value(value, &mut text, &mut cuts)
        .unwrap();
    (String::from_utf8(text).unwrap(), cuts)
}

fn comes_back(value: &Value, inline_bytes_max: usize) {
    let (text, cuts) = encoded(value, inline_bytes_max);
    assert_eq!(
        &decode_value(text.as_bytes(), &mut Held::new(cuts)).unwrap(),
        value
    );
}

#[test]
fn small_values_stay_as_they_are() {
    let value = json!({ "b": [1, { "a": "\"}]" }], "$": "$blob", "blob": null });
    assert_eq!(encoded(&value, 100), (value.to_string(), vec![]));
}

impl PartialEq for Cut {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.json == other.json
    }
}

#[test]
fn a_big_value_leaves_its_hash_and_length() {
    let text = "x".repeat(30);
    let (line, cuts) = encoded(&json!({ "a": 1, "text": text }), 20);
    let json = format!("\"{text}\"");
    let reference = format!(
        "{{\"$blob\":\"{}\",\"bytes\":32}}",
        blake3::hash(json.as_bytes()).to_hex()
    );
    let outer = format!("{{\"a\":1,\"text\":{reference}}}");
    let outer_hash = blake3::hash(outer.as_bytes()).to_hex();
    assert_eq!(
        line,
        format!("{{\"$blob\":\"{outer_hash}\",\"bytes\":{}}}", outer.len())
    );
    assert_eq!(
        cuts.iter().map(|cut| cut.json.clone()).collect::<Vec<_>>(),
        [json.into_bytes(), outer.into_bytes()]
    );
}

#[test]
fn values_that_share_a_part_share_its_blob() {
    let part = json!(["y".repeat(40), 1]);
    let (_, first) = encoded(&json!({ "n": 1, "part": part }), 30);
    let (_, second) = encoded(&json!([part, "other"]), 30);
    assert_eq!(first[1], second[1]);
}

#[test]
fn only_fields_of_events_are_cut() {
    let value = Val::new(json!("z".repeat(500)));
    let event = Event::Streamed {
        node: 1,
        field: "f".into(),
        items: vec![value; 3],
    };
    let turn = Turn {
        turn: 1,
        at: 2,
        events: vec![event.clone(), event],
    };
    let (mut line, mut cuts) = (Vec::new(), Vec::new());
    Encoder::new(50).turn(&turn, &mut line, &mut cuts).unwrap();
    let stored: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(stored["events"][1]["type"], json!("streamed"));
    assert!(stored["events"][1]["items"]["$blob"].is_string());
    assert_eq!(decode_turn(&line, &mut Held::new(cuts)).unwrap(), turn);
}

#[test]
fn escapes_come_and_go() {
    let value = json!({ "$blob": { "$$blob": 1 }, "x": [{ "$blob": "h", "bytes": 1 }] });
    let (text, cuts) = encoded(&value, 1_000);
    assert_eq!(
        text,
        r#"{"$$blob":{"$$$blob":1},"x":[{"$$blob":"h","bytes":1}]}"#
    );
    assert_eq!(cuts, []);
    comes_back(&value, 1_000);
    comes_back(&value, 10);
}

#[test]
fn a_reference_without_a_hash_is_damage() {
    let error = decode_value(br#"{"$blob":7}"#, &mut Held(HashMap::new())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store is damaged: a reference to a value has no hash"
    );
}

#[test]
fn a_datum_keeps_its_shape() {
    let datum = Datum::Value(Val::new(json!("w".repeat(200))));
    let turn = Turn {
        turn: 9,
        at: 1,
        events: vec![Event::RoundStarted {
            node: 3,
            carry: datum,
        }],
    };
    let (mut line, mut cuts) = (Vec::new(), Vec::new());
    Encoder::new(90).turn(&turn, &mut line, &mut cuts).unwrap();
    assert_eq!(
        cuts.len(),
        2,
        "the text, and the datum around its reference"
    );
    assert_eq!(decode_turn(&line, &mut Held::new(cuts)).unwrap(), turn);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]

    #[test]
    fn every_value_comes_back(value in any_value(), inline_bytes_max in 1_usize..200) {
        comes_back(&value, inline_bytes_max);
    }

    #[test]
    fn every_turn_comes_back(value in any_value(), inline_bytes_max in 1_usize..200) {
        let turn = Turn {
            turn: 1,
            at: 2,
            events: vec![Event::Produced { node: 3, value: Datum::Value(Val::new(value)) }],
        };
        let (mut line, mut cuts) = (Vec::new(), Vec::new());
        Encoder::new(inline_bytes_max).turn(&turn, &mut line, &mut cuts).unwrap();
        proptest::prop_assert_eq!(decode_turn(&line, &mut Held::new(cuts)).unwrap(), turn);
    }
}

/// Values with awkward keys, text and numbers.
fn any_value() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let key = prop_oneof![
        Just("$blob".to_owned()),
        Just("$$blob".to_owned()),
        "[a-c$\"\\\\]{0,3}"
    ];
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        proptest::num::f64::NORMAL.prop_map(Value::from),
        "[a-c$\"\\\\:{}\\[\\]🦀\n]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

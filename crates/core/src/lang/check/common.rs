//! Types that are the same in every flow.

use crate::types::Type;

/// Types that are the same everywhere.
pub(super) struct Common {
    pub(super) any: Type,
    pub(super) boolean: Type,
    pub(super) string: Type,
    pub(super) run: Type,
    pub(super) meta: Type,
    /// `loop` where the number of items is known.
    pub(super) items: Type,
    /// `loop` in a `repeat` and over a stream.
    pub(super) rounds: Type,
    pub(super) error: Type,
    pub(super) last: Type,
    pub(super) text: Type,
    process: Vec<(&'static str, Type, bool)>,
}

/// The type of `loop`.
fn rounds(string: &Type, length: Type) -> Type {
    Type::fields([
        ("index", Type::integer(), true),
        ("key", string.nullable(), true),
        ("length", length, true),
    ])
}

impl Common {
    pub(super) fn new() -> Self {
        let (string, any) = (Type::string(), Type::any());
        let error = Type::fields([
            ("class", string.clone(), true),
            ("code", string.nullable(), true),
            ("message", string.clone(), true),
            ("step", string.nullable(), true),
            ("data", any.clone(), true),
        ]);
        let item = Type::fields([
            ("state", string.clone(), true),
            ("error", error.nullable(), true),
        ]);
        Self {
            run: Type::fields([
                ("id", string.clone(), true),
                ("flow", string.clone(), true),
                ("state", string.clone(), true),
                ("created", Type::integer(), true),
            ]),
            meta: Type::fields([
                ("state", string.clone(), true),
                ("error", error.nullable(), true),
                ("attempts", Type::integer(), true),
                ("cost", Type::number(), true),
                ("seconds", Type::number(), true),
                ("items", item.list(), false),
            ]),
            items: rounds(&string, Type::integer()),
            rounds: rounds(&string, Type::integer().nullable()),
            last: Type::fields([
                ("output", any.clone(), true),
                ("error", error.nullable(), true),
                ("verdict", any.clone(), true),
            ]),
            text: Type::fields([("text", string.clone(), true)]),
            process: vec![
                ("code", Type::integer(), true),
                ("stdout", string.clone(), true),
                ("stderr", string.clone(), true),
            ],
            boolean: Type::boolean(),
            error,
            string,
            any,
        }
    }

    /// What a process gives: its result files by name, and what it printed when that has a type.
    pub(super) fn process(&self, files: &[String], json: Option<Type>) -> Type {
        let file = Type::file();
        let files = Type::fields(files.iter().map(|name| (name.as_str(), file.clone(), true)));
        let fields = self.process.iter().cloned().chain([("files", files, true)]);
        Type::fields(fields.chain(json.map(|json| ("json", json, true))))
    }
}

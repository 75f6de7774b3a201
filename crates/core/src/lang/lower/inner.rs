//! Values in programs that a command is handed: `sh -c`, `eval`, `ssh`, `python -c`.

use super::{Lower, SiteId};
use crate::expr::{Part, Shape, Template, inner_words};
use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::source::Span;
use crate::lang::tree::Node;

/// A value in a program that `reader` is handed.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shape: Shape,
    pub(crate) span: Span,
    pub(crate) reader: String,
    /// The scalar it is written in.
    pub(crate) text: Node,
}

impl Lower<'_> {
    /// Values of a shell text in programs that it runs. Those inside quotes are reported as such.
    pub(super) fn inner_programs(
        &self,
        node: &Node,
        template: &Template,
        parts: &[Part],
    ) -> Vec<Inner> {
        let quoted = template.hand_quoted();
        let mut inner = Vec::new();
        for program in template.inner_programs() {
            let shapes = parts.iter().map(|part| &part.shape);
            let shape = shapes.into_iter().find(|shape| shape.at == program.at);
            if let Some(shape) = shape
                && !quoted.iter().any(|place| place.at == program.at)
            {
                inner.push(Inner {
                    shape: shape.clone(),
                    span: self.at(node, program.at),
                    reader: program.reader,
                    text: node.clone(),
                });
            }
        }
        inner
    }

    /// The same for a program that is written as a list of words, where nothing is quoted at all.
    pub(super) fn inner_words(&mut self, site: SiteId, words: &[Node]) {
        let texts: Vec<&str> = words
            .iter()
            .map(|word| word.text().filter(|text| !text.contains("{{")))
            .map(Option::unwrap_or_default)
            .collect();
        let mut inner = Vec::new();
        for (program, reader) in inner_words(&texts) {
            let whole = program.len() == 1;
            for index in program {
                let pointer = format!("/{index}");
                let exprs = self.sites[site as usize].exprs.iter();
                // A value that is the program is not a part of one.
                let parts = exprs.filter(|expr| expr.pointer == pointer && !(whole && expr.native));
                for expr in parts {
                    inner.extend(
                        expr.parts
                            .iter()
                            .map(|part| &part.shape)
                            .map(|shape| Inner {
                                shape: shape.clone(),
                                span: self.at(&expr.text, shape.at.clone()),
                                reader: reader.clone(),
                                text: expr.text.clone(),
                            }),
                    );
                }
            }
        }
        self.sites[site as usize].inner = inner;
    }
}

/// A value in a program that something reads once more.
pub(crate) fn inner_problem(reader: &str, span: Span) -> Problem {
    let message = format!(
        "`{reader}` reads this value as a part of a program: what it holds is run, not used as a word"
    );
    Problem::new(codes::INNER_PROGRAM, span, message).hint(inner_hint(reader))
}

pub(super) fn inner_hint(reader: &str) -> String {
    match reader.split(' ').next().unwrap_or(reader) {
        "eval" => "leave `eval` out: every `{{ }}` is one word by itself".to_owned(),
        "trap" => "hand it in by `env: { NAME: … }` and write `trap '… \"$NAME\"' EXIT`".to_owned(),
        "ssh" => "hand it over on stdin: `printf '%s' {{ x }} | ssh host 'read -r x; … \"$x\"'`".to_owned(),
        "python" | "python2" | "python3" | "pypy3" => {
            "write `run: { python: …, with: { x: … } }` and read `args[\"x\"]`, or hand it over as an argument after the program".to_owned()
        }
        "node" | "nodejs" | "bun" | "deno" => {
            "write `run: { node: …, with: { x: … } }` and read `args.x`".to_owned()
        }
        "perl" | "ruby" | "lua" | "php" | "osascript" => {
            "hand it over as an argument after the program, or by `env: { NAME: … }`".to_owned()
        }
        _ => format!("hand it over as an argument after the program: `{reader} '… \"$1\"' sh {{{{ x }}}}`"),
    }
}

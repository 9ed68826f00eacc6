//! One instruction, run on values.
//!
//! Registers are named by their width: `%p` predicates, `%h` 16, `%r` 32, `%d` 64 bits. The first register of the text
//! is the result; each further one, in the order of the text, takes the next input.

use crate::sim::interface::Stop;
use crate::sim::ptx::Kernel;
use crate::sim::thread::tests::machine::{GLOBAL, Machine, kernel, run_to_end};
use std::fmt::Write;

/// An instruction ready to run.
pub(crate) struct Snippet {
    text: String,
    kernel: Kernel,
}

impl Snippet {
    /// Loads `text`, one or several instructions.
    pub(crate) fn new(text: &str) -> Self {
        let names = registers(text);
        let mut body = String::from(
            ".reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<9>, %t;\n.reg .b64 %d<9>, %out;\n",
        );
        for (index, name) in names.iter().skip(1).enumerate() {
            let load = match &name[..2] {
                "%p" => format!("ld.param.b32 %t, [args+{}];\nsetp.ne.u32 {name}, %t, 0;", 8 * index),
                width => format!("ld.param.b{} {name}, [args+{}];", bits(width), 8 * index),
            };
            writeln!(body, "{load}").unwrap();
        }
        // A block ends without a semicolon.
        let end = if text.ends_with("; }") || text.ends_with(";}") { "" } else { ";" };
        writeln!(body, "{text}{end}\nmov.b64 %out, {GLOBAL};").unwrap();
        match &names[0][..2] {
            "%p" => writeln!(body, "selp.b32 %t, 1, 0, {};\nst.global.b32 [%out], %t;", names[0]),
            width => writeln!(body, "st.global.b{} [%out], {};", bits(width), names[0]),
        }
        .unwrap();
        Self { text: text.to_owned(), kernel: kernel(&body) }
    }

    /// The result's bits.
    pub(crate) fn run(&self, inputs: &[u64]) -> u64 {
        let parameters = inputs.iter().flat_map(|word| word.to_le_bytes()).chain([0; 64]).take(64).collect();
        let mut machine = Machine { global: vec![0; 8], parameters, ..Machine::default() };
        let (stops, _) = run_to_end(&self.kernel, &mut machine, [0; 2]);
        assert_eq!(stops, [Stop::Exit], "{}", self.text);
        machine.words()[0]
    }
}

fn bits(width: &str) -> u32 {
    match width {
        "%h" => 16,
        "%r" => 32,
        "%d" => 64,
        other => panic!("no register {other}"),
    }
}

fn registers(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in text.split('%').skip(1) {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
        let name = format!("%{}", &part[..end]);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Runs a table of (instruction, inputs, expected bits).
pub(crate) fn check(table: &[(&str, &[u64], u64)]) {
    for (text, inputs, expected) in table {
        let found = Snippet::new(text).run(inputs);
        assert_eq!(found, *expected, "{text} of {inputs:#x?}: {found:#x}, expected {expected:#x}");
    }
}

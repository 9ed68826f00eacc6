//! Directives of a module (PTX ISA 11).

mod function;
pub(crate) mod names;
pub(crate) mod operand;
mod variable;

use super::cursor::{Cursor, parse_integer};
use super::error::{PtxError, PtxResult};
use super::instruction::Instruction;
use super::module::{Kernel, Module, Source, Variable};
use super::token::{TokenKind, tokenize};
use std::collections::HashMap;
use std::sync::Arc;

/// A variable that kernels may name.
#[derive(Clone, Debug)]
pub(crate) enum Global {
    /// Index in [`Module::variables`].
    Variable(usize),
    /// In shared memory; each kernel that names it places it.
    Shared {
        /// Alignment in bytes.
        align_bytes: u32,
        /// Size; 0 with `dynamic`.
        len_bytes: u32,
        /// `.extern`: it begins where the declared shared memory ends.
        dynamic: bool,
    },
}

/// State of reading a module.
pub(crate) struct ModuleParser<'a> {
    pub(crate) cursor: Cursor<'a>,
    pub(crate) globals: HashMap<&'a str, Global>,
    pub(crate) variables: Vec<Variable>,
    version: Option<(u32, u32)>,
    target_sm: Option<u32>,
    source: Source,
    kernels: Vec<super::Kernel>,
}

/// Reads a PTX text.
///
/// # Errors
///
/// [`PtxError`] with the line, for anything that is not PTX and for anything that the simulated machine does not
/// know: an instruction, a modifier, a special register, a directive.
pub fn parse(text: &str) -> Result<Module, PtxError> {
    let mut parser = ModuleParser {
        cursor: Cursor::new(tokenize(text)?),
        globals: HashMap::new(),
        variables: Vec::new(),
        version: None,
        target_sm: None,
        source: Source { text: text.to_owned(), files: HashMap::new() },
        kernels: Vec::new(),
    };
    while parser.cursor.peek().is_some() {
        parser.directive()?;
    }
    parser.finish()
}

impl<'a> ModuleParser<'a> {
    fn finish(self) -> PtxResult<Module> {
        let missing = |what: &str| PtxError::new(1, format!("the text has no {what} directive; is it PTX?"));
        let source = Arc::new(self.source);
        let mut kernels = self.kernels;
        kernels.iter_mut().for_each(|kernel| kernel.source = source.clone());
        Ok(Module {
            version: self.version.ok_or_else(|| missing(".version"))?,
            target_sm: self.target_sm.ok_or_else(|| missing(".target"))?,
            kernels: kernels.into_iter().map(Arc::new).collect(),
            variables: self.variables,
        })
    }

    fn directive(&mut self) -> PtxResult<()> {
        let line = self.cursor.line();
        match self.cursor.word()? {
            ".version" => self.version = Some(self.version_number()?),
            ".target" => self.target(line)?,
            ".address_size" => self.address_size()?,
            ".file" => self.file(line)?,
            ".section" => {
                self.cursor.word()?;
                self.cursor.skip_block()?;
            }
            ".visible" | ".weak" | ".common" => {}
            ".extern" => self.extern_variable()?,
            ".entry" => {
                let kernel = function::entry(self)?;
                self.check_target(&kernel)?;
                self.kernels.push(kernel);
            }
            ".func" => self.function()?,
            space @ (".global" | ".const" | ".shared") => self.variable(space, false)?,
            ".pragma" => {
                while !self.cursor.eat(b';') {
                    self.cursor.next()?;
                }
            }
            other => return Err(PtxError::new(line, format!("unknown directive `{other}`"))),
        }
        Ok(())
    }

    /// Refuses instructions that the target or the version does not have (PTX ISA 9.7.9.14).
    fn check_target(&self, kernel: &Kernel) -> PtxResult<()> {
        let is_multimem = |instruction: &Instruction| matches!(instruction, Instruction::Multimem { .. });
        let has_them = self.target_sm >= Some(90) && self.version >= Some((8, 1));
        match kernel.code.iter().position(is_multimem).filter(|_| !has_them) {
            Some(pc) => {
                let line = kernel.lines[pc].ptx_line;
                Err(PtxError::new(line, "`multimem` needs .target sm_90 or higher and .version 8.1 or later"))
            }
            None => Ok(()),
        }
    }

    /// Steps over a function. Kernels are compiled so that every function is inlined; what is left, such as the handler
    /// of panics, is called by none, and a `call` would be refused by name.
    fn function(&mut self) -> PtxResult<()> {
        while self.cursor.peek() != Some(TokenKind::Punct(b'{')) {
            if self.cursor.eat(b';') {
                return Ok(());
            }
            self.cursor.next()?;
        }
        self.cursor.skip_block()
    }

    fn version_number(&mut self) -> PtxResult<(u32, u32)> {
        let error = self.cursor.unexpected("a version like 8.4");
        let TokenKind::Number(text) = self.cursor.next()? else { return Err(error) };
        let parts =
            text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        parts.ok_or(error)
    }

    /// `.target sm_90a, texmode_independent`: the number counts, a suffix letter is allowed.
    fn target(&mut self, line: u32) -> PtxResult<()> {
        let error = self.cursor.unexpected("a target like sm_90");
        let name = self.cursor.word()?;
        let digits = name.strip_prefix("sm_").ok_or_else(|| error.clone())?;
        let digits = digits.trim_end_matches(['a', 'f']);
        self.target_sm = Some(digits.parse().map_err(|_| error)?);
        self.cursor.skip_line(line);
        Ok(())
    }

    fn address_size(&mut self) -> PtxResult<()> {
        match self.cursor.integer()? {
            64 => Ok(()),
            other => Err(self.cursor.error(format!("addresses of {other} bits; the machine has 64"))),
        }
    }

    /// `.file 3 "path"` with an optional time and size.
    fn file(&mut self, line: u32) -> PtxResult<()> {
        let index = self.cursor.integer32()?;
        let error = self.cursor.unexpected("a path in quotes");
        let TokenKind::Text(path) = self.cursor.next()? else { return Err(error) };
        self.source.files.insert(index, path.to_owned());
        self.cursor.skip_line(line);
        Ok(())
    }

    fn extern_variable(&mut self) -> PtxResult<()> {
        if self.cursor.eat_word(".shared") {
            return self.variable(".shared", true);
        }
        Err(self.cursor.unexpected("`.shared`: no other .extern can be resolved"))
    }
}

/// Value of a `Number` token that is an integer.
pub(crate) fn integer_of(text: &str) -> Option<u64> {
    parse_integer(text)
}

//! The tuning table: which algorithm was measured to be the fastest, as text that people read and programs write.

use crate::{ErrorKind, Result};
use std::fmt;
use std::path::Path;
use std::sync::LazyLock;
use symmem_device::kernels::{Algorithm, Collective, Dtype, KERNELS};

/// Rows that this build carries.
static MEASURED: LazyLock<TuningTable> = LazyLock::new(|| {
    let table = TuningTable::parse(include_str!("measured.txt"));
    table.expect("the tests of this build read it")
});

/// The word for an interval without an end.
const ENDLESS: &str = "more";
/// Longer files are not read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Types that have the same algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeClass {
    /// Floats.
    Float,
    /// Integers of at most 4 bytes.
    Int,
    /// Integers of 8 bytes.
    Int64,
    /// All types, where nothing is reduced.
    Any,
}

impl TypeClass {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Float, Self::Int, Self::Int64, Self::Any];

    /// That of a type in a collective.
    pub const fn of(collective: Collective, dtype: Dtype) -> Self {
        match (collective.reduces(), dtype.is_float(), dtype.bytes()) {
            (false, _, _) => Self::Any,
            (true, true, _) => Self::Float,
            (true, false, 8) => Self::Int64,
            (true, false, _) => Self::Int,
        }
    }

    /// The word for it in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Int => "int",
            Self::Int64 => "int64",
            Self::Any => "any",
        }
    }
}

/// What a row was measured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TuningKey {
    /// Compute capability as major × 10 + minor: the least of all ranks.
    pub sm: u32,
    /// Ranks.
    pub n_ranks: u32,
    /// Whether they have multicast.
    pub has_multicast: bool,
    /// What they do.
    pub collective: Collective,
    /// On which types.
    pub types: TypeClass,
}

/// The fastest algorithms for one [`TuningKey`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuningRow {
    /// What was measured.
    pub key: TuningKey,
    /// Up to so many bytes, which ascend, this algorithm; the last is for [`u64::MAX`] bytes. Bytes are those of the
    /// message in an all-reduce or a broadcast, of one rank's part in every other collective.
    pub fastest: Vec<(u64, Algorithm)>,
}

/// Rows, one for each key. Its text is read by [`Self::parse`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TuningTable {
    rows: Vec<TuningRow>,
}

impl TuningTable {
    /// The one that this build carries.
    pub fn built_in() -> &'static Self {
        &MEASURED
    }

    /// Of these rows.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for two rows with one key, sizes that do not ascend or end too early, an
    /// algorithm that has no kernel for the collective and the types, or that needs multicast where there is none.
    pub fn from_rows(rows: Vec<TuningRow>) -> Result<Self> {
        rows.into_iter().try_fold(Self::default(), Self::with)
    }

    /// Reads a table: a row a line, empty lines, and comments from `#` to the end of a line.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] naming the line and the word that cannot be read; as [`Self::from_rows`].
    pub fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
        let rows = (1..).zip(lines).filter(|(_, line)| !line.is_empty());
        rows.into_iter().try_fold(Self::default(), |table, (number, line)| {
            let with_row = TuningRow::parse(line).and_then(|row| table.with(row));
            with_row.map_err(|error| error.context(format!("line {number} of a tuning table")))
        })
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] if there is no such file, or it is no text or longer than 1 MiB; as [`Self::parse`].
    pub fn read(path: &Path) -> Result<Self> {
        let refused = |why: String| {
            let found = format!("{}: {why}", path.display());
            wrong(found, "a file as `cargo xtask tune` writes it")
        };
        let len_bytes = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?.len();
        if len_bytes > FILE_BYTES_MAX {
            return Err(refused(format!("{len_bytes} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        Self::parse(&text).map_err(|error| error.context(format!("reading {}", path.display())))
    }

    /// Its rows.
    pub fn rows(&self) -> &[TuningRow] {
        &self.rows
    }

    /// These rows, and those of `other` for other keys.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        let missing = other.rows.iter().filter(|row| self.row(&row.key).is_none()).cloned();
        let missing: Vec<_> = missing.collect();
        self.rows.extend(missing);
        self
    }

    pub(super) fn row(&self, key: &TuningKey) -> Option<&TuningRow> {
        self.rows.iter().find(|row| row.key == *key)
    }

    fn with(mut self, row: TuningRow) -> Result<Self> {
        row.check()?;
        if self.row(&row.key).is_some() {
            return Err(wrong(format!("a second row for {}", row.key), "one"));
        }
        self.rows.push(row);
        Ok(self)
    }
}

impl TuningRow {
    /// The interval that so many bytes are in: its end, and its algorithm.
    pub(super) fn at(&self, bytes: u64) -> Option<(u64, Algorithm)> {
        self.fastest.iter().copied().find(|(bytes_max, _)| bytes <= *bytes_max)
    }

    fn parse(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let mut word = |what: &str| {
            words.next().ok_or_else(|| wrong(format!("`{line}`"), &format!("a row, which has {what}, too")))
        };
        let key = TuningKey {
            sm: number(word("a compute capability")?)?,
            n_ranks: number(word("a number of ranks")?)?,
            has_multicast: match word("unicast or multicast")? {
                "unicast" => false,
                "multicast" => true,
                other => return Err(wrong(format!("`{other}`"), "unicast, multicast")),
            },
            collective: one_of(word("a collective")?, Collective::ALL, Collective::name)?,
            types: one_of(word("types")?, TypeClass::ALL, TypeClass::name)?,
        };
        Ok(Self { key, fastest: words.map(interval).collect::<Result<_>>()? })
    }

    fn check(&self) -> Result<()> {
        let TuningKey { collective, types, has_multicast, .. } = self.key;
        let is_whole = self.fastest.last().is_some_and(|last| last.0 == u64::MAX);
        if !is_whole || !self.fastest.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(wrong(
                format!("`{self}`"),
                &format!("sizes that ascend, the last being `{ENDLESS}`"),
            ));
        }
        for (_, algorithm) in &self.fastest {
            let is_there = KERNELS.iter().any(|kernel| {
                let types_of = |dtype| TypeClass::of(collective, dtype);
                (kernel.collective, kernel.algorithm) == (collective, *algorithm)
                    && kernel.dtype.map_or(types == TypeClass::Any, |dtype| types_of(dtype) == types)
            });
            if !is_there || algorithm.multicast().is_some() && !has_multicast {
                let (found, types) = (format!("{algorithm} in `{}`", self.key), types.name());
                let what = if is_there { "unicast" } else { "some" };
                return Err(wrong(
                    found,
                    &format!("an algorithm with {what} kernels of {collective} for {types}"),
                ));
            }
        }
        Ok(())
    }
}

fn interval(word: &str) -> Result<(u64, Algorithm)> {
    let (bytes_max, algorithm) =
        word.split_once(':').ok_or_else(|| wrong(format!("`{word}`"), "pairs as 32K:ll"))?;
    Ok((size(bytes_max)?, one_of(algorithm, Algorithm::ALL, Algorithm::name)?))
}

/// A number of bytes, in units of 1024 with `K`, of their squares and cubes with `M` and `G`.
fn size(word: &str) -> Result<u64> {
    if word == ENDLESS {
        return Ok(u64::MAX);
    }
    let units = [('K', 10), ('M', 20), ('G', 30)];
    let with_unit = units.iter().find_map(|(unit, shift)| Some((word.strip_suffix(*unit)?, *shift)));
    let (digits, shift) = with_unit.unwrap_or((word, 0));
    let bytes: u64 = number(digits)?;
    bytes.checked_mul(1 << shift).ok_or_else(|| wrong(format!("`{word}`"), "less than 2^64 bytes"))
}

fn number<N: std::str::FromStr>(word: &str) -> Result<N> {
    word.parse().map_err(|_| wrong(format!("`{word}`"), "a whole number"))
}

fn one_of<T: Copy>(word: &str, all: &[T], name_of: impl Fn(T) -> &'static str) -> Result<T> {
    let names = || all.iter().map(|one| name_of(*one)).collect::<Vec<_>>().join(", ");
    all.iter().copied().find(|one| name_of(*one) == word).ok_or_else(|| wrong(format!("`{word}`"), &names()))
}

fn wrong(found: String, allowed: &str) -> crate::Error {
    ErrorKind::InvalidArgument { what: "a tuning table", found, allowed: allowed.into() }.into()
}

impl fmt::Display for TuningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = if self.has_multicast { "multicast" } else { "unicast" };
        let (sm, n_ranks, collective, types) = (self.sm, self.n_ranks, self.collective, self.types.name());
        write!(f, "{sm}  {n_ranks}  {memory}  {collective:<14}  {types:<5}")
    }
}

impl fmt::Display for TuningRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.key)?;
        self.fastest.iter().try_for_each(|(bytes, algorithm)| write!(f, " {}:{algorithm}", Size(*bytes)))
    }
}

/// Rows, without the comments of the text that they were read from.
impl fmt::Display for TuningTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

/// Bytes as a table has them.
pub(super) struct Size(pub(super) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "G"), (20, "M"), (10, "K")];
        match units.into_iter().find(|(shift, _)| self.0 != 0 && self.0.is_multiple_of(1 << shift)) {
            _ if self.0 == u64::MAX => f.write_str(ENDLESS),
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file says all that its table does, row for row: what is read is written the same, and reads the same.
    #[test]
    fn the_table_of_this_build_is_what_its_file_says() {
        let table = TuningTable::built_in();
        assert!(!table.rows().is_empty());
        let text = include_str!("measured.txt");
        let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
        let normal = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<_> = text.lines().filter(is_row).map(normal).collect();
        assert_eq!(lines, table.to_string().lines().map(normal).collect::<Vec<_>>());
        assert_eq!(TuningTable::parse(&table.to_string()).as_ref().ok(), Some(table));
    }

    #[test]
    fn what_cannot_be_is_refused_by_line_and_word() {
        for (row, words) in [
            ("90 2 unicast all_reduce float", "ascend"),
            ("90 2 unicast all_reduce float 32K:ll", "`more`"),
            ("90 2 unicast all_reduce float 32K:ll 16K:sentinel more:ll", "ascend"),
            ("90 2 unicast all_reduce float 32K:ll 32K:sentinel more:ll", "ascend"),
            ("90 2 unicast all_reduce float more:lll", "`lll`"),
            ("90 2 unicast all_reduce float 32k:ll more:ll", "`32k`"),
            ("90 2 unicast all_reduce float 17179869184G:ll more:ll", "2^64"),
            ("90 2 unicast all_reduce float 32K more:ll", "32K:ll"),
            ("90 2 unicast all_reduce f32 more:ll", "`f32`"),
            ("90 2 unicast all_redoce float more:ll", "all_reduce, all_gather"),
            ("90 2 maybe all_reduce float more:ll", "unicast, multicast"),
            ("ninety 2 unicast all_reduce float more:ll", "`ninety`"),
            ("90 2 unicast", "a collective"),
            // Integers have no value to spare, bytes are not reduced, and floats are not gathered as such.
            ("90 2 unicast all_reduce int more:sentinel", "sentinel"),
            ("90 2 unicast all_reduce int64 more:ll_128", "ll_128"),
            ("90 2 unicast all_reduce any more:ll", "kernels of all_reduce for any"),
            ("90 2 unicast all_gather float more:ll", "kernels of all_gather for float"),
            ("90 2 unicast all_reduce float more:mc", "unicast kernels"),
        ] {
            let error = TuningTable::parse(&format!("# A comment.\n\n{row} # and one more\n"));
            let text = error.expect_err(row).to_string();
            assert!(text.contains("line 3") && text.contains(words), "{row}: {text}");
        }
        let twice = "90 2 unicast all_reduce float more:ll\n90 2 unicast all_reduce float more:sentinel";
        let text = TuningTable::parse(twice).expect_err("twice").to_string();
        assert!(text.contains("line 2") && text.contains("a second row"), "{text}");
    }

    #[test]
    fn rows_go_before_those_of_another_table() {
        let parse = |text| TuningTable::parse(text).expect("valid");
        let own = parse("90 2 unicast all_reduce float more:ll");
        let other =
            parse("90 2 unicast all_reduce float more:sentinel\n90 4 multicast all_reduce float more:mc");
        let both = own.or(&other);
        assert_eq!(
            both,
            parse("90 2 unicast all_reduce float more:ll\n90 4 multicast all_reduce float more:mc")
        );
    }

    #[test]
    fn files_that_are_none_are_named() {
        let path = std::env::temp_dir().join(format!("symmem-table-{}", std::process::id()));
        let read = || TuningTable::read(&path).expect_err("not good").to_string();
        assert!(read().contains("No such file"), "{}", read());
        std::fs::write(&path, "90 2 unicast all_reduce float more:ring").expect("written");
        let text = read();
        std::fs::remove_file(&path).expect("it was there");
        assert!(
            text.contains("symmem-table-") && text.contains("line 1") && text.contains("`ring`"),
            "{text}"
        );
    }
}

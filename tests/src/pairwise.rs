//! Few rows that hold every pair of values: of any two parameters, each value of one meets each value of the other.
//!
//! Most faults depend on one parameter or on two at once; the rows find those at a fraction of the whole product.

use crate::random::Random;

/// Rows tried for each one that is taken.
const TRIES: usize = 24;

/// A row in the making: the index of each parameter's value, as far as it is chosen.
pub(crate) type Partial = [Option<usize>];

/// Rows of indices, one index below `sizes[p]` for each parameter `p` (all sizes at least 1). `allows` says whether
/// values can be in one row; what it allows can be made a whole row.
///
/// # Panics
///
/// If it cannot.
pub(crate) fn cover(sizes: &[usize], seed: u64, allows: impl Fn(&Partial) -> bool) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed);
    let mut open = Pairs::new(sizes, &allows);
    let mut rows = Vec::new();
    while let Some(pair) = open.first() {
        let tried = (0..TRIES).map(|_| candidate(sizes, &open, pair, &allows, &mut random));
        let best = tried.max_by_key(|row| open.gain(row)).expect("at least one was tried");
        open.strike(&best);
        rows.push(best);
    }
    rows
}

/// Rows in which every value of every parameter occurs at least once.
///
/// # Panics
///
/// As [`cover`].
pub(crate) fn each_value(sizes: &[usize], seed: u64, allows: impl Fn(&Partial) -> bool) -> Vec<Vec<usize>> {
    // A parameter with one value meets them all.
    let sizes = [&[1], sizes].concat();
    let is_with_first = |row: &Partial| row[0].is_some() || row.iter().flatten().count() != 2;
    let mut rows = Vec::new();
    let mut random = Random::new(seed);
    let mut open = Pairs::new(&sizes, &|row: &Partial| is_with_first(row) && allows(&row[1..]));
    while let Some(pair) = open.first() {
        let all = |row: &Partial| allows(&row[1..]);
        let best = candidate(&sizes, &open, pair, &all, &mut random);
        open.strike(&best);
        rows.push(best[1..].to_vec());
    }
    rows
}

/// A row with `pair` in it; its other values are chosen, in random order, to hold many pairs still open.
fn candidate(
    sizes: &[usize],
    open: &Pairs,
    pair: Pair,
    allows: &impl Fn(&Partial) -> bool,
    random: &mut Random,
) -> Vec<usize> {
    let mut row: Vec<Option<usize>> = vec![None; sizes.len()];
    row[pair.0.0] = Some(pair.0.1);
    row[pair.1.0] = Some(pair.1.1);
    let mut order: Vec<usize> = (0..sizes.len()).filter(|&p| row[p].is_none()).collect();
    random.shuffle(&mut order);
    for parameter in order {
        let others: Vec<Cell> = row.iter().enumerate().filter_map(|(p, v)| v.map(|v| (p, v))).collect();
        let gain =
            |value: usize| others.iter().filter(|&&other| open.holds((parameter, value), other)).count();
        let allowed = (0..sizes[parameter]).filter(|&value| {
            row[parameter] = Some(value);
            allows(&row)
        });
        let gains: Vec<(usize, usize)> = allowed.map(|value| (value, gain(value))).collect();
        let best = gains.iter().map(|(_, gain)| *gain).max();
        let best =
            best.unwrap_or_else(|| panic!("parameter {parameter} has no value for a row with {others:?}"));
        let ties: Vec<usize> =
            gains.iter().filter(|(_, gain)| *gain == best).map(|(value, _)| *value).collect();
        row[parameter] = Some(*random.choose(&ties));
    }
    row.into_iter().flatten().collect()
}

/// A value of a parameter: (parameter, index of the value).
type Cell = (usize, usize);
type Pair = (Cell, Cell);

/// The pairs that no row holds yet.
struct Pairs {
    /// First cell number of each parameter.
    starts: Vec<usize>,
    n_cells: usize,
    is_open: Vec<bool>,
}

impl Pairs {
    fn new(sizes: &[usize], allows: &impl Fn(&Partial) -> bool) -> Self {
        let starts: Vec<usize> = (0..sizes.len()).map(|p| sizes[..p].iter().sum()).collect();
        let n_cells = sizes.iter().sum();
        let mut pairs = Self { starts, n_cells, is_open: vec![false; n_cells * n_cells] };
        let cells = |parameter: usize| (0..sizes[parameter]).map(move |value| (parameter, value));
        for (first, second) in (0..sizes.len()).flat_map(|b| (0..b).map(move |a| (a, b))) {
            for (a, b) in cells(first).flat_map(|a| cells(second).map(move |b| (a, b))) {
                let mut row = vec![None; sizes.len()];
                (row[a.0], row[b.0]) = (Some(a.1), Some(b.1));
                let at = pairs.at(a, b);
                pairs.is_open[at] = allows(&row);
            }
        }
        pairs
    }

    fn at(&self, a: Cell, b: Cell) -> usize {
        let (low, high) = if a.0 < b.0 { (a, b) } else { (b, a) };
        (self.starts[low.0] + low.1) * self.n_cells + self.starts[high.0] + high.1
    }

    fn holds(&self, a: Cell, b: Cell) -> bool {
        self.is_open[self.at(a, b)]
    }

    fn first(&self) -> Option<Pair> {
        let at = self.is_open.iter().position(|&open| open)?;
        let cell = |number: usize| {
            let parameter =
                self.starts.iter().rposition(|&start| start <= number).expect("the first start is 0");
            (parameter, number - self.starts[parameter])
        };
        Some((cell(at / self.n_cells), cell(at % self.n_cells)))
    }

    fn of<'r>(&'r self, row: &'r [usize]) -> impl Iterator<Item = usize> + 'r {
        (0..row.len()).flat_map(move |b| (0..b).map(move |a| self.at((a, row[a]), (b, row[b]))))
    }

    fn gain(&self, row: &[usize]) -> usize {
        self.of(row).filter(|&at| self.is_open[at]).count()
    }

    fn strike(&mut self, row: &[usize]) {
        let held: Vec<usize> = self.of(row).collect();
        held.into_iter().for_each(|at| self.is_open[at] = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn check(sizes: &[usize], rows_max: usize, allows: fn(&Partial) -> bool) {
        let rows = cover(sizes, 7, allows);
        let mut seen = HashSet::new();
        for row in &rows {
            assert!(row.len() == sizes.len() && row.iter().zip(sizes).all(|(value, size)| value < size));
            assert!(allows(&row.iter().map(|value| Some(*value)).collect::<Vec<_>>()), "{row:?}");
            for b in 0..row.len() {
                seen.extend((0..b).map(|a| ((a, row[a]), (b, row[b]))));
            }
        }
        let mut pairs = HashSet::new();
        for (a, b) in (0..sizes.len()).flat_map(|b| (0..b).map(move |a| (a, b))) {
            for (left, right) in (0..sizes[a]).flat_map(|left| (0..sizes[b]).map(move |right| (left, right)))
            {
                let mut row = vec![None; sizes.len()];
                (row[a], row[b]) = (Some(left), Some(right));
                pairs.extend(allows(&row).then_some(((a, left), (b, right))));
            }
        }
        assert_eq!(seen, pairs, "{sizes:?}");
        assert!(rows.len() <= rows_max, "{} rows for {sizes:?}", rows.len());
    }

    /// The last value of parameter 1 goes with even values of parameter 0 alone, and with none of parameter 2 but the
    /// first.
    fn some(row: &Partial) -> bool {
        row[1] != Some(2)
            || (row[0].is_none_or(|value| value % 2 == 0) && row[2].is_none_or(|value| value == 0))
    }

    #[test]
    fn every_pair_is_in_a_row() {
        check(&[1, 1], 1, |_| true);
        check(&[2, 2, 2], 6, |_| true);
        check(&[3, 4], 12, |_| true);
        check(&[5, 1, 3, 2], 20, |_| true);
        check(&[2; 12], 14, |_| true);
        check(&[2, 3, 5, 6, 11, 4, 4, 2, 2], 90, |_| true);
        check(&[4, 3, 5], 24, some);
    }

    #[test]
    fn every_value_is_in_a_row() {
        for (sizes, rows_max) in [(&[7, 3, 2][..], 7), (&[1], 1), (&[4, 3, 5], 7)] {
            let rows = each_value(sizes, 3, |row| row.len() != 3 || some(row));
            for (parameter, size) in sizes.iter().enumerate() {
                let values: HashSet<usize> = rows.iter().map(|row| row[parameter]).collect();
                assert_eq!(values.len(), *size, "{rows:?}");
            }
            assert!(rows.len() <= rows_max, "{rows:?}");
        }
    }

    #[test]
    #[should_panic(expected = "has no value for a row")]
    fn what_cannot_be_a_row_is_an_error() {
        cover(&[2, 2, 2], 1, |row| row.iter().flatten().count() < 3);
    }

    #[test]
    fn a_seed_gives_the_same_rows() {
        let rows = |seed| cover(&[4, 3, 2, 2], seed, |_| true);
        assert_eq!(rows(1), rows(1));
        assert_ne!(rows(1), rows(2));
    }
}

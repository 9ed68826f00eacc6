//! Few rows that hold every pair of values: of any two parameters, each value of one meets each value of the other.
//!
//! Most faults depend on one parameter or on two at once; the rows find those at a fraction of the whole product.

use crate::random::Random;

/// Rows tried for each one that is taken.
const TRIES: usize = 24;

/// Rows of indices, one index below `sizes[p]` for each parameter `p` (all sizes at least 1).
pub(crate) fn cover(sizes: &[usize], seed: u64) -> Vec<Vec<usize>> {
    let mut random = Random::new(seed);
    let mut open = Pairs::new(sizes);
    let mut rows = Vec::new();
    while let Some(pair) = open.first() {
        let tried = (0..TRIES).map(|_| candidate(sizes, &open, pair, &mut random));
        let best = tried.max_by_key(|row| open.gain(row)).expect("at least one was tried");
        open.strike(&best);
        rows.push(best);
    }
    rows
}

/// A row with `pair` in it; its other values are chosen, in random order, to hold many pairs still open.
fn candidate(sizes: &[usize], open: &Pairs, pair: Pair, random: &mut Random) -> Vec<usize> {
    let mut row: Vec<Option<usize>> = vec![None; sizes.len()];
    row[pair.0.0] = Some(pair.0.1);
    row[pair.1.0] = Some(pair.1.1);
    let mut order: Vec<usize> = (0..sizes.len()).filter(|&p| row[p].is_none()).collect();
    random.shuffle(&mut order);
    for parameter in order {
        let gain = |value: usize| {
            let others = row.iter().enumerate().filter_map(|(p, v)| v.map(|v| (p, v)));
            others.filter(|&other| open.holds((parameter, value), other)).count()
        };
        let best = (0..sizes[parameter]).map(gain).max().unwrap_or(0);
        let ties: Vec<usize> = (0..sizes[parameter]).filter(|&value| gain(value) == best).collect();
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
    fn new(sizes: &[usize]) -> Self {
        let starts: Vec<usize> = (0..sizes.len()).map(|p| sizes[..p].iter().sum()).collect();
        let n_cells = sizes.iter().sum();
        let parameter = |cell: usize| starts.iter().rposition(|&start| start <= cell);
        let is_open =
            (0..n_cells * n_cells).map(|at| parameter(at / n_cells) < parameter(at % n_cells)).collect();
        Self { starts, n_cells, is_open }
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

    fn check(sizes: &[usize], rows_max: usize) {
        let rows = cover(sizes, 7);
        let mut seen = HashSet::new();
        for row in &rows {
            assert!(row.len() == sizes.len() && row.iter().zip(sizes).all(|(value, size)| value < size));
            for b in 0..row.len() {
                seen.extend((0..b).map(|a| ((a, row[a]), (b, row[b]))));
            }
        }
        let pairs: usize = (0..sizes.len()).map(|b| (0..b).map(|a| sizes[a] * sizes[b]).sum::<usize>()).sum();
        assert_eq!(seen.len(), pairs, "{sizes:?}");
        assert!(rows.len() <= rows_max, "{} rows for {sizes:?}", rows.len());
    }

    #[test]
    fn every_pair_is_in_a_row() {
        check(&[1, 1], 1);
        check(&[2, 2, 2], 6);
        check(&[3, 4], 12);
        check(&[5, 1, 3, 2], 20);
        check(&[2; 12], 14);
        check(&[2, 3, 5, 6, 11, 4, 4, 2, 2], 90);
    }

    #[test]
    fn a_seed_gives_the_same_rows() {
        assert_eq!(cover(&[4, 3, 2, 2], 1), cover(&[4, 3, 2, 2], 1));
        assert_ne!(cover(&[4, 3, 2, 2], 1), cover(&[4, 3, 2, 2], 2));
    }
}

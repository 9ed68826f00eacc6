//! From times to crossovers: few intervals of sizes, each with an algorithm that is the fastest there or as good as.

use anyhow::{Result, ensure};
use symmem::Algorithm;

/// Differences up to this part are noise.
const NOISE: f64 = 0.02;
/// What another interval costs, as a part of the time at one size: it has to win more than that.
const SWITCH: f64 = 0.02;
/// What noise still counts, so that the faster of two algorithms that are alike is taken.
const WITHIN_NOISE: f64 = 0.01;
/// Sizes in an interval, at least: an algorithm that wins at one size alone does so by chance.
const SIZES_MIN: usize = 2;
/// A crossover is told to this part of the size below it.
const STEPS: u64 = 8;

/// Times of one algorithm, size after size; `None` where it was not measured any more.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) algorithm: Algorithm,
    pub(super) times_us: Vec<Option<f64>>,
}

/// The algorithms to take for these sizes, which ascend: up to so many bytes, this one; the last is for [`u64::MAX`].
///
/// # Errors
///
/// If there is no size, or one for which nothing was measured that can be taken.
pub(super) fn crossovers(bytes: &[u64], columns: &[Column]) -> Result<Vec<(u64, Algorithm)>> {
    let costs: Vec<Vec<f64>> = columns.iter().map(|column| costs(column, columns)).collect();
    let intervals = intervals(&costs, bytes.len())?;
    let ends = intervals.iter().zip(intervals.iter().skip(1)).map(|(&(end, column), &(_, next))| {
        let (a, b) = (&columns[column], &columns[next]);
        (crossing((bytes[end - 1], bytes[end]), [end - 1, end].map(|at| lead(a, b, at))), a.algorithm)
    });
    let last = intervals.last().map(|(_, column)| (u64::MAX, columns[*column].algorithm));
    Ok(ends.chain(last).collect())
}

/// How much an algorithm is slower than the best at each size, as a part of its time.
fn costs(column: &Column, all: &[Column]) -> Vec<f64> {
    let cost = |(at, time): (usize, &Option<f64>)| {
        let best = all.iter().filter_map(|other| other.times_us[at]).fold(f64::INFINITY, f64::min);
        let excess = time.map_or(f64::INFINITY, |time| time / best - 1.0);
        if excess > NOISE { excess } else { excess * WITHIN_NOISE }
    };
    column.times_us.iter().enumerate().map(cost).collect()
}

/// The cheapest intervals that cover all sizes: where each ends, and its column.
fn intervals(costs: &[Vec<f64>], n_sizes: usize) -> Result<Vec<(usize, usize)>> {
    // The cheapest way to cover so many sizes: its cost, where its last interval begins, and that one's column.
    let mut ways = vec![(0.0, 0, 0)];
    for end in 1..=n_sizes {
        let mut best = (f64::INFINITY, 0, 0);
        for start in 0..(end + 1).saturating_sub(SIZES_MIN.min(n_sizes)) {
            for (column, costs) in costs.iter().enumerate() {
                let cost = ways[start].0 + SWITCH + costs[start..end].iter().sum::<f64>();
                if cost < best.0 {
                    best = (cost, start, column);
                }
            }
        }
        ways.push(best);
    }
    ensure!(n_sizes > 0 && ways[n_sizes].0.is_finite(), "no algorithm was measured at all of the sizes");
    let mut intervals = Vec::new();
    let mut end = n_sizes;
    while end > 0 {
        let (_, start, column) = ways[end];
        intervals.push((end, column));
        end = start;
    }
    intervals.reverse();
    Ok(intervals)
}

/// By how many microseconds `a` is faster than `b` at a size.
fn lead(a: &Column, b: &Column, at: usize) -> Option<f64> {
    Some(b.times_us[at]? - a.times_us[at]?)
}

/// Where between two sizes the lead is lost, if it goes down evenly; the smaller size where it is not there to be lost.
fn crossing((from, to): (u64, u64), leads: [Option<f64>; 2]) -> u64 {
    let [Some(before), Some(after)] = leads else { return from };
    if before <= 0.0 || after >= 0.0 {
        return from;
    }
    let step = (from / STEPS).max(1);
    let way = ((to - from) as f64 * before / (before - after)) as u64;
    from + (way / step * step).min(to - from - step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Algorithm::{Ll, Push, Sentinel, St};

    const SIZES: [u64; 6] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];

    fn found(columns: &[(Algorithm, [f64; 6])]) -> Vec<(u64, Algorithm)> {
        let column = |&(algorithm, times): &(Algorithm, [f64; 6])| Column {
            algorithm,
            times_us: times.map(|time| (time > 0.0).then_some(time)).to_vec(),
        };
        crossovers(&SIZES, &columns.iter().map(column).collect::<Vec<_>>()).expect("measured")
    }

    type Times<'a> = &'a [(Algorithm, [f64; 6])];
    type Crossovers<'a> = &'a [(u64, Algorithm)];

    /// Made-up times; 0 is not measured.
    #[test]
    fn intervals_open_only_for_what_lasts() {
        let even = [1.0; 6];
        let table: [(Times, Crossovers); 9] = [
            (&[(Ll, even)], &[(u64::MAX, Ll)]),
            // The lead of 1 at 4 KiB is lost in the middle of the way to −1 at 8 KiB.
            (
                &[(Ll, [1.0, 1.0, 1.0, 3.0, 5.0, 9.0]), (Sentinel, [2.0; 6])],
                &[(6 << 10, Ll), (u64::MAX, Sentinel)],
            ),
            // A win at one size in the middle or at an end is chance; so are small ones.
            (&[(Ll, even), (St, [2.0, 2.0, 0.9, 2.0, 2.0, 2.0])], &[(u64::MAX, Ll)]),
            (&[(Ll, even), (St, [2.0, 2.0, 2.0, 2.0, 2.0, 0.9])], &[(u64::MAX, Ll)]),
            (&[(Ll, even), (St, [0.9, 2.0, 2.0, 2.0, 2.0, 2.0])], &[(u64::MAX, Ll)]),
            (&[(Ll, even), (St, [2.0, 2.0, 2.0, 0.985, 0.985, 0.985])], &[(u64::MAX, Ll)]),
            // Two in a row are none, where they win more than it costs to go there and back.
            (
                &[(Ll, even), (St, [2.0, 2.0, 0.9, 0.9, 2.0, 2.0])],
                &[(3840, Ll), (8 << 10, St), (u64::MAX, Ll)],
            ),
            // Three algorithms; what was not measured any more is not taken, and has no lead to lose.
            (
                &[
                    (Ll, [1.0, 1.0, 4.0, 0.0, 0.0, 0.0]),
                    (Sentinel, [2.0, 2.0, 2.0, 2.0, 8.0, 0.0]),
                    (Push, [5.0, 5.0, 5.0, 5.0, 5.0, 5.0]),
                ],
                &[(2560, Ll), (12 << 10, Sentinel), (u64::MAX, Push)],
            ),
            // Of two that are alike, the one that is a little faster.
            (&[(Ll, [1.01; 6]), (Sentinel, even)], &[(u64::MAX, Sentinel)]),
        ];
        for (columns, expected) in table {
            assert_eq!(found(columns), expected, "{columns:?}");
        }
    }

    #[test]
    fn few_sizes_do() {
        let column = |algorithm, times: &[f64]| Column {
            algorithm,
            times_us: times.iter().copied().map(Some).collect(),
        };
        let one = [column(Ll, &[2.0]), column(St, &[1.0])];
        assert_eq!(crossovers(&[8], &one).expect("measured"), [(u64::MAX, St)]);
        let two = [column(Ll, &[1.0, 9.0]), column(St, &[5.0, 6.0])];
        assert_eq!(crossovers(&[4, 8], &two).expect("measured"), [(u64::MAX, Ll)]);
    }

    #[test]
    fn nothing_is_not_guessed() {
        assert!(crossovers(&[], &[]).is_err());
        assert!(crossovers(&[8, 16], &[]).is_err());
        let gap = Column { algorithm: Ll, times_us: vec![Some(1.0), None] };
        assert!(crossovers(&[8, 16], &[gap]).is_err());
    }

    /// Crossovers ascend, and lie below the first size at which they no longer hold.
    #[test]
    fn a_crossover_lies_between_its_sizes() {
        for (sizes, leads, expected) in [
            ((4, 8), [Some(1.0), Some(-1.0)], 6),
            ((1 << 20, 2 << 20), [Some(1.0), Some(-3.0)], (1 << 20) + (256 << 10)),
            ((1 << 20, 2 << 20), [Some(1.0), Some(-1e-9)], (2 << 20) - (128 << 10)),
            ((64, 128), [Some(-1.0), Some(-2.0)], 64),
            ((64, 128), [Some(1.0), None], 64),
        ] {
            assert_eq!(crossing(sizes, leads), expected, "{sizes:?} {leads:?}");
        }
    }
}

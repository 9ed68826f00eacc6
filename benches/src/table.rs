//! The table, with the columns of nccl-tests.

use crate::case::Case;
use crate::measure::{Mode, Outcome};
use anyhow::Result;
use symmem::Collective;

/// What the columns show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) mode: Mode,
    /// Whether NCCL's times stand beside ours.
    pub(crate) vs_nccl: bool,
}

/// Lines above the rows of a collective.
pub(crate) fn head(collective: Collective, Columns { mode, vs_nccl }: Columns) -> String {
    let count = match collective {
        Collective::AllReduce | Collective::Broadcast => "count",
        Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => "count/rank",
    };
    let left =
        format!("{:>12} {count:>12} {:>6} {:>6} {:>6} {:>15}", "size", "type", "redop", "mode", "algo");
    let units = format!("{:>12} {:>12} {:>6} {:>6} {:>6} {:>15}", "(B)", "(elements)", "", "", "", "");
    let (names, under) = match mode {
        Mode::Sim => (
            format!(
                "{:>6} {:>12} {:>12} {:>6} {:>7}",
                "time", "instructions", "link bytes", "hops", "#wrong"
            ),
            format!("{:>6} {:>12} {:>12} {:>6} {:>7}", "(none)", "(per op)", "(per op)", "", ""),
        ),
        _ => (
            format!("{:>10} {:>8} {:>8} {:>7}", "time", "algbw", "busbw", "#wrong"),
            format!("{:>10} {:>8} {:>8} {:>7}", "(us)", "(GB/s)", "(GB/s)", ""),
        ),
    };
    let (names, under) = if vs_nccl {
        (
            format!("{names} {:>9} {:>9} {:>6}", "NCCL R0", "NCCL R2", "ratio"),
            format!("{under} {:>9} {:>9} {:>6}", "(us)", "(us)", ""),
        )
    } else {
        (names, under)
    };
    let width = names.len();
    let lines = [
        format!("# {collective}"),
        format!("#{:>62}  {:^width$}  {:^width$}", "", "out of place", "in place"),
        format!("#{left}  {names}  {names}"),
        format!("#{units}  {under}  {under}"),
    ];
    lines.map(|line| line.trim_end().to_owned()).join("\n")
}

/// One row: the case, then the result out of place and, if there is one, in place.
pub(crate) fn row(
    case: &Case,
    columns: Columns,
    out_of_place: &Result<Outcome>,
    in_place: Option<&Result<Outcome>>,
) -> String {
    let outcomes = [Some(out_of_place), in_place].into_iter().flatten().flatten();
    let algorithm = outcomes.filter_map(|outcome| outcome.algorithm).next();
    let left = format!(
        " {:>12} {:>12} {:>6} {:>6} {:>6} {:>15}",
        case.bytes_total(),
        case.count,
        case.dtype,
        case.op.map_or("none", |op| op.name()),
        columns.mode.name(),
        algorithm.map_or("-", |algorithm| algorithm.name()),
    );
    let cells = |result: &Result<Outcome>| {
        let ours = cells(case, columns.mode, result);
        if columns.vs_nccl { ours + &nccl_cells(result) } else { ours }
    };
    let (out_of_place, in_place) = (cells(out_of_place), in_place.map_or("-".into(), cells));
    format!("{left}  {out_of_place}  {in_place}")
}

fn cells(case: &Case, mode: Mode, result: &Result<Outcome>) -> String {
    let outcome = result.as_ref().ok();
    let wrong = match outcome {
        None => "failed".to_owned(),
        Some(outcome) if outcome.checked_rounds == 0 => "N/A".to_owned(),
        Some(outcome) => outcome.findings.wrong.to_string(),
    };
    if mode == Mode::Sim {
        let work = outcome.and_then(|outcome| outcome.work);
        let [instructions, link_bytes, hops] = match work {
            None => ["-", "-", "-"].map(str::to_owned),
            Some(work) => {
                let hops = if outcome.is_some_and(|outcome| outcome.no_hops) {
                    "-".into()
                } else {
                    work.hops.to_string()
                };
                [work.instructions.to_string(), work.link_bytes.to_string(), hops]
            }
        };
        return format!("{:>6} {instructions:>12} {link_bytes:>12} {hops:>6} {wrong:>7}", "-");
    }
    let time_us = outcome.and_then(|outcome| outcome.time_us).map(|time| time.median);
    let rates = outcome.and_then(|outcome| outcome.rates(case, mode));
    format!(
        "{:>10} {:>8} {:>8} {wrong:>7}",
        cell(time_us),
        cell(rates.map(|rates| rates.algbw_gbps)),
        cell(rates.map(|rates| rates.busbw_gbps)),
    )
}

/// NCCL's times, and the better of them over ours.
fn nccl_cells(result: &Result<Outcome>) -> String {
    let outcome = result.as_ref().ok();
    let time_us =
        |buffers: usize| outcome.and_then(|outcome| outcome.nccl[buffers].time_us).map(|time| time.median);
    let ratio = outcome.and_then(Outcome::ratio_to_nccl);
    format!(" {:>9} {:>9} {:>6}", cell(time_us(0)), cell(time_us(1)), cell(ratio))
}

fn cell(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Findings;
    use crate::rivals::Theirs;
    use crate::timer::Spread;
    use anyhow::anyhow;
    use symmem::backend::WorkCounters;
    use symmem::{Algorithm, Dtype, Op};

    const CASE: Case = Case {
        collective: Collective::AllReduce,
        dtype: Dtype::Bf16,
        op: Some(Op::Avg),
        count: 1 << 20,
        n_ranks: 4,
    };

    fn columns(mode: Mode) -> Columns {
        Columns { mode, vs_nccl: false }
    }

    #[test]
    fn prints_as_nccl_tests() {
        let time_us = Some(Spread { median: 12.5, min: 12.0, max: 13.0 });
        let outcome = Outcome {
            algorithm: Some(Algorithm::TwoShotLdSt),
            time_us,
            checked_rounds: 1,
            ..Outcome::default()
        };
        let wrong = Outcome { findings: Findings { wrong: 7, first: None }, ..outcome.clone() };
        let text = head(Collective::AllReduce, columns(Mode::Graph))
            + "\n"
            + &row(&CASE, columns(Mode::Graph), &Ok(outcome), Some(&Ok(wrong)));
        let expected = "\
# all_reduce
#                                                                            out of place                            in place
#        size        count   type  redop   mode            algo        time    algbw    busbw  #wrong        time    algbw    busbw  #wrong
#         (B)   (elements)                                             (us)   (GB/s)   (GB/s)                (us)   (GB/s)   (GB/s)
      2097152      1048576   bf16    avg  graph  two_shot_ld_st       12.50   167.77   251.66       0       12.50   167.77   251.66       7";
        assert_eq!(text, expected);
    }

    #[test]
    fn nccl_stands_beside_ours() {
        let spread = |median| Some(Spread { median, min: median, max: median });
        let theirs = |time_us| Theirs { time_us, note: None };
        let nccl = [theirs(spread(25.0)), theirs(None)];
        let outcome = Outcome { time_us: spread(12.5), nccl, ..Outcome::default() };
        let columns = Columns { mode: Mode::Graph, vs_nccl: true };
        let head = head(Collective::AllReduce, columns);
        let row = row(&CASE, columns, &Ok(outcome), Some(&Err(anyhow!("broken"))));
        let lines: Vec<_> = head.lines().chain([row.as_str()]).collect();
        assert!(lines[2].ends_with("#wrong   NCCL R0   NCCL R2  ratio"), "{head}");
        assert!(lines[4].contains("N/A     25.00         -   2.00  "), "{row}");
        assert!(lines[4].ends_with("failed         -         -      -"), "{row}");
        assert_eq!(lines[2].len(), lines[4].len());
    }

    #[test]
    fn the_simulated_machine_has_no_time() {
        let work = Some(WorkCounters { instructions: 123_456, link_bytes: 4096, hops: 3 });
        let outcome = Outcome { algorithm: Some(Algorithm::Ll), work, ..Outcome::default() };
        let case = Case { collective: Collective::AllGather, op: None, ..CASE };
        let text = head(Collective::AllGather, columns(Mode::Sim))
            + "\n"
            + &row(&case, columns(Mode::Sim), &Ok(outcome), Some(&Err(anyhow!("broken"))));
        let expected = "\
# all_gather
#                                                                                 out of place                                       in place
#        size   count/rank   type  redop   mode            algo    time instructions   link bytes   hops  #wrong    time instructions   link bytes   hops  #wrong
#         (B)   (elements)                                       (none)     (per op)     (per op)                 (none)     (per op)     (per op)
      8388608      1048576   bf16   none    sim              ll       -       123456         4096      3     N/A       -            -            -      -  failed";
        assert_eq!(text, expected);
    }
}

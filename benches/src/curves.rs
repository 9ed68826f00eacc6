//! `--plot`: latency and bus bandwidth against size, ours and NCCL's, two panels for each collective, type and operation.

use crate::case::Case;
use crate::measure::Outcome;
use crate::nccl::Buffers;
use crate::plot::{Axis, Panel, Series, Unit, svg};
use crate::rates::rates;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Names of the lines.
const OURS: [&str; 2] = ["symmem", "symmem in place"];

/// What is drawn at the end.
pub(crate) struct Curves {
    file: Option<File>,
    sections: Vec<Section>,
}

/// One collective with one type and operation.
struct Section {
    title: String,
    lines: Vec<Line>,
}

/// Cases with their times in microseconds.
struct Line {
    name: String,
    points: Vec<(Case, f64)>,
}

impl Curves {
    /// Drawn to a file, which is made at once, or nowhere.
    ///
    /// # Errors
    ///
    /// If the file cannot be made.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self> {
        let make = |path: &Path| File::create(path).with_context(|| format!("making {}", path.display()));
        Ok(Self { file: path.map(make).transpose()?, sections: Vec::new() })
    }

    /// Adds one measurement.
    pub(crate) fn add(&mut self, case: &Case, in_place: bool, outcome: &Result<Outcome>) {
        let Ok(outcome) = outcome else { return };
        if self.file.is_none() {
            return;
        }
        let op = case.op.map_or(String::new(), |op| format!(" {op}"));
        let title = format!("{} {}{op}, {} ranks", case.collective, case.dtype, case.n_ranks);
        if self.sections.last().is_none_or(|section| section.title != title) {
            self.sections.push(Section { title, lines: Vec::new() });
        }
        let Some(section) = self.sections.last_mut() else { return };
        let place = if in_place { " in place" } else { "" };
        let theirs = Buffers::ALL.map(|buffers| format!("{}{place}", buffers.name()));
        let times = outcome.nccl.iter().map(|theirs| theirs.time_us);
        let all = theirs.into_iter().zip(times);
        for (name, time) in [(OURS[usize::from(in_place)].to_owned(), outcome.time_us)].into_iter().chain(all)
        {
            if let Some(time) = time {
                section.line(name).points.push((*case, time.median));
            }
        }
    }

    /// Draws all of it.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn write(&self) -> Result<()> {
        let Some(mut file) = self.file.as_ref() else { return Ok(()) };
        let panels: Vec<_> = self.sections.iter().flat_map(Section::panels).collect();
        file.write_all(svg(&panels).as_bytes()).context("writing the plot")
    }
}

impl Section {
    fn line(&mut self, name: String) -> &mut Line {
        let place = self.lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
            self.lines.push(Line { name, points: Vec::new() });
            self.lines.len() - 1
        });
        &mut self.lines[place]
    }

    fn panels(&self) -> [Panel; 2] {
        let latency = |_: &Case, time_us: f64| Some(time_us);
        let bandwidth = |case: &Case, time_us: f64| rates(case, time_us).map(|rates| rates.busbw_gbps);
        [self.panel("time (us)", latency), self.panel("bus bandwidth (GB/s)", bandwidth)]
    }

    fn panel(&self, label: &'static str, value: impl Fn(&Case, f64) -> Option<f64>) -> Panel {
        let point = |(case, time_us): &(Case, f64)| Some((case.bytes_total() as f64, value(case, *time_us)?));
        let series = |line: &Line| Series {
            name: line.name.clone(),
            points: line.points.iter().filter_map(point).collect(),
        };
        Panel {
            title: self.title.clone(),
            x: Axis { label: "size", unit: Unit::Bytes },
            y: Axis { label, unit: Unit::Decimal },
            series: self.lines.iter().map(series).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::Theirs;
    use crate::timer::Spread;
    use symmem::{Collective, Dtype, Op};

    fn outcome(ours: f64, r2: Option<f64>) -> Result<Outcome> {
        let spread = |median| Spread { median, min: median, max: median };
        let nccl = [Theirs::default(), Theirs { time_us: r2.map(spread), note: None }];
        Ok(Outcome { time_us: Some(spread(ours)), nccl, ..Outcome::default() })
    }

    fn case(count: u64, op: Op) -> Case {
        Case { collective: Collective::AllReduce, dtype: Dtype::F32, op: Some(op), count, n_ranks: 2 }
    }

    #[test]
    fn each_collective_has_a_panel_of_times_and_one_of_bandwidths() {
        let path = std::env::temp_dir().join(format!("symmem-curves-{}.svg", std::process::id()));
        let mut curves = Curves::open(Some(&path)).expect("a temporary file");
        curves.add(&case(2, Op::Sum), false, &outcome(2.0, Some(4.0)));
        curves.add(&case(2, Op::Sum), true, &outcome(3.0, None));
        curves.add(&case(1000, Op::Sum), false, &outcome(4.0, Some(8.0)));
        curves.add(&case(1000, Op::Sum), true, &Err(anyhow::anyhow!("failed")));
        curves.add(&case(2, Op::Max), false, &outcome(2.0, None));
        let panels: Vec<_> = curves.sections.iter().flat_map(Section::panels).collect();
        let titles: Vec<_> = panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "all_reduce f32 sum, 2 ranks",
                "all_reduce f32 sum, 2 ranks",
                "all_reduce f32 max, 2 ranks",
                "all_reduce f32 max, 2 ranks"
            ]
        );
        let lines = |panel: &Panel| -> Vec<(String, Vec<(f64, f64)>)> {
            panel.series.iter().map(|series| (series.name.clone(), series.points.clone())).collect()
        };
        let expected = [
            ("symmem".to_owned(), vec![(8.0, 2.0), (4000.0, 4.0)]),
            ("NCCL R2".to_owned(), vec![(8.0, 4.0), (4000.0, 8.0)]),
            ("symmem in place".to_owned(), vec![(8.0, 3.0)]),
        ];
        assert_eq!(lines(&panels[0]), expected);
        assert_eq!(lines(&panels[1])[0].1[1], (4000.0, 1.0));
        curves.write().expect("it is open");
        let drawn = std::fs::read_to_string(&path).expect("it was drawn");
        std::fs::remove_file(&path).expect("it was there");
        assert!(
            ["NCCL R2", "bus bandwidth (GB/s)", "f32 max"].iter().all(|words| drawn.contains(words)),
            "{drawn}"
        );
    }

    #[test]
    fn nothing_is_kept_for_no_picture() {
        let mut curves = Curves::open(None).expect("nothing to make");
        curves.add(&case(2, Op::Sum), false, &outcome(2.0, None));
        assert!(curves.sections.is_empty() && curves.write().is_ok());
    }
}
